"""Rest and sustained contact after impacts that accumulate, against closed forms and an
independent integration."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import before_releases, differences, paper_scene, quick_jit, slope
from scipy.integrate import solve_ivp

import jaxrb as rb

G = 10.0
REST = {"on_zeno": "rest"}


def ball(height, e, planes=None, velocity=(1.0, 0.0, 0.0), spin=(0.3, 0.2, 0.1)):
    """A ball of radius 0.5 released at a height over the plane z = 0; numbers may be traced."""
    height = jnp.asarray(height, float)
    world = rb.World(
        [rb.RigidBody(rb.Sphere(0.5))],
        planes or [rb.HalfSpace()],
        gravity=(0.0, 0.0, -G),
        contact_law=rb.Frictionless(e),
    )
    state = rb.State(
        jnp.stack([0 * height, 0 * height, 0.5 + height])[None],
        jnp.array([[1.0, 0, 0, 0]]),
        jnp.array([velocity], float),
        jnp.array([spin], float),
    )
    return world, state


def solve(world, state, dt, t1, save=None, **options):
    """`simulate`, quickly compiled; most tests here run a few hundred steps once."""
    method = rb.LGVCI(dt=dt, **{"on_zeno": "rest", **options})
    run = lambda world, state: rb.simulate(world, state, method, t1, save=save, throw=False)  # noqa: E731
    sol = quick_jit(run)(world, state)
    assert np.all(sol.result == rb.RESULTS.successful)
    return sol


def zeno_time(height, e):
    """sqrt(2 h/g) of fall and 2 e^k sqrt(2 h/g) of flight k: a geometric series."""
    return jnp.sqrt(2 * height / G) * (1 + e) / (1 - e)


RESTITUTION = jnp.array([0.0, 0.3, 0.5, 0.8, 0.9])


@pytest.fixture(scope="module")
def balls():
    """One batch of balls with different restitution, and each alone."""
    method = rb.LGVCI(dt=0.02, **REST)

    def run(e):
        return rb.simulate(*ball(1.5, e), method, 12.0, throw=False)

    alone = quick_jit(run)
    return quick_jit(jax.vmap(run))(RESTITUTION), [alone(e) for e in RESTITUTION]


@pytest.mark.slow
def test_a_ball_rests_from_the_zeno_time_on(balls):
    sols, _ = balls
    assert np.all(sols.result == rb.RESULTS.successful)
    # The times of some hundred impacts, each known to the round-off of the gap over its speed.
    expected = zeno_time(1.5, RESTITUTION)
    np.testing.assert_allclose(sols.zeno_time[:, 0], expected, rtol=0, atol=5e-9)
    np.testing.assert_allclose(sols.zeno_time[:3, 0], expected[:3], rtol=0, atol=1e-10)
    # It slides on without friction, spinning as it did, and touches the plane.
    np.testing.assert_allclose(sols.final.position[:, 0, 0], 12.0, rtol=0, atol=1e-11)
    np.testing.assert_allclose(sols.final.position[:, 0, 2], 0.5, rtol=0, atol=1e-15)
    np.testing.assert_allclose(sols.final.velocity[:, 0, 2], 0, atol=1e-15)
    spins = np.broadcast_to([0.3, 0.2, 0.1], (5, 3))
    np.testing.assert_allclose(sols.final.angular_velocity[:, 0], spins, rtol=0, atol=1e-14)


def test_lanes_do_not_wait_for_each_other(balls):
    """Each takes as many turns of the loop in the batch as alone, more for more bounces."""
    sols, alone = balls
    turns = np.asarray(sols.stats.flow_evaluations)
    np.testing.assert_allclose(turns, [sol.stats.flow_evaluations for sol in alone], rtol=0.05)
    assert turns[0] < 610 and np.all(np.diff(turns) > 0)


@pytest.mark.long
def test_the_zeno_time_has_the_derivative_of_its_closed_form():
    def simulated(v):
        sol = rb.simulate(*ball(v[0], v[1]), rb.LGVCI(dt=0.02, max_impacts=60, **REST), 2.0)
        return jnp.stack([sol.zeno_time[0], sol.final.position[0, 2]])

    at = jnp.array([1.5, 0.4])
    expected = jax.grad(lambda v: zeno_time(v[0], v[1]))(at)
    time, height = quick_jit(jax.jacrev(simulated))(at)
    np.testing.assert_allclose(time, expected, rtol=1e-8)
    np.testing.assert_allclose(height, 0, atol=1e-12)  # at rest it has forgotten both


@pytest.mark.slow
def test_stopping_predicts_the_accumulation_time():
    world, state = ball(1.5, 0.5)
    sol = rb.simulate(world, state, rb.LGVCI(dt=0.02, on_zeno="stop"), 12.0, throw=False)
    assert sol.result == rb.RESULTS.zeno
    assert float(sol.stats.time) <= float(sol.zeno_time[0])
    # After 64 impacts in a step, some of them no higher than round-off.
    np.testing.assert_allclose(sol.zeno_time[0], zeno_time(1.5, 0.5), rtol=0, atol=1e-6)
    sol = rb.simulate(*ball(1.5, 1.0), rb.LGVCI(dt=0.02), 1.0)
    assert np.all(np.isinf(sol.zeno_time))


def test_bodies_come_to_rest_where_they_can_unless_told_otherwise():
    """What is left open is chosen by the world: without friction, among obstacles, with a loss."""

    def chosen(law=None, shape=None, **options):
        law = rb.Frictionless(0.5) if law is None else law
        bodies = [rb.RigidBody(shape or rb.Sphere(0.5))] * options.pop("number", 1)
        world = rb.World(bodies, [rb.HalfSpace()], contact_law=law)
        return rb.LGVCI(dt=0.02, **options).chosen(world).on_zeno

    assert chosen() == "rest"
    assert chosen(on_zeno="stop") == "stop"
    assert chosen(rb.Frictionless(1.0)) == chosen(rb.Coulomb(0.3, 0.5)) == "stop"
    assert chosen(shape=rb.Cylinder(0.2, 0.5)) == chosen(number=2) == "stop"
    # One that falls flat would be hit at one corner after another.
    assert chosen(shape=rb.Box((0.1, 0.2, 0.3))) == "stop"
    assert quick_jit(lambda e: jnp.ones(chosen(rb.Frictionless(e)) == "rest"))(0.5).size == 1
    # Numbers that are written down are known inside of jit too.
    assert quick_jit(lambda e: e * jnp.ones(chosen(rb.Frictionless(1.0)) == "stop"))(0.5).size == 1


@pytest.mark.slow
def test_bodies_rest_each_at_its_own_time():
    """Also where bodies of one kind are not next to each other."""
    heights = np.array([0.2, 0.6, 0.4])
    shapes = [rb.Sphere(0.5), rb.Ellipsoid((0.5, 0.5, 0.5)), rb.Sphere(0.5)]
    world = rb.World(
        [rb.RigidBody(shape) for shape in shapes],
        [rb.HalfSpace()],
        gravity=(0, 0, -G),
        contact_law=rb.Frictionless(0.4),
        pairs=(),
    )
    zero = np.zeros((3, 3))
    position = zero + np.stack([0 * heights, 0 * heights, 0.5 + heights], axis=-1)
    state = rb.State(position, np.tile([1.0, 0, 0, 0], (3, 1)), zero, zero)
    sol = solve(world, state, 0.02, 0.7)
    expected = np.array(zeno_time(heights, 0.4))
    expected[expected > 0.7] = np.inf
    assert np.isinf(expected).sum() == 1
    np.testing.assert_allclose(sol.zeno_time, expected, rtol=0, atol=1e-9)


@pytest.mark.slow
def test_a_ball_slides_down_a_slope_through_saved_states():
    """Along the plane nothing acts but gravity, in flight, at impacts and in contact."""
    tilt = 0.3
    normal = np.array([-np.sin(tilt), 0, np.cos(tilt)])
    down = np.array([-np.cos(tilt), 0, -np.sin(tilt)])
    plane = rb.HalfSpace(normal, offset=float(normal @ [0, 0, 0.5]) - 0.5)
    world, state = ball(0.4, 0.3, planes=[plane], velocity=(0.0, 0.7, 0.0))
    ts = np.array([0.0, 0.3, 0.61, 1.237, 2.0])
    save = rb.SaveAt(ts=ts, impacts=40)
    sol = solve(world, state, 0.02, 2.0, save, max_impacts=40)
    assert float(sol.zeno_time[0]) < 1.2
    position = np.asarray(sol.states.position[:, 0])
    along = (position - position[0]) @ down
    np.testing.assert_allclose(along, G * np.sin(tilt) * ts**2 / 2, rtol=0, atol=1e-12)
    np.testing.assert_allclose(position[:, 1], 0.7 * ts, rtol=0, atol=1e-13)
    gaps = jax.vmap(lambda s: rb.gaps(world, s)[0, 0])(sol.states)
    assert np.all(np.abs(gaps[3:]) < 1e-14) and np.all(gaps[:1] > 0.1)
    # The landing is an impact like the others; the sliding after it is none.
    times = np.asarray(sol.impacts.time)
    assert 5 < int(sol.impacts.count) < 40 and times[int(sol.impacts.count) - 1] < 1.2


@pytest.mark.slow
def test_a_ball_in_sustained_contact_bounces_off_a_wall():
    """From wall to wall on the floor, which holds it throughout: d - 2 r = 1 m at 1 m/s."""
    planes = [rb.HalfSpace(), rb.HalfSpace((1, 0, 0), -1.0), rb.HalfSpace((-1, 0, 0), -1.0)]
    world, state = ball(0.0, 1.0, planes=planes)
    sol = solve(world, state, 0.03, 3.2)
    assert float(sol.zeno_time[0]) == 0  # it starts at rest on the floor
    assert int(sol.impacts.count) == 3
    np.testing.assert_allclose(sol.final.position[0], [-0.2, 0, 0.5], rtol=0, atol=1e-13)


@pytest.mark.slow
def test_what_holds_a_ball_takes_part_when_it_is_hit():
    """In a groove, against 64 walls that lean either way: the sides push where they would be
    pushed through, and else let go (all four cases tried, one by one)."""
    rng = np.random.default_rng(3)
    e, sides = 0.5, np.array([[0, 0.6, 0.8], [0, -0.28, 0.96]])
    walls = np.column_stack([-np.ones(64), rng.uniform(-1, 1, (64, 2))])
    walls /= np.linalg.norm(walls, axis=1)[:, None]
    before, centre = np.array([1.0, 0, 0]), np.linalg.solve(sides[:, 1:], [0.5, 0.5])

    def run(wall):
        offset = wall @ jnp.array([0.3, *centre]) - 0.5
        planes = [*map(rb.HalfSpace, sides), rb.HalfSpace(wall, offset)]
        world, state = ball(0.0, e, planes=planes)
        state = eqx.tree_at(lambda s: s.position, state, jnp.array([[0.0, *centre]]))
        save = rb.SaveAt(final=True, impacts=4)
        return rb.simulate(world, state, rb.LGVCI(0.02, **REST), 0.31, save=save, throw=False)

    def after(wall):
        for pushing in ([], [0], [1], [0, 1]):
            normals = np.stack([wall, *sides[pushing]])
            change = np.array([-(1 + e) * (wall @ before), *np.zeros(len(pushing))])
            impulses = np.linalg.solve(normals @ normals.T, change)
            velocity = before + impulses @ normals
            if np.all(impulses >= 0) and np.all(sides @ velocity > -1e-12):
                return velocity, len(pushing)
        raise AssertionError

    sol = quick_jit(jax.vmap(run))(jnp.array(walls))
    assert np.all(sol.result == rb.RESULTS.successful)
    expected, pushing = zip(*map(after, walls), strict=True)
    assert set(pushing) == {0, 1, 2}
    found = sol.impacts.after.velocity[:, 0, 0]
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)


@pytest.mark.slow
def test_a_ball_comes_to_rest_between_four_slopes():
    """One contact more than can be independent."""
    planes = [rb.HalfSpace(n) for n in ((1, 0, 1), (-1, 0, 1), (0, 1, 1), (0, -1, 1))]
    world, state = ball(0.6, 0.4, planes=planes, velocity=(0.3, -0.2, 0.0))
    sol = solve(world, state, 0.02, 6.0)
    np.testing.assert_allclose(sol.final.position[0], [0, 0, np.sqrt(0.5)], rtol=0, atol=1e-14)
    np.testing.assert_allclose(sol.final.velocity[0], 0, atol=1e-13)
    assert np.isfinite(sol.zeno_time[0])


class Rocker:
    """An ellipsoid of semi-axes a along x and c along z that rocks about y on a plane: one
    degree of freedom, the angle from the vertical, integrated by SciPy."""

    a, c, mass, g = 0.3, 0.5, 1.3, 9.81
    inertia = mass / 5 * (a**2 + c**2)

    def height(self, angle):
        return np.sqrt((self.a * np.sin(angle)) ** 2 + (self.c * np.cos(angle)) ** 2)

    def slopes(self, angle):
        """First and second derivative of the height."""
        k, h = self.a**2 - self.c**2, self.height(angle)
        first = k * np.sin(angle) * np.cos(angle) / h
        return first, (k * np.cos(2 * angle) - first**2) / h

    def rate(self, _, y):
        angle, omega = y
        first, second = self.slopes(angle)
        force = self.mass * first * (self.g + second * omega**2)
        return [omega, -force / (self.inertia + self.mass * first**2)]

    def force(self, t, y):
        """Of the plane on the body [N]."""
        first, second = self.slopes(y[0])
        return self.mass * (self.g + first * self.rate(t, y)[1] + second * y[1] ** 2)

    def solve(self, angle, omega, t1):
        def event(t, y):
            return self.force(t, y)

        event.terminal, event.direction = True, -1
        return solve_ivp(self.rate, (0, t1), [angle, omega], rtol=1e-12, atol=1e-13, events=event)

    def scene(self, angle, omega):
        """In contact from the start."""
        angle = jnp.asarray(angle, float)
        zero = 0 * angle
        height = jnp.sqrt((self.a * jnp.sin(angle)) ** 2 + (self.c * jnp.cos(angle)) ** 2)
        sine = (self.a**2 - self.c**2) * jnp.sin(angle) * jnp.cos(angle)
        world = rb.World(
            [rb.RigidBody(rb.Ellipsoid((self.a, 0.25, self.c)), mass=self.mass)],
            [rb.HalfSpace()],
            gravity=(0, 0, -self.g),
            contact_law=rb.Frictionless(0.0),
        )
        state = rb.State(
            jnp.stack([zero, zero, height])[None],
            jnp.stack([jnp.cos(angle / 2), zero, jnp.sin(angle / 2), zero])[None],
            jnp.stack([zero, zero, sine / height * omega])[None],
            jnp.array([[0.0, omega, 0.0]]),
        )
        return world, state


def angle_of(state):
    w, _, y, _ = np.asarray(state.quaternion[0])
    return 2 * np.arctan2(y, w)


STEPS = np.array([0.01, 0.005])


@pytest.fixture(scope="module")
def rockers():
    """A slow one that stays in contact and a fast one that leaves it, with both steps."""
    rocker = Rocker()
    found = []
    for dt in STEPS:
        method = rb.LGVCI(dt=float(dt), **REST)

        def run(angle, omega, method=method):
            world, state = rocker.scene(angle, omega)
            sol = rb.simulate(world, state, method, 0.34)
            drift = rb.energy(world, sol.final) - rb.energy(world, state)
            return sol, drift, rb.gaps(world, sol.final)[0, 0]

        found.append(quick_jit(jax.vmap(run))(jnp.array([0.3, 0.6]), jnp.array([1.0, 6.0])))
    return found


@pytest.mark.slow
def test_an_ellipsoid_rocks_as_its_reduced_equation_says(rockers):
    """Order 2 in the step; gap zero to round-off; energy to the order of the flow."""
    end = Rocker().solve(0.3, 1.0, 0.34).y[0, -1]
    assert abs(end - 0.3) > 0.3  # it has turned far
    errors, drifts = [], []
    for sol, drift, gap in rockers:
        assert abs(float(gap[0])) < 1e-15
        errors.append(abs(angle_of(jax.tree.map(lambda leaf: leaf[0], sol.final)) - end))
        drifts.append(abs(float(drift[0])))
    assert abs(slope(STEPS, errors) - 2) < 0.1 and errors[-1] < 1e-3
    assert abs(slope(STEPS, drifts) - 2) < 0.1 and drifts[-1] < 3e-3


@pytest.mark.slow
def test_a_contact_ends_where_its_force_would_pull(rockers):
    """The plane lets go of a fast rocker, which flies on."""
    rocker = Rocker()
    held = rocker.solve(0.6, 6.0, 1.0)
    assert 0.31 < held.t[-1] < 0.311 and abs(rocker.force(0, held.y[:, -1])) < 1e-9
    flight = 0.34 - held.t[-1]
    angle, omega = held.y[:, -1]
    first, _ = rocker.slopes(angle)
    angle_end = angle + omega * flight
    height_end = rocker.height(angle) + first * omega * flight - rocker.g * flight**2 / 2
    errors = []
    for sol, _, gap in rockers:
        assert int(sol.impacts.count[1]) == 0 and float(gap[1]) > 1e-4
        end = jax.tree.map(lambda leaf: leaf[1], sol.final)
        errors.append([abs(angle_of(end) - angle_end), abs(end.position[0, 2] - height_end)])
    for error in np.transpose(errors):
        assert abs(slope(STEPS, error) - 2) < 0.1 and error[-1] < 1e-3


@pytest.mark.long
def test_derivatives_include_the_shift_of_the_time_of_release():
    method = rb.LGVCI(dt=0.02, max_impacts=3, **REST)

    def height(angle):
        return rb.simulate(*Rocker().scene(angle[0], 6.0), method, 0.34).final.position[0, 2]

    at = jnp.array([0.6])
    expected = differences(quick_jit(height), at, step=1e-4)
    for mode in (jax.grad, jax.jacfwd):
        np.testing.assert_allclose(quick_jit(mode(height))(at), expected, rtol=1e-8)


SOLIDS = {
    "box": (rb.Box((0.2, 0.25, 0.3)), 0.3),
    "capsule": (rb.Capsule(0.2, 0.3), 0.5),
    "polyhedron": (rb.ConvexPolyhedron(np.random.default_rng(0).normal(size=(6, 3)) * 0.2), 0.2),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["polyhedron", *before_releases("box", "capsule")])
def test_a_tumbling_solid_comes_to_lie_on_a_plane(name):
    """At the end it lies as in a minimum of its potential energy, slides and turns about the
    vertical only, and nothing it keeps is lost: the horizontal momentum and the vertical part
    of the angular momentum."""
    shape, e = SOLIDS[name]
    q = np.array([0.9, 0.3, 0.2, 0.1])
    world = rb.World(
        [rb.RigidBody(shape, mass=1.2)], [rb.HalfSpace()], contact_law=rb.Frictionless(e)
    )
    state = rb.State([[0.0, 0, 1]], [q / np.linalg.norm(q)], [[0.3, 0, 0]], [[1.0, 2, 0.5]])
    sol = solve(world, state, 0.01, 4.0)
    assert float(sol.zeno_time[0]) < 2
    np.testing.assert_allclose(sol.final.velocity[0, :2], [0.3, 0], rtol=0, atol=1e-14)
    about = {"about": np.asarray(state.position)}
    before = rb.angular_momentum(world, state, **about)[2]
    after = rb.angular_momentum(world, sol.final, about=np.asarray(sol.final.position))[2]
    np.testing.assert_allclose(after, before, rtol=0, atol=1e-12)
    assert abs(float(rb.gaps(world, sol.final)[0, 0])) < 1e-14
    if name == "capsule":  # it rolls on its side
        np.testing.assert_allclose(sol.final.rotation_matrix[0, 2, 2], 0, atol=1e-13)
    else:
        spin = sol.final.rotation_matrix[0] @ sol.final.angular_velocity[0]
        np.testing.assert_allclose(spin[:2], 0, atol=1e-12)
        np.testing.assert_allclose(sol.final.velocity[0, 2], 0, atol=1e-12)


@pytest.mark.slow
def test_single_precision():
    world, state = ball(0.5, 0.5)
    state = jax.tree.map(lambda leaf: leaf.astype(jnp.float32), state)
    sol = solve(world, state, 0.02, 3.0)
    assert sol.zeno_time.dtype == jnp.float32
    np.testing.assert_allclose(sol.zeno_time[0], zeno_time(0.5, 0.5), rtol=0, atol=1e-4)
    np.testing.assert_allclose(sol.final.position[0], [3.0, 0, 0.5], rtol=0, atol=1e-5)


@pytest.mark.slow
def test_an_elastic_body_never_lands():
    """On the way nothing changes: the paper's ellipsoid bounces as without the option."""
    scene = paper_scene(rb.Ellipsoid((2.0, 3.0, 4.0)), (5.0, 4.0, 2.6))
    ends = [solve(*scene, 0.01, 7.0, on_zeno=kind) for kind in ("rest", "stop")]
    assert int(ends[0].impacts.count) == int(ends[1].impacts.count) == 4
    assert np.all(np.isinf(ends[0].zeno_time))
    np.testing.assert_allclose(ends[0].final.position, ends[1].final.position, atol=1e-11)


def test_what_is_to_happen_is_named():
    with pytest.raises(ValueError, match="on_zeno"):
        rb.LGVCI(dt=0.02, on_zeno="sleep")


@pytest.mark.slow
def test_bodies_with_different_numbers_of_contacts_rest_in_a_corner():
    """A ball and a box between the ground and a wall that touches neither."""
    bodies = [rb.RigidBody(rb.Sphere(0.2)), rb.RigidBody(rb.Box((0.2, 0.3, 0.4)))]
    world = rb.World(
        bodies,
        [rb.HalfSpace(), rb.HalfSpace((-1, 0, 0), -5.0)],
        contact_law=rb.Frictionless(0.5),
        pairs=(),
    )
    zero = jnp.zeros((2, 3))
    state = rb.State(
        jnp.array([[0.0, 0, 0.2], [1.0, 0, 0.4]]),
        jnp.zeros((2, 4)).at[:, 0].set(1.0),
        zero,
        zero,
    )
    final = rb.simulate(world, state, rb.LGVCI(dt=0.02, on_zeno="rest"), 0.1).final
    np.testing.assert_allclose(final.position, state.position, rtol=0, atol=1e-13)
    np.testing.assert_allclose(final.angular_velocity, zero, atol=1e-13)
