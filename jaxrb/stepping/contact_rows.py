"""Contact points, stops of joints and dry friction in them as rows of a velocity problem.

Resistance to rolling is an item beside its contact, which is pressed as much as that is, but whose
normal impulse acts on nothing, and whose tangents are torques. As the contact's its normal row
measures the gap, so that one law and one solver serve both.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..bodies import Inertial, Phase
from ..bodies.joints.ends import Directions
from ..contact import Stops
from ..contact.points import ContactPoints, Points
from ..math import Quat, Vec3, cross, dot, norm, rotate, rotate_inverse, tree_where, zeros_like
from ..math.materialize import compute_once
from .along_joints import Rubbing
from .carrying import Carrying
from .rows import WORLD, Links, Rows
from .tolerances import Tolerances

# Of the height of normals at which the tangents change their signs.
_TURNED = -0.65


class Turning(eqx.Module):
    """What resists rolling, about both tangents of a contact, and spinning about its normal.

    Attributes:
        rolling, spinning: the contacts with such resistance, by their places in the row.
        arc: length that stands for a unit of angle [m], of each item.
    """

    rolling: tuple[int, ...] = eqx.field(static=True)
    spinning: tuple[int, ...] = eqx.field(static=True)
    arc: Float[Array, " n_turning"]

    @property
    def sources(self) -> tuple[int, ...]:
        """The contact by which each item is pressed."""
        return self.rolling + self.spinning

    def axes(self, direction: Float[Array, "3 3 n_contacts"]) -> tuple[Vec3, Vec3]:
        """Of the axes of contacts those about which each item acts, first of both tangents; times
        the length of a unit, zero where there is no second one."""
        own, rolls = direction[..., np.array(self.sources)], self._rolls
        first = jnp.where(rolls, own[1], own[0]) * self.arc[None]
        second = jnp.where(rolls, own[2], 0.0) * self.arc[None]
        return Vec3(first[0], first[1], first[2]), Vec3(second[0], second[1], second[2])

    @property
    def _rolls(self) -> np.ndarray:
        return (np.arange(len(self.sources)) < len(self.rolling))[None]

    def travel(self, rows: ContactRows, start: Phase, end: Phase) -> Float[Array, "2 n_turning"]:
        """How far bodies turn about the axes at the start, as lengths [m]: twice the sine of half
        the angle, which has the direction of a turn by less than a whole one, and is zero without.
        """
        turned = end.orientation * start.orientation.conjugate()
        turn = turned.v * jnp.where(turned.w < 0, -2.0, 2.0).astype(turned.w.dtype)
        axes, sources = self.axes(rows.rows.direction), np.array(self.sources)
        travelled = jnp.zeros((2, len(sources)), self.arc.dtype)
        for sign, column in zip((1, -1), rows.rows.links.columns, strict=True):
            own = rows.of_bodies(turn, column[sources])
            along = jnp.stack([dot(axis, own) for axis in axes])
            moves = column[sources] < turn.x.shape[0]
            travelled = travelled + sign * jnp.where(moves, along, 0.0)
        return travelled


class ContactRows(eqx.Module):
    """The points at which bodies touch what they can, then what acts in joints, in one row.

    A stop of a joint has only a normal, dry friction only a first tangent: the other rows are zero.
    Between both are the items that resist turning.

    Attributes:
        gap, round_off: [m].
        rows: three for each contact, the normal first, along which impulses act.
        rates: rows along which velocities are measured: of items that resist turning, the normal
            velocity is that of their contact.
        arms: of both sides from the centre of mass to the point, body frames [m]; 0 of the world.
            Levers are to the middle between both.
        drift: velocity of the surface of obstacles, along the rows [m/s], shape (3, n_contacts).
        carrying: how these move in a step, if it asks for it; None where no obstacle moves.
    """

    gap: Float[Array, " n_contacts"]
    round_off: Float[Array, " n_contacts"]
    rows: Rows
    rates: Rows
    arms: tuple[Vec3, Vec3]
    drift: Float[Array, "3 n_contacts"]
    turning: Turning | None
    carrying: Carrying | None = None

    @staticmethod
    def of(
        points: Sequence[ContactPoints | Stops],
        phase: Phase,
        rubbing: Rubbing | None = None,
        turning: Turning | None = None,
    ) -> ContactRows:
        """Of all contact points of a phase, what resists turning at them, and the joints with dry
        friction."""
        n_bodies = phase.position.x.shape[0]
        found = [_of_stops(x) if isinstance(x, Stops) else _row(x, phase) for x in points]
        n_points = sum(len(x.gap) for x in points if not isinstance(x, Stops))
        at = n_contacts = sum(len(pairs) for pairs, _ in found)
        if turning is not None:
            found.append(_turning(turning, *_joined(found), phase))
            at += len(turning.sources)
        if rubbing is not None:
            found.append(_along(rubbing.directions(phase), 1))
        if not found:
            return ContactRows._none(phase)
        sides, numbers = _joined(found)
        gap, round_off, direction, levers, arms, drift = numbers
        links = Links(sides, n_bodies, len(sides) - n_points)
        rates = rows = Rows(direction, levers, links)
        if turning is not None:
            acts = np.ones((3, 1, len(sides)), bool)
            acts[0, 0, n_contacts:at] = False
            acting = lambda x: jnp.where(acts, x, 0.0)  # noqa: E731
            rows = Rows(acting(direction), (acting(levers[0]), acting(levers[1])), links)
        carrying = Carrying.of(points, direction, () if turning is None else turning.sources)
        return ContactRows(gap, round_off, rows, rates, arms, drift, turning, carrying)

    @staticmethod
    def _none(phase: Phase) -> ContactRows:
        none = jnp.zeros(0, phase.position.x.dtype)
        wide = jnp.zeros((3, 3, 0), none.dtype)
        arm = Vec3(none, none, none)
        rows = Rows(wide, (wide, wide), Links((), phase.position.x.shape[0]))
        return ContactRows(none, none, rows, rows, (arm, arm), wide[0], None)

    @property
    def before(self) -> Float[Array, "3 n_contacts"]:
        """The velocity of obstacles at the start of a step, along the rows [m/s]."""
        return self.drift if self.carrying is None else self.carrying.before

    @property
    def after(self) -> Float[Array, "3 n_contacts"]:
        """The velocity of obstacles at the end of a step, along the rows [m/s]."""
        return self.drift if self.carrying is None else self.carrying.after

    def places(self, phase: Phase) -> tuple[Vec3, Vec3]:
        """Where the material points of both sides are in a phase, world [m]; 0 of the world."""
        columns, found = self.rows.links.columns, []
        n_bodies = self.rows.links.n_bodies
        for arm, column in zip(self.arms, columns, strict=True):
            of_body = column < n_bodies
            own = self.of_bodies((phase.position, phase.orientation), column)
            place = own[0] + rotate(own[1], arm)
            found.append(jax.tree.map(lambda x, m=of_body: jnp.where(m, x, 0.0), place))
        return found[0], found[1]

    def rolled(self, after: ContactRows) -> ContactRows:
        """With arms in the mean of a flight, at whose end contacts are these.

        The material point that touches at the start moves aside by the square of the step where a
        body rolls and spins, that which touches at the end as much to the other side. What has no
        place at the end is far off there, and does not count.
        """
        size = jnp.maximum(*(dot(arm, arm) for arm in self.arms))
        near = jnp.maximum(after.gap, 0.0) ** 2 <= size
        arms = []
        for arm, last in zip(self.arms, after.arms, strict=True):
            arms.append(tree_where(near, (arm + last) * 0.5, arm))
        return dataclasses.replace(self, arms=(arms[0], arms[1]))

    def least_speed(
        self, acceleration: Float[Array, ""], phase: Phase, inertial: Inertial
    ) -> Float[Array, " n_contacts"]:
        """The speeds that can be told from none [m/s]: of bounces under an acceleration [m/s^2]
        that are higher than gaps are exact; and, where nothing accelerates, those to which
        impacts are solved."""
        relative = self.rates.velocity(velocities(phase, inertial)) - self.drift
        solved = Tolerances.of(relative.dtype).allowed * jnp.max(jnp.abs(relative), initial=0.0)
        return jnp.maximum(jnp.sqrt(acceleration * self.round_off), solved)

    def slip(self, start: Phase, end: Phase) -> Float[Array, "3 n_contacts"]:
        """How far the points of both sides slip in a flight, along the axes at its start [m]."""
        (a, b), (a1, b1) = self.places(start), self.places(end)
        return self.along((a1 - a) - (b1 - b))

    def slip_error(self, phase: Phase) -> Float[Array, " n_contacts"]:
        """What round-off of places may make of it [m].

        That of gaps is less: the distance of a plane does not depend on the place along it.
        """
        sizes, n_bodies = [], self.rows.links.n_bodies
        for arm, column in zip(self.arms, self.rows.links.columns, strict=True):
            size = norm(self.of_bodies(phase.position, column)) + 2 * norm(arm)
            sizes.append(jnp.where(column < n_bodies, size, 0.0))
        return 2 * jnp.finfo(self.gap.dtype).eps * (sizes[0] + sizes[1])

    def displaced(self, end: ContactRows, phase: Phase) -> Rows:
        """How the displacements of a step depend on how bodies move at its end: gaps there, and
        the slip of the points of its contacts, along the axes at its start.

        Args:
            end: the contacts at the end.
            phase: there.
        """
        levers, links = [], self.rates.links
        of_points = np.arange(len(links)) < len(links) - links.single
        for arm, lever, column in zip(self.arms, end.rates.levers, links.columns, strict=True):
            turn = self.of_bodies(phase.orientation, column)
            tangents = [
                stacked(cross(arm, rotate_inverse(turn, Vec3(*self.rates.direction[k]))))
                for k in (1, 2)
            ]
            moves = column < phase.position.x.shape[0]
            own = jnp.where(moves, jnp.stack(tangents), 0.0)
            own = jnp.where(of_points, own, lever[1:])
            levers.append(jnp.concatenate([lever[:1], own]))
        across = jnp.where(of_points, self.rates.direction[1:], end.rates.direction[1:])
        direction = jnp.concatenate([end.rates.direction[:1], across])
        return Rows(direction, (levers[0], levers[1]), links)

    @staticmethod
    def of_bodies(tree, column):
        """What each body has, for each contact; of the world that of some body."""
        last = jax.tree.leaves(tree)[0].shape[0] - 1
        return jax.tree.map(lambda leaf: leaf[np.minimum(column, last)], tree)

    def along(self, vector: Vec3) -> Float[Array, "3 n_contacts"]:
        """A vector's components in the frames of the contacts."""
        d = self.rows.direction
        return d[:, 0] * vector.x[None] + d[:, 1] * vector.y[None] + d[:, 2] * vector.z[None]


