"""The seven parametrizations against scipy's rotations and the formulas of the paper in numpy.

One compiled program per family and dtype evaluates everything at all points, some functions
under `vmap` and others on arrays with a leading axis: rotations by
nothing, by 1e-12 and 1e-6, around the switch of the series at one radian, and next to half
a turn, about several axes; where the family goes on, by up to a full turn and more.

Truth is computed in float64 from the parameters as rounded to the dtype. Matrices are asked to
agree to 20 eps, as a dozen operations on numbers of order one are behind each entry. Tangent
operators are compared with differences of the true matrices of order 4 and step 1e-4, whose
round-off is 1e-12 and whose truncation is 1e-16 times a fifth derivative, to 1e-9 as a fraction
of their largest entry; and with JAX's derivative of the library's matrix to 1e-13 of it.
"""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import quick_jit, unsign
from scipy.spatial.transform import Rotation

import jaxrb as rb

DTYPES = [np.float64, np.float32]
AXES = np.array([[1, 0, 0], [0, -1, 0], [0, 0, 1], [0.6, 0, -0.8], [2 / 3, 2 / 3, -1 / 3]])
SMALL = [0.0, 1e-12, 1e-6, 1e-3, 0.99, 1.01, 1.5, 2.0, 2.8]
NEAR = [np.pi - 1e-3, np.pi - 1e-6]
BEYOND = [np.pi, 4.0, 6.0]


def skew(a):
    x, y, z = np.moveaxis(a, -1, 0)
    o = np.zeros_like(x)
    return np.moveaxis(np.array([[o, -z, y], [z, o, -x], [-y, x, o]]), (0, 1), (-2, -1))


def vee(m):
    return np.stack([m[..., 2, 1], m[..., 0, 2], m[..., 1, 0]], axis=-1)


def outer(a):
    return a[..., :, None] * a[..., None, :]


def axis_angle(angles, function):
    """Parameters function(n, phi) for all axes and angles."""
    phi = np.array(angles)[:, None, None]
    lead = (len(angles), len(AXES))
    parts = [np.broadcast_to(p, (*lead, p.shape[-1])) for p in function(AXES[None], phi)]
    return np.concatenate(parts, axis=-1).reshape(lead[0] * lead[1], -1)


def by_cayley(b):
    return np.linalg.solve(np.eye(3) - skew(b), np.eye(3) + skew(b))  # eq. (181)


def by_conformal(c):
    c0 = ((16 - np.sum(c * c, axis=-1)) / 8)[..., None, None]
    scaled = (c0**2 + 8 * c0 - 16) * np.eye(3) + 2 * outer(c) + 2 * c0 * skew(c)
    return scaled / (4 - c0) ** 2  # eq. (256)


def by_linear(p):
    s0, s = p[..., 0, None, None], p[..., 1:]
    return s0 * np.eye(3) + outer(s) / (1 + s0) + skew(s)  # eq. (269)


def angle_points(middle):
    """Triples of angles, with the middle one over its range, and nothing and little."""
    rng = np.random.default_rng(0)
    rows = rng.uniform(-np.pi, np.pi, size=(40, 3))
    rows[:, 1] = np.linspace(*middle, 40)
    return rows


class Case:
    """A family with its points, true matrices and true parameters of a rotation."""

    def __init__(self, points, matrix, parameters):
        self.points, self.matrix, self.parameters = points, matrix, parameters


