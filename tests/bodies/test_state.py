"""States: what is refused, what is kept, and the momenta they hold.

Refusals name the field. Values pass through unchanged, or through one product and one
quotient with the masses and inertia tensors: a few round-offs.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.spatial.transform import Rotation

import jaxrb as rb
from jaxrb.bodies import Inertial
from jaxrb.bodies.state import from_phase, to_phase

FULL = np.array([[3.0, 0.2, -0.1], [0.2, 2.5, 0.3], [-0.1, 0.3, 2.0]])


def fields(n=2, dtype=np.float64):
    rng = np.random.default_rng(0)
    return {
        "position": rng.normal(size=(n, 3)).astype(dtype),
        "quaternion": Rotation.random(n, random_state=0).as_quat(scalar_first=True).astype(dtype),
        "velocity": rng.normal(size=(n, 3)).astype(dtype),
        "angular_velocity": rng.normal(size=(n, 3)).astype(dtype),
    }


def world():
    return rb.World(
        [
            rb.RigidBody(rb.Ellipsoid([1.0, 2.0, 3.0]), mass=2.0),
            rb.RigidBody(rb.Box([0.5, 0.4, 0.3]), mass=0.5, inertia=FULL),
        ]
    )


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("lead", [(1,), (2,), (5, 2)])
def test_fields_are_kept(lead, dtype):
    given = {
        k: np.broadcast_to(v[: lead[-1]], (*lead, v.shape[-1])) for k, v in fields(2, dtype).items()
    }
    state = rb.State(**given)
    for name, value in given.items():
        array = getattr(state, name)
        assert array.dtype == dtype
        # A quaternion may be normalised: one round-off or two.
        np.testing.assert_allclose(array, value, rtol=4 * np.finfo(dtype).eps)


@pytest.mark.parametrize("name", ["position", "quaternion", "velocity", "angular_velocity"])
@pytest.mark.parametrize("change", ["width", "bodies", "flat"])
def test_wrong_shapes(name, change):
    given = fields()
    value = given[name]
    given[name] = {
        "width": np.concatenate([value, value[:, :1]], axis=-1),
        "bodies": np.concatenate([value, value]),
        "flat": value[0],
    }[change]
    # A position with another number of bodies makes the next field the one that disagrees.
    blamed = "quaternion" if (name, change) == ("position", "bodies") else name
    with pytest.raises(ValueError, match=rf"State.{blamed} must have shape"):
        rb.State(**given)


@pytest.mark.parametrize("name", ["quaternion", "velocity", "angular_velocity"])
def test_mixed_dtypes(name):
    given = fields()
    given[name] = given[name].astype(np.float32)
    with pytest.raises(ValueError, match=rf"share one dtype.*{name}"):
        rb.State(**given)


@pytest.mark.parametrize("name", ["position", "quaternion", "velocity", "angular_velocity"])
def test_complex_numbers(name):
    given = fields()
    given[name] = given[name] + 0j
    with pytest.raises(ValueError, match=rf"State.{name} must be real"):
        rb.State(**given)


@pytest.mark.parametrize("factor", [0.0, 0.5, 1 - 2e-3, 1 + 2e-3, 2.0])
def test_quaternions_far_from_unit_length(factor):
    given = fields()
    given["quaternion"][1] *= factor
    with pytest.raises(ValueError, match=r"State.quaternion must have unit length"):
        rb.State(**given)


def test_infinite_quaternions():
    given = fields()
    given["quaternion"][1, 2] = np.inf
    with pytest.raises(ValueError, match=r"State.quaternion"):
        rb.State(**given)


@pytest.mark.parametrize("factor", [1 - 5e-4, 1 + 1e-7, 1 + 5e-4])
def test_quaternions_of_nearly_unit_length_are_normalised(factor):
    """As the docstring of State says; a rotation matrix is then orthogonal."""
    given = fields()
    expected = Rotation.from_quat(given["quaternion"], scalar_first=True).as_matrix()
    given["quaternion"] = given["quaternion"] * factor
    state = rb.State(**given)
    inertial = Inertial.of(world().bodies, float)
    q = to_phase(state, inertial).orientation.array()
    np.testing.assert_allclose(np.linalg.norm(q, axis=-1), 1, rtol=1e-15)
    np.testing.assert_allclose(state.rotation_matrix, expected, atol=5e-15)


def test_rotation_matrix_takes_body_to_world():
    given = fields(3)
    expected = Rotation.from_quat(given["quaternion"], scalar_first=True).as_matrix()
    np.testing.assert_allclose(rb.State(**given).rotation_matrix, expected, atol=2e-15)
    stack = {k: np.stack([v, v]) for k, v in given.items()}
    np.testing.assert_allclose(
        rb.State(**stack).rotation_matrix, np.stack([expected, expected]), atol=2e-15
    )


@pytest.mark.parametrize("with_quaternion", [True, False])
def test_from_momenta(with_quaternion):
    given = fields()
    rng = np.random.default_rng(1)
    gamma, pi = rng.normal(size=(2, 2, 3))
    q = given["quaternion"] if with_quaternion else None
    state = rb.State.from_momenta(
        world(),
        position=given["position"],
        linear_momentum=gamma,
        angular_momentum=pi,
        quaternion=q,
    )
    ellipsoid = 2.0 / 5 * np.diag([4.0 + 9, 9 + 1, 1 + 4])
    np.testing.assert_array_equal(state.position, given["position"])
    np.testing.assert_allclose(state.velocity, gamma / np.array([[2.0], [0.5]]), rtol=1e-15)
    expected = [np.linalg.solve(ellipsoid, pi[0]), np.linalg.solve(FULL, pi[1])]
    np.testing.assert_allclose(state.angular_velocity, expected, rtol=1e-13)
    unit = q if with_quaternion else np.tile([1.0, 0, 0, 0], (2, 1))
    np.testing.assert_allclose(state.quaternion, unit, rtol=1e-15)

    phase = to_phase(state, Inertial.of(world().bodies, float))
    np.testing.assert_allclose(phase.linear_momentum.array(), gamma, rtol=1e-14)
    np.testing.assert_allclose(phase.angular_momentum.array(), pi, atol=1e-14)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("linear_momentum", np.ones(3), r"linear_momentum must have shape \(2, 3\)"),
        ("angular_momentum", np.ones((1, 3)), r"angular_momentum must have shape \(2, 3\)"),
        ("position", np.ones((3, 3)), "position|quaternion"),
        ("quaternion", np.ones((2, 4)), "quaternion must have unit length"),
    ],
)
def test_from_momenta_refuses(name, value, message):
    given = {
        "position": np.zeros((2, 3)),
        "linear_momentum": np.zeros((2, 3)),
        "angular_momentum": np.zeros((2, 3)),
    }
    with pytest.raises(ValueError, match=message):
        rb.State.from_momenta(world(), **{**given, name: value})


def test_from_momenta_keeps_the_dtype_of_its_arrays():
    zeros = jnp.zeros((2, 3), jnp.float32)
    state = rb.State.from_momenta(
        world(), position=zeros, linear_momentum=zeros, angular_momentum=zeros
    )
    assert {leaf.dtype for leaf in jax.tree.leaves(state)} == {jnp.dtype("float32")}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_steps_along_the_manifold(dtype):
    """Attitudes turn about body axes; everything else is added."""
    given = fields(dtype=dtype)
    state = rb.State(**given)
    step = np.random.default_rng(2).uniform(-1, 1, size=(2, 12)).astype(dtype)
    moved = state.retract(step)
    eps = 20 * np.finfo(dtype).eps
    for name, part in (("position", 0), ("velocity", 6), ("angular_velocity", 9)):
        expected = given[name] + step[:, part : part + 3]
        np.testing.assert_allclose(getattr(moved, name), expected, atol=eps)
    turned = Rotation.from_quat(given["quaternion"].astype(float), scalar_first=True)
    turned = turned * Rotation.from_rotvec(step[:, 3:6].astype(float))
    np.testing.assert_allclose(moved.rotation_matrix, turned.as_matrix(), atol=eps)
    np.testing.assert_allclose(state.local(moved), step, atol=4 * eps)
    with pytest.raises(ValueError, match=r"step must have shape \(2, 12\)"):
        state.retract(step[:1])


def test_phase_round_trip():
    state = rb.State(**fields())
    inertial = Inertial.of(world().bodies, float)
    back = from_phase(to_phase(state, inertial), inertial)
    for u, v in zip(jax.tree.leaves(state), jax.tree.leaves(back), strict=True):
        np.testing.assert_allclose(v, u, atol=1e-14)
