"""Other engines on the same problem: an ellipsoid over a plane, without friction.

None of them is needed; those that are installed take part. Their contact is soft: a body
sinks in and is pushed out over several steps, loses energy, and after a few bounces lies on
the plane. So their work per step is alike, their trajectories are not.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from .problem import CASE, N_STEPS

REFERENCE = "MuJoCo C, 1 thread"

# Trajectories per measurement of a single thread: its rate does not depend on the batch.
_SINGLE_THREAD_WORLDS = 16
# The roll-out returns every state; in pieces of so many worlds they stay below 100 MB.
_ROLLOUT_WORLDS = 512


class Engine(NamedTuple):
    """A contender: `prepare(heights)` returns a call and how many worlds it advances."""

    name: str
    prepare: Callable[[np.ndarray], tuple[Callable, int]]


def available() -> tuple[list[Engine], list[str]]:
    """The engines that can run here, and notes on them and on those that cannot."""
    engines, notes = [], []
    for setup, needed in ((_mujoco, "mujoco"), (_mjx, "mujoco.mjx"), (_brax, "brax")):
        if not _installed(needed):
            notes.append(f"{needed} is not installed")
            continue
        # Whatever goes wrong in another engine must not end the benchmark of this one.
        try:
            found, note = setup()
        except Exception as error:
            notes.append(f"{needed} cannot run this problem: {type(error).__name__}: {error}")
            continue
        engines += found
        notes.append(note)
    return engines, notes


def _installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # of the parent
        return False


def _xml(geom: str) -> str:
    """Case I; condim 1 means no friction."""
    world, state = CASE.build()
    body = world.bodies[0]
    row = lambda values: " ".join(f"{float(v):.9g}" for v in values)  # noqa: E731
    return f"""<mujoco>
      <option timestep="{CASE.dt}" gravity="{row(world.gravity)}"/>
      <default><geom condim="1"/></default>
      <worldbody>
        <geom type="plane" size="0 0 1"/>
        <body pos="{row(state.position[0])}">
          <freejoint/>
          <inertial pos="0 0 0" mass="{float(body.mass)}" diaginertia="{row(body.inertia)}"/>
          {geom}
        </body>
      </worldbody>
    </mujoco>"""


def _ellipsoid() -> str:
    axes = np.asarray(CASE.build()[0].bodies[0].shape.semi_axes)
    return f'<geom type="ellipsoid" size="{axes[0]} {axes[1]} {axes[2]}"/>'


def _sphere() -> str:
    radius = np.asarray(CASE.build()[0].bodies[0].shape.semi_axes).mean()
    return f'<geom type="sphere" size="{radius}"/>'


def _initial_velocity() -> np.ndarray:
    """As MuJoCo's qvel: linear in the world frame [m/s], angular in the body frame [rad/s]."""
    state = CASE.build()[1]
    return np.concatenate([state.velocity[0], state.angular_velocity[0]]).astype(float)


def _mujoco():
    import mujoco  # noqa: PLC0415  (optional)

    model = mujoco.MjModel.from_xml_string(_xml(_ellipsoid()))
    velocity = _initial_velocity()

    def reset(data, height: float) -> None:
        mujoco.mj_resetData(model, data)
        data.qpos[2], data.qvel[:] = height, velocity

    def single(heights: np.ndarray):
        data, some = mujoco.MjData(model), heights[:_SINGLE_THREAD_WORLDS]

        def call():
            for height in some:
                reset(data, height)
                mujoco.mj_step(model, data, nstep=N_STEPS)

        return call, len(some)

    def threads(heights: np.ndarray):
        from mujoco import rollout  # noqa: PLC0415  (optional)

        cores = os.cpu_count() or 1
        data = [mujoco.MjData(model) for _ in range(cores)]
        kind = mujoco.mjtState.mjSTATE_FULLPHYSICS
        initial = np.empty((len(heights), mujoco.mj_stateSize(model, kind)))
        for row, height in zip(initial, heights, strict=True):
            reset(data[0], height)
            mujoco.mj_getState(model, data[0], row, kind)
        pool = rollout.Rollout(nthread=cores)

        def call():
            for first in range(0, len(heights), _ROLLOUT_WORLDS):
                piece = initial[first : first + _ROLLOUT_WORLDS]
                pool.rollout(model, data, piece, nstep=N_STEPS)

        return call, len(heights)

    engines = [Engine(REFERENCE, single)]
    if _installed("mujoco.rollout"):
        engines.append(Engine("mujoco.rollout, all cores", threads))
    return engines, f"MuJoCo {mujoco.__version__}: float64, soft contact, default options"


def _mjx():
    import mujoco  # noqa: PLC0415  (optional)
    from mujoco import mjx  # noqa: PLC0415

    def build(geom: str):
        model = mjx.put_model(mujoco.MjModel.from_xml_string(_xml(geom)))
        data = mjx.make_data(model)
        velocity = jnp.asarray(_initial_velocity(), data.qvel.dtype)

        def trajectory(height):
            first = data.replace(qpos=data.qpos.at[2].set(height), qvel=velocity)
            return jax.lax.fori_loop(0, N_STEPS, lambda _, d: mjx.step(model, d), first).qpos

        return jax.jit(jax.vmap(trajectory))

    program, shape = _first_supported(build)
    return [Engine("MJX", _batched(program))], f"MJX: {shape}, soft contact, default options"


def _brax():
    from brax.generalized import pipeline  # noqa: PLC0415  (optional)
    from brax.io import mjcf  # noqa: PLC0415

    def build(geom: str):
        system = mjcf.loads(_xml(geom))
        velocity = jnp.asarray(_initial_velocity(), system.init_q.dtype)
        action = jnp.zeros(system.act_size(), velocity.dtype)

        def trajectory(height):
            first = pipeline.init(system, system.init_q.at[2].set(height), velocity)
            step = lambda _, state: pipeline.step(system, state, action)  # noqa: E731
            return jax.lax.fori_loop(0, N_STEPS, step, first).q

        return jax.jit(jax.vmap(trajectory))

    program, shape = _first_supported(build)
    return [Engine("Brax generalized", _batched(program))], f"Brax: {shape}, soft contact"


def _first_supported(build: Callable):
    """The program of the ellipsoid, or of a sphere if the engine knows no ellipsoid."""
    try:
        program = build(_ellipsoid())
        program.lower(jnp.ones(1))
        return program, "ellipsoid"
    except Exception:  # each engine has its own way to say no
        program = build(_sphere())
        program.lower(jnp.ones(1))
        return program, "a sphere instead of the ellipsoid"


def _batched(program: Callable):
    def prepare(heights: np.ndarray):
        batch = jnp.asarray(heights, float)
        return lambda: program(batch), len(heights)

    return prepare
