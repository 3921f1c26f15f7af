"""A short text by which a later process knows whether it was given the same things."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import inspect
import json
from types import CodeType
from typing import Any

import jax
import numpy as np

from .structure import encode, host_array


def fingerprint(thing: Any, where: str) -> str:
    """A digest of all numbers of a tree, bit by bit, and of its structure.

    Functions are known by name, code and what they close over; the same text gives another digest
    under another version of Python. What is none of jaxrb's, no module, dataclass or tree of JAX
    is known by its type alone.

    Args:
        thing: to know again.
        where: how errors call it.

    Raises:
        ValueError: naming the place of numbers that are traced, or no numbers.
    """
    arrays: list = []
    tree = encode(thing, where, arrays, _described)
    digest = hashlib.sha256(json.dumps(tree, sort_keys=True).encode())
    for array in arrays:
        values = np.ascontiguousarray(host_array(array, where))
        digest.update(f"{values.dtype.str} {values.shape}".encode())
        digest.update(values.data if values.size else b"")
    return digest.hexdigest()


def _described(thing: Any, where: str, arrays: list) -> Any:
    """JSON for what no file could rebuild."""
    held = {
        name: encode(item, f"{where}.{name}", arrays, _described)
        for name, item in _held(thing).items()
        if item is not thing  # as a function that closes over itself
    }
    return {
        "kind": f"{type(thing).__module__}.{type(thing).__qualname__}",
        "name": getattr(thing, "__qualname__", None),
        "code": _code(thing.__code__) if inspect.isfunction(thing) else None,
        "held": held,
    }


def _held(thing: Any) -> dict[str, Any]:
    """What something consists of, by names."""
    if isinstance(thing, functools.partial):
        held = {"func": thing.func, "args": thing.args, "keywords": thing.keywords}
    elif inspect.ismethod(thing):
        held = {"func": thing.__func__, "self": thing.__self__}
    elif inspect.isfunction(thing):
        held = dict(inspect.getclosurevars(thing).nonlocals)
        held |= {"defaults": thing.__defaults__, "kwdefaults": thing.__kwdefaults__}
    elif hasattr(thing, "__wrapped__"):  # as by jit
        held = {"wrapped": thing.__wrapped__}
    elif dataclasses.is_dataclass(thing) and not isinstance(thing, type):
        held = {field.name: getattr(thing, field.name) for field in dataclasses.fields(thing)}
    else:
        held = {f"leaves[{i}]": leaf for i, leaf in enumerate(jax.tree.leaves(thing))}
    return held


def _code(code: CodeType) -> list:
    """What a function does, without where in its file it stands."""
    constants = [_code(c) if isinstance(c, CodeType) else _constant(c) for c in code.co_consts]
    return [hashlib.sha256(code.co_code).hexdigest(), list(code.co_names), constants]


def _constant(value: Any) -> str:
    # The order of a set differs from process to process.
    return repr(sorted(map(repr, value)) if isinstance(value, frozenset) else value)
