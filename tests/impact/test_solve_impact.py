"""Frictional impacts against the paper, other integrators, closed forms and differences."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import differences, quick_jit
from impacts import (
    APPROACH,
    BODY_VELOCITY,
    ICOSAHEDRON,
    by_integration,
    in_polar_time,
    random_impacts,
)

import jaxrb as rb
from jaxrb.impact.coulomb import Resolved, columns, solver
from jaxrb.math import Sym3, Vec3

W = ICOSAHEDRON

# The instances of the paper's figures: friction, velocity of the icosahedron, words.
FIGURES = {
    "4a": (0.8, (-0.1, 0.5, 0.95), "csr", "clsr"),
    "4b": (0.4, (-0.1, 0.5, 0.2), "scr", "lscr"),
    "4c": (0.25, (-0.1, 0.5, 0.2), "cr", "clr"),
    "4d": (3.0, (-0.1, 0.5, 0.5), "scr", "lscr"),
    "7": (0.25, (-0.7, -0.35, -0.5), "cr", "lcr"),
    "10a": (0.35, (-0.1, 0.5, 0.2), "csr", "lcsr"),
    "10b": (0.25, (-0.1, 0.5, -1.0), "cr", "lcr"),
    "10c": (0.55, (-0.1, 0.5, 0.9), "csr", "clsr"),
}

# A corner of a die that hits the ground: the slip falls from 0.6 to 5e-5 m/s and turns around.
DIE = (
    np.array(
        [
            [10.3152381, -1.954871885, -7.22219172],
            [-1.954871885, 17.85672087, -1.760824625],
            [-7.22219172, -1.760824625, 11.82804103],
        ]
    ),
    np.array([0.575291522, 0.17001151, -1.89869232]),
)

STRONGE = rb.Stronge()


def batch(w, v, mu, e, hypothesis=STRONGE):
    """The impulses of many impacts, shape (n, 3), and whether they ended."""
    rows = jax.jit(solver(hypothesis))(columns(Sym3.of(jnp.asarray(w)), Vec3.of(v), mu, e))
    found = Resolved.of(rows)
    return np.asarray(found.impulse.array()), np.asarray(found.ended)


def check_energy_cone_and_separation(w, v, mu, impulse):
    """No energy is gained, the impulse is in the cone, the bodies separate: to round-off."""
    after = v + np.einsum("nij,nj->ni", w, impulse)
    gained = np.einsum("ni,ni->n", impulse, (v + after) / 2)
    before = np.einsum("ni,nij,nj->n", v, np.linalg.inv(w), v) / 2
    assert (gained / before).max() < 1e-14
    tangential = np.hypot(impulse[:, 0], impulse[:, 1])
    assert ((tangential - mu * impulse[:, 2]) / impulse[:, 2]).max() < 1e-14
    assert (after[:, 2] / -v[:, 2]).min() > -1e-14


class TestPaper:
    @pytest.mark.parametrize("figure", FIGURES)
    def test_words(self, figure):
        mu, body_velocity, exact, tolerant = FIGURES[figure]
        v = APPROACH + np.array(body_velocity) - BODY_VELOCITY
        law = rb.Coulomb(mu, 0.95)
        first = rb.solve_impact(W, v, law)
        second = rb.solve_impact(W, v, law, collinearity=0.03)
        assert (first.event_sequence, second.event_sequence) == (exact, tolerant)
        np.testing.assert_allclose(second.impulse, first.impulse, rtol=0, atol=1e-15)
        # Figure 4d violates the paper's condition, and ends all the same, as it sticks.
        assert bool(first.termination_guaranteed) == (figure != "4d")
        sticks = "s" in exact
        assert list(first.modes) == [rb.ContactMode.slide, rb.ContactMode.slide + sticks]

    def test_frictionless_impulse(self):
        assert np.linalg.norm(np.linalg.solve(W[:2, :2], W[:2, 2])) == pytest.approx(
            0.3156995896, abs=1e-10
        )
        for law in (rb.Frictionless(0.95), rb.Coulomb(0.0, 0.95)):
            impulse = rb.solve_impact(W, APPROACH, law).impulse
            np.testing.assert_allclose(impulse, [0, 0, 0.0580949], atol=5e-8)

    def test_impulse_is_converged(self):
        """The printed impulse (15) is right to 6e-4 only; two other methods confirm this one."""
        ours = rb.solve_impact(W, APPROACH, rb.Coulomb(0.8, 0.95)).impulse
        assert np.abs(ours - np.array([-0.00326657, -0.0592263, 0.1007])).max() < 6e-4
        np.testing.assert_allclose(ours, in_polar_time(W, APPROACH, 0.8, 0.95), atol=1e-13)
        np.testing.assert_allclose(ours, by_integration(W, APPROACH, 0.8, 0.95)[0], atol=1e-11)


class TestRandom:
    def test_energy_cone_and_separation(self):
        w, v, mu, e = random_impacts(100_000, seed=0)
        impulse, ended = batch(w, v, mu, e)
        assert ended.all()
        check_energy_cone_and_separation(w, v, mu, impulse)

    @pytest.mark.parametrize("what", ["slip", "friction", "restitution", "sphere", "ray"])
    def test_extremes(self, what):
        """Over 24 decades of slip or friction, 16 of e, of the distance from a sphere's W
        (where every direction is invariant) and of the angle to an invariant ray."""
        n = 5000
        w, v, mu, e = random_impacts(n, seed=7)
        rng = np.random.default_rng(8)
        wide, small = 10.0 ** rng.uniform(-12, 12, n), 10.0 ** rng.uniform(-17, 0, n)
        if what == "slip":
            v[:, :2] *= wide[:, None]
        elif what == "friction":
            mu = wide
        elif what == "restitution":
            e = small
        elif what == "sphere":
            shape = np.diag([3.5, 3.5, 1.0])
            w = shape + 0.3 * (small / np.abs(w).max((1, 2)))[:, None, None] * w
        else:
            ray = np.asarray(jax.jit(jax.vmap(rb.invariant_directions))(w, mu).direction)[:, 0]
            v[:, :2] = ray + small[:, None] * rng.normal(size=(n, 2))
        impulse, ended = batch(w, v, mu, e)
        assert ended.all()
        check_energy_cone_and_separation(w, v, mu, impulse)

    @pytest.mark.parametrize(
        "n", [pytest.param(60, id="60"), pytest.param(1000, id="1000", marks=pytest.mark.slow)]
    )
    def test_against_integration(self, n):
        """All six words; the other integration treats the origin to 1e-9."""
        w, v, mu, e = random_impacts(n, seed=1)
        impulse, _ = batch(w, v, mu, e)
        words = []
        for lane in range(n):
            reference, word = by_integration(w[lane], v[lane], mu[lane], e[lane])
            error = np.abs(impulse[lane] - reference).max()
            assert error < 1e-8 * np.abs(reference).max(), lane
            words.append(word)
        assert {"cr", "csr", "scr"} == set(words)

    @pytest.mark.parametrize("lane", ["die", 9840, 90057, 76163, 10942])
    def test_slip_that_nearly_vanishes_and_turns(self, lane):
        """Then the slip grows exponentially, E with its square; 1e-12 is the other integrator's."""
        w, v, mu, e = random_impacts(100_000, seed=0)
        if lane == "die":
            w, v, mu, e = *DIE, 0.4, 0.3
        else:
            w, v, mu, e = w[lane], v[lane], mu[lane], e[lane]
        reference = in_polar_time(w, v, mu, e)
        impulse = rb.solve_impact(w, v, rb.Coulomb(mu, e)).impulse
        np.testing.assert_allclose(impulse, reference, rtol=0, atol=1e-12 * np.abs(reference).max())

    @pytest.mark.slow
    def test_a_lane_is_as_by_itself(self):
        w, v, mu, e = random_impacts(700, seed=2)
        many = jax.jit(jax.vmap(_impulse))(w, v, mu, e)
        for lane in (0, 1, 699):
            alone = rb.solve_impact(w[lane], v[lane], rb.Coulomb(mu[lane], e[lane])).impulse
            np.testing.assert_allclose(many[lane], alone, rtol=1e-13, atol=1e-16)
        nested = jax.vmap(jax.vmap(_impulse))(
            *(x.reshape(7, 100, *x.shape[1:]) for x in (w, v, mu, e))
        )
        np.testing.assert_array_equal(nested.reshape(700, 3), many)

    @pytest.mark.slow
    def test_single_precision(self):
        w, v, mu, e = random_impacts(2000, seed=3)
        double, _ = batch(w, v, mu, e)
        single, ended = batch(*(np.float32(x) for x in (w, v, mu, e)))
        assert single.dtype == np.float32
        assert ended.all()
        error = np.abs(single - double).max(1) / np.abs(double).max(1)
        # A few impacts pass so near the origin that round-off decides their direction.
        assert np.median(error) < 1e-6
        assert np.quantile(error, 0.99) < 1e-4

    @pytest.mark.parametrize("e", [0.11, 0.2, 0.5])
    @pytest.mark.slow
    def test_single_precision_with_little_restitution(self, e):
        """What is released is small beside the energies around it, and keeps its digits."""
        w, v, mu, _ = random_impacts(2000, seed=6)
        double, _ = batch(w, v, mu, np.full(2000, e))
        single, _ = batch(*(np.float32(x) for x in (w, v, mu, np.full(2000, e))))
        error = np.linalg.norm(single - double, axis=1) / np.linalg.norm(double, axis=1)
        assert np.quantile(error, 0.99) < 2e-6
        assert np.quantile(error, 0.999) < 2e-5


