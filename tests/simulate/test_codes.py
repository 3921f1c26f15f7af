"""The codes as numbers, and those that only problems without a solution reach."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxrb as rb
from jaxrb.contact import delassus
from jaxrb.simulate import rest_events
from jaxrb.simulate.results import Code, result_name, to_result

RADIUS, FALL = 0.1, 0.2
STILL = (1.0, 0.0, 0.0, 0.0)


# As they are written, one after the other.
NAMES = [
    line.strip().partition(":")[0]
    for line in (rb.RESULTS.__doc__ or "").partition("Items:\n")[2].splitlines()
    if line.strip()
]


def test_numbers_and_names_are_those_of_the_results():
    """The loop carries numbers, and items are found by name: a code that was added to one of both
    alone could not be told, and in another place it would have two numbers."""
    assert [code.value for code in Code] == list(range(len(NAMES)))
    assert [code.name for code in Code] == NAMES
    for code in Code:
        for item in (getattr(rb.RESULTS, code.name), to_result(jnp.int32(code.value))):
            (number,) = jax.tree.leaves(item)
            assert int(number) == code.value
            assert result_name(item) == code.name


def lowered(t, args):
    """The place of a lid above a table, which comes down."""
    height = 3 * RADIUS - FALL * t
    return jnp.stack([0 * height, 0 * height, height]), jnp.asarray(STILL, height.dtype)


@pytest.mark.parametrize(
    "method",
    [
        pytest.param(rb.MoreauJean(0.01), marks=pytest.mark.slow),
        pytest.param(rb.MoreauJean(0.01, impacts="stepped"), marks=pytest.mark.slow),
    ],
)
def test_a_ball_that_is_crushed(method):
    """Between a table and a lid that comes down whatever resists: once the lid reaches the ball,
    no finite force keeps both contacts closed."""
    world = rb.World(
        [rb.RigidBody(rb.Sphere(RADIUS), 1.0)],
        [rb.HalfSpace(), rb.Moving(rb.HalfSpace((0, 0, -1.0)), lowered)],
        contact_law=rb.Coulomb(0.5, 0.0),
    )
    start = rb.State([[0.0, 0, RADIUS]], [STILL], [[0.0, 0, 0]], [[0.0, 0, 0]])
    reached = RADIUS / FALL
    sol = rb.simulate(world, start, method, 1.0, throw=False)
    assert sol.result == rb.RESULTS.held_contacts_not_solved
    # The step in which it is reached has no end.
    assert reached - 1.001 * 0.01 < float(sol.stats.time) < reached + 1e-9
    np.testing.assert_allclose(sol.final.position, start.position, rtol=0, atol=1e-12)
    with pytest.raises(RuntimeError, match=r"held_contacts_not_solved: .*joints that contradict"):
        rb.simulate(world, start, method, 1.0)


def test_a_plate_that_turns_a_nanometre_above_the_floor():
    """Without weight, about its axis: each proof that nothing touches reaches as far ahead as a
    point of the rim could fall by the gap, sqrt(2 gap/(omega^2 r)) = 1e-8 s, and so many proofs
    are not made. A larger tolerance is the remedy that is told, and steps are another."""
    thin, spin, t1 = 0.005, 100.0, 1.0
    world = rb.World(
        [rb.RigidBody(rb.Box((0.1, 0.1, thin)), 1.0)], [rb.HalfSpace()], gravity=(0, 0, 0)
    )
    start = rb.State([[0.0, 0, thin + 1e-9]], [STILL], [[0.0, 0, 0]], [[0.0, 0, spin]])
    sol = rb.simulate(world, start, rb.EventDriven(rb.ExactFlight(), None), t1, throw=False)
    assert sol.result == rb.RESULTS.root_not_found
    assert float(sol.stats.time) == 0.0
    np.testing.assert_allclose(sol.final.position, start.position, rtol=0, atol=1e-15)
    with pytest.raises(RuntimeError, match=r"raise EventDriven\(tolerance=...\), or give it a dt"):
        rb.simulate(world, start, rb.EventDriven(rb.ExactFlight(), None), t1)
    for method in (
        rb.EventDriven(rb.ExactFlight(), None, tolerance=1e-6, max_impacts=400),
        rb.EventDriven(rb.ExactFlight(), 0.01),
    ):
        final = rb.simulate(world, start, method, t1).final
        np.testing.assert_allclose(final.position, start.position, rtol=0, atol=1e-15)
        half = spin * t1 / 2
        turned = np.abs(final.quaternion[0] @ np.array([np.cos(half), 0, 0, np.sin(half)]))
        np.testing.assert_allclose(turned, 1.0, rtol=0, atol=1e-12)


@pytest.fixture
def half_solved(monkeypatch):
    """Each solution for impulses at several contacts stops far from its end, and impacts at what
    lies, which would tell it first, pass."""
    jax.clear_caches()
    monkeypatch.setattr(delassus, "_conjugate_gradients", lambda matvec, right, _: 0.1 * right)
    bounce = rest_events.bounce
    monkeypatch.setattr(rest_events, "bounce", lambda *of: (*bounce(*of)[:2], jnp.ones((), bool)))
    yield
    jax.clear_caches()


@pytest.mark.parametrize(
    ("height", "code"),
    [(RADIUS, "nonlinear_solve_failed"), (2 * RADIUS, "held_contacts_not_solved")],
    ids=["lies", "lands"],
)
@pytest.mark.usefixtures("half_solved")
def test_impulses_that_do_not_stop_what_lies(height, code):
    """A box without friction is stopped by impulses at its four corners, in each step in which it
    lies and where it lands; what they leave of its velocity is judged."""
    world = rb.World(
        [rb.RigidBody(rb.Box((RADIUS, RADIUS, RADIUS)), 1.0)],
        [rb.HalfSpace()],
        contact_law=rb.Frictionless(0.0),
    )
    start = rb.State([[0.0, 0, height]], [STILL], [[0.0, 0, 0]], [[0.0, 0, 0]])
    sol = rb.simulate(world, start, rb.LGVCI(0.01, on_zeno="rest"), 0.3, throw=False)
    assert sol.result == getattr(rb.RESULTS, code)
