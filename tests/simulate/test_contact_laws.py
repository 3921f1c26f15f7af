"""Laws in worlds: of a rough ball against Garwin's recursion, one's own, and of several kinds."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import before_releases, differences, quick_jit

import jaxrb as rb
from jaxrb.impact import AbstractContactLaw
from jaxrb.impact.coulomb import Resolved
from jaxrb.math import Vec3

RADIUS = 0.1
BALL = rb.RigidBody(rb.Sphere(RADIUS), 0.5)
FLOOR, TABLE = rb.HalfSpace(), rb.HalfSpace((0.0, 0.0, -1.0), -1.0)
METHOD = rb.LGVCI(0.02, on_zeno="stop")


def ball(velocity, height=0.5, n=1):
    """n balls beside each other."""
    return rb.State(
        position=jnp.stack([jnp.array([i * 1.0, 0.0, height]) for i in range(n)]),
        quaternion=jnp.tile(jnp.array([1.0, 0.0, 0.0, 0.0]), (n, 1)),
        velocity=jnp.tile(jnp.asarray(velocity, float), (n, 1)),
        angular_velocity=jnp.zeros((n, 3)),
    )


def thrown_under_a_table(law, velocity=(1.0, 0.0, -1.0), t1=2.2, throw=True, method=METHOD):
    """Without gravity; by t1 it has hit floor, table and floor."""
    world = rb.World([BALL], [FLOOR, TABLE], gravity=(0.0, 0.0, 0.0), contact_law=law)
    return rb.simulate(world, ball(velocity), method, t1, throw=throw)


@pytest.mark.slow
def test_a_super_ball_thrown_under_a_table_comes_back():
    """Garwin (1969): each bounce reverses the velocity of the surface and keeps the angular
    momentum about the point of contact."""
    v, turn = 1.0, 0.0  # forward, and of the surface, R omega_y
    for side in (-1, 1, -1):
        slip, kept = v + side * turn, v - side * 0.4 * turn
        v, turn = np.linalg.solve([[1, side], [1, -side * 0.4]], [-slip, kept])
    solution = thrown_under_a_table(rb.Rough())
    assert solution.impacts.count == 3
    np.testing.assert_allclose(solution.final.velocity[0], [v, 0, 1], rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(
        RADIUS * solution.final.angular_velocity[0], [0, turn, 0], rtol=1e-12
    )
    assert v == pytest.approx(-0.97, abs=0.01)


def final_of_rough(numbers):
    law = rb.Rough(numbers[0], numbers[1], numbers[2])
    final = thrown_under_a_table(law, numbers[3:], throw=False).final
    return jnp.concatenate([final.position[0], final.velocity[0], final.angular_velocity[0]])


ROUGH = jnp.array([0.8, 0.5, 0.9, 0.5, 0.1, -1.5])  # e, beta, mu and the throw


@pytest.mark.long
def test_derivatives_through_rough_impacts():
    """Of which those in reverse mode agree to round-off."""
    forward = quick_jit(jax.jacfwd(final_of_rough))(ROUGH)
    expected = differences(jax.jit(final_of_rough), ROUGH)
    np.testing.assert_allclose(forward, expected, atol=1e-9)
    np.testing.assert_allclose(quick_jit(jax.jacrev(final_of_rough))(ROUGH), forward, atol=1e-12)


@pytest.mark.slow
def test_a_batch_of_rough_worlds_is_each_by_itself():
    several = jnp.stack([ROUGH, 0.98 * ROUGH, 1.02 * ROUGH])
    together = jax.jit(jax.vmap(final_of_rough))(several)
    single = jax.jit(final_of_rough)
    np.testing.assert_allclose(together, [single(x) for x in several], rtol=1e-12, atol=1e-13)


@pytest.mark.slow
def test_rough_impacts_in_single_precision():
    numbers = ROUGH.astype(jnp.float32)
    law = rb.Rough(numbers[0], numbers[1], numbers[2])
    state = jax.tree.map(lambda x: x.astype(jnp.float32), ball(ROUGH[3:]))
    world = rb.World([BALL], [FLOOR, TABLE], gravity=(0.0, 0.0, 0.0), contact_law=law)
    final = rb.simulate(world, state, METHOD, 2.2).final
    assert final.velocity.dtype == jnp.float32
    np.testing.assert_allclose(final.velocity[0], final_of_rough(ROUGH)[3:6], atol=2e-5)


def final_of_brick(numbers):
    """A brick by Moreau's law: friction, restitution, and the throw."""
    law = rb.Moreau(numbers[0], numbers[1])
    world = rb.World([rb.RigidBody(rb.Box([0.1, 0.07, 0.05]))], [FLOOR], contact_law=law)
    turn = jnp.array([[0.9, 0.3, -0.2, 0.25]]) / jnp.linalg.norm(jnp.array([0.9, 0.3, -0.2, 0.25]))
    state = rb.State(jnp.array([[0, 0, 0.3]]), turn, numbers[None, 2:5], numbers[None, 5:8])
    sol = rb.simulate(world, state, METHOD, 0.33, throw=False)
    return jnp.concatenate([sol.final.position[0], sol.final.velocity[0]]), sol.impacts.count