class TestHypotheses:
    @pytest.mark.slow
    def test_meanings(self):
        """Each ratio is e: of velocities, of impulses, of the root of energies."""
        w, v, mu, e = (x[:200] for x in random_impacts(200, seed=4))
        newton, _ = batch(w, v, mu, e, rb.Newton())
        after = v[:, 2] + np.einsum("nj,nj->n", w[:, 2], newton)
        np.testing.assert_allclose(after, -e * v[:, 2], atol=1e-13)
        for lane in range(10):
            law = rb.Coulomb(mu[lane], e[lane], rb.Poisson())
            at = rb.solve_impact(w[lane], v[lane], law).events
            assert float(at.r) == pytest.approx((1 + e[lane]) * float(at.c), rel=1e-13)

    @pytest.mark.slow
    def test_agree_without_friction_and_in_central_impacts(self):
        sphere = np.diag([3.5, 3.5, 1.0])
        for mu, w in ((0.0, W), (0.3, sphere)):
            impulses = [
                rb.solve_impact(w, APPROACH, rb.Coulomb(mu, 0.7, h)).impulse
                for h in (rb.Stronge(), rb.Poisson(), rb.Newton())
            ]
            for other in impulses[1:]:
                np.testing.assert_allclose(other, impulses[0], atol=1e-15)

    @pytest.mark.slow
    def test_newton_gains_energy_where_a_rod_reverses_its_slip(self):
        """A rod of length 1 at 50 degrees on a plane (Kane and Levinson's paradox)."""
        center = (0.5 * np.cos(0.875), 0.0, 0.5 * np.sin(0.875))
        rod = rb.CollidingBody(1.0, (1 / 12, 1 / 12, 1 / 12), center)
        w = rb.inverse_inertia_matrix(rod)
        v, energy = np.array([0.67, 0.0, -1.0]), {}
        for hypothesis in (rb.Stronge(), rb.Poisson(), rb.Newton()):
            law = rb.Coulomb(0.8, 0.9, hypothesis)
            energy[hypothesis.name] = float(rb.solve_impact(w, v, law).energy_dissipated)
        assert energy["stronge"] > 0
        assert energy["newton"] < -0.05


