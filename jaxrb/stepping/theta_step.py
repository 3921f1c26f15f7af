"""Moreau and Jean's step with a theta rule, as Siconos has it.

Numbers of equations are those of the Siconos notes on Newton and Euler's equations; corrected where
that is said. With
v_{k+theta} = (1 - theta) v_k + theta v_{k+1} and u_{k+1} = G v_{k+1},

    q_{k+1} = q_k exp(h v_{k+theta}),
    M (v_{k+1} - v_k) - h theta F_{k+1} - h (1 - theta) F_k = G^T P + H_m^T Q,
    H_{k+1} v_{k+1} = 0,
    K* contains u_{k+1} + (e u_{n,k} + mu |u_t|) n,  perpendicular to P in K,

for the contacts with gap + (h/2) u_n <= 0 at the start (eq:101), to a tolerance, without which a
contact at rest is dropped for a step by round-off. They are relative to obstacles, u_n to their
velocities at the start, u_{k+1} to those at the end, of theta > 1/2 somewhat earlier (see
`carrying`); the notes know none that accelerate. F holds the loads and, of rotations, -Omega x I
Omega. The printed equations (Moreau--Jean-theta and following) lack e, and move q by T(q) v, where
Siconos 4.4 takes the exponential of the group.

Joints act along their rows half-way, H_m, and hold the velocity at the end by those there, where
the notes have one H for both. A body that goes round a hinge then keeps its speed: what turns its
velocity lies half-way between both directions. With one H it loses about (omega h)^2 of its energy
in each step. With theta = 1/2 joints are of order 2. Without iterations the rows are those of the
places that the velocity at the start leads to. Places drift off the joints by h^3, and are put
right at the end of each step.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from ..bodies import Inertial, Phase
from ..flows import AbstractFlow
from ..flows.rigid_rotation import following_orientation
from ..math import Quat, Vec3, cross, dot
from ..math.autodiff import keep_rule, sparse_jvp
from ..math.stumpff import stumpff
from .cone import ConeProblem, inverse3
from .cone_solver import search
from .contact_rows import ContactRows, gyroscopic, inertia_arrays, velocities
from .held_step import Impulses
from .moreau_step import Stepped, Surroundings
from .put_right import farthest, put_right
from .scene import Impulse, Scene
from .solve_cone import answer

Velocity = Float[Array, "6 n_bodies"]

# Repetitions for a derivative, at most.
_MOST = 20


class Rule(NamedTuple):
    """Which of the schemes; static.

    Attributes:
        theta: from 1/2 to 1.
        implicit: whether F_{k+1} is that of the end, by Newton's rule; else F_k stands for both.
        follows: whether contacts act where they are at the end of the step, not at its start.
        iterations: of Newton's rule, at most.
    """

    theta: float
    implicit: bool
    follows: bool
    iterations: int


class Moved(NamedTuple):
    """What a step has found."""

    velocity: Velocity  # at its end
    impulse: Impulse  # [N s]
    shift: Impulses | None  # by which joints were put right [N s]; None without any
    shifted: Float[Array, ""]  # by how much that leaves gaps open until contacts are sought [m]


class Start(eqx.Module):
    """What the equations of a step are made of."""

    t: Float[Array, ""]
    duration: Float[Array, ""]
    phase: Phase
    rows: ContactRows  # at the start
    returned: Float[Array, " n_contacts"]  # e u_n there, and what closes gaps [m/s]
    active: Bool[Array, " n_contacts"]
    scene: Scene


def theta_step(
    rule: Rule,
    flow: AbstractFlow,
    t,
    duration,
    phase: Phase,
    before: Moved,
    around: Surroundings,
    known: Moved | None = None,
) -> Stepped:
    """A step of one of the theta schemes.

    Args:
        rule: which.
        flow: a scheme of free bodies, by which joints that have drifted are put right.
        t, duration: [s].
        phase: at the start.
        before: what the step before has found, from which that of this one is sought.
        around: masses, loads, contacts, joints and their laws.
        known: what this step has found, if it was taken before.
    """
    scene = around.across(t, duration)
    dynamics, inertial = scene.dynamics, scene.dynamics.inertial
    rows, v = scene.rows(t, phase), velocities(phase, inertial)
    speed = rows.rates.velocity(v)[0] - rows.before[0]
    foreseen = rows.gap + 0.5 * duration * speed  # eq:101
    # Only what lasts was shifted: what comes faster is an impact.
    lasts = jax.lax.stop_gradient(jnp.abs(foreseen - rows.gap)) <= before.shifted
    left = jnp.where(lasts, before.shifted, 0.0)
    if rows.carrying is not None:
        left = left + rows.carrying.open
    closed, closing = around.closed(t, phase, duration, rows, foreseen, left)
    active = scene.resisted(closed) & scene.acts(t, duration)
    returned = around.returned(rows, speed, duration) + closing
    start = Start(t, duration, phase, rows, returned, active, scene)
    if known is None:
        old = before.impulse
        old = old._replace(contact=jnp.where(active[None], old.contact, 0.0))
        found, impulse, residual, error = _search(rule, *jax.lax.stop_gradient((start, old)))
    else:
        found, impulse = known.velocity, known.impulse
        residual = error = jnp.zeros_like(duration)
    velocity = _velocity(rule, found, impulse, start)
    # As it was found, with its derivatives.
    contact = answer(_linearized(rule, velocity, start), impulse).contact
    end = moved(rule.theta, duration, phase, v, velocity, inertial)
    shift, shifted = None, jnp.zeros_like(duration)
    if before.shift is not None:
        shifts = (before.shift, None if known is None else known.shift)
        held = put_right(flow, t, duration, end, *shifts, scene)
        if known is None:
            # The gap that is foreseen (eq:101) changes by the rates in half of the next step. A
            # gap that was open closes by half, at least.
            now = farthest(end, held.phase, 0.5 * duration, inertial)
            shifted = 0.5 * before.shifted + now
        else:
            shifted = known.shifted
        end, shift, error = held.phase, held.impulses, jnp.maximum(error, held.error)
        residual = jnp.maximum(residual, held.residual)
    work = None
    if not dynamics.conservative:
        first = _power(t, phase, scene)
        work = duration * ((1 - rule.theta) * first + rule.theta * _power(t + duration, end, scene))
    residual = jax.lax.stop_gradient(residual)
    lost, taken = jnp.any(jnp.isnan(rows.gap)), Moved(found, impulse, shift, shifted)
    return Stepped(end, taken, contact, error, residual, work, lost, active, returned)


def moved(
    theta: float, duration, phase: Phase, before: Velocity, after: Velocity, inertial: Inertial
) -> Phase:
    """The phase after a step in which the velocity has changed to one."""
    mean = (1 - theta) * before + theta * after
    linear, turn = Vec3(*mean[:3]) * duration, Vec3(*mean[3:]) * duration
    quarter = dot(turn, turn) / 4
    turn = Quat(stumpff(0, quarter), turn * (0.5 * stumpff(1, quarter)))
    return Phase(
        phase.position + linear,
        following_orientation(phase.orientation, turn),
        Vec3(*after[:3]) * inertial.mass,
        inertial.inertia.matvec(Vec3(*after[3:])),
        phase.stretch,
    )


def _force(t, phase: Phase, scene: Scene) -> Velocity:
    """F: gravity, loads and -Omega x I Omega."""
    dynamics, inertial = scene.dynamics, scene.dynamics.inertial
    force = dynamics.gravity * inertial.mass
    torque = cross(phase.angular_momentum, inertial.angular_velocity(phase))
    if dynamics.loads:
        wrench = dynamics.wrench(t, phase)
        force, torque = force + wrench.force, torque + wrench.torque
    return jnp.stack([force.x, force.y, force.z, torque.x, torque.y, torque.z])


def _power(t, phase: Phase, scene: Scene) -> Float[Array, ""]:
    """Of the loads without a potential [W]."""
    inertial = scene.dynamics.inertial
    wrench = scene.dynamics.wrench(t, phase, working=True)
    turning = dot(wrench.torque, inertial.angular_velocity(phase))
    return jnp.sum(dot(wrench.force, inertial.velocity(phase)) + turning)


@partial(jax.jit, static_argnums=0)  # a program uses it many times and traces it once
def _linearized(rule: Rule, v: Velocity, start: Start) -> ConeProblem:
    """The problem of an iteration from v, which is that of the step where v is its solution.

    W (v' - v) = G^T P - R_free(v) (eq:107) with R_free of eq:106. W is M + h theta times the
    derivative of the gyroscopic term; of loads and joints it has none, whose impulses converge like
    h^2 (their stiffness)/(mass), and like the square of the angle of the step.
    """
    scene, phase, h = start.scene, start.phase, start.duration
    inertial = scene.dynamics.inertial
    before = velocities(phase, inertial)
    first = _force(start.t, phase, scene)
    rows = start.rows
    inertia, force = inertia_arrays(inertial), first
    later = v if rule.implicit else before
    end = moved(rule.theta, h, phase, before, later, inertial)
    if rule.implicit:
        last = _force(start.t + h, end, scene)
        force = rule.theta * last + (1 - rule.theta) * first
        inertia = inertia + h * rule.theta * gyroscopic(inertial, end)
        if rule.follows:
            rows = scene.rows(start.t + h, end)
    bias = scene.nothing(rows)._replace(contact=(-rows.after).at[0].add(start.returned))
    problem = scene.problem(rows, phase, bias, start.active, h)
    if scene.joints is not None:
        middle = moved(rule.theta, 0.5 * h, phase, before, later, inertial)
        joints, joint_rates = scene.joint_rows(middle), scene.joint_rows(end)
        problem = dataclasses.replace(problem, joints=joints, joint_rates=joint_rates)
    missing = problem.times_mass(v - before) - h * force
    turned = dataclasses.replace(problem, inertia=inertia, inverse_inertia=inverse3(inertia))
    free = v - turned.over_mass(missing)
    return dataclasses.replace(turned, free=free)


def _search(rule: Rule, start: Start, known: Impulse):
    """The velocity at the end, the impulses, the residual of their problem, and the error."""
    inertial = start.scene.dynamics.inertial
    v = velocities(start.phase, inertial)
    enough = 1e-12 if jnp.finfo(v.dtype).eps < 1e-10 else 1e-5
    most = rule.iterations if rule.implicit else 1
    nothing = start.scene.nothing(start.rows)
    plain = start.scene.problem(start.rows, start.phase, nothing, start.active)
    energy = lambda v: jnp.sum(v * plain.times_mass(v), axis=0)  # noqa: E731
    pull = plain.over_mass(start.duration * _force(start.t, start.phase, start.scene))
    least = energy(v) + energy(pull)

    def unfinished(carry):
        *_, change, count = carry
        return ~(change <= enough) & (count < most)

    def improve(carry):
        v, impulse, _, _, count = carry
        solution = search(_linearized(rule, v, start), *impulse)
        size = jnp.maximum(least, energy(solution.velocity))
        change = energy(solution.velocity - v) / jnp.where(size > 0, size, 1.0)
        change = jnp.sqrt(jnp.max(change))
        contact = jnp.where(start.active[None], solution.impulse, 0.0)
        found = Impulse(contact, solution.reaction)
        return solution.velocity, found, solution.residual, change, count + 1

    far = jnp.full((), jnp.inf, v.dtype)
    carry = (v, known, far, far, jnp.zeros((), jnp.int32))
    v, impulse, residual, change, _ = jax.lax.while_loop(unfinished, improve, carry)
    # Without iterations the first solution is the one; what is not a number stays so.
    error = change / enough if rule.implicit else 0 * change
    return v, impulse, residual, error


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def _velocity(rule: Rule, known: Velocity, impulse: Impulse, start: Start) -> Velocity:
    """The velocity at the end of a step, which is known, with its derivatives."""
    return _solved(_linearized(rule, known, start), impulse)


def _solved(problem: ConeProblem, impulse: Impulse) -> Velocity:
    return problem.velocity(*answer(problem, impulse))


@partial(_velocity.defjvp, symbolic_zeros=True)
def _(rule, primals, tangents):
    """That of the implicit function: v is the fixed point of the iteration, whose own derivative
    by v is small."""
    _, impulse, start = primals
    v = keep_rule(partial(_velocity, rule))(*primals)

    def following(v, start):
        return _solved(_linearized(rule, v, start), impulse)

    _, right = sparse_jvp(partial(following, v), (start,), tangents[2:])

    def matvec(change):
        return change - jax.jvp(lambda v: following(v, start), (v,), (change,))[1]

    def solve(matvec, right):
        return _to_round_off(lambda x: x + (right - matvec(x)), right)

    if not rule.implicit:
        return v, right
    return v, jax.lax.custom_linear_solve(matvec, right, solve, solve)


def _to_round_off(function: Callable[[Velocity], Velocity], start: Velocity) -> Velocity:
    """Applies a function until only round-off changes."""
    enough = 64 * jnp.finfo(start.dtype).eps

    def unfinished(carry):
        x, change, turns = carry
        return ~(change <= enough * jnp.max(jnp.abs(x))) & (turns < _MOST)

    def improve(carry):
        x, _, turns = carry
        following = function(x)
        return following, jnp.max(jnp.abs(following - x)), turns + 1

    far = jnp.full((), jnp.inf, start.dtype)
    return jax.lax.while_loop(unfinished, improve, (start, far, jnp.zeros((), jnp.int32)))[0]
