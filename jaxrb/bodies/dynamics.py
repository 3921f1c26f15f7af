"""The dynamics of bodies: masses, gravity and all other loads, with time and arguments."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..math import Vec3, dot, safe_sqrt
from ..math.autodiff import keep_rule, sparse_jvp
from .forces import AbstractLoad, JointMotors, Wrench
from .forces.base import Time
from .inertial import Inertial
from .phase import Phase

# Of the fixed-point rule for loads that depend on velocities.
_ITERATIONS = 60
# It does not settle where impulses have grown by so much.
_LOST = 1e6


class Kick(NamedTuple):
    """The effect of the loads during a time in which no body moves."""

    phase: Phase
    error: Float[Array, ""]  # of its implicit equation; 1: the one allowed
    work: Float[Array, ""]  # of the loads without a potential [J]


class Dynamics(eqx.Module):
    """Masses, gravity and loads on all bodies.

    Attributes:
        inertial: masses and inertia tensors.
        gravity: acceleration, world frame [m/s^2], with what constant forces add; components of
            shape () or (n_bodies,).
        loads: further forces, whose bodies are numbered as in the world.
        args: of the loads; only its arrays.
        static_args: the rest of it.
        order: the bodies as the phase has them, by their numbers in the world.
    """

    inertial: Inertial
    gravity: Vec3
    loads: tuple[AbstractLoad, ...] = ()
    args: Any = None
    static_args: Any = eqx.field(default=None, static=True)
    order: tuple[int, ...] | None = eqx.field(default=None, static=True)

    @property
    def conservative(self) -> bool:
        """Whether all loads have potentials."""
        return all(load.conservative for load in self.loads)

    @property
    def velocity_dependent(self) -> bool:
        """Whether any load depends on velocities."""
        return any(load.velocity_dependent for load in self.loads)

    # A derivative takes it hundreds of times: it is traced once for each use.
    @partial(jax.jit, static_argnames="working")
    def wrench(self, t: Time, phase: Phase, *, working: bool = False) -> Wrench:
        """The wrench of all loads at a time [s]; with `working`, of those without a potential."""
        here, inertial = self._in_world_order((phase, self.inertial))
        args = eqx.combine(self.args, self.static_args)
        total = Wrench.none(here)
        for load in self.loads:
            if not (working and load.conservative):
                total = total + load.wrench(t, here, inertial, args)
        return self._in_phase_order(total)

    def torques(self, motor: JointMotors, t: Time, phase: Phase) -> Float[Array, " n_coordinates"]:
        """What a servo is given at a time [s], before it feeds rates back (`JointMotors.given`)."""
        here, inertial = self._in_world_order((phase, self.inertial))
        return motor.given(t, here, inertial, eqx.combine(self.args, self.static_args))

    def potential(self, phase: Phase) -> Float[Array, ""]:
        """The potential of all loads that have one [J]."""
        here = self._in_world_order(phase)
        parts = [load.potential(here) for load in self.loads if load.conservative]
        return sum(parts, jnp.zeros_like(phase.position.x[0]))

    def acceleration_scale(self, t: Time, phase: Phase) -> Float[Array, ""]:
        """The largest acceleration of a body by gravity and loads [m/s^2], where torques count by
        what they accelerate at the radius of gyration: without gravity, a motor or a spring alone
        may press a joint against its limit."""
        gravity = self.gravity
        squared = dot(gravity, gravity)
        if self.loads:
            wrench, inertial = self.wrench(t, phase), self.inertial
            linear, torque = gravity + wrench.force / inertial.mass, wrench.torque
            turning = dot(torque, inertial.inertia.solve(torque)) / inertial.mass
            squared = dot(linear, linear) + turning
        return jnp.max(safe_sqrt(squared))

    def kick(self, t: Time, phase: Phase, duration: Time) -> Kick:
        """The loads act for a duration, in which nothing moves.

        Loads that depend on velocities are taken at the mean of those before and after, so that
        the kick is symmetric in time and a load that does no work leaves the energy as it is.
        """
        impulse = self._impulse(t, phase, duration)
        half_way = self.inertial.pushed(phase, impulse.force * 0.5, impulse.torque * 0.5)
        error = work = jnp.zeros_like(phase.position.x[0])
        if self.velocity_dependent:
            rest = self._kicked(t, half_way, duration) - impulse
            error = self._unsolved(rest, impulse, phase) / (64 * jnp.finfo(error.dtype).eps) ** 2
            # It is round-off: see `relative_error`.
            error = jax.lax.stop_gradient(error)
        if not self.conservative:
            own = self.wrench(t, half_way, working=True) * duration
            linear = dot(own.force, self.inertial.velocity(half_way))
            work = jnp.sum(linear + dot(own.torque, self.inertial.angular_velocity(half_way)))
        after = self.inertial.pushed(phase, impulse.force, impulse.torque)
        return Kick(after, error, work)

    def _unsolved(self, rest: Wrench, impulse: Wrench, phase: Phase) -> Float[Array, ""]:
        """The largest squared ratio, of any body, of what is left of the equation of the impulse to
        that and the momenta.

        In the metric of the kinetic energy: a controller has terms that all but cancel, and makes
        torques of linear velocities, so that round-off of these may be more than the whole torque.
        """

        whole = self._size(impulse) + self._size(_momenta(phase))
        return jnp.max(self._size(rest) / jnp.where(whole > 0, whole, 1.0))

    def _size(self, of: Wrench) -> Float[Array, " n_bodies"]:
        """Twice the kinetic energy that it would be of momenta [J]."""
        turning = dot(of.torque, self.inertial.inertia.solve(of.torque))
        return dot(of.force, of.force) / self.inertial.mass + turning

    def _impulse(self, t: Time, phase: Phase, duration: Time) -> Wrench:
        if not self.velocity_dependent:
            return self._kicked(t, phase, duration)
        like = phase.position.x[0]
        return _implicit(jnp.asarray(t, like.dtype), phase, jnp.asarray(duration, like.dtype), self)

    def _kicked(self, t: Time, phase: Phase, duration: Time) -> Wrench:
        return self.wrench(t, phase) * duration

    def _in_world_order(self, tree):
        return tree if self.order is None else _taken(tree, np.argsort(self.order))

    def _in_phase_order(self, tree):
        return tree if self.order is None else _taken(tree, np.asarray(self.order))


@jax.custom_jvp
def _implicit(t, phase: Phase, duration, dynamics: Dynamics) -> Wrench:
    """The impulse J = duration * wrench(phase pushed by J/2)."""

    start, momenta = dynamics._kicked(t, phase, duration), _momenta(phase)
    function = partial(_of_half_way, t, phase, duration, dynamics)
    size = lambda impulse: jnp.sum(dynamics._size(impulse))  # noqa: E731
    largest = _LOST**2 * (size(start) + size(momenta))
    return _fixed_point(function, start, momenta, lambda impulse: size(impulse) <= largest)


def _fixed_point(
    function: Callable[[Wrench], Wrench],
    start: Wrench,
    added_to: Wrench | None = None,
    bounded: Callable[[Wrench], Any] = lambda _: True,
) -> Wrench:
    """Applies a function repeatedly until only round-off changes, that of the numbers to which the
    result is added included: forces that all but cancel are no more exact than that.

    What is not `bounded` is left where it is: numbers stay finite, for a shorter step to be tried.
    """

    def unfinished(carry):
        x, change, count = carry
        moves = change > (4 * jnp.finfo(change.dtype).eps) ** 2
        return moves & (count < _ITERATIONS) & bounded(x)

    def improve(carry):
        x, _, count = carry
        following = function(x)
        return following, _relative(following - x, following, added_to), count + 1

    far = jnp.full_like(start.force.x[0], jnp.inf)
    return jax.lax.while_loop(unfinished, improve, (start, far, jnp.zeros((), jnp.int32)))[0]


@partial(_implicit.defjvp, symbolic_zeros=True)
def _(primals, tangents):
    """The implicit function theorem."""
    impulse = keep_rule(_implicit)(*primals)

    def at_impulse(t, phase, duration, dynamics):
        return _of_half_way(t, phase, duration, dynamics, impulse)

    # In one array, as JAX has no reverse mode of a solve of which some numbers are known and others
    # not: those of a torque that is always zero are known.
    structure = jax.tree.structure(impulse)
    joined = lambda wrench: jnp.stack(jax.tree.leaves(wrench))  # noqa: E731
    apart = lambda rows: jax.tree.unflatten(structure, list(rows))  # noqa: E731

    def matvec(change):
        of_impulse = partial(_of_half_way, *primals)
        return change - joined(jax.jvp(of_impulse, (impulse,), (apart(change),))[1])

    def solve(matvec, right):
        """Solves like the impulse itself: the iteration converges at the same rate."""

        def following(x: Wrench) -> Wrench:
            return apart(joined(x) + (right - matvec(joined(x))))

        return joined(_fixed_point(following, apart(right)))

    _, right = sparse_jvp(at_impulse, primals, tangents)
    return impulse, apart(jax.lax.custom_linear_solve(matvec, joined(right), solve, solve))


def _of_half_way(t, phase: Phase, duration, dynamics: Dynamics, impulse: Wrench) -> Wrench:
    half_way = dynamics.inertial.pushed(phase, impulse.force * 0.5, impulse.torque * 0.5)
    return dynamics._kicked(t, half_way, duration)


def _relative(change: Wrench, whole: Wrench, added_to: Wrench | None) -> Float[Array, ""]:
    """The largest squared ratio of an impulse to the size of others, of any body."""

    def ratio(a: Vec3, *others: Vec3):
        size = sum(dot(b, b) for b in others)
        return jnp.max(dot(a, a) / jnp.where(size > 0, size, 1.0))

    all_of = (whole,) if added_to is None else (whole, added_to)
    return jnp.maximum(
        ratio(change.force, *(each.force for each in all_of)),
        ratio(change.torque, *(each.torque for each in all_of)),
    )


def _momenta(phase: Phase) -> Wrench:
    """To which impulses are added, in the same frames."""
    return Wrench(phase.linear_momentum, phase.angular_momentum)


def _taken(tree, order: np.ndarray):
    return jax.tree.map(lambda leaf: jnp.take(leaf, order, axis=0), tree)