CASES = {
    "RotationVector": Case(
        axis_angle([*SMALL, *NEAR, *BEYOND, 2 * np.pi, 7.0], lambda n, t: (n * t,)),
        lambda a: Rotation.from_rotvec(a).as_matrix(),
        lambda r: r.as_rotvec(),
    ),
    "RodriguesParameters": Case(
        axis_angle([*SMALL, *NEAR], lambda n, t: (n * np.tan(t / 2),)),
        by_cayley,
        lambda r: r.as_quat(scalar_first=True)[:, 1:] / r.as_quat(scalar_first=True)[:, :1],
    ),
    "EulerParameters": Case(
        axis_angle(
            [*SMALL, *NEAR, *BEYOND, 2 * np.pi], lambda n, t: (np.cos(t / 2), n * np.sin(t / 2))
        ),
        lambda p: Rotation.from_quat(p, scalar_first=True).as_matrix(),
        lambda r: r.as_quat(scalar_first=True, canonical=True),
    ),
    "ConformalRotationVector": Case(
        axis_angle([*SMALL, *NEAR, *BEYOND], lambda n, t: (4 * n * np.tan(t / 4),)),
        by_conformal,
        lambda r: 4 * r.as_mrp(),
    ),
    "LinearParameters": Case(
        axis_angle(SMALL, lambda n, t: (np.cos(t), n * np.sin(t))),
        by_linear,
        lambda r: np.concatenate(
            [(np.trace(m := r.as_matrix(), axis1=1, axis2=2)[:, None] - 1) / 2, vee(m - m.mT) / 2],
            axis=-1,
        ),
    ),
    "EulerAngles": Case(
        angle_points((0.01, np.pi - 0.01)),
        lambda a: Rotation.from_euler("ZXZ", a).as_matrix(),
        lambda r: r.as_euler("ZXZ"),
    ),
    "BryantAngles": Case(
        angle_points((0.01 - np.pi / 2, np.pi / 2 - 0.01)),
        lambda a: Rotation.from_euler("ZYX", a).as_matrix(),
        lambda r: r.as_euler("ZYX"),
    ),
}
WEIGHTS = np.random.default_rng(1).normal(size=(3, 3))
RANDOM = Rotation.random(40, random_state=2)


def family(name):
    return getattr(rb.rotations, name)


def points(name, dtype):
    return CASES[name].points.astype(dtype)


def truth(name, dtype):
    return CASES[name].matrix(points(name, dtype).astype(float))


@cache
def report(name, dtype):
    """All functions of a family at its points, as numpy arrays, from one program.

    Float32 has fewer of them: compilation is most of the time of these tests.
    """
    kind = family(name)
    both = dtype == np.float64

    def forward(a):
        """The matrix of one point and its derivative."""

        def twice(a):
            return (kind.to_matrix(a),) * 2

        derivative, matrix = jax.jacfwd(twice, has_aux=True)(a) if both else twice(a)
        return {"matrix": matrix, "derivative": derivative}

    def backward(matrix):
        """Parameters of a matrix, and their rates along R S(e) for the three axes e."""
        if not both:
            return {"back": kind.from_matrix(matrix)}
        back, push = jax.linearize(kind.from_matrix, matrix)
        rates = jax.vmap(push, out_axes=-1)(jnp.einsum("ij,kjl->kil", matrix, skew(np.eye(3))))
        return {"back": back, "rates": rates}

    def weighed(a):
        return jnp.sum(WEIGHTS * kind.to_matrix(a))

    def everything(a, rotations):
        found = jax.vmap(forward)(a) | {
            "tangent": kind.tangent_operator(a),
            "inverse": kind.inverse_tangent_operator(a),
        }
        matrices = jnp.concatenate([found["matrix"], rotations])
        found |= jax.vmap(backward)(matrices)
        if both:
            found["spatial"] = kind.spatial_tangent_operator(a)
            found["gradient"] = jax.vmap(jax.grad(weighed))(a)
            found["composed"] = kind.compose(a, a[::-1])
            if hasattr(kind, "half_rotation"):
                found["half"] = kind.half_rotation(a)
        return found

    a = points(name, dtype)
    found = jax.tree.map(np.array, quick_jit(everything)(a, RANDOM.as_matrix().astype(dtype)))
    found["of_random"] = found["back"][len(a) :]
    return found | {key: found[key][: len(a)] for key in ("back", "rates") if key in found}


def close(found, expected, tolerance):
    """Agreement of stacks of matrices, each to a fraction of its largest entry (or of 1)."""
    axes = tuple(range(1, expected.ndim))
    scale = np.maximum(1, np.max(np.abs(expected), axis=axes, keepdims=True))
    np.testing.assert_allclose(found / scale, expected / scale, atol=tolerance, rtol=0)


def orthogonal(matrices, tolerance):
    wide = matrices.astype(float)
    np.testing.assert_allclose(
        wide @ wide.mT, np.broadcast_to(np.eye(3), wide.shape), atol=tolerance
    )
    np.testing.assert_allclose(np.linalg.det(wide), 1, atol=tolerance)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", CASES)
