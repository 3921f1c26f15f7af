"""A step with contacts that last.

Contact impulses act at both ends of the step, around the flight of free bodies (RATTLE, with the law
of contact in place of equations). Those at the start make the *displacement* of the step obey the
law: the gap at its end, and the slip of the points that touched at its start, per duration, in place
of velocities. Those at the end make the *velocities* there obey it. Both are cone problems with
matrices of one form. What rests does not creep, gaps stay closed to round-off, and joints
without contacts would be RATTLE's own: the scheme is symmetric and of order 2 while contacts stick,
slide or stay open, and where they change from one to another the velocity is continuous.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..bodies import Dynamics, Phase
from ..contact.points import ContactPoints
from ..flows import AbstractFlow
from ..math import Vec3, tree_where
from ..math.autodiff import keep_rule, sparse_jvp
from .cone import ConeProblem
from .cone_solver import Tolerances, residual_at, search
from .contact_rows import ContactRows, inertia_arrays, pushed, velocities
from .rows import Links, Rows
from .solve_cone import Response, answer

# Of the search for the impulses at the start.
_ITERATIONS = 20

Impulse = Float[Array, "3 n_contacts"]


class Scene(eqx.Module):
    """What a step depends on besides the phase.

    Attributes:
        dynamics: masses, gravity and loads.
        contacts: what finds the contact points, by `find(t, phase)`; None where nothing touches.
        friction: mu of each contact.
    """

    dynamics: Dynamics
    contacts: Any
    friction: Float[Array, " n_contacts"]

    def rows(self, t, phase: Phase) -> ContactRows:
        """The contact points at a time."""
        points: tuple[ContactPoints, ...] = ()
        if self.contacts is not None:
            points = self.contacts.find(t, phase).points()
        return ContactRows.of(points, phase)

    def problem(self, rows: ContactRows, phase: Phase, bias: Impulse, active) -> ConeProblem:
        """The cone problem of a phase, whose velocities are those without impulses."""
        inertial = self.dynamics.inertial
        none = jnp.zeros((1, 3, 0), bias.dtype)
        return ConeProblem(
            inertial.mass,
            inertia_arrays(inertial),
            rows.rows,
            self.friction,
            bias,
            active,
            Rows(none, (none, none), Links((), rows.rows.links.n_bodies)),
            jnp.zeros(0, bias.dtype),
            velocities(phase, inertial),
        )


class Impulses(NamedTuple):
    """Of a step, at its start and at its end [N s]."""

    start: Impulse
    end: Impulse


class HeldStep(NamedTuple):
    """The result of a step with contacts."""

    phase: Phase
    impulses: Impulses
    error: Float[Array, ""]  # of the flight's equations, relative to the one allowed
    residual: Float[Array, ""]  # of the cone problems
    work: Float[Array, ""] | None


def held_step(
    flow: AbstractFlow, t, duration, phase: Phase, held, known: Impulses, scene: Scene, closed
) -> HeldStep:
    """A step in which some contacts are held.

    Args:
        flow: the scheme of free bodies.
        t, duration: [s].
        phase: at the start.
        held: which contacts take part, of shape (n_contacts,).
        known: impulses of the step before, from which those of this one are sought.
        scene: masses, loads and contacts.
        closed: the largest gap of a closed contact [m].
    """
    fixed = jax.lax.stop_gradient((t, duration, phase, held, known, scene, closed))
    found, residual = _search(flow, *fixed)
    start = _starting_impulse(flow, t, duration, phase, held, found.start, scene)
    end, _, after, step = _displaced(flow, start, t, duration, phase, held, scene)
    problem = scene.problem(after, end, -after.drift, _touching(after, held, closed))
    answered = answer(problem, found.end, jnp.zeros(0, start.dtype))
    momentum = problem.times_mass(answered.velocity)
    end = dataclasses.replace(
        end, linear_momentum=Vec3(*momentum[:3]), angular_momentum=Vec3(*momentum[3:])
    )
    return HeldStep(end, found, step.error, residual, step.work)


def _touching(rows: ContactRows, held, closed):
    """The contacts held that are still closed."""
    return held & (jax.lax.stop_gradient(rows.gap) <= closed)


def _search(
    flow, t, duration, phase: Phase, held, known: Impulses, scene: Scene, closed
) -> tuple[Impulses, Float[Array, ""]]:
    """The impulses of a step, and the residual of both problems.

    Those at the start are found by repetition: the matrix of the problem is that of the start, the
    displacement the true one. When they are found, those at the end are. A loop over all keeps the
    program to one solver.
    """
    rows = scene.rows(t, phase)
    enough = Tolerances.of(known.start.dtype).accepted
    nothing = jnp.zeros(0, known.start.dtype)
    known = jax.tree.map(lambda impulse: jnp.where(held, impulse, 0.0), known)

    def unfinished(carry):
        _, _, ended, turns = carry
        return ~ended & (turns < _ITERATIONS)

    def turn(carry):
        (start, end), residual, _, turns = carry
        there, moved, after, _ = _displaced(flow, start, t, duration, phase, held, scene)
        displacing = _problem(rows, start, moved, phase, held, scene)
        missed = residual_at(displacing, start, nothing)
        last = (missed <= enough) | (turns == _ITERATIONS - 1)
        ending = scene.problem(after, there, -after.drift, _touching(after, held, closed))
        problem = tree_where(last, ending, displacing)
        solution = search(problem, jnp.where(last, end, start), nothing)
        impulses = Impulses(
            jnp.where(last, start, solution.impulse), jnp.where(last, solution.impulse, end)
        )
        residual = jnp.where(last, jnp.maximum(missed, solution.residual), residual)
        return impulses, residual, last, turns + 1

    far = jnp.full((), jnp.inf, known.start.dtype)
    carry = (known, far, jnp.zeros((), bool), jnp.zeros((), jnp.int32))
    impulses, residual, _, _ = jax.lax.while_loop(unfinished, turn, carry)
    return impulses, residual


def _displaced(flow, impulse, t, duration, phase: Phase, held, scene: Scene):
    """The end of the flight after impulses at its start; the displacement of all contacts per
    duration, as velocities in their frames; the contacts there, and the step."""
    rows = scene.rows(t, phase)
    momentum = rows.rows.momentum(jnp.where(held, impulse, 0.0))
    step = flow.step(t, duration, pushed(phase, momentum, scene.dynamics.inertial), scene.dynamics)
    after = scene.rows(t + duration, step.phase)
    (a, b), (a1, b1) = rows.places(phase), rows.places(step.phase)
    slip = rows.along((a1 - a) - (b1 - b)) / duration - 0.5 * (rows.drift + after.drift)
    moved = jnp.concatenate([(after.gap / duration)[None], slip[1:]])
    return step.phase, moved, after, step


def _problem(rows: ContactRows, impulse, moved, phase: Phase, held, scene: Scene) -> ConeProblem:
    """That of displacements, linear in the impulses around given ones."""
    plain = scene.problem(rows, phase, jnp.zeros_like(moved), held)
    nothing = jnp.zeros(0, moved.dtype)
    return eqx.tree_at(
        lambda problem: problem.bias,
        plain,
        moved - plain.contact_velocity(plain.velocity(impulse, nothing)),
    )


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def _starting_impulse(flow, t, duration, phase, held, known, scene: Scene) -> Impulse:
    """The impulses at the start for which the displacement obeys the law of contact, which are
    known, with their derivatives."""
    return jnp.where(held, known, 0.0)


@partial(_starting_impulse.defjvp, symbolic_zeros=True)
def _(flow, primals, tangents):
    """That of the implicit function: a displacement changes by what is given and by the impulses,
    which it changes in turn."""
    t, duration, phase, held, _, scene = primals
    dt, dduration, dphase, _, _, dscene = tangents
    impulse = keep_rule(partial(_starting_impulse, flow))(*primals)

    def displacement(t, duration, phase, scene):
        return _displaced(flow, impulse, t, duration, phase, held, scene)[1], scene.friction

    (moved, _), (dmoved, dfriction) = sparse_jvp(
        displacement, (t, duration, phase, scene), (dt, dduration, dphase, dscene)
    )
    rows = scene.rows(t, phase)
    problem = _problem(rows, impulse, moved, phase, held, scene)
    nothing = jnp.zeros(0, moved.dtype)
    response = Response.of(problem, impulse, nothing, moved)

    def beyond(change):
        """The displacement by a change of the impulses, less that in the problem."""
        exact = jax.jvp(
            lambda x: _displaced(flow, x, t, duration, phase, held, scene)[1], (impulse,), (change,)
        )[1]
        own = problem.over_mass(problem.momentum(change, nothing))
        return exact - problem.contacts.velocity(own)

    def matvec(change):
        return change - response.impulses(beyond(change), nothing, jnp.zeros_like(dfriction))[0]

    def solve(matvec, right):
        return repeat_to_round_off(lambda x: x + (right - matvec(x)), right)

    right = response.impulses(dmoved, nothing, dfriction)[0]
    change = jax.lax.custom_linear_solve(matvec, right, solve, solve)
    return impulse, change


def repeat_to_round_off(function: Callable, start):
    """Applies a function until only round-off changes."""
    enough = 64 * jnp.finfo(start.dtype).eps

    def unfinished(carry):
        x, change, turns = carry
        return ~(change <= enough * jnp.max(jnp.abs(x))) & (turns < _ITERATIONS)

    def improve(carry):
        x, _, turns = carry
        following = function(x)
        return following, jnp.max(jnp.abs(following - x), initial=0.0), turns + 1

    far = jnp.full((), jnp.inf, start.dtype)
    return jax.lax.while_loop(unfinished, improve, (start, far, jnp.zeros((), jnp.int32)))[0]
