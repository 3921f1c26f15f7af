"""A step with contacts that last.

Contact impulses act at both ends of the step, around the flight of free bodies (RATTLE, with the
law of contact in place of equations). Those at the start make the *displacement* of the step obey
the law: the gap at its end, and the slip of the points that touch at its start and at its end, in
the mean, per duration, in place of velocities. Those at the end make the *velocities* there obey
it, with friction against the mean slip of the step. Both are cone problems with matrices of one
form. What rests does not creep, gaps stay closed to round-off, and joints without contacts would be
RATTLE's own. The scheme is of order 2 while contacts stick, slide or stay open, and where they
change from one to another the velocity is continuous.

A rotor that is geared to a joint resists with its inertia: at the start of a step by what its mean
speed in it is more than that before, at the end by what the speed then is more than the mean one.
So its momentum is that of the discrete Lagrangian with its energy for a term, by mean speeds. Of
dampers and servos see `damped`.
"""

from __future__ import annotations

import dataclasses
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from ..bodies import Phase
from ..contact import AbstractContacts
from ..flows import AbstractFlow
from ..math import Quat, tree_where
from ..math.autodiff import keep_rule, sparse_jvp
from .cone import ConeProblem, inverse3
from .cone_solver import search
from .contact_rows import ContactRows, gyroscopic, pushed
from .damped import Damped, damped
from .linearized import Linearized
from .residual import residual_at
from .rows import Rows
from .scene import Impulse, Scene
from .solve_cone import answer
from .tolerances import Tolerances

# Of the search for the impulses at the start.
_ITERATIONS = 20
# The part of the round-off of gaps that is left to what must be solved more exactly.
_EXACTLY = 0.125


class Impulses(NamedTuple):
    """Of a step, at its start and at its end [N s].

    Attributes:
        changed: whether the step before had impulses that were nearly the answer. What these left
            of gaps and velocities has been undone with these, which therefore leave as much again
            in the next step: it keeps none that are not as exact as what it would find, or at rest
            the same would happen again and again.
    """

    start: Impulse
    end: Impulse
    changed: Bool[Array, ""]

    @staticmethod
    def nothing(none: Impulse) -> Impulses:
        """Of no step, with no impulses."""
        return Impulses(none, none, jnp.zeros((), bool))

    def lasting(self, held) -> Impulses:
        """Without those of contacts that are not held."""
        return Impulses(_held(held, self.start), _held(held, self.end), self.changed)


class HeldStep(NamedTuple):
    """The result of a step with contacts."""

    phase: Phase
    contacts: AbstractContacts | None  # there, None where nothing can touch
    impulses: Impulses
    error: Float[Array, ""]  # of the flight's equations, relative to the one allowed
    residual: Float[Array, ""]  # of the cone problems
    work: Float[Array, ""] | None


@partial(jax.jit, static_argnums=0)  # a program uses it many times and traces it once
def held_step(
    flow: AbstractFlow,
    t,
    duration,
    phase: Phase,
    contacts: AbstractContacts | None,
    held,
    guess: Impulses,
    scene: Scene,
    closed,
    known: Impulses | None = None,
) -> HeldStep:
    """A step in which some contacts are held.

    Args:
        flow: the scheme of free bodies.
        t, duration: [s].
        phase: at the start.
        contacts: there; None where nothing can touch.
        held: which of them take part, of shape (n_contacts,).
        guess: impulses of the step before, from which those of this one are sought.
        scene: masses, loads and contacts.
        closed: the largest gap of a closed contact [m].
        known: the impulses of this step, if they have been found before.
    """
    flies = scene.acts(t, duration)
    held = held & flies
    given = _Given(t, duration, phase, contacts, held, scene, closed)
    if known is not None:
        return _taken(flow, jax.lax.stop_gradient(known.lasting(held)), given)
    guess = jax.tree.map(lambda x: jnp.where(flies, x, jnp.zeros_like(x)), guess)
    return _found(flow, _search(flow, *jax.lax.stop_gradient((guess, given))), given)


class _Given(NamedTuple):
    """What a step depends on besides its scheme, as `held_step` describes it."""

    t: Float[Array, ""]
    duration: Float[Array, ""]
    phase: Phase
    contacts: AbstractContacts | None
    held: Bool[Array, " n_contacts"]
    scene: Scene
    closed: Float[Array, ""]


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def _found(flow, step: HeldStep, given: _Given) -> HeldStep:
    """A step that has been found, with the derivatives of one that is taken with its impulses: to
    find contacts is costly, and a step need not be computed again for its value."""
    return step


@partial(_found.defjvp, symbolic_zeros=True)
def _(flow, primals, tangents):
    step = keep_rule(partial(_found, flow))(*primals)
    taken = partial(_taken, flow, jax.lax.stop_gradient(step.impulses))
    return step, sparse_jvp(taken, primals[1:], tangents[1:])[1]


