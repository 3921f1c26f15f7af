"""Convex polyhedra: mass properties against trimesh, supports against all vertices, bounces.

Signed distances are tested with those of the other solids.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import trimesh
from helpers import before_releases, differences, quick_jit

import jaxrb as rb

CUBE = np.stack(np.meshgrid(*[[-0.5, 0.5]] * 3), axis=-1).reshape(-1, 3)


def random_vertices(seed):
    """4 to 60 vertices of a hull of any size and place, not very flat."""
    rng = np.random.default_rng(seed)
    points = rng.normal(size=(4 + seed * 57 // 100, 3))
    points /= np.linalg.norm(points, axis=-1, keepdims=True)
    return points * rng.uniform(0.5, 2, size=3) * rng.uniform(0.1, 2) + rng.uniform(-1, 1, size=3)


@pytest.mark.slow
def test_mass_properties_equal_those_of_trimesh():
    for seed in range(100):
        vertices = random_vertices(seed)
        found = rb.ConvexPolyhedron(vertices, pad_to=64).mass_properties(density=1.7)
        mesh = trimesh.convex.convex_hull(vertices)
        mesh.density = 1.7
        size = np.abs(mesh.moment_inertia).max()
        np.testing.assert_allclose(found.volume, mesh.volume, rtol=1e-10)
        np.testing.assert_allclose(found.center_of_mass, mesh.center_mass, rtol=0, atol=1e-10)
        np.testing.assert_allclose(found.inertia, mesh.moment_inertia, rtol=0, atol=1e-10 * size)


def test_a_cube_is_a_box():
    cube, box = rb.ConvexPolyhedron(CUBE), rb.Box((0.5, 0.5, 0.5))
    assert cube.faces.shape == (12, 3)
    found, expected = (shape.mass_properties(mass=2.0) for shape in (cube, box))
    np.testing.assert_allclose(found.inertia, np.diag(expected.inertia), rtol=0, atol=1e-15)
    points = np.random.default_rng(0).uniform(-1, 1, size=(1000, 3))
    distance = eqx.filter_jit(cube.signed_distance)(points)
    np.testing.assert_allclose(distance, box.signed_distance(points), rtol=0, atol=1e-15)
    # The middles of a face, an edge, and a corner.
    directions = jnp.array([[0.0, 0, 1], [0, -1, 1], [1, 1, -1]])
    np.testing.assert_allclose(cube.support(directions), box.support(directions), atol=1e-15)


@pytest.mark.parametrize("seed", [0, 40, 99])
def test_support_is_the_furthest_vertex(seed):
    vertices = random_vertices(seed)
    directions = np.random.default_rng(seed).normal(size=(200, 3))
    found = rb.ConvexPolyhedron(vertices, pad_to=64).support(directions)
    furthest = vertices[np.argmax(directions @ vertices.T, axis=1)]
    np.testing.assert_allclose(found, furthest, rtol=0, atol=1e-15)


@pytest.mark.slow
@pytest.mark.parametrize("mode", [*before_releases(jax.jacfwd), jax.jacrev])
def test_derivatives_by_the_vertices(mode):
    vertices = random_vertices(20)
    n = len(vertices)
    d, p = jnp.array([0.3, -0.5, 0.2]), jnp.array([3.0, 1.0, 2.0])

    def numbers(v):
        shape = rb.ConvexPolyhedron(v.reshape(n, 3), pad_to=n + 2)
        mass = shape.mass_properties(density=1.0)
        distances = jnp.stack([shape.signed_distance(p), shape.signed_distance(v[:3] * 0.9)])
        parts = (distances, shape.support(d), mass.volume[None], mass.inertia.reshape(-1))
        return jnp.concatenate(parts)

    flat = vertices.reshape(-1)
    found = quick_jit(mode(numbers))(flat)
    np.testing.assert_allclose(found, differences(numbers, flat, 1e-4), rtol=0, atol=1e-8)


def polyhedra(seeds, dtype=np.float64):
    bodies = [
        rb.RigidBody(
            rb.ConvexPolyhedron(random_vertices(s).astype(dtype), pad_to=60),
            jnp.asarray(1.3, dtype),
        )
        for s in seeds
    ]
    worlds = [
        rb.World([b], [rb.HalfSpace()], gravity=np.array([0, 0, -9.81], dtype)) for b in bodies
    ]
    rng = np.random.default_rng(5)
    n = len(seeds)
    states = rb.State(
        np.tile(np.array([[0.0, 0.0, 5.0]], dtype), (n, 1, 1)),
        np.tile(np.array([[1.0, 0.0, 0.0, 0.0]], dtype), (n, 1, 1)),
        rng.normal(size=(n, 1, 3)).astype(dtype),
        rng.normal(size=(n, 1, 3)).astype(dtype),
    )
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *worlds), states


@pytest.mark.slow
def test_a_hundred_polyhedra_bounce_in_one_batch():
    worlds, states = polyhedra(range(100))
    energy = jax.vmap(rb.energy)
    method = rb.LGVCI(0.0025)  # small ones spin fast
    sol = rb.simulate_batch(worlds, states, method, 3.0, batch_world=True)
    assert int(jnp.sum(sol.impacts.count > 0)) == 100
    np.testing.assert_allclose(energy(worlds, sol.final), energy(worlds, states), rtol=1e-11)
    assert float(jnp.min(jax.vmap(rb.gaps)(worlds, sol.final))) > -1e-13


@pytest.mark.slow
def test_single_precision():
    """The energy drifts by round-off of some hundred steps and few impacts."""
    single = lambda tree: jax.tree.map(  # noqa: E731
        lambda leaf: leaf.astype("float32") if jnp.issubdtype(leaf.dtype, jnp.floating) else leaf,
        tree,
    )
    worlds, states = single(polyhedra([5, 20, 60]))
    sol = rb.simulate_batch(worlds, states, rb.LGVCI(0.005), 3.0, batch_world=True)
    assert int(jnp.sum(sol.impacts.count > 0)) == 3
    energy = jax.vmap(rb.energy)
    found = energy(worlds, sol.final)
    assert found.dtype == jnp.float32
    np.testing.assert_allclose(found, energy(worlds, states), rtol=5e-5)


@pytest.mark.slow
def test_gradient_through_a_bounce_on_a_vertex():
    """Built outside of what is differentiated; only the vertices move."""
    worlds, states = polyhedra([50])
    world, state = jax.tree.map(lambda leaf: leaf[0], (worlds, states))

    def height(z):
        start = rb.State(
            state.position.at[0, 2].set(z), state.quaternion, state.velocity, state.angular_velocity
        )
        return rb.simulate(world, start, rb.LGVCI(0.01), 1.3).final.position[0, 2]

    z = jnp.asarray(5.0)
    step = 1e-6
    expected = (height(z + step) - height(z - step)) / (2 * step)
    np.testing.assert_allclose(quick_jit(jax.grad(height))(z), expected, rtol=1e-6)


@pytest.mark.parametrize(
    ("message", "vertices", "pad_to"),
    [
        (r"shape \(n, 3\), n >= 4", CUBE[:3], None),
        (r"shape \(n, 3\), n >= 4", CUBE[:, :2], None),
        ("must not lie in one plane", CUBE * [1, 1, 0], None),
        ("must be finite", CUBE * [1, 1, np.nan], None),
        ("pad_to must be at least 8", CUBE, 7),
    ],
)
def test_refuses(message, vertices, pad_to):
    with pytest.raises(ValueError, match=message):
        rb.ConvexPolyhedron(vertices, pad_to)
