"""Charts against closed forms and NumPy: what a step does, that none leads to what is impossible.

Round-off of results of order one is given 20 eps, of inverses by logarithms 100 eps.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import differences, unsign
from scipy.spatial.transform import Rotation

from jaxrb import optimize as ro

DTYPES = [np.float32, np.float64]
# Principal moments of a solid, and the tensor of another in axes that are not principal.
PRINCIPAL = np.array([2.0, 2.5, 3.0])
TURN = Rotation.from_rotvec([0.4, -0.7, 0.2]).as_matrix()
TENSOR = TURN @ np.diag([1.0, 1.7, 2.2]) @ TURN.T
UNIT = np.array([2.0, -1.0, 2.0]) / 3
QUATERNION = Rotation.from_rotvec([0.3, 1.1, -0.5]).as_quat(scalar_first=True)
CASES = {
    "real": (ro.Real(), np.array([[1.0, -2.0], [0.5, 30.0]])),
    "positive": (ro.Positive(), np.array([0.5, 2.0, 4.0])),
    "bounded": (ro.Bounded(-1, 3), np.array([-0.9, 0.0, 2.5])),
    "unit vector": (ro.UnitVector(), UNIT),
    "rotation": (ro.Rotation(), QUATERNION),
    "principal moments": (ro.PhysicalInertia(), PRINCIPAL),
    "inertia tensor": (ro.PhysicalInertia(), TENSOR),
}
every_chart = pytest.mark.parametrize("name", CASES)
every_dtype = pytest.mark.parametrize("dtype", DTYPES)


def case(name, dtype):
    chart, value = CASES[name]
    value = jnp.asarray(value, dtype)
    return chart, value, chart.n_coordinates(value.shape)


def eps(dtype):
    return float(np.finfo(dtype).eps)


def second_moments(inertia):
    """Of one tensor, in double precision."""
    inertia = np.asarray(inertia, float)
    tensor = np.diag(inertia) if inertia.ndim == 1 else inertia
    return np.trace(tensor) / 2 * np.eye(3) - tensor


@every_dtype
@every_chart
def test_zero_stays_and_local_is_the_inverse(name, dtype):
    chart, value, n = case(name, dtype)
    steps = np.random.default_rng(0).normal(size=(20, n)).astype(dtype)

    @jax.jit
    @jax.vmap
    def there_and_back(step):
        moved = chart.retract(value, step)
        return moved, chart.local(value, moved)

    moved, back = map(
        np.asarray, there_and_back(jnp.asarray(np.concatenate([0 * steps[:1], steps])))
    )
    assert moved.dtype == back.dtype == dtype
    assert moved.shape[1:] == value.shape
    np.testing.assert_allclose(moved[0], value, rtol=20 * eps(dtype), atol=2 * eps(dtype))
    # The difference of values of up to 30 is rounded to their last digit, and a quotient of a
    # bounded number near its bound loses a digit or two. The moved tensors have conditions of up
    # to 1e4, of which their Cholesky factors lose the root again.
    round_off = (1000 if name == "inertia tensor" else 100) * eps(dtype)
    np.testing.assert_allclose(back[1:], steps, rtol=0, atol=round_off)
    # Steps of size one move the value, or all of this would hold of a chart that does nothing.
    assert (np.abs(moved[1:] - np.asarray(value)).reshape(20, -1).max(axis=1) > 0.01).all()


@pytest.mark.slow
@every_chart
def test_derivatives_at_zero_in_all_modes(name):
    """Where every fit starts, and where a kink of a formula would be seen."""
    chart, value, n = case(name, np.float64)

    def retract(step):
        return chart.retract(value, step)

    def truth(step):
        return np.asarray(moved(jnp.asarray(step)))

    moved = jax.jit(retract)
    zero = jnp.zeros(n)
    forward, reverse, second = jax.jit(
        lambda s: (jax.jacfwd(retract)(s), jax.jacrev(retract)(s), jax.hessian(retract)(s))
    )(zero)
    # Differences of order 4 with step 1e-3: 1e-12, and of second derivatives eps/h = 1e-13 more
    # than that of the first, from the Jacobian.
    np.testing.assert_allclose(forward, differences(truth, zero), atol=1e-10)
    np.testing.assert_allclose(reverse, forward, atol=1e-14)
    jacobian = jax.jit(jax.jacfwd(retract))
    of_second = differences(lambda s: jacobian(jnp.asarray(s)), zero)
    np.testing.assert_allclose(second, of_second, atol=1e-9)


@pytest.mark.slow
def test_derivatives_at_zero_in_closed_form():
    """Of charts of single numbers, and of vectors that turn."""

    def derivative(name):
        chart, value, n = case(name, np.float64)
        return np.asarray(jax.jacfwd(lambda step: chart.retract(value, step))(jnp.zeros(n)))

    np.testing.assert_array_equal(derivative("real").reshape(4, 4), np.eye(4))
    np.testing.assert_allclose(derivative("positive"), np.diag(CASES["positive"][1]), rtol=1e-15)
    x = CASES["bounded"][1]
    # Of lower + (upper - lower)/(1 + exp(-y)), by y.
    np.testing.assert_allclose(derivative("bounded"), np.diag((x + 1) * (3 - x) / 4), rtol=1e-14)
    across = derivative("unit vector")
    np.testing.assert_allclose(across.T @ across, np.eye(2), atol=1e-15)
    np.testing.assert_allclose(UNIT @ across, 0, atol=1e-15)
    w, x, y, z = QUATERNION
    rates = np.array([[-x, -y, -z], [w, -z, y], [z, w, -x], [-y, x, w]]) / 2
    np.testing.assert_allclose(derivative("rotation"), rates, atol=1e-15)
    # J_xx = s_y + s_z, and s changes by itself.
    s = np.sum(PRINCIPAL) / 2 - PRINCIPAL
    np.testing.assert_allclose(
        derivative("principal moments"), [[0, s[1], s[2]], [s[0], 0, s[2]], [s[0], s[1], 0]]
    )


@every_dtype
def test_values_of_bounded_numbers(dtype):
    """Against the logistic function, with steps to where it rounds to a bound."""
    chart = ro.Bounded(0.2, 0.9)
    steps = np.linspace(-15, 15, 31).astype(dtype)
    value = jnp.asarray(0.4, dtype)
    found = jax.vmap(lambda step: chart.retract(value, step[None]))(jnp.asarray(steps))
    start = np.log((0.4 - 0.2) / (0.9 - 0.4))
    expected = 0.2 + 0.7 / (1 + np.exp(-(start + steps.astype(float))))
    np.testing.assert_allclose(found, expected, rtol=5 * eps(dtype))


@every_dtype
@every_chart
def test_the_longest_steps_lead_to_possible_values(name, dtype):
    """Steps of +-1000 in each coordinate, whose exponentials overflow in both precisions."""
    chart, value, n = case(name, dtype)
    signs = np.stack(np.meshgrid(*[[-1.0, 0.0, 1.0]] * n), -1).reshape(-1, n)
    steps = jnp.asarray(1000 * signs, dtype)
    derivative = jax.jacfwd(chart.retract, argnums=1)
    moved, slopes = jax.jit(
        jax.vmap(lambda step: (chart.retract(value, step), derivative(value, step)))
    )(steps)
    moved = np.asarray(moved)
    assert np.isfinite(moved).all() and np.isfinite(slopes).all()
    if name == "positive":
        assert (moved > 0).all()
    elif name == "bounded":
        assert (moved > -1).all() and (moved < 3).all()
    elif name in ("unit vector", "rotation"):
        # The angle of 1000 rad is rounded before its sine is taken, not the length.
        lengths = np.linalg.norm(moved.astype(float), axis=-1)
        np.testing.assert_allclose(lengths, 1, atol=20 * eps(dtype))
    elif name == "principal moments":
        assert (moved > 0).all()
        # With equality where one second moment is less than the round-off of another.
        others = np.roll(moved, 1, axis=-1) + np.roll(moved, 2, axis=-1)
        assert (others >= moved * (1 - 4 * eps(dtype))).all()
    elif name == "inertia tensor":
        assert (np.diagonal(moved, axis1=-2, axis2=-1) > 0).all()
        np.testing.assert_array_equal(moved, moved.swapaxes(-1, -2))


@pytest.mark.parametrize(("lower", "upper"), [(0, 1), (-1, 0), (0.5, 2), (-3, 1e6), (1e6, 1e6 + 1)])
@every_dtype
def test_a_bounded_number_comes_back_from_its_bounds(lower, upper, dtype):
    chart = ro.Bounded(lower, upper)
    value = jnp.asarray((lower + upper) / 2, dtype)
    for sign in (-1.0, 1.0):
        far = chart.retract(value, jnp.asarray([sign * 1000.0], dtype))
        assert chart.possible(np.asarray(far)) is None
        back = chart.retract(far, chart.local(far, value))
        # A step of up to 50 is rounded, and moves the value by a quarter of the range times that.
        atol = 20 * eps(dtype) * (upper - lower) + eps(dtype) * abs(upper)
        np.testing.assert_allclose(back, value, rtol=0, atol=atol)


@pytest.mark.parametrize("name", ["principal moments", "inertia tensor"])
def test_random_inertias_are_of_solids(name):
    """Positive second moments are what a solid has: then J is positive definite, and each
    principal moment strictly less than the sum of the others. Steps of +-4 spread the second
    moments over exp(16) = 1e7, whose round-off is still less than the least."""
    chart, value, n = case(name, np.float64)
    steps = jnp.asarray(np.random.default_rng(1).uniform(-4, 4, size=(2000, n)))
    for inertia in np.asarray(jax.jit(jax.vmap(lambda s: chart.retract(value, s)))(steps)):
        tensor = np.diag(inertia) if inertia.ndim == 1 else inertia
        moments = np.linalg.eigvalsh(tensor)
        assert moments[0] > 0
        assert moments[0] + moments[1] > moments[2]
        assert np.linalg.eigvalsh(second_moments(inertia))[0] > 0
        assert chart.possible(inertia) is None


def test_a_full_tensor_moves_by_its_cholesky_factor():
    step = np.array([0.3, -0.2, 0.5, 0.7, -1.1, 0.4])
    factor = np.array([[np.exp(0.3), 0, 0], [0.7, np.exp(-0.2), 0], [-1.1, 0.4, np.exp(0.5)]])
    root = np.linalg.cholesky(second_moments(TENSOR)) @ factor
    moments = root @ root.T
    expected = np.trace(moments) * np.eye(3) - moments
    chart = ro.PhysicalInertia()
    found = chart.retract(jnp.asarray(TENSOR), jnp.asarray(step))
    np.testing.assert_allclose(found, expected, rtol=1e-14, atol=1e-14)
    np.testing.assert_allclose(chart.local(jnp.asarray(TENSOR), jnp.asarray(expected)), step)


def test_principal_moments_are_those_of_a_diagonal_tensor():
    """The second moment of each axis times exp(step): as a tensor, twice the factor's step."""
    step = np.array([0.3, -1.2, 0.5])
    s = (np.sum(PRINCIPAL) / 2 - PRINCIPAL) * np.exp(step)
    expected = np.array([s[1] + s[2], s[0] + s[2], s[0] + s[1]])
    chart = ro.PhysicalInertia()
    found = chart.retract(jnp.asarray(PRINCIPAL), jnp.asarray(step))
    np.testing.assert_allclose(found, expected, rtol=1e-14)
    full = jnp.asarray(np.concatenate([step / 2, np.zeros(3)]))
    tensor = chart.retract(jnp.asarray(np.diag(PRINCIPAL)), full)
    np.testing.assert_allclose(tensor, np.diag(expected), atol=1e-14)


