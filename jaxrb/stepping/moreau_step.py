"""Moreau's step: a contact problem at the middle of a free motion.

Bodies move freely for half of the step; there the loads and the contacts act, by impulses, and they
move on for the other half (Moreau, "Unilateral contact and dry friction in finite freedom
dynamics", 1988; here the free motion is a flow's, without loads). A contact takes part if it is
closed at the middle, where its gap is gap + (h/2) u_n to first order. All that take part obey one
cone problem, whose bias is Newton's restitution e u_n of the velocity before. Velocities of
contacts are relative to obstacles, before to theirs at the start of the step, after to theirs at
its end (see `carrying`).

What rests neither moves nor sinks, as its velocity is zero at both ends: to the last digit where
everything rests (see `at_rest`). Without contacts the step
is symmetric, and keeps the energy if the flow does and gravity alone acts. With them the energy
changes by

    sum of P . (u + u')/2

for the velocities u, u' of each contact before and after. Where u' is against u in the step, as if
it slid back or opened and fell back, this may be positive, and Newton's restitution with friction
may create energy in an impact (Kane's paradox). The law is then posed on the *mean* velocity, as it
is for the displacement: friction opposes (u_t + u_t')/2, and a contact that opens has no normal
velocity in the mean. This never creates energy.
"""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from ..bodies import Phase
from ..contact import moves
from ..flows import AbstractFlow
from ..math import Vec3, tree_where
from ..math.rarely import if_any
from .at_rest import at_rest
from .cone import ConeProblem
from .cone_solver import search
from .contact_rows import ContactRows, velocities
from .rows import take, total
from .scene import Impulse, Scene
from .solve_cone import answer
from .tolerances import Tolerances

# Contacts that were still have begun to move at so many times the speed below which they were.
_AWAKE = 1e3


class Surroundings(eqx.Module):
    """What a step with impacts in it depends on besides the phase.

    Attributes:
        scene: masses, loads and contacts.
        restitution: e of each contact.
        tolerance: the largest gap of a closed contact [m], at least its round-off.
        lag: by how much earlier than at the ends of a step obstacles have the velocities against
            which those of bodies are measured there, of its duration (see `carrying`).
    """

    scene: Scene
    restitution: Float[Array, " n_contacts"]
    tolerance: float = eqx.field(static=True)
    lag: float = eqx.field(static=True, default=0.0)

    def across(self, t, duration) -> Scene:
        """The scene of a step, in which obstacles may move; where none does its program is that
        without."""
        if not moves(self.scene.contacts):
            return self.scene
        return self.scene.across(t - self.lag * duration if self.lag else t, duration)

    def closed(
        self,
        t,
        phase: Phase,
        duration,
        rows: ContactRows,
        gap: Float[Array, " n_contacts"],
        left: Float[Array, " n_contacts"] | float = 0.0,
    ) -> tuple[Bool[Array, " n_contacts"], Float[Array, " n_contacts"]]:
        """Which contacts are closed in a step, and how fast they may close further [m/s].

        Steps leave gaps open by what they are not solved to, in float32 soon by more than the
        tolerance. Such a contact would open, and what lies on it fall for a step; it is closed, but
        may close by what it is open beyond the tolerance, or gaps would drift off.

        Args:
            t, phase, duration: of the step.
            rows: of the contacts.
            gap: those of the rows, or foreseen [m].
            left: how far open those may be, besides, that were moved to put joints right, or that
                an obstacle leaves open which accelerates [m].
        """
        height = jax.lax.stop_gradient(jnp.maximum(rows.round_off, self.tolerance))
        above = jnp.maximum(gap - height, 0.0)
        closed = above <= self.scene.left_open(t, phase, duration) + left
        # A flight that is not taken has no duration.
        closing = above / jnp.where(duration > 0, duration, 1.0)
        return closed, jnp.where(closed, closing, 0.0)

    def returned(
        self, rows: ContactRows, speed: Float[Array, " n_contacts"], duration
    ) -> Float[Array, " n_contacts"]:
        """What restitution adds to the rates of gaps [m/s].

        What an obstacle that accelerates gives to velocities in a step is no impact: neither what
        the first step finds of it, nor what closes a gap that the obstacle has left open. Bounces
        of it would go on where projections lift a body after each of them.
        """
        returned = self.restitution * speed
        if rows.carrying is None:
            return returned
        slow = rows.carrying.departs / jnp.where(duration > 0, duration, 1.0)
        return jnp.where(jnp.abs(speed) <= slow, 0.0, returned)