class TestClosedForms:
    def test_sphere_that_slides_and_sphere_that_sticks(self):
        """W = diag(7/2, 7/2, 1)/m: sliding stops at I_z = |gamma|/(3.5 mu), if that comes."""
        w, e = np.diag([3.5, 3.5, 1.0]) / 2.0, 0.6
        slides = rb.solve_impact(w, [3.0, 4.0, -1.0], rb.Coulomb(0.2, e))
        np.testing.assert_allclose(slides.impulse, [-0.384, -0.512, 3.2], atol=1e-14)
        sticks = rb.solve_impact(w, [0.3, 0.4, -1.0], rb.Coulomb(0.2, e))
        np.testing.assert_allclose(sticks.impulse, [-0.3 / 1.75, -0.4 / 1.75, 3.2], atol=1e-14)
        assert slides.event_sequence == "lcr"
        assert sticks.event_sequence == "lscr"
        assert float(sticks.events.s) == pytest.approx(0.5 / (1.75 * 0.2), rel=1e-14)

    def test_infinite_friction_sticks_at_once(self):
        """I = -(1 + e) W^{-1} ... : the tangential velocity vanishes, E by the normal alone."""
        stuck = rb.solve_impact(W, APPROACH, rb.Coulomb(1e12, 0.5))
        np.testing.assert_allclose(stuck.velocity[:2], 0, atol=1e-10)
        assert list(stuck.modes) == [rb.ContactMode.slide, rb.ContactMode.stick]

    def test_starts_without_slip(self):
        """It sticks: the tangential velocity stays 0 and Newton's rule holds normally."""
        v = np.array([0.0, 0.0, -1.0])
        stuck = rb.solve_impact(W, v, rb.Coulomb(0.5, 0.8))
        assert stuck.event_sequence == "scr"
        assert list(stuck.modes) == [rb.ContactMode.stick, rb.ContactMode.stick]
        np.testing.assert_allclose(stuck.velocity, [0, 0, 0.8], atol=1e-14)
        # Too little friction: it slides away in the centrifugal direction, evenly.
        slides = rb.solve_impact(W, v, rb.Coulomb(0.2, 0.8))
        away = rb.invariant_directions(W, 0.2)
        (direction,) = np.asarray(away.direction)[np.asarray(away.growth) > 0]
        normal = float(slides.impulse[2])
        np.testing.assert_allclose(slides.impulse[:2], -0.2 * normal * direction, rtol=1e-13)
        np.testing.assert_allclose(
            slides.velocity[:2] / np.linalg.norm(slides.velocity[:2]), direction, rtol=1e-12
        )
        assert list(slides.modes) == [rb.ContactMode.slide, rb.ContactMode.slide]

    @pytest.mark.parametrize("e", [0.0, 1e-12, 1e-6, 1e-3, 1.0])
    @pytest.mark.parametrize("hypothesis", [rb.Stronge(), rb.Poisson(), rb.Newton()])
    def test_every_restitution(self, e, hypothesis):
        """To first order in e, dI = e sqrt(2 E_c / v_z') I' for Stronge, and v_z+ = e v_n."""
        law = rb.Coulomb(0.8, e, hypothesis)
        result = rb.solve_impact(W, APPROACH, law)
        plastic = rb.solve_impact(W, APPROACH, rb.Coulomb(0.8, 0.0, hypothesis))
        # The round-off of v + W I, whose terms are up to 0.3 m/s.
        np.testing.assert_allclose(plastic.velocity[2], 0, atol=3e-16)
        assert plastic.event_sequence == "cr"
        extra = np.asarray(result.impulse - plastic.impulse)
        if 0 < e <= 1e-3:
            law = rb.Coulomb(0.8, e / 2, hypothesis)
            half = np.asarray(rb.solve_impact(W, APPROACH, law).impulse - plastic.impulse)
            assert np.abs(extra - 2 * half).max() < 2 * e**2 + 1e-15


