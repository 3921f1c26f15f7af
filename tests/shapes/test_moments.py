"""Mass properties by quadrature against closed forms of composite solids.

In double precision the stated error is 1e-9 of the volume; what is found is mostly exact to a
few round-offs, so 1e-9 is asked. Solids of one structure share one program: the cases differ
in their numbers only.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import quick_jit

import jaxrb as rb

TOLERANCE = 1e-9


def inertia_of(parts):
    """Volume, centre and inertia about it, at density 1, of solids (volume, centre, second
    moment about its centre), each added with the sign of its volume."""
    volume = sum(v for v, _, _ in parts)
    center = sum(v * np.asarray(c) for v, c, _ in parts) / volume
    second = sum(s + v * np.outer(c - center, c - center) for v, c, s in parts)
    return volume, center, np.trace(second) * np.eye(3) - second


def ball(radius, center, sign=1):
    volume = sign * 4 / 3 * np.pi * radius**3
    return volume, np.asarray(center), volume * radius**2 / 5 * np.eye(3)


def box(half, center, sign=1):
    volume = sign * 8 * np.prod(half)
    return volume, np.asarray(center), volume * np.diag(np.square(half)) / 3


def cylinder(radius, half, center, sign=1):
    volume = sign * 2 * np.pi * radius**2 * half
    squares = np.array([radius**2 / 4, radius**2 / 4, half**2 / 3])
    return volume, np.asarray(center), volume * np.diag(squares)


def cap(radius, z0, shift, sign=1):
    """The part z >= z0 of a ball about the origin, turned to x and moved by `shift` along it."""
    t, w = np.polynomial.legendre.leggauss(8)
    z, w = (z0 + radius + (radius - z0) * t) / 2, w * (radius - z0) / 2
    area = np.pi * (radius**2 - z**2)
    volume, middle = np.sum(w * area), np.sum(w * area * z) / np.sum(w * area)
    along, across = np.sum(w * area * (z - middle) ** 2), np.sum(w * area * (radius**2 - z**2)) / 4
    second = np.diag([along, across, across])
    return sign * volume, np.array([shift + middle, 0, 0]), sign * second


def mirrored(part):
    volume, center, second = part
    return volume, -center, second


def assert_properties(shape, expected, rtol=TOLERANCE):
    volume, center, inertia = expected
    found = shape.mass_properties(density=1.0)
    size = np.sqrt(np.trace(inertia) / volume)
    np.testing.assert_allclose(found.volume, volume, rtol=rtol)
    np.testing.assert_allclose(found.center_of_mass, center, atol=rtol * size)
    np.testing.assert_allclose(found.inertia, inertia, atol=rtol * np.trace(inertia))


FAR = (8.0, 0.0, 0.0)


def two_without_box(axes, place, others, there, half=(0.1, 0.1, 0.1), position=FAR):
    """Two ellipsoids, less a box that is out of the way unless it is given."""
    both = rb.Union(
        rb.Placed(rb.Ellipsoid(axes), place, (1.0, 0.2, 0.3, 0.1)),
        rb.Placed(rb.Ellipsoid(others), there),
    )
    return rb.Difference(both, rb.Placed(rb.Box(half), position))


@pytest.mark.slow
def test_two_ellipsoids_of_the_paper():
    """Tran and Leok, section 5.3: the third case, whose figures have nine digits."""
    shape = two_without_box((6.0, 1.0, 1.0), (-4.5, 0, 0), (3.0, 4.0, 5.0), (1.5, 0, 0))
    shape = eqx.tree_at(lambda s: s.a.a.quaternion, shape, jnp.asarray([1.0, 0, 0, 0]))
    found = shape.mass_properties(mass=1.0)
    np.testing.assert_allclose(found.center_of_mass, [0.9741761510, 0, 0], atol=1e-9)
    expected = np.diag([7.59327195, 9.93227773, 8.27275958])
    np.testing.assert_allclose(found.inertia, expected, atol=1e-8)


R, S, D = 1.0, 0.8, 1.1
LENS = [cap(R, (D**2 + R**2 - S**2) / (2 * D), 0.0, -1)]
LENS.append(mirrored(cap(S, (D**2 + S**2 - R**2) / (2 * D), -D, -1)))
BIG = np.array([3.0, 3.0, 3.0])
BALLS = {
    "overlapping": (
        (R, (0, 0, 0), S, (D, 0, 0)),
        [ball(R, (0, 0, 0)), ball(S, (D, 0, 0)), *LENS],
    ),
    "apart": ((0.5, (-1, 0, 0), 0.3, (1, 0.2, 0)), [ball(0.5, (-1, 0, 0)), ball(0.3, (1, 0.2, 0))]),
    "the same twice": ((0.7, (0.1, 0, 0), 0.7, (0.1, 0, 0)), [ball(0.7, (0.1, 0, 0))]),
    "cut by a plane": (
        (R, (0, 0, 0), 0.3, (0, 0, 0), BIG, (3.4, 0, 0)),
        [ball(R, (0, 0, 0)), cap(R, 0.4, 0.0, -1)],
    ),
    "with a ball within": (
        (R, (0, 0, 0), 0.3, (0.2, 0, 0), (0.2, 0.3, 0.1), (-0.3, 0, 0)),
        [ball(R, (0, 0, 0)), box((0.2, 0.3, 0.1), (-0.3, 0, 0), -1)],
    ),
}


@pytest.mark.parametrize("name", BALLS)
def test_two_balls_less_a_box(name):
    (r, here, s, there, *cut), parts = BALLS[name]
    shape = two_without_box((r, r, r), here, (s, s, s), there, *cut)
    assert_properties(shape, inertia_of(parts))


def test_nothing_left():
    shape = two_without_box((0.5, 0.5, 0.5), (0, 0, 0), (0.3, 0.3, 0.3), (0, 0, 0), BIG, (0, 0, 0))
    with pytest.raises(ValueError, match="Difference is empty"):
        shape.mass_properties(mass=1.0)
    with pytest.raises(ValueError, match="Difference is empty"):
        rb.RigidBody(shape)


@pytest.mark.slow
def test_nothing_left_of_traced_numbers():
    shape = rb.Intersection(rb.Sphere(0.5), rb.Placed(rb.Sphere(0.3), (2.0, 0, 0)))
    traced = quick_jit(lambda shape: shape.mass_properties(mass=1.0))(shape)
    assert np.isnan(traced.volume)
    assert np.all(np.isnan(traced.inertia))


HALF = np.array([1.0, 1.2, 0.8])
HOLES = {
    "a hole": ((0.5, 0.4, 2.0), (0.2, 0.1, 0.0), box((0.5, 0.4, 0.8), (0.2, 0.1, 0), -1)),
    "a corner": ((0.5, 0.5, 0.5), (1.0, 1.2, 0.8), box((0.25,) * 3, (0.75, 0.95, 0.55), -1)),
    "flush": ((0.5, 0.4, 0.3), (0.2, 0.1, 0.5), box((0.5, 0.4, 0.3), (0.2, 0.1, 0.5), -1)),
    "flush thrice": ((0.5, 0.6, 0.3), (0.5, 0.6, 0.5), box((0.5, 0.6, 0.3), (0.5, 0.6, 0.5), -1)),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", HOLES)
def test_box_less_box(name):
    half, position, hole = HOLES[name]
    shape = rb.Difference(rb.Box(HALF), rb.Placed(rb.Box(half), position))
    assert_properties(shape, inertia_of([box(HALF, (0, 0, 0)), hole]))


@pytest.mark.slow
def test_drilled_cylinder_in_single_precision():
    whole = rb.Cylinder(jnp.float32(1.0), jnp.float32(0.8))
    drill = rb.Cylinder(jnp.float32(0.4), jnp.float32(2.0))
    place = jnp.asarray([0.3, 0.2, 0.0], jnp.float32), jnp.asarray([1, 0, 0, 0], jnp.float32)
    expected = inertia_of([cylinder(1.0, 0.8, (0, 0, 0)), cylinder(0.4, 0.8, (0.3, 0.2, 0), -1)])
    shape = rb.Difference(whole, rb.Placed(drill, *place))
    assert shape.mass_properties(density=1.0).inertia.dtype == jnp.float32
    assert_properties(shape, expected, rtol=1e-4)


@pytest.mark.slow
def test_rounded_union():
    """That of two balls is the union of larger balls."""
    both = rb.Union(rb.Sphere(R - 0.2), rb.Placed(rb.Sphere(S - 0.2), (D, 0, 0)))
    assert_properties(rb.Rounded(both, 0.2), inertia_of(BALLS["overlapping"][1]))


class Torus(eqx.Module):
    major: jax.Array
    minor: jax.Array

    def __call__(self, z):
        return jnp.hypot(jnp.hypot(z[0], z[1]) - self.major, z[2]) - self.minor


def torus_properties(radii):
    shape = rb.Placed(rb.Implicit(Torus(*radii), 1.1), (0.1, 0.2, 0.3))
    found = shape.mass_properties(density=1.0)
    return jnp.concatenate([found.volume[None], found.center_of_mass, jnp.diag(found.inertia)])


@pytest.mark.long
def test_torus_and_its_derivatives():
    """V = 2 pi^2 R r^2, I_z = V (R^2 + 3/4 r^2), I_x = V (R^2/2 + 5/8 r^2)."""

    def expected(radii):
        major, minor = radii
        volume = 2 * jnp.pi**2 * major * minor**2
        across = volume * (major**2 / 2 + 5 / 8 * minor**2)
        along = volume * (major**2 + 3 / 4 * minor**2)
        return jnp.stack([volume, *jnp.array([0.1, 0.2, 0.3]), across, across, along])

    radii = jnp.array([0.75, 0.25])
    np.testing.assert_allclose(torus_properties(radii), expected(radii), rtol=TOLERANCE)
    found = quick_jit(jax.jacfwd(torus_properties))(radii)
    np.testing.assert_allclose(found, jax.jacobian(expected)(radii), atol=1e-8)


@pytest.mark.long
def test_derivatives_by_all_numbers():
    """Reverse mode against differences of fourth order, whose error is about 1e-9."""

    def inertia(shape):
        return jnp.sum(shape.mass_properties(density=1.0).inertia * jnp.asarray(WEIGHT))

    WEIGHT = np.array([[1.0, 0.3, 0.2], [0.5, 2.0, 0.1], [0.4, 0.6, 1.5]])
    shape = two_without_box(
        (1.0, 0.8, 0.9),
        (0, 0.1, 0),
        (0.7, 0.9, 0.8),
        (0.9, 0, 0.1),
        (0.5, 0.6, 0.4),
        (0.2, 0.7, 0.4),
    )
    gradient = quick_jit(jax.grad(inertia))(shape)
    leaves, structure = jax.tree.flatten(shape)
    rng = np.random.default_rng(0)
    direction = [rng.normal(size=leaf.shape) for leaf in leaves]
    step = 2e-3

    def moved(h):
        parts = [leaf + h * step * d for leaf, d in zip(leaves, direction, strict=True)]
        return inertia(jax.tree.unflatten(structure, parts))

    difference = (8 * (moved(1) - moved(-1)) - moved(2) + moved(-2)) / (12 * step)
    found = sum(np.sum(g * d) for g, d in zip(jax.tree.leaves(gradient), direction, strict=True))
    np.testing.assert_allclose(found, difference, rtol=1e-6)


def test_rounded_difference_is_refused():
    shape = rb.Rounded(rb.Difference(rb.Sphere(1.0), rb.Box((0.5, 0.5, 2.0))), 0.1)
    with pytest.raises(ValueError, match="Rounded Difference has no mass properties"):
        shape.mass_properties(mass=1.0)