DIRECTIONS = np.concatenate(
    [
        np.eye(3),
        -np.eye(3),
        np.array([[1, 1, 1], [1, -1, 0], [1e-9, 1, 0], [-1, 1e-200, 1e-9]], float),
        np.random.default_rng(2).normal(size=(10, 3)),
    ]
)
DIRECTIONS /= np.linalg.norm(DIRECTIONS, axis=1, keepdims=True)
TURN_BY, STEP_TO = jax.jit(ro.UnitVector().retract), jax.jit(ro.UnitVector().local)


@every_dtype
@pytest.mark.parametrize("angle", [0.0, 1e-9, 1e-3, 1.0, 3.0, np.pi - 1e-3, np.pi - 1e-9])
def test_a_unit_vector_turns_by_the_length_of_the_step(angle, dtype):
    """Near none and half a turn the sine alone would not tell them."""
    for n in DIRECTIONS.astype(dtype):
        for way in ([1.0, 0.0], [0.0, -1.0], [0.6, 0.8]):
            step = np.asarray(way) * angle
            moved = np.asarray(TURN_BY(n, step.astype(dtype)), float)
            wide = n.astype(float)
            # A chord of 2 sin(angle/2).
            chord = np.linalg.norm(moved - wide)
            np.testing.assert_allclose(chord, 2 * np.sin(angle / 2), atol=20 * eps(dtype))
            back = STEP_TO(n, moved.astype(dtype))
            # Within a rounding of half a turn, either way round leads there.
            length = np.linalg.norm(back)
            np.testing.assert_allclose(length, angle, atol=20 * eps(dtype))
            # The direction of the way is known as well as the vector across it, the sine.
            if np.sin(angle) > 1e3 * eps(dtype):
                error = 20 * eps(dtype) * (1 + angle / np.sin(angle))
                np.testing.assert_allclose(back, step, atol=error)


