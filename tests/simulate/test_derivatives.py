"""Derivatives through impacts, against closed forms and an independent implementation.

The reference is `tests/reference.py` run with complex numbers: a step of 1e-30 along the
imaginary axis gives derivatives to round-off, without the cancellation of differences.
"""

import cmath

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import reference
from helpers import before_releases, quick_jit

import jaxrb as rb

# Contacts that last have tests of their own, and larger programs.
METHOD = rb.LGVCI(dt=0.01, on_zeno="stop")
# The parameters of Case I that are varied, as one flat vector.
NAMES = ["z0", "px", "pz", "Piy", "mass", "a", "c", "Jxx", "nx", "nz", "offset", "g", "e"]
POINT = jnp.array([10.0, 2, 10, -4, 1, 2, 4, 5, 0.02, 1.1, 0.1, 9.80665, 0.97])


def scene(v):
    p = dict(zip(NAMES, v, strict=True))
    zero, one = jnp.zeros_like(v[0]), jnp.ones_like(v[0])
    body = rb.RigidBody(
        rb.Ellipsoid(jnp.stack([p["a"], 3 * one, p["c"]])),
        mass=p["mass"],
        inertia=jnp.stack([p["Jxx"], 4 * one, 2.6 * one]),
    )
    world = rb.World(
        [body],
        [rb.HalfSpace(jnp.stack([p["nx"], zero, p["nz"]]), p["offset"])],
        gravity=jnp.stack([zero, zero, -p["g"]]),
        contact_law=rb.Frictionless(p["e"]),
    )
    state = rb.State.from_momenta(
        world,
        position=jnp.stack([zero, zero, p["z0"]])[None],
        linear_momentum=jnp.stack([p["px"], 2 * one, p["pz"]])[None],
        angular_momentum=jnp.stack([4 * one, p["Piy"], 4 * one])[None],
    )
    return world, state


def package(n_steps):
    def outputs(v):
        world, state = scene(v)
        final = rb.simulate(world, state, METHOD, n_steps * 0.01).final
        return jnp.stack([final.position[0, 2], final.rotation_matrix[0, 0, 2]])

    return outputs


def independent(v, n_steps):
    p = dict(zip(NAMES, v, strict=True))
    body = reference.paper_case(
        number=complex,
        sqrt=cmath.sqrt,
        z0=p["z0"],
        mass=p["mass"],
        axes=[p["a"], 3 + 0j, p["c"]],
        moments=[p["Jxx"], 4 + 0j, 2.6 + 0j],
        plane=([p["nx"], 0j, p["nz"]], p["offset"]),
        g=p["g"],
        restitution=p["e"],
        p=[p["px"], 2 + 0j, p["pz"]],
        Pi=[4 + 0j, p["Piy"], 4 + 0j],
    )
    end = body.simulate(0.01, n_steps)
    return [end.x[2], end.R[0][2], body.impacts[0][0]], len(body.impacts)


def complex_step_jacobian(v, n_steps, chosen=None):
    """By the chosen parameters, and the number of impacts."""
    columns = []
    for i in range(len(NAMES)) if chosen is None else chosen:
        w = [complex(x) for x in v]
        w[i] += 1e-30j
        outputs, impacts = independent(w, n_steps)
        columns.append([x.imag / 1e-30 for x in outputs])
    return np.array(columns).T, impacts


