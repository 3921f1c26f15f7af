"""Bodies that stand on different numbers of parts, on planes that stay and that move."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.spatial.transform import Rotation

import jaxrb as rb
from jaxrb.simulate.system import build

HALF, LENGTH, RADIUS = np.array([0.1, 0.2, 0.3]), 0.4, 0.05
SPEED = 0.3


def plane_at(t, args):
    """Half a metre below, rising."""
    return jnp.array([0.0, 0.0, SPEED * t - 0.5]), jnp.array([1.0, 0.0, 0.0, 0.0])


@pytest.fixture(scope="module")
def scene():
    """A system, its phase, and of each body its place, rotation, velocities, mass and inertia."""
    shapes = [rb.Box(HALF), rb.Capsule(RADIUS, LENGTH / 2), rb.Sphere(0.2), rb.Box(HALF)]
    bodies = [rb.RigidBody(shape, 2.0) for shape in shapes]
    world = rb.World(
        bodies,
        obstacles=[rb.HalfSpace([0, 0, 1.0]), rb.Moving(rb.HalfSpace([0, 0, 1.0]), plane_at)],
        pairs=(),
    )
    rng = np.random.default_rng(3)
    turns = Rotation.random(4, random_state=rng)
    quaternions = np.roll(turns.as_quat(), 1, axis=1)
    position, velocity, spin = (rng.normal(size=(4, 3)) for _ in range(3))
    state = rb.State(position, quaternions, velocity, spin)
    system, phase = build(world, state, standing=True)
    return system, phase, shapes, (position, turns.as_matrix(), velocity, spin)


def lowest(shape, rotation):
    """The points of the parts of a body lowest in the world, from its centre, world frame."""
    if isinstance(shape, rb.Box):
        signs = np.array(np.meshgrid(*[[-1, 1]] * 3)).reshape(3, -1).T
        return signs * HALF @ rotation.T
    if isinstance(shape, rb.Capsule):
        ends = np.array([[0, 0, -LENGTH / 2], [0, 0, LENGTH / 2]]) @ rotation.T
        return ends - [0, 0, RADIUS]
    return np.array([[0, 0, -0.2]])


def test_each_part_has_one_contact_with_each_plane(scene):
    """Gaps and their rates are those of the corners, ends and centres; what a plane moves by is
    taken away. Of each contact an impulse changes the momenta of its body alone."""
    system, phase, shapes, (position, rotation, velocity, spin) = scene
    contacts = system.contacts
    found = contacts.find(jnp.asarray(0.0), phase)
    assert contacts.number == 2 * (8 + 2 + 1 + 8) == found.gap.size
    assert contacts.unproved() == "obstacles that move"
    partners = contacts.partners
    rates = found.kinematics(phase, system.inertial).normal_velocity
    # Of equal bodies the order of the world is kept; a system puts these side by side.
    for place, body in enumerate([0, 3, 1, 2]):
        for plane, (height, rise) in enumerate([(0.0, 0.0), (-0.5, SPEED)]):
            own = (partners[:, 0] == place) & (partners[:, 1] == plane)
            arms = lowest(shapes[body], rotation[body])
            gap = position[body, 2] + arms[:, 2] - height
            moves = velocity[body] + np.cross(rotation[body] @ spin[body], arms)
            known = np.array(sorted(zip(gap, moves[:, 2] - rise, strict=True)))
            is_ = np.array(sorted(zip(found.gap[own], rates[own], strict=True)))
            np.testing.assert_allclose(is_, known, atol=1e-12)
            # A push on the first of them.
            number = int(np.flatnonzero(own)[0])
            here = jnp.arange(contacts.number) == number
            pushed = found.apply_impulse(phase, jnp.where(here, 2.0, 0.0), here, system.inertial)
            change = jax.tree.map(lambda a, b: np.asarray(a - b), pushed, phase)
            expected = np.where(np.arange(4) == place, 2.0, 0.0)
            np.testing.assert_allclose(change.linear_momentum.z, expected, atol=1e-15)
            arm = arms[np.argmin(np.abs(gap - float(found.gap[number])))]
            moment = rotation[body].T @ np.cross(arm, [0, 0, 2.0])
            turned = change.angular_momentum
            for axis, component in enumerate((turned.x, turned.y, turned.z)):
                expected = np.where(np.arange(4) == place, moment[axis], 0.0)
                np.testing.assert_allclose(component, expected, atol=1e-14)


@pytest.mark.slow
def test_lasting_contacts_share_no_load_with_copies_of_themselves():
    """A capsule that stands on its end beside a box has one contact there, which carries it."""
    half, law = 0.1, rb.Moreau(0.5, 0.0)
    bodies = [rb.RigidBody(rb.Box([half] * 3), 2.0), rb.RigidBody(rb.Capsule(0.05, 0.2), 3.0)]
    world = rb.World(bodies, obstacles=[rb.HalfSpace([0, 0, 1.0])], contact_law=law, pairs=())
    still = np.zeros((2, 3))
    turns = np.tile([1.0, 0, 0, 0], (2, 1))
    state = rb.State([[0, 0, half], [1.0, 0, 0.25]], turns, still, still)
    found = rb.contact_forces(world, state, rb.MoreauJean(0.01))
    assert [body for body, _ in found.partners].count(1) == 2
    pressed = np.asarray(found.force[:, 0])
    weight = -2.0 * float(world.gravity[2])
    np.testing.assert_allclose(np.sort(pressed), [0] * 5 + [weight / 4] * 4 + [1.5 * weight])


@pytest.mark.slow
def test_flights_are_proved_beside_bodies_that_lie():
    """Of a body in a contact that lasts nothing is proved, of the others all: a ball beside a box
    that lies, with different numbers of contacts, bounces as it does where impacts are looked
    for."""
    bodies = [rb.RigidBody(rb.Box(HALF), 2.0), rb.RigidBody(rb.Sphere(0.1), 3.0)]
    world = rb.World(
        bodies, obstacles=[rb.HalfSpace([0, 0, 1.0])], contact_law=rb.Moreau(0.2, 0.6), pairs=()
    )
    turns, still = [[1.0, 0, 0, 0]] * 2, np.zeros((2, 3))
    velocity = [[0, 0, 0], [1.0, 0.2, 0]]
    state = rb.State([[0, 0, HALF[2]], [1.0, 0, 0.2]], turns, velocity, still)
    save = rb.SaveAt(final=True, impacts=200)
    looked, proved = (
        rb.simulate(world, state, rb.LGVCI(0.01, on_zeno="rest", detect=detect), 0.45, save=save)
        for detect in ("interior", "proved")
    )
    times = [np.asarray(sol.impacts.time) for sol in (looked, proved)]
    assert np.isfinite(times[0]).sum() >= 3
    np.testing.assert_allclose(times[1], times[0], atol=1e-9)
    for a, b in zip(jax.tree.leaves(proved.final), jax.tree.leaves(looked.final), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-8)


def test_impacts_of_such_bodies_can_be_resolved_together():
    """Without friction, where those of bodies that stand on as many parts follow each other."""
    method = rb.EventDriven(rb.LieVariational(), 0.01, on_zeno="rest", simultaneous="together")
    ball, rod = rb.RigidBody(rb.Sphere(0.1), 1.0), rb.RigidBody(rb.Capsule(0.1, 0.2), 1.0)
    still, turns = np.zeros((2, 3)), np.tile([1.0, 0, 0, 0], (2, 1))
    state = rb.State([[0, 0, 1.0], [3.0, 0, 1.0]], turns, still, still)

    def events(bodies):
        world = rb.World(bodies, [rb.HalfSpace()], contact_law=rb.Frictionless(0.5), pairs=())
        system, _ = method.build(world, state, None)
        return method.events(system, jnp.asarray(0.01))

    assert events([ball, rod]).remembers
    with pytest.raises(ValueError, match='simultaneous="together" needs'):
        events([ball, ball])
