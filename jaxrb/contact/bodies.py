"""Contacts of pairs of bodies, each of a solid of one kind with a solid of another."""

from __future__ import annotations

from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from ..bodies import Phase
from ..math import Vec3, cross, dot, norm, rotate, rotate_inverse
from .base import AbstractContacts, AbstractContactSet, ContactKinematics
from .forms import AbstractForm, Nearest
from .separation import separation
from .single import at

Pairs = tuple[tuple[int, int], ...]


class BetweenBodies(AbstractContacts):
    """Where bodies are closest to each other."""

    gap: Float[Array, " n_contacts"]
    round_off: Float[Array, " n_contacts"]
    normal: Vec3  # from the second body into the first, world
    points: tuple[Vec3, Vec3]  # of both, from the centre of mass, body frame [m]
    levers: tuple[Vec3, Vec3]  # rho x R^T n of both, body frame [m]
    pairs: Pairs = eqx.field(static=True)

    def _kinematics(self, phase, inertial):
        zero = jnp.zeros_like(self.gap)
        spin, inverse_mass, bend, arms = zero, zero, zero, zero
        velocities = []
        for side, sign in enumerate((1, -1)):
            own, moving = _of(self.pairs, side, (inertial, phase))
            lever, arm = self.levers[side], norm(self.points[side])
            over_inertia = own.inertia.solve(lever)
            rate = dot(over_inertia, moving.angular_momentum) * sign
            spin, bend, arms = spin + rate, bend + rate**2 / arm, arms + arm
            inverse_mass = inverse_mass + 1 / own.mass + dot(over_inertia, lever)
            velocities.append(own.velocity(moving))
        relative = velocities[0] - velocities[1]
        along = dot(self.normal, relative)
        across = jnp.maximum(dot(relative, relative) - along**2, 0.0)
        return ContactKinematics(along + spin, inverse_mass, bend + across / arms)

    def _push(self, phase, impulse, where):
        """At the one contact that is chosen, if any."""
        size, normal = at(where, (impulse, self.normal))
        linear, angular = phase.linear_momentum, phase.angular_momentum
        for side, sign in enumerate((1, -1)):
            body = self._body(side, where, phase)
            push, spin = normal * (sign * size), at(where, self.levers[side]) * (sign * size)
            linear = linear + jax.tree.map(lambda leaf, b=body: jnp.where(b, leaf, 0.0), push)
            angular = angular + jax.tree.map(lambda leaf, b=body: jnp.where(b, leaf, 0.0), spin)
        return Phase(phase.position, phase.orientation, linear, angular, phase.stretch)

    def _chosen(self, phase, which):
        sides = [
            (self._body(side, which, phase), at(which, self.points[side])) for side in range(2)
        ]
        return at(which, self.normal), tuple(sides)

    def _body(
        self, side: int, which: Bool[Array, " n_contacts"], phase: Phase
    ) -> Bool[Array, " n_bodies"]:
        """Which body is on one side of the contact for which `which` holds."""
        order = jnp.arange(phase.position.x.shape[0], dtype=jnp.int32)
        numbers = jnp.asarray(np.array(self.pairs)[:, side], jnp.int32)
        own = jnp.sum(jnp.where(which, numbers, 0), dtype=jnp.int32)
        return (order == own) & jnp.any(which)


class BodyContacts(AbstractContactSet):
    """Contacts of solids of one kind with solids of one other."""

    forms: tuple[AbstractForm, AbstractForm]  # stacked
    pairs: Pairs = eqx.field(static=True)  # the bodies of each contact, in the order of the phase
    n_obstacles: int = eqx.field(static=True)

    @property
    def shape(self):
        return (len(self.pairs),)

    @property
    def partners(self):
        return np.array(self.pairs) + np.array([0, self.n_obstacles])

    @property
    def searched(self):
        return any(isinstance(form, Nearest) for form in self.forms)

    def _find(self, phase):
        (x, q), (y, p) = (
            _of(self.pairs, side, (phase.position, phase.orientation)) for side in range(2)
        )
        shift, turn = rotate_inverse(q, y - x), q.conjugate() * p
        gap, normal, point = jax.vmap(separation)(*self.forms, shift, turn)
        points = (point + normal * gap, rotate_inverse(turn, point - shift))
        levers = (cross(points[0], normal), cross(points[1], rotate_inverse(turn, normal)))
        size = norm(x) + norm(y) + norm(points[0]) + norm(points[1])
        round_off = 8 * jnp.finfo(gap.dtype).eps * size
        return BetweenBodies(gap, round_off, rotate(q, normal), points, levers, self.pairs)


def _of(pairs: Pairs, side: int, tree):
    """What leaves with one entry a body hold for the bodies on one side."""
    indices = np.array(pairs)[:, side]
    if len(indices) == 1:
        return jax.tree.map(lambda leaf: leaf[indices[0] : indices[0] + 1], tree)
    return jax.tree.map(lambda leaf: leaf.at[indices].get(mode="promise_in_bounds"), tree)


def stacked(trees: Sequence):
    """One tree whose leaves have a leading axis over `trees`."""
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *trees)
