"""A world as problems of contacts and joints see it: rows and masses of a phase."""

from __future__ import annotations

from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from ..bodies import Dynamics, Phase
from ..bodies.joints.rows import JointRows
from ..contact import AbstractContacts
from ..math import Vec3, norm
from .cone import ConeProblem, inverse3
from .contact_rows import ContactRows, Rubbing, inertia_arrays, stacked, velocities
from .rows import Links, Rows


class Impulse(NamedTuple):
    """What acts between bodies at one time, or velocities along the same rows."""

    contact: Float[Array, "3 n_contacts"]  # [N s]
    joint: Float[Array, " n_rows"]  # [N s]


class Scene(eqx.Module):
    """What a step depends on besides the phase.

    Attributes:
        dynamics: masses, gravity and loads.
        contacts: what finds the contact points, by `find(t, phase)`; None where nothing can touch.
        friction: mu of each contact, and of each joint with dry friction 1.
        joints: the rows of all joints, None without any.
    """

    dynamics: Dynamics
    contacts: Any
    friction: Float[Array, " n_contacts"]
    joints: JointRows | None

    @property
    def rubbing(self) -> Rubbing | None:
        """The joints with dry friction; None without any."""
        if self.joints is None or self.joints.rubbing is None:
            return None
        coordinates = self.joints.rubbing
        return Rubbing(coordinates, JointRows.arcs(coordinates, self.dynamics.inertial))

    def find(self, t, phase: Phase) -> AbstractContacts | None:
        """The contacts at a time [s]; None where nothing can touch."""
        return None if self.contacts is None else self.contacts.find(t, phase)

    def rows(self, t, phase: Phase) -> ContactRows:
        """What acts between bodies at a time besides joints."""
        return self.rows_of(self.find(t, phase), phase)

    def rows_of(self, found: AbstractContacts | None, phase: Phase) -> ContactRows:
        """Likewise, where the contacts have been found."""
        return ContactRows.of(() if found is None else found.points(), phase, self.rubbing)

    def with_rubbing(self, of_contacts: Array, value) -> Array:
        """Numbers of contacts, with one of each joint with dry friction."""
        if self.rubbing is None:
            return of_contacts
        return jnp.concatenate([of_contacts, jnp.full(self.rubbing.arc.shape, value)])

    def rubs(self, held: Bool[Array, " n_contacts"]) -> Bool[Array, " n_contacts"]:
        """The contacts that take part, and all joints with dry friction."""
        if self.rubbing is None:
            return held
        return held.at[-self.rubbing.arc.size :].set(True)

    def pressed(self, time: Float[Array, ""] | float) -> Float[Array, " n_rubbing"]:
        """The largest impulses of dry friction in joints in a time [s], [N s]."""
        if self.rubbing is None:
            return jnp.zeros(0, self.dynamics.inertial.mass.dtype)
        return self.rubbing.largest * time

    def moved(self, start: Phase, end: Phase, slip: Float[Array, "3 n_contacts"]):
        """Displacements along rows, with those along the joints with dry friction [m]."""
        if self.rubbing is None:
            return slip
        travel = self.rubbing.travel(start, end)
        return slip.at[1, -travel.size :].set(travel)

    def nothing(self, rows: ContactRows) -> Impulse:
        """No impulse."""
        n_rows = 0 if self.joints is None else self.joints.n_rows
        return Impulse(jnp.zeros_like(rows.drift), jnp.zeros(n_rows, rows.drift.dtype))

    def violation(self, phase: Phase) -> Float[Array, " n_rows"]:
        """Of the joints [m]."""
        none = jnp.zeros(0, phase.position.x.dtype)
        return none if self.joints is None else self.joints.violation(phase)

    def problem(
        self,
        rows: ContactRows,
        phase: Phase,
        bias: Impulse,
        active: Bool[Array, " n_contacts"],
        time: Float[Array, ""] | float = 0.0,
    ) -> ConeProblem:
        """The cone problem of a phase, whose velocities are those without impulses.

        Args:
            rows: of contacts, of this phase.
            phase: its joints' rows and velocities.
            bias: what is added to the velocities along the rows [m/s].
            active: the contacts that take part.
            time: for which dry friction in joints acts [s].
        """
        inertial, pressed = self.dynamics.inertial, self.pressed(time)
        if pressed.size:
            active = active & self.with_rubbing(jnp.ones_like(active[: -pressed.size]), pressed > 0)
        inertia, joints = inertia_arrays(inertial), self.joint_rows(phase)
        return ConeProblem(
            inertial.mass,
            inertia,
            inverse3(inertia),
            rows.rows,
            rows.rows,
            self.friction,
            bias.contact,
            active,
            joints,
            joints,
            bias.joint,
            velocities(phase, inertial),
            pressed,
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

    def joint_rows(self, phase: Phase) -> Rows:
        """The rows of all joints."""
        n_bodies = phase.position.x.shape[0]
        if self.joints is None:
            none = jnp.zeros((1, 3, 0), phase.position.x.dtype)
            return Rows(none, (none, none), Links((), n_bodies))
        first, second = self.joints.jacobian(phase).sides
        sides = zip(first.incidence.bodies, second.incidence.bodies, strict=True)
        levers = (_row(first.lever), -_row(second.lever))
        return Rows(_row(first.linear), levers, Links(tuple(sides), n_bodies))


def _row(vector: Vec3) -> Float[Array, "1 3 n"]:
    return stacked(vector)[None]