def test_matrices(name, dtype):
    found = report(name, dtype)["matrix"]
    assert found.dtype == dtype
    eps = float(np.finfo(dtype).eps)
    orthogonal(found, 20 * eps)
    # The inverse in eq. (181) and 1 + s0 in eq. (269) are known to eps |b|^2 and eps/(1 + s0);
    # a rotation vector or an angle of 7 rad, rounded, is known to 4 eps.
    lost = 1 + np.sum(points(name, float) ** 2, axis=-1) if name == "RodriguesParameters" else 1
    if name == "LinearParameters":
        lost = 1 / (1 + points(name, float)[:, 0])
    error = np.max(np.abs(found - truth(name, dtype)), axis=(1, 2))
    assert np.all(error <= np.minimum(40 * eps * lost, 1e-3))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", CASES)
def test_parameters_of_random_rotations(name, dtype):
    rounded = Rotation.from_matrix(RANDOM.as_matrix().astype(dtype).astype(float))
    expected = CASES[name].parameters(rounded)
    found = report(name, dtype)["of_random"]
    assert found.dtype == dtype
    size = np.linalg.norm(expected, axis=-1, keepdims=True)
    # b is known to eps |b|^2; an angle to eps over the sine of the middle one.
    lost = {
        "RodriguesParameters": 1 + size**2,
        "EulerAngles": 1 / np.abs(np.sin(expected[:, 1:2])),
        "BryantAngles": 1 / np.abs(np.cos(expected[:, 1:2])),
    }.get(name, 1 + size)
    assert np.all(np.abs(found - expected) <= 40 * float(np.finfo(dtype).eps) * lost)


@pytest.mark.parametrize("name", CASES)
def test_round_trips(name):
    kind, data = family(name), report(name, np.float64)
    given, back = points(name, np.float64), data["back"]
    again = kind.to_matrix(back) if name == "RodriguesParameters" else CASES[name].matrix(back)
    np.testing.assert_allclose(again, data["matrix"], atol=1e-14)
    if name in ("EulerAngles", "BryantAngles"):
        np.testing.assert_allclose(back, given, atol=1e-13)  # 1e-15 over the sine of 0.01
        return
    once = np.linalg.norm(Rotation.from_matrix(data["matrix"]).as_rotvec(), axis=-1)
    within = np.arange(len(given)) < len(AXES) * len(SMALL)
    assert (once[within] < np.pi).all()
    np.testing.assert_allclose(back[within], given[within], rtol=1e-14, atol=1e-14)
    # However small the angle, its digits are kept.
    vector = slice(1, 4) if given.shape[1] == 4 else slice(0, 3)
    small = slice(0, len(AXES) * 3)
    np.testing.assert_allclose(back[small, vector], given[small, vector], rtol=1e-14, atol=0)


def parameter_step(name, a, direction, h):
    """a + h direction, with s0 of the linear parameters following s."""
    if name != "LinearParameters":
        return a + h * direction
    s = a[:, 1:] + h * direction
    s0 = np.sign(a[:, :1]) * np.sqrt(1 - np.sum(s * s, axis=-1, keepdims=True))
    return np.concatenate([s0, s], axis=-1)


def true_tangents(name):
    """The material and the spatial operator by differences of the true matrices."""
    a, matrix = points(name, np.float64), CASES[name].matrix
    # Next to a quarter turn s0 follows s like a square root: shorter steps.
    h, r = 1e-5 if name == "LinearParameters" else 1e-4, matrix(a)
    columns = []
    for e in np.eye(3 if name == "LinearParameters" else a.shape[1]):
        f = [matrix(parameter_step(name, a, e, k * h)) for k in (-2, -1, 1, 2)]
        dr = (f[0] - 8 * f[1] + 8 * f[2] - f[3]) / (12 * h)
        columns.append((vee(r.mT @ dr), vee(dr @ r.mT)))
    return [np.stack(c, axis=-1) for c in zip(*columns, strict=True)]


def usable(name):
    """Points at which differences of the true matrices keep their digits: b and c up to 20."""
    return np.linalg.norm(points(name, np.float64), axis=-1) < 20


