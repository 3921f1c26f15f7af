"""The numerical experiments of Tran and Leok, Section 7: Cases I and II.

The impact times below come from `tests/reference.py`, run with mpmath at 40 digits; what they
are compared with here is the double-precision package.
"""

import functools
import math

import jax
import jax.numpy as jnp
import mpmath as mp
import numpy as np
import pytest
import reference
from helpers import GRAVITY, paper_scene

import jaxrb as rb

THETA = -math.pi / 90
NORMALS = {"I": (0.0, 0.0, 1.0), "II": (math.sin(THETA), 0.0, math.cos(THETA))}
TIMES = {
    "I": [
        "2.64912890152128860763",
        "4.89393825532764195697",
        "5.35013568089692579292",
        "6.52000513782219296931",
        "9.44569356580620124903",
        "11.3093260954743034918",
        "14.2883561809337674349",
        "15.9183614551245584561",
        "18.5029333993819222488",
        "21.3204502703648193445",
        "22.9987130831874917252",
        "23.0600541485314883439",
    ],
    "II": [
        "2.63919421034661886345",
        "5.18133561296662824764",
        "5.41141924823797312990",
        "6.38117931147082107987",
        "9.49057184082534966354",
        "10.6899676438827034700",
        "10.7639863098694050335",
        "10.8188966008829575085",
        "10.8746611452772708027",
        "10.9659306574573189406",
        "11.9847393995075735980",
        "14.3573915221663726208",
    ],
}


def scene(case, mass=1.0):
    return paper_scene(rb.Ellipsoid((2.0, 3.0, 4.0)), (5.0, 4.0, 2.6), NORMALS[case], mass)


def independent(case, n_steps, digits=30):
    """The reference with `digits` digits. Needs mp.workdps around what is done with it."""
    with mp.workdps(digits):
        theta = -mp.pi / 90
        changes = {}
        if case == "II":
            changes["plane"] = ([mp.sin(theta), mp.mpf(0), mp.cos(theta)], mp.mpf(0))
        body = reference.paper_case(number=mp.mpf, sqrt=mp.sqrt, **changes)
        # Newton's method makes the times exact from a bracket of this width.
        return body.simulate(mp.mpf(1) / 100, n_steps, width=mp.mpf(10) ** -15)


@functools.cache
def recorded(case):
    """23 s of a case, with its first twelve impacts; both cases share one program."""
    world, state = scene(case)
    save = rb.SaveAt(final=True, impacts=12)
    return world, rb.simulate(world, state, rb.LGVCI(dt=0.01), 23.5, save=save)


def test_published_impacts_of_case_one():
    world, sol = recorded("I")
    published = [2.649128901521, 4.893938255328, 5.350135680897, 6.520005137822]
    # Published to 12 decimals: half a unit is 5e-13.
    np.testing.assert_allclose(sol.impacts.time[:4], published, rtol=0, atol=1e-11)
    first = jax.tree.map(lambda leaf: leaf[0], sol.impacts.after)
    assert abs(float(first.position[0, 2]) - 2.080323260433) < 1e-10
    assert abs(float(rb.linear_momentum(world, first)[2]) - 11.605289919024) < 1e-10


@pytest.mark.parametrize("case", ["I", "II"])
def test_twelve_impact_times(case):
    """Each impact amplifies earlier errors some tenfold: round-off grows to about 1e-9."""
    _, sol = recorded(case)
    assert int(sol.impacts.count) >= 12
    expected = np.array([float(t) for t in TIMES[case]])
    np.testing.assert_allclose(sol.impacts.time, expected, rtol=0, atol=1e-6)
    # The first four, before that growth.
    np.testing.assert_allclose(sol.impacts.time[:4], expected[:4], rtol=0, atol=1e-11)


@pytest.mark.slow
@pytest.mark.parametrize("case", ["I", "II"])
def test_stored_times_are_those_of_the_reference(case):
    with mp.workdps(40):
        impacts = independent(case, 660, digits=40).impacts
        assert len(impacts) == 4
        for impact, stored in zip(impacts, TIMES[case], strict=False):
            assert abs(impact[0] - mp.mpf(stored)) < mp.mpf(10) ** -18


@pytest.mark.slow
@pytest.mark.parametrize("case", ["I", "II"])
def test_impact_states_equal_the_reference(case):
    _, sol = recorded(case)
    n = 4
    impacts = independent(case, 660).impacts
    assert len(impacts) == n
    normal = np.array(NORMALS[case])
    for k, (_, _, impulse, x, p) in enumerate(impacts):
        expected = np.array([float(v) for v in x])
        # Round-off of 1e-15, amplified some tenfold by each impact.
        np.testing.assert_allclose(sol.impacts.before.position[k, 0], expected, atol=1e-10)
        np.testing.assert_allclose(sol.impacts.after.position[k, 0], expected, atol=1e-10)
        velocity = np.array([float(v) for v in p])  # the mass is 1
        np.testing.assert_allclose(sol.impacts.after.velocity[k, 0], velocity, atol=1e-10)
        np.testing.assert_allclose(sol.impacts.impulse[k], float(impulse) * normal, atol=1e-10)
    assert np.all(np.asarray(sol.impacts.pair[:n]) == 0)


