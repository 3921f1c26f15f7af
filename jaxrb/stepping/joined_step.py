"""Moreau's step of joined bodies: an impact at its start, and contacts that last through it.

The midpoint rule of `moreau_step` has no place for joints that hold at both ends of a step: what
turns bodies about them acts while they move, and contacts, which act at the middle alone, would
leave what stands to be pressed into what it stands on, by the first power of the step. So contacts
and joints act together at both ends of a step, as `held_step` has it: the displacement obeys the
law of contact, the joints hold at its end, and so do their rates.

Contacts that are closed at the start and approach by more than loads make of them in half a step
are an impact there, in which all that are closed and all joints take part, with Newton's
restitution. What has penetrated before it was found closed stays where it is.
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from ..bodies import Phase
from ..flows import AbstractFlow
from ..math import tree_where
from ..math.rarely import if_any
from .cone_solver import search
from .contact_rows import ContactRows, pushed, velocities
from .held_step import Impulses, held_step
from .moreau_step import Stepped, Surroundings
from .scene import Impulse, Scene
from .solve_cone import answer


class Joined(NamedTuple):
    """What a step has found [N s]."""

    struck: Impulse  # of the impact at its start
    lasting: Impulses


def joined_step(
    flow: AbstractFlow,
    t,
    duration,
    phase: Phase,
    before: Joined,
    around: Surroundings,
    known: Joined | None = None,
) -> Stepped:
    """A step of joined bodies.

    Args:
        flow: the scheme of free bodies.
        t, duration: [s].
        phase: at the start, where the joints hold.
        before: what the step before has found, from which that of this one is sought.
        around: masses, loads, contacts, joints and their laws.
        known: what this step has found, if it was taken before.
    """
    scene = dataclasses.replace(around.scene, sinks=True)
    contacts = scene.find(t, phase)
    rows = scene.rows_of(contacts, phase)
    scale = scene.acceleration_scale(t, phase)
    least = rows.least_speed(scale, phase, scene.dynamics.inertial)
    slow = jax.lax.stop_gradient(jnp.maximum(0.5 * duration * scale, least))
    closed = around.closed(t, phase, duration, rows, rows.gap)[0] & scene.acts(t, duration)
    speed = _speed(rows, phase, scene)
    strikes = closed & (speed < -slow)
    returned, strikes = jnp.where(strikes, around.restitution * speed, 0.0), jnp.any(strikes)
    known_struck, known_lasting = (None, None) if known is None else known
    arguments = (phase, rows, returned, closed & strikes, scene, known_struck)
    found = if_any(strikes, _impact, _no_impact, *arguments)
    start, struck, residual = tree_where(strikes, found, _no_impact(*arguments))
    lasting = closed & (jnp.abs(_speed(rows, start, scene)) <= slow)
    held, height = scene.resisted(lasting), around.tolerance + scene.left_open(t, phase, duration)
    arguments = (start, contacts, held, before.lasting, scene, height, known_lasting)
    step = held_step(flow, t, duration, *arguments)
    residual = jax.lax.stop_gradient(jnp.maximum(residual, step.residual))
    contact = struck.contact + step.contact
    found, lost = Joined(struck, step.impulses), jnp.any(jnp.isnan(rows.gap))
    end, error, work = step.phase, step.error, step.work
    return Stepped(end, found, contact, error, residual, work, lost, closed, returned)


def _speed(rows: ContactRows, phase: Phase, scene: Scene) -> Float[Array, " n_contacts"]:
    """The rates of the gaps [m/s]."""
    v = velocities(phase, scene.dynamics.inertial)
    return rows.rates.velocity(v)[0] - rows.drift[0]


def _no_impact(phase: Phase, rows: ContactRows, returned, active, scene: Scene, known):
    return phase, scene.nothing(rows), jnp.zeros((), rows.gap.dtype)


def _impact(
    phase: Phase,
    rows: ContactRows,
    returned: Float[Array, " n_contacts"],
    active: Bool[Array, " n_contacts"],
    scene: Scene,
    known: Impulse | None,
) -> tuple[Phase, Impulse, Float[Array, ""]]:
    """The phase after an impact, its impulses, and the residual of their problem."""
    nothing = scene.nothing(rows)
    bias = nothing._replace(contact=(-rows.drift).at[0].add(returned))
    problem = scene.problem(rows, phase, bias, active)
    if known is None:
        found = search(*jax.lax.stop_gradient((problem, *nothing)))
        known, residual = Impulse(found.impulse, found.reaction), found.residual
    else:
        residual = jnp.zeros((), rows.gap.dtype)
    impulse = answer(problem, known)
    after = pushed(phase, problem.momentum(*impulse), scene.dynamics.inertial)
    return after, impulse, residual