class TestDerivatives:
    """With respect to W (its 6 numbers), v, mu and e."""

    @pytest.mark.parametrize(
        "name",
        ["4a", "4b", "4c", "4d", "7", "sphere", "planar", "no slip", "plastic", "smooth"],
    )
    @pytest.mark.slow
    def test_both_modes_and_differences(self, name):
        x = _numbers(name)
        forward, reverse = FORWARD(x), REVERSE(x)
        np.testing.assert_allclose(forward, reverse, rtol=0, atol=1e-14 * np.abs(forward).max())
        one_sided = {"plastic": [10], "smooth": [9]}.get(name, [])
        free = np.array([i for i in range(11) if i not in one_sided])

        def reduced(part):
            return IMPULSE(x.at[free].set(part))

        # From no slip on, the impulse is not twice differentiable: a shorter step.
        step = 3e-7 if name == "no slip" else 1e-4
        numbers = differences(reduced, np.asarray(x)[free], step)
        scale = np.abs(forward).max()
        np.testing.assert_allclose(forward[:, free] / scale, numbers / scale, atol=1e-8)

    @pytest.mark.slow
    def test_restitution_at_zero_and_friction_at_zero(self):
        """One-sided: towards values that exist."""
        for name, which in (("plastic", 10), ("smooth", 9)):
            x = _numbers(name)
            slope = FORWARD(x)[:, which]
            h = 1e-6
            ahead = (IMPULSE(x.at[which].set(h)) - IMPULSE(x)) / h
            np.testing.assert_allclose(slope, ahead, atol=1e-5 * np.abs(ahead).max())
            assert np.abs(slope).max() > 1e-3

    @pytest.mark.long
    def test_hessians(self):
        x = _numbers("4a")
        numbers = differences(FORWARD, x, 1e-4)
        scale = np.abs(numbers).max()
        for outer, inner in itertools.product((jax.jacfwd, jax.jacrev), repeat=2):
            hessian = quick_jit(outer(inner(_of_numbers)))(x)
            np.testing.assert_allclose(hessian / scale, numbers / scale, atol=1e-7)