def _taken(flow, known: Impulses, given: _Given) -> HeldStep:
    """A step whose impulses are known."""
    t, duration, phase, contacts, held, scene, closed = given
    rows = scene.rows_of(contacts, phase)
    start = _starting_impulse(flow, t, duration, phase, rows, held, known.start, scene)
    displaced = _displaced(flow, start, t, duration, phase, rows, held, scene)
    ending = _ending(displaced, held, duration, closed, scene)
    return _arrived(displaced, ending, known, jnp.zeros_like(duration), scene)


def _arrived(
    displaced: _Displaced, ending: ConeProblem, known: Impulses, residual, scene: Scene
) -> HeldStep:
    """The step after a flight, with the impulses at its end."""
    impulse, inertial = answer(ending, known.end), scene.dynamics.inertial
    end = pushed(displaced.phase, ending.momentum(*impulse), inertial)
    work = displaced.dampers.work_until(end, impulse, scene)
    # Impulses leave bodies where they are, and so the contacts.
    return HeldStep(end, displaced.contacts, known, displaced.error, residual, work)


class _Displaced(NamedTuple):
    """The end of a flight after impulses at its start."""

    phase: Phase  # with what dampers do there
    contacts: AbstractContacts | None
    rows: ContactRows
    moved: Impulse  # displacements along all rows per duration, as velocities [m/s]
    turned: Float[Array, "3 n_contacts"]  # what the law at the end adds to its slip [m/s]
    rotors: Float[Array, " n_rows"]  # their mean speeds, and nothing of other joint rows [m/s]
    dampers: Damped
    error: Float[Array, ""]  # of the flight's equations


def _held(held, impulse: Impulse) -> Impulse:
    """Without that of contacts that are not held."""
    return impulse._replace(contact=jnp.where(held[None], impulse.contact, 0.0))


def _ending(displaced: _Displaced, held, duration, closed, scene: Scene) -> ConeProblem:
    """That of the velocities at the end, of the contacts held that are still closed."""
    rows = displaced.rows
    # A gap is closed to its round-off, however low a bounce is that is none.
    closed = jnp.maximum(closed, rows.round_off)
    closed = held & (jax.lax.stop_gradient(rows.gap - closed) <= 0)
    bias = Impulse(displaced.turned - rows.drift, -displaced.rotors)
    half = 0.5 * duration
    yielding = displaced.dampers.law(half, scene)
    return scene.problem(rows, displaced.phase, bias, closed, half, yielding)


def _search(flow, known: Impulses, given: _Given) -> HeldStep:
    """The step whose impulses are sought from known ones, with the residual of both problems.

    Those at the start are found by repetition: the matrix of the problem is that of the start, the
    displacement the true one. When they are found, those at the end are. A loop over all keeps the
    program to one solver.
    """
    t, duration, phase, contacts, held, scene, closed = given
    rows = scene.rows_of(contacts, phase)
    tolerances = Tolerances.of(duration.dtype)
    # A flight that is not taken has no residual.
    taken = duration > 0
    time = jnp.where(taken, duration, 1.0)
    error = (scene.round_off(rows, held, phase) / time)[None]
    slip_error = rows.slip_error(phase) / time
    known = known.lasting(held)
    enough = jnp.where(known.changed, tolerances.reached, tolerances.kept).astype(time.dtype)
    aim = jnp.where(known.changed, _EXACTLY * error, error)

    def unfinished(carry):
        *_, ended, turns = carry
        return ~ended & (turns < _ITERATIONS)

    def turn(carry):
        (start, end, changed), _, residual, before, ended, turns = carry
        displaced = _displaced(flow, start, t, duration, phase, rows, held, scene)
        displacing = _problem(rows, start, displaced, (t, duration), phase, held, scene)
        # Displacements are no more exact than gaps: short flights have large rates of round-off.
        displacing = dataclasses.replace(displacing, error=error)
        *missed, units = residual_at(displacing, start.contact, start.joint, slip_error)
        missed = jnp.stack(missed) - jnp.concatenate([aim, error]) / units.speed
        missed, least = jnp.where(taken, jnp.maximum(missed, 0.0), 0.0)
        # What comes no nearer has reached round-off: that of slips, too, which is not what is
        # aimed at, or bodies at rest would creep by it.
        settled = (least <= tolerances.accepted) & (missed > 0.5 * before)
        last = (missed <= enough) | settled | (turns == _ITERATIONS - 1)
        ending = _ending(displaced, held, duration, closed, scene)
        problem = tree_where(last, ending, displacing)
        # Of a batch, those that have ended ask for no more turns.
        problem = dataclasses.replace(problem, active=problem.active & ~ended)
        solution = search(problem, *tree_where(last, end, start), exactly=known.changed)
        solved = Impulse(solution.impulse, solution.reaction)
        # Turns between the first and the last begin with what the turn before has found.
        changed = changed | (solution.drifted & ((turns == 0) | last))
        start, end = tree_where(last, (start, solved), (solved, end))
        impulses = Impulses(start, end, changed)
        residual = jnp.where(last, jnp.maximum(least, solution.residual), residual)
        return impulses, displaced, residual, missed, last, turns + 1

    far = jnp.full((), jnp.inf, duration.dtype)
    like = jax.eval_shape(_displaced, flow, known.start, t, duration, phase, rows, held, scene)
    nowhere = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), like)
    no = jnp.zeros((), bool)
    carry = (known._replace(changed=no), nowhere, far, far, no, jnp.zeros((), jnp.int32))
    impulses, displaced, residual, *_ = jax.lax.while_loop(unfinished, turn, carry)
    impulses = impulses._replace(changed=impulses.changed & ~known.changed)
    ending = _ending(displaced, held, duration, closed, scene)
    return _arrived(displaced, ending, impulses, residual, scene)