def _joined(found: list):
    """The bodies of all items, and their numbers in one row."""
    sides = [pair for pairs, _ in found for pair in pairs]
    join = lambda *leaves: jnp.concatenate(leaves, axis=-1)  # noqa: E731
    return sides, jax.tree.map(join, *(numbers for _, numbers in found))


def _turning(turning: Turning, sides: list, numbers, phase: Phase):
    """What `_row` gives of contact points, of what resists turning at some of them; normal rows
    are those of the contacts."""
    gap, round_off, direction, levers, _, drift = numbers
    sources = np.array(turning.sources)
    own = [sides[source] for source in turning.sources]
    zero = jnp.zeros((2, 3, len(own)), gap.dtype)
    found = []
    for lever, column in zip(levers, np.array(own).T, strict=True):
        moves = column != WORLD
        turn = ContactRows.of_bodies(phase.orientation, np.where(moves, column, 0))
        about = [stacked(rotate_inverse(turn, axis)) for axis in turning.axes(direction)]
        about = jnp.where(moves, jnp.stack(about), 0.0)
        found.append(jnp.concatenate([lever[:1, :, sources], about]))
    arm = Vec3(zero[0, 0], zero[0, 0], zero[0, 0])
    return own, (
        gap[sources],
        round_off[sources],
        jnp.concatenate([direction[:1, :, sources], zero]),
        tuple(found),
        (arm, arm),
        jnp.concatenate([drift[:1, sources], zero[:, 0]]),
    )


