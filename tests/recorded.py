"""Scenes whose trajectories and derivatives are on record in tests/data/recorded.json.

The record is a means to see that a change of the code's structure changes nothing physical. It
holds what the code gave when it had been confirmed against references of 50 digits. Run this
file to see how far a checkout is from the record; with `--write` it makes the record anew.
"""

import json
import math
import sys
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import jaxrb as rb

RECORD = Path(__file__).parent / "data" / "recorded.json"
G = (0.0, 0.0, -9.80665)


class Scene(NamedTuple):
    """A function of a few numbers, and where and along what it is differentiated."""

    run: object  # from an array to (final state as one array, times of the impacts)
    numbers: tuple[float, ...]


def _of(sol):
    final = sol.final
    parts = (final.position, final.quaternion, final.velocity, final.angular_velocity)
    return jnp.concatenate([part.reshape(-1) for part in parts]), sol.impacts.time


def _thrown(shape, inertia, t1, impacts, normal=(0.0, 0.0, 1.0), law=rb.Frictionless, **options):
    """A body of Tran and Leok's Table 1, by height, spin and mass. Shape and law are made in the
    precision of the run."""

    def run(numbers):
        height, spin, mass = numbers
        world = rb.World(
            [rb.RigidBody(shape(), mass, inertia)],
            [rb.HalfSpace(normal)],
            gravity=G,
            contact_law=law(),
        )
        state = rb.State.from_momenta(
            world,
            position=jnp.stack([0 * height, 0 * height, height])[None],
            linear_momentum=jnp.array([[2.0, 2.0, 10.0]]),
            angular_momentum=jnp.stack([spin, -spin, spin])[None],
        )
        save = rb.SaveAt(final=True, impacts=impacts)
        return _of(rb.simulate(world, state, rb.LGVCI(dt=0.01, **options), t1, save=save))

    return Scene(run, (10.0, 4.0, 1.0))


def _cube():
    return rb.Rounded(rb.Box((math.sqrt(3.0),) * 3), 1e-13)


def _union():
    shift = -0.9937128
    return rb.Union(
        rb.Placed(rb.Ellipsoid((3.0, 4.0, 5.0)), (1.5 + shift, 0.0, 0.0)),
        rb.Placed(rb.Ellipsoid((6.0, 1.0, 1.0)), (-4.5 + shift, 0.0, 0.0)),
    )


def _resting_box(numbers):
    """A box dropped tilted on a plane without friction: it rocks, lands and slides on."""
    height, restitution, tilt = numbers
    world = rb.World(
        [rb.RigidBody(rb.Box((0.3, 0.2, 0.1)))],
        [rb.HalfSpace()],
        gravity=(0.0, 0.0, -10.0),
        contact_law=rb.Frictionless(restitution),
    )
    state = rb.State(
        jnp.stack([0 * height, 0 * height, height])[None],
        jnp.stack([jnp.cos(tilt / 2), 0 * tilt, jnp.sin(tilt / 2), 0 * tilt])[None],
        jnp.array([[0.5, 0.2, 0.0]]),
        jnp.array([[0.0, 0.0, 0.3]]),
    )
    method = rb.LGVCI(dt=0.01, on_zeno="rest", max_impacts=1000)
    return _of(rb.simulate(world, state, method, 0.8, save=rb.SaveAt(final=True, impacts=8)))


def _five_balls(numbers):
    """Over a plane and among each other, with loss."""
    speed, restitution, radius = numbers
    n = 5
    place = jnp.array([[-0.5, 0.02, 0.4], [0.0, 0.0, 0.5], [0.3, 0.05, 0.45], [0.6, -0.03, 0.5],
                       [0.9, 0.01, 0.42]])  # fmt: skip
    world = rb.World(
        [rb.RigidBody(rb.Sphere(radius))] * n,
        [rb.HalfSpace()],
        gravity=G,
        contact_law=rb.Frictionless(restitution),
    )
    velocity = jnp.zeros((n, 3)).at[0, 0].set(speed).at[4, 0].set(-speed)
    state = rb.State(
        place, jnp.tile(jnp.array([1.0, 0.0, 0.0, 0.0]), (n, 1)), velocity, jnp.full((n, 3), 0.3)
    )
    save = rb.SaveAt(final=True, impacts=12)
    return _of(rb.simulate(world, state, rb.LGVCI(dt=0.01), 0.5, save=save))


