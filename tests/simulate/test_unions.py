"""Bodies of several convex parts, and bodies whose shape is not centred.

Bodies of the paper's Cases III and IV move as in `tests/reference.py`, run with mpmath; a union
that says the same as a single shape must move like it.
"""

import functools
import math

import jax.numpy as jnp
import mpmath as mp
import numpy as np
import pytest
import reference
from helpers import paper_scene

import jaxrb as rb

SHIFT = -0.9937128
CASES = {
    "III": (
        rb.Union(
            rb.Placed(rb.Ellipsoid((3.0, 4.0, 5.0)), (1.5 + SHIFT, 0.0, 0.0)),
            rb.Placed(rb.Ellipsoid((6.0, 1.0, 1.0)), (-4.5 + SHIFT, 0.0, 0.0)),
        ),
        (7.5932718, 9.9326434, 8.2731252),
        [2.009288622469, 2.928858417470],
    ),
    "IV": (
        rb.Rounded(rb.Box((math.sqrt(3),) * 3), 1e-13),
        (2.0, 2.0, 2.0),
        [2.608788264913, 3.657973349046],
    ),
}


UNTIL = 8.0


@functools.cache
def flown(case):
    """8 s of a case, with its impacts."""
    shape, inertia, _ = CASES[case]
    world, state = paper_scene(shape, inertia)
    save = rb.SaveAt(final=True, impacts=8)
    return world, state, rb.simulate(world, state, rb.LGVCI(0.01), UNTIL, save=save)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.slow
def test_first_impacts(case):
    world, state, sol = flown(case)
    np.testing.assert_allclose(sol.impacts.time[:2], CASES[case][2], rtol=0, atol=2e-11)
    np.testing.assert_allclose(rb.energy(world, sol.final), rb.energy(world, state), rtol=1e-12)
    if case == "IV":
        steps = np.floor(np.asarray(sol.impacts.time[2:4]) / 0.01)
        assert steps[0] == steps[1]


def placed_ellipsoid(axes, centre):
    reach = reference.ellipsoid_support([mp.mpf(a) for a in axes], mp.sqrt)
    return lambda d: [reach(d)[0] + centre, *reach(d)[1:]]


def union_reach(d):
    """The farther point of the two ellipsoids."""
    shift = mp.mpf(SHIFT)
    parts = (((3, 4, 5), mp.mpf(1.5) + shift), ((6, 1, 1), mp.mpf(-4.5) + shift))
    points = [placed_ellipsoid(*part)(d) for part in parts]
    return max(points, key=lambda point: reference.vdot(d, point))


def cube_reach(d):
    """The corner in a direction, and the ball of 1e-13 m about it."""
    half, length = mp.mpf(math.sqrt(3)), mp.sqrt(reference.vdot(d, d))
    return [mp.sign(x) * half + mp.mpf(1e-13) * x / length for x in d]


@functools.cache
def independent(case):
    """The same with 30 digits, from the decimals that the package is given."""
    with mp.workdps(30):
        moments = [mp.mpf(x) for x in CASES[case][1]]
        body = reference.paper_case(number=mp.mpf, sqrt=mp.sqrt, moments=moments)
        body.support = {"III": union_reach, "IV": cube_reach}[case]
        # Newton's method makes the times exact from a bracket of this width.
        end = body.simulate(mp.mpf(1) / 100, round(UNTIL * 100), width=mp.mpf(10) ** -15)
        as_floats = [
            [float(t), float(impulse), [float(v) for v in x], [float(v) for v in p]]
            for t, _, impulse, x, p in end.impacts
        ]
        return end, as_floats


@pytest.mark.parametrize("case", CASES)
@pytest.mark.slow
def test_impacts_and_the_end_are_those_of_the_reference(case):
    _, _, sol = flown(case)
    end, impacts = independent(case)
    n = len(impacts)
    assert n == int(sol.impacts.count) == 4
    times, pushes, places, momenta = (np.array(column) for column in zip(*impacts, strict=True))
    # Round-off of 1e-15, amplified some tenfold by each impact, and more by the third of the cube,
    # which falls slowly there and is followed by another after 1 ms.
    np.testing.assert_allclose(sol.impacts.time[:n], times, rtol=0, atol=2e-12)
    close = functools.partial(
        np.testing.assert_allclose, rtol=0, atol={"III": 2e-11, "IV": 4e-10}[case]
    )
    close(sol.impacts.impulse[:n], np.multiply.outer(pushes, [0.0, 0.0, 1.0]))
    close(sol.impacts.before.position[:n, 0], places)
    close(sol.impacts.after.position[:n, 0], places)
    close(sol.impacts.after.velocity[:n, 0], momenta)  # the mass is 1
    close(sol.final.position[0], [float(v) for v in end.x])
    close(sol.final.rotation_matrix[0], [[float(v) for v in row] for row in end.R])
    spin = np.array([float(v) for v in end.Pi]) / np.array(CASES[case][1])
    close(sol.final.angular_velocity[0], spin)


