"""The loop of damped steps, on problems whose minima are known in closed form."""

import numpy as np

from jaxrb.optimize.levenberg_marquardt import minimise


def damped(point, evaluated, damping):
    """The step of Levenberg and Marquardt from dense normal equations."""
    residual, J = evaluated
    JTJ = np.swapaxes(J, 1, 2) @ J
    held = damping[:, None] * np.diagonal(JTJ, axis1=1, axis2=2)
    gradient = (np.swapaxes(J, 1, 2) @ residual[..., None])[..., 0]
    system = JTJ + held[..., None] * np.eye(held.shape[1])
    step = -np.linalg.solve(system, gradient[..., None])[..., 0]
    return point + step, np.zeros(len(point))


def squares(evaluated, price):
    total = np.sum(evaluated[0] ** 2, axis=1)
    return np.where(np.isfinite(total), total, np.inf)


def rosenbrock(point):
    """Residuals 10 (y - x^2) and 1 - x, whose squares have a curved valley to (1, 1)."""
    x, y = point.T
    J = np.zeros((len(point), 2, 2))
    J[:, 0, 0], J[:, 0, 1], J[:, 1, 0] = -20 * x, 10, -1
    return np.stack([10 * (y - x**2), 1 - x], axis=1), J


STARTS = np.array([[-1.2, 1.0], [3.0, -4.0], [1.0, 1.0], [-20.0, 5.0]])


def test_rosenbrock_from_many_starts():
    seen = []
    found = minimise(
        STARTS,
        rosenbrock,
        damped,
        squares,
        max_iterations=200,
        tolerance=1e-12,
        report=lambda number, merit: seen.append((number, merit.copy())),
    )
    assert found.converged.all()
    # The merit is a square: 1e-12 of it is 1e-6 of the residuals, from where a step of
    # Gauss-Newton has squared the error.
    np.testing.assert_allclose(found.point, 1.0, atol=1e-9)
    np.testing.assert_allclose(found.merit, 0.0, atol=1e-18)
    assert (np.diff(found.history, axis=0) <= 0).all()
    np.testing.assert_array_equal(found.history[0], squares(rosenbrock(STARTS), None))
    np.testing.assert_array_equal(found.history[-1], found.merit)
    assert [number for number, _ in seen] == list(range(1, len(found.history)))
    np.testing.assert_array_equal(seen[-1][1], found.merit)
    # The start at the minimum is done at once; the others take their own time.
    assert found.iterations[2] == 1
    assert found.iterations[[0, 1, 3]].min() > 2 and found.iterations.max() < 200
    # What was evaluated belongs to the point.
    np.testing.assert_array_equal(found.evaluated[0], rosenbrock(found.point)[0])


def test_starts_that_are_done_or_impossible_are_not_evaluated():
    starts = np.concatenate([STARTS, [[np.nan, 0.0], [np.inf, 1.0]]])
    sizes = []

    def evaluate(point):
        sizes.append(len(point))
        with np.errstate(invalid="ignore"):
            return rosenbrock(point)

    def improve(point, evaluated, damping):
        good = np.isfinite(evaluated[0]).all(axis=1)
        trial = np.full_like(point, np.nan)
        own = evaluated[0][good], evaluated[1][good]
        trial[good], _ = damped(point[good], own, damping[good])
        return trial, np.zeros(len(point))

    found = minimise(starts, evaluate, improve, squares, max_iterations=200, tolerance=1e-12)
    alone = minimise(STARTS, rosenbrock, damped, squares, max_iterations=200, tolerance=1e-12)
    np.testing.assert_array_equal(found.point[:4], alone.point)
    np.testing.assert_array_equal(found.point[4:], starts[4:])
    np.testing.assert_array_equal(found.iterations[4:], 0)
    assert not found.converged[4:].any() and np.isinf(found.merit[4:]).all()
    # All at first, then those that are possible and not done, of which there are ever fewer.
    assert sizes[:2] == [6, 4] and sizes[-1] == 1
    assert (np.diff(sizes) <= 0).all() and sum(sizes[1:]) == found.iterations.sum()


