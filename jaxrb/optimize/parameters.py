"""Which numbers of a world are free, and how steps move them."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._validate import known, real_array
from .charts import AbstractChart, Fixed, PhysicalInertia, checked

Tree = TypeVar("Tree")
# Of what is no array of a world.
_UNIFORM = (
    " The inertia of a body of uniform density follows from its shape and mass; to fit it, put "
    "body.centered() in its place, whose inertia is given."
)
# A path such as "bodies[0].mass", a function such as lambda w: w.bodies[0].mass, or several of
# them whose numbers are one.
Where = str | Callable | tuple


class _Entry(NamedTuple):
    """One free array, which may stand at several leaves of the tree."""

    name: str
    leaves: tuple[int, ...]
    chart: AbstractChart
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        return self.chart.n_coordinates(self.shape)

    def value(self, leaves: list) -> Array:
        return real_array(leaves[self.leaves[0]], self.name)


class _Leaf(int):
    """The number of a leaf, which no static number of a tree can be taken for."""


class Parameters(eqx.Module):
    """The free numbers of a world, or of any tree of arrays, each with a chart.

        free = Parameters(world, {
            "contact_law.restitution": Bounded(0, 1),
            lambda w: w.contact_law.friction: Positive(),
            ("bodies[0].mass", "bodies[1].mass"): Positive(),   # one number for both
            "bodies[0].inertia": PhysicalInertia(),
        })

    A step of all of them is one vector, whose zero is where the numbers of a world stand:
    `apply(world, step)` is another world. So any optimiser of vectors works on a world:
    `jax.grad(lambda step: loss(free.apply(world, step)))(free.flat())`.

    All of it is static, and equal for equal worlds and charts: it can be closed over by a compiled
    function, and an argument that is static.

    Attributes:
        names: of the free arrays: the paths.
        charts: of each.
        coordinate_names: of the entries of a step: the path, with the number of the coordinate
            if there are several.
        size: the length of a step.

    Raises:
        ValueError: if a path is not there, with those that are; if a value is none of its chart;
            if a number is named twice; if those that are to be one number differ.
    """

    entries: tuple[_Entry, ...] = eqx.field(static=True)
    structure: Any = eqx.field(static=True)
    dtype: Any = eqx.field(static=True)

    def __init__(self, tree: Any, charts: Mapping[Where, AbstractChart]):
        leaves, self.structure = jax.tree.flatten(tree)
        paths = _paths(tree)
        entries: list[_Entry] = []
        taken: dict[int, str] = {}
        for where, chart in charts.items():
            if not isinstance(chart, AbstractChart):
                raise ValueError(f"Parameters: the chart of {where!r} is none: {chart!r}.")
            places = _places(where, self.structure, paths)
            name = " = ".join(paths[place] for place in places)
            for place in places:
                if place in taken:
                    raise ValueError(f"Parameters: {paths[place]} is named twice.")
                taken[place] = name
            value = real_array(leaves[places[0]], name)
            _check_entry(name, value, [leaves[place] for place in places], chart)
            entries.append(_Entry(name, places, chart, value.shape))
        self.entries = tuple(entries)
        floats = [leaf for leaf in leaves if jnp.issubdtype(jnp.result_type(leaf), jnp.floating)]
        self.dtype = jnp.result_type(*floats) if floats else jnp.result_type(float)

    def __repr__(self) -> str:
        inner = ", ".join(f"{entry.name}: {entry.chart}" for entry in self.entries)
        return f"Parameters({inner})"

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(entry.name for entry in self.entries)

    @property
    def charts(self) -> tuple[AbstractChart, ...]:
        return tuple(entry.chart for entry in self.entries)

    @property
    def size(self) -> int:
        return sum(entry.size for entry in self.entries)

    @property
    def coordinate_names(self) -> tuple[str, ...]:
        names = []
        for entry in self.entries:
            several = entry.size > 1
            names += [f"{entry.name}[{k}]" if several else entry.name for k in range(entry.size)]
        return tuple(names)

    @property
    def largest_steps(self) -> np.ndarray:
        """Of each coordinate, how far an optimiser may go at once."""
        return np.concatenate(
            [
                np.zeros(0),
                *(np.full(entry.size, entry.chart.largest_step) for entry in self.entries),
            ]
        )

    def flat(self) -> Float[Array, " size"]:
        """The step that changes nothing, from which an optimiser starts: zeros."""
        return jnp.zeros(self.size, self.dtype)

    def apply(self, tree: Tree, step: Float[Array, " size"]) -> Tree:
        """The world with its free numbers moved by a step, shape (size,).

        Raises:
            ValueError: if the step has another shape, or the world another structure than the
                one the parameters were chosen from.
        """
        step = real_array(step, "step", (self.size,))
        leaves = self._leaves(tree)
        for entry, part in zip(self.entries, self._split(step), strict=True):
            value = entry.value(leaves)
            moved = entry.chart.retract(value, part.astype(value.dtype))
            for place in entry.leaves:
                leaves[place] = moved
        return jax.tree.unflatten(self.structure, leaves)

    def local(self, tree: Any, other: Any) -> Float[Array, " size"]:
        """The step that leads from a world to another: apply(tree, step) has its free numbers."""
        own, others = self._leaves(tree), self._leaves(other)
        steps = [
            entry.chart.local(entry.value(own), entry.value(others)).astype(self.dtype)
            for entry in self.entries
        ]
        return jnp.concatenate([self.flat()[:0], *steps])

    def values(self, tree: Any) -> dict[str, Array]:
        """The free arrays of a world by their names."""
        leaves = self._leaves(tree)
        return {entry.name: entry.value(leaves) for entry in self.entries}

    def _leaves(self, tree: Any) -> list:
        leaves, structure = jax.tree.flatten(tree)
        if structure != self.structure:
            raise ValueError(
                "The parameters were chosen from a world of another structure (other bodies, "
                "shapes, laws or static options): make Parameters anew from this one."
            )
        return leaves

    def _split(self, step: Array) -> list[Array]:
        ends = np.cumsum([entry.size for entry in self.entries])
        return jnp.split(step, ends[:-1]) if self.entries else []


def _paths(tree: Any) -> list[str]:
    """Of all leaves, in the way of Python: bodies[0].mass."""
    found, _ = jax.tree_util.tree_flatten_with_path(tree)
    return [jax.tree_util.keystr(path).removeprefix(".") for path, _ in found]


def _places(where: Where, structure: Any, paths: list[str]) -> tuple[int, ...]:
    """The leaves that a path, a function or several of them choose."""
    if isinstance(where, tuple):
        if not where:
            raise ValueError("Parameters: a tuple must name at least one array; got ().")
        return tuple(place for one in where for place in _places(one, structure, paths))
    if isinstance(where, str):
        if where in paths:
            return (paths.index(where),)
        raise ValueError(_no_such(where, paths))
    # A tree of the same structure whose leaves say which they are.
    numbered = jax.tree.unflatten(structure, map(_Leaf, range(structure.num_leaves)))
    try:
        chosen = where(numbered)
    except Exception as error:
        raise ValueError(f"Parameters: a function does not fit this world: {error}") from error
    chosen = chosen if isinstance(chosen, tuple | list) else (chosen,)
    if not chosen or not all(isinstance(place, _Leaf) for place in chosen):
        wrong = [one for one in chosen if not isinstance(one, _Leaf)]
        none = any(one is None for one in wrong)
        found = "None" if none else f"a {type(wrong[0]).__name__}" if wrong else "nothing"
        inertia = f" If this is an inertia:{_UNIFORM}" if none else ""
        raise ValueError(
            "Parameters: a function must return one array of the world, or a tuple of such whose "
            f"numbers are one; it returned {found}.{inertia} The arrays are: {', '.join(paths)}."
        )
    return tuple(map(int, chosen))


def _no_such(where: str, paths: list[str]) -> str:
    below = [path for path in paths if path.startswith((f"{where}.", f"{where}["))]
    if below:
        return f"Parameters: {where!r} is no array, but these of it are: {', '.join(below)}."
    close = difflib.get_close_matches(where, paths, n=1)
    meant = f" Did you mean {close[0]!r}?" if close else ""
    inertia = _UNIFORM if where.endswith(".inertia") else ""
    return f"Parameters: there is no {where!r}.{meant}{inertia} There are: {', '.join(paths)}."


def _check_entry(name: str, value: Array, leaves: list, chart: AbstractChart) -> None:
    if name.endswith(".inertia") and not isinstance(chart, PhysicalInertia | Fixed):
        raise ValueError(
            f"Parameters: {name} needs PhysicalInertia: steps of its entries lead to tensors that "
            "no solid has."
        )
    try:
        checked(chart, value, f"Parameters: {name}")
    except ValueError as error:
        text = str(error)
        raise ValueError(text if name in text else f"Parameters: {name}: {text}") from None
    if any(jnp.shape(leaf) != value.shape for leaf in leaves):
        raise ValueError(f"Parameters: {name} are to be one number, but differ in shape.")
    numbers = [number for number in map(known, leaves) if number is not None]
    if any(not np.array_equal(number, numbers[0]) for number in numbers[1:]):
        raise ValueError(f"Parameters: {name} are to be one number, but differ in the world.")