BRICK = jnp.array([0.25, 0.4, 1.0, 0.2, -0.5, 3.0, -2.0, 4.0])


@pytest.mark.long
def test_a_brick_by_moreaus_law():
    """Derivatives through three impacts, of which one sticks, by friction and restitution, too."""
    flown = jax.jit(final_of_brick)
    assert flown(BRICK)[1] == 3
    forward, _ = quick_jit(jax.jacfwd(final_of_brick, has_aux=True))(BRICK)
    expected = differences(lambda x: flown(x)[0], BRICK, step=1e-4)
    np.testing.assert_allclose(forward, expected, atol=1e-7 * np.abs(forward).max())
    reverse, _ = quick_jit(jax.jacrev(final_of_brick, has_aux=True))(BRICK)
    np.testing.assert_allclose(reverse, forward, atol=1e-10 * np.abs(forward).max())


class SpeedDependent(AbstractContactLaw):
    """Along the normal; the restitution at an approach speed v is e0/(1 + v/v0)."""

    restitution: jax.Array
    speed: jax.Array
    frictional = False

    def lawful(self):
        return jnp.all((self.restitution >= 0) & (self.restitution <= 1) & (self.speed > 0))

    @property
    def coefficient_of_friction(self):
        return jnp.zeros_like(self.restitution)

    def normal_impulse(self, normal_velocity, inverse_mass):
        e = self.restitution / (1 - normal_velocity / self.speed)
        return -(1 + e) * normal_velocity / inverse_mass

    def resolve(self, inverse_inertia, velocity, collinearity):
        return one_push(self.normal_impulse(velocity.z, inverse_inertia.diagonal.z))

    def plastic(self):
        raise ValueError("not here")


class AlongTheSurface(SpeedDependent):
    """The same, of which worlds are told that it may push along the surface."""

    frictional = True


def one_push(push):
    zero = jnp.zeros_like(push)
    never, no = jnp.full_like(zero, jnp.inf), jnp.zeros(zero.shape, bool)
    return Resolved(Vec3(zero, zero, push), never, never, never, no, ~no)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [SpeedDependent, AlongTheSurface])
def test_a_law_of_ones_own(kind):
    """Dropped without gravity: the speed after each bounce in closed form. Where contacts can last
    as well, which is so by default along the normal."""
    law = kind(jnp.asarray(0.9), jnp.asarray(2.0))
    speed = 1.5
    solution = thrown_under_a_table(law, (0.2, 0.0, -speed), t1=2.5, method=rb.LGVCI(0.02))
    for _ in range(int(solution.impacts.count)):
        speed *= 0.9 / (1 + speed / 2.0)
    assert solution.impacts.count >= 2
    expected = [0.2, 0, speed * (-1) ** (int(solution.impacts.count) + 1)]
    np.testing.assert_allclose(solution.final.velocity[0], expected, rtol=1e-12)


class Johnson(SpeedDependent):
    """e = e0 (v0/v)^(1/4), which is no number for contacts that recede."""

    def normal_impulse(self, normal_velocity, inverse_mass):
        e = self.restitution * (-normal_velocity / self.speed) ** -0.25
        return -(1 + e) * normal_velocity / inverse_mass


