"""Sphere-sphere contacts.

The contacts of n balls are a square of n x n, whose two halves show the same ones, as broadcasting
fuses and a gather does not; nothing touches on its diagonal. A ball that touches another does
not turn without friction: its lever arm is zero.
"""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from ..bodies import Phase
from ..math import Quat, Vec3, direction, dot, norm, rotate_inverse, zeros_like
from .base import (
    AbstractContacts,
    AbstractContactSet,
    Chosen,
    ContactKinematics,
    partners_vary,
)
from .clearance import Clearance, Separation, View
from .points import AbstractInRow, ContactPoints, Incidence, Points, VaryingIncidence
from .single import at


class BetweenBalls(AbstractContacts):
    """Contacts of balls at their closest points."""

    gap: Float[Array, "n n"]
    round_off: Float[Array, "n n"]
    normal: Vec3  # from the second ball (column) into the first (row), world
    distance: Float[Array, "n n"]  # of the centres [m]
    radius: Float[Array, " n"]  # [m]
    orientation: Quat  # (n,)
    start: int = eqx.field(static=True)  # the first ball among the bodies

    def _kinematics(self, phase, inertial):
        own = slice(self.start, self.start + self.radius.shape[0])
        mass = inertial.mass[own]
        velocity = jax.tree.map(lambda leaf: leaf[own], inertial.velocity(phase))
        relative = _columns(velocity) - _rows(velocity)
        rate = dot(self.normal, relative)
        across = jnp.maximum(dot(relative, relative) - rate**2, 0.0)
        inverse_mass = _columns(1 / mass) + _rows(1 / mass)
        return ContactKinematics(rate, inverse_mass, across / self.distance)

    def _push(self, phase, impulse, where, inertial):
        push = self.normal * jnp.where(where, impulse, 0.0)
        first, second = (jax.tree.map(lambda p, k=k: jnp.sum(p, axis=k), push) for k in (1, 0))
        others = (self.start, len(phase.position.x) - self.start - len(self.radius))
        change = jax.tree.map(lambda own: jnp.pad(own, others), first - second)
        return inertial.pushed(phase, change, zeros_like(phase.angular_momentum))

    def _chosen(self, phase, which):
        normal = at(which, self.normal)
        arms = []
        for body, sign in zip(self._bodies(which, phase), (-1, 1), strict=True):
            own = body[self.start : self.start + self.radius.shape[0]]
            turn = at(body, phase.orientation)
            arms.append((body, rotate_inverse(turn, normal) * (at(own, self.radius) * sign)))
        return Chosen(normal, tuple(arms), zeros_like(normal))

    def points(self):
        """Of all of the square: each contact from both sides, and no contact of a ball with
        itself, of which the gap is its diameter."""
        shape, zero = self.gap.shape, jnp.zeros_like(self.gap)

        def row(tree):
            return jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, shape).reshape(-1), tree)

        sides = []
        for place, spread, sign in zip(np.indices(shape), (_columns, _rows), (-1, 1), strict=True):
            bodies = Incidence(tuple((place.reshape(-1) + self.start).tolist()))
            turn, radius = spread((self.orientation, self.radius))
            arm = rotate_inverse(turn, self.normal) * (radius * sign)
            sides.append(Points(bodies, row(arm), row(Vec3(zero, zero, zero))))
        gap, round_off, normal = row((self.gap, self.round_off, self.normal))
        return (ContactPoints(gap, round_off, normal, tuple(sides)),)

    def _bodies(self, which: Bool[Array, "n n"], phase: Phase) -> list[Bool[Array, " n_bodies"]]:
        """Which body is the first of the contact for which `which` holds, and the second."""
        none = jnp.zeros(phase.position.x.shape, bool)
        end = self.start + self.radius.shape[0]
        return [none.at[self.start : end].set(jnp.any(which, axis=axis)) for axis in (1, 0)]


