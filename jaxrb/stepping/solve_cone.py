"""The solution of the cone problem and its derivative.

The derivative is that of the implicit function: the natural map linearised at the solution itself,
by the semismooth turn's own matrix. Where impulses are not unique, it takes their change of least
size, in the units of the contacts; that of the velocities does not depend on it.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.custom_batching import custom_vmap
from jaxtyping import Array, Float

from ..math.autodiff import keep_rule, sparse_jvp
from .cone import ConeProblem, Units
from .cone_solver import ConeSolution, Tolerances, search
from .turns import Semismooth, apply, curnier_map

# Passes that take the proximal term away.
_PASSES = 4


def solve_cone(problem: ConeProblem, impulse, reaction) -> ConeSolution:
    """Velocities and impulses after contact.

    Args:
        problem: see `ConeProblem`.
        impulse: where to begin, of contacts [N s], shape (3, n_contacts); no derivative depends on
            it.
        reaction: likewise, of joint rows [N s].
    """
    found = search(*jax.lax.stop_gradient((problem, impulse, reaction)))
    after = answer(problem, found.impulse, found.reaction)
    return ConeSolution(*after, found.residual, found.turns)


class Answer(NamedTuple):
    """What solves a cone problem."""

    velocity: Float[Array, "6 n_bodies"]
    impulse: Float[Array, "3 n_contacts"]  # [N s]
    reaction: Float[Array, " n_rows"]  # of joint rows [N s]


@jax.custom_jvp
def answer(problem: ConeProblem, impulse, reaction) -> Answer:
    """Impulses that solve a problem, with the derivatives of its solution, and the velocities."""
    return Answer(problem.velocity(impulse, reaction), impulse, reaction)


@partial(answer.defjvp, symbolic_zeros=True)
def _(primals, tangents):
    solution = keep_rule(answer)(*primals)
    p, q = solution.impulse, solution.reaction

    def before(problem: ConeProblem):
        """What the problem changes while the impulses stay."""
        v = problem.velocity(p, q)
        return v, problem.contact_velocity(v), problem.joint_velocity(v), problem.friction

    found, change = sparse_jvp(before, primals[:1], tangents[:1])
    (_, u, _, _), (dv, du, dw, dmu) = found, change
    response = Response.of(primals[0], p, q, u)
    dp, dq, by_impulses = response.impulses(du, dw, dmu)
    return solution, Answer(dv + by_impulses, dp, dq)


class Response(eqx.Module):
    """How the impulses of a solution follow the velocities that are not due to them; linear."""

    problem: ConeProblem
    units: Units
    law: Semismooth
    by_friction: Float[Array, "3 n_contacts"]  # of the natural map
    factors: Float[Array, "n_blocks 6 6"]
    eps: float = eqx.field(static=True)

    @staticmethod
    def of(problem: ConeProblem, impulse, reaction, velocity) -> Response:
        """At impulses [N s] that solve a problem with velocities u [m/s]."""
        units = jax.lax.stop_gradient(problem.units())
        eps = Tolerances.of(velocity.dtype).proximal
        p, u, mu = impulse / units.impulse[None], velocity / units.speed[None], problem.friction
        law = Semismooth.of(p, u, mu, eps)
        law = law._replace(response=jnp.where(problem.active[None, None], law.response, 0.0))
        _, by_friction = jax.jvp(lambda mu: curnier_map(p, u, mu), (mu,), (jnp.ones_like(mu),))
        scaled = law.response * (units.impulse / units.speed)[None, None]
        stiff = units.reaction / (eps * units.speed)
        matrix = jax.lax.stop_gradient(problem.matrix(scaled, stiff[None, None]))
        factors = lanes_last(problem.elimination.factor)(matrix)
        return Response(problem, units, law, by_friction, factors, eps)

    def impulses(self, du, dw, dmu):
        """The changes of the impulses [N s] and of the velocities by them, due to those of u and w
        without them [m/s] and of mu."""
        units, eps, problem = self.units, self.eps, self.problem
        du, dw = du / units.speed[None], dw / units.speed
        missed = self.by_friction * dmu[None]
        dp, dq = jnp.zeros_like(du), jnp.zeros_like(dw)
        for _ in range(_PASSES):
            constant = self.law.change(missed, dp, eps) - apply(self.law.response, du)
            constant = jnp.where(problem.active[None], constant, 0.0)
            rows = dq - dw / eps
            moved = self._solve(
                problem.momentum(units.impulse[None] * constant, units.reaction * rows)
            )
            own = problem.contacts.velocity(moved) / units.speed[None]
            dp = constant - apply(self.law.response, own)
            dq = rows - problem.joints.velocity(moved)[0] / (eps * units.speed)
        # Velocities are not taken from impulses, which many contacts share and round off.
        return units.impulse[None] * dp, units.reaction * dq, moved

    def _solve(self, right):
        """(M + G^T D G + H^T E H)^-1 of momenta, in both modes."""
        problem, units = self.problem, self.units
        plan = problem.elimination

        def times(dv):
            through = apply(self.law.response, problem.contacts.velocity(dv)) / units.speed[None]
            rows = problem.joints.velocity(dv)[0] / (self.eps * units.speed)
            own = problem.momentum(units.impulse[None] * through, units.reaction * rows)
            return problem.times_mass(dv) + own

        def solver(transposed):
            once = lanes_last(partial(plan.solve, transposed=transposed))

            def solve(matvec, right):
                dv = once(self.factors, right)
                return dv + once(self.factors, right - matvec(dv))

            return solve

        return jax.lax.custom_linear_solve(times, right, solver(False), solver(True))


def lanes_last(function):
    """A function of arrays after whose axes lanes may follow: `vmap` lets them follow there.

    What it is never asked for is its derivative.
    """

    @custom_vmap
    def call(*arrays):
        return function(*arrays)

    @call.def_vmap
    def _(size, batched, *arrays):
        trailing = []
        for array, own in zip(arrays, batched, strict=True):
            moved = jnp.moveaxis(array, 0, -1) if own else array[..., None]
            trailing.append(jnp.broadcast_to(moved, (*moved.shape[:-1], size)))
        found = call(*trailing)
        return jnp.moveaxis(found, -1, 0), True

    return call
