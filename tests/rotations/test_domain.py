"""The edges of the parametrizations: documented values at singularities, and what is refused.

Matrices are compared to 20 eps. Next to a singularity the tolerance is the documented loss.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import quick_jit
from scipy.spatial.transform import Rotation

import jaxrb as rb
from jaxrb.rotations import (
    BryantAngles,
    ConformalRotationVector,
    EulerAngles,
    EulerParameters,
    LinearParameters,
    RodriguesParameters,
    RotationVector,
)

FAMILIES = [
    RotationVector,
    RodriguesParameters,
    EulerParameters,
    ConformalRotationVector,
    LinearParameters,
    EulerAngles,
    BryantAngles,
]
# The largest component of each is positive.
AXES = np.array([[1, 0, 0], [0, 1, 0], [0, 0, 1], [0.6, 0, 0.8], [2 / 3, 2 / 3, -1 / 3]])


def half_turns(dtype=float):
    return (2 * AXES[:, :, None] * AXES[:, None, :] - np.eye(3)).astype(dtype)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_half_turns(dtype):
    """Exactly symmetric matrices: the axis whose largest component is positive."""

    @quick_jit
    def program(r):
        return {kind.__name__: kind.from_matrix(r) for kind in FAMILIES}

    found = {name: np.asarray(value) for name, value in program(half_turns(dtype)).items()}
    tolerance = 20 * float(np.finfo(dtype).eps)
    expected = {
        "RotationVector": np.pi * AXES,
        "ConformalRotationVector": 4 * AXES,
        "EulerParameters": np.concatenate([np.zeros((5, 1)), AXES], axis=1),
        "LinearParameters": np.tile([-1.0, 0, 0, 0], (5, 1)),
    }
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, atol=tolerance)
    b = found["RodriguesParameters"]
    np.testing.assert_array_equal(b, np.where(AXES == 0, 0, np.inf * np.sign(AXES + 0.1)))
    for name in ("EulerAngles", "BryantAngles"):
        assert np.isfinite(found[name]).all()


def test_next_to_half_a_turn():
    """Matrices of parameters close to the edge of what these can hold."""
    angles = np.pi - np.array([1e-3, 1e-6, 1e-9])[:, None, None]
    b = AXES * np.tan(angles / 2)
    linear = np.concatenate(
        [np.broadcast_to(np.cos(angles), (3, 5, 1)), AXES * np.sin(angles)], axis=-1
    )
    of_b, of_linear, back, edge = quick_jit(
        lambda b, linear, r, half: (
            RodriguesParameters.to_matrix(b),
            LinearParameters.to_matrix(linear),
            LinearParameters.from_matrix(r),
            LinearParameters.to_matrix(half),
        )
    )(
        b,
        linear,
        Rotation.from_rotvec((AXES * angles).reshape(-1, 3)).as_matrix(),
        np.array([-1.0, 0.0, 0.0, 0.0]),
    )
    exact = Rotation.from_rotvec((AXES * 2 * np.arctan(np.tan(angles / 2))).reshape(-1, 3))
    np.testing.assert_allclose(of_b, exact.as_matrix().reshape(3, 5, 3, 3), atol=4e-15)
    # The parameters give the axis to round-off here, as their vector part is exact.
    expected = Rotation.from_rotvec((AXES * angles).reshape(-1, 3)).as_matrix()
    np.testing.assert_allclose(of_linear, expected.reshape(3, 5, 3, 3), atol=4e-15)
    np.testing.assert_allclose(back, linear.reshape(-1, 4), atol=1e-15)
    assert np.isnan(edge).all()  # no axis is left


def test_aligned_axes():
    """Euler angles without nutation, Bryant angles at a right angle: one angle is zero."""
    psi, phi = 0.7, -0.4

    def first(a):
        return EulerAngles.from_matrix(Rotation.from_euler("ZXZ", a).as_matrix())

    np.testing.assert_allclose(first([psi, 0, phi]), [psi + phi, 0, 0], atol=1e-15)
    np.testing.assert_allclose(first([psi, np.pi, phi]), [psi - phi, np.pi, 0], atol=1e-15)
    np.testing.assert_allclose(first([psi, 5e-16, phi]), [psi + phi, 5e-16, 0], atol=1e-15)
    np.testing.assert_allclose(first([psi, 1e-9, phi]), [psi, 1e-9, phi], atol=1e-6)

    def second(a):
        return BryantAngles.from_matrix(Rotation.from_euler("ZYX", a).as_matrix())

    right = np.pi / 2
    np.testing.assert_allclose(second([psi, right, phi]), [0, right, phi - psi], atol=3e-15)
    np.testing.assert_allclose(second([psi, -right, phi]), [0, -right, phi + psi], atol=3e-15)


def test_derivatives_where_axes_are_aligned():
    """Finite, as one angle is held at zero."""

    @quick_jit
    def program(one, right):
        return jax.jacrev(EulerAngles.from_matrix)(one), jax.jacrev(BryantAngles.from_matrix)(right)

    right = np.array([[0.0, 0, 1], [0, 1, 0], [-1, 0, 0]])
    for derivative in program(np.eye(3), right):
        assert np.isfinite(derivative).all()


def test_second_derivative_of_the_tangent_operator_at_zero():
    """T = I - S/2 + S^2/6 - ..., eq. (173)."""
    second = quick_jit(jax.jacfwd(jax.jacfwd(RotationVector.tangent_operator)))
    e = np.eye(3)
    spins = np.stack([np.cross(k, e).T for k in e])
    expected = np.einsum("kij,ljm->imkl", spins, spins) / 6
    expected = expected + expected.swapaxes(-1, -2)
    np.testing.assert_allclose(second(np.zeros(3)), expected, atol=1e-15)


@pytest.mark.parametrize("kind", FAMILIES, ids=lambda k: k.__name__)
def test_refused_matrices(kind):
    for wrong in (
        1.001 * np.eye(3),
        np.eye(3) + 1e-4 * np.eye(3, k=1),
        np.full((3, 3), np.nan),
        np.stack([np.eye(3), np.zeros((3, 3))]),
    ):
        with pytest.raises(ValueError, match="rotation must be orthogonal"):
            kind.from_matrix(wrong)
    with pytest.raises(ValueError, match="rotation must have determinant 1"):
        kind.from_matrix(np.diag([1.0, 1.0, -1.0]))
    for wrong in (np.eye(4), np.ones(9)):
        with pytest.raises(ValueError, match=r"rotation must have shape \(\.\.\., 3, 3\)"):
            kind.from_matrix(wrong)
    with pytest.raises(ValueError, match="rotation must be an array of real numbers"):
        kind.from_matrix("north")


@pytest.mark.parametrize("kind", FAMILIES, ids=lambda k: k.__name__)
def test_refused_parameters(kind):
    width = 4 if kind in (EulerParameters, LinearParameters) else 3
    functions = ("tangent_operator", "spatial_tangent_operator", "inverse_tangent_operator")
    for name in ("to_matrix", "to_quaternion", *functions):
        with pytest.raises(ValueError, match=rf"a must have shape \(\.\.\., {width}\)"):
            getattr(kind, name)(np.ones(7 - width))
        if width == 4:
            with pytest.raises(ValueError, match="a must have unit length"):
                getattr(kind, name)(np.array([1.0, 0.1, 0.0, 0.0]))
    with pytest.raises(ValueError, match="q must have unit length"):
        kind.from_quaternion(np.array([1.0, 0.1, 0.0, 0.0]))


def test_typed_digits_are_normalised():
    """As by `State`: 0.7071 stands for the root of a half."""
    found = EulerParameters.to_matrix([0.7071, 0.0, 0.0, 0.7071])
    np.testing.assert_allclose(found, [[0, -1, 0], [1, 0, 0], [0, 0, 1]], atol=1e-15)


def test_a_family_is_an_argument():
    """By its class or as an instance, which has no leaves and needs no retracing."""
    assert jax.tree.leaves(EulerAngles()) == []
    traces = []

    @jax.jit
    def matrix(kind, a):
        traces.append(None)
        return kind.to_matrix(a)

    a = np.array([0.3, 0.2, -0.5])
    expected = Rotation.from_euler("ZYX", a).as_matrix()
    for kind in (BryantAngles(), BryantAngles()):
        np.testing.assert_allclose(matrix(kind, a), expected, atol=1e-15)
    assert len(traces) == 1
    np.testing.assert_allclose(
        rb.rotations.convert(a, BryantAngles, RotationVector()),
        Rotation.from_euler("ZYX", a).as_rotvec(),
        atol=1e-15,
    )


def test_batches_stay_elementwise():
    """No matrix product, library call or gather is left to end a fused kernel."""

    def everything(a):
        found = []
        for kind in FAMILIES:
            b = kind.from_quaternion(rb.lie.quaternion.exp(a))
            r = kind.to_matrix(b)
            found += [r, kind.tangent_operator(b), kind.from_matrix(r), kind.compose(b, b)]
        twist = jnp.concatenate([a, a])
        return found, rb.lie.se3.log(rb.lie.se3.exp(twist)), rb.lie.se3.left_jacobian(twist)

    text = jax.jit(jax.vmap(everything)).lower(np.zeros((5, 3))).as_text()
    for word in ("dot_general", "custom_call", "gather"):
        assert word not in text


def test_increments_compose_on_their_side():
    """A material increment stands on the right, a spatial one on the left."""
    a, step = np.array([0.3, -1.0, 0.4]), np.array([0.1, 0.2, -0.1])
    r, increment = Rotation.from_rotvec(a), Rotation.from_rotvec(step)
    np.testing.assert_allclose(
        RotationVector.compose(a, step), (r * increment).as_rotvec(), atol=1e-15
    )
    np.testing.assert_allclose(
        RotationVector.compose(step, a), (increment * r).as_rotvec(), atol=1e-15
    )
