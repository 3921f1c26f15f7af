"""The forces of contacts that last, of a state."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from ..bodies import Phase, State
from ..stepping.contact_rows import velocities
from .method import AbstractMethod
from .system import System, partners
from .world import World

# The modes of a contact.
OPEN, STICK, SLIP = range(3)
# Slip is none below this part of the speed that loads give a body in a step.
_NONE = 1e-9


class ContactForces(eqx.Module):
    """Forces at the contact points of a world, of which each pair of solids has one or several.

    `Solution.contacts` has a leading axis over the times saved, on all but `partners`.

    Attributes:
        force: on the body of each contact, along the axes [N], shape (n_contacts, 3).
        gap: [m], shape (n_contacts,).
        mode: 0 where a contact is open, 1 where it sticks, 2 where it slides.
        point: of the body, world frame [m], shape (n_contacts, 3).
        axes: the normal into the body and two tangents, world frame, shape (n_contacts, 3, 3).
        solved: whether the forces were found; they are NaN if not.
        residual: of the law of contact and of joints, relative to the largest velocity along them.
        partners: of each contact its body, and what it touches: an obstacle by its index, or a
            body by its own and the number of obstacles.
    """

    force: Float[Array, "n_contacts 3"]
    gap: Float[Array, " n_contacts"]
    mode: Int[Array, " n_contacts"]
    point: Float[Array, "n_contacts 3"]
    axes: Float[Array, "n_contacts 3 3"]
    solved: Bool[Array, ""]
    residual: Float[Array, ""]
    partners: tuple[tuple[int, int], ...] = eqx.field(static=True)

    @property
    def vector(self) -> Float[Array, "n_contacts 3"]:
        """The forces on the bodies, world frame [N]; what they touch has the opposite ones."""
        return jnp.sum(self.force[..., None] * self.axes, axis=-2)


def contact_forces(
    world: World,
    state: State,
    method: AbstractMethod,
    t: float | Float[Array, ""] = 0.0,
    args: Any = None,
) -> ContactForces:
    """The forces at contacts that last, in the mean over the next step from a state.

    Impacts in that step are not seen, but with `MoreauJean(impacts="stepped")`, where they are
    part of it. Many points that share a load do so in one of many ways; what they give together
    is unique, and so are its derivatives.

    Args:
        world, state: the bodies, and where they are and how they move.
        method: in which contacts last, such as `EventDriven(flow, dt, on_zeno="rest")` or
            `MoreauJean(dt)`.
        t: time [s].
        args: of forces and motions, as of `simulate`.

    Raises:
        ValueError: if contacts do not last with this method, or nothing can touch anything.
    """
    method = method.chosen(world)
    if method.dt is None:
        raise ValueError("contact_forces: contacts last in steps; the method must have a dt.")
    state = method.prepare(world, state)
    system, phase = method.build(world, state, args)
    dtype = phase.position.x.dtype
    dt = jnp.asarray(method.dt, dtype)
    return forces_of(world, system, method, jnp.asarray(t, dtype), dt, phase)


def forces_of(
    world: World,
    system: System,
    method: AbstractMethod,
    t: Float[Array, ""],
    dt: Float[Array, ""],
    phase: Phase,
) -> ContactForces:
    """`contact_forces` of a phase of a system, in a step of size dt [s].

    Raises:
        ValueError: as `contact_forces` does.
    """
    if system.contacts is None:
        raise ValueError("contact_forces: nothing in this world can touch anything.")
    events = method.events(system, dt)
    impulse, solved, residual = events.contact_impulse(method.flight, t, dt, phase)
    rows = events.contact_rows(t, dt, phase)
    slip = (rows.rates.velocity(velocities(phase, system.inertial)) - rows.before)[1:]
    least = _NONE * dt * system.dynamics.acceleration_scale(t, phase)
    slides = jnp.hypot(slip[0], slip[1]) > least
    mode = jnp.where(impulse[0] > 0, jnp.where(slides, SLIP, STICK), OPEN)
    pairs = partners(world, system.contacts)
    # Stops of joints, which come last, have neither points nor axes.
    n = int((pairs[:, 1] < len(world.obstacles) + len(world.bodies)).sum())
    return ContactForces(
        jnp.where(solved, impulse / dt, jnp.nan).T[:n],
        rows.gap[:n],
        mode.astype(jnp.int32)[:n],
        rows.places(phase)[0].array()[:n],
        jnp.moveaxis(rows.rows.direction, -1, 0)[:n],
        solved,
        jax.lax.stop_gradient(residual),
        tuple((int(body), int(other)) for body, other in pairs[:n]),
    )
