"""A fit of tosses that another engine has simulated: record_bullet.py."""

import json
from pathlib import Path

import numpy as np
import pytest

import jaxrb as rb
from jaxrb import optimize as ro

RECORD = Path(__file__).parents[1] / "data" / "bullet.json"
HALF_EXTENTS = np.array([0.06, 0.05, 0.04])
FRICTION, RESTITUTION = 0.12, 0.6
MOMENTS = (np.sum(HALF_EXTENTS**2) - HALF_EXTENTS**2) / 3
SD = (1e-3, np.radians(0.5))


@pytest.mark.long
def test_tosses_of_a_box_by_bullet():
    """Three of them together, with noise, and parameters 30 % wrong, by Moreau's law, which
    is Bullet's but for the direction of friction: 1.6 % of its coefficient, less of the rest."""
    noise = np.random.default_rng(0)
    data = []
    for rows in json.loads(RECORD.read_text()):
        ts, position, quaternion = np.split(np.array(rows), [1, 4], axis=1)
        position += noise.normal(0, SD[0], position.shape)
        turns = noise.normal(0, SD[1], position.shape)
        data.append(ro.Poses(ts[:, 0], position, rb.lie.quaternion.retract(quaternion, turns), SD))
    law = rb.Moreau(1.3 * FRICTION, 0.7 * RESTITUTION)
    box = rb.RigidBody(rb.Box(HALF_EXTENTS), 1.0, MOMENTS * [0.75, 1.1, 1.0])
    world = rb.World([box], [rb.HalfSpace()], contact_law=law)
    free = ro.Parameters(
        world,
        {
            "contact_law.restitution": ro.Bounded(0, 1),
            "contact_law.friction": ro.Positive(),
            "bodies[0].inertia": ro.PhysicalInertia(),
        },
    )
    fit = ro.fit(world, data, free, rb.LGVCI(0.01, on_zeno="stop"))
    assert fit.impacts >= 9
    assert fit.chi_square / fit.dof < 1.2
    found = fit.world.contact_law
    np.testing.assert_allclose(found.restitution, RESTITUTION, rtol=0.01)
    np.testing.assert_allclose(found.friction, FRICTION, rtol=0.02)
    np.testing.assert_allclose(fit.world.bodies[0].inertia, MOMENTS, rtol=0.01)