def test_what_is_known_of_the_start_is_not_evaluated_again():
    calls = []

    def evaluate(point):
        calls.append(point)
        return rosenbrock(point)

    minimise(
        STARTS,
        evaluate,
        damped,
        squares,
        max_iterations=1,
        tolerance=1e-12,
        evaluated=rosenbrock(STARTS),
    )
    assert len(calls) == 1


def test_a_step_to_where_nothing_is_possible_is_refused():
    """log x, whose step from 5 leads to 5 - 5 log 5 < 0: steps are held closer until they lead to
    positive numbers, and then 1 is found."""
    visited = []

    def evaluate(point):
        visited.append(point[0, 0])
        with np.errstate(invalid="ignore"):
            return np.log(point), (1 / point)[..., None]

    found = minimise(
        np.array([[5.0]]), evaluate, damped, squares, max_iterations=50, tolerance=1e-14
    )
    assert visited[1] < 0
    assert found.converged.all()
    np.testing.assert_allclose(found.point, 1.0, atol=1e-9)
    # While steps were refused, the point and its merit stayed.
    refused = np.array(visited[1:]) < 0
    held = np.diff(found.history[:, 0]) == 0
    np.testing.assert_array_equal(held[: refused.sum()], True)


def test_steps_that_never_help_end_by_damping():
    """A gradient of the wrong sign leads uphill however short the steps are."""

    def uphill(point, evaluated, damping):
        trial, price = damped(point, evaluated, damping)
        return 2 * point - trial, price

    start = np.array([[2.0, 1.0]])
    found = minimise(start, rosenbrock, uphill, squares, max_iterations=100, tolerance=0.0)
    np.testing.assert_array_equal(found.point, start)
    assert not found.converged.any()
    # From 1e-3 by factors of 5 to 1e8.
    assert found.iterations[0] == np.ceil(np.log(1e11) / np.log(5))


def test_the_number_of_iterations_is_kept():
    found = minimise(STARTS, rosenbrock, damped, squares, max_iterations=2, tolerance=1e-12)
    assert found.iterations.max() == 2 and len(found.history) == 3
    assert not found.converged[[0, 1, 3]].any()


def test_a_constraint_at_a_price():
    """The point of x + y^2 = 1 nearest to (2, 0.3): with a price above the multiplier, the merit
    |z - z0|^2 + price |gap| has its least where the gap is closed. The minimum is where the
    normal of the curve leads to z0, a root of a cubic."""
    target = np.array([2.0, 0.3])

    def evaluate(point):
        return point - target, point[:, 0] + point[:, 1] ** 2 - 1

    def improve(point, evaluated, damping):
        trial, asked = [], []
        for z, away, gap, held in zip(point, *evaluated, damping, strict=True):
            normal = np.array([1.0, 2 * z[1]])
            system = np.block([[(1 + held) * np.eye(2), normal[:, None]], [normal, 0.0]])
            *step, multiplier = np.linalg.solve(system, -np.append(away, gap))
            trial.append(z + step)
            asked.append(2 * abs(multiplier))
        return np.array(trial), np.array(asked)

    def merit(evaluated, price):
        return np.sum(evaluated[0] ** 2, axis=1) + price * np.abs(evaluated[1])

    starts = np.array([[2.0, 0.3], [-1.0, 1.0], [0.0, 0.5]])
    found = minimise(starts, evaluate, improve, merit, max_iterations=200, tolerance=1e-13)
    # z = (1 - y^2, y) with (z - z0) . (-2 y, 1) = 0: 2 y^3 + 3 y - 0.3 = 0.
    (y,) = (root.real for root in np.roots([2, 0, 3, -0.3]) if abs(root.imag) < 1e-12)
    assert found.converged.all()
    # Gauss-Newton leaves out the curvature of the constraint and converges linearly: a decrease
    # of 1e-13 of the merit is reached within 1e-5 of the point.
    np.testing.assert_allclose(found.point, np.tile([1 - y**2, y], (3, 1)), atol=1e-5)
