"""Many bodies in one world: balls between six walls, next to MuJoCo."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..bodies import RigidBody, State
from ..impact import Coulomb, Frictionless
from ..shapes import HalfSpace, Sphere
from ..simulate import LGVCI, World, simulate
from .peers import REFERENCE
from .record import LOSES, RATE, Column, Record, Table
from .timing import Quantiles, fastest_of, round_robin

BATCHES = (1, 64)
RADIUS, DT, N_STEPS = 0.1, 0.005, 400  # [m], [s]
OURS = "jaxrb, jit(vmap)"
# How many balls, and their coefficient of friction.
SCENES = {
    f"{n} balls {f'with friction {friction}' if friction else 'without friction'}": (n, friction)
    for friction in (0.0, 0.3)
    for n in (2, 8, 32, 100)
}
TABLE = Table(
    f"balls between six walls, {N_STEPS} steps of {DT} s",
    "contender",
    (
        RATE,
        Column("ratio", f"over {REFERENCE}", "", 24, spread=True),
        LOSES,
        Column("impacts", "impacts a world", ".0f"),
    ),
    (
        "body-steps/s: best of the rounds; ratio: median of the rounds (least .. most)",
        "MuJoCo: float64, soft contact",
    ),
)
_WALLS = [tuple(sign * row) for row in np.eye(3) for sign in (1.0, -1.0)]


def measure(record: Record, scene: str, batches: tuple[int, ...]) -> None:
    """Adds the rows of a scene."""
    for batch in batches:
        _compare(record, *SCENES[scene], batch)


def _compare(record: Record, n: int, friction: float, batch: int) -> None:
    side, position, velocity = _gas(n, batch)
    walls = [HalfSpace(normal, -side / 2) for normal in _WALLS]
    body = RigidBody(Sphere(RADIUS), mass=1.0)
    law = Coulomb(friction, 1.0) if friction else Frictionless(1.0)
    world = World([body] * n, walls, gravity=(0, 0, 0), contact_law=law)

    def fly(position, velocity):
        turn = jnp.zeros((n, 4)).at[:, 0].set(1.0)
        state = State(position, turn, velocity, jnp.zeros((n, 3)))
        method = LGVCI(DT)
        return simulate(world, state, method, DT * N_STEPS, throw=False)

    program = jax.jit(jax.vmap(fly))
    arrays = jnp.asarray(position, float), jnp.asarray(velocity, float)
    calls = {OURS: lambda: program(*arrays)}
    try:
        calls[REFERENCE] = _mujoco(side, position[0], velocity[0], friction)
    except ImportError:
        record.remark("mujoco is not installed")
    seconds = round_robin(calls, record.rounds)
    worlds = {OURS: batch, REFERENCE: 1}
    rates = {name: n * N_STEPS * worlds[name] / taken for name, taken in seconds.items()}
    others = {name: rate for name, rate in rates.items() if name != OURS}
    for name, rate in rates.items():
        values: dict[str, Any] = {"rate": rate.max()}
        if REFERENCE in rates:
            values |= Quantiles.of(rate / rates[REFERENCE]).named("ratio")
        if name == OURS:
            values["loses_to"] = fastest_of(others, rate)
            values["impacts"] = float(program(*arrays).impacts.count.mean())
        record.add(worlds[name], name, **values)


def _gas(n: int, batch: int) -> tuple[float, np.ndarray, np.ndarray]:
    """The side of the box [m], positions on a lattice, and velocities."""
    rng = np.random.default_rng(0)
    per_side = int(np.ceil(n ** (1 / 3)))
    spacing = 4 * RADIUS
    lattice = np.stack(np.meshgrid(*[np.arange(per_side)] * 3, indexing="ij"), -1).reshape(-1, 3)
    place = (lattice[:n] - (per_side - 1) / 2) * spacing
    return per_side * spacing, np.tile(place, (batch, 1, 1)), rng.normal(size=(batch, n, 3))


def _mujoco(side: float, position: np.ndarray, velocity: np.ndarray, friction: float):
    import mujoco  # noqa: PLC0415  (optional)

    row = lambda values: " ".join(f"{v:.9g}" for v in values)  # noqa: E731
    walls = "".join(
        f'<geom type="plane" size="0 0 1" pos="{row(-side / 2 * np.array(normal))}" '
        f'zaxis="{row(normal)}"/>'
        for normal in _WALLS
    )
    balls = "".join(
        f'<body pos="{row(place)}"><freejoint/><geom size="{RADIUS}" mass="1"/></body>'
        for place in position
    )
    contact = f'condim="3" friction="{friction}"' if friction else 'condim="1"'
    model = mujoco.MjModel.from_xml_string(
        f'<mujoco><option timestep="{DT}" gravity="0 0 0"/><default><geom {contact}/></default>'
        f"<worldbody>{walls}{balls}</worldbody></mujoco>"
    )
    data = mujoco.MjData(model)
    speeds = np.concatenate([velocity, np.zeros_like(velocity)], axis=1).reshape(-1)

    def call():
        mujoco.mj_resetData(model, data)
        data.qvel[:] = speeds
        mujoco.mj_step(model, data, nstep=N_STEPS)

    return call
