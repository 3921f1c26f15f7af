"""Contacts that last: a box, and a stack of ten, at rest, pushed and shaken, next to MuJoCo.

The time is that of the CPU, summed over its cores, so that it is per core however many a
contender takes.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ..bodies import RigidBody, State
from ..impact import Coulomb
from ..shapes import Box, HalfSpace
from ..simulate import (
    LGVCI,
    RESULTS,
    AbstractMethod,
    MoreauJean,
    World,
    contact_forces,
    gaps,
    pair_gaps,
    simulate,
)
from .peers import REFERENCE
from .record import LOSES, RATE, Column, Record, Table
from .timing import Quantiles, fastest_of

BATCHES = (64, 256)
DT, GRAVITY, FRICTION = 0.005, 9.81, 0.5  # [s], [m/s^2]
HALF = (0.2, 0.15, 0.1)  # [m]
OFFSET = 0.02  # of the boxes of a stack, to each side [m]
# The rate of one thread does not depend on the number of worlds, which it takes in turn.
_MUJOCO_WORLDS = 16
# No further round is begun after so long [s].
_LONGEST = 20.0
# Boxes that were shaken start within each other where impacts fall into steps.
METHODS: dict[str, AbstractMethod] = {
    "MoreauJean, stepped": MoreauJean(DT, impacts="stepped", penetration=HALF[2]),
    "LGVCI": LGVCI(DT, on_zeno="rest", penetration=1e-9),
}


class Scene(NamedTuple):
    """Boxes that lie on each other on a plane, and are pushed.

    Attributes:
        boxes: how many.
        shove: standard deviation of what is added to each component of their velocities [m/s].
        every: after how many steps it is added again, the first time at the start.
        steps: in all.
        worlds: the most in a batch.
        methods: names of those that take part.
    """

    boxes: int
    shove: float
    every: int
    steps: int
    worlds: int
    methods: tuple[str, ...]

    def name(self) -> str:
        """In the table, and for `--scenes`."""
        boxes = "1 box" if self.boxes == 1 else f"{self.boxes} boxes"
        if not self.shove:
            return f"{boxes} at rest, {self.steps} steps"
        times = "once" if self.every == self.steps else f"each {self.every * DT:g} s"
        return f"{boxes} pushed by {self.shove:g} m/s {times}, {self.steps} steps"


def named(*scenes: Scene) -> dict[str, Scene]:
    """The scenes by their names."""
    return {scene.name(): scene for scene in scenes}


class Report(NamedTuple):
    """What a contender has done."""

    steps: int  # completed, of all worlds
    deepest: float  # penetration [m]
    residual: float | None = None  # the largest of a step; None of an engine that has none
    failed: int | None = None  # worlds that ended early; None of an engine that does not tell
    why: str | None = None  # they did


_BOTH, _STEPPED, _ANY = tuple(METHODS), tuple(METHODS)[:1], 1_000_000
SCENES = named(
    Scene(1, 0.0, 200, 200, _ANY, _BOTH),
    Scene(1, 0.5, 20, 200, _ANY, _BOTH),
    Scene(10, 0.0, 40, 40, _ANY, _STEPPED),
    Scene(5, 0.01, 40, 40, _ANY, _STEPPED),
    # Most of it after they have come to rest.
    Scene(5, 0.01, 400, 400, _ANY, _STEPPED),
    Scene(10, 0.1, 20, 20, 8, _STEPPED),
)
TABLE = Table(
    f"boxes with friction {FRICTION} on a plane and on each other, steps of {DT} s",
    "contender",
    (
        RATE,
        Column("ratio", "CPU time over MuJoCo", "", 24, spread=True),
        LOSES,
        Column("rounds", "rounds", "d"),
        Column("deepest", "deepest [m]", ".1e"),
        Column("residual", "residual", ".1e"),
        Column("failed", "failed", "d"),
        Column("why", "why"),
    ),
    (
        "body-steps/s: of a core, best of the rounds; ratio: median (least .. most)",
        f"rounds: none is begun after {_LONGEST:g} s of CPU time",
        "deepest: of the penetrations at the ends of the intervals between pushes; residual: the "
        "largest of the law of contact in the steps after those that are reached, relative to the "
        "largest velocity",
        "MuJoCo: float64, soft contact, default options; a step of ours that is solved obeys "
        "Coulomb's law to 1e-9, and worlds in which one is not are told as failed",
    ),
)


def measure(record: Record, scene: str, batches: tuple[int, ...]) -> None:
    """Adds the rows of a scene."""
    compare(record, SCENES[scene], batches)


def compare(record: Record, scene: Scene, batches: tuple[int, ...]) -> None:
    """Adds the rows of any scene, in batches as large as it may have."""
    for batch in dict.fromkeys(min(batch, scene.worlds) for batch in batches):
        _compare(record, scene, batch)


def _compare(record: Record, scene: Scene, batch: int) -> None:
    rng = np.random.default_rng(0)
    shoves = scene.shove * rng.normal(size=(batch, scene.steps // scene.every, scene.boxes, 3))
    offset = rng.uniform(-OFFSET, OFFSET, size=(scene.boxes, 2))
    height = HALF[2] * (1 + 2 * np.arange(scene.boxes))
    place = np.concatenate([offset, height[:, None]], axis=1)

    calls, reports = {}, {}
    for name in scene.methods:
        calls[name], reports[name] = _ours(METHODS[name], scene, place, shoves)
    try:
        calls[REFERENCE], reports[REFERENCE] = _mujoco(scene, place, shoves[:_MUJOCO_WORLDS])
    except ImportError:
        record.remark("mujoco is not installed")
    seconds, found = _cpu_seconds(calls, record.rounds)
    told = {name: report(found[name]) for name, report in reports.items()}
    rates = {name: scene.boxes * told[name].steps / taken for name, taken in seconds.items()}
    others = {name: rate for name, rate in rates.items() if name == REFERENCE}
    for name, rate in rates.items():
        values: dict[str, Any] = told[name]._asdict() | {"rate": rate.max(), "rounds": rate.size}
        if REFERENCE in rates:
            values |= Quantiles.of(rates[REFERENCE] / rate).named("ratio")
        if name != REFERENCE:
            values["loses_to"] = fastest_of(others, rate)
        record.add(batch, name, **values)


def _ours(method: AbstractMethod, scene: Scene, place: np.ndarray, shoves: np.ndarray):
    """A call that simulates all worlds, and a `Report` on what it returns."""
    box = RigidBody(Box(HALF), 1.0)
    law = Coulomb(FRICTION, 0.0)
    world = World([box] * scene.boxes, [HalfSpace()], gravity=(0, 0, -GRAVITY), contact_law=law)
    zero = jnp.zeros((scene.boxes, 3))
    upright = jnp.zeros((scene.boxes, 4)).at[:, 0].set(1.0)
    start = State(jnp.asarray(place, float), upright, zero, zero)

    def interval(world: World, state: State, shove):
        state = dataclasses.replace(state, velocity=state.velocity + shove)
        sol = simulate(world, state, method, DT * scene.every, throw=False)
        return sol.final, (sol.final, sol.stats.steps, sol.result)

    def all_intervals(world: World, shoves):
        return jax.lax.scan(lambda *arrays: interval(world, *arrays), start, shoves)[1]

    given = world, jnp.asarray(shoves, float)
    program = jax.jit(jax.vmap(all_intervals, in_axes=(None, 0))).lower(*given).compile()

    def depth(world: World, state: State):
        closest = jnp.min(gaps(world, state))
        if scene.boxes > 1:
            closest = jnp.minimum(closest, jnp.min(pair_gaps(world, state)))
        return jnp.maximum(-closest, 0.0)

    def residual(world: World, state: State):
        return contact_forces(world, state, method).residual

    def report(found):
        states, steps, result = found
        everywhere = lambda f: jax.jit(jax.vmap(jax.vmap(f, (None, 0)), (None, 0)))(world, states)  # noqa: E731
        depths = everywhere(depth)
        failed = np.asarray(result != RESULTS.successful)
        residuals = jnp.where(failed, 0.0, everywhere(residual))
        why = None
        if failed.any():
            why = RESULTS[jax.tree.map(lambda values: np.asarray(values)[failed], result)]
        worlds = int(failed.any(axis=1).sum())
        return Report(
            int(jnp.sum(steps)), float(jnp.max(depths)), float(jnp.max(residuals)), worlds, why
        )

    return lambda: jax.block_until_ready(program(*given)), report


def _mujoco(scene: Scene, place: np.ndarray, shoves: np.ndarray):
    """Likewise, one world after the other."""
    import mujoco  # noqa: PLC0415  (optional)

    row = lambda values: " ".join(f"{v:.17g}" for v in values)  # noqa: E731
    surface = f'friction="{FRICTION} 0 0"'
    boxes = "".join(
        f'<body pos="{row(at)}"><freejoint/><geom type="box" size="{row(HALF)}" mass="1" '
        f"{surface}/></body>"
        for at in place
    )
    model = mujoco.MjModel.from_xml_string(
        f'<mujoco><option timestep="{DT}" gravity="0 0 {-GRAVITY}"/><worldbody>'
        f'<geom type="plane" size="0 0 1" {surface}/>{boxes}</worldbody></mujoco>'
    )
    data = mujoco.MjData(model)
    velocity = data.qvel.reshape(scene.boxes, 6)[:, :3]

    def each(at_end: Callable[[], None]) -> None:
        for world in shoves:
            mujoco.mj_resetData(model, data)
            for shove in world:
                velocity[:] += shove
                mujoco.mj_step(model, data, nstep=scene.every)
                at_end()

    def report(_):
        depths = [0.0]
        each(lambda: depths.append(-float(data.contact.dist.min()) if data.ncon else 0.0))
        return Report(len(shoves) * scene.steps, max(depths))

    return lambda: each(lambda: None), report


def _cpu_seconds(calls: dict[str, Callable], rounds: int):
    """The CPU time of each call in each round, in turns, and what it returned last."""
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    found = {}
    began = time.process_time()
    for _ in range(rounds):
        for name, call in calls.items():
            start = time.process_time()
            found[name] = call()
            seconds[name].append(time.process_time() - start)
        if time.process_time() - began > _LONGEST:
            break
    return {name: np.array(taken) for name, taken in seconds.items()}, found