@pytest.mark.long
def test_parts_may_differ_in_number():
    """A union beside a sphere moves as it does alone, and its pairs name the planes."""
    union, inertia, _ = CASES["III"]
    planes = [rb.HalfSpace(), rb.HalfSpace((-1.0, 0.0, 0.2), -9.0)]
    dumbbell = rb.RigidBody(union, inertia=inertia)
    bodies = {"union": dumbbell, "ball": rb.RigidBody(rb.Sphere(0.5))}

    def fly(names):
        # The two may pass through each other, as it is each alone that is compared.
        world = rb.World([bodies[name] for name in names], planes, pairs=())
        height = jnp.array([{"union": 10.0, "ball": 4.0}[name] for name in names])
        zero = jnp.zeros(len(names))
        state = rb.State(
            jnp.stack([zero, zero, height], axis=-1),
            jnp.tile(jnp.array([1.0, 0.0, 0.0, 0.0]), (len(names), 1)),
            jnp.tile(jnp.array([2.0, 0.0, 0.0]), (len(names), 1)),
            jnp.tile(jnp.array([0.3, 0.5, -0.2]), (len(names), 1)),
        )
        gaps = rb.gaps(world, state)
        save = rb.SaveAt(final=True, impacts=16)
        return gaps, rb.simulate(world, state, rb.LGVCI(0.01), 6.0, save=save)

    gaps, sol = fly(["ball", "union"])
    assert gaps.shape == (2, 2)
    alone_gaps, alone = fly(["union"])
    np.testing.assert_allclose(gaps[0, 0], 4.0 - 0.5, rtol=1e-14)
    np.testing.assert_allclose(gaps[1], alone_gaps[0], rtol=1e-14)
    # The impacts of one body split the steps of the other, which changes the turning of the
    # union by O(dt^2), some 1e-5.
    np.testing.assert_allclose(sol.final.position[1], alone.final.position[0], atol=1e-3)
    n = int(alone.impacts.count)
    mine = np.asarray(sol.impacts.pair[:, 0]) == 1
    assert n >= 1 and mine.sum() == n and int(sol.impacts.count) > n
    np.testing.assert_array_equal(sol.impacts.pair[mine, 1], alone.impacts.pair[:n, 1])
    np.testing.assert_allclose(sol.impacts.time[mine], alone.impacts.time[:n], atol=1e-4)
    # The ball falls freely from 4 m to its radius.
    fall = np.sqrt(2 * 3.5 / 9.81)
    np.testing.assert_allclose(sol.impacts.time[~mine][0], fall, rtol=1e-12)


def test_a_cone_is_moved_to_its_centre_of_mass():
    """Standing on its base the centre of mass is a quarter of the height above the plane."""
    radius, height, mass = 0.6, 1.2, 2.0
    body = rb.RigidBody(rb.Cone(radius, height), mass=mass)
    world = rb.World([body], [rb.HalfSpace()])
    state = rb.State(
        jnp.array([[0.0, 0.0, height / 4 + 0.1]]),
        jnp.array([[1.0, 0.0, 0.0, 0.0]]),
        jnp.zeros((1, 3)),
        jnp.zeros((1, 3)),
    )
    np.testing.assert_allclose(rb.gaps(world, state), 0.1, rtol=0, atol=1e-15)
    across = 3 / 80 * mass * (4 * radius**2 + height**2)
    expected = np.diag([across, across, 3 / 10 * mass * radius**2])
    found = body.inertia_tensor().matrix()
    np.testing.assert_allclose(found, expected, rtol=1e-14, atol=1e-16)
    given = rb.World([rb.RigidBody(rb.Cone(radius, height), inertia=expected)], [rb.HalfSpace()])
    np.testing.assert_allclose(rb.gaps(given, state), height / 4 + 0.1, rtol=1e-14)


@pytest.mark.slow
def test_a_hollow_ball_touches_like_a_ball():
    hollow = rb.Difference(rb.Sphere(1.0), rb.Sphere(0.5))
    gaps = []
    for shape in (hollow, rb.Sphere(1.0)):
        world = rb.World([rb.RigidBody(shape, inertia=(1.0, 1.0, 1.0))], [rb.HalfSpace()])
        gaps.append(rb.gaps(world, paper_scene(rb.Sphere(1.0), None)[1]))
    np.testing.assert_allclose(*gaps, atol=1e-14)
