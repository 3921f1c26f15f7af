"""Springs and dampers: forces against potentials, Newton's third law, and lost power."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import quick_jit
from loads import (
    inertial,
    minus_gradient,
    potential_at,
    power,
    rotation,
    state,
    world_torque,
    wrench_at,
)

import jaxrb as rb
from jaxrb.bodies.state import to_phase

A, B = (0.3, -0.2, 0.5), (-0.4, 0.1, 0.2)
TO_WORLD = {"anchor": A, "other_anchor": B}
TO_BODY = {**TO_WORLD, "other": 2}
ENDS = pytest.mark.parametrize("ends", [TO_WORLD, TO_BODY], ids=["world", "body"])
wrench_of = quick_jit(wrench_at)


def length(here, ends):
    """From one point to the other."""
    p = here.position[0] + rotation(here, 0).apply(A)
    other = ends.get("other")
    q = np.array(B) if other is None else here.position[2] + rotation(here, 2).apply(B)
    return np.asarray(p - q)


def coincident(ends):
    """A state, and ends as given but so that both points are the same one, exactly."""
    here = state()
    quaternion = jnp.zeros((3, 4)).at[:, 0].set(1.0)
    position = here.position.at[jnp.array([0, 2])].set(0.0)
    here = rb.State(position, quaternion, here.velocity, here.angular_velocity)
    return here, {**ends, "other_anchor": A}


@ENDS
@pytest.mark.parametrize("rest_length", [0.0, 0.8])
def test_force_along_the_line(ends, rest_length):
    here, spring = state(), rb.Spring(0, 3.0, rest_length=rest_length, **ends)
    d = length(here, ends)
    size = np.linalg.norm(d)
    expected = -3.0 * (size - rest_length) * d / size
    force, torque = wrench_of(spring, here)
    np.testing.assert_allclose(force[0], expected, atol=1e-14)
    np.testing.assert_allclose(
        torque[0], np.cross(A, rotation(here, 0).inv().apply(expected)), atol=1e-14
    )
    assert not np.any(force[1]) and not np.any(torque[1])
    np.testing.assert_allclose(
        potential_at(spring, here), 1.5 * (size - rest_length) ** 2, rtol=1e-14
    )
    assert spring.conservative and not spring.velocity_dependent


@ENDS
@pytest.mark.parametrize("rest_length", [0.0, 0.8])
def test_wrench_is_minus_the_gradient_of_the_potential(ends, rest_length):
    here, spring = state(), rb.Spring(0, 3.0, rest_length=rest_length, **ends)
    for found, expected in zip(wrench_of(spring, here), minus_gradient(spring, here), strict=True):
        np.testing.assert_allclose(found, expected, atol=2e-14)


@pytest.mark.parametrize("damping", [0.0, 0.7])
def test_action_and_reaction(damping):
    here = state()
    spring = rb.Spring(0, 3.0, rest_length=0.4, damping=damping, **TO_BODY)
    force, torque = wrench_of(spring, here)
    assert np.linalg.norm(force[0]) > 1
    np.testing.assert_allclose(np.sum(force, axis=0), 0, atol=1e-15)
    np.testing.assert_allclose(world_torque(here, force, torque), 0, atol=1e-14)


@ENDS
def test_damper_takes_the_power_of_its_rate(ends):
    """-c (dL/dt)^2, with the rate from two moments."""
    here, damper = state(), rb.Damper(0, 0.7, **ends)
    eps = 1e-5

    def moved(time):
        zero = jnp.zeros_like(here.position)
        step = [here.velocity * time, here.angular_velocity * time, zero, zero]
        return np.linalg.norm(length(here.retract(jnp.concatenate(step, axis=-1)), ends))

    rate = (moved(eps) - moved(-eps)) / (2 * eps)
    force, torque = wrench_of(damper, here)
    # The differences have an error of order eps^2, and round-off over eps.
    np.testing.assert_allclose(power(here, force, torque), -0.7 * rate**2, rtol=1e-9)
    d = length(here, ends)
    np.testing.assert_allclose(force[0], -0.7 * rate * d / np.linalg.norm(d), rtol=1e-9)
    assert damper.velocity_dependent and not damper.conservative


@ENDS
def test_damped_spring_has_parts(ends):
    """An elastic one with the potential, and the damper without."""
    here = state()
    spring = rb.Spring(0, 3.0, rest_length=0.8, damping=0.7, **ends)
    assert spring.velocity_dependent and not spring.conservative
    elastic, damper = spring.parts()
    assert elastic.conservative and not damper.conservative
    assert elastic.parts() == (elastic,) and damper.parts() == (damper,)
    whole = wrench_of(spring, here)
    parts = [wrench_of(part, here) for part in (elastic, damper)]
    for found, one, other in zip(whole, *parts, strict=True):
        np.testing.assert_allclose(found, one + other, atol=1e-15)
    assert potential_at(spring, here) == potential_at(elastic, here)
    assert {spring.bodies, elastic.bodies, damper.bodies} == {(0, 2) if "other" in ends else (0,)}


def test_only_the_number_zero_is_no_damper():
    for nothing in (0, 0.0):
        assert rb.Spring(0, 1.0, damping=nothing).damping is None
    array = rb.Spring(0, 1.0, damping=jnp.zeros(()))
    assert array.velocity_dependent and not array.conservative
    traced = []
    jax.jit(lambda c: traced.append(rb.Spring(0, 1.0, damping=c).velocity_dependent))(0.0)
    assert traced == [True]


@pytest.mark.slow
@ENDS
def test_smooth_where_points_coincide(ends):
    """A spring without rest length is the field -k d, also there: its stiffness is -k I."""
    here, ends = coincident(ends)
    spring = rb.Spring(0, 3.0, **ends)

    def moved(shift):
        rest = (here.quaternion, here.velocity, here.angular_velocity)
        return rb.State(here.position.at[0].add(shift), *rest)

    def force(shift):
        return wrench_at(spring, moved(shift))[0][0]

    @quick_jit
    def all_of(shift):
        slope = jax.jacrev(force)
        hessian = jax.hessian(lambda shift: potential_at(spring, moved(shift)))(shift)
        return (
            force(shift),
            slope(shift),
            jax.jacfwd(force)(shift),
            jax.jacfwd(slope)(shift),
            hessian,
        )

    zero, slope, forward, curvature, hessian = all_of(jnp.zeros(3))
    np.testing.assert_array_equal(zero, 0)
    np.testing.assert_array_equal(curvature, 0)
    for found in (slope, forward, -hessian):
        np.testing.assert_allclose(found, -3 * np.eye(3), atol=1e-14)


def test_finite_where_points_coincide():
    here, ends = coincident(TO_BODY)
    spring = rb.Spring(0, 3.0, rest_length=0.5, damping=0.2, **ends)

    def all_of(rest_length, position):
        load = eqx.tree_at(lambda s: s.rest_length, spring, rest_length)
        moved = rb.State(position, here.quaternion, here.velocity, here.angular_velocity)
        return wrench_at(load, moved), potential_at(load, moved)

    at = (spring.rest_length, here.position)
    (force, torque), energy = all_of(*at)
    assert not np.any(force) and not np.any(torque)
    np.testing.assert_allclose(energy, 3.0 * 0.5**2 / 2)
    slopes = quick_jit(jax.jacfwd(jax.jacrev(all_of, (0, 1)), (0, 1)))(*at)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(slopes))


def test_derivatives_by_parameters():
    """Forward and reverse mode against each other and the formula."""
    here = state()
    spring = rb.Spring(0, 3.0, rest_length=0.8, damping=0.7, **TO_BODY)

    def pulled(load):
        return wrench_at(load, here)[0][0]

    forward, backward = quick_jit(jax.jacfwd(pulled))(spring), quick_jit(jax.jacrev(pulled))(spring)
    for u, v in zip(jax.tree.leaves(forward), jax.tree.leaves(backward), strict=True):
        np.testing.assert_allclose(u, v, atol=1e-13)
    d = length(here, TO_BODY)
    unit = d / np.linalg.norm(d)
    np.testing.assert_allclose(forward.stiffness, -(np.linalg.norm(d) - 0.8) * unit, atol=1e-13)
    np.testing.assert_allclose(forward.rest_length, 3.0 * unit, atol=1e-13)


def test_single_precision():
    """The numbers of the spring are double; forces have the dtype of the state."""
    spring = rb.Spring(0, 3.0, rest_length=0.8, damping=0.7, **TO_BODY)
    single, double = (wrench_of(spring, state(dtype)) for dtype in (np.float32, np.float64))
    for found, expected in zip(single, double, strict=True):
        assert found.dtype == np.float32
        np.testing.assert_allclose(found, expected, atol=1e-5)
    assert potential_at(spring, state(np.float32)).dtype == np.float32


def test_batches():
    """Of stiffnesses and states, against one by one; nothing but elementwise operations."""
    states = jax.tree.map(lambda *rows: jnp.stack(rows), *(state(seed=s) for s in range(4)))
    stiffness = jnp.arange(1.0, 5.0)

    def pulled(k, here):
        return wrench_at(rb.Spring(0, k, rest_length=0.8, damping=0.1 * k, **TO_BODY), here)

    batched = jax.jit(jax.vmap(pulled))
    for i, row in enumerate(batched(stiffness, states)[0]):
        np.testing.assert_allclose(row, pulled(stiffness[i], state(seed=i))[0], atol=1e-14)
    text = batched.lower(stiffness, states).as_text()
    assert "dot_general" not in text and "gather" not in text and "reduce" not in text


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"body": -1}, "body must be the index of a body"),
        ({"other": 1.5}, "other must be the index of another body"),
        ({"other": 0}, "other must be another body than"),
        ({"anchor": (0, 0)}, r"anchor must have shape \(3,\); got \(2,\)"),
        ({"other_anchor": (0, 0, np.inf)}, "other_anchor must be finite"),
        ({"number": -1.0}, "(stiffness|coefficient) must be finite and at least 0; got -1.0"),
        ({"number": np.ones(3)}, r"(stiffness|coefficient) must have shape \(\)"),
    ],
)
@pytest.mark.parametrize("kind", [rb.Spring, rb.Damper])
def test_bad_input(kind, changes, message):
    given = {"body": 0, "number": 1.0, **changes}
    with pytest.raises(ValueError, match=f"{kind.__name__}.{message}"):
        kind(given.pop("body"), given.pop("number"), **given)


@pytest.mark.parametrize("name", ["rest_length", "damping"])
def test_bad_numbers_of_springs(name):
    for value in (-0.1, np.nan, [1.0]):
        with pytest.raises(ValueError, match=rf"Spring.{name} must"):
            rb.Spring(0, 1.0, **{name: value})


def test_wrenches_of_one_body():
    """Worlds of one body take a shorter way."""
    here = state(n=1)
    masses = inertial(n=1)
    spring = rb.Spring(0, 3.0, **TO_WORLD)
    found = spring.wrench(0.0, to_phase(here, masses), masses, None)
    assert found.force.x.shape == (1,)
    np.testing.assert_allclose(found.force.array()[0], -3 * length(here, TO_WORLD), atol=1e-14)