@pytest.mark.slow
def test_all_parameters_through_impacts_in_both_modes():
    """The poses after one and after two impacts, and the time of the first."""
    one, two = (complex_step_jacobian(POINT, n_steps) for n_steps in (350, 550))
    assert (one[1], two[1]) == (1, 2)
    expected = np.concatenate([one[0][:2], two[0]])

    def outputs(v):
        world, state = scene(v)
        save = rb.SaveAt(ts=[3.5, 5.5], impacts=4)
        sol = rb.simulate(world, state, METHOD, 5.5, save=save)
        assert sol.states.position.shape == (2, 1, 3)
        heights, attitudes = sol.states.position[:, 0, 2], sol.states.rotation_matrix[:, 0, 0, 2]
        poses = jnp.stack([heights, attitudes], axis=-1).reshape(-1)
        return jnp.append(poses, sol.impacts.time[0])

    forward, reverse = quick_jit(jax.jacfwd(outputs))(POINT), quick_jit(jax.jacrev(outputs))(POINT)
    scale = np.abs(expected).max(axis=1, keepdims=True)
    # Both are exact up to round-off, amplified by some 1e2 an impact.
    np.testing.assert_allclose(forward / scale, expected / scale, rtol=0, atol=1e-11)
    np.testing.assert_allclose(reverse / scale, forward / scale, rtol=0, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("outer", "inner"),
    [
        (jax.jacfwd, jax.jacrev),
        (jax.jacrev, jax.jacrev),
        *before_releases((jax.jacfwd, jax.jacfwd), (jax.jacrev, jax.jacfwd)),
    ],
)
def test_hessians_in_every_combination_of_modes(outer, inner):
    """A sphere after two bounces, against its closed form."""

    def closed_form(v):
        z0, e = v
        fall = jnp.sqrt(2 * z0 / 9.81)
        after = 1.2 - fall - 2 * e * fall  # since the second bounce, at speed e^2 g fall
        return e**2 * 9.81 * fall * after - 9.81 * after**2 / 2

    def simulated(v):
        z0, e = v
        world = rb.World(
            [rb.RigidBody(rb.Sphere(0.1))],
            [rb.HalfSpace(offset=-0.1)],
            contact_law=rb.Frictionless(e),
        )
        state = rb.State(
            jnp.stack([0 * z0, 0 * z0, z0])[None],
            jnp.array([[1.0, 0, 0, 0]]),
            jnp.zeros((1, 3)),
            jnp.zeros((1, 3)),
        )
        return rb.simulate(world, state, rb.LGVCI(dt=0.05, on_zeno="stop"), 1.2).final.position[
            0, 2
        ]

    at = jnp.array([0.9, 0.7])
    assert abs(float(simulated(at) - closed_form(at))) < 1e-13
    hessian = quick_jit(outer(inner(simulated)))(at)
    np.testing.assert_allclose(hessian, jax.hessian(closed_form)(at), rtol=0, atol=1e-10)


@pytest.mark.long
def test_hessian_of_a_tumbling_body():
    """`jax.hessian`, forward over reverse, through two impacts of Case I."""
    chosen = [NAMES.index(name) for name in ("z0", "e")]
    replace = POINT.at[jnp.array(chosen)].set

    def height(w):
        return package(550)(replace(w))[0]

    def gradient(w):
        return complex_step_jacobian(replace(w), 550, chosen)[0][0]

    at, step = POINT[jnp.array(chosen)], 1e-5
    columns = []
    for e in step * np.eye(2):
        # Fourth-order differences of an exact gradient.
        near = (gradient(at + e) - gradient(at - e)) / (2 * step)
        far = (gradient(at + 2 * e) - gradient(at - 2 * e)) / (4 * step)
        columns.append((4 * near - far) / 3)
    expected = np.array(columns)
    scale = np.abs(expected).max()
    # The differences leave 1e-15/1e-5 times the amplification.
    hessian = quick_jit(jax.hessian(height))(at)
    np.testing.assert_allclose(hessian / scale, expected / scale, rtol=0, atol=1e-8)


def bouncing_point(v):
    h0, v0, g, e = v
    # A small sphere stands for the point: its centre bounces over the plane z = -radius.
    radius = 1e-3
    world = rb.World(
        [rb.RigidBody(rb.Sphere(radius))],
        [rb.HalfSpace(offset=-radius)],
        gravity=jnp.stack([0 * g, 0 * g, -g]),
        contact_law=rb.Frictionless(e),
    )
    state = rb.State(
        jnp.stack([0 * h0, 0 * h0, h0])[None],
        jnp.array([[1.0, 0, 0, 0]]),
        jnp.stack([0 * v0, 0 * v0, v0])[None],
        jnp.zeros((1, 3)),
    )
    return rb.simulate(world, state, METHOD, 2.0).final.position[0, 2]


@pytest.mark.long
def test_bouncing_point_has_its_closed_form_derivatives():
    at = jnp.array([1.0, 0.3, 9.81, 0.8])
    expected = [0.08536036459, -0.01560563392, 0.01845466088, 1.399291186]
    assert abs(float(bouncing_point(at)) - 0.261718897668) < 1e-11
    for mode in (jax.grad, jax.jacfwd):
        found = quick_jit(mode(bouncing_point))(at)
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-9)


@pytest.mark.slow
def test_elastic_bounce_without_gravity_reflects_the_derivative():
    """dz(T)/dz(0) = -1: starting higher, the sphere turns later and ends lower."""

    def end(z0):
        world = rb.World([rb.RigidBody(rb.Sphere(0.1))], [rb.HalfSpace()], gravity=(0, 0, 0))
        state = rb.State(
            jnp.stack([0 * z0, 0 * z0, z0])[None],
            jnp.array([[1.0, 0, 0, 0]]),
            jnp.array([[0.0, 0, -1]]),
            jnp.zeros((1, 3)),
        )
        return rb.simulate(world, state, METHOD, 1.0).final.position[0, 2]

    z0 = jnp.asarray(0.5)
    assert abs(float(quick_jit(jax.grad(end))(z0)) + 1) < 1e-12
    assert abs(float(quick_jit(jax.jacfwd(end))(z0)) + 1) < 1e-12


