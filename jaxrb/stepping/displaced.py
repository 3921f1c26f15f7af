"""The flight of a step with contacts after impulses at its start.

Those impulses make the displacement of the step obey the law of contact: they solve an equation in
which the flight stands, and are differentiated as an implicit function.
"""

from __future__ import annotations

import dataclasses
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..bodies import Phase
from ..contact import AbstractContacts
from ..math import Quat
from ..math.autodiff import Differential, keep_rule, sparse_jvp
from .cone import ConeProblem, inverse3
from .contact_rows import ContactRows, gyroscopic, pushed
from .damped import Damped, damped
from .linearized import Linearized
from .rows import Rows
from .scene import Impulse, Scene
from .tolerances import Tolerances
from .tracking import Tracking


class Displaced(NamedTuple):
    """The end of a flight after impulses at its start."""

    phase: Phase  # with what dampers do there
    contacts: AbstractContacts | None
    rows: ContactRows  # there, of contacts in the order of the start
    tracking: Tracking
    moved: Impulse  # displacements along all rows per duration, as velocities [m/s]
    turned: Float[Array, "3 n_contacts"]  # what the law at the end adds to its slip [m/s]
    rotors: Float[Array, " n_rows"]  # their mean speeds, and nothing of other joint rows [m/s]
    dampers: Damped
    error: Float[Array, ""]  # of the flight's equations


def of_held(held, impulse: Impulse) -> Impulse:
    """Without that of contacts that are not held."""
    return impulse._replace(contact=jnp.where(held[None], impulse.contact, 0.0))


@partial(jax.jit, static_argnums=0)
def displaced_by(
    flow, impulse: Impulse, t, duration, phase: Phase, rows: ContactRows, held, scene: Scene
) -> Displaced:
    """The end of the flight after impulses at its start."""
    problem = scene.problem(rows, phase, scene.nothing(rows), held, 0.5 * duration)
    momentum, inertial = problem.momentum(*impulse), scene.dynamics.inertial
    begun = pushed(phase, momentum, inertial)
    step = flow.step(t, duration, begun, scene.dynamics)
    end, dampers = damped(impulse, problem, (t, duration), (phase, begun), step, scene)
    contacts = scene.find(t + duration, step.phase)
    points = () if contacts is None else contacts.points()
    tracking = Tracking.of(points, rows.arms, held)
    after = scene.rows_of_points(tracking.as_before(points), step.phase)
    # A flight that is not taken may have no duration.
    time = jnp.where(duration > 0, duration, 1.0)
    slip = scene.moved(rows, phase, step.phase, rows.rolled(after).slip(phase, step.phase))
    slip = slip / time - 0.5 * (rows.drift + after.drift)
    opened = after.gap - jnp.minimum(rows.gap, 0.0) if scene.sinks else after.gap
    moved = jnp.concatenate([(opened / time)[None], slip[1:]])
    moved = Impulse(moved, scene.joints_moved(phase, begun, step.phase, time))
    rotors = scene.rotors_moved(begun, step.phase, time)
    before = problem.contact_velocity(problem.free) - rows.drift
    # What slips by no more than problems are solved to sticks, and has no direction of slip.
    speeds = jnp.where(held[None], before, 0.0), momentum[:3] / problem.mass[None]
    fastest = jnp.maximum(*(jnp.max(jnp.abs(speed), initial=0.0) for speed in speeds))
    least = jax.lax.stop_gradient(Tolerances.of(fastest.dtype).allowed * fastest)
    turned = scene.seen_from(after, rows, _turned(before, moved.contact, least))
    return Displaced(end, contacts, after, tracking, moved, turned, rotors, dampers, step.error)


def _turned(before, moved, least) -> Float[Array, "3 n_contacts"]:
    """What is added to the slip at the end of a step, so that its friction has the direction of
    the mean slip, as that at the start has.

    With the slip at the end itself friction would be that of a quarter of a step later, and where
    the slip turns the error of the first order. The slips before and after the step lie on either
    side of the mean one d; what the one before has across d is added. It fades where the slip turns
    by much in a step, as before it ends, and is nothing where the contact sticks, that is slips by
    less than the least speed: friction stops what slides where it would.
    """
    u, d = before[1:], moved[1:]
    # Fourth powers are taken of numbers of size one, lest they underflow.
    size = jnp.max(jnp.abs(jax.lax.stop_gradient(jnp.concatenate([u, d]))), axis=0)
    size = jnp.where(size > 0, size, 1.0)
    u, d = u / size[None], d / size[None]
    square = jnp.sum(d * d, axis=0)
    along = jnp.sum(u * d, axis=0)
    across = jnp.maximum(square * jnp.sum(u * u, axis=0) - along * along, 0.0)
    slides = jnp.sqrt(jax.lax.stop_gradient(square)) * size > least
    # What u has across d is u - d along/square, and its square is across/square.
    whole = jnp.where(slides, square * square + across, 1.0)
    part = jnp.where(slides, size * square / whole, 0.0)
    added = (square[None] * u - along[None] * d) * part[None]
    return jnp.concatenate([jnp.zeros_like(moved[:1]), added])