def _row(points: ContactPoints, phase: Phase):
    """The bodies of each contact, and its numbers in the order of `ContactRows`."""
    axes = frame(points.normal)
    bodies, levers, arms = [], [], []
    for side, shift in zip(points.sides, _to_place(points, phase), strict=True):
        lever, arm = _side(side, axes, phase, shift)
        bodies.append(side.incidence.bodies)
        levers.append(lever)
        arms.append(arm)
    if len(points.sides) == 1:
        bodies.append((WORLD,) * len(bodies[0]))
        levers.append(jnp.zeros_like(levers[0]))
        arms.append(zeros_like(arms[0]))
    direction = jnp.stack([stacked(axis) for axis in axes])
    drift = jnp.zeros_like(direction[:, 0])
    if points.surface is not None:
        moving = points.surface.velocity
        drift = jnp.stack([dot(axis, moving) for axis in axes])
    pairs = list(zip(*bodies, strict=True))
    numbers = (points.gap, points.round_off, direction, tuple(levers), tuple(arms), drift)
    return pairs, numbers


def _of_stops(stops: Stops):
    """What `_row` gives of contact points."""
    pairs, (_, _, *others) = _along(stops.directions, 0)
    return pairs, (stops.gap, stops.round_off, *others)


def _along(directions: Directions, which: int):
    """What `_row` gives of contact points, of items that have one of the three rows alone."""
    first, second = directions.sides
    own = np.arange(3)[:, None, None] == which
    alone = lambda row: jnp.where(own, stacked(row)[None], 0.0)  # noqa: E731
    zero = zeros_like(first.linear)
    levers = (alone(first.lever), -alone(second.lever))
    numbers = (zero.x, zero.x, alone(first.linear), levers, (zero, zero), stacked(zero))
    return list(zip(first.incidence.bodies, second.incidence.bodies, strict=True)), numbers


