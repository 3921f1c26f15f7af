"""Joints that have drifted are put right.

Impulses of the joints move the bodies from rest to places where the joints hold, in a flight with
nothing else, as `held_step` takes it. Then other impulses take away the rates of the joints.
"""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from ..bodies import Inertial, Phase
from ..contact import AbstractContacts
from ..flows import AbstractFlow
from ..math import dot, zeros_like
from .contact_rows import ContactRows, pushed
from .held_step import HeldStep, Impulses, held_step
from .linearized import Linearized
from .scene import Impulse, Scene


def no_shift(scene: Scene, phase: Phase) -> Impulses:
    """No impulses by which joints are put right."""
    none = alone(scene).nothing(ContactRows.of((), phase))
    return Impulses.nothing(none)


def put_right(
    flow: AbstractFlow,
    t,
    duration,
    phase: Phase,
    before: Impulses,
    known: Impulses | None,
    scene: Scene,
) -> HeldStep:
    """The phase in which joints hold and their rates are zero, nearly the closest one in the metric
    of the masses.

    Args:
        flow: the scheme of free bodies.
        t, duration: of the flight [s].
        phase: to be put right.
        before: the impulses when joints were put right before, from which these are sought.
        known: these, if they have been found before.
        scene: masses and joints.
    """
    scene, none_held = alone(scene), jnp.zeros(0, bool)
    return moved_from_rest(flow, t, duration, phase, None, none_held, before, known, scene)


def moved_from_rest(
    flow: AbstractFlow,
    t,
    duration,
    phase: Phase,
    contacts: AbstractContacts | None,
    held: Bool[Array, " n_contacts"],
    before: Impulses,
    known: Impulses | None,
    scene: Scene,
) -> HeldStep:
    """The phase after impulses of joints and contacts that act on bodies at rest, with the momenta
    that it had but for the rates of joints.

    Args:
        flow, t, duration, phase, before, known: as of `put_right`.
        contacts: there; None where nothing can touch.
        held: which of them take part.
        scene: masses, joints and contacts, and nothing else.
    """
    at_rest = dataclasses.replace(
        phase,
        linear_momentum=zeros_like(phase.linear_momentum),
        angular_momentum=zeros_like(phase.angular_momentum),
    )
    closed = jnp.zeros_like(duration)
    moved = held_step(flow, t, duration, at_rest, contacts, held, before, scene, closed, known)
    there = dataclasses.replace(
        moved.phase,
        linear_momentum=phase.linear_momentum,
        angular_momentum=phase.angular_momentum,
    )
    if scene.joints is None:
        return moved._replace(phase=there)
    end, missed = _without_rates(there, alone(scene))
    return moved._replace(phase=end, residual=jnp.maximum(moved.residual, missed))


def farthest(before: Phase, after: Phase, duration, inertial: Inertial) -> Float[Array, ""]:
    """How far any body was moved, about, with what its velocity was changed by for a duration [m].

    Twice what it is in the metric of its mass, for points beyond the radius of inertia.
    """
    way = after.position - before.position
    turn = (before.orientation.conjugate() * after.orientation).v * 2
    angular = after.angular_momentum - before.angular_momentum
    push = (after.linear_momentum - before.linear_momentum) / inertial.mass
    rate = inertial.inertia.solve(angular)
    moved = dot(way, way) + dot(inertial.inertia.matvec(turn), turn) / inertial.mass
    faster = dot(push, push) + dot(angular, rate) / inertial.mass
    sizes = jnp.sqrt(jnp.max(moved)) + duration * jnp.sqrt(jnp.max(faster))
    return jax.lax.stop_gradient(2 * sizes)


def _without_rates(phase: Phase, scene: Scene) -> tuple[Phase, Float[Array, ""]]:
    """The phase without the rates of its joints, and what is left of them, relative to the
    velocities of the bodies.

    The equations are linear, so that one solution of them is the answer.
    """
    rows = ContactRows.of((), phase)
    nothing = scene.nothing(rows)
    problem = scene.problem(rows, phase, nothing, jnp.zeros(0, bool))
    linearized = Linearized.of(problem, nothing, nothing)

    def equations(x):
        impulse = linearized.impulses(x)
        left = problem.joint_velocity(problem.velocity(*impulse))
        given = problem.friction, problem.pressed, problem.yielding, problem.contact_rates
        return linearized.equations(x, Impulse(nothing.contact, left), *given)

    start = linearized.flat(nothing)
    rates, change = jax.linearize(equations, start)
    x = linearized.follow(change, rates)
    left = jnp.max(jnp.abs(equations(x))) * linearized.units.speed[0]
    arm = jnp.max(jnp.abs(jnp.stack(problem.joints.levers)))
    size = jnp.max(jnp.abs(problem.free[:3])) + arm * jnp.max(jnp.abs(problem.free[3:]))
    missed = jax.lax.stop_gradient(left / jnp.where(size > 0, size, 1.0))
    inertial = scene.dynamics.inertial
    return pushed(phase, problem.momentum(*linearized.impulses(x)), inertial), missed


def alone(scene: Scene) -> Scene:
    """The bodies and their joints without contacts, loads, dry friction and rotors."""
    still = zeros_like(scene.dynamics.gravity)
    dynamics = dataclasses.replace(
        scene.dynamics, gravity=still, loads=(), args=None, static_args=None
    )
    joints = scene.joints
    if joints is not None:
        joints = dataclasses.replace(joints, rubbing=None, geared=None)
    return Scene(dynamics, None, scene.friction[:0], joints)
