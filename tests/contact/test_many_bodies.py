"""Worlds of many bodies take programs that are not much longer than those of few."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxrb as rb
from jaxrb.contact.collider_of import Recipe, collider, made_together, outlined
from jaxrb.simulate.system import build

HALF = (0.2, 0.15, 0.1)


def world_of(solids):
    """Side by side over a plane and beside a box, with a state."""
    n = len(solids)
    place = jnp.zeros((n, 3)).at[:, 2].set(1.0).at[:, 0].set(jnp.arange(n, dtype=float))
    upright, zero = jnp.zeros((n, 4)).at[:, 0].set(1.0), jnp.zeros((n, 3))
    obstacles = [rb.HalfSpace(), rb.Placed(rb.Box(HALF), (0, 3, 0))]
    world = rb.World([rb.RigidBody(solid) for solid in solids], obstacles)
    return world, rb.State(place, upright, zero, zero)


def equations(n):
    """In the program that prepares a world of n boxes."""
    world, state = world_of([rb.Box(HALF)] * n)

    def prepared(world, state):
        return build(world, state, standing=True)[1], rb.energy(world, state)

    return len(jax.make_jaxpr(prepared)(world, state).eqns)


def test_programs_do_not_grow_with_pairs():
    """Of 12 bodies there are 11 times the pairs that 4 have: each body adds its own numbers, but
    no rotation of a corner."""
    few, many = equations(4), equations(12)
    assert many - few < 8 * 200 and few < 4000


@pytest.mark.parametrize("make", [collider, outlined])
def test_colliders_made_together_are_those_of_each(make):
    solids = [
        rb.Box(HALF),
        rb.Placed(rb.Box((0.3, 0.1, 0.2)), (0.1, 0, 0), (0.8, 0.6, 0, 0)),
        rb.Box((0.5, 0.4, 0.3)),
        rb.Placed(rb.Box((0.1, 0.7, 0.2)), (0, 0.2, 0), (0.6, 0, 0.8, 0)),
    ]
    order = [2, 0, 0, 3, 1, 2]
    row = made_together([Recipe(solids[k], make) for k in order])
    for place, k in enumerate(order):
        own = jax.tree.map(lambda leaf, place=place: leaf[place], row)
        for found, alone in zip(
            jax.tree.leaves(own), jax.tree.leaves(make(solids[k])), strict=True
        ):
            np.testing.assert_allclose(found, alone, atol=1e-15)


@pytest.mark.slow
def test_pairs_of_unlike_bodies_have_the_gaps_they_have_alone():
    """Balls among others are compared in more than one way."""
    solids = [
        rb.Sphere(0.1),
        rb.Box(HALF),
        rb.Sphere(0.2),
        rb.Box((0.1, 0.1, 0.1)),
    ]
    world, state = world_of(solids)
    together = rb.pair_gaps(world, state)
    assert world.pairs == tuple(itertools.combinations(range(len(solids)), 2))
    for (i, j), gap in zip(world.pairs, together, strict=True):
        both, start = world_of([solids[i], solids[j]])
        start = rb.State(
            state.position[jnp.array([i, j])], *(start.quaternion, *[start.velocity] * 2)
        )
        np.testing.assert_allclose(gap, rb.pair_gaps(both, start)[0], atol=1e-14)
    # Balls and boxes next to each other: known.
    np.testing.assert_allclose(together[world.pairs.index((0, 1))], 1 - 0.1 - HALF[0], atol=1e-15)