def _to_place(points: ContactPoints, phase: Phase):
    """How far the place at which bodies act on each other is along the normal from the point of
    each side [m]: the middle for both, or as high as the middle of the deepest contact of the same
    pair. Obstacles are met at the point of the body.

    So their impulses turn them by as much as they turn back, and the velocities along the tangents
    of all points of a face are those of one rigid motion: one that sticks at some sticks at all.
    That holds while faces tilt, as one of them does when the other is struck beside its middle: of
    places that are not in one plane across the normal it would ask for no tilting, too.
    """
    if len(points.sides) == 1:
        return (None,)
    first, second = points.sides
    size = jnp.maximum(*(dot(side.point, side.point) for side in points.sides))
    # What is far apart has no such place, and does not count.
    near = points.gap**2 <= size
    half = jnp.where(near, 0.5 * points.gap, 0.0)
    pairs = list(zip(first.incidence.bodies, second.incidence.bodies, strict=True))
    of_pairs = Links(pairs, phase.position.x.shape[0]).of_pairs
    if of_pairs is None:
        return -half, half
    table, owner = of_pairs
    turn = second.incidence.gather(phase.orientation)
    height = compute_once(dot(second.point, rotate_inverse(turn, points.normal)) + half)
    gaps, heights = (jnp.append(x, jnp.inf)[table] for x in (points.gap, height))
    deepest = jnp.argmin(gaps, axis=1)[:, None] == np.arange(table.shape[1])[None]
    gap, level = (jnp.sum(jnp.where(deepest, x, 0.0), axis=1)[owner] for x in (gaps, heights))
    # On a face places differ by half the difference of the gaps; points of other normals are
    # elsewhere.
    aside, apart = level - height, points.gap - gap
    allowed = 0.51 * jnp.abs(apart) + 8 * jnp.finfo(apart.dtype).eps * jnp.sqrt(size)
    aside = jnp.where(near & (jnp.abs(aside) <= allowed), aside, 0.0)
    return aside - half, aside + half


