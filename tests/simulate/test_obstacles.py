"""Obstacles of any solid, against reflections and distances that are known in closed form."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.spatial.transform import Rotation

import jaxrb as rb

BALL = rb.RigidBody(rb.Sphere(0.3), 1.5)
METHOD = rb.LGVCI(dt=0.02)
BOX, ELLIPSOID = rb.Box((0.2, 0.3, 0.25)), rb.Ellipsoid((0.2, 0.3, 0.4))


def state(position, velocity, quaternion=(1.0, 0.0, 0.0, 0.0), spin=(0.0, 0.0, 0.0)):
    rows = (position, quaternion, velocity, spin)
    return rb.State(*(jnp.asarray([row], float) for row in rows))


def reflections(x, v, centers, radius, n):
    """Where a point that is reflected by spheres, from outside or from inside, is at its impacts,
    and how it leaves them."""
    found, t = [], 0.0
    for _ in range(n):
        apart = x - centers
        b, c = apart @ v, np.sum(apart**2, axis=1) - radius**2
        root = np.sqrt(np.maximum(b * b - c * (v @ v), 0.0))
        times = np.concatenate([(-b - root), (-b + root)]) / (v @ v)
        meets = np.tile(b * b > c * (v @ v), 2) & (times > 1e-9)
        first = np.argmin(np.where(meets, times, np.inf))
        t, x = t + times[first], x + v * times[first]
        normal = (x - centers[first % len(centers)]) / radius
        v = v - 2 * (v @ normal) * normal
        found.append((t, x, v))
    return [np.array(column) for column in zip(*found, strict=True)]


CORNERS = np.array([[1.0, 1.0, 0.0], [-1.0, 1.0, 0.0], [-1.0, -1.0, 0.0], [1.0, -1.0, 0.0]])


@pytest.mark.parametrize("kind", ["billiard", "cavity"])
@pytest.mark.slow
def test_a_ball_among_spheres(kind):
    """Ten reflections of a ball between four spheres (Sinai's billiard), and in a spherical
    cavity. Among spheres each bounce multiplies round-off by about three."""
    x, v = np.array([0.05, -0.02, 0.0]), np.array([0.9, 0.53, 0.0])
    if kind == "billiard":
        obstacles = [rb.Placed(rb.Sphere(0.68), center) for center in CORNERS]
        centers, radius = CORNERS, 0.98
    else:
        obstacles = [rb.Complement(rb.Placed(rb.Sphere(1.3), (0.1, 0.2, -0.1)))]
        centers, radius, v = np.array([[0.1, 0.2, -0.1]]), 1.0, np.array([0.9, 0.53, 0.2])
    times, places, velocities = reflections(x, v, centers, radius, 11)
    world = rb.World([BALL], obstacles, gravity=(0, 0, 0))
    end = (times[9] + times[10]) / 2
    save = rb.SaveAt(final=True, impacts=10)
    sol = rb.simulate(world, state(x, v), METHOD, float(end), save=save)
    record = sol.impacts
    assert int(record.count) == 10
    np.testing.assert_allclose(record.time, times[:10], rtol=0, atol=1e-9)
    np.testing.assert_allclose(record.before.position[:, 0], places[:10], rtol=0, atol=1e-9)
    np.testing.assert_allclose(record.after.velocity[:, 0], velocities[:10], rtol=0, atol=1e-9)


@pytest.mark.slow
def test_an_ellipsoid_on_the_edge_of_a_box():
    """It falls with its axes along those of the box: in the plane across the edge an ellipse meets
    a point."""
    a, c, mass, e = 0.3, 0.2, 1.3, 0.7
    body = rb.RigidBody(rb.Ellipsoid((a, 0.5, c)), mass)
    box = rb.Placed(rb.Box((1.0, 2.0, 0.4)), (-1.0, 0.3, -0.4))  # an edge along y, at the origin
    world = rb.World([body], [box], gravity=(0, 0, -10.0), contact_law=rb.Frictionless(e))
    aside, height = 0.12, 0.6
    save = rb.SaveAt(final=True, impacts=1)
    sol = rb.simulate(world, state((aside, 0, height), (0, 0, 0)), METHOD, 0.35, save=save)
    z = c * np.sqrt(1 - (aside / a) ** 2)
    normal = np.array([aside / a**2, 0.0, z / c**2])
    normal /= np.linalg.norm(normal)
    speed = np.sqrt(2 * 10.0 * (height - z))
    inertia = mass * (a**2 + c**2) / 5
    lever = np.cross([-aside, 0.0, -z], normal)
    size = (1 + e) * speed * normal[2] / (1 / mass + lever @ lever / inertia)
    record = sol.impacts
    np.testing.assert_allclose(record.time[0], speed / 10, atol=1e-13)
    np.testing.assert_allclose(record.position[0], np.zeros(3), atol=1e-13)
    np.testing.assert_allclose(record.normal[0], normal, atol=1e-12)
    np.testing.assert_allclose(record.impulse[0], size * normal, atol=1e-12)
    after = record.after
    velocity = np.array([0, 0, -speed]) + size * normal / mass
    np.testing.assert_allclose(after.velocity[0, 0], velocity, atol=1e-12)
    np.testing.assert_allclose(after.angular_velocity[0, 0], size * lever / inertia, atol=1e-12)


@pytest.mark.long
def test_a_ball_in_a_bowl():
    """A hole in a box, which a ball hits where its centre is 0.4 from that of the hole."""
    bowl = rb.Difference(rb.Box((0.7, 0.7, 0.7)), rb.Placed(rb.Sphere(0.5), (0.0, 0.0, 0.7)))
    world = rb.World([rb.RigidBody(rb.Sphere(0.1), 1.0)], [bowl], gravity=(0, 0, 0))
    save = rb.SaveAt(final=True, impacts=2)
    sol = rb.simulate(world, state((0.11, 0, 1.0), (0, 0, -1.0)), METHOD, 1.0, save=save)
    assert int(sol.impacts.count) == 1
    depth = np.sqrt(0.4**2 - 0.11**2)
    np.testing.assert_allclose(sol.impacts.time[0], 0.3 + depth, atol=1e-13)
    normal = np.array([0.11, 0.0, -depth]) / 0.4
    expected = np.array([0, 0, -1.0]) - 2 * depth / 0.4 * normal
    np.testing.assert_allclose(sol.final.velocity[0], expected, atol=1e-12)


def hills(z):
    """About the distance from a ball with hills."""
    return jnp.sqrt(z @ z) - 1.0 - 0.05 * jnp.sin(4 * z[0]) * jnp.cos(3 * z[1])


@pytest.mark.long
def test_a_ball_on_terrain():
    """It is reflected where a search by other means puts the nearest point of the terrain."""
    center = np.array([0.2, -0.1, -1.0])
    terrain = rb.Placed(rb.Implicit(hills, 1.2), center)
    world = rb.World([BALL], [terrain], gravity=(0, 0, -10.0))
    save = rb.SaveAt(final=True, impacts=1)
    sol = rb.simulate(world, state((0.3, 0.1, 0.8), (0.1, 0.2, 0.0)), METHOD, 0.5, save=save)
    record = sol.impacts
    assert int(record.count) == 1
    at, v = (np.asarray(part[0, 0]) for part in (record.before.position, record.before.velocity))

    def surface(angles):
        u, w = angles
        d = np.array([np.sin(u) * np.cos(w), np.sin(u) * np.sin(w), np.cos(u)])
        r = 1.0
        for _ in range(60):  # a fixed point: the hills are flat
            r = 1.0 + 0.05 * np.sin(4 * r * d[0]) * np.cos(3 * r * d[1])
        return center + r * d

    found = minimize(
        lambda p: np.sum((surface(p) - at) ** 2), (0.2, 0.3), method="Nelder-Mead",
        options={"xatol": 1e-10, "fatol": 1e-18},
    )  # fmt: skip
    nearest = surface(found.x)
    np.testing.assert_allclose(np.linalg.norm(at - nearest), 0.3, atol=1e-12)
    # The place of a minimum is known to half of the digits.
    normal = (at - nearest) / 0.3
    expected = v - 2 * (v @ normal) * normal
    np.testing.assert_allclose(record.after.velocity[0, 0], expected, atol=1e-6)
    np.testing.assert_allclose(rb.gaps(world, rb.State(*(
        getattr(record.before, name)[0]
        for name in ("position", "quaternion", "velocity", "angular_velocity")
    ))), 0.0, atol=1e-13)  # fmt: skip


def surface_points(shape, n=4000):
    """Points on a convex body, among them its corners."""
    rng = np.random.default_rng(0)
    d = rng.normal(size=(n, 3))
    return np.array(shape.support(jnp.asarray(d)))


@pytest.mark.slow
@pytest.mark.parametrize("body", [BOX, rb.Capsule(0.1, 0.3), rb.Rounded(BOX, 0.05)])
def test_the_gap_in_a_round_cavity(body):
    """The least depth of any point of the body; corners are among the points that are tried, and
    of round ends the depth is of second order in the spacing of the points."""
    hole = rb.Placed(rb.Ellipsoid((2.0, 1.5, 1.2)), (0.1, 0.0, -0.2), (1.0, 0.2, 0.0, 0.3))
    world = rb.World([rb.RigidBody(body, 1.0)], [rb.Complement(hole)])
    turn = Rotation.from_rotvec([0.4, -0.7, 0.2])
    position = np.array([0.5, -0.3, 0.2])
    start = state(position, np.zeros(3), turn.as_quat(scalar_first=True))
    points = turn.apply(surface_points(body)) + position
    depth = -np.asarray(hole.signed_distance(jnp.asarray(points))).max()
    found = float(rb.gaps(world, start)[0, 0])
    assert depth - 2e-4 < found < depth + 1e-12


@pytest.mark.parametrize("body", [BOX, ELLIPSOID, rb.Cylinder(0.2, 0.3)])
def test_the_gap_in_a_box(body):
    """By the support function, inside of a room and outside of a pillar within it."""
    turn = Rotation.from_rotvec([0.4, -0.7, 0.2])
    position = np.array([0.9, -0.3, 0.2])
    start = state(position, np.zeros(3), turn.as_quat(scalar_first=True))
    room = rb.Difference(rb.Box((1.5, 1.4, 1.3)), rb.HalfSpace((1.0, 0.0, 0.0), -0.2))
    world = rb.World([rb.RigidBody(body, 1.0)], [rb.Complement(room)])
    normals = np.concatenate([np.eye(3), -np.eye(3), [[-1.0, 0.0, 0.0]]])
    offsets = np.array([1.5, 1.4, 1.3, 1.5, 1.4, 1.3, 0.2])
    in_body = turn.inv().apply(normals)
    highest = np.sum(np.asarray(body.support(jnp.asarray(in_body))) * in_body, axis=1)
    expected = np.min(offsets - normals @ position - highest)
    np.testing.assert_allclose(rb.gaps(world, start)[0, 0], expected, atol=1e-14)


@pytest.mark.slow
def test_a_box_in_a_ball_keeps_its_energy():
    """It tumbles against the wall with its corners; energy and the angular momentum about the
    centre, from which no normal has an arm, stay."""
    world = rb.World([rb.RigidBody(BOX, 2.0)], [rb.Complement(rb.Sphere(0.8))], gravity=(0, 0, 0))
    start = state((0.1, 0.0, 0.05), (1.0, 0.4, -0.3), spin=(1.0, 2.0, -1.0))
    sol = rb.simulate(world, start, METHOD, 6.0)
    assert int(sol.impacts.count) >= 8
    np.testing.assert_allclose(rb.energy(world, sol.final), rb.energy(world, start), rtol=1e-12)
    for s in (start, sol.final):
        assert float(rb.gaps(world, s).min()) > -1e-13
    momenta = [rb.angular_momentum(world, s) for s in (start, sol.final)]
    np.testing.assert_allclose(*momenta, atol=1e-12)


@pytest.mark.parametrize(
    ("obstacle", "body", "message"),
    [
        (rb.Difference(BOX, rb.Sphere(0.1)), BOX, r"obstacles\[1\]: .* points of a Box and a Diff"),
        (rb.Complement(rb.Sphere(2.0)), ELLIPSOID, "an Ellipsoid and a cavity .* of a Sphere"),
        (rb.Complement(rb.Cylinder(2.0, 2.0)), rb.Cone(0.1, 0.1), "a Cone and a cavity .* Cyl"),
        (rb.Complement(rb.Union(BOX, ELLIPSOID)), rb.Sphere(0.1), "a Sphere and a cavity .* Union"),
    ],
)  # fmt: skip
def test_gaps_that_are_not_known(obstacle, body, message):
    world = rb.World([rb.RigidBody(body, 1.0)], [rb.HalfSpace(offset=-9.0), obstacle])
    with pytest.raises(ValueError, match=message):
        rb.simulate(world, state((0, 0, 0), (0, 0, 0)), METHOD, 1.0)


def test_refused():
    with pytest.raises(ValueError, match=r"World.obstacles\[0\] must be a shape or a Moving one"):
        rb.World([BALL], [BALL])
    with pytest.raises(ValueError, match="put brackets around the Sphere"):
        rb.World([BALL], rb.Sphere(1.0))
    world = rb.World([BALL], [rb.HalfSpace(), rb.Placed(rb.Sphere(1.0), (3.0, 0, 0))])
    sol = rb.simulate(world, state((3.0, 0, 1.2), (0, 0, 0)), METHOD, 1.0, throw=False)
    assert sol.result == rb.RESULTS.initial_penetration