@every_dtype
def test_from_each_direction_to_each_other(dtype):
    """Pairs of all directions, opposite ones with them: where the step leads is the other."""
    for n in DIRECTIONS.astype(dtype):
        for other in np.concatenate([DIRECTIONS, -DIRECTIONS]).astype(dtype):
            step = STEP_TO(n, other)
            assert step.dtype == dtype
            np.testing.assert_allclose(TURN_BY(n, step), other, atol=20 * eps(dtype))


def test_a_rotation_turns_about_body_axes():
    step = np.array([0.2, -0.4, 0.9])
    found = ro.Rotation().retract(jnp.asarray(QUATERNION), jnp.asarray(step))
    body = Rotation.from_quat(QUATERNION, scalar_first=True) * Rotation.from_rotvec(step)
    expected = body.as_quat(scalar_first=True)
    np.testing.assert_allclose(found, unsign(expected, found), atol=1e-15)


def test_fixed_has_no_coordinate():
    chart, value = ro.Fixed(), jnp.asarray(PRINCIPAL)
    assert chart.n_coordinates(value.shape) == 0
    np.testing.assert_array_equal(chart.retract(value, jnp.zeros(0)), PRINCIPAL)
    assert chart.local(value, 2 * value).shape == (0,)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: ro.Bounded(1, 1), "upper must be above lower"),
        (lambda: ro.Bounded(0, np.inf), "Bounded.upper must be finite"),
        (lambda: ro.UnitVector().n_coordinates((2,)), r"shape \(3,\); got \(2,\)"),
        (lambda: ro.Rotation().n_coordinates((3,)), r"shape \(4,\); got \(3,\)"),
        (lambda: ro.PhysicalInertia().n_coordinates(()), r"shape \(3,\) or \(3, 3\); got \(\)"),
    ],
)
def test_what_no_chart_can_be_or_have(make, says):
    with pytest.raises(ValueError, match=says):
        make()
