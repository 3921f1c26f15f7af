"""Which bodies are possible: checked when built, and again where numbers are traced.

Verdicts are compared with eigenvalues from numpy. Tensors within 1e-9 of the boundary
(relative to the trace) may fall either way by round-off and are left out, except those
built to lie on it, which must be accepted.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.spatial.transform import Rotation

import jaxrb as rb
from jaxrb.bodies.rigid_body import possible_inertia
from jaxrb.math import Diag3, Sym3, Vec3

BALL = rb.Sphere(1.0)
TURN = Rotation.from_rotvec([0.3, -0.7, 1.1]).as_matrix()


def turned(moments):
    full = TURN @ np.diag(moments) @ TURN.T
    return (full + full.T) / 2


@pytest.mark.parametrize("mass", [0.0, -1.0, np.nan, np.inf])
def test_mass_must_be_positive(mass):
    with pytest.raises(ValueError, match=r"RigidBody.mass must be positive and finite"):
        rb.RigidBody(BALL, mass=mass)


@pytest.mark.parametrize(
    ("inertia", "message"),
    [
        (1.0, r"RigidBody.inertia must have shape \(3,\) or \(3, 3\)"),
        (np.ones(2), r"RigidBody.inertia must have shape"),
        (np.ones((3, 2)), r"RigidBody.inertia must have shape"),
        (np.ones((1, 3)), r"RigidBody.inertia must have shape"),
        ([1.0, np.nan, 1.0], "RigidBody.inertia must be finite"),
        (np.diag([1.0, np.inf, 1.0]), "RigidBody.inertia must be finite"),
        (np.eye(3) + 1e-6 * np.eye(3, k=1), "RigidBody.inertia must be symmetric"),
        ([1.0, -1.0, 1.0], "RigidBody.inertia must be positive definite"),
        ([1.0, 0.0, 1.0], "RigidBody.inertia must be positive definite"),
        (turned([1.0, -0.2, 1.0]), "RigidBody.inertia must be positive definite"),
        ([1.0, 2.0, 3.4], "RigidBody.inertia is impossible for a solid"),
        (turned([3.4, 1.0, 2.0]), "RigidBody.inertia is impossible for a solid"),
        ("heavy", "RigidBody.inertia"),
    ],
)
def test_bad_inertia(inertia, message):
    with pytest.raises(ValueError, match=message):
        rb.RigidBody(BALL, inertia=inertia)


@pytest.mark.parametrize("inertia", [[0.8, 0.8, 1.8], turned([2.1, 1.0, 1.0])])
def test_a_slightly_impossible_inertia_is_used_with_a_warning(inertia):
    """Geradin and Rixen's top, and one that is off by a twentieth."""
    with pytest.warns(UserWarning, match=r"RigidBody.inertia is impossible for a solid"):
        body = rb.RigidBody(BALL, inertia=inertia)
    np.testing.assert_array_equal(body.inertia, inertia)


@pytest.mark.parametrize("shape", [None, 1.0, rb.HalfSpace()])
def test_shape_must_be_bounded(shape):
    with pytest.raises(ValueError, match=r"RigidBody.shape must be a bounded shape"):
        rb.RigidBody(shape)


@pytest.mark.parametrize("mass", [[1.0], "one"])
def test_mass_must_be_a_number(mass):
    with pytest.raises(ValueError, match=r"RigidBody.mass"):
        rb.RigidBody(BALL, mass=mass)


@pytest.mark.parametrize(
    "inertia", [[1.0, 2.0, 3.0], turned([1.0, 2.0, 3.0]), [1.0, 1.0, 1e-12], [0.1, 0.2, 0.3]]
)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_plate_and_a_rod_are_accepted(inertia, dtype):
    """A plate's largest moment is the sum of the others; a thin rod's smallest is tiny."""
    given = np.asarray(inertia, dtype)
    body = rb.RigidBody(BALL, inertia=given)
    tensor = body.inertia_tensor()
    full = given if given.ndim == 2 else np.diag(given)
    assert isinstance(tensor, Diag3) == (given.ndim == 1)
    assert tensor.diagonal.x.dtype == dtype
    np.testing.assert_allclose(tensor.matrix(), full, rtol=np.finfo(dtype).eps, atol=0)
    assert jax.jit(lambda j: possible_inertia(rb.RigidBody(BALL, inertia=j).inertia_tensor()))(
        given
    )


def test_uniform_density_follows_shape_and_mass():
    def moments(radius, mass):
        tensor = rb.RigidBody(rb.Sphere(radius), mass=mass).inertia_tensor()
        return tensor.diagonal.array()

    np.testing.assert_allclose(moments(0.5, 3.0), 0.4 * 3 * 0.25 * np.ones(3), rtol=1e-15)
    by_radius, by_mass = jax.jacrev(moments, (0, 1))(0.5, 3.0)
    np.testing.assert_allclose(by_radius, 0.8 * 3 * 0.5 * np.ones(3), rtol=1e-14)
    np.testing.assert_allclose(by_mass, 0.4 * 0.25 * np.ones(3), rtol=1e-14)


