"""Which numbers of a world are free, how steps move them, and that common optimisers take them."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import quick_jit

import jaxrb as rb
from jaxrb import optimize as ro

TENSOR = np.array([[2.0, 0.1, 0.0], [0.1, 2.5, -0.2], [0.0, -0.2, 3.0]])


def scene(restitution=0.5, friction=0.2, masses=(1.5, 1.5), number=jnp.float64):
    """A sphere and a box over a plane."""
    bodies = [
        rb.RigidBody(rb.Sphere(number(0.1)), number(masses[0])),
        rb.RigidBody(
            rb.Box(jnp.full(3, 0.2, number)), number(masses[1]), jnp.asarray(TENSOR, number)
        ),
    ]
    return rb.World(
        bodies,
        [rb.HalfSpace(jnp.asarray([0.0, 0.6, 0.8], number), number(0.1))],
        gravity=jnp.asarray([0.0, 0.0, -9.81], number),
        contact_law=rb.Coulomb(number(friction), number(restitution)),
    )


CHARTS = {
    "contact_law.restitution": ro.Bounded(0, 1),
    ("bodies[0].mass", "bodies[1].mass"): ro.Positive(),
    "bodies[1].inertia": ro.PhysicalInertia(),
    "gravity": ro.Fixed(),
    "obstacles[0].normal": ro.UnitVector(),
}
WORLD = scene()
FREE = ro.Parameters(WORLD, CHARTS)
STEP = jnp.asarray([0.4, -0.3, *np.linspace(-0.2, 0.3, 6), 0.5, -0.1])


def test_names():
    assert FREE.names == (
        "contact_law.restitution",
        "bodies[0].mass = bodies[1].mass",
        "bodies[1].inertia",
        "gravity",
        "obstacles[0].normal",
    )
    assert FREE.size == 1 + 1 + 6 + 0 + 2 == len(FREE.coordinate_names)
    assert FREE.coordinate_names[:4] == (
        "contact_law.restitution",
        "bodies[0].mass = bodies[1].mass",
        "bodies[1].inertia[0]",
        "bodies[1].inertia[1]",
    )
    assert FREE.coordinate_names[-1] == "obstacles[0].normal[1]"
    assert FREE.charts == tuple(CHARTS.values())
    np.testing.assert_array_equal(FREE.flat(), np.zeros(10))
    assert "contact_law.restitution: Bounded" in repr(FREE)


def test_functions_choose_the_same_as_paths():
    by_function = {
        lambda w: w.contact_law.restitution: ro.Bounded(0, 1),
        lambda w: (w.bodies[0].mass, w.bodies[1].mass): ro.Positive(),
        lambda w: w.bodies[1].inertia: ro.PhysicalInertia(),
        lambda w: w.gravity: ro.Fixed(),
        lambda w: w.obstacles[0].normal: ro.UnitVector(),
    }
    assert ro.Parameters(WORLD, by_function) == FREE


def test_a_step_moves_what_is_free_and_nothing_else():
    moved = FREE.apply(WORLD, STEP)
    np.testing.assert_allclose(moved.contact_law.restitution, 1 / (1 + np.exp(-0.4)), rtol=1e-15)
    for body in moved.bodies:
        np.testing.assert_allclose(body.mass, 1.5 * np.exp(-0.3), rtol=1e-15)
    assert np.abs(np.asarray(moved.bodies[1].inertia) - TENSOR).max() > 0.1
    # A step of length t turns the normal by t.
    cosine = np.asarray(moved.obstacles[0].normal) @ [0.0, 0.6, 0.8]
    np.testing.assert_allclose(np.arccos(cosine), np.hypot(0.5, 0.1), rtol=1e-14)
    np.testing.assert_array_equal(moved.gravity, WORLD.gravity)
    np.testing.assert_array_equal(moved.contact_law.friction, 0.2)
    np.testing.assert_array_equal(moved.bodies[0].shape.radius, 0.1)
    assert list(FREE.values(moved)) == list(FREE.names)
    np.testing.assert_array_equal(FREE.values(moved)[FREE.names[1]], moved.bodies[1].mass)


@pytest.mark.parametrize("number", [jnp.float32, jnp.float64])
def test_local_is_the_inverse_under_jit_and_vmap(number):
    world = scene(number=number)
    free = ro.Parameters(world, CHARTS)
    assert free.dtype == free.flat().dtype == number
    steps = jnp.asarray([STEP, -STEP, 0 * STEP], number)

    @jax.jit
    @partial(jax.vmap, in_axes=(None, 0))
    def there_and_back(world, step):
        moved = free.apply(world, step)
        return free.local(world, moved), moved.bodies[0].mass

    back, mass = there_and_back(world, steps)
    assert back.dtype == mass.dtype == number
    # Steps of less than one, round-off of logarithms and of a Cholesky factor.
    np.testing.assert_allclose(back, steps, atol=50 * float(jnp.finfo(number).eps))


def test_derivatives_by_a_step():
    """Of m e, whose logarithmic derivatives are 1 - e by a bounded e and 1 by a positive m."""

    def product(step):
        world = FREE.apply(WORLD, step)
        return world.bodies[0].mass * world.contact_law.restitution

    value = 1.5 * 0.5
    expected = np.zeros(10)
    expected[:2] = 0.5 * value, value
    np.testing.assert_allclose(jax.jit(jax.grad(product))(FREE.flat()), expected, atol=1e-15)
    tangent = jnp.zeros(10).at[1].set(2.0)
    np.testing.assert_allclose(jax.jvp(product, (FREE.flat(),), (tangent,))[1], 2 * value)


def test_equal_worlds_have_equal_parameters_and_one_program():
    again = ro.Parameters(scene(), CHARTS)
    assert again == FREE and hash(again) == hash(FREE)
    # Numbers are no part of them, charts and structure are.
    assert ro.Parameters(scene(restitution=0.9, masses=(2.0, 2.0)), CHARTS) == FREE
    assert ro.Parameters(WORLD, {**CHARTS, "contact_law.restitution": ro.Bounded(0, 2)}) != FREE
    assert ro.Parameters(WORLD, {"contact_law.restitution": ro.Bounded(0, 1)}) != FREE
    traces = []

    @partial(jax.jit, static_argnums=0)
    def mass(free, world, step):
        traces.append(free)
        return free.apply(world, step).bodies[0].mass

    for free, world in ((FREE, WORLD), (again, scene(0.7)), (FREE, scene(masses=(3.0, 3.0)))):
        found = mass(free, world, STEP)
        np.testing.assert_allclose(found, world.bodies[0].mass * np.exp(-0.3), rtol=1e-14)
    assert len(traces) == 1


def test_trees_that_are_no_worlds():
    """Of whole numbers as well, which a step makes real."""
    tree = {"count": 3, "pair": (jnp.ones(2), 7.0)}
    free = ro.Parameters(tree, {"['count']": ro.Positive(), "['pair'][0]": ro.Real()})
    moved = free.apply(tree, jnp.asarray([np.log(2), 0.5, -0.5]))
    np.testing.assert_allclose(moved["count"], 6.0, rtol=1e-15)
    np.testing.assert_array_equal(moved["pair"][0], [1.5, 0.5])
    assert moved["pair"][1] == 7.0
    np.testing.assert_allclose(free.local(tree, moved), [np.log(2), 0.5, -0.5], rtol=1e-15)
    assert ro.Parameters(tree, {}).size == 0


def test_a_world_that_is_traced_has_parameters():
    """The values are not known then, and are not checked; the paths and shapes are."""

    @jax.jit
    def doubled(world):
        free = ro.Parameters(world, {"contact_law.restitution": ro.Bounded(0, 1)})
        return free.apply(world, free.flat() + 0.4).contact_law.restitution

    np.testing.assert_allclose(doubled(WORLD), 1 / (1 + np.exp(-0.4)), rtol=1e-15)
    with pytest.raises(ValueError, match="UnitVector is a chart of shape"):
        jax.jit(lambda world: ro.Parameters(world, {"bodies[0].mass": ro.UnitVector()}).flat())(
            WORLD
        )
    # Numbers that are closed over are known inside too.
    with pytest.raises(ValueError, match="of a solid"):
        flat = {"j": jnp.asarray([1.0, 1.0, 2.0])}
        jax.jit(lambda: ro.Parameters(flat, {"['j']": ro.PhysicalInertia()}).flat())()


@pytest.mark.parametrize(
    ("where", "chart", "says"),
    [
        ("bodies[0].mas", ro.Real(), r"no 'bodies\[0\].mas'. Did you mean 'bodies\[0\].mass'\?"),
        ("bodies[0].mas", ro.Real(), r"There are: .*bodies\[1\].mass.*contact_law.friction"),
        ("contact_law", ro.Real(), "no array, but these of it are: contact_law.restitution"),
        ("bodies[0].inertia", ro.PhysicalInertia(), r"uniform density.*body.centered\(\)"),
        (lambda w: w.bodies[0].inertia, ro.PhysicalInertia(), r"returned None.*body.centered\(\)"),
        (lambda w: w.bodies[0], ro.Real(), "it returned a RigidBody"),
        (lambda w: 1, ro.Real(), "it returned a int"),
        (lambda w: w.nothing, ro.Real(), "does not fit this world"),
        (lambda w: (), ro.Real(), "it returned nothing"),
        ((), ro.Real(), "at least one array"),
        ("bodies[0].mass", 3, r"chart of 'bodies\[0\].mass' is none: 3"),
        ("contact_law.restitution", ro.Bounded(0.6, 1), r"between 0.6 and 1, not at them.*got 0.5"),
        ("contact_law.restitution", ro.Bounded(0, 0.5), "between 0 and 0.5, not at them"),
        ("gravity", ro.Positive(), "gravity must be positive.*-9.81"),
        ("gravity", ro.UnitVector(), "gravity must be of unit length"),
        ("bodies[1].mass", ro.Rotation(), r"bodies\[1\].mass: Rotation is a chart of shape"),
        ("bodies[1].inertia", ro.Positive(), r"bodies\[1\].inertia needs PhysicalInertia"),
        ("bodies[1].inertia", ro.Real(), r"bodies\[1\].inertia needs PhysicalInertia"),
        (("bodies[0].mass", "bodies[0].mass"), ro.Positive(), "named twice"),
        (("bodies[0].mass", "contact_law.friction"), ro.Positive(), "one number, but differ"),
        (("bodies[0].mass", "gravity"), ro.Real(), "differ in shape"),
    ],
)
def test_what_is_refused(where, chart, says):
    with pytest.raises(ValueError, match=says):
        ro.Parameters(WORLD, {where: chart})


def test_named_twice_in_two_entries():
    with pytest.raises(ValueError, match=r"Parameters: bodies\[0\].mass is named twice"):
        ro.Parameters(
            WORLD, {"bodies[0].mass": ro.Positive(), lambda w: w.bodies[0].mass: ro.Real()}
        )


def test_steps_and_worlds_that_do_not_fit():
    with pytest.raises(ValueError, match=r"step must have shape \(10,\); got \(9,\)"):
        FREE.apply(WORLD, STEP[:-1])
    other = rb.World(WORLD.bodies[:1], WORLD.obstacles, contact_law=WORLD.contact_law)
    for use in (FREE.values, lambda w: FREE.apply(w, STEP), lambda w: FREE.local(WORLD, w)):
        with pytest.raises(ValueError, match="another structure"):
            use(other)


def test_the_remedy_for_a_uniform_density_keeps_the_scene():
    """A cone's own origin is not its centre of mass."""
    body = rb.RigidBody(rb.Cone(0.1, 0.3), 2.0)
    free = ro.Parameters(body.centered(), {"inertia": ro.PhysicalInertia()})
    step = 0.1 * jnp.ones(free.size)
    moved = free.apply(body.centered(), step)
    point = jnp.asarray([0.05, 0.0, 0.1])
    expected = body.centered_shape().signed_distance(point)
    np.testing.assert_allclose(moved.centered_shape().signed_distance(point), expected)


