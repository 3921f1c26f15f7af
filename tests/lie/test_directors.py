"""Directors against scipy's rotations and numpy's products: a few eps throughout."""

import jax
import numpy as np
import pytest
from helpers import differences, quick_jit, unsign
from scipy.spatial.transform import Rotation

from jaxrb.lie import directors

DTYPES = [np.float64, np.float32]
RNG = np.random.default_rng(0)
ROTATION = Rotation.random(20, random_state=0)
STEP = Rotation.random(20, random_state=1).as_rotvec()
SPIN = RNG.normal(size=(20, 3))


def columns(matrix):
    return np.concatenate([matrix[:, :, j] for j in range(3)], axis=-1)


@quick_jit
def program(q, matrix, quaternion, spin, step):
    rate = directors.kinematics(q, spin)
    moved = directors.retract(q, step)
    return {
        "from_matrix": directors.from_matrix(matrix),
        "to_matrix": directors.to_matrix(q),
        "from_quaternion": directors.from_quaternion(quaternion),
        "to_quaternion": directors.to_quaternion(q),
        "constraints": directors.constraints(q),
        "handedness": directors.handedness(q),
        "rate": rate,
        "spin": directors.angular_velocity(q, rate),
        "of_any_rate": directors.angular_velocity(q, q[::-1]),
        "retract": moved,
        "local": directors.local(q, moved),
    }


@pytest.mark.parametrize("dtype", DTYPES)
def test_rotations_of_directors(dtype):
    matrix, quaternion = ROTATION.as_matrix(), ROTATION.as_quat(scalar_first=True)
    q = columns(matrix)
    found = program(*(x.astype(dtype) for x in (q, matrix, quaternion, SPIN, STEP)))
    assert all(value.dtype == dtype for value in found.values())
    moved = ROTATION * Rotation.from_rotvec(STEP)
    rate = matrix @ np.stack([np.cross(w, np.eye(3)).T for w in SPIN])  # R S(Omega)
    swept = matrix.swapaxes(-1, -2) @ matrix[::-1]
    skew = (swept - swept.swapaxes(-1, -2)) / 2
    expected = {
        "from_matrix": q,
        "to_matrix": matrix,
        "from_quaternion": q,
        "to_quaternion": unsign(quaternion, found["to_quaternion"]),
        "constraints": np.zeros((20, 6)),
        "handedness": np.ones(20),
        "rate": columns(rate),
        "spin": SPIN,
        "of_any_rate": np.stack([skew[:, 2, 1], skew[:, 0, 2], skew[:, 1, 0]], axis=-1),
        "retract": columns(moved.as_matrix()),
        "local": STEP,
    }
    for key, value in expected.items():
        np.testing.assert_allclose(found[key], value, atol=40 * np.finfo(dtype).eps, err_msg=key)


def true_constraints(q):
    """Phi of eq. (17), from the Gram matrix."""
    d = q.reshape(3, 3)
    gram = d @ d.T
    return np.append((np.diag(gram) - 1) / 2, [gram[0, 1], gram[0, 2], gram[1, 2]])


def test_constraints():
    """Away from orthonormality, with their Jacobian, in both modes of differentiation."""
    q = RNG.normal(size=9)
    values, jacobian, forward, backward = quick_jit(
        lambda q: (
            directors.constraints(q),
            directors.constraint_jacobian(q),
            jax.jacfwd(directors.constraints)(q),
            jax.jacrev(directors.constraints)(q),
        )
    )(q)
    np.testing.assert_allclose(values, true_constraints(q), atol=1e-15 * 9)
    # Differences of a quadratic are exact but for round-off, 1e-13.
    np.testing.assert_allclose(jacobian, differences(true_constraints, q), atol=1e-12)
    np.testing.assert_allclose(forward, jacobian, atol=1e-15)
    np.testing.assert_allclose(backward, jacobian, atol=1e-15)


def test_motions_keep_the_constraints():
    q = columns(ROTATION.as_matrix())
    rate = directors.kinematics(q, SPIN)
    jacobian = np.asarray(directors.constraint_jacobian(q))
    np.testing.assert_allclose((jacobian @ np.asarray(rate)[..., None])[..., 0], 0, atol=5e-15)
    assert (np.linalg.matrix_rank(jacobian) == 6).all()


def test_left_handed_directors():
    q = np.array([1.0, 0, 0, 0, 1, 0, 0, 0, -1])
    assert directors.handedness(q) == -1
    np.testing.assert_array_equal(directors.constraints(q), 0)