def displacing_problem(
    rows: ContactRows,
    impulse: Impulse,
    displaced: Displaced,
    when,
    phase: Phase,
    held,
    scene: Scene,
) -> ConeProblem:
    """That of displacements, linear in the impulses around given ones.

    To second order in the angle of the step: a change of the angular momentum at its start turns
    the body as if its inertia were J + (h/2) d(Omega x J Omega)/dOmega, and the displacement
    follows as the rows at the end have it, seen from half way.
    """
    (t, duration), nothing = when, scene.nothing(rows)
    half = 0.5 * duration
    yielding = scene.yielding(half, scene.servo_force(t, phase))
    plain = scene.problem(rows, phase, nothing, held, half, yielding)
    inertial = scene.dynamics.inertial
    turning = gyroscopic(inertial, pushed(phase, plain.momentum(*impulse), inertial))
    inertia = plain.inertia + 0.5 * duration * turning
    plain = dataclasses.replace(plain, inertia=inertia, inverse_inertia=inverse3(inertia))
    end, moved = displaced.phase, displaced.moved
    turn = _half_turn(phase.orientation, end.orientation)
    plain = dataclasses.replace(
        plain,
        contact_rates=_displacing(rows, displaced, phase),
        joint_rates=scene.joint_rows(end).turned(turn),
    )
    v = plain.velocity(*impulse)
    return dataclasses.replace(
        plain,
        bias=moved.contact - plain.contact_velocity(v),
        drift=moved.joint - plain.joint_velocity(v),
    )


def _displacing(rows: ContactRows, displaced: Displaced, phase: Phase) -> Rows:
    """The rows along which momenta at the start displace contacts."""
    end = displaced.phase
    displacing = rows.rolled(displaced.rows).displaced(displaced.rows, end)
    return displacing.turned(_half_turn(phase.orientation, end.orientation))


def _half_turn(start: Quat, end: Quat) -> Quat:
    """From the frame half way, by less than half a turn, into that of the start."""
    turn = start.conjugate() * end
    sign = jnp.where(turn.w < 0, -1.0, 1.0).astype(turn.w.dtype)
    return Quat(turn.w * sign + 1, turn.v * sign).normalized()


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def started(flow, t, duration, phase, rows, held, known, scene: Scene) -> tuple[Impulse, Displaced]:
    """The impulses at the start for which the displacement obeys the law of contact, which are
    known, and the flight after them, with their derivatives."""
    impulse = of_held(held, known)
    return impulse, displaced_by(flow, impulse, t, duration, phase, rows, held, scene)


@partial(started.defjvp, symbolic_zeros=True)
def _(flow, primals, tangents):
    """That of the implicit function: a displacement changes by what is given and by the impulses,
    which it changes in turn."""
    t, duration, phase, rows, held, _, scene = primals
    dt, dduration, dphase, drows, _, _, dscene = tangents
    impulse = keep_rule(partial(_starting_impulse, flow))(*primals)

    def flight(impulse, t, duration, phase, rows, scene):
        return displaced_by(flow, impulse, t, duration, phase, rows, held, scene)

    given, dgiven = (t, duration, phase, rows, scene), (dt, dduration, dphase, drows, dscene)
    displaced = flight(impulse, *given)
    problem = displacing_problem(rows, impulse, displaced, (t, duration), phase, held, scene)
    linearized = Linearized.of(problem, impulse, displaced.moved)

    def equations(impulse, displaced, t, duration, phase, rows, scene):
        half, rates = 0.5 * duration, _displacing(rows, displaced, phase)
        yielding = scene.yielding(half, scene.servo_force(t, phase))
        acting = scene.friction, scene.pressed(half), yielding
        return linearized.equations(linearized.flat(impulse), displaced.moved, *acting, rates)

    # The impulses change too, by what is sought.
    moving = Differential(flight, (impulse, *given), (impulse, *dgiven))
    ddisplaced = moving.tree(moving.no_change())
    missing = Differential(equations, (impulse, displaced, *given), (impulse, ddisplaced, *dgiven))
    dimpulse, ddisplaced = linearized.follow_flight(moving, missing)
    return (impulse, displaced), (dimpulse, ddisplaced)


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def _starting_impulse(flow, t, duration, phase, rows, held, known, scene: Scene) -> Impulse:
    """The impulses that `started` returns, for its rule."""
    return of_held(held, known)


@partial(_starting_impulse.defjvp, symbolic_zeros=True)
def _(flow, primals, tangents):
    found, change = sparse_jvp(partial(started, flow), primals, tangents)
    return found[0], change[0]