class TestInput:
    def test_receding_contact_has_no_impulse(self):
        for law in (rb.Coulomb(0.5), rb.Frictionless()):
            result = rb.solve_impact(W, [1.0, 0.0, 0.0], law)
            assert rb.IMPACT_RESULTS[result.result].startswith(
                "receding: The contact does not approach"
            )
            assert list(result.modes) == [rb.ContactMode.apart] * 2
            np.testing.assert_array_equal(result.impulse, 0)
            assert result.event_sequence == ""

    def test_refused(self):
        with pytest.raises(ValueError, match=r"Coulomb.friction must be 0 or more; got -0.1"):
            rb.Coulomb(-0.1)
        with pytest.raises(ValueError, match=r"Coulomb.restitution must be in the interval"):
            rb.Coulomb(0.1, 1.1)
        with pytest.raises(ValueError, match=r"Coulomb.hypothesis must be Stronge\(\)"):
            rb.Coulomb(0.1, 1.0, "stronge")
        with pytest.raises(ValueError, match="inverse_inertia must be symmetric"):
            rb.solve_impact(W + np.triu(np.ones((3, 3))), APPROACH, rb.Coulomb(0.1))
        with pytest.raises(ValueError, match=r"velocity must have shape \(3,\); got \(2,\)"):
            rb.solve_impact(W, APPROACH[:2], rb.Coulomb(0.1))
        with pytest.raises(ValueError, match="collinearity must lie between 0 and 1"):
            rb.solve_impact(W, APPROACH, rb.Coulomb(0.1), collinearity=0.0)
        with pytest.raises(ValueError, match="law must be"):
            rb.solve_impact(W, APPROACH, 0.5)

    @pytest.mark.parametrize(
        ("w", "v", "message"),
        [
            (-W, APPROACH, "positive definite"),
            (np.ones((3, 3)), APPROACH, "positive definite"),
            (W * np.nan, APPROACH, "infinite or NaN"),
            (W, APPROACH * np.inf, "infinite or NaN"),
        ],
    )
    def test_unsolvable(self, w, v, message):
        law = rb.Coulomb(0.5)
        with pytest.raises(RuntimeError, match=message):
            rb.solve_impact(w, v, law)
        result = rb.solve_impact(w, v, law, throw=False)
        assert message in rb.IMPACT_RESULTS[result.result]
        np.testing.assert_array_equal(result.impulse, 0)
        with pytest.raises(Exception, match=message):
            jax.block_until_ready(jax.jit(rb.solve_impact)(w, v, law).impulse)

    def test_impact_that_jams(self):
        """A slip that is pushed down harder than the normal impulse lifts never ends."""
        w = np.array([[2.0, 0.0, 1.3], [0.0, 2.0, 0.0], [1.3, 0.0, 1.0]])
        result = rb.solve_impact(w, [100.0, 0.0, -1.0], rb.Coulomb(0.9), throw=False)
        assert not bool(result.termination_guaranteed)
        assert result.event_sequence.endswith("r")  # it sticks in the end, and ends

    @pytest.mark.slow
    def test_traced_law_is_checked(self):
        solve = jax.vmap(lambda mu: rb.solve_impact(W, APPROACH, _law(mu, 0.5), throw=False).result)
        results = solve(jnp.array([0.5, -0.5]))
        assert [bool(x) for x in results == rb.IMPACT_RESULTS.invalid_contact_law] == [False, True]


