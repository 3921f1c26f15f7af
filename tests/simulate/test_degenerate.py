"""A thousand degenerate scenes per kind of shape: nothing is ever silently wrong.

Contacts that start touching, without speed, on flat faces or edges, without gravity, with
speeds of round-off: each lane either gives finite numbers and derivatives, or says why not.
"""

import collections

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import before_releases

import jaxrb as rb

LANES = 1000
SHAPES = {
    "sphere": rb.Sphere(0.4),
    "ellipsoid": rb.Ellipsoid((0.3, 0.4, 0.5)),
    "box": rb.Box((0.3, 0.4, 0.5)),
    "rounded box": rb.Rounded(rb.Box((0.3, 0.4, 0.5)), 0.1),
}
CODES = [
    "successful",
    "nonlinear_solve_failed",
    "root_not_found",
    "max_impacts_reached",
    "zeno",
    "initial_penetration",
    "grazing",
    "non_finite",
    "non_unit_quaternion",
    "invalid_body",
    "invalid_contact_law",
]
METHOD = rb.LGVCI(dt=0.01, max_impacts_per_step=16, max_impacts=48, on_zeno="stop")


def scenes(seed):
    rng = np.random.default_rng(seed)
    pick = lambda *options: rng.choice(np.array(options), LANES)  # noqa: E731
    unit = lambda a: a / np.linalg.norm(a, axis=-1, keepdims=True)  # noqa: E731
    up = np.tile([0.0, 0, 1], (LANES, 1))
    tilted = pick(0, 1)[:, None]
    random = rng.normal(size=(LANES, 4))
    edge = np.tile([np.cos(0.3), 0, np.sin(0.3), 0], (LANES, 1))
    lying = np.tile([np.sqrt(0.5), np.sqrt(0.5), 0, 0], (LANES, 1))
    attitude = pick(0, 1, 2, 3)[:, None]
    return {
        "normal": np.where(tilted, rng.normal(size=(LANES, 3)) + 2 * up, up),
        "offset": pick(0.0, 0.0, 1.0, -0.7),
        "gravity": pick(0.0, 9.81),
        "e": pick(0.0, 0.5, 1.0),
        "gap": pick(0.0, 0.0, 1e-12, 0.05),
        "closing": pick(0.0, 0.0, 1e-12, 1.0, -1e-12, -1.0),
        "tangential": rng.normal(size=(LANES, 3)) * pick(0.0, 1e-12, 1.0)[:, None],
        "spin": rng.normal(size=(LANES, 3)) * pick(0.0, 0.0, 1e-12, 1.0)[:, None],
        "quaternion": unit(
            np.where(
                attitude == 0,
                np.array([1.0, 0, 0, 0]),
                np.where(attitude == 1, lying, np.where(attitude == 2, edge, random)),
            )
        ),
    }


def program(shape):
    def one(s):
        body = rb.RigidBody(shape, mass=1.3)
        normal = s["normal"] / jnp.sqrt(jnp.sum(s["normal"] ** 2))
        velocity = s["tangential"] - jnp.dot(s["tangential"], normal) * normal
        velocity = velocity - s["closing"] * normal

        def build(height, e, offset):
            # The offset moves the plane alone, the height the body alone.
            world = rb.World(
                [body],
                [rb.HalfSpace(normal, s["offset"] + offset)],
                gravity=jnp.stack([0 * e, 0 * e, -s["gravity"]]),
                contact_law=rb.Frictionless(e),
            )
            state = rb.State(
                (height * normal)[None], s["quaternion"][None], velocity[None], s["spin"][None]
            )
            return world, state

        zero = jnp.zeros(())
        level = s["offset"] + 3.0
        level = level + s["gap"] - rb.gaps(*build(level, s["e"], zero))[0, 0]

        def last(height, e, offset):
            world, state = build(height, e, offset)
            sol = rb.simulate(world, state, METHOD, 0.2, throw=False)
            return sum(jnp.sum(leaf) for leaf in jax.tree.leaves(sol.final)), sol

        gradient, sol = jax.grad(last, argnums=(0, 1, 2), has_aux=True)(level, s["e"], zero)
        gaps = rb.gaps(build(level, s["e"], zero)[0], sol.final)[0, 0]
        codes = [sol.result == getattr(rb.RESULTS, code) for code in CODES]
        code = jnp.argmax(jnp.stack(codes))
        return sol.final, code, jnp.stack(gradient), gaps, sol.impacts.count

    return jax.jit(jax.vmap(one))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sphere", "box", *before_releases("ellipsoid", "rounded box")])
def test_degenerate_scenes(kind):
    s = scenes(seed=list(SHAPES).index(kind))
    final, code, gradient, gap, count = jax.tree.map(np.asarray, program(SHAPES[kind])(s))
    tally = collections.Counter(CODES[c] for c in code)
    good = code == 0

    # No state is ever other than finite, whatever the code; nor a derivative that is given out.
    for leaf in jax.tree.leaves(final):
        assert np.all(np.isfinite(leaf)), tally
    bad = np.flatnonzero(good & ~np.isfinite(gradient).all(axis=1))
    assert len(bad) == 0, [{name: value[bad[0]].tolist() for name, value in s.items()}]
    # Only these are to be expected: nothing here starts wrong or is badly posed otherwise.
    assert set(tally) <= {"successful", "zeno", "max_impacts_reached", "grazing"}, tally
    assert sum(tally.values()) == LANES and tally["successful"] > LANES / 3, tally
    # No body is in the ground at the end: below by round-off of lengths of a few metres.
    assert gap.min() > -1e-13, (np.argmin(gap), gap.min())

    quiet = (s["spin"] == 0).all(axis=1) & (s["gravity"] == 0)
    resting = quiet & (s["closing"] == 0) & (s["tangential"] == 0).all(axis=1)
    assert resting.sum() > 20
    # Nothing moves, so nothing happens, and the state is what it was.
    assert np.all(good[resting]) and np.all(count[resting] == 0), tally
    assert np.all(final.velocity[resting] == 0)
    np.testing.assert_array_equal(gradient[resting, 1:], 0.0)

    # Bodies that leave, or are 0.05 m away and close at up to 1e-12 m/s, never touch.
    leaving = quiet & (s["closing"] == -1.0)
    apart = quiet & (s["gap"] == 0.05) & (s["closing"] < 0.5)
    assert leaving.sum() > 20 and apart.sum() > 20
    assert np.all(good[leaving | apart]) and np.all(count[leaving | apart] == 0), tally

    # One clean hit at 1 m/s, in flight without gravity: the gap then opens at a speed e (unless
    # the body turns so as to touch again: for those that cannot turn, spheres, it is exact).
    hit = quiet & (s["closing"] == 1.0)
    assert hit.sum() > 20
    assert np.all(count[hit] >= 1), tally
    if kind == "sphere":
        assert np.all(good[hit]) and np.all(count[hit] == 1), tally
        flight = 0.2 - s["gap"][hit]
        np.testing.assert_allclose(gap[hit], s["e"][hit] * flight, rtol=0, atol=1e-12)

    # Held on the ground by gravity, or bouncing lower than can be told: reported, not ignored.
    held = (
        (s["gravity"] > 0)
        & (s["gap"] == 0)
        & (s["closing"] == 0)
        & (s["e"] == 0)
        & (s["spin"] == 0).all(axis=1)
        & (s["normal"][:, :2] == 0).all(axis=1)
    )
    assert held.sum() >= 3 and not np.any(good[held]), tally
