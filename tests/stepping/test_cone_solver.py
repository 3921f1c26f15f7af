"""The solver of frictional contact against the law itself, written out with dense matrices."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import some_slow
from problems import UP, Scene, box, frame, pile, tower

from jaxrb.stepping.cone_solver import search
from jaxrb.stepping.rows import WORLD
from jaxrb.stepping.scene import Impulse
from jaxrb.stepping.solve_cone import answer, solve_cone
from jaxrb.stepping.yielding import Yielding


def found(scene, dtype=float):
    """The impulses of a scene, without a guess, as its `check` takes them."""
    problem = scene.problem(dtype)
    nothing = jnp.zeros_like(problem.bias), jnp.zeros_like(problem.drift)
    solution = search(problem, *nothing)
    return np.asarray(solution.impulse, float).T, np.asarray(solution.reaction, float), solution


def shaken(n, seed, size):
    rng = np.random.default_rng(seed)
    velocity = size * rng.normal(size=(n, 6)) * np.array([0.3, 0.3, 0.3, 0.9, 0.9, 0.9])
    velocity[:, 2] -= size * 0.1
    return velocity


SCENES = {
    "one box at rest": lambda: tower(1),
    "one box spun": lambda: tower(1, velocity=np.array([[0.3, 0.1, -0.05, 0, 0, 2.0]])),
    "one box that tips": lambda: tower(1, velocity=np.array([[0.5, 0, -0.1, 0.4, 3.0, 0.1]])),
    "a tower": lambda: tower(6),
    "a tower, shaken": lambda: tower(6, velocity=shaken(6, 1, 1.0)),
    "a tower without friction": lambda: tower(4, friction=0.0, velocity=shaken(4, 2, 0.1)),
    "a heavy top": lambda: tower(5, masses=[8, 8, 8, 8, 8000]),
    "a pile of balls": lambda: pile(12, 3),
}


SLOW = ("one box spun", "a tower without friction", "a heavy top", "a pile of balls")


@pytest.mark.parametrize("name", some_slow(SCENES, *SLOW))
def test_solutions_obey_the_law(name):
    """To 1e-10 of the largest velocity of the scene, some metres per second at most, and of what
    it does to the masses, some kilograms (8000 of the heavy top)."""
    scene = SCENES[name]()
    impulse, reaction, solution = found(scene)
    assert float(solution.residual) <= 1e-10
    weight = max(body[0] for body in scene.bodies)
    (outside, inward, power, _), _ = scene.check(impulse, reaction)
    assert outside <= 1e-10 * weight and inward <= 3e-10 and power <= 1e-10 * weight


def test_the_law_without_solver_by_hand():
    """A box pushed sideways in one step: it sticks below mu m g h and slides above by what is left;
    pressures of four corners carry its weight."""
    g_h, mu = 0.04905, 0.5
    for push in (0.3, 0.8):
        scene = tower(
            1, half=(0.1, 0.1, 0.01), friction=mu, velocity=[[push * g_h, 0, -g_h, 0, 0, 0]]
        )
        impulse, reaction, _ = found(scene)
        _, u = scene.check(impulse, reaction)
        weight = scene.bodies[0][0] * g_h
        np.testing.assert_allclose(impulse[:, 0].sum(), weight, rtol=1e-12)
        slides = max(push - mu, 0.0) * g_h
        np.testing.assert_allclose(np.linalg.norm(u[:, 1:], axis=1), slides, atol=1e-14)


@pytest.mark.slow
def test_joints_and_contacts_in_one_problem():
    """Two boxes on a plane, pinned to each other above their contacts and to the world."""
    half = (0.1, 0.1, 0.1)
    bodies = [box(half, (0, 0, 0.1)), box(half, (0.25, 0, 0.1))]
    corners = [(x, y) for x in (-0.1, 0.1) for y in (-0.1, 0.1)]
    contacts = [
        (k, WORLD, np.array([body[2][0] + x, y, 0.0]), UP)
        for k, body in enumerate(bodies)
        for x, y in corners
    ]
    pins = [(0, 1, np.array([0.125, 0.05, 0.15])), (0, WORLD, np.array([-0.1, 0.1, 0.2]))]
    velocity = np.array([[0.1, 0.5, -0.2, 0.3, 0.1, 1.0], [0.2, -0.4, -0.3, 1.0, 0.2, 0.5]])
    scene = Scene(bodies, contacts, 0.3, velocity, pins=pins)
    impulse, reaction, solution = found(scene)
    (outside, inward, power, joints), _ = scene.check(impulse, reaction)
    assert float(solution.residual) <= 1e-10
    assert outside <= 1e-9 and inward <= 1e-10 and power <= 1e-9 and joints <= 1e-10


@pytest.mark.slow
@pytest.mark.parametrize("on_plane", [True, False])
def test_rows_that_yield_within_bounds(on_plane):
    """A row of boxes, on a plane or in the air, the first two pinned to each other. Between the
    others, and to the world, are rows whose reaction Q is P - d w within bounds, from next to
    nothing to next to rigid, of which most are at a bound: all of 200 problems are solved."""
    half, count = (0.1, 0.1, 0.1), 4
    bodies = [box(half, (0.25 * k, 0, 0.1)) for k in range(count)]
    corners = [(x, y) for x in (-0.1, 0.1) for y in (-0.1, 0.1)]
    contacts = [
        (k, WORLD, np.array([body[2][0] + x, y, 0.0]), UP)
        for k, body in enumerate(bodies)
        for x, y in (corners if on_plane else [])
    ]
    places = [np.array([0.25 * k + 0.125, 0.05, 0.15]) for k in range(3)]
    pins = [*((k, k + 1, place) for k, place in enumerate(places)), (0, WORLD, np.full(3, 0.1))]
    rng, n, n_yielding = np.random.default_rng(7), 200, 9
    d = 10 ** rng.uniform(-3, 4, (n, n_yielding))
    push = d * rng.normal(size=d.shape)
    bounds = np.sort(rng.normal(size=(n, 2, n_yielding)), axis=1)
    bounds[:, :, ::4] = np.array([-np.inf, np.inf])[:, None]
    velocity = rng.normal(size=(n, count, 6))
    scene = Scene(bodies, contacts, 0.3, velocity[0], pins=pins)
    plain = scene.problem()

    def solve(velocity, d, push, bounds):
        law = Yielding(d, push, bounds)
        problem = dataclasses.replace(plain, free=velocity.T, yielding=law)
        return search(problem, jnp.zeros_like(plain.bias), jnp.zeros_like(plain.drift))

    solution = jax.jit(jax.vmap(solve))(velocity, d, push, bounds)
    assert np.max(solution.residual) <= 1e-10
    at_bounds = 0
    for k in range(n):
        scene.free = velocity[k]
        impulse, reaction = np.asarray(solution.impulse[k]).T, np.asarray(solution.reaction[k])
        force = scene.contact_rows.T @ impulse.reshape(-1) + scene.joint_rows.T @ reaction
        v = scene.free.reshape(-1) + np.linalg.solve(scene.mass, force)
        w = scene.joint_rows @ v
        np.testing.assert_allclose(w[:3], 0.0, atol=1e-9)
        own = reaction[3:]
        asked = np.clip(push[k] - d[k] * w[3:], *bounds[k])
        # To the residual in velocities, and what that is by the resistance.
        np.testing.assert_allclose(own, asked, rtol=0, atol=1e-8 * (1 + d[k].max()))
        at_bounds += np.sum((own == bounds[k][0]) | (own == bounds[k][1]))
    assert at_bounds > 0.3 * d.size


@pytest.mark.slow
def test_float32():
    impulse, reaction, solution = found(tower(4, velocity=shaken(4, 2, 1.0)), jnp.float32)
    assert solution.impulse.dtype == jnp.float32
    (outside, inward, power, _), _ = tower(4, velocity=shaken(4, 2, 1.0)).check(impulse, reaction)
    # Eight kilograms at a metre per second, to the 2e-4 allowed.
    assert outside <= 2e-3 and inward <= 3e-4 and power <= 2e-3


@pytest.mark.slow
def test_a_small_face_that_slides_in_single_precision():
    """Of a die of 2 cm, whose levers are 1 cm: the pressures are linear, as of large faces, and a
    guess from a step before is changed in a few turns, not from afar."""
    slides = np.array([[0.4, 0.1, -0.02, 0, 0, 3.0]])
    problem = tower(1, half=(0.01,) * 3, velocity=slides).problem(jnp.float32)
    solve = jax.jit(search)
    first = solve(problem, jnp.zeros_like(problem.bias), jnp.zeros_like(problem.drift))
    pressure = np.asarray(first.impulse[0]) / np.max(first.impulse[0])
    assert pressure.min() > 0.01
    np.testing.assert_allclose(pressure[::3].sum(), pressure[1:3].sum(), rtol=1e-4)
    guess = first.impulse * jnp.asarray([[1.0, 1.03, 0.98, 1.05]], jnp.float32)
    again = solve(problem, guess, first.reaction)
    assert again.turns <= 4
    np.testing.assert_allclose(again.impulse, first.impulse, rtol=1e-3, atol=1e-8)


@pytest.mark.parametrize("apart", [1e-6, 1e-8, 3e-10])
def test_feet_that_must_slip_by_next_to_nothing(apart):
    """A box on two belts that move apart, by as little as they may: friction has its largest size
    and holds the box in the middle, whether the impulses before were those of a box that sticks.
    Beside the unit, 0.05 m/s, the slip is 6e-9 in the last case, which is 60 times what is accepted
    as none."""
    scene, mu = tower(1), 0.5
    side = np.sign([place[0] for _, _, place, _ in scene.contacts])
    along = np.array([np.array(frame(normal)[1:]) @ [1.0, 0, 0] for *_, normal in scene.contacts])
    scene.bias[:, 1:] = -apart * side[:, None] * along
    problem = scene.problem()
    still = search(tower(1).problem(), jnp.zeros((3, 4)), jnp.zeros(0))
    solution = search(problem, still.impulse, still.reaction)
    assert float(solution.residual) <= 1e-10 and int(solution.turns) <= 30
    impulse = np.asarray(solution.impulse).T
    (outside, inward, power, _), u = scene.check(impulse, np.zeros(0))
    assert outside <= 1e-12 and inward <= 1e-14 and power <= 1e-15
    np.testing.assert_allclose(u[:, 1:], scene.bias[:, 1:], atol=1e-11 * apart + 1e-15)
    expected = mu * scene.bodies[0][0] * 9.81 * 0.005
    np.testing.assert_allclose(np.abs(impulse[:, 1:].sum(axis=1)).sum(), expected, rtol=1e-9)


def test_rates_of_joints_that_fly_are_no_more_exact_than_their_velocities():
    """Two pinned boxes at 100 m/s: the rates of the pin are round-off of these."""
    bodies = [box((0.1,) * 3, (0, 0, 0)), box((0.1,) * 3, (0.3, 0, 0))]
    velocity = np.tile([70.0, -50.0, 50.0, 0, 0, 0], (2, 1))
    velocity[1] *= 1 + 1e-15
    scene = Scene(bodies, [], 0.3, velocity, pins=[(0, 1, np.array([0.15, 0.02, 0.01]))])
    problem = scene.problem()
    assert np.abs(problem.joint_velocity(problem.free)).max() > 0
    solution = search(problem, jnp.zeros((3, 0)), jnp.zeros(3))
    # Some are made of numbers that differ by one in the last place; none from afar.
    assert int(solution.turns) <= 4 and float(solution.residual) <= 1e-10


def test_a_solution_is_kept_without_a_turn():
    scene = tower(6)
    problem = scene.problem()
    _, _, first = found(scene)
    again = search(problem, first.impulse, first.reaction)
    assert int(first.turns) > 0 and int(again.turns) == 0
    # But for the units, which are taken out and put in again.
    np.testing.assert_allclose(again.impulse, first.impulse, rtol=1e-14)


@pytest.mark.slow
def test_batches_give_what_each_gives_alone():
    """Easy and hard problems side by side, in any order: more of them than the queue has workers.
    Where one face slides and spins velocities are not unique; they must not depend on the lane."""
    velocities = [
        shaken(3, seed, size) for seed, size in zip(range(40), [1e-3, 1.0] * 20, strict=True)
    ]
    velocities[7] = np.tile([0.3, 0.1, -0.05, 0, 0, 2.0], (3, 1))
    scene = tower(3)
    problem = scene.problem()
    nothing = jnp.zeros_like(problem.bias), jnp.zeros_like(problem.drift)

    def solve(free):
        solution = search(scene.problem(free=free), *nothing)
        return solution.velocity, solution.residual

    free = jnp.stack([jnp.asarray(v.reshape(3, 6).T) for v in velocities])
    batch = jax.jit(jax.vmap(solve))
    together, residual = batch(free)
    assert float(residual.max()) <= 1e-10
    order = np.random.default_rng(0).permutation(40)
    permuted, _ = batch(free[order])
    np.testing.assert_allclose(permuted, together[order], atol=1e-12)
    single = jax.jit(solve)
    for lane in (0, 20):
        np.testing.assert_allclose(single(free[lane])[0], together[lane], rtol=0, atol=1e-12)
    for lane in (1, 7, 33):
        # Where several faces slide and spin at once, velocities are not unique, and which
        # are found hangs on round-off: both answers obey the law, and differ by 1e-5 at most.
        velocity, left = single(free[lane])
        assert float(left) <= 1e-10
        np.testing.assert_allclose(velocity, together[lane], rtol=0, atol=1e-4)


@pytest.mark.long
def test_a_sliding_face_presses_linearly_or_not_at_all():
    """Whatever the guess: a box comes down on its face, slides and spins. Of its four corners, in
    which a linear function has equal sums over both diagonals, one at which that is negative bears
    nothing. (Coulomb's law allows more pressures, and with others the box moves otherwise.)"""
    rng = np.random.default_rng(0)
    n = 48
    velocities = rng.uniform(-1, 1, (n, 6)) * np.array([1, 1, 0, 4, 4, 4]) - [0, 0, 0.6, 0, 0, 0]
    scene = tower(1, velocity=velocities[:1])
    problem = scene.problem()
    guesses = rng.uniform(0, 0.5, (n, 3, *problem.bias.shape)) * np.array([1, 0.1, 0.1])[:, None]
    guesses[:, 0] = 0.0

    def solve(free, guess):
        solution = search(scene.problem(free=free), guess, jnp.zeros_like(problem.drift))
        u = problem.contact_velocity(solution.velocity)
        return solution.impulse, u, solution.residual

    free = jnp.asarray(velocities[:, :, None])
    batch = jax.jit(jax.vmap(jax.vmap(solve, (None, 0))))
    impulse, u, residual = map(np.asarray, batch(free, jnp.asarray(guesses)))
    assert residual.max() <= 1e-10
    np.testing.assert_allclose(u, np.broadcast_to(u[:, :1], u.shape), atol=1e-9)
    pressure, leaves, slip = impulse[:, 0, 0], u[:, 0, 0], np.linalg.norm(u[:, 0, 1:], axis=1)
    lies = (leaves.max(1) < 1e-9) & (slip.min(1) > 1e-6)
    extrapolated = pressure[:, ::3].sum(1) - pressure[:, 1:3].sum(1)
    bears = (pressure > 1e-9).sum(1)
    assert (lies & (bears == 4)).sum() >= 5 and (lies & (bears == 3)).sum() >= 5
    np.testing.assert_allclose(extrapolated[lies & (bears == 4)], 0.0, atol=1e-9)
    # What the other three would give to the one that bears nothing.
    weight = np.where(pressure > 1e-9, 0.0, np.array([-1.0, 1.0, 1.0, -1.0])).sum(1)
    assert np.all((weight * extrapolated)[lies & (bears == 3)] < 1e-9)


DERIVATIVES = {
    "sticks": np.array([[0.01, 0.0, -0.05, 0, 0, 0.0]]),
    "slides": np.array([[0.5, 0.2, -0.05, 0, 0, 0.0]]),
    "slides and spins": np.array([[0.3, 0.1, -0.05, 0, 0, 2.0]]),
    "tips": np.array([[0.5, 0, -0.1, 0.4, 3.0, 0.1]]),
    "opens": np.array([[0.5, 0, 0.5, 0.0, 0.1, 0.1]]),
}


def changed(problem, x):
    """With other velocities, mass, friction and restitution."""
    return dataclasses.replace(
        problem,
        free=problem.free + x[:6, None],
        mass=problem.mass * (1 + x[6]),
        friction=problem.friction + x[7],
        bias=problem.bias.at[0].add(x[8]),
    )


def velocity(x, problem):
    nothing = jnp.zeros_like(problem.bias), jnp.zeros_like(problem.drift)
    return solve_cone(changed(problem, x), *nothing).velocity[:, 0]


# One program of each for all cases.
VALUE, FORWARD, REVERSE = (
    jax.jit(velocity),
    jax.jit(jax.jacfwd(velocity)),
    jax.jit(jax.jacrev(velocity)),
)


@pytest.mark.slow
@pytest.mark.parametrize("case", DERIVATIVES)
def test_derivatives_are_those_of_differences(case):
    """In both modes: differences of the fourth order with steps of 1e-5 have errors of some 1e-11,
    and solutions 1e-13. Where a face slides and spins, the pressures are chosen to be linear in a
    step of their own, which leaves 1e-6."""
    problem = tower(1, half=(0.1, 0.08, 0.05), velocity=DERIVATIVES[case]).problem()
    x, h, columns = jnp.zeros(9), 1e-5, []
    for direction in np.eye(9):
        step = h * direction
        near, far = (VALUE(x + s * step, problem) - VALUE(x - s * step, problem) for s in (1, 2))
        columns.append((8 * near - far) / (12 * h))
    expected = np.stack(columns, axis=1)
    forward = FORWARD(x, problem)
    np.testing.assert_allclose(
        forward, expected, rtol=0, atol=1e-7 if case == "slides and spins" else 1e-8
    )
    # In reverse mode nothing has an answer but what depends on velocities alone, as they are.
    np.testing.assert_allclose(REVERSE(x, problem), forward, atol=1e-11)


@pytest.mark.slow
def test_derivatives_where_a_corner_bears_what_turns_have_left():
    """Of a face that slides and spins three corners bear the load, and the fourth some 1e-8 of it,
    which turns may leave there: it bears nothing, and does not make the pressures linear."""
    before = np.array([[-0.5, -0.3, -0.1, 1.6, -0.6, -1.6]])
    problem = tower(1, half=(0.1, 0.08, 0.05), velocity=before).problem()
    found = jax.jit(solve_cone)(problem, jnp.zeros((3, 4)), jnp.zeros(0))
    slip = np.asarray(problem.contact_velocity(found.velocity))[1:]
    impulse = np.asarray(found.impulse).copy()
    (idle,) = np.flatnonzero(impulse[0] < 1e-10)
    assert (impulse[0, np.arange(4) != idle] > 1e-3).all()
    assert (np.hypot(*slip) > 1e-2).all()
    assert abs(problem.contact_velocity(found.velocity)[0, idle]) < 1e-10  # it touches

    def derivative(impulse):
        known = Impulse(jnp.asarray(impulse), jnp.zeros(0))

        def after(x):
            own = changed(problem, x)
            return own.velocity(*answer(own, known))[:, 0]

        return jax.jit(jax.jacfwd(after))(jnp.zeros(9))

    expected = derivative(impulse)
    assert np.abs(expected).max() > 0.1
    load = 1e-8 * impulse[0].sum()
    push = -problem.friction[idle] * slip[:, idle] / np.hypot(*slip[:, idle])
    impulse[:, idle] = load * np.array([1.0, *push])
    np.testing.assert_allclose(derivative(impulse), expected, rtol=0, atol=1e-6)


@pytest.mark.long
def test_hessians_in_all_modes():
    velocity_before = np.array([[0.5, 0.2, -0.05, 0, 0, 0.3]])
    problem = tower(1, half=(0.1, 0.08, 0.05), velocity=velocity_before).problem()

    def speed(x):
        v = velocity(jnp.zeros(9).at[0].set(x[0]).at[7].set(x[1]), problem)
        return v[0] ** 2 + v[5] * v[1]

    x, h = jnp.zeros(2), 1e-5
    gradient = jax.jit(jax.grad(speed))
    expected = np.stack(
        [(gradient(x + h * e) - gradient(x - h * e)) / (2 * h) for e in np.eye(2)], axis=1
    )
    modes = (jax.jacfwd, jax.jacrev), (jax.jacrev, jax.jacfwd), (jax.jacfwd, jax.jacfwd)
    for outer, inner in modes:
        found = jax.jit(outer(inner(speed)))(x)
        # Differences have lost half of their digits.
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)
