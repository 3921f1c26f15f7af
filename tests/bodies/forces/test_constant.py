"""Constant forces as loads."""

import numpy as np
from loads import minus_gradient, potential_at, state, wrench_at

import jaxrb as rb

F = np.array([1.0, -2.0, 0.5])


def test_wrench_and_potential():
    here, load = state(), rb.ConstantForce(1, F)
    force, torque = wrench_at(load, here)
    np.testing.assert_array_equal(force, [np.zeros(3), F, np.zeros(3)])
    np.testing.assert_array_equal(torque, np.zeros((3, 3)))
    np.testing.assert_allclose(potential_at(load, here), -F @ here.position[1], rtol=1e-15)
    for found, expected in zip((force, torque), minus_gradient(load, here), strict=True):
        np.testing.assert_array_equal(found, expected)
    assert load.conservative and not load.velocity_dependent
    assert load.bodies == (1,) and load.parts() == (load,)


def test_dtype_is_that_of_the_state():
    load = rb.ConstantForce(0, F)
    here = state(np.float32, n=1)
    assert {part.dtype for part in wrench_at(load, here)} == {np.dtype("float32")}
    assert potential_at(load, here).dtype == np.float32