def _pinned_top(numbers):
    """A cone on its tip (Betsch and Siebert, section 5)."""
    spin, tilt, gravity = numbers
    length = 0.075
    shape = rb.Placed(rb.Cone(0.05, 0.1), quaternion=(0.0, 1.0, 0.0, 0.0))
    body = rb.RigidBody(shape, 2700 * math.pi * 0.05**2 * 0.1 / 3)
    world = rb.World(
        [body],
        gravity=jnp.stack([0 * gravity, 0 * gravity, -gravity]),
        joints=[rb.Pin(0, (0.0, 0.0, -length))],
    )
    zero = 0 * tilt
    state = rb.State(
        jnp.stack([zero, -length * jnp.sin(tilt), length * jnp.cos(tilt)])[None],
        jnp.stack([jnp.cos(tilt / 2), jnp.sin(tilt / 2), zero, zero])[None],
        jnp.zeros((1, 3)),
        jnp.stack([zero, zero, spin])[None],
    )
    method = rb.EventDriven(rb.QuaternionEnergyMomentum(), 0.0005)
    return _of(rb.simulate(world, state, method, 0.1, save=rb.SaveAt(final=True, impacts=1)))


_TILT = -math.pi / 90
_TILTED = (math.sin(_TILT), 0.0, math.cos(_TILT))
_TRIAXIAL = (lambda: rb.Ellipsoid((2.0, 3.0, 4.0)), (5.0, 4.0, 2.6))
SCENES = {
    "Case I": _thrown(*_TRIAXIAL, 5.2, 4),
    "Case II": _thrown(*_TRIAXIAL, 5.2, 4, _TILTED),
    "Case III": _thrown(_union, (7.5932718, 9.9326434, 8.2731252), 3.2, 4),
    "Case IV": _thrown(_cube, (2.0, 2.0, 2.0), 3.2, 4),
    "friction": _thrown(*_TRIAXIAL, 5.2, 4, law=lambda: rb.Coulomb(0.3, 0.8)),
    "interior": _thrown(*_TRIAXIAL, 5.2, 4, detect="interior"),
    "resting box": Scene(_resting_box, (0.4, 0.4, 0.3)),
    "five balls": Scene(_five_balls, (2.0, 0.9, 0.1)),
    "pinned top": Scene(_pinned_top, (400.0, math.pi / 3, 9.81)),
}


def evaluate(name, derivatives=True, compile=jax.jit):
    """What is on record of a scene: values, and, if wanted, derivatives in both modes."""
    run, numbers = SCENES[name]
    numbers = jnp.array(numbers)

    def final(numbers):
        return run(numbers)[0]

    direction = jnp.cos(jnp.arange(1.0, numbers.size + 1)) * numbers

    def everything(numbers):
        state, times = run(numbers)
        if not derivatives:
            return {"state": state, "times": times}
        forward = jax.jvp(final, (numbers,), (direction,))[1]
        weights = jnp.sin(jnp.arange(1.0, state.size + 1))
        reverse = jax.vjp(final, numbers)[1](weights)[0]
        return {"state": state, "times": times, "forward": forward, "reverse": reverse}

    return {key: np.asarray(value) for key, value in compile(everything)(numbers).items()}


def recorded():
    """The record: arrays by scene and name."""
    record = json.loads(RECORD.read_text())
    return {
        scene: {key: np.array([float.fromhex(x) for x in row]) for key, row in rows.items()}
        for scene, rows in record.items()
    }


def distance(found, expected):
    """The largest difference, relative to the size of the whole array; infinite values agree."""
    finite = np.isfinite(expected)
    if not np.array_equal(finite, np.isfinite(found)):
        return np.inf
    if not finite.any():
        return 0.0
    return np.abs(found[finite] - expected[finite]).max() / max(
        np.abs(expected[finite]).max(), 1e-300
    )


def main(names, write):
    """Prints how far this checkout is from the record, or makes it anew."""
    known = recorded() if RECORD.exists() else {}
    for name in names or SCENES:
        found = evaluate(name)
        if name in known and not write:
            far = {key: f"{distance(found[key], known[name][key]):.1e}" for key in found}
            print(f"{name}: {far}", flush=True)
        else:
            known[name] = found
            print(f"{name}: {found['times']}", flush=True)
    if write:
        rows = {
            scene: {key: [float(x).hex() for x in row] for key, row in known[scene].items()}
            for scene in SCENES
        }
        RECORD.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    jax.config.update("jax_enable_x64", True)
    arguments = sys.argv[1:]
    main([name for name in arguments if name != "--write"], "--write" in arguments)