@pytest.mark.parametrize("name", CASES)
def test_tangent_operators_by_differences(name):
    data, where = report(name, np.float64), usable(name)
    for key, expected in zip(("tangent", "spatial"), true_tangents(name), strict=True):
        close(data[key][where], expected[where], 1e-9)


@pytest.mark.parametrize("name", CASES)
def test_tangent_operators_by_automatic_differentiation(name):
    data = report(name, np.float64)
    r, dr = data["matrix"], np.moveaxis(data["derivative"], -1, 0)
    if name == "LinearParameters":
        a = points(name, np.float64)
        # s0 follows s: ds0 = -s . ds/s0.
        slopes = -(a[:, 1:] / a[:, :1]).T[:, :, None, None]
        dr = dr[1:] + dr[0] * slopes
    for key, rate in (("tangent", r.mT @ dr), ("spatial", dr @ r.mT)):
        skewed = (rate - rate.mT) / 2
        close(data[key], np.moveaxis(vee(skewed), 0, -1), 1e-13)


@pytest.mark.parametrize("name", CASES)
def test_tangent_operators_differ_by_the_rotation(name):
    """omega = R Omega, eq. (163)."""
    data = report(name, np.float64)
    close(data["matrix"] @ data["tangent"], data["spatial"], 1e-14)


@pytest.mark.parametrize("name", CASES)
def test_inverse_tangent_operators(name):
    data = report(name, np.float64)
    t = data["tangent"]
    where = slice(None)
    if name == "RotationVector":  # no inverse at a full turn
        full = np.isclose(np.linalg.norm(points(name, np.float64), axis=-1), 2 * np.pi)
        assert full.sum() == len(AXES)
        where = ~full
        # There T keeps the axis alone.
        np.testing.assert_allclose(t[full], outer(AXES), atol=1e-15)
    inverse = data["inverse"][where]
    # Rows of T weigh rates of very different size at large b, c or 1/s0: compare T^-1 T.
    product = t[where] @ inverse
    weight = np.max(np.abs(t[where]), axis=(1, 2)) * np.max(np.abs(inverse), axis=(1, 2))
    error = np.max(np.abs(product - np.eye(3)), axis=(1, 2))
    assert np.all(error <= 1e-15 * (10 + weight))
    if t.shape[-1] == 3:
        expected = np.linalg.inv(t[where])
        close(inverse, expected, 1e-14 * float(np.max(np.linalg.cond(t[where]))))


@pytest.mark.parametrize("name", CASES)
def test_derivative_of_from_matrix(name):
    """Along R S(v) the parameters change by T^{-1} v, next to half a turn too."""
    data = report(name, np.float64)
    count = len(AXES) * len(SMALL) if "Angles" not in name else 40
    found, inverse = data["rates"][:count], data["inverse"][:count]
    if name == "LinearParameters":
        assert np.isfinite(found).all()
        found = found[:, 1:]
    close(found, inverse, 1e-12)
    for near in data["rates"], data["derivative"], data["gradient"]:
        assert np.isfinite(near).all()


@pytest.mark.parametrize("name", CASES)
def test_reverse_mode(name):
    data = report(name, np.float64)
    expected = np.einsum("ij,nijk->nk", WEIGHTS, data["derivative"])
    close(data["gradient"], expected, 5e-15)


@pytest.mark.parametrize("name", CASES)
def test_single_precision(name):
    """The same operators, to float32's round-off of the parameters."""
    single, double = report(name, np.float32), report(name, np.float64)
    a, where = points(name, np.float64), usable(name)
    if name in ("RotationVector", "LinearParameters"):  # not next to a singularity
        angle = np.linalg.norm(a[:, -3:], axis=-1)
        where &= np.abs(angle - 2 * np.pi) > 0.1
    for key in ("tangent", "inverse"):
        assert single[key].dtype == np.float32
        close(single[key][where], double[key][where], 1e-4 if key == "inverse" else 3e-5)


