"""Trees of jaxrb's objects as plain JSON and a list of arrays, and back.

Only classes that jaxrb's packages offer are written and made: a file can run nothing, nor name a
class of another package. Objects are made from their fields as they were, without their
constructors, which might change the last digit (`State` normalises its quaternions).
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable
from itertools import zip_longest
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from .. import bodies, control, flows, impact, shapes
from .._hosts import spans_processes
from ..contact import Moving
from ..simulate import (
    RESULTS,
    ContactForces,
    EventDriven,
    Impacts,
    MoreauJean,
    PairLaw,
    SaveAt,
    Solution,
    Stats,
    World,
)

# What holds functions of its user's.
_UNWRITTEN = (shapes.Implicit, bodies.Force, Moving)


def _written(package: Any) -> list[type]:
    """The classes that a package offers and a file can hold."""
    offered = [kind for kind in vars(package).values() if isinstance(kind, type)]
    modules = [kind for kind in offered if issubclass(kind, eqx.Module)]
    return [kind for kind in modules if not inspect.isabstract(kind) and kind not in _UNWRITTEN]


_PACKAGES = (shapes, control, bodies, impact, flows)
_OFFERED = [kind for package in _PACKAGES for kind in _written(package)]
_OWN = (
    ContactForces,
    EventDriven,
    Impacts,
    MoreauJean,
    PairLaw,
    SaveAt,
    Solution,
    Stats,
    World,
)
_CLASSES: dict[str, type] = {kind.__name__: kind for kind in (*_OFFERED, *_OWN)}
_ENUMERATIONS = {
    "RESULTS": jax.tree.structure(RESULTS.successful),
    "IMPACT_RESULTS": jax.tree.structure(impact.IMPACT_RESULTS.successful),
}


def host_array(value: Any, where: str) -> np.ndarray:
    """The numbers of an array leaf.

    Raises:
        ValueError: naming the place, if they are traced, or no numbers.
    """
    if isinstance(value, Tracer):
        raise ValueError(f"{where} is traced and has no numbers: save outside of jit and vmap.")
    if spans_processes(value):
        raise ValueError(
            f"{where} is spread over several processes: let each save what it holds, as "
            "simulate_parts does."
        )
    array = np.asarray(value)
    if array.dtype.kind not in "biuf":
        raise ValueError(f"{where} has the dtype {array.dtype}, which files do not hold.")
    return array


def encode(
    thing: Any, where: str, arrays: list, other: Callable[[Any, str, list], Any] | None = None
) -> Any:
    """JSON for `thing`; its arrays are appended to `arrays` and referred to by their number.

    Args:
        thing: World, State, Solution or another of jaxrb's objects; numbers, strings, arrays;
            tuples, lists and dicts of these.
        where: how errors call it.
        arrays: as above.
        other: makes JSON, by the same arguments, of what no file could rebuild; by default that is
            an error.

    Raises:
        ValueError: naming the place of what cannot be written.
    """
    if thing is None or isinstance(thing, (bool, int, float, str)):
        return thing
    if isinstance(thing, (jax.Array, np.ndarray, np.generic)):
        host_array(thing, where)
        arrays.append(thing)
        return {"array": len(arrays) - 1}
    if type(thing) in (tuple, list):
        items = [encode(item, f"{where}[{i}]", arrays, other) for i, item in enumerate(thing)]
        return {type(thing).__name__: items}
    if type(thing) is dict:
        for key in thing:
            if not isinstance(key, str):
                raise ValueError(f"{where} has the key {key!r}; keys must be strings.")
        values = {k: encode(v, f"{where}[{k!r}]", arrays, other) for k, v in thing.items()}
        return {"dict": values}
    return _encode_object(thing, where, arrays, _refuse if other is None else other)


def _encode_object(thing: Any, where: str, arrays: list, other: Callable) -> Any:
    if _CLASSES.get(type(thing).__name__) is type(thing):
        names = _fields(type(thing))
        fields = {n: encode(getattr(thing, n), f"{where}.{n}", arrays, other) for n in names}
        return {"class": type(thing).__name__, "fields": fields}
    structure = jax.tree.structure(thing)
    for name, kind in _ENUMERATIONS.items():
        if structure == kind:
            return {"enumeration": name, "value": encode(jax.tree.leaves(thing)[0], where, arrays)}
    return other(thing, where, arrays)


def _refuse(thing: Any, where: str, arrays: list) -> Any:
    own = isinstance(thing, _UNWRITTEN)
    holds = "holds functions of yours" if own else "is no class"
    raise ValueError(
        f"{where} is of the type {type(thing).__name__}, which {holds} that a file could rebuild. "
        "Save its numbers alone with save(..., structure=False), and open them with "
        "load(..., like=template)."
    )


def decode(node: Any, arrays: list[jax.Array]) -> Any:
    """The inverse of `encode`.

    Raises:
        ValueError: for what `encode` does not write.
    """
    if node is None or isinstance(node, (bool, int, float, str)):
        return node
    match node:
        case {"array": int(index)}:
            made = arrays[index]
        case {"tuple": list(items)}:
            made = tuple(decode(item, arrays) for item in items)
        case {"list": list(items)}:
            made = [decode(item, arrays) for item in items]
        case {"dict": dict(items)}:
            made = {key: decode(value, arrays) for key, value in items.items()}
        case {"enumeration": str(name), "value": value} if name in _ENUMERATIONS:
            made = jax.tree.unflatten(_ENUMERATIONS[name], [decode(value, arrays)])
        case {"class": str(name), "fields": dict(fields)} if name in _CLASSES:
            made = _object(name, {key: decode(value, arrays) for key, value in fields.items()})
        case _:
            raise ValueError(f"it holds {str(node)[:60]!r}")
    return made


def _object(name: str, fields: dict[str, Any]) -> Any:
    kind = _CLASSES[name]
    if set(fields) != set(_fields(kind)):
        raise ValueError(f"its {name} has the fields {sorted(fields)}")
    made = object.__new__(kind)
    for field, value in fields.items():
        object.__setattr__(made, field, value)
    return made


def numbers(thing: Any) -> tuple[list[str], list]:
    """The arrays of a tree, in the order of JAX, and their places in it."""
    found, _ = jax.tree_util.tree_flatten_with_path(eqx.filter(thing, eqx.is_array))
    return [jax.tree_util.keystr(path) for path, _ in found], [array for _, array in found]


def with_numbers(like: Any, places: list[str], arrays: list[jax.Array]) -> Any:
    """`like` with other arrays.

    Raises:
        ValueError: if their places or a shape differs.
    """
    old, rest = eqx.partition(like, eqx.is_array)
    here, there = (
        [f"{place} of the shape {array.shape}" for place, array in zip(*pair, strict=True)]
        for pair in (numbers(old), (places, arrays))
    )
    for one, other in zip_longest(here, there, fillvalue="nothing more"):
        if one != other:
            raise ValueError(f"the template has {one}, where the file has {other}")
    return eqx.combine(jax.tree.unflatten(jax.tree.structure(old), arrays), rest)


def as_jax(array: np.ndarray, weak: bool) -> jax.Array:
    """The array on the device, in its dtype; a scalar from a Python number stays weakly typed."""
    if weak and array.ndim == 0:
        scalar = jnp.asarray(array.item())
        if scalar.dtype == array.dtype:
            return scalar
    return jnp.asarray(array)


def _fields(kind: type) -> list[str]:
    return [field.name for field in dataclasses.fields(kind)]