class Struck(NamedTuple):
    """What a step has found."""

    impulse: Impulse  # [N s]
    in_the_mean: Bool[Array, ""]  # whether the law holds of mean velocities
    changed: Bool[Array, ""]  # whether the step before had nearly the answer, as in `held_step`
    still: Bool[Array, ""]  # whether no contact has moved for a while

    @staticmethod
    def nothing(none: Impulse) -> Struck:
        """Of no step, with no impulses."""
        no = jnp.zeros((), bool)
        return Struck(none, no, no, no)

    def among(self, those: Bool[Array, " n_contacts"]) -> Struck:
        """With the impulses of some contacts alone."""
        contact = jnp.where(those[None], self.impulse.contact, 0.0)
        return self._replace(impulse=self.impulse._replace(contact=contact))


class Stepped(NamedTuple):
    """The result of a step."""

    phase: Phase
    found: Any  # from which that of the next step is sought
    contact: Float[Array, "3 n_contacts"]  # impulses of contacts in the whole step [N s]
    error: Float[Array, ""]  # of the equations of motion, relative to the one allowed
    residual: Float[Array, ""]  # of the cone problems; it has no derivative
    work: Float[Array, ""] | None  # of loads without a potential [J]
    lost: Bool[Array, ""]  # whether the closest point of a contact was not found
    active: Bool[Array, " n_contacts"]  # which contacts took part
    returned: Float[Array, " n_contacts"]  # by restitution, of these; where they bounce < 0 [m/s]


def moreau_step(
    flow: AbstractFlow,
    t,
    duration,
    phase: Phase,
    before: Struck,
    around: Surroundings,
    known: Struck | None = None,
) -> Stepped:
    """A step of Moreau's midpoint rule, of free bodies.

    Args:
        flow: the scheme of the free motion.
        t, duration: [s].
        phase: at the start.
        before: what the step before has found, from which that of this one is sought.
        around: masses, loads, contacts and their laws.
        known: what this step has found, if it was taken before.
    """
    scene, half = around.across(t, duration), 0.5 * duration
    dynamics, inertial = scene.dynamics, scene.dynamics.inertial
    still = Vec3(*[jnp.zeros_like(phase.position.x)] * 3)
    middle, early = flow.drift(half, phase, inertial, still)
    kick = dynamics.kick(t + half, middle, duration)
    weight = dynamics.gravity * (inertial.mass * duration)
    pulled = dataclasses.replace(kick.phase, linear_momentum=kick.phase.linear_momentum + weight)
    rows = scene.rows(t + half, middle)
    coming = rows.rates.velocity(velocities(middle, inertial)) - rows.before
    gap, left = rows.gap, 0.0
    if rows.carrying is not None:
        # As if what carries a body kept its velocity up to the middle, as the body does.
        gap, left = gap + rows.carrying.ahead, rows.carrying.open
    closed, closing = around.closed(t + half, middle, duration, rows, gap, left)
    active = closed & scene.acts(t, duration)
    slow = 0.5 * duration * dynamics.acceleration_scale(t + half, middle)
    settling = _redundant(rows, active) & (coming[0] > -jax.lax.stop_gradient(slow))
    normal = jnp.where(settling, 0.0, around.returned(rows, coming[0], duration)) + closing
    bias = scene.nothing(rows)._replace(contact=(-rows.after).at[0].add(normal))
    problem = scene.problem(rows, pulled, bias, active)
    opening = jnp.where(coming[0] < 0, normal, coming[0])
    mean = coming.at[0].set(opening) - rows.after

    def fastest(u):
        return jnp.max(jnp.where(active[None], jnp.abs(jax.lax.stop_gradient(u)), 0.0), initial=0.0)

    held, moved = jnp.any(active), fastest(coming)
    motionless = 2 * slow * Tolerances.of(moved.dtype).accepted
    stopped = held & (moved <= motionless)
    # What has come to rest keeps no impulses from when it slid: faces would be wrung by them, and
    # many contacts have all the friction they can.
    begun = before.among(active & ~(stopped & ~before.still))
    arguments = (problem, mean, coming, rows.after, begun, known)
    velocity, contact, found, residual = if_any(held, _touched, _free, *arguments)
    found = found._replace(still=stopped | (before.still & (moved <= _AWAKE * motionless)))
    momentum = problem.times_mass(velocity)
    touched = dataclasses.replace(
        pulled, linear_momentum=Vec3(*momentum[:3]), angular_momentum=Vec3(*momentum[3:])
    )
    if rows.carrying is None:
        rests = stopped & (fastest(rows.rates.velocity(velocity) - rows.after) <= motionless)
        given = rests, rows, scene.friction, active, contact
        touched = _resting(touched, at_rest(*jax.lax.stop_gradient(given)))
    after = tree_where(held, touched, pulled)
    end, late = flow.drift(half, after, inertial, still)
    error = jnp.maximum(jnp.maximum(early, late), kick.error)
    work = None if dynamics.conservative else kick.work
    lost = jnp.any(jnp.isnan(rows.gap))
    residual = jax.lax.stop_gradient(residual)
    return Stepped(end, found, contact, error, residual, work, lost, active, normal)


