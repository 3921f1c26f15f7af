"""Trajectories with frictional impacts: closed forms, balances, derivatives, failures."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import quick_jit

import jaxrb as rb

G = 9.81


def thrown(**changes):
    """A state of one body; spun, on its way down."""
    default = {
        "position": [[0.0, 0.0, 1.0]],
        "quaternion": [[1.0, 0.0, 0.0, 0.0]],
        "velocity": [[1.0, 0.3, 0.0]],
        "angular_velocity": [[2.0, -5.0, 1.0]],
    }
    return rb.State(**{k: jnp.asarray(v) for k, v in (default | changes).items()})


def lane(tree, i):
    return jax.tree.map(lambda leaf: leaf[i], tree)


def ball_after(mu, e, speed, spin, n, radius=0.2):
    """Velocity and spin of a uniform ball after n bounces in a plane, by hand.

    A bounce of normal impulse (1 + e) u per mass, u the speed of approach, changes the slip
    v + r w by 7/2 of the tangential impulse: it slides all along or ends without slip.
    """
    fall = np.sqrt(2 * G * (1 - radius))
    for _ in range(n):
        slip = speed + radius * spin
        push = -np.sign(slip) * min(mu * (1 + e) * fall, abs(slip) / 3.5)
        speed, spin, fall = speed + push, spin + 2.5 * push / radius, e * fall
    return speed, spin


@pytest.mark.parametrize(("mu", "spin"), [(0.05, -40.0), (0.3, -40.0), (0.3, 10.0)])
def test_bouncing_ball_with_spin(mu, spin):
    """Three bounces of a spun ball: it slips, then rolls over the contact."""
    e = 0.8
    world = rb.World(
        [rb.RigidBody(rb.Sphere(0.2), 1.7)], [rb.HalfSpace()], contact_law=rb.Coulomb(mu, e)
    )
    # x grows with a spin about y.
    state = thrown(velocity=[[1.0, 0.0, 0.0]], angular_velocity=[[0.0, -spin, 0.0]])
    sol = rb.simulate(world, state, rb.LGVCI(dt=0.01), t1=1.9)
    assert int(sol.impacts.count) == 3
    speed, turned = ball_after(mu, e, 1.0, spin, 3)
    np.testing.assert_allclose(sol.final.velocity[0, :2], [speed, 0], atol=1e-12)
    np.testing.assert_allclose(sol.final.angular_velocity[0, 1], -turned, atol=1e-11)


@pytest.mark.slow
def test_energy_momentum_and_cone_of_every_impact():
    """Of a tumbling ellipsoid; the impulse at a contact is that of `solve_impact`."""
    mu, e, mass = 0.4, 0.9, 1.3
    inertia = mass / 5 * np.array([0.25, 0.2, 0.13])
    body = rb.RigidBody(rb.Ellipsoid((0.2, 0.3, 0.4)), mass, inertia)
    plane = rb.HalfSpace((0.3, 0.1, 1.0), -0.1)
    law = rb.Coulomb(mu, e)
    world = rb.World([body], [plane], contact_law=law)
    sol = rb.simulate(
        world, thrown(), rb.LGVCI(dt=0.01), t1=2.0, save=rb.SaveAt(final=True, impacts=8)
    )
    record, count = sol.impacts, int(sol.impacts.count)
    assert count >= 3
    for i in range(count):
        before, after = lane(record.before, i), lane(record.after, i)
        normal, impulse = np.asarray(record.normal[i]), np.asarray(record.impulse[i])
        np.testing.assert_allclose(
            impulse, mass * (after.velocity - before.velocity)[0], atol=1e-13
        )
        arm = np.asarray(record.position[i] - before.position[0])
        spun = np.asarray(
            rb.angular_momentum(world, after, about=before.position[0])
            - rb.angular_momentum(world, before, about=before.position[0])
        )
        np.testing.assert_allclose(spun, np.cross(arm, impulse), atol=1e-13)
        along = impulse @ normal
        assert np.linalg.norm(impulse - along * normal) <= mu * along * (1 + 1e-12)
        assert float(rb.energy(world, after)) < float(rb.energy(world, before))

        # The same impact by itself, in any frame whose z is the normal.
        x = np.cross(normal, [1.0, 0.0, 0.0])
        x /= np.linalg.norm(x)
        frame = np.stack([x, np.cross(normal, x), normal])
        colliding = rb.CollidingBody(
            mass,
            inertia,
            frame @ -arm,
            frame @ np.asarray(before.velocity[0]),
            before.angular_velocity[0],
            frame @ np.asarray(before.rotation_matrix[0]),
        )
        w = rb.inverse_inertia_matrix(colliding)
        alone = rb.solve_impact((w + w.T) / 2, rb.contact_velocity(colliding), law)
        np.testing.assert_allclose(frame.T @ np.asarray(alone.impulse), impulse, atol=1e-11)


@pytest.mark.slow
def test_without_friction_it_is_frictionless():
    body = rb.RigidBody(rb.Ellipsoid((0.2, 0.3, 0.4)), 1.3)
    ends = [
        rb.simulate(
            rb.World([body], [rb.HalfSpace()], contact_law=law), thrown(), rb.LGVCI(dt=0.01), t1=2.0
        ).final
        for law in (rb.Coulomb(0.0, 0.9), rb.Frictionless(0.9))
    ]
    np.testing.assert_allclose(ends[0].position, ends[1].position, atol=1e-11)


@pytest.mark.long
def test_lanes_wait_without_a_trace():
    """A batch gives what each world gives by itself; so do blocks that save and record."""
    body = rb.RigidBody(rb.Ellipsoid((0.2, 0.3, 0.4)), 1.3)
    world = rb.World([body], [rb.HalfSpace()], contact_law=rb.Coulomb(0.3, 0.9))
    states = jax.vmap(lambda w: thrown(angular_velocity=jnp.array([[2.0, -5.0, 1.0]]) * w))(
        jnp.linspace(0.5, 2.0, 40)
    )
    method = rb.LGVCI(dt=0.01)
    together = rb.simulate_batch(world, states, method, t1=1.5)
    assert len(set(np.asarray(together.impacts.count).tolist())) > 1
    for i in (0, 17, 39):
        alone = rb.simulate(world, lane(states, i), method, t1=1.5)
        np.testing.assert_allclose(
            together.final.position[i], alone.final.position, rtol=0, atol=1e-12
        )
    saved = rb.simulate(world, thrown(), method, t1=1.5, save=rb.SaveAt(every=50, impacts=4))
    plain = rb.simulate(world, thrown(), method, t1=1.5)
    np.testing.assert_allclose(saved.states.position[-1], plain.final.position, atol=1e-13)


@pytest.mark.long
def test_derivatives_through_frictional_bounces():
    """With respect to mu, e, mass, inertia, radius and the initial spin, in both modes."""

    def final(x):
        mu, e, mass, inertia, radius, speed, spin = x
        inertia = inertia * jnp.array([1.0, 1.1, 0.9])
        body = rb.RigidBody(rb.Sphere(radius), mass, inertia)
        world = rb.World([body], [rb.HalfSpace()], contact_law=rb.Coulomb(mu, e))
        velocity = jnp.array([[0.0, 0.3, 0.0]]) + jnp.array([[1.0, 0.0, 0.0]]) * speed
        omega = jnp.array([[0.0, -5.0, 1.0]]) + jnp.array([[1.0, 0.0, 0.0]]) * spin
        state = thrown(velocity=velocity, angular_velocity=omega)
        sol = rb.simulate(world, state, rb.LGVCI(dt=0.01), t1=1.5)
        return jnp.concatenate([sol.final.position[0], sol.final.angular_velocity[0]])

    # So little friction that the first bounce slides all along.
    x = jnp.array([0.08, 0.8, 1.3, 0.02, 0.2, 1.0, 2.0])
    forward, reverse = (quick_jit(mode(final))(x) for mode in (jax.jacfwd, jax.jacrev))
    np.testing.assert_allclose(forward, reverse, rtol=0, atol=1e-12 * np.abs(forward).max())
    run, step = jax.jit(final), 1e-6
    for i in range(7):
        difference = (run(x.at[i].add(step)) - run(x.at[i].add(-step))) / (2 * step)
        scale = np.abs(forward[:, i]).max()
        np.testing.assert_allclose(forward[:, i] / scale, difference / scale, atol=1e-6)
        assert scale > 1e-3


@pytest.mark.slow
def test_single_precision():
    body = rb.RigidBody(rb.Ellipsoid((0.2, 0.3, 0.4)), 1.3)
    world = rb.World([body], [rb.HalfSpace()], contact_law=rb.Coulomb(0.3, 0.9))
    double = rb.simulate(world, thrown(), rb.LGVCI(dt=0.01), t1=0.7).final
    world, state = jax.tree.map(lambda leaf: leaf.astype(jnp.float32), (world, thrown()))
    single = rb.simulate(world, state, rb.LGVCI(dt=0.01), t1=0.7).final
    assert single.position.dtype == jnp.float32
    np.testing.assert_allclose(single.position, double.position, atol=2e-5)


@pytest.mark.slow
def test_refused():
    body = rb.RigidBody(rb.Sphere(0.2))

    def result(mu):
        world = rb.World([body], [rb.HalfSpace()], contact_law=rb.Coulomb(mu))
        return rb.simulate(world, thrown(), rb.LGVCI(dt=0.01), t1=1.0, throw=False).result

    results = jax.vmap(result)(jnp.array([0.3, -0.3]))
    assert [bool(r) for r in results == rb.RESULTS.invalid_contact_law] == [False, True]


@pytest.mark.slow
def test_zeno_is_reported_and_not_predicted():
    body = rb.RigidBody(rb.Sphere(0.2))
    world = rb.World([body], [rb.HalfSpace()], contact_law=rb.Coulomb(0.3, 0.3))
    sol = rb.simulate(world, thrown(), rb.LGVCI(dt=0.01), t1=3.0, throw=False)
    assert sol.result == rb.RESULTS.zeno
    assert np.isnan(sol.zeno_time).all()