@pytest.mark.parametrize("name", CASES)
def test_composition(name):
    r, data = truth(name, np.float64), report(name, np.float64)
    expected = r @ r[::-1]
    # Half turns, which some products are, have no finite b, and no (s0, s) that can be undone.
    angle = np.arccos(np.clip((np.trace(expected, axis1=1, axis2=2) - 1) / 2, -1, 1))
    where = angle < 3
    assert where.sum() >= 20
    found = CASES[name].matrix(data["composed"][where])
    tolerance = 1e-9 if name == "RodriguesParameters" else 1e-13  # eps |b|^2 in the truth
    np.testing.assert_allclose(found, expected[where], atol=tolerance)


@pytest.mark.parametrize("name", ["EulerParameters", "ConformalRotationVector"])
def test_half_rotations(name):
    """R = F^2 with F by half the angle that the parameters tell."""
    half, matrix = report(name, np.float64)["half"], report(name, np.float64)["matrix"]
    angles = [*SMALL, *NEAR, *BEYOND]
    expected = Rotation.from_rotvec(axis_angle(angles, lambda n, t: (n * t / 2,))).as_matrix()
    half, matrix = half[: len(expected)], matrix[: len(expected)]
    np.testing.assert_allclose(half, expected, atol=5e-15)
    np.testing.assert_allclose(half @ half, matrix, atol=1e-14)
    orthogonal(half, 1e-14)


def test_half_rotations_as_printed():
    """Eqs. (259) and (275), the latter at angles where 1 + e0 keeps its digits."""
    c = points("ConformalRotationVector", np.float64)
    c0 = ((16 - np.sum(c * c, axis=-1)) / 8)[:, None, None]
    printed = (c0 * np.eye(3) + outer(c) / 4 + skew(c)) / (4 - c0)
    np.testing.assert_allclose(
        report("ConformalRotationVector", np.float64)["half"], printed, atol=5e-15
    )
    p = points("EulerParameters", np.float64)[: len(AXES) * len(SMALL)]
    e0, e = p[:, :1, None], p[:, 1:]
    printed = e0 * np.eye(3) + outer(e) / (1 + e0) + skew(e)
    found = report("EulerParameters", np.float64)["half"][: len(p)]
    np.testing.assert_allclose(found, printed, atol=5e-15)


def test_linear_tangent_has_the_corrected_sign():
    """Eq. (273) as printed, with +S(s), is the spatial operator."""
    a = points("LinearParameters", np.float64)
    s0, s = a[:, :1, None], a[:, 1:]
    material = np.eye(3) + (outer(s) / s0 - skew(s)) / (1 + s0)
    close(report("LinearParameters", np.float64)["tangent"], material, 1e-13)
    close(report("LinearParameters", np.float64)["spatial"], material.mT, 1e-13)


def test_conversions():
    """Around a ring of the families: each is a source and a target once.

    Any pair meets in the quaternion, so these stand for all.
    """
    rotation = Rotation.from_rotvec(np.random.default_rng(3).uniform(-1.5, 1.5, size=(20, 3)))
    given = {name: case.parameters(rotation) for name, case in CASES.items()}
    names = list(CASES)

    @quick_jit
    def around(given):
        ring = zip(names, [*names[1:], names[0]], strict=True)
        return {
            target: rb.rotations.convert(given[source], family(source), family(target))
            for source, target in ring
        }

    found = around(given)
    found["EulerParameters"] = unsign(found["EulerParameters"], given["EulerParameters"])
    for name, expected in given.items():
        np.testing.assert_allclose(found[name], expected, atol=2e-14, rtol=2e-14)


def test_spurrier_on_many_rotations():
    """The truth has 64 bits of mantissa; no digit is lost at any of 10^5 rotations."""
    q = np.random.default_rng(4).normal(size=(100_000, 4)).astype(np.longdouble)
    q /= np.sqrt(np.sum(q * q, axis=-1, keepdims=True))
    w, x, y, z = q.T
    rows = [
        [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
        [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
        [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
    ]
    matrices = np.moveaxis(np.array(rows), -1, 0).astype(float)
    found = np.asarray(jax.jit(rb.rotations.EulerParameters.from_matrix)(matrices))
    assert np.isfinite(found).all() and (found[:, 0] >= 0).all()
    error = np.linalg.norm((found - q * np.sign(q[:, :1])).astype(float), axis=-1)
    assert np.median(error) <= 2e-16
    assert np.max(error) <= 6e-16
