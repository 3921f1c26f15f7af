"""Derivatives of a face that slides and spins on contacts whose places move."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from problems import UP, Scene, box
from scipy.optimize import root

from jaxrb.stepping.rows import WORLD
from jaxrb.stepping.solve_cone import solve_cone

HALF, FRICTION = (0.1, 0.12, 0.1), 0.3
FREE = np.array([0.3, 0.2, -0.1, 0.0, 0.0, 3.0])
# An irregular hexagon under the box, as where faces overlap, and how a parameter moves it [m].
PLACES = np.array([[9, 3], [4, 10], [-5, 11], [-8, -2], [-3, -9], [7, -8]]) / 100
CHANGES = np.array([[1.0, 0.4], [-0.7, 0.2], [0.3, -1.0], [0.5, 0.5], [-0.2, 0.8], [0.6, -0.3]])
SCENE = Scene(
    [box(HALF, (0, 0, HALF[2]))],
    [(0, WORLD, np.array([*place, 0.0]), UP) for place in PLACES],
    FRICTION,
    FREE[None],
)


def by_linear_pressure(theta):
    """The velocity after the impact, by the law itself: what it does to nine unknowns, three of a
    linear pressure and six of the velocity."""
    (mass, moments, _, _), *_ = SCENE.bodies
    arms = np.column_stack([PLACES + theta * CHANGES, np.full(len(PLACES), -HALF[2])])
    inertia = np.array([mass, mass, mass, *moments])

    def missed(x):
        y, v = x[:3], x[3:]
        slip = v[:3] + np.cross(v[3:], arms)
        pressure = y[0] + arms[:, :2] @ y[1:]
        direction = slip[:, :2] / np.linalg.norm(slip[:, :2], axis=1)[:, None]
        push = np.column_stack([-FRICTION * pressure[:, None] * direction, pressure])
        momentum = np.concatenate([push.sum(0), np.cross(arms, push).sum(0)])
        return np.concatenate([(inertia * (v - FREE) - momentum), v[2:5]])

    load = mass * 0.1 / len(PLACES)
    x = root(missed, [load, 0, 0, *(FREE * [1, 1, 0, 0, 0, 1])], tol=1e-12).x
    assert np.abs(missed(x)).max() < 1e-12 and (x[0] + arms[:, :2] @ x[1:3] > 0).all()
    return x[3:]


@jax.jit
def solved(theta):
    """Likewise, by the library."""
    problem = SCENE.problem()
    rows = problem.contacts
    moved = jnp.zeros((1, 3, len(PLACES))).at[0, :2].set(theta * CHANGES.T)
    lever = rows.levers[0] + jnp.cross(moved, rows.direction, axis=1)
    rows = dataclasses.replace(rows, levers=(lever, rows.levers[1]))
    problem = dataclasses.replace(problem, contacts=rows, contact_rates=rows)
    solution = solve_cone(problem, jnp.zeros_like(problem.bias), jnp.zeros_like(problem.drift))
    return solution.velocity[:, 0]


@pytest.mark.slow
def test_derivatives_by_places():
    """Coulomb's law leaves open which of many pressures bears the load; the one that is linear in
    the place stays so while the places move. First derivatives, in both modes, against differences
    of an independent solution: steps of 1e-4 m leave 1e-9 of these and 1e-5 of second ones."""
    theta, h = 0.003, 1e-4
    np.testing.assert_allclose(solved(theta), by_linear_pressure(theta), rtol=0, atol=1e-11)
    steps = np.array([by_linear_pressure(theta + k * h) for k in (-2, -1, 0, 1, 2)])
    first = np.array([1, -8, 0, 8, -1]) @ steps / (12 * h)
    second = np.array([-1, 16, -30, 16, -1]) @ steps / (12 * h * h)
    forward = jax.jit(jax.jacfwd(solved))
    np.testing.assert_allclose(forward(theta), first, rtol=0, atol=1e-8)
    np.testing.assert_allclose(jax.jit(jax.jacrev(solved))(theta), forward(theta), atol=1e-11)
    np.testing.assert_allclose(jax.jit(jax.jacfwd(forward))(theta), second, rtol=0, atol=1e-4)
