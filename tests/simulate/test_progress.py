"""Progress bars, and worlds and solutions in a few words."""

from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxrb as rb

WORLD = rb.World([rb.RigidBody(rb.Sphere(0.5))], [rb.HalfSpace()])


def start(height=2.0):
    zero = jnp.zeros((1, 3))
    return rb.State(zero.at[0, 2].set(height), jnp.eye(1, 4), zero, zero)


class Bar:
    """Used like tqdm; remembers every bar and what it was told."""

    made: ClassVar[list] = []

    def __init__(self, total, unit):
        self.total, self.unit, self.n, self.moves = total, unit, 0, []
        self.made.append(self)

    def update(self, n):
        self.n += n
        self.moves.append(n)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.closed = True


class Telling(Bar):
    """Has a description as well; remembers it together with the moves."""

    def set_description(self, text):
        self.moves.append(text)


@pytest.fixture(autouse=True)
def _no_bars():
    Bar.made.clear()


@pytest.mark.long
def test_steps_of_a_world():
    """Every stride of steps is reported, the trajectory is the same, and saving changes neither."""
    for save in (None, rb.SaveAt(every=100)):
        plain = rb.simulate(WORLD, start(), rb.LGVCI(0.001), 2.0, save=save)
        shown = rb.simulate(WORLD, start(), rb.LGVCI(0.001), 2.0, save=save, progress=Bar)
        (bar,) = Bar.made
        Bar.made.clear()
        assert (bar.total, bar.unit, bar.n, bar.closed) == (2000, "step", 2000, True)
        assert sum(move > 0 for move in bar.moves) == 200
        np.testing.assert_allclose(shown.final.position, plain.final.position, atol=1e-14)


@pytest.mark.slow
def test_worlds_of_a_batch():
    states = jax.vmap(start)(jnp.linspace(1.0, 2.0, 300))
    sol = rb.simulate_batch(WORLD, states, rb.LGVCI(0.01), 0.5, chunk=128, progress=Bar)
    (bar,) = Bar.made
    assert (bar.total, bar.n, bar.unit) == (300, 300, "world")
    assert len(bar.moves) == 3
    assert "300 worlds, 1 body" in repr(sol)
    assert "result: 300 successful" in repr(sol)


@pytest.mark.slow
def test_says_that_it_compiles():
    """Until the first report, of one world and of a batch."""
    rb.simulate(WORLD, start(), rb.LGVCI(0.01), 0.1, progress=Telling)
    states = jax.vmap(start)(jnp.linspace(1.0, 2.0, 300))
    rb.simulate_batch(WORLD, states, rb.LGVCI(0.01), 0.1, chunk=128, progress=Telling)
    for bar in Bar.made:
        assert bar.moves[:2] == ["compiling", None]
        assert bar.n == bar.total == sum(bar.moves[2:])


@pytest.mark.slow
def test_none_under_transformations():
    def end(state):
        return rb.simulate(WORLD, state, rb.LGVCI(0.01), 0.1, progress=Bar).final.position[0, 2]

    jax.jit(end)(start())
    jax.vmap(end)(jax.vmap(start)(jnp.ones(2)))
    assert not Bar.made


def test_refused():
    with pytest.raises(ValueError, match="progress must be True, False or a class like tqdm"):
        rb.simulate(WORLD, start(), rb.LGVCI(0.01), 0.1, progress=3)


def test_tqdm(capsys):
    rb.simulate(WORLD, start(), rb.LGVCI(0.01), 1.0, progress=True)
    shown = capsys.readouterr().err.split("\r")
    assert any(line.startswith("compiling:   0%") for line in shown)
    assert "100/100" in shown[-1] and "compiling" not in shown[-1]


@pytest.mark.slow
def test_reprs():
    world = rb.World(
        [rb.RigidBody(rb.Sphere(0.5)), rb.RigidBody(rb.Box((1, 1, 1)))],
        [rb.HalfSpace()],
        contact_law=rb.Coulomb(0.25, 0.5),
    )
    assert repr(world) == (
        "World(1 Sphere, 1 Box, over 1 HalfSpace, 1 pair that can touch, "
        "gravity (0, 0, -9.81) m/s^2, Coulomb (friction 0.25, restitution 0.5))"
    )
    # From 2 m it falls 1.5 m, and after 0.553 s it is at the plane with speed 5.42 m/s.
    sol = rb.simulate(WORLD, start(), rb.LGVCI(0.01), 0.6, save=rb.SaveAt(every=10))
    mass = float(WORLD.bodies[0].mass)
    np.testing.assert_allclose(sol.stats.energy, mass * 9.81 * 2.0, rtol=1e-14)
    lines = repr(sol).splitlines()
    assert lines[1] == "  1 body, saved at 7 times, to t = 0.6 s in 60 steps"
    assert lines[2] == "  impacts: 1"
    assert lines[4] == "  result: successful"
    stopped = rb.simulate(WORLD, start(0.4), rb.LGVCI(0.01), 0.6, throw=False)
    assert "result: initial_penetration" in repr(stopped)
    jax.jit(lambda s: repr(rb.simulate(WORLD, s, rb.LGVCI(0.01), 0.1)) and s)(start())
    # Trees without numbers, as filters and maps leave them, and batches.
    for thing in (WORLD, sol):
        assert repr(jax.tree.map(lambda _: None, thing)).startswith(type(thing).__name__)
        assert repr(eqx.filter_eval_shape(lambda x: x, thing)).startswith(type(thing).__name__)
        assert repr(eqx.filter(thing, eqx.is_inexact_array))
        assert len(repr(jax.tree.map(lambda leaf: jnp.stack([leaf] * 100), thing))) < 400