def _law(mu, e):
    return rb.Coulomb(mu, e)


@pytest.mark.parametrize("mu", [0.1, 2.0])
@pytest.mark.parametrize("derivative", [jax.jacfwd, jax.jacrev])
def test_a_plastic_impact_has_its_derivative_by_restitution(mu, derivative):
    """It slides to its end or sticks before: the normal impulses of a ball of mass 1 that comes at
    1 m/s are 1 N s of compression and 1 + e of all."""

    def normal(e):
        sol = rb.solve_impact(np.diag([3.5, 3.5, 1.0]), [0.7, -0.4, -1.0], rb.Coulomb(mu, e))
        return jnp.stack([sol.velocity[2], sol.events.c, sol.events.r])

    np.testing.assert_allclose(normal(0.0), [0.0, 1.0, 1.0], atol=1e-15)
    np.testing.assert_allclose(derivative(normal)(0.0), [1.0, 0.0, 1.0], atol=1e-14)


def _impulse(w, v, mu, e):
    return rb.solve_impact(w, v, rb.Coulomb(mu, e), throw=False).impulse


def _of_numbers(x):
    w = jnp.array([[x[0], x[1], x[2]], [x[1], x[3], x[4]], [x[2], x[4], x[5]]])
    return _impulse(w, x[6:9], x[9], x[10])


IMPULSE = jax.jit(_of_numbers)
FORWARD = jax.jit(jax.jacfwd(_of_numbers))
REVERSE = jax.jit(jax.jacrev(_of_numbers))


def _numbers(name):
    w, v, mu, e = W, APPROACH, 0.8, 0.95
    if name in FIGURES:
        mu, body_velocity, *_ = FIGURES[name]
        v = APPROACH + np.array(body_velocity) - BODY_VELOCITY
    elif name == "sphere":
        w, v, mu = np.diag([3.5, 3.5, 1.0]), np.array([3.0, 4.0, -1.0]), 0.2
    elif name == "planar":
        w = np.array([[4.0, 0.0, 1.0], [0.0, 3.0, 0.0], [1.0, 0.0, 2.0]])
        v, mu = np.array([2.0, 0.0, -1.0]), 0.3
    elif name == "no slip":
        v = np.array([0.0, 0.0, -1.0])
    elif name == "plastic":
        e = 0.0
    elif name == "smooth":
        mu = 0.0
    return jnp.array([*w[np.triu_indices(3)], *v, mu, e])