@pytest.mark.long
def test_derivatives_of_what_is_saved():
    """Saved states within steps and after impacts, against the bounce in closed form."""
    g, z0, speed = 10.0, 1.0, 0.0
    times = [0.0, 0.123, 0.3, 0.45, 0.4701, 0.8, 1.0]

    def path(z0, e):
        fall = jnp.sqrt(2 * z0 / g)
        ts = jnp.array(times)
        after = ts - fall
        up = e * g * fall
        return jnp.where(after < 0, z0 - g * ts**2 / 2, up * after - g * after**2 / 2)

    def simulated(z0, e):
        world = rb.World(
            [rb.RigidBody(rb.Sphere(0.01))],
            [rb.HalfSpace(offset=-0.01)],
            gravity=(0, 0, -g),
            contact_law=rb.Frictionless(e),
        )
        state = rb.State(
            jnp.stack([0 * z0, 0 * z0, z0])[None],
            jnp.array([[1.0, 0, 0, 0]]),
            jnp.array([[0.0, 0, speed]]),
            jnp.zeros((1, 3)),
        )
        save = rb.SaveAt(ts=times)
        return rb.simulate(world, state, METHOD, 1.0, save=save).states.position[:, 0, 2]

    at = (jnp.asarray(z0), jnp.asarray(0.9))
    np.testing.assert_allclose(simulated(*at), path(*at), rtol=0, atol=1e-13)
    expected = jax.jacfwd(path, argnums=(0, 1))(*at)
    for mode in (jax.jacfwd, jax.jacrev):
        np.testing.assert_allclose(
            quick_jit(mode(simulated, argnums=(0, 1)))(*at), expected, rtol=0, atol=1e-11
        )


@pytest.mark.long
def test_gradient_through_ten_impacts_of_a_box_matches_differences():
    """Uniform density: extents act through the inertia as well as the contact point."""

    def end(extents):
        world = rb.World(
            [rb.RigidBody(rb.Rounded(rb.Box(extents), 0.02), mass=1.3)],
            [rb.HalfSpace(), rb.HalfSpace((-1, 0, 0), -1.2), rb.HalfSpace((1, 0, 0), -1.2)],
            contact_law=rb.Frictionless(0.9),
        )
        state = rb.State(
            jnp.array([[0.0, 0, 0.8]]),
            jnp.array([[0.8, 0.6, 0, 0]]),
            jnp.array([[3.0, 0, 1]]),
            jnp.array([[1.0, 2, 0.5]]),
        )
        sol = rb.simulate(world, state, METHOD, 1.78)
        return jnp.sum(sol.final.position[0]), sol.impacts.count

    at = jnp.array([0.15, 0.2, 0.3])
    value = jax.jit(lambda x: end(x)[0])
    assert int(end(at)[1]) >= 10
    reverse = quick_jit(jax.grad(value))(at)
    forward = quick_jit(jax.jacfwd(value))(at)
    np.testing.assert_allclose(reverse, forward, rtol=1e-9)
    step = 1e-7
    for i in range(3):
        e = step * jnp.eye(3)[i]
        near = (value(at + e) - value(at - e)) / (2 * step)
        far = (value(at + 2 * e) - value(at - 2 * e)) / (4 * step)
        # Ten impacts amplify round-off and curvature of the differences alike.
        np.testing.assert_allclose(reverse[i], (4 * near - far) / 3, rtol=1e-5)


@pytest.mark.slow
def test_float32_gradients_are_close_to_float64():
    double = complex_step_jacobian(POINT, 350)[0][:2]
    single = quick_jit(jax.jacrev(package(350)))(POINT.astype(jnp.float32))
    assert single.dtype == jnp.float32
    scale = np.abs(double).max(axis=1, keepdims=True)
    np.testing.assert_allclose(np.asarray(single) / scale, double / scale, rtol=0, atol=2e-3)


def test_gradient_with_respect_to_a_whole_world():
    """Every number of the world has a derivative, in the structure of the world."""
    world, state = scene(POINT)

    def height(world):
        return rb.simulate(world, state, METHOD, 3.5).final.position[0, 2]

    gradient = quick_jit(jax.grad(height))(world)
    expected = complex_step_jacobian(POINT, 350)[0][0]
    by_name = dict(zip(NAMES, expected, strict=True))
    np.testing.assert_allclose(gradient.contact_law.restitution, by_name["e"], rtol=1e-10)
    np.testing.assert_allclose(gradient.bodies[0].shape.semi_axes[2], by_name["c"], rtol=1e-10)
    np.testing.assert_allclose(gradient.obstacles[0].offset, by_name["offset"], rtol=1e-10)
    np.testing.assert_allclose(-gradient.gravity[2], by_name["g"], rtol=1e-10)