def _side(side: Points, axes: tuple[Vec3, Vec3, Vec3], phase: Phase, shift):
    turn: Quat = side.incidence.gather(phase.orientation)
    own = compute_once([rotate_inverse(turn, axis) for axis in axes])
    place = side.point if shift is None else compute_once(side.point + own[0] * shift)
    return jnp.stack([stacked(cross(place, axis)) for axis in own]), side.point


def stacked(vector: Vec3) -> Float[Array, "3 n"]:
    """Its components as the first axis."""
    return jnp.stack([vector.x, vector.y, vector.z])


def frame(normal: Vec3) -> tuple[Vec3, Vec3, Vec3]:
    """The normal and two tangents, right-handed, without a branch that a pole needs (Duff et al.,
    "Building an orthonormal basis, revisited", 2017).

    Where they change their signs is far from level and upright normals: at those of walls, of which
    round-off says whether they look up, impulses of the step before would be none of this one.
    """
    x, y, z = normal.x, normal.y, normal.z
    sign = jnp.where(z >= _TURNED, 1.0, -1.0).astype(z.dtype)
    a = -1 / (sign + z)
    b = x * y * a
    first = Vec3(1 + sign * x * x * a, sign * b, -sign * x)
    return normal, first, Vec3(b, sign + y * y * a, -y)


def velocities(phase: Phase, inertial: Inertial) -> Float[Array, "6 n_bodies"]:
    """Of all bodies, as a velocity problem has them."""
    linear, angular = inertial.velocity(phase), inertial.angular_velocity(phase)
    return jnp.concatenate([stacked(linear), stacked(angular)])


def pushed(phase: Phase, momentum: Float[Array, "6 n_bodies"], inertial: Inertial) -> Phase:
    """A phase with momenta added: of the centres of mass, world, and about them, body frames."""
    return inertial.pushed(phase, Vec3(*momentum[:3]), Vec3(*momentum[3:]))


def inertia_arrays(inertial: Inertial) -> Float[Array, "3 3 n_bodies"]:
    """The inertia tensors, body frames [kg m^2]."""
    rows = inertial.inertia.rows()
    return jnp.stack([stacked(row) for row in (rows.row1, rows.row2, rows.row3)])


def gyroscopic(inertial: Inertial, phase: Phase) -> Float[Array, "3 3 n_bodies"]:
    """The derivative of Omega x J Omega by Omega, columns e_i x J Omega + Omega x J e_i (eq:112 of
    the Siconos notes on Newton and Euler's equations)."""
    omega, momentum = inertial.angular_velocity(phase), phase.angular_momentum
    rows = inertial.inertia.rows()
    one, zero = jnp.ones_like(omega.x), jnp.zeros_like(omega.x)
    axes = (Vec3(one, zero, zero), Vec3(zero, one, zero), Vec3(zero, zero, one))
    columns = []
    for axis, row in zip(axes, (rows.row1, rows.row2, rows.row3), strict=True):
        column = cross(axis, momentum) + cross(omega, row)
        columns.append(jnp.stack([column.x, column.y, column.z]))
    return jnp.stack(columns, axis=1)
