"""Contacts that last: a box, and a stack of ten, at rest, settling and shaken, next to MuJoCo.

The time is that of the CPU, summed over its cores, so that it is per core however many a
contender takes.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from typing import NamedTuple

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
    gaps,
    pair_gaps,
    simulate,
)
from .problem import describe_machine, set_precision
from .timing import Quantiles

BATCHES = (64,)
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
REFERENCE = "MuJoCo C, 1 thread"


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


class Report(NamedTuple):
    """What a contender has done."""

    steps: int  # completed, of all worlds
    deepest: float  # penetration [m]
    failed: str  # worlds that ended early


_BOTH, _STEPPED, _ANY = tuple(METHODS), tuple(METHODS)[:1], 1_000_000
SCENES = {
    "a box at rest": Scene(1, 0.0, 200, 200, _ANY, _BOTH),
    "a box, shaken": Scene(1, 0.5, 20, 200, _ANY, _BOTH),
    "ten boxes at rest": Scene(10, 0.0, 40, 40, _ANY, _STEPPED),
    "five boxes settle": Scene(5, 0.01, 40, 40, _ANY, _STEPPED),
    "ten boxes settle": Scene(10, 0.1, 20, 20, 8, _STEPPED),
}


def run(batches: tuple[int, ...], rounds: int, dtype: str) -> None:
    """Prints the table of one dtype."""
    tabulate(SCENES, batches, rounds, dtype)


def tabulate(scenes: dict[str, Scene], batches: tuple[int, ...], rounds: int, dtype: str) -> None:
    """Prints the table of some scenes."""
    set_precision(dtype)
    print(f"boxes with friction {FRICTION}, steps of {DT} s; {describe_machine(dtype)}")
    header = f"{'body-steps/s':>12}   {'CPU time over MuJoCo':<28} {'deepest [m]':<11} failed"
    print(f"{'batch':>6}  {'contender':<{len(REFERENCE) + 2}} {header}")
    for name, scene in scenes.items():
        shove = f", {scene.shove} m/s each {scene.every * DT:g} s" if scene.shove else ""
        print(f"{name}{shove}: {scene.steps} steps")
        for batch in dict.fromkeys(min(batch, scene.worlds) for batch in batches):
            _compare(scene, batch, rounds)
    print("  body-steps/s: of a core, best of the rounds; ratio: median (least .. most)")
    print("  deepest: of the penetrations at the ends of the shoves' intervals")
    print("  MuJoCo: float64, soft contact, default options; a step of ours that is solved")
    print("  obeys Coulomb's law to 1e-9, and worlds in which one is not are told as failed\n")


def _compare(scene: Scene, batch: int, rounds: int) -> None:
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
        print("  mujoco is not installed")
    seconds, found = _cpu_seconds(calls, rounds)
    told = {name: report(found[name]) for name, report in reports.items()}
    rates = {name: scene.boxes * told[name].steps / taken for name, taken in seconds.items()}
    for name, rate in rates.items():
        ratio = Quantiles.of(rates[REFERENCE] / rate) if REFERENCE in rates else "-"
        _, depth, failed = told[name]
        numbers = f"{rate.max():>12.3g}   {ratio!s:<28} {depth:<11.1e} {failed}"
        print(f"{batch:>6}  {name:<{len(REFERENCE) + 2}} {numbers}", flush=True)


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

    def report(found):
        states, steps, result = found
        depths = jax.jit(jax.vmap(jax.vmap(depth, (None, 0)), (None, 0)))(world, states)
        failed = np.asarray(result != RESULTS.successful)
        worlds = "0"
        if failed.any():
            codes = jax.tree.map(lambda values: np.asarray(values)[failed], result)
            worlds = f"{failed.any(axis=1).sum()} of {len(failed)} ({RESULTS[codes]})"
        return Report(int(jnp.sum(steps)), float(jnp.max(depths)), worlds)

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
        return Report(len(shoves) * scene.steps, max(depths), "-")

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
