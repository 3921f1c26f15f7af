"""The inverse inertia matrix against closed forms and its definition."""

import numpy as np
import pytest

import jaxrb as rb


def test_spheres_and_a_half_space():
    """Section 2: (1/m1 + 1/m2) diag(7/2, 7/2, 1); against a half-space 1/m1 alone."""
    first = rb.CollidingBody(2.0, [0.4 * 2 * 0.09] * 3, (0, 0, 0.3))
    second = rb.CollidingBody(5.0, [0.4 * 5 * 0.04] * 3, (0, 0, -0.2))
    shape = np.diag([3.5, 3.5, 1.0])
    both = rb.inverse_inertia_matrix(first, second)
    np.testing.assert_allclose(both, 0.7 * shape, atol=1e-15)
    fixed = rb.CollidingBody(np.inf, [np.inf] * 3, (0, 0, -0.2))
    full = rb.CollidingBody(np.inf, np.full((3, 3), np.inf), (0, 0, -0.2))
    for ground in (fixed, full, None):
        alone = rb.inverse_inertia_matrix(first, ground)
        np.testing.assert_allclose(alone, 0.5 * shape, atol=1e-15)


def test_w_is_the_change_of_the_contact_velocity():
    """By its definition (4): an impulse on one and its opposite on the other."""
    rng = np.random.default_rng(0)
    bodies = []
    for mass in (1.3, 0.4):
        rotation = np.linalg.qr(rng.normal(size=(3, 3)))[0]
        rotation *= np.linalg.det(rotation)
        inertia = np.diag([1.0, 1.2, 0.7]) + 0.1
        v, omega = rng.normal(size=(2, 3))
        center = rng.normal(size=3)
        bodies.append(rb.CollidingBody(mass, inertia, center, v, omega, rotation))
    impulse = rng.normal(size=3)
    after = []
    for body, sign in zip(bodies, (1, -1), strict=True):
        dv, domega = body.velocity_changes(sign * impulse)
        moved = (body.velocity + dv, body.angular_velocity + domega, body.rotation)
        after.append(rb.CollidingBody(body.mass, body.inertia, body.center, *moved))
    change = rb.contact_velocity(*after) - rb.contact_velocity(*bodies)
    w = rb.inverse_inertia_matrix(*bodies)
    np.testing.assert_allclose(change, w @ impulse, rtol=1e-13)
    np.testing.assert_allclose(w, w.T, atol=1e-14)
    spin = bodies[0].rotation @ np.asarray(bodies[0].angular_velocity)
    point = bodies[0].velocity + np.cross(spin, -np.asarray(bodies[0].center))
    np.testing.assert_allclose(rb.contact_velocity(bodies[0]), point, rtol=1e-14)


def test_refused():
    with pytest.raises(ValueError, match=r"CollidingBody.mass must be positive; got 0.0"):
        rb.CollidingBody(0.0, (1, 1, 1), (0, 0, 0))
    with pytest.raises(ValueError, match=r"CollidingBody.inertia must have shape \(3,\) or"):
        rb.CollidingBody(1.0, (1, 1), (0, 0, 0))
