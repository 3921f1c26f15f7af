"""A world as problems of contacts and joints see it: rows and masses of a phase."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from ..bodies import Dynamics, Phase
from ..bodies.forces import JointDampers, JointMotors
from ..bodies.joints.rows import JointRows
from ..contact import AbstractContacts, Stops, spanning
from ..contact.points import ContactPoints
from ..math import Vec3, dot, norm
from ..math.safe import safe_sqrt
from .along_joints import Dampers, Damping, Rotors, Rubbing
from .cone import ConeProblem, inverse3
from .contact_rows import ContactRows, Turning, inertia_arrays, stacked, velocities
from .rows import Links, Rows
from .tolerances import Tolerances
from .yielding import Yielding, endless


class Impulse(NamedTuple):
    """What acts between bodies at one time, or velocities along the same rows."""

    contact: Float[Array, "3 n_contacts"]  # [N s]
    joint: Float[Array, " n_rows"]  # [N s]


class Scene(eqx.Module):
    """What a step depends on besides the phase.

    Attributes:
        dynamics: masses, gravity and loads.
        contacts: what finds the contact points, by `find(t, phase)`; None where nothing can touch.
        friction: mu of each contact, then of what resists turning there, and of each joint with
            dry friction 1.
        joints: the rows of all joints, None without any.
        turning: what resists turning at contacts; None without any.
        damping: the dampers in joints and servos that are rows, not loads; None without any.
        sinks: whether what has penetrated stays where it is, and is not pushed out.
    """

    dynamics: Dynamics
    contacts: Any
    friction: Float[Array, " n_contacts"]
    joints: JointRows | None
    turning: Turning | None = None
    damping: Damping | None = None
    sinks: bool = eqx.field(static=True, default=False)

    @staticmethod
    def of(
        dynamics: Dynamics,
        contacts: Any,
        friction: Float[Array, " n_contacts"],
        joints: JointRows | None,
        turning: Turning | None,
        resistance: Float[Array, " n_turning"],
    ) -> Scene:
        """With the friction of contacts, and the largest torques of what resists turning over the
        normal forces [m]."""
        scene = Scene(dynamics, contacts, friction, joints, turning)
        if turning is not None:
            friction = jnp.concatenate([friction, resistance / turning.arc])
        if scene.rubbing is not None:
            friction = jnp.concatenate([friction, jnp.ones_like(scene.rubbing.arc)])
        return dataclasses.replace(scene, friction=friction)

    @property
    def rubbing(self) -> Rubbing | None:
        """The joints with dry friction; None without any."""
        if self.joints is None or self.joints.rubbing is None:
            return None
        coordinates = self.joints.rubbing
        return Rubbing(coordinates, JointRows.arcs(coordinates, self.dynamics.inertial))

    @property
    def rotors(self) -> Rotors | None:
        """Those geared to joints; None without any."""
        if self.joints is None or self.joints.geared is None:
            return None
        coordinates = self.joints.geared
        return Rotors(coordinates, JointRows.arcs(coordinates, self.dynamics.inertial))

    def with_dampers_in_rows(self) -> Scene:
        """With dampers in joints and servos among what holds them, in place of loads: a load that
        depends on velocities takes a body as if it were free, and may ask for steps that are short
        beside the body's inertia over the damping."""
        if self.joints is None:
            return self
        loads, groups = [], []
        if self.joints.damped is not None:
            groups.append((self.joints.damped, self.joints.damped.damping, None))
        driven = iter(self.joints.driven)
        for load in self.dynamics.loads:
            if isinstance(load, JointMotors) and load.is_servo:
                groups.append((next(driven), load.damping, load))
            elif not isinstance(load, JointDampers):
                loads.append(load)
        if not groups:
            return self
        arcs = partial(JointRows.arcs, inertial=self.dynamics.inertial)
        damping = Damping(tuple(Dampers(on, arcs(on), c, motor) for on, c, motor in groups))
        dynamics = dataclasses.replace(self.dynamics, loads=tuple(loads))
        return dataclasses.replace(self, dynamics=dynamics, damping=damping)

    def across(self, start, duration) -> Scene:
        """With contacts that tell how obstacles move from a time on [s]."""
        contacts = spanning(self.contacts, start, start + duration)
        return dataclasses.replace(self, contacts=contacts)

    def acceleration_scale(self, t, phase: Phase) -> Float[Array, ""]:
        """That of all loads, servos among them (see `Dynamics.acceleration_scale`)."""
        motors = () if self.damping is None else self.damping.motors
        dynamics = dataclasses.replace(self.dynamics, loads=(*self.dynamics.loads, *motors))
        return dynamics.acceleration_scale(t, phase)

    def find(self, t, phase: Phase) -> AbstractContacts | None:
        """The contacts at a time [s]; None where nothing can touch."""
        return None if self.contacts is None else self.contacts.find(t, phase)

    def rows(self, t, phase: Phase) -> ContactRows:
        """What acts between bodies at a time besides joints."""
        return self.rows_of(self.find(t, phase), phase)

    def rows_of(self, found: AbstractContacts | None, phase: Phase) -> ContactRows:
        """Likewise, where the contacts have been found."""
        return self.rows_of_points(() if found is None else found.points(), phase)

    def rows_of_points(self, points: Sequence[ContactPoints | Stops], phase: Phase) -> ContactRows:
        """Likewise, of contact points."""
        return ContactRows.of(points, phase, self.rubbing, self.turning)

    def beside_contacts(self, of_contacts: Array, value) -> Array:
        """Numbers of contacts, with one for what resists turning and for dry friction."""
        n_turning = 0 if self.turning is None else self.turning.arc.size
        n_rubbing = 0 if self.rubbing is None else self.rubbing.arc.size
        if n_turning + n_rubbing == 0:
            return of_contacts
        return jnp.concatenate(
            [of_contacts, jnp.full(n_turning + n_rubbing, value, of_contacts.dtype)]
        )

    def resisted(self, held: Bool[Array, " n_contacts"]) -> Bool[Array, " n_contacts"]:
        """The contacts that take part, what resists turning at them, and all dry friction."""
        if self.rubbing is not None:
            held = held.at[-self.rubbing.arc.size :].set(True)
        return self.of_sources(held)

    def of_sources(self, numbers: Array) -> Array:
        """Numbers of all items, where what resists turning has those of its contacts."""
        if self.turning is None:
            return numbers
        sources = np.array(self.turning.sources)
        end = numbers.size - (0 if self.rubbing is None else self.rubbing.arc.size)
        return numbers.at[end - len(sources) : end].set(numbers[sources])

    def pressed(self, time: Float[Array, ""] | float) -> Float[Array, " n_rubbing"]:
        """The largest impulses of dry friction in joints in a time [s], [N s]."""
        if self.rubbing is None:
            return jnp.zeros(0, self.dynamics.inertial.mass.dtype)
        return self.rubbing.largest * time

    def moved(self, rows: ContactRows, start: Phase, end: Phase, slip: Float[Array, "3 n"]):
        """Displacements along rows, with those of what turns, and of joints with dry friction [m].

        Args:
            rows: at the start.
            start, end: of the flight.
            slip: of the points of contacts.
        """
        after = slip.shape[1]
        if self.rubbing is not None:
            travel = self.rubbing.travel(start, end)
            after = after - travel.size
            slip = slip.at[1, after:].set(travel)
        if self.turning is not None:
            turned = self.turning.travel(rows, start, end)
            slip = slip.at[1:, after - turned.shape[1] : after].set(turned)
        return slip

    def seen_from(
        self, after: ContactRows, rows: ContactRows, slip: Float[Array, "3 n"]
    ) -> Float[Array, "3 n"]:
        """Slips along the tangents of the rows at the start, along those of the rows after."""
        start, end = (self._tangents(x.rates.direction[1:]) for x in (rows, after))
        vector = start[0] * slip[1][None] + start[1] * slip[2][None]
        return jnp.concatenate([jnp.zeros_like(slip[:1]), jnp.sum(end * vector[None], axis=1)])

    def _tangents(self, direction: Float[Array, "2 3 n"]) -> Float[Array, "2 3 n"]:
        """With those of the contacts at which turning is resisted, about which it is."""
        if self.turning is None:
            return direction
        end = direction.shape[-1] - (0 if self.rubbing is None else self.rubbing.arc.size)
        own = direction[..., np.array(self.turning.sources)]
        return direction.at[..., end - own.shape[-1] : end].set(own)

    def no_impulse(self, t, phase: Phase) -> Impulse:
        """Of as many contacts and rows of joints as there are; finds no contacts."""
        return self.nothing(jax.eval_shape(self.rows, t, phase))

    def nothing(self, rows: ContactRows) -> Impulse:
        """No impulse."""
        return Impulse(jnp.zeros_like(rows.drift), self.along_joint_rows())

    def along_joint_rows(
        self, held: Any = 0.0, of_rotors: Any = 0.0, of_dampers: Any = 0.0
    ) -> Float[Array, " n_rows"]:
        """Numbers of the rows of joints in their order: of those that hold, of rotors and of
        dampers; a single number is of all of a kind."""
        dtype = self.dynamics.inertial.mass.dtype
        counts = (
            (held, 0 if self.joints is None else self.joints.n_rows),
            (of_rotors, 0 if self.rotors is None else self.rotors.arc.size),
            (of_dampers, 0 if self.damping is None else self.damping.n_rows),
        )
        parts = [jnp.broadcast_to(jnp.asarray(x, dtype), (n,)) for x, n in counts if n]
        return jnp.concatenate(parts) if parts else jnp.zeros(0, dtype)

    def joints_moved(self, start: Phase, begun: Phase, end: Phase, time) -> Float[Array, " n_rows"]:
        """What the equations of joints at the start of a flight are of, as velocities [m/s]: the
        violation at its end, the mean speed of rotors less that at the start, and that of dampers.

        Args:
            start, begun: of the flight, before the impulses there and after them.
            end: of the flight.
            time: its duration [s].
        """
        if self.joints is None:
            return self.along_joint_rows()
        of_rotors = of_dampers = 0.0
        if self.rotors is not None:
            speed = self.rotors.speed(start, self.dynamics.inertial)
            of_rotors = self._rotor_speed(begun, end, time) - speed
        if self.damping is not None:
            of_dampers = self.damping.travel(start, end) / time
        return self.along_joint_rows(self.joints.violation(end) / time, of_rotors, of_dampers)

    def rotors_moved(self, begun: Phase, end: Phase, time) -> Float[Array, " n_rows"]:
        """The mean speed of rotors in a flight, and nothing of other rows of joints [m/s]."""
        if self.rotors is None:
            return self.along_joint_rows()
        return self.along_joint_rows(of_rotors=self._rotor_speed(begun, end, time))

    def _rotor_speed(self, begun: Phase, end: Phase, time) -> Float[Array, " n_rotors"]:
        """The mean speed of rotors in a flight: what they move in it, over its duration.

        In a flight so short that it is lost in the round-off of places, as between two impacts
        that nearly coincide, it is the mean of the speeds at both ends, which is the same there.
        """
        assert self.rotors is not None
        inertial = self.dynamics.inertial
        speeds = jnp.stack([self.rotors.speed(phase, inertial) for phase in (begun, end)])
        way = jax.lax.stop_gradient(jnp.max(jnp.abs(speeds), axis=0) * time)
        short = way <= jnp.finfo(way.dtype).eps ** 0.5 * self.rotors.arc
        return jnp.where(short, jnp.mean(speeds, axis=0), self.rotors.travel(begun, end) / time)

    def damping_for(self, time: Float[Array, ""] | float) -> Float[Array, " n_dampers"]:
        """The impulses of dampers and servos in a time [s] over their velocities [kg]."""
        if self.damping is None:
            return jnp.zeros(0, self.dynamics.inertial.mass.dtype)
        return self.damping.coefficient * time

    def servo_force(self, t, phase: Phase) -> Float[Array, " n_dampers"]:
        """What servos have at no velocity, without limits, and dampers have not [N]."""
        if self.damping is None:
            return self.damping_for(0.0)
        return self.damping.force(t, phase, self.dynamics)

    def of_dampers(self, time, force: Float[Array, " n_dampers"]) -> Yielding:
        """The law of dampers and servos that act for a time [s], which may differ among them.

        Args:
            time: [s].
            force: `servo_force` at its middle.
        """
        limits = None if self.damping is None else self.damping.limits
        if limits is None:
            return Yielding(self.damping_for(time), force * time, None)
        times = jnp.broadcast_to(jnp.asarray(time, force.dtype), force.shape)[None]
        bounds = jnp.where(times > 0, limits, 0.0) * times  # infinite ones have no multiple by 0
        return Yielding(self.damping_for(time), force * time, bounds)

    def yielding(self, time, force: Float[Array, " n_dampers"]) -> Yielding:
        """The law of all rows of joints that yield: of rotors, too, by what their speed changes."""
        own = self.of_dampers(time, force)
        if self.rotors is None:
            return own
        mass = self.rotors.mass
        return Yielding(
            jnp.concatenate([mass, own.resistance]),
            jnp.concatenate([jnp.zeros_like(mass), own.push]),
            None if own.bounds is None else jnp.concatenate([endless(mass), own.bounds], axis=1),
        )

    @staticmethod
    def acts(t, duration) -> Bool[Array, ""]:
        """Whether contacts can act in a flight: not in one of no duration, or of none to round-off,
        as a world of a batch that has ended is flown."""
        return t + duration > t

    @jax.jit  # a program uses it many times and traces it once
    def problem(
        self,
        rows: ContactRows,
        phase: Phase,
        bias: Impulse,
        active: Bool[Array, " n_contacts"],
        time: Float[Array, ""] | float = 0.0,
        yielding: Yielding | None = None,
    ) -> ConeProblem:
        """The cone problem of a phase, whose velocities are those without impulses.

        Args:
            rows: of contacts, of this phase.
            phase: its joints' rows and velocities.
            bias: what is added to the velocities along the rows [m/s].
            active: the contacts that take part.
            time: for which dry friction in joints acts [s].
            yielding: the law of the rows of joints that yield, by velocities with the bias; None:
                that of an impact, in which dampers do not act, and rotors by the change of their
                speeds.
        """
        inertial, pressed = self.dynamics.inertial, self.pressed(time)
        drift = bias.joint
        if yielding is None:
            yielding = self.yielding(0.0, self.damping_for(0.0))
            if self.rotors is not None:
                drift = drift - self.along_joint_rows(of_rotors=self.rotors.speed(phase, inertial))
        if pressed.size:
            active = active.at[-pressed.size :].set(active[-pressed.size :] & (pressed > 0))
        inertia, joints = inertia_arrays(inertial), self.joint_rows(phase)
        return ConeProblem(
            inertial.mass,
            inertia,
            inverse3(inertia),
            rows.rows,
            rows.rates,
            self.friction,
            bias.contact,
            active,
            joints,
            joints,
            drift,
            velocities(phase, inertial),
            jnp.zeros(1, rows.gap.dtype),
            pressed,
            yielding,
            () if self.turning is None else self.turning.sources,
        )

    def round_off(self, rows: ContactRows, held: Bool[Array, " n_contacts"], phase: Phase):
        """The largest error of gaps of contacts held, and of joints [m]."""
        largest = jnp.max(jnp.where(held, rows.round_off, 0.0), initial=0.0)
        if self.joints is None:
            return largest
        sides = self.joints.jacobian(phase).sides
        arms = jnp.max(jnp.stack([jnp.max(norm(side.lever)) for side in sides]))
        size = jnp.max(norm(phase.position)) + arms
        return jnp.maximum(largest, 8 * jnp.finfo(size.dtype).eps * size)

    def left_open(self, t, phase: Phase, duration) -> Float[Array, ""]:
        """By how much a step may leave gaps open that is solved as well as it need be, in float32
        more than gaps are exact [m]."""
        scale, inertial = self.acceleration_scale(t, phase), self.dynamics.inertial
        v, omega = inertial.velocity(phase), inertial.angular_velocity(phase)
        squared = dot(v, v) + dot(phase.angular_momentum, omega) / inertial.mass
        # About the unit of the velocities of the step's problems, and not less.
        speed = 2 * (safe_sqrt(jnp.max(squared)) + scale * duration)
        return jax.lax.stop_gradient(Tolerances.of(speed.dtype).allowed * speed * duration)

    def joint_rows(self, phase: Phase) -> Rows:
        """The rows of all joints."""
        n_bodies = phase.position.x.shape[0]
        if self.joints is None:
            none = jnp.zeros((1, 3, 0), phase.position.x.dtype)
            return Rows(none, (none, none), Links((), n_bodies))
        directions = self.joints.jacobian(phase)
        if self.rotors is not None:
            directions = directions.followed_by(self.rotors.directions(phase))
        if self.damping is not None:
            directions = directions.followed_by(self.damping.directions(phase))
        first, second = directions.sides
        sides = zip(first.incidence.bodies, second.incidence.bodies, strict=True)
        levers = (_row(first.lever), -_row(second.lever))
        return Rows(_row(first.linear), levers, Links(tuple(sides), n_bodies))


def _row(vector: Vec3) -> Float[Array, "1 3 n"]:
    return stacked(vector)[None]