# A ball of radius 0.1 m dropped from 1 m on a plane: heights before and after its bounce, from
# which gravity and restitution follow.
TIMES = np.array([0.2, 0.35, 0.5, 0.6, 0.7])
DROP = 0.9
BALL = rb.World(
    [rb.RigidBody(rb.Sphere(0.1))],
    [rb.HalfSpace()],
    gravity=(0.0, 0.0, -9.0),
    contact_law=rb.Frictionless(0.5),
)
BALL_FREE = ro.Parameters(BALL, {"gravity": ro.Real(), "contact_law.restitution": ro.Bounded(0, 1)})


def heights(g, e):
    fall = jnp.sqrt(2 * DROP / g)
    after = TIMES - fall
    risen = e * g * fall * after - g * after**2 / 2
    return 0.1 + jnp.where(after < 0, DROP - g * TIMES**2 / 2, risen)


def in_closed_form(world):
    return heights(-world.gravity[2], world.contact_law.restitution)


def simulated(world):
    state = rb.State(
        jnp.asarray([[0.0, 0.0, 1.0]]),
        jnp.asarray([[1.0, 0.0, 0.0, 0.0]]),
        jnp.zeros((1, 3)),
        jnp.zeros((1, 3)),
    )
    method = rb.EventDriven(rb.ExactFlight(), dt=0.05, on_zeno="stop")
    sol = rb.simulate(world, state, method, 0.7, save=rb.SaveAt(ts=TIMES))
    return sol.states.position[:, 0, 2]