class BallContacts(AbstractContactSet):
    """The contacts of balls that are next to each other in the phase, each with every one."""

    radius: Float[Array, " n"]  # [m]
    start: int = eqx.field(static=True)  # the first ball among the bodies
    n_obstacles: int = eqx.field(static=True)

    @property
    def shape(self):
        return 2 * self.radius.shape

    @property
    def partners(self):
        n = self.radius.shape[0]
        return np.indices((n, n)).reshape(2, -1).T + self.start + np.array([0, self.n_obstacles])

    @property
    def searched(self):
        return False

    def _find(self, t, phase):
        n = self.radius.shape[0]
        position, orientation = jax.tree.map(
            lambda leaf: leaf[self.start : self.start + n], (phase.position, phase.orientation)
        )
        apart = _columns(position) - _rows(position)
        # Balls with one centre are as deep in each other along any normal.
        normal, distance = direction(apart)
        safe = jnp.where(distance > 0, distance, 1.0)
        radii = _columns(self.radius) + _rows(self.radius)
        gap = jnp.where(self._itself, radii, distance - radii)
        size = norm(position)
        round_off = 8 * jnp.finfo(gap.dtype).eps * (_columns(size) + _rows(size) + radii)
        return BetweenBalls(gap, round_off, normal, safe, self.radius, orientation, self.start)

    def leeway(self, phase):
        """Of the upper half of the square; half the gap, as both balls may move."""
        n = self.radius.shape[0]
        position = jax.tree.map(lambda leaf: leaf[self.start : self.start + n], phase.position)
        gap = (
            norm(_columns(position) - _rows(position)) - _columns(self.radius) - _rows(self.radius)
        )
        return jnp.where(np.triu(np.ones((n, n), bool), 1), 0.5 * gap, jnp.inf).reshape(-1)

    def only(self, numbers):
        n = jnp.int32(self.radius.shape[0])
        first, second = (
            (VaryingIncidence(ball + self.start), VaryingIncidence(ball).gather(self.radius))
            for ball in (jax.lax.div(numbers, n), jax.lax.rem(numbers, n))
        )
        return BallsInRow((first[0], second[0]), (first[1], second[1]))

    def unproved(self):
        return None

    def _clearance(self, found, phase, spin, inertial, gravity):
        own = slice(self.start, self.start + self.radius.shape[0])
        velocity, gravity = jax.tree.map(
            lambda leaf: leaf[own], (inertial.velocity(phase), gravity)
        )
        rate = dot(found.normal, _columns(velocity) - _rows(velocity))
        pull = dot(found.normal, _columns(gravity) - _rows(gravity))
        # A ball does not change when it turns.
        still = jnp.zeros_like(pull)
        apart = _columns(velocity) - _rows(velocity), _columns(gravity) - _rows(gravity)
        return Clearance(
            start=(found.normal, apart),
            gap=found.gap,
            rate=rate,
            balls=jnp.full_like(rate, -jnp.inf),
            balls_rate=rate,
            pull=pull,
            swing=still,
            speed=still,
            turn_bend=still,
        )

    def _views(self, clearance, found, phase):
        normal, _ = clearance.start
        itself, radii = self._itself, _columns(self.radius) + _rows(self.radius)
        along = dot(normal, found.normal) * found.distance
        none = jnp.full_like(found.gap, -jnp.inf)
        after = Separation(jnp.where(itself, radii, along - radii), none)
        return [View(Separation(clearance.gap, none), after, clearance.pull)]

    @property
    def _itself(self) -> np.ndarray:
        return np.eye(self.radius.shape[0], dtype=bool)

    def _proof(self, clearance, found, phase, duration, since, growth, tolerance):
        """Or by the shortest distance of the centres on the way, which is straight up to what
        gravity differs."""
        _, (velocity, gravity) = clearance.start
        end = found.normal * found.distance
        # From the end back to the start, along the chord.
        chord = (velocity + gravity * (0.5 * duration)) * duration
        length = dot(chord, chord)
        place = jnp.clip(dot(end, chord) / jnp.where(length > 0, length, 1.0), 0.0, 1.0)
        nearest = norm(end - chord * place)
        sag = norm(gravity) * duration**2 / 8
        radii = _columns(self.radius) + _rows(self.radius)
        passing = nearest - sag - radii >= -tolerance
        views = self._views(clearance, found, phase)
        proof = clearance.proof(views, duration, since, growth, tolerance)
        return proof._replace(holds=proof.holds | passing | self._itself)