@pytest.mark.slow
@pytest.mark.parametrize("case", ["I", "II"])
def test_attitude_and_spin_after_an_impact_equal_the_reference(case):
    world, state = scene(case)
    final = rb.simulate(world, state, rb.LGVCI(dt=0.01), 3.5).final
    end = independent(case, 350)
    rotation = np.array([[float(v) for v in row] for row in end.R])
    np.testing.assert_allclose(final.rotation_matrix[0], rotation, atol=1e-11)
    spin = np.array([float(v) for v in end.Pi]) / np.array([5.0, 4.0, 2.6])
    np.testing.assert_allclose(final.angular_velocity[0], spin, atol=1e-11)
    np.testing.assert_allclose(final.position[0], [float(v) for v in end.x], atol=1e-11)


def along(case, mass=1.0):
    world, state = scene(case, mass)
    sol = rb.simulate(world, state, rb.LGVCI(dt=0.01), 10.0, save=rb.SaveAt(every=1))
    return world, sol


@pytest.mark.slow
@pytest.mark.parametrize("case", ["I", "II"])
def test_energy_over_ten_seconds(case):
    world, sol = along(case)
    energy = np.asarray(jax.vmap(lambda s: rb.energy(world, s))(sol.states))
    assert energy.shape == (1001,) and int(sol.impacts.count) >= 5
    assert np.abs(energy / energy[0] - 1).max() <= 1e-12


@pytest.mark.parametrize("mass", [1.0, 0.7])
def test_horizontal_momentum_is_exactly_constant_over_a_horizontal_plane(mass):
    _, sol = along("I", mass)
    assert int(sol.impacts.count) >= 3
    horizontal = np.asarray(sol.states.velocity[:, 0, :2])
    # Nothing is ever added to it, so not one bit changes. (The first state is the user's.)
    assert np.array_equal(horizontal[1:], np.broadcast_to(horizontal[1], (1000, 2)))
    np.testing.assert_allclose(horizontal[0], horizontal[1], rtol=4e-16)


def test_momentum_along_a_tilted_plane_is_constant():
    _, sol = along("II")
    tangent = np.array([math.cos(THETA), 0.0, -math.sin(THETA)])
    velocity = np.asarray(sol.states.velocity[:, 0])
    # Gravity acts along the plane; impacts do not.
    expected = velocity[0] @ tangent + GRAVITY * math.sin(THETA) * np.asarray(sol.ts)
    np.testing.assert_allclose(velocity @ tangent, expected, rtol=0, atol=1e-12)
    assert np.array_equal(velocity[1:, 1], np.full(1000, velocity[1, 1]))


@pytest.mark.slow
def test_energy_over_a_hundred_thousand_steps():
    world, state = scene("I")
    sol = rb.simulate(
        world, state, rb.LGVCI(dt=0.01, max_impacts=3000), 1000.0, save=rb.SaveAt(every=1000)
    )
    assert int(sol.stats.steps) == 100_000 and int(sol.impacts.count) > 300
    energy = np.asarray(jax.vmap(lambda s: rb.energy(world, s))(sol.states))
    assert np.abs(energy / energy[0] - 1).max() <= 1e-10
    # Bounces stay above the ground and below what energy allows.
    height = np.asarray(jax.vmap(lambda s: rb.gaps(world, s)[0, 0])(sol.states))
    assert height.min() > -1e-12
    assert jnp.all(sol.states.position[:, 0, 2] * GRAVITY <= energy[0])


@pytest.mark.slow
@pytest.mark.parametrize("case", ["I", "II"])
def test_single_precision(case):
    world, state = scene(case)
    single = lambda tree: jax.tree.map(lambda leaf: leaf.astype("float32"), tree)  # noqa: E731
    double = lambda tree: jax.tree.map(lambda leaf: leaf.astype("float64"), tree)  # noqa: E731
    sol = rb.simulate(
        world, single(state), rb.LGVCI(0.01), 10.0, save=rb.SaveAt(every=10, impacts=8)
    )
    numbers = (sol.ts, sol.states, sol.final, sol.impacts.time, sol.impacts.before)
    assert {leaf.dtype.name for leaf in jax.tree.leaves(numbers)} == {"float32"}

    # Observed in double precision, so that only the error of the trajectory counts.
    energies = np.asarray(jax.vmap(lambda s: rb.energy(world, s))(double(sol.states)))
    assert abs(energies / energies[0] - 1).max() <= 5e-5

    n = int(sol.impacts.count)
    before = jax.tree.map(lambda leaf: leaf[:n], double(sol.impacts.before))
    gaps = np.asarray(jax.vmap(lambda s: rb.gaps(world, s))(before))
    lengths = 2 * np.linalg.norm(before.position, axis=-1).max()  # that the gap is computed from
    assert abs(gaps).max() <= 8 * np.finfo("float32").eps * lengths

    # Errors grow about tenfold from impact to impact; the first two are resolved well.
    expected = np.array([float(time) for time in TIMES[case][:2]])
    np.testing.assert_allclose(sol.impacts.time[:2], expected, rtol=0, atol=1e-4)
