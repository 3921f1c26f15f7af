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
from ..math import tree_where
from ..math.autodiff import keep_rule, sparse_jvp
from .cone import ConeProblem
from .cone_solver import search
from .contact_rows import ContactRows, pushed
from .displaced import Displaced, displaced_by, displacing_problem, of_held, started
from .residual import Errors, missed_at
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
        changed: whether the step began with impulses that were nearly the answer, and found better
            ones. What the others had left of gaps and velocities it has undone with these, which
            therefore leave as much again in the next step: that keeps none that are not as exact
            as what it would find, or at rest the same would happen again and again. So it goes on
            until a step has nothing to undo.
    """

    start: Impulse
    end: Impulse
    changed: Bool[Array, ""]

    @staticmethod
    def nothing(none: Impulse) -> Impulses:
        """Of no step, with no impulses."""
        return Impulses(none, none, jnp.zeros((), bool))

    def of_contacts(
        self, rows: ContactRows, after: ContactRows, scene: Scene
    ) -> Float[Array, "3 n_contacts"]:
        """What contacts have in all, along their axes at the start.

        Args:
            rows, after: at the start and at the end.
            scene: of the step.
        """
        normal, friction = self.end.contact[0], scene.seen_from(rows, after, self.end.contact)
        return self.start.contact + friction.at[0].set(normal)

    def lasting(self, held) -> Impulses:
        """Without those of contacts that are not held."""
        return Impulses(of_held(held, self.start), of_held(held, self.end), self.changed)


class HeldStep(NamedTuple):
    """The result of a step with contacts."""

    phase: Phase
    contacts: AbstractContacts | None  # there, None where nothing can touch
    lasting: Bool[Array, " n_contacts"]  # what was held, by the numbers of contacts there
    impulses: Impulses
    contact: Float[Array, "3 n_contacts"]  # of contacts in the step, along their axes at its start
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
        closed: the largest gap of a closed contact, besides its round-off [m].
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
    start, displaced = started(flow, t, duration, phase, rows, held, known.start, scene)
    ending = _ending(displaced, held, duration, closed, scene)
    impulses = known._replace(start=start)
    return _arrived(rows, displaced, held, ending, impulses, jnp.zeros_like(duration), scene)


def _arrived(
    rows: ContactRows,
    displaced: Displaced,
    held,
    ending: ConeProblem,
    known: Impulses,
    residual,
    scene: Scene,
) -> HeldStep:
    """The step after a flight, with the impulses at its end."""
    impulse, inertial = answer(ending, known.end), scene.dynamics.inertial
    impulses = known._replace(end=impulse)
    contact = impulses.of_contacts(rows, displaced.rows, scene)
    end = pushed(displaced.phase, ending.momentum(*impulse), inertial)
    work = displaced.dampers.work_until(end, impulse, scene)
    # Impulses leave bodies where they are, and so the contacts.
    there = displaced.contacts
    lasting = displaced.tracking.now(held)
    return HeldStep(end, there, lasting, impulses, contact, displaced.error, residual, work)


def _ending(displaced: Displaced, held, duration, closed, scene: Scene) -> ConeProblem:
    """That of the velocities at the end, of the contacts held that are still closed."""
    rows = displaced.rows
    # A gap is closed to what its displacement is solved to, beside its round-off.
    closed = closed + rows.round_off
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
    largest = scene.round_off(rows, held, phase)[None]
    errors = Errors(rows.round_off / time, rows.slip_error(phase) / time, largest / time)
    known = known.lasting(held)
    enough = jnp.where(known.changed, tolerances.reached, tolerances.kept).astype(time.dtype)
    aim = jnp.where(known.changed, _EXACTLY, 1.0).astype(time.dtype)

    def unfinished(carry):
        *_, ended, turns = carry
        return ~ended & (turns < _ITERATIONS)

    def turn(carry):
        (start, end, changed), _, residual, before, ended, turns = carry
        displaced = displaced_by(flow, start, t, duration, phase, rows, held, scene)
        displacing = displacing_problem(rows, start, displaced, (t, duration), phase, held, scene)
        # Displacements are no more exact than gaps: short flights have large rates of round-off.
        displacing = dataclasses.replace(displacing, error=errors.least(held))
        parts = missed_at(displacing, start.contact, start.joint, errors, aim)
        missed, least = (jnp.where(taken, part, 0.0) for part in parts)
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
    like = jax.eval_shape(displaced_by, flow, known.start, t, duration, phase, rows, held, scene)
    nowhere = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), like)
    no = jnp.zeros((), bool)
    carry = (known._replace(changed=no), nowhere, far, far, no, jnp.zeros((), jnp.int32))
    impulses, displaced, residual, *_ = jax.lax.while_loop(unfinished, turn, carry)
    ending = _ending(displaced, held, duration, closed, scene)
    return _arrived(rows, displaced, held, ending, impulses, residual, scene)
