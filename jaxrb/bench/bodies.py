"""Many bodies in one world: balls between six walls, next to MuJoCo."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from ..bodies import RigidBody, State
from ..impact import Coulomb, Frictionless
from ..shapes import HalfSpace, Sphere
from ..simulate import LGVCI, World, simulate
from .problem import describe_machine, set_precision
from .timing import Quantiles, round_robin

BATCHES = (1, 64)
BODIES = (2, 8, 32, 100)
FRICTION = (0.0, 0.3)
RADIUS, DT, N_STEPS = 0.1, 0.005, 400  # [m], [s]
_WALLS = [tuple(sign * row) for row in np.eye(3) for sign in (1.0, -1.0)]


def run(batches: tuple[int, ...], rounds: int, dtype: str) -> None:
    """Prints the table of one dtype."""
    set_precision(dtype)
    print(f"balls between six walls, {N_STEPS} steps of {DT} s; {describe_machine(dtype)}")
    for friction in FRICTION:
        print(f"friction {friction}")
        print(f"{'balls':>6} {'batch':>6}  {'contender':<22} {'body-steps/s':>12}   over MuJoCo")
        for n in BODIES:
            for batch in batches:
                _compare(n, batch, friction, rounds)
    print("  MuJoCo: C, one thread, float64, soft contact\n")


def _compare(n: int, batch: int, friction: float, rounds: int) -> None:
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
    contenders = {"jaxrb, jit(vmap)": lambda: program(*arrays)}
    try:
        contenders["MuJoCo"] = _mujoco(side, position[0], velocity[0], friction)
    except ImportError:
        print("  mujoco is not installed")
    seconds = round_robin(contenders, rounds)
    worlds = {"jaxrb, jit(vmap)": batch, "MuJoCo": 1}
    rates = {name: n * N_STEPS * worlds[name] / taken for name, taken in seconds.items()}
    for name, rate in rates.items():
        ratio = Quantiles.of(rate / rates["MuJoCo"]) if "MuJoCo" in rates else "-"
        print(f"{n:>6} {worlds[name]:>6}  {name:<22} {rate.max():>12.3g}   {ratio!s}")
    impacts = program(*arrays).impacts.count
    print(f"{'':>15}{float(impacts.mean()):.0f} impacts a world")


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