@partial(jax.jit, static_argnums=0)
def _displaced(
    flow, impulse: Impulse, t, duration, phase: Phase, rows: ContactRows, held, scene: Scene
) -> _Displaced:
    """The end of the flight after impulses at its start."""
    problem = scene.problem(rows, phase, scene.nothing(rows), held, 0.5 * duration)
    momentum, inertial = problem.momentum(*impulse), scene.dynamics.inertial
    begun = pushed(phase, momentum, inertial)
    step = flow.step(t, duration, begun, scene.dynamics)
    end, dampers = damped(impulse, problem, (t, duration), (phase, begun), step, scene)
    contacts = scene.find(t + duration, step.phase)
    after = scene.rows_of(contacts, step.phase)
    # A flight that is not taken may have no duration.
    time = jnp.where(duration > 0, duration, 1.0)
    slip = scene.moved(rows, phase, step.phase, rows.rolled(after).slip(phase, step.phase))
    slip = slip / time - 0.5 * (rows.drift + after.drift)
    opened = after.gap - jnp.minimum(rows.gap, 0.0) if scene.sinks else after.gap
    moved = jnp.concatenate([(opened / time)[None], slip[1:]])
    moved = Impulse(moved, scene.joints_moved(phase, step.phase, time))
    rotors = scene.rotors_moved(phase, step.phase, time)
    before = problem.contact_velocity(problem.free) - rows.drift
    # What slips by no more than problems are solved to sticks, and has no direction of slip.
    speeds = jnp.where(held[None], before, 0.0), momentum[:3] / problem.mass[None]
    fastest = jnp.maximum(*(jnp.max(jnp.abs(speed), initial=0.0) for speed in speeds))
    least = jax.lax.stop_gradient(Tolerances.of(fastest.dtype).allowed * fastest)
    turned = scene.seen_from(after, rows, _turned(before, moved.contact, least))
    return _Displaced(end, contacts, after, moved, turned, rotors, dampers, step.error)


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


def _problem(
    rows: ContactRows,
    impulse: Impulse,
    displaced: _Displaced,
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


def _displacing(rows: ContactRows, displaced: _Displaced, phase: Phase) -> Rows:
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
def _starting_impulse(flow, t, duration, phase, rows, held, known, scene: Scene) -> Impulse:
    """The impulses at the start for which the displacement obeys the law of contact, which are
    known, with their derivatives."""
    return _held(held, known)


@partial(_starting_impulse.defjvp, symbolic_zeros=True)
def _(flow, primals, tangents):
    """That of the implicit function: a displacement changes by what is given and by the impulses,
    which it changes in turn."""
    t, duration, phase, rows, held, _, scene = primals
    dt, dduration, dphase, drows, _, _, dscene = tangents
    impulse = keep_rule(partial(_starting_impulse, flow))(*primals)

    displaced = _displaced(flow, impulse, t, duration, phase, rows, held, scene)
    problem = _problem(rows, impulse, displaced, (t, duration), phase, held, scene)
    linearized = Linearized.of(problem, impulse, displaced.moved)
    x = linearized.flat(impulse)

    def equations(x, t, duration, phase, rows, scene):
        known = linearized.impulses(x)
        displaced = _displaced(flow, known, t, duration, phase, rows, held, scene)
        half, rates = 0.5 * duration, _displacing(rows, displaced, phase)
        yielding = scene.yielding(half, scene.servo_force(t, phase))
        acting = scene.friction, scene.pressed(half), yielding
        return linearized.equations(x, displaced.moved, *acting, rates)

    given = (t, duration, phase, rows, scene)

    def matvec(dx):
        return jax.jvp(lambda x: equations(x, *given), (x,), (dx,))[1]

    changes = (dt, dduration, dphase, drows, dscene)
    _, change = sparse_jvp(partial(equations, x), given, changes)
    return impulse, linearized.impulses(linearized.follow(matvec, change))