class JohnsonAlongTheSurface(Johnson):
    """The same, of which worlds are told that it may push along the surface."""

    frictional = True


@pytest.mark.parametrize(
    ("gradient", "kind"),
    [
        (jax.grad, Johnson),
        (jax.jacfwd, JohnsonAlongTheSurface),
        *before_releases((jax.grad, JohnsonAlongTheSurface), (jax.jacfwd, Johnson)),
    ],
)
@pytest.mark.slow
def test_a_law_is_not_asked_about_contacts_that_recede(kind, gradient):
    """One bounce, v' = e0 v0^(1/4) v^(3/4), and its derivatives; the table recedes then."""

    def speed(numbers):
        law = kind(numbers[0], numbers[1])
        return thrown_under_a_table(law, (0.0, 0.0, -1.5), 0.4, throw=False).final.velocity[0, 2]

    numbers = jnp.array([0.6, 2.0])
    exact = lambda x: x[0] * x[1] ** 0.25 * 1.5**0.75  # noqa: E731
    assert float(speed(numbers)) == pytest.approx(float(exact(numbers)), rel=1e-13)
    found = quick_jit(gradient(speed))(numbers)
    np.testing.assert_allclose(found, jax.grad(exact)(numbers), rtol=1e-12)


class Endless(AlongTheSurface):
    """Of which no impact ends."""

    def resolve(self, inverse_inertia, velocity, collinearity):
        found = super().resolve(inverse_inertia, velocity, collinearity)
        return found._replace(ended=jnp.zeros_like(found.ended))


def test_impacts_that_do_not_end_have_a_result_code():
    law = Endless(jnp.asarray(0.9), jnp.asarray(2.0))
    solution = thrown_under_a_table(law, throw=False)
    assert solution.result == rb.RESULTS.impact_not_ended
    np.testing.assert_array_equal(solution.final.velocity[0], [1, 0, -1])  # as before it


def test_impossible_numbers_of_ones_own_law_have_a_result_code():
    law = SpeedDependent(jnp.asarray(0.9), jnp.asarray(-2.0))
    assert thrown_under_a_table(law, throw=False).result == rb.RESULTS.invalid_contact_law


def test_pinned_bodies_are_not_rough():
    pin = rb.Pin(0, (0.0, 0.0, 0.2))
    world = rb.World([BALL], [FLOOR], joints=[pin], contact_law=rb.Rough())
    with pytest.raises(ValueError, match=r"pinned body 0 can hit obstacle 0 without friction"):
        rb.simulate(
            world, ball((0.0, 0.0, 0.0)), rb.EventDriven(rb.QuaternionVariational(), 0.01), 0.1
        )


@pytest.mark.slow
@pytest.mark.parametrize(
    "rough", [rb.Rough(1.0, 1.0), pytest.param(rb.Rough(1.0, 1.0, 5.0), marks=pytest.mark.slow)]
)
def test_rough_beside_frictionless(rough):
    """One ball bounces by its law, the other without friction."""
    special = rb.PairLaw(rb.Frictionless(0.5), 1, obstacle=0)
    world = rb.World(
        [BALL, BALL], [FLOOR], gravity=(0.0, 0.0, 0.0), contact_law=rough, pair_laws=[special]
    )
    final = rb.simulate(world, ball((1.0, 0.0, -1.0), n=2), METHOD, 1.0).final
    np.testing.assert_allclose(final.velocity, [[3 / 7, 0, 1], [1, 0, 0.5]], rtol=1e-12, atol=1e-14)


def test_laws_of_several_kinds_are_refused():
    special = rb.PairLaw(rb.Rough(), 0, obstacle=0)
    with pytest.raises(ValueError, match=r"World.pair_laws must be laws of one kind .*Rough"):
        rb.World([BALL], [FLOOR], contact_law=rb.Coulomb(0.1), pair_laws=[special])


@pytest.mark.parametrize("law", [rb.Frictionless, rb.Coulomb])
def test_nothing_is_derived_from_what_worlds_know_by_formula(law):
    with pytest.raises(TypeError, match=r"Mine cannot be derived from .*: derive it from Abstract"):

        class Mine(law):
            pass
