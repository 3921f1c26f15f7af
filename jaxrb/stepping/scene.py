"""A world as problems of contacts and joints see it: rows and masses of a phase."""

from __future__ import annotations

from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from ..bodies import Dynamics, Phase
from ..bodies.joints.rows import JointRows
from ..math import Vec3, norm
from .cone import ConeProblem, inverse3
from .contact_rows import ContactRows, inertia_arrays, stacked, velocities
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
        friction: mu of each contact.
        joints: the rows of all joints, None without any.
    """

    dynamics: Dynamics
    contacts: Any
    friction: Float[Array, " n_contacts"]
    joints: JointRows | None

    def rows(self, t, phase: Phase) -> ContactRows:
        """The contact points at a time."""
        points = () if self.contacts is None else self.contacts.find(t, phase).points()
        return ContactRows.of(points, phase)

    def nothing(self, rows: ContactRows) -> Impulse:
        """No impulse."""
        n_rows = 0 if self.joints is None else self.joints.n_rows
        return Impulse(jnp.zeros_like(rows.drift), jnp.zeros(n_rows, rows.drift.dtype))

    def violation(self, phase: Phase) -> Float[Array, " n_rows"]:
        """Of the joints [m]."""
        none = jnp.zeros(0, phase.position.x.dtype)
        return none if self.joints is None else self.joints.violation(phase)

    def problem(
        self, rows: ContactRows, phase: Phase, bias: Impulse, active: Bool[Array, " n_contacts"]
    ) -> ConeProblem:
        """The cone problem of a phase, whose velocities are those without impulses.

        Args:
            rows: of contacts, of this phase.
            phase: its joints' rows and velocities.
            bias: what is added to the velocities along the rows [m/s].
            active: the contacts that take part.
        """
        inertial = self.dynamics.inertial
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