def residual(model):
    measured = heights(9.81, 0.8)
    return lambda step: model(BALL_FREE.apply(BALL, step)) - measured


@pytest.mark.parametrize("model", [in_closed_form, pytest.param(simulated, marks=pytest.mark.slow)])
def test_scipy_fits_a_bounce(model):
    from scipy.optimize import least_squares

    missed = residual(model)
    both = quick_jit(lambda step: (missed(step), jax.jacfwd(missed)(step)))

    def value(x):
        return np.asarray(both(jnp.asarray(x))[0])

    def jacobian(x):
        return np.asarray(both(jnp.asarray(x))[1])

    found = least_squares(value, np.asarray(BALL_FREE.flat()), jac=jacobian, xtol=1e-15)
    world = BALL_FREE.apply(BALL, jnp.asarray(found.x))
    # Heights of order one without noise; Gauss-Newton ends at the round-off of the heights.
    np.testing.assert_allclose(world.gravity, [0, 0, -9.81], atol=1e-10)
    np.testing.assert_allclose(world.contact_law.restitution, 0.8, atol=1e-10)


def test_adam_fits_a_bounce():
    import optax

    missed = residual(in_closed_form)
    loss = jax.jit(jax.value_and_grad(lambda step: jnp.sum(missed(step) ** 2)))
    optimiser = optax.adam(0.02)
    step = BALL_FREE.flat()
    moments = optimiser.init(step)
    for _ in range(1500):
        _, slope = loss(step)
        with jax.numpy_dtype_promotion("standard"):  # Adam counts in whole numbers
            update, moments = optimiser.update(slope, moments)
        step = optax.apply_updates(step, update)
    world = BALL_FREE.apply(BALL, step)
    # Steps of 0.02 at first, which shrink with the gradient: it comes within a thousandth.
    np.testing.assert_allclose(world.gravity[2], -9.81, rtol=1e-3)
    np.testing.assert_allclose(world.contact_law.restitution, 0.8, rtol=1e-3)
