"""The cost of a frictional impact, relative to steps of Euler's rule through it."""

from __future__ import annotations

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..impact import (
    AbstractContactLaw,
    Coulomb,
    Frictionless,
    solve_impact,
    solve_impact_batch,
)
from ..simulate import simulate_batch
from .problem import CASE, METHOD, N_STEPS, T1, heights, start
from .record import Column, Record, Table
from .timing import Quantiles, round_robin

BATCHES = (1, 1024, 100_000)
STEPS = (100, 1000)  # of Euler's rule until compression would end without friction
LANES = 1024  # of the simulation
MOST_FOR_EULER = 4096  # its lanes wait for the slowest of them
OURS = "jit(vmap(solve_impact))"
ALONE, IN_FLIGHT = "impacts alone", f"Case I by simulate_batch, {N_STEPS} steps"
SCENES = (ALONE, IN_FLIGHT)
TABLE = Table(
    "random impacts, mu in [0, 2], e in [0, 1]",
    "method",
    (
        Column("us", "us an impact or a world", ".3g"),
        Column("ratio", "time over the first", "", 24, spread=True),
        Column("error", "error", ".1e", 8),
        Column("impacts", "impacts a world", ".2f"),
    ),
    (
        "us: best of the rounds; ratio: median of the rounds (least .. most)",
        "error: median over the impacts, |I - I of solve_impact| / |I|",
        "the paper's own, icosahedron and tetrahedron, one at a time in Mathematica (Table 1): "
        "Euler's rule 31 200 us with error 9e-4, its Algorithm 1 with adaptive steps 413 us with "
        "error 1e-3 (pin and ball: 401 us, 6e-5)",
    ),
)


class Impacts(NamedTuple):
    """Random impacts; arrays have a leading axis."""

    w: Float[Array, "n 3 3"]
    velocity: Float[Array, "n 3"]
    friction: Float[Array, " n"]
    restitution: Float[Array, " n"]


def measure(record: Record, scene: str, batches: tuple[int, ...]) -> None:
    """Adds the rows of a scene."""
    if scene == IN_FLIGHT:
        _in_flight(record)
        return
    for batch in batches:
        _run_batch(record, batch)


def _in_flight(record: Record) -> None:
    """The cost of friction in a simulation."""
    world, state = CASE.build()
    states = jax.vmap(start, in_axes=(None, 0))(state, heights(LANES))

    def fly(law: AbstractContactLaw):
        there = eqx.tree_at(lambda world: world.contact_law, world, law)
        return lambda: simulate_batch(there, states, METHOD, T1, throw=False)

    smooth = "without friction"
    runs = {smooth: fly(Frictionless()), "mu = 0.3": fly(Coulomb(0.3, restitution=1.0))}
    seconds = round_robin(runs, record.rounds)
    for name, taken in seconds.items():
        ratio = Quantiles.of(taken / seconds[smooth])
        impacts = float(runs[name]().impacts.count.mean())
        cost = taken.min() / LANES * 1e6
        record.add(LANES, name, us=cost, **ratio.named("ratio"), impacts=impacts)


def _run_batch(record: Record, batch: int) -> None:
    impacts = _random(batch)
    law = jax.vmap(Coulomb)(impacts.friction, impacts.restitution)
    programs = {
        OURS: jax.jit(jax.vmap(_solve)),
        "solve_impact_batch": lambda w, velocity, *_: (
            solve_impact_batch(w, velocity, law, batch_law=True).impulse
        ),
    }
    for steps in STEPS if batch <= MOST_FOR_EULER else ():
        programs[f"Euler, {steps} steps"] = jax.jit(jax.vmap(_euler(steps)))
    found = {name: np.asarray(program(*impacts)) for name, program in programs.items()}
    ours = found[OURS]
    calls = {name: lambda program=program: program(*impacts) for name, program in programs.items()}
    seconds = round_robin(calls, record.rounds)
    for name, taken in seconds.items():
        ratio = Quantiles.of(taken / seconds[OURS])
        off = np.linalg.norm(found[name] - ours, axis=-1) / np.linalg.norm(ours, axis=-1)
        error = None if name == OURS else np.median(off)
        record.add(batch, name, us=taken.min() / batch * 1e6, **ratio.named("ratio"), error=error)


def _solve(w, velocity, friction, restitution) -> Float[Array, "3"]:
    return solve_impact(w, velocity, Coulomb(friction, restitution), throw=False).impulse


def _random(n: int) -> Impacts:
    """Two boxes that hit each other in a point of each."""
    rng = np.random.default_rng(0)

    def response() -> np.ndarray:
        mass = np.exp(0.7 * rng.normal(size=n))
        half = rng.uniform(0.1, 1.0, size=(n, 3))
        inertia = ((half**2).sum(1, keepdims=True) - half**2) / 3 * mass[:, None]
        turn = np.linalg.qr(rng.normal(size=(n, 3, 3)))[0]
        arm = np.einsum("nij,nj->ni", turn, rng.uniform(-1, 1, size=(n, 3)) * half)
        across = np.cross(np.eye(3)[None], arm[:, None, :])
        inverse = np.einsum("nij,nj,nkj->nik", turn, 1 / inertia, turn)
        return np.eye(3) / mass[:, None, None] + across @ inverse @ np.swapaxes(across, 1, 2)

    velocity = rng.normal(size=(n, 3))
    velocity[:, 2] = -np.abs(velocity[:, 2])
    numbers = (response() + response(), velocity, rng.uniform(0, 2, n), rng.uniform(0, 1, n))
    return Impacts(*(jnp.asarray(number, float) for number in numbers))


def _euler(steps: int):
    """The usual way through an impact: the sliding velocity is stepped along the normal impulse
    until restitution ends by Stronge's hypothesis."""

    def impulse(w, velocity, friction, restitution):
        step = -velocity[2] / w[2, 2] / steps
        b, d = w[:2, :2], w[:2, 2]
        determinant = b[0, 0] * b[1, 1] - b[0, 1] ** 2
        resist = jnp.stack([b[1, 1] * d[0] - b[0, 1] * d[1], b[0, 0] * d[1] - b[0, 1] * d[0]])
        resist = resist / determinant
        sticky = jnp.sum(resist**2) <= friction**2

        def unfinished(carry):
            _, _, work, stored, count = carry
            return (work < restitution**2 * stored) & (count < 40 * steps)

        def advance(carry):
            v, total, work, stored, count = carry
            speed = jnp.sqrt(v[0] ** 2 + v[1] ** 2)
            slow = speed <= step * friction * jnp.sqrt(jnp.sum(b**2))
            slip = -friction * v[:2] / jnp.where(speed > 0, speed, 1.0)
            push = jnp.where(slow & sticky, -resist, slip) * step
            change = jnp.stack([push[0], push[1], step])
            after = v + jnp.sum(w * change[None], axis=1)
            energy = (v[2] + after[2]) / 2 * step
            compressing = after[2] < 0
            stored = stored - jnp.where(compressing, energy, 0.0)
            work = jnp.where(compressing, -jnp.inf, jnp.where(v[2] < 0, 0.0, work + energy))
            return after, total + change, work, stored, count + 1

        zero = jnp.zeros_like(step)
        start = (velocity, 0 * velocity, zero - jnp.inf, zero, jnp.zeros((), jnp.int32))
        return jax.lax.while_loop(unfinished, advance, start)[1]

    return impulse
