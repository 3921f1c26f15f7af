"""Contacts and joints that hold for thousands of steps: nothing creeps, breaks or drifts."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxrb as rb

pytestmark = pytest.mark.long

BOX, FLOOR = rb.RigidBody(rb.Box((0.2, 0.15, 0.1)), 1.0), rb.HalfSpace()
REST = [
    rb.LGVCI(0.005, on_zeno="rest"),
    rb.MoreauJean(0.005, impacts="stepped"),
]


@pytest.mark.parametrize("method", REST, ids=["located", "stepped"])
def test_ten_boxes_lie_for_ten_seconds(method):
    """2000 steps; each box is offset by up to 2 cm. The floor carries their weight."""
    rng, n = np.random.default_rng(0), 10
    place = np.zeros((n, 3))
    place[:, :2], place[:, 2] = rng.uniform(-0.02, 0.02, (n, 2)), 0.1 + 0.2 * np.arange(n)
    world = rb.World([BOX] * n, [FLOOR], contact_law=rb.Coulomb(0.5, 0.0))
    still = np.zeros((n, 3))
    start = rb.State(place, np.eye(4)[np.zeros(n, int)], still, still)
    final = rb.simulate(world, start, method, 10.0).final
    np.testing.assert_allclose(final.position, place, rtol=0, atol=1e-10)
    np.testing.assert_allclose(final.quaternion[:, 1:], 0.0, atol=1e-10)
    found = rb.contact_forces(world, final, method)
    of_floor = np.array([other == 0 for _, other in found.partners])
    carried = np.asarray(found.vector)[of_floor].sum(0)
    np.testing.assert_allclose(carried, -n * np.asarray(world.gravity), rtol=0, atol=1e-12 * 98.1)


LENGTH = 0.4
TOP, BOTTOM = (0, 0, LENGTH / 2), (0, 0, -LENGTH / 2)
ROD = rb.RigidBody(rb.Capsule(0.02, 0.3), 1.0)


def pendulum(n):
    """Rods that hang from each other, stretched out to the side and let go."""
    joints = [rb.Hinge(0, axis=(0, 1, 0), anchor=TOP, other_anchor=(0, 0, 0))]
    joints += [
        rb.Hinge(k, axis=(0, 1, 0), anchor=TOP, other=k - 1, other_anchor=BOTTOM)
        for k in range(1, n)
    ]
    place = np.zeros((n, 3))
    place[:, 0] = LENGTH * (0.5 + np.arange(n))
    turn = np.array([np.cos(np.pi / 4), 0, -np.sin(np.pi / 4), 0])
    still = np.zeros((n, 3))
    return rb.World([ROD] * n, [], joints=joints), rb.State(
        place, turn[None].repeat(n, 0), still, still
    )


def four_bar():
    """A linkage of unlike bars, the ground one of them: 20 rows, of which 17 are independent."""
    y = (0, 1, 0)
    a, b, c, d = 0.3, 0.5, 0.45, 0.4  # crank, coupler, rocker, ground
    at = np.array([0.0, 0, a])  # the end of the crank, which is upright
    far = np.array([d, 0, 0])
    between = far - at
    distance = np.linalg.norm(between)
    along = between / distance
    foot = (b**2 - c**2 + distance**2) / (2 * distance)
    up = np.array([-along[2], 0, along[0]])
    meet = at + foot * along + np.sqrt(b**2 - foot**2) * up
    bars, place, turns = [], [], []
    for begin, end in ((np.zeros(3), at), (at, meet), (far, meet)):
        way = end - begin
        size = np.linalg.norm(way)
        angle = np.arctan2(way[0], way[2])
        bars.append(rb.RigidBody(rb.Box((0.02, 0.02, size / 2)), size))
        place.append((begin + end) / 2)
        turns.append([np.cos(angle / 2), 0, np.sin(angle / 2), 0])
    low = [(0, 0, -size / 2) for size in (a, b, c)]
    high = [(0, 0, size / 2) for size in (a, b, c)]
    turned = [np.array(turn) for turn in turns]

    def relative(first, second):
        """The turn of the first in the frame of the second; all are about y."""
        half = np.arctan2(first[2], first[0]) - np.arctan2(second[2], second[0])
        return np.cos(half), 0, np.sin(half), 0

    joints = [
        rb.Hinge(0, axis=y, anchor=low[0]),
        rb.Hinge(2, axis=y, anchor=low[2], other_anchor=tuple(far)),
        rb.Hinge(
            1,
            axis=y,
            anchor=low[1],
            other=0,
            other_anchor=high[0],
            reference=relative(turned[1], turned[0]),
        ),
        rb.Hinge(
            1,
            axis=y,
            anchor=high[1],
            other=2,
            other_anchor=high[2],
            reference=relative(turned[1], turned[2]),
        ),
    ]
    still = np.zeros((3, 3))
    state = rb.State(np.array(place), np.array(turns), still, still)
    return rb.World(bars, [], joints=joints), state


SCENES = {
    "a double pendulum": lambda: pendulum(2),
    "a chain of ten": lambda: pendulum(10),
    "four bars": four_bar,
}


def swung(scene, dt, steps, every):
    """The largest violation of joints, and the energies at times, less that of the start and over
    the largest kinetic energy."""
    world, start = SCENES[scene]()
    sol = rb.simulate(world, start, rb.LGVCI(dt), dt * steps, save=rb.SaveAt(every=every))
    broken = jax.vmap(lambda s: jnp.max(jnp.abs(rb.joint_violations(world, s)[0])))(sol.states)
    energy = np.asarray(jax.vmap(lambda s: rb.energy(world, s))(sol.states))
    moving = np.asarray(jax.vmap(lambda s: rb.kinetic_energy(world, s))(sol.states))
    return np.asarray(broken), (energy - energy[0]) / moving.max()


@pytest.mark.parametrize("scene", SCENES)
def test_joints_hold_for_ten_thousand_steps(scene):
    """Energies swing by what is of second order, most where a chain cracks like a whip; about a
    mean that does not drift by a fifth of that."""
    broken, off = swung(scene, 2e-3, 10_000, 4)
    assert broken.max() <= 1e-12
    means = [part.mean() for part in np.array_split(off, 10)]
    assert np.abs(off).max() < 3e-3
    assert abs(means[-1] - np.mean(means[:5])) < 0.2 * np.abs(off).max()
    _, coarse = swung(scene, 4e-3, 125, 1)
    _, fine = swung(scene, 2e-3, 250, 2)
    ratio = np.abs(coarse).max() / np.abs(fine).max()
    assert 3 < ratio < 5
