"""Forces and torques fixed in a body: numbers, control inputs and functions."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import quick_jit
from loads import power, rotation, state, wrench_at

import jaxrb as rb

F = np.array([1.0, -2.0, 0.5])
ANCHOR = np.array([0.3, 0.1, -0.4])
INPUT = rb.PiecewiseLinear([0.0, 1.0], [np.zeros(3), 2 * F])

SOURCES = pytest.mark.parametrize(
    ("source", "expected"),
    [
        (F, F),
        (INPUT, 0.6 * F),  # at the time 0.3
        (lambda t, args: t * args * jnp.asarray(F), 0.6 * F),
        (lambda t, args: [0, t, args], [0, 0.3, 2.0]),
    ],
    ids=["numbers", "input", "function", "list"],
)


@SOURCES
def test_thruster(source, expected):
    """Its power is that of the force at the point."""
    here, load = state(), rb.Thruster(1, source, ANCHOR)
    force, torque = wrench_at(load, here, t=0.3, args=2.0)
    turn = rotation(here, 1)
    np.testing.assert_allclose(force[1], turn.apply(expected), atol=1e-15)
    np.testing.assert_allclose(torque[1], np.cross(ANCHOR, expected), atol=1e-15)
    point = here.velocity[1] + turn.apply(np.cross(here.angular_velocity[1], ANCHOR))
    np.testing.assert_allclose(power(here, force, torque), force[1] @ point, rtol=1e-13)
    for others in (force, torque):
        assert not np.any(others[np.array([0, 2])])
    assert not load.conservative and not load.velocity_dependent and load.bodies == (1,)


@SOURCES
def test_torque(source, expected):
    load = rb.Torque(2, source)
    force, torque = wrench_at(load, state(), t=0.3, args=2.0)
    assert not np.any(force)
    np.testing.assert_allclose(torque, [np.zeros(3), np.zeros(3), expected], atol=1e-15)
    assert not load.conservative and not load.velocity_dependent and load.bodies == (2,)


def test_no_torque_through_the_centre():
    _, torque = wrench_at(rb.Thruster(0, F), state())
    assert not np.any(torque)


def test_dtype_is_that_of_the_state():
    here = state(np.float32)
    for source in (F, INPUT, lambda t, args: jnp.asarray(F)):
        found = (
            *wrench_at(rb.Thruster(0, source, ANCHOR), here, t=jnp.float32(0.3)),
            *wrench_at(rb.Torque(0, source), here, t=jnp.float32(0.3)),
        )
        assert {part.dtype for part in found} == {np.dtype("float32")}


def test_inputs_within_args_are_differentiated_in_batches():
    here = state(n=1)
    load = rb.Torque(0, lambda t, args: args["torque"](t))

    def about_x(values):
        args = {"torque": rb.PiecewiseLinear([0.0, 1.0], values)}
        return wrench_at(load, here, t=0.25, args=args)[1][0, 0]

    values = jnp.asarray(np.random.default_rng(0).normal(size=(5, 2, 3)))
    slopes = quick_jit(jax.vmap(jax.grad(about_x)))(values)
    expected = np.zeros((5, 2, 3))
    expected[:, :, 0] = 0.75, 0.25
    np.testing.assert_allclose(slopes, expected, atol=1e-15)


class Feedback(eqx.Module):
    gain: jax.Array

    def __call__(self, t, args):
        return self.gain * t * args


def test_parameters_of_modules_are_differentiated():
    """A world with a plain function, too, is an argument of programs and of maps."""
    here = state(n=1)
    load = rb.Thruster(0, Feedback(jnp.ones(3)), ANCHOR)

    @jax.jit
    def slope(load):
        return jax.grad(lambda load: wrench_at(load, here, 0.3, 2.0)[1][0, 0])(load)

    # (anchor x F)_x = a_y F_z - a_z F_y
    expected = 0.6 * np.array([0.0, -ANCHOR[2], ANCHOR[1]])
    np.testing.assert_allclose(slope(load).force.numbers.gain, expected, atol=1e-15)
    plain = rb.Thruster(0, lambda t, args: args * jnp.asarray(F))
    batch = jax.vmap(lambda load, scale: wrench_at(load, here, 0.3, scale), (None, 0))
    force, _ = batch(plain, jnp.array([1.0, 2.0]))
    np.testing.assert_allclose(force[1], 2 * force[0], rtol=1e-15)


@pytest.mark.parametrize(
    ("make", "name"), [(rb.Thruster, "Thruster.force"), (rb.Torque, "Torque.torque")]
)
def test_bad_input(make, name):
    with pytest.raises(ValueError, match=rf"{name} must have shape \(3,\); got \(2,\)"):
        make(0, (1.0, 2.0))
    with pytest.raises(ValueError, match=f"{name} must be finite"):
        make(0, (1.0, 2.0, np.nan))
    with pytest.raises(ValueError, match=rf"{name} must have shape \(3,\); got \(\)"):
        make(0, rb.PiecewiseConstant([0.0, 1.0], [1.0, 2.0]))
    with pytest.raises(ValueError, match="body must be the index of a body"):
        make(-1, F)
    wrong = make(0, lambda t, args: jnp.zeros((1, 3)))
    with pytest.raises(
        ValueError, match=rf"{name}\(t, args\) must have shape \(3,\); got \(1, 3\)"
    ):
        wrench_at(wrong, state())


def test_bad_anchor():
    with pytest.raises(ValueError, match=r"Thruster.anchor must have shape \(3,\)"):
        rb.Thruster(0, F, anchor=1.0)


def test_missing_args_are_told():
    """The user's error comes through, with a note."""
    here = state()
    load = rb.Thruster(0, lambda t, args: args["thrust"](t))
    with pytest.raises(TypeError, match="subscriptable") as raised:
        wrench_at(load, here)
    assert "args of simulate is None" in raised.value.__notes__[0]
    with pytest.raises(AttributeError) as raised:
        wrench_at(rb.Torque(0, lambda t, args: args.torque), here)
    assert "args of simulate is None" in raised.value.__notes__[0]
    with pytest.raises(TypeError) as raised:
        wrench_at(load, here, args=1.0)
    assert not hasattr(raised.value, "__notes__")
