"""By what a motion is differentiated: every number in its state, its world and its times."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float

from ...bodies import State
from ...simulate import World

# Entries of a step of `State.retract`.
_STATE = {
    "position": slice(0, 3),
    "attitude": slice(3, 6),
    "velocity": slice(6, 9),
    "spin": slice(9, 12),
}
_OF_LAWS = ("restitution", "tangential_restitution", "friction")
PARAMETERS = (
    *_STATE,
    "size",
    "mass",
    "inertia",
    *_OF_LAWS,
    "gravity",
    "obstacle",
    "dt",
    "t1",
)


class Motion(NamedTuple):
    """What is simulated."""

    world: World
    state: State
    dt: Float[Array, ""]  # [s]
    t1: Float[Array, ""]  # [s]


class Block(NamedTuple):
    """Some numbers that are changed together.

    Attributes:
        parameter: what they are, as the option of the command names it.
        labels: of each.
        scale: of a step of them.
        change: of a motion and the changes, shape (len(labels),), to the changed motion.
    """

    parameter: str
    labels: tuple[str, ...]
    scale: float
    change: Callable[[Motion, Array], Motion]


def blocks(motion: Motion, chosen: Collection[str] | None, steps: bool) -> list[Block]:
    """All numbers of a motion, in the order in which they must be changed.

    Args:
        motion: gives the structure.
        chosen: names of parameters; None for all.
        steps: whether the motion has a step size.
    """
    world, found = motion.world, []
    for i, body in enumerate(world.bodies):
        of = f"bodies[{i}]"
        found += [_state_block(i, name, where) for name, where in _STATE.items()]
        found.append(_leaves("size", f"{of}.shape", lambda w, i=i: w.bodies[i].shape, world))
        found.append(Block("mass", (f"{of}.mass",), 1.0, _mass(i)))
        # After mass and size, from which it follows in these worlds.
        labels = tuple(f"{of}.inertia[{k}]" for k in range(_moments(body)))
        found.append(Block("inertia", labels, 1.0, _inertia(i)))
    found += [_law_block(world, name) for name in _law_numbers(world)]
    found.append(_leaves("gravity", "gravity", lambda w: w.gravity, world))
    found.append(_leaves("obstacle", "obstacles", lambda w: w.obstacles, world))
    if steps:
        found.append(Block("dt", ("dt",), 1.0, _dt))
    found.append(Block("t1", ("t1",), 1.0, lambda m, x: m._replace(t1=m.t1 + x[0])))
    wanted = [b for b in found if chosen is None or b.parameter in chosen]
    return [block for block in wanted if block.labels]


def changed(motion: Motion, parts: list[Block], step: Float[Array, " n"]) -> Motion:
    """The motion with all changes; `step` has an entry for each label of each block."""
    at = 0
    for block in parts:
        motion = block.change(motion, step[at : at + len(block.labels)])
        at += len(block.labels)
    return motion


def _state_block(i: int, name: str, where: slice) -> Block:
    def change(motion: Motion, x):
        step = jnp.zeros((len(motion.world.bodies), 12), x.dtype).at[i, where].set(x)
        return motion._replace(state=motion.state.retract(step))

    return Block(name, tuple(f"bodies[{i}].{name}[{k}]" for k in range(3)), 1.0, change)


def _leaves(parameter: str, prefix: str, where: Callable, world: World) -> Block:
    """All real numbers of a part of the world, each by itself."""
    numbers = eqx.filter(where(world), eqx.is_inexact_array)
    labels = []
    for path, leaf in jax.tree_util.tree_leaves_with_path(numbers):
        name = prefix + jax.tree_util.keystr(path)
        for index in np.ndindex(leaf.shape):
            labels.append(name + "".join(f"[{k}]" for k in index))

    def change(motion: Motion, x):
        part = where(motion.world)
        real, rest = eqx.partition(part, eqx.is_inexact_array)
        flat, restore = ravel_pytree(real)
        part = eqx.combine(restore(flat + x), rest)
        return motion._replace(world=eqx.tree_at(where, motion.world, part))

    return Block(parameter, tuple(labels), 1.0, change)


def _law_numbers(world: World) -> list[str]:
    law = world.contact_law
    return [name for name in _OF_LAWS if getattr(law, name, None) is not None]


def _law_block(world: World, name: str) -> Block:
    # In steps of a tenth: restitution and friction lie between 0 and 1.
    block = _leaves(name, name, lambda w: getattr(w.contact_law, name), world)
    return block._replace(scale=0.1)


def _mass(i: int):
    def change(motion: Motion, x):
        where = lambda w: w.bodies[i].mass  # noqa: E731
        mass = where(motion.world) * (1 + x[0])
        return motion._replace(world=eqx.tree_at(where, motion.world, mass))

    return change


def _moments(body) -> int:
    return 3 if body.centered().inertia.ndim == 1 else 6


def _inertia(i: int):
    """Relative changes of principal moments, or of all entries of a tensor by its trace."""

    def change(motion: Motion, x):
        body = motion.world.bodies[i].centered()
        inertia = body.inertia
        if inertia.ndim == 1:
            inertia = inertia * (1 + x)
        else:
            rows, columns = jnp.triu_indices(3)
            half = jnp.zeros((3, 3), x.dtype).at[rows, columns].set(x)
            inertia = inertia + jnp.trace(inertia) / 6 * (half + half.T)
        body = eqx.tree_at(lambda b: b.inertia, body, inertia)
        return motion._replace(world=eqx.tree_at(lambda w: w.bodies[i], motion.world, body))

    return change


def _dt(motion: Motion, x):
    return motion._replace(dt=motion.dt * (1 + x[0]))
