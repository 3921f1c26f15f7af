"""The rims on which cylinders and cones stand, against circles."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxrb as rb
from jaxrb.math import Vec3
from jaxrb.shapes.rim import Circle

RADIUS, HALF = 0.1, 0.15
PARTS = rb.Cylinder(RADIUS, HALF).standing_parts()


def down(tilt, azimuth):
    """Unit directions at an angle from that along the axis."""
    return np.stack(
        [np.sin(tilt) * np.cos(azimuth), np.sin(tilt) * np.sin(azimuth), -np.cos(tilt)], axis=-1
    )


def touched(direction):
    """How far each part is along directions, and its points; parts first."""
    d = Vec3.of(jnp.asarray(direction))
    found = [part.support_map(d) for part in PARTS]
    heights = np.stack([np.broadcast_to(height, d.x.shape) for height, _ in found])
    points = [np.broadcast_to(point.array(), direction.shape) for _, point in found]
    return heights, np.stack(points)


def directions():
    rng = np.random.default_rng(0)
    tilt = np.concatenate([10 ** rng.uniform(-12, -0.7, 300), rng.uniform(0.2, 1.5, 100), [0.0]])
    return tilt, down(tilt, rng.uniform(0, 2 * np.pi, len(tilt)))


def test_it_is_the_circle_but_for_small_tilts():
    """The furthest point of the circle is r sin(tilt) + h cos(tilt) away. Nothing is further, it is
    reached from a tilt of 0.2 on, and missed by 0.0027 r at most."""
    tilt, d = directions()
    missed = (RADIUS * np.sin(tilt) + HALF * np.cos(tilt) - touched(d)[0].max(axis=0)) / RADIUS
    assert missed.min() >= -1e-14
    assert missed.max() <= 0.0027
    np.testing.assert_allclose(missed[np.sin(tilt) > 0.2], 0.0, atol=1e-14)
    # All of a disc that lies flat is on the hexagon.
    assert missed[-1] == 0.0


@pytest.mark.parametrize("azimuth", [0.3, 2.0])
def test_the_point_of_the_circle_is_well_within_the_hexagon_as_the_disc_goes_through_flat(azimuth):
    """Else it would take part in the impact of the far side, at a place that jumps."""
    heights, _ = touched(down(np.array([0.0, 1e-9, 1e-3]), azimuth))
    circle = [k for k, part in enumerate(PARTS) if isinstance(part, Circle)]
    assert np.all(heights.max(axis=0) - heights[circle].max(axis=0) > 0.003 * RADIUS)


def test_points_are_where_heights_say():
    """h = d . p, and h changes by p . dd as the direction turns: forces are along its gradient."""
    _, d = directions()
    d = d[np.hypot(d[:, 0], d[:, 1]) > 1e-3]
    heights, points = touched(d)
    np.testing.assert_allclose(np.einsum("pni,ni->pn", points, d), heights, atol=1e-16)
    rng = np.random.default_rng(1)
    change = np.cross(rng.normal(size=d.shape), d)
    step = 1e-7

    def turned(by):
        moved = d + by * change
        return touched(moved / np.linalg.norm(moved, axis=1, keepdims=True))[0]

    slope = (turned(step) - turned(-step)) / (2 * step)
    # The third derivative is up to 1e6.
    np.testing.assert_allclose(slope, np.einsum("pni,ni->pn", points, change), atol=2e-9)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64])
def test_derivatives_exist_where_it_is_flat(dtype):
    circle = jax.tree.map(lambda leaf: leaf.astype(dtype), PARTS[0])

    def touch(d):
        height, point = circle.support_map(Vec3.of(d))
        return jnp.concatenate([height[None], point.array()])

    for tilt in (0.0, 1e-9, 1e-3):
        d = jnp.asarray(down(tilt, 1.0), dtype)
        assert np.isfinite(jax.jacfwd(touch)(d)).all()
        assert np.isfinite(jax.jacrev(touch)(d)).all()
