"""The theta schemes against Siconos 4.4, whose runs are on record (see tests/record_siconos.py)."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest
from helpers import before_releases, quick_jit, unsign

import jaxrb as rb

sys.path.append(str(Path(__file__).parents[1]))
from record_siconos import BOXES, RECORD, G

RUNS = json.loads(RECORD.read_text())


def state(position, turn, velocity):
    turn = np.array(turn, float)
    parts = (position, turn / np.linalg.norm(turn), velocity[:3], velocity[3:])
    return rb.State(*[jnp.asarray(part, float)[None] for part in parts])


def numbers(final):
    """Position, quaternion, velocity and angular velocity of the one body."""
    parts = (final.position, final.quaternion, final.velocity, final.angular_velocity)
    return [part[0] for part in parts]


def method(dt, theta=0.5, scheme="implicit"):
    return rb.MoreauJean(dt, theta=theta, scheme=scheme, impacts="stepped")


def sphere_program(scheme):
    """The end of a sphere's run, by the numbers on which it depends."""

    def run(height, speed, law, dt, t1):
        world = rb.World(
            [rb.RigidBody(rb.Sphere(0.1))], [rb.HalfSpace()], contact_law=rb.Coulomb(*law)
        )
        start = rb.State(
            jnp.stack([0 * height, 0 * height, height])[None],
            jnp.array([[1.0, 0, 0, 0]]),
            jnp.stack([speed, 0 * speed, 0 * speed])[None],
            jnp.zeros((1, 3)),
        )
        sol = rb.simulate(world, start, method(dt, scheme=scheme), t1, max_steps=500, throw=False)
        return sol.result, numbers(sol.final)

    return quick_jit(run)


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["implicit", "nearly_implicit", "semi_explicit"])
def test_a_ball_bounces_and_a_sphere_slides_until_it_rolls(scheme):
    """Without gyroscopic terms the three schemes are one. Bounces multiply round-off by 1/e."""
    run = sphere_program(scheme)
    law = (jnp.array(0.0), jnp.array(0.9))
    for k in range(4, 30, 5):
        result, (x, _, v, _) = run(1.0, 0.0, law, 0.005, 10 * (k + 1) * 0.005)
        assert result == rb.RESULTS.successful
        np.testing.assert_allclose([x[2], v[2]], RUNS["ball"][k], rtol=0, atol=1e-12)
    law = (jnp.array(0.3), jnp.array(0.0))
    for k in range(3, 40, 6):
        result, (x, _, v, omega) = run(0.1, 1.0, law, 1e-3, 10 * (k + 1) * 1e-3)
        assert result == rb.RESULTS.successful
        found = [x[0], x[2], v[0], v[2], omega[1]]
        # An angular velocity is a velocity over the radius, 0.1 m.
        np.testing.assert_allclose(found[:4], RUNS["sphere"][k][:4], rtol=0, atol=1e-12)
        np.testing.assert_allclose(found[4], RUNS["sphere"][k][4], rtol=0, atol=1e-10)
    _, (_, _, v, _) = run(0.1, 1.0, law, 1e-3, 0.4)
    np.testing.assert_allclose(v[0], 5 / 7, rtol=0, atol=1e-12)  # it rolls


def box_program(theta, bare):
    def run(case, start, law, gravity, dt, t1):
        half, mass = case
        world = rb.World(
            [rb.RigidBody(rb.Box(half), mass)],
            [] if bare else [rb.HalfSpace()],
            gravity=gravity,
            contact_law=rb.Coulomb(*law),
        )
        sol = rb.simulate(world, start, method(dt, theta), t1, max_steps=100, throw=False)
        return sol.result, numbers(sol.final)

    return quick_jit(run)


# The loop of Siconos ends when its forces no longer change, before the Jacobians of its contacts
# do: what is left after one oblique impact is 2e-8 m/s and, over the brick's half width, 2e-7/s.
TOLERANCE = {"brick bounces": (1e-7, 1e-6)}


@pytest.mark.slow
@pytest.mark.parametrize("theta", [0.5, *before_releases(0.7, 1.0)])
def test_boxes(theta):
    """They slide, fly and bounce; the free ones are in worlds without obstacles."""
    programs = {}
    for name, case in BOXES.items():
        if case["theta"] != theta:
            continue
        bare = "contact" not in case
        if bare not in programs:
            programs[bare] = box_program(theta, bare)
        half, mass = jnp.array(case["half"]), jnp.array(case["mass"])
        law = [jnp.array(number) for number in case.get("contact", (0.0, 0.0))]
        start = state(case["position"], case["turn"], case["velocity"])
        gravity = jnp.array(case.get("gravity", (0.0, 0.0, -G)))
        slow, fast = TOLERANCE.get(name, (1e-12, 2e-12))
        for k, expected in enumerate(RUNS[name]):
            t1 = 10 * (k + 1) * case["dt"]
            result, (x, q, v, omega) = programs[bare](
                (half, mass), start, law, gravity, case["dt"], t1
            )
            assert result == rb.RESULTS.successful
            np.testing.assert_allclose(x, expected[:3], rtol=0, atol=slow, err_msg=name)
            np.testing.assert_allclose(unsign(q, expected[3:7]), expected[3:7], rtol=0, atol=slow)
            np.testing.assert_allclose(v, expected[7:10], rtol=0, atol=slow, err_msg=name)
            np.testing.assert_allclose(omega, expected[10:], rtol=0, atol=fast, err_msg=name)


@pytest.mark.siconos
def test_the_record_is_what_siconos_gives():
    python = shutil.which("python3", path="/usr/bin")
    assert python is not None
    path = Path(__file__).parents[1] / "record_siconos.py"
    done = subprocess.run([python, path], capture_output=True, text=True, check=True)
    again = json.loads(done.stdout[done.stdout.index("{") :])
    assert set(again) == set(RUNS)
    for name, run in RUNS.items():
        # Its solver is iterative: the last digits depend on the build.
        np.testing.assert_allclose(again[name], run, rtol=0, atol=1e-9, err_msg=name)
