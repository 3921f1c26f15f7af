"""Spheres that are dropped on a plane and bounce once, with what becomes of them in closed form."""

import jax.numpy as jnp
import numpy as np

import jaxrb as rb

LAW = rb.Frictionless(restitution=0.8)
WORLD = rb.World([rb.RigidBody(rb.Sphere(0.5))], [rb.HalfSpace()], contact_law=LAW)
METHOD = rb.LGVCI(0.01, on_zeno="stop")
T1, GRAVITY = 0.6, 9.81


def drops(heights):
    """A sphere over a plane from each height of its centre [m]; below 0.5 it penetrates."""
    heights = np.asarray(heights, float)
    n = len(heights)
    position = np.zeros((n, 1, 3))
    position[:, 0, 2] = heights
    turned = np.broadcast_to([1.0, 0.0, 0.0, 0.0], (n, 1, 4))
    still = np.zeros((n, 1, 3))
    return rb.State(*map(jnp.asarray, (position, turned, still, still + 1.0)))


def heights(n):
    """From which a sphere bounces once before T1 [m]."""
    return np.linspace(1.0, 2.0, n)


def bounce(heights):
    """The speed just before the impact [m/s], and how long after it T1 is [s]."""
    speed = np.sqrt(2 * GRAVITY * (heights - 0.5))
    return speed, T1 - speed / GRAVITY


def check_heights(found, heights):
    """z = r + e v s - g s^2/2 a time s after an impact with the speed v; 60 steps add 60 round-offs
    of numbers near one."""
    speed, after = bounce(heights)
    expected = 0.5 + 0.8 * speed * after - GRAVITY * after**2 / 2
    np.testing.assert_allclose(np.asarray(found)[:, 0, 2], expected, rtol=0, atol=2e-14)