def _redundant(rows: ContactRows, active) -> Bool[Array, " n_contacts"]:
    """Which contacts are of a pair of bodies that touch at more than three points."""
    pairs = rows.rows.links.of_pairs
    if pairs is None:
        return jnp.zeros_like(active)
    table, owner = pairs
    count = total(active.astype(rows.gap.dtype), table, 0)
    return take(count > 3.5, owner, 0)


def _resting(phase: Phase, rests: Bool[Array, ""]) -> Phase:
    """A phase without momenta if it rests; the derivatives are those that were found."""

    def none(momentum):
        return jnp.where(rests, momentum - jax.lax.stop_gradient(momentum), momentum)

    momenta = jax.tree.map(none, (phase.linear_momentum, phase.angular_momentum))
    return dataclasses.replace(phase, linear_momentum=momenta[0], angular_momentum=momenta[1])


def _free(problem: ConeProblem, mean, coming, drift, before: Struck, known: Struck | None):
    none = Struck.nothing(jax.tree.map(jnp.zeros_like, before.impulse))
    return problem.free, none.impulse.contact, none, jnp.zeros((), coming.dtype)


def _touched(problem: ConeProblem, mean, coming, drift, before: Struck, known: Struck | None):
    """Velocities after contact, its impulses, what was found, and the residual."""
    if known is None:
        given = (problem, mean, coming, drift, before)
        found, residual = _search(*jax.lax.stop_gradient(given))
    else:
        found, residual = known, jnp.zeros((), coming.dtype)
    problem = _biased(problem, mean, found.in_the_mean)
    impulse = answer(problem, found.impulse)
    return problem.velocity(*impulse), impulse.contact, found, residual


def _search(
    problem: ConeProblem, mean, coming, drift, before: Struck
) -> tuple[Struck, Float[Array, ""]]:
    """The impulses, whether the law is posed on mean velocities, as it is if it would create energy
    otherwise, and the residual. A loop over both keeps the program to one solver."""
    allowed = Tolerances.of(coming.dtype).accepted * jnp.max(problem.units().speed)

    def unfinished(carry):
        return ~carry[-1]

    def turn(carry):
        impulse, _, in_the_mean, changed, ended = carry
        # Of a batch, those that have ended ask for no more.
        asked = dataclasses.replace(problem, active=problem.active & ~ended)
        biased = _biased(asked, mean, in_the_mean)
        solution = search(biased, *impulse, exactly=before.changed)
        contact = jnp.where(problem.active[None], solution.impulse, 0.0)
        after = problem.contact_rates.velocity(solution.velocity) - drift
        created = 0.5 * jnp.sum(problem.acting(contact) * (coming + after))
        creates = ~in_the_mean & (created > allowed * jnp.sum(jnp.abs(contact)))
        impulse = Impulse(contact, solution.reaction)
        changed = changed | solution.drifted
        return impulse, solution.residual, in_the_mean | creates, changed, ~creates

    no = jnp.zeros((), bool)
    carry = (before.impulse, jnp.full((), jnp.inf, coming.dtype), no, no, no)
    impulse, residual, in_the_mean, changed, _ = jax.lax.while_loop(unfinished, turn, carry)
    return Struck(impulse, in_the_mean, changed, before.still), residual


def _biased(problem: ConeProblem, mean, in_the_mean) -> ConeProblem:
    bias = jnp.where(in_the_mean, mean, problem.bias)
    return eqx.tree_at(lambda problem: problem.bias, problem, bias)