def test_inertia_is_read_as_an_array():
    """Of uniform bodies from textbook formulas, of given tensors what was given."""
    box = rb.RigidBody(rb.Box((0.1, 0.2, 0.3)), mass=6.0)
    moments = 6.0 / 3 * np.array([0.2**2 + 0.3**2, 0.1**2 + 0.3**2, 0.1**2 + 0.2**2])
    np.testing.assert_allclose(box.inertia_matrix(), np.diag(moments), rtol=1e-14)
    np.testing.assert_allclose(box.principal_moments(), moments[::-1], rtol=1e-14)
    np.testing.assert_allclose(box.volume(), 8 * 0.1 * 0.2 * 0.3, rtol=1e-14)
    # A cone's centre of mass is a quarter of its height above its base.
    cone = rb.RigidBody(rb.Placed(rb.Cone(0.3, 0.8), (1.0, 0.0, 0.0)), mass=2.0)
    np.testing.assert_allclose(cone.center_of_mass(), [1.0, 0.0, 0.2], atol=1e-14)
    across = 3 / 80 * 2.0 * (4 * 0.3**2 + 0.8**2)
    along = 3 / 10 * 2.0 * 0.3**2
    np.testing.assert_allclose(cone.principal_moments(), sorted([along, across, across]), 1e-14)
    full = turned([0.7, 0.5, 0.4])
    given = rb.RigidBody(rb.Sphere(0.5), inertia=full)
    np.testing.assert_allclose(given.inertia_matrix(), full, rtol=1e-15)
    np.testing.assert_allclose(given.principal_moments(), [0.4, 0.5, 0.7], rtol=1e-14)
    np.testing.assert_array_equal(given.center_of_mass(), np.zeros(3))
    np.testing.assert_allclose(given.volume(), np.pi / 6, rtol=1e-14)


def test_principal_moments_have_derivatives():
    """Also where they are equal: those of a ball are 2/5 m r^2 each."""
    moments = lambda r: rb.RigidBody(rb.Sphere(r), mass=3.0).principal_moments()  # noqa: E731
    np.testing.assert_allclose(jax.jacrev(moments)(0.5), 0.8 * 3 * 0.5 * np.ones(3), rtol=1e-14)


def test_bodies_print_their_numbers():
    body = rb.RigidBody(rb.Ellipsoid((0.2, 0.3, 1 / 3)), mass=0.5)
    assert repr(body) == (
        "RigidBody(shape=Ellipsoid(semi_axes=[0.2, 0.3, 0.333333]), mass=0.5, inertia=None)"
    )
    seen = []
    jax.jit(lambda b: seen.append(repr(b)))(body)
    assert "semi_axes=f64[3]" in seen[0]


def test_traced_numbers_are_not_checked_when_built():
    jax.jit(lambda m: rb.RigidBody(BALL, mass=m, inertia=m * jnp.ones(3)).mass)(-1.0)


def verdict(full):
    """From eigenvalues: positive, no moment above 9/8 of the sum of the others; its margin."""
    moments = np.linalg.eigvalsh(full)
    largest = moments[..., -1]
    total = np.sum(moments, axis=-1)
    margin = np.minimum(moments[..., 0], 9 / 8 * total - 17 / 8 * largest)
    return margin > 0, np.abs(margin) / np.abs(total)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", ["moments", "symmetric"])
def test_possible_inertia_agrees_with_eigenvalues(kind, dtype):
    """Turned moments straddling both limits, and symmetric matrices of any kind."""
    rng = np.random.default_rng(0)
    n = 4000
    if kind == "moments":
        moments = rng.uniform(-0.1, 1, size=(n, 3))
        turns = Rotation.random(n, random_state=1).as_matrix()
        full = np.einsum("nij,nj,nkj->nik", turns, moments, turns)
    else:
        noise = rng.normal(size=(n, 3, 3))
        full = noise + noise.swapaxes(-1, -2) + 6 * rng.uniform(size=(n, 1, 1)) * np.eye(3)
    full = ((full + full.swapaxes(-1, -2)) / 2).astype(dtype)
    expected, margin = verdict(full.astype(float))
    # The test by minors allows 64 eps; a margin enters them times the others, 0.01 at least.
    clear = margin > (1e-3 if dtype == np.float32 else 1e-9)
    found = np.asarray(jax.jit(possible_inertia)(Sym3.of(jnp.asarray(full))))
    assert clear.mean() > 0.9
    np.testing.assert_array_equal(found[clear], expected[clear])
    assert 0.1 < expected[clear].mean() < 0.9  # both verdicts occur


def test_possible_inertia_of_principal_moments():
    rng = np.random.default_rng(2)
    moments = rng.uniform(-0.1, 1, size=(2000, 3))
    expected, margin = verdict(moments[:, :, None] * np.eye(3))
    clear = margin > 1e-9
    found = np.asarray(possible_inertia(Diag3(Vec3.of(jnp.asarray(moments)))))
    np.testing.assert_array_equal(found[clear], expected[clear])
    assert 0.1 < expected.mean() < 0.9


def test_possible_inertia_accepts_plates_in_any_frame():
    rng = np.random.default_rng(3)
    a, b = rng.uniform(0.1, 1, size=(2, 500))
    moments = np.stack([a, b, a + b], axis=-1)
    turns = Rotation.random(500, random_state=4).as_matrix()
    full = np.einsum("nij,nj,nkj->nik", turns, moments, turns)
    assert np.asarray(possible_inertia(Sym3.of(jnp.asarray(full)))).all()


def test_possible_inertia_refuses_a_rod_without_thickness():
    """3 - v v^T with v = (1, 1, 1), whose moment about v is zero; exact in integers."""
    rod = np.array([[2.0, -1, -1], [-1, 2, -1], [-1, -1, 2]])
    assert not possible_inertia(Sym3.of(jnp.asarray(rod)))
    assert possible_inertia(Sym3.of(jnp.asarray(rod + 1e-6 * np.eye(3))))


def test_possible_inertia_of_nan_is_false():
    assert not possible_inertia(Diag3(Vec3.of(jnp.array([1.0, jnp.nan, 1.0]))))