class BetweenBallsInRow(AbstractInRow):
    """Contacts of balls, in a row."""

    gap: Float[Array, " n_contacts"]
    round_off: Float[Array, " n_contacts"]
    distance: Float[Array, " n_contacts"]  # of the centres [m]
    with_points: ContactPoints

    def _kinematics(self, phase, inertial):
        first, second = (
            side.incidence.gather((inertial.velocity(phase), inertial.mass))
            for side in self.with_points.sides
        )
        relative = first[0] - second[0]
        rate = dot(self.with_points.normal, relative)
        across = jnp.maximum(dot(relative, relative) - rate**2, 0.0)
        return ContactKinematics(rate, 1 / first[1] + 1 / second[1], across / self.distance)


class BallsInRow(AbstractContactSet):
    """Some contacts of balls, in a row that varies."""

    sides: tuple[VaryingIncidence, VaryingIncidence]
    radii: tuple[Float[Array, " n_contacts"], Float[Array, " n_contacts"]]  # [m]

    @property
    def shape(self):
        return self.radii[0].shape

    @property
    def partners(self):
        raise partners_vary()

    @property
    def searched(self):
        return False

    def expected(self, phase, inertial, gravity, duration):
        """When |d + v t| is the sum of the radii: centres move in lines relative to each other."""
        (x, u), (y, w) = (
            side.gather((phase.position, inertial.velocity(phase))) for side in self.sides
        )
        apart, relative, radii = x - y, u - w, self.radii[0] + self.radii[1]
        reach = radii + 0.5 * _round_off(x, y, radii)
        b, c = dot(apart, relative), dot(apart, apart) - reach**2
        square = dot(relative, relative)
        closed = c + (2 * b + square * duration) * duration < 0
        discriminant = b**2 - square * c
        hits = (c > 0) & (b < 0) & closed & (discriminant > 0)
        root = jnp.sqrt(jnp.where(hits, discriminant, 1.0))
        return jnp.where(hits, c / jnp.where(hits, root - b, 1.0), jnp.inf)

    def _find(self, t, phase):
        (x, turn), (y, other) = (
            side.gather((phase.position, phase.orientation)) for side in self.sides
        )
        normal, distance = direction(x - y)
        safe = jnp.where(distance > 0, distance, 1.0)
        radii = self.radii[0] + self.radii[1]
        round_off = _round_off(x, y, radii)
        none = zeros_like(normal)
        arms = (
            -rotate_inverse(turn, normal) * self.radii[0],
            rotate_inverse(other, normal) * self.radii[1],
        )
        sides = tuple(Points(side, arm, none) for side, arm in zip(self.sides, arms, strict=True))
        itself = self.sides[0].bodies == self.sides[1].bodies
        gap = jnp.where(itself, radii, distance - radii)
        points = ContactPoints(gap, round_off, normal, sides)
        return BetweenBallsInRow(gap=gap, round_off=round_off, distance=safe, with_points=points)


def _round_off(x: Vec3, y: Vec3, radii: Float[Array, "..."]) -> Float[Array, "..."]:
    """Of the gaps of balls with these centres [m]."""
    return 8 * jnp.finfo(radii.dtype).eps * (norm(x) + norm(y) + radii)


def _columns(tree):
    return jax.tree.map(lambda leaf: leaf[:, None], tree)


def _rows(tree):
    return jax.tree.map(lambda leaf: leaf[None, :], tree)
