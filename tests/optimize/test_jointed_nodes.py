"""Nodes of fits on a hinge and in a loop, against closed forms of where the hinge lets them be."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import least_squares
from scipy.spatial.transform import Rotation

import jaxrb as rb
from jaxrb import optimize as ro
from jaxrb.optimize import jointed_nodes, nodes

ARM = 0.25
# Of a place [m], an attitude [rad], and their rates.
NOISE = np.repeat([1e-3, 8e-3, 0.01, 0.08], 3)[None]


def pendulum(arm=ARM):
    rod = rb.RigidBody(rb.Box((0.02, 0.02, ARM)), 1.0)
    return rb.World([rod], joints=[rb.Hinge(0, axis=(0, 1, 0), anchor=(0, 0, arm))])


def hung(angle, rate, arm=ARM):
    """Place, turn, velocity and spin of a pendulum on its hinge."""
    s, c = np.sin(angle), np.cos(angle)
    place, velocity = np.array([-s, 0, -c]) * arm, np.array([-c, 0, s]) * arm * rate
    return place, Rotation.from_rotvec([0, angle, 0]), velocity, np.array([0, rate, 0.0])


def states_of(*motions):
    """With leading axes of starts, throws and segments: (1, 1, N)."""
    rows = [np.concatenate([p, turn.as_quat(scalar_first=True), v, w]) for p, turn, v, w in motions]
    table = jnp.asarray(np.stack(rows))[None, None, :, None]
    return rb.State(table[..., :3], table[..., 3:7], table[..., 7:10], table[..., 10:])


def parameters(world, path="joints[0].anchor"):
    free = ro.Parameters(world, {path: ro.Real()})
    return world, free, np.zeros((1, free.size))


def away(motion, step):
    p, turn, v, w = motion
    return (
        p + step[:3],
        turn * Rotation.from_rotvec(step[3:6]),
        v + step[6:9],
        w + step[9:],
    )


def between(motion, other):
    """The step from one to another, in the chart of a state."""
    turn = (motion[1].inv() * other[1]).as_rotvec()
    parts = [motion[0], turn, *motion[2:]], [other[0], 2 * turn, *other[2:]]
    return np.concatenate([b - a for a, b in zip(*parts, strict=True)])


def motion_of(states, k):
    p, q, v, w = (np.asarray(leaf)[0, 0, k, 0] for leaf in jax.tree.leaves(states))
    return p, Rotation.from_quat(q, scalar_first=True), v, w


MOTIONS = [hung(0.7, 3.0), hung(-2.1, -1.5)]


def test_nodes_are_led_where_noise_makes_it_most_probable():
    """Against SciPy's least squares over the angle and its rate. Newton's steps are the least ones
    to first order: from one standard deviation off, of 8e-3 rad, the second is of 1e-2 of one. A
    node that is not finite does not end the others."""
    rng = np.random.default_rng(0)
    steps = NOISE[0] * rng.normal(size=(3, 12))
    noisy = [away(motion, step) for motion, step in zip(MOTIONS + MOTIONS[:1], steps, strict=True)]
    noisy[2] = (noisy[2][0] * np.nan, *noisy[2][1:])
    found = jointed_nodes.held(*parameters(pendulum()), states_of(*noisy), NOISE)
    for k in range(2):
        own = motion_of(found, k)
        fitted = least_squares(
            lambda x, k=k: between(hung(*x), noisy[k]) / NOISE[0], ([0.7, -2.1][k], 0.0)
        )
        off = between(hung(*fitted.x), own) / NOISE[0]
        assert np.abs(off).max() < 0.03 < np.abs(steps[k] / NOISE[0]).max()
        # And they are on the hinge to round-off.
        (angle,) = own[1].as_rotvec()[1:2]
        np.testing.assert_allclose(between(hung(angle, own[3][1]), own), 0.0, atol=1e-12)
    assert np.isnan(np.asarray(found.position)[0, 0, 2]).all()


def test_nodes_move_with_the_hinge_and_along_it():
    """Free steps are those of the angle and its rate; with a longer arm a node moves by what these
    leave of the derivative of a pendulum with that arm."""
    world, free, zero = parameters(pendulum())
    states = states_of(*MOTIONS)
    assert jointed_nodes.count_free(world, free, states, NOISE) == 2
    along = jointed_nodes.directions(world, free, zero, states, NOISE, 2)
    assert along.shape == (1, 1, 2, 12, 3 + 2)
    h = 1e-6
    for k, (angle, rate) in enumerate([(0.7, 3.0), (-2.1, -1.5)]):
        shift, basis = along[0, 0, k, :, :3], along[0, 0, k, :, 3:] / NOISE[0][:, None]
        np.testing.assert_allclose(basis.T @ basis, np.eye(2), atol=1e-12)
        here = hung(angle, rate)
        true = np.stack(
            [between(here, hung(angle + h, rate)), between(here, hung(angle, rate + h))], axis=1
        ) / (h * NOISE[0][:, None])
        # What each spans, the other does.
        np.testing.assert_allclose(basis @ (basis.T @ true), true, atol=1e-5 * np.abs(true).max())
        longer = between(here, hung(angle, rate, ARM + h)) / (h * NOISE[0])
        longer -= basis @ (basis.T @ longer)
        np.testing.assert_allclose(shift[:, 2] / NOISE[0], longer, atol=1e-5 * np.abs(longer).max())
        back = jointed_nodes.to_free(along, NOISE, 3)[0, 0, k]
        np.testing.assert_allclose(back @ along[0, 0, k, :, 3:], np.eye(2), atol=1e-12)
        np.testing.assert_allclose(back @ shift, 0.0, atol=1e-9)


def test_nodes_are_led_to_a_hinge_that_has_moved():
    """By an arm that is 1 cm longer: the hinge holds there, and the angle hardly changes."""
    world, free, zero = parameters(pendulum())
    step = zero + np.array([[0.0, 0.0, 0.01]])
    found = jointed_nodes.held(world, free, step, states_of(*MOTIONS), NOISE)
    for k, (angle, rate) in enumerate([(0.7, 3.0), (-2.1, -1.5)]):
        own = motion_of(found, k)
        turn = own[1].as_rotvec()[1]
        np.testing.assert_allclose(between(hung(turn, own[3][1], ARM + 0.01), own), 0, atol=1e-12)
        assert abs(turn - angle) < 1e-3 and abs(own[3][1] - rate) < 0.2


def four_bar():
    """A rectangle of two cranks and a coupler, all in one plane."""
    crank, coupler = (
        rb.RigidBody(rb.Box(half)) for half in ((0.01, 0.1, 0.01), (0.15, 0.01, 0.01))
    )
    axis, up, across = (0.0, 0.0, 1.0), np.array([0.0, 0.1, 0.0]), np.array([0.15, 0.0, 0.0])
    joints = [
        rb.Hinge(0, axis=axis, anchor=-up),
        rb.Hinge(1, axis=axis, anchor=-across, other=0, other_anchor=up),
        rb.Hinge(2, axis=axis, anchor=up, other=1, other_anchor=across),
        rb.Hinge(2, axis=axis, anchor=-up, other_anchor=2 * across),
    ]
    world = rb.World([crank, coupler, crank], joints=joints)
    still = np.zeros(3)
    turn = Rotation.identity()
    places = up, 2 * up + across, up + 2 * across
    bodies = [states_of((place, turn, still, still)) for place in places]
    return world, jax.tree.map(lambda *leaves: jnp.concatenate(leaves, axis=3), *bodies)


@pytest.mark.slow
def test_what_a_loop_could_not_hold_is_refused():
    """Four hinges in a plane let an anchor move in it, not out of it."""
    world, states = four_bar()
    noise = np.tile(NOISE, (1, 3))
    damped = ro.Parameters(world, {"bodies[0].mass": ro.Positive()})
    assert jointed_nodes.count_free(world, damped, states, noise) == 2
    _, free, _ = parameters(world)
    with pytest.raises(ValueError, match=r"could not hold with another joints\[0\].anchor\[2\]: "):
        jointed_nodes.count_free(world, free, states, noise)


def test_what_is_welded_has_nothing_to_move():
    body = rb.RigidBody(rb.Sphere(0.1), 1.0)
    world = rb.World([body], joints=[rb.Weld(0)])
    still = np.zeros(3), Rotation.identity(), np.zeros(3), np.zeros(3)
    free = ro.Parameters(world, {"bodies[0].mass": ro.Positive()})
    with pytest.raises(ValueError, match="leave nothing free to move"):
        jointed_nodes.count_free(world, free, states_of(still), NOISE)


TS = 0.01 * np.arange(120)
UNKNOWN = np.full((1, 3), np.nan)


def swing(rng, change=0.0, time=0.6, sd=1e-3):
    """A point at the end of an arm of 0.3 m that turns by 4 rad/s, with a jump of its rate."""
    angle = 4.0 * TS + change * np.maximum(TS - time, 0.0)
    place = 0.3 * np.stack([np.sin(angle), 0 * angle, -np.cos(angle)], axis=-1)
    return (place + rng.normal(0, sd, place.shape))[:, None]


def test_a_swing_has_no_jumps():
    """Though its acceleration, of 4.8 m/s^2 across, is none that is known. Of gravity alone these
    would be."""
    gravity = np.array([[0.0, 0.0, -9.81]])
    for seed in range(50):
        place = swing(np.random.default_rng(seed))
        assert nodes.jumps(TS, place, UNKNOWN, 1e-3).size == 0
        assert nodes.jumps(TS, place, gravity, 1e-3).size > 0


def test_an_impact_of_a_swing_is_found():
    """Of 3 m/s, within two samples."""
    for seed in range(20):
        place = swing(np.random.default_rng(seed), change=-10.0, time=0.604)
        found = nodes.jumps(TS, place, UNKNOWN, 1e-3)
        assert len(found) == 1 and abs(found[0] - 0.604) < 0.02


def test_states_of_a_swing():
    """A parabola through 24 samples leaves the velocity's third derivative, of 19 m/s^3, times
    (0.12 s)^2 / 10: 0.03 m/s."""
    turns = np.tile([1.0, 0, 0, 0], (120, 1, 1))
    place = swing(np.random.default_rng(0), sd=0.0)
    found = nodes.states_at(np.array([0.5]), np.zeros(0), TS, (place, turns), UNKNOWN)
    angle = 2.0
    np.testing.assert_allclose(
        found.velocity[0, 0], 1.2 * np.array([np.cos(angle), 0, np.sin(angle)]), atol=0.04
    )
