"""Sustained frictionless contact: what follows where impacts accumulate.

Bounces that lose energy follow each other ever sooner and end in a finite time (Zeno). From
there on the gap of the contact stays zero, held by a force that can only push. The flow of a
body in such contacts is that of the free body between two impulses, as in RATTLE: one at the
start of a flight that makes the gap zero at its end, one at the end that makes its rate zero.
It has the order of the flow, is symplectic where that is, and keeps gap and rate at zero to
round-off. The contact ends when its force would have to pull.

Forces, impulses and normal velocities of contacts have shape (n_bodies, n_contacts); `held`
says which contacts are sustained.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from ..bodies import Phase
from ..contact import AtHalfSpaces, ContactKinematics
from ..contact.delassus import impulses_for, response
from ..flows import AbstractFlow, Step
from ..impact.laws import push_along_normal
from ..math import Quat, cross, norm, tree_where, zeros_like
from ..math.autodiff import keep_rule, sparse_jvp
from ..math.rarely import if_any, where_any
from ..math.safe import safe_divide
from .system import System
from .tolerances import PerContact, Tolerance, gap_tolerance, transversality

Held = Bool[Array, "n_bodies n_contacts"]


# Of the secant rule for the impulse at the start of a flight.
_ITERATIONS = 8
# Rounds in which contacts held may open at an impact, or close again.
_ROUNDS = 16
# A bounce is low if it rises by at most this part of the distance of the contact from the centre
# of mass.
_LOW = 0.01


@partial(jax.jit, static_argnums=0)  # a program uses it many times and traces it once
def constrained_flow(
    flow: AbstractFlow,
    t: Float[Array, ""],
    duration: Float[Array, ""],
    phase: Phase,
    held: Held,
    system: System,
) -> Step:
    """A flight, with some contacts held or none."""
    held_flow = partial(_held_flow, flow)
    return if_any(
        jnp.any(held), held_flow, partial(_free_flow, flow), t, duration, phase, held, system
    )


def _free_flow(flow, t, duration, phase: Phase, held: Held, system: System) -> Step:
    return flow.step(t, duration, phase, system.dynamics)


def _held_flow(flow, t, duration, phase: Phase, held: Held, system: System) -> Step:
    impulse = _starting_impulse(flow, t, duration, phase, held, system)
    end, error, work = _kicked(flow, impulse, t, duration, phase, held, system)
    contacts = system.at_half_spaces(end)
    missed = jnp.where(held, contacts.gap / (4 * contacts.round_off), 0.0)
    error = jnp.maximum(error, jnp.max(jax.lax.stop_gradient(missed**2)))
    stopped, left = _stopped(end, contacts, held, system)
    error = jnp.maximum(error, jax.lax.stop_gradient(left**2))
    return Step(stopped, error, work)


def _stopped(
    phase: Phase, contacts: AtHalfSpaces, held: Held, system: System
) -> tuple[Phase, Float[Array, ""]]:
    """The phase without the normal velocities of contacts, and what is left of the largest of them,
    of what may be. (A rigid body can always be stopped: what is left tells of the solution.)"""
    motion = contacts.kinematics(phase, system.inertial)
    before = jnp.where(held, motion.normal_velocity, 0.0)
    impulse = impulses_for(contacts, motion, held, -before, system.inertial)
    after = before + jnp.where(held, response(contacts, impulse, system.inertial), 0.0)
    enough = jnp.finfo(before.dtype).eps ** 0.5 * jnp.max(jnp.abs(before))
    left = safe_divide(jnp.max(jnp.abs(after)), enough)
    return contacts.apply_impulse(phase, impulse, held, system.inertial), left


def reaction(
    t: Float[Array, ""], phase: Phase, held: Held, system: System
) -> tuple[PerContact, PerContact]:
    """The forces that keep the rate of the held gaps zero [N], negative where they pull, and
    the acceleration of every gap under them, gravity and the loads [m/s^2]."""
    omega = system.inertial.angular_velocity(phase)
    spin = Quat(jnp.zeros_like(omega.x), omega)
    gravity = system.dynamics.gravity
    loads = system.dynamics.wrench(t, phase)
    free_motion = Phase(
        system.inertial.velocity(phase),
        phase.orientation * spin / 2.0,
        gravity * system.inertial.mass + loads.force,
        cross(phase.angular_momentum, omega) + loads.torque,
        zeros_like(phase.stretch),
    )

    find = system.at_half_spaces

    def normal_velocity(phase):
        return find(phase).kinematics(phase, system.inertial).normal_velocity

    _, free = jax.jvp(normal_velocity, (phase,), (free_motion,))
    contacts = find(phase)
    motion = contacts.kinematics(phase, system.inertial)
    force = impulses_for(contacts, motion, held, -free, system.inertial)
    return force, free + response(contacts, force, system.inertial)


def initially_held(t: Float[Array, ""], phase: Phase, tolerance: Tolerance, system: System) -> Held:
    """The contacts that are closed, at rest and pressed together."""
    closed = _resting(t, phase, system.at_half_spaces(phase), tolerance, system)
    force, _ = reaction(t, phase, closed, system)
    return closed & (force > 0)


def bounce(
    end: Phase,
    contacts: AtHalfSpaces,
    motion: ContactKinematics,
    struck: Held,
    held: Held,
    system: System,
) -> tuple[Phase, Held, Bool[Array, ""]]:
    """The phase after an impact, the contacts that it leaves held, and whether it was found.

    The struck contact obeys the contact law. Contacts held take part: they push if they would
    be pushed through, and are left without normal velocity, or open (Moreau's law with e = 0).
    """
    arguments = (end, contacts, motion, struck, held, system)
    return if_any(jnp.any(held), _bounce_of_held, _bounce_of_free, *arguments)


def _bounce_of_free(end, contacts, motion, struck, held, system):
    law = push_along_normal(system.contact_law, motion.normal_velocity, motion.inverse_mass)
    after = contacts.apply_impulse(end, law, struck, system.inertial)
    return after, held, jnp.ones((), bool)


def _bounce_of_held(end, contacts, motion, struck, held, system):
    law = push_along_normal(system.contact_law, motion.normal_velocity, motion.inverse_mass)
    change = jnp.where(struck, motion.inverse_mass * law, -motion.normal_velocity)
    fixed = jax.lax.stop_gradient((contacts, motion, change, system))
    pushing, found = _pushing(*fixed, struck, held)
    impulse = impulses_for(contacts, motion, struck | pushing, change, system.inertial)
    after = contacts.apply_impulse(end, impulse, struck | pushing, system.inertial)
    return after, pushing, found


def _pushing(
    contacts: AtHalfSpaces,
    motion: ContactKinematics,
    change: PerContact,
    system: System,
    struck: Held,
    held: Held,
) -> tuple[Held, Bool[Array, ""]]:
    """Which contacts held push at an impact, and whether that was found.

    A linear complementarity problem: of each contact either the impulse or the normal velocity
    after the impact is zero, and neither is negative. By turns all contacts change sides at which
    one is (block principal pivoting); what remains is compared with the fastest contact.
    """
    taking_part = struck | held
    speed = jnp.max(jnp.where(taking_part, jnp.abs(motion.normal_velocity), 0.0))
    enough = jnp.finfo(change.dtype).eps ** 0.5 * speed

    def wrong(pushing: Held) -> tuple[Held, Bool[Array, ""]]:
        impulse = impulses_for(contacts, motion, struck | pushing, change, system.inertial)
        found = response(contacts, impulse, system.inertial)
        pulls = motion.inverse_mass * impulse < -enough
        penetrates = motion.normal_velocity + found < -enough
        missed = jnp.where(struck | pushing, jnp.abs(found - change), 0.0)
        solved = (jnp.max(missed) <= enough) & ~jnp.any(struck & pulls)
        return held & jnp.where(pushing, pulls, penetrates), solved

    def unfinished(carry):
        rounds, _, wrong, _ = carry
        return (rounds < _ROUNDS) & jnp.any(wrong)

    def turn(carry):
        rounds, pushing, exchanged, _ = carry
        pushing = pushing ^ exchanged
        return rounds + 1, pushing, *wrong(pushing)

    start = (jnp.zeros((), jnp.int32), held, *wrong(held))
    _, pushing, remaining, solved = jax.lax.while_loop(unfinished, turn, start)
    return pushing, solved & ~jnp.any(remaining)


def landing(
    t: Float[Array, ""],
    bounced: Phase,
    contacts: AtHalfSpaces,
    struck: Held,
    held: Held,
    tolerance: Tolerance,
    system: System,
) -> tuple[Held, PerContact]:
    """Which contacts land after an impact: of the closed ones of its body those whose bounce to
    come is not higher than the tolerance of the gap; and the acceleration of every gap, or 0 for
    all while the bounce is so high that more of it than gravity will change before the next."""
    motion = contacts.kinematics(bounced, system.inertial)
    size = norm(contacts.point)
    low = transversality(t, bounced, motion, size, system) < _LOW
    resting = _resting(t, bounced, contacts, tolerance, system)
    body = jnp.any(struck, axis=1, keepdims=True)
    needed = jnp.any((struck & low) | (body & resting))
    _, acceleration = where_any(needed, reaction, t, bounced, held, system)
    return body & resting & (acceleration < 0) & ~held, acceleration


def stand(
    bounced: Phase, contacts: AtHalfSpaces, landing: Held, held: Held, system: System
) -> tuple[Phase, Bool[Array, ""]]:
    """Removes the remaining normal velocity of contacts that come to rest; and whether that was
    found."""
    arguments = (bounced, contacts, landing, held, system)
    return if_any(jnp.any(landing), _stood, _left_as_it_is, *arguments)


def _left_as_it_is(bounced: Phase, *_) -> tuple[Phase, Bool[Array, ""]]:
    return bounced, jnp.ones((), bool)


def _stood(
    bounced: Phase, contacts: AtHalfSpaces, landing: Held, held: Held, system: System
) -> tuple[Phase, Bool[Array, ""]]:
    lands = jnp.any(landing, axis=1)
    stopped, left = _stopped(bounced, contacts, (held | landing) & lands[:, None], system)
    return tree_where(lands, stopped, bounced), left <= 1


def _resting(
    t: Float[Array, ""],
    phase: Phase,
    contacts: AtHalfSpaces,
    tolerance: Tolerance,
    system: System,
) -> Held:
    """The closed contacts whose bounce, if any, is not higher than the tolerance of the gap."""
    motion = contacts.kinematics(phase, system.inertial)
    allowed = gap_tolerance(contacts, tolerance)
    slow = transversality(t, phase, motion, allowed, system) < 1
    closed = (contacts.gap <= allowed) & (contacts.gap >= -allowed - tolerance.depth)
    return closed & slow


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def _starting_impulse(
    flow: AbstractFlow,
    t: Float[Array, ""],
    duration: Float[Array, ""],
    phase: Phase,
    held: Held,
    system: System,
) -> PerContact:
    """The impulses at the start of a flight for which the held gaps are zero at its end."""

    def correction(impulse):
        gap = _gaps(flow, impulse, t, duration, phase, held, system)
        return _rough_impulse(-gap, duration, phase, held, system), gap

    # As well as gaps can be known.
    enough = system.at_half_spaces(phase).round_off / 8
    return _iterate(correction, jnp.zeros(held.shape, duration.dtype), held, enough)


@partial(_starting_impulse.defjvp, symbolic_zeros=True)
def _(flow, primals, tangents):
    """That of the implicit function."""
    t, duration, phase, held, system = primals
    dt, dduration, dphase, _, dsystem = tangents
    impulse = keep_rule(partial(_starting_impulse, flow))(*primals)

    def end(t, duration, phase, system):
        return _gaps(flow, impulse, t, duration, phase, held, system)

    def jacobian(change):
        of_impulse = lambda x: _gaps(flow, x, t, duration, phase, held, system)  # noqa: E731
        return jnp.where(held, jax.jvp(of_impulse, (impulse,), (change,))[1], change)

    def solve(matvec, gap):
        def correction(change):
            rest = gap - matvec(change)
            rough = _rough_impulse(rest, duration, phase, held, system)
            return jnp.where(held, rough, rest), rest

        enough = 4 * jnp.finfo(gap.dtype).eps * jnp.max(jnp.abs(gap), axis=1, keepdims=True)
        return _iterate(correction, jnp.zeros_like(gap), held, enough)

    _, dgap = sparse_jvp(end, (t, duration, phase, system), (dt, dduration, dphase, dsystem))
    return impulse, -jax.lax.custom_linear_solve(jacobian, dgap, solve, solve)


def _rough_impulse(gap: PerContact, duration, phase: Phase, held: Held, system: System):
    """The impulses that would open the held gaps in a flight without turning."""
    contacts = system.at_half_spaces(phase)
    motion = contacts.kinematics(phase, system.inertial)
    speed = safe_divide(gap, jnp.broadcast_to(duration, gap.shape))
    return impulses_for(contacts, motion, held, speed, system.inertial)


def _iterate(
    correction: Callable[[PerContact], tuple[PerContact, PerContact]],
    x: PerContact,
    held: Held,
    enough: PerContact,
) -> PerContact:
    """Where what remains is nowhere more than is enough; where nothing is held, the start.

    Anderson's acceleration of depth one, body by body; for one contact it is the secant rule.

    Args:
        correction: minus the distance from the root, roughly, and what remains there.
        x: where to start.
        held: which contacts are.
        enough: not less than 0.
    """

    def unfinished(carry):
        turns, going, *_ = carry
        return going & (turns < _ITERATIONS)

    def turn(carry):
        turns, _, before, previous, x = carry
        change, rest = correction(x)
        bend = change - previous
        along = jnp.sum(change * bend, axis=1, keepdims=True)
        part = safe_divide(along, jnp.sum(bend * bend, axis=1, keepdims=True))
        # Beyond 1 it would only amplify round-off.
        part = jnp.where(turns == 0, jnp.zeros_like(part), jnp.clip(part, -1.0, 1.0))
        going = jnp.any(jnp.abs(rest) > enough)
        return turns + 1, going, x, change, x + change - part * (x - before + bend)

    start = (jnp.zeros((), jnp.int32), jnp.any(held), x, jnp.zeros_like(x), x)
    return jax.lax.while_loop(unfinished, turn, start)[-1]


def _gaps(flow, impulse, t, duration, phase, held, system) -> PerContact:
    """The held gaps at the end of a flight that begins with impulses; else zero."""
    end = _kicked(flow, impulse, t, duration, phase, held, system).phase
    return jnp.where(held, system.at_half_spaces(end).gap, 0.0)


def _kicked(flow, impulse, t, duration, phase, held, system) -> Step:
    contacts = system.at_half_spaces(phase)
    start = contacts.apply_impulse(phase, impulse, held, system.inertial)
    return flow.step(t, duration, start, system.dynamics)
