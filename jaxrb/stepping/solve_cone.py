"""The solution of the cone problem and its derivative.

The derivative is that of the implicit function: the natural map linearised at the solution itself,
by the semismooth turn's own matrix. Where impulses are not unique, it takes their change of least
size, in the units of the contacts; that of the velocities does not depend on it.
"""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax.custom_batching import custom_vmap

from ..math.autodiff import keep_rule, sparse_jvp
from .cone import ConeProblem
from .cone_solver import ConeSolution, Tolerances, search, velocities
from .turns import Semismooth, apply, natural_map

# Passes that take the proximal term away.
_PASSES = 4


@jax.custom_jvp
def solve_cone(problem: ConeProblem, impulse, reaction) -> ConeSolution:
    """Velocities and impulses after contact.

    Args:
        problem: see `ConeProblem`.
        impulse: where to begin, of contacts [N s], shape (3, n_contacts); no derivative depends on
            it.
        reaction: likewise, of joint rows [N s].
    """
    return search(problem, impulse, reaction)


@partial(solve_cone.defjvp, symbolic_zeros=True)
def _(primals, tangents):
    problem, impulse, reaction = primals
    solution = keep_rule(solve_cone)(*primals)
    units = jax.lax.stop_gradient(problem.units())
    p, q = solution.impulse / units.impulse, solution.reaction / units.reaction
    eps = Tolerances.of(p.dtype).proximal
    active = problem.active

    def explicit(problem):
        """What the problem changes while the impulses stay."""
        v = velocities(problem, units, p, q)
        u = problem.contact_velocity(v) / units.speed
        w = (problem.joints.velocity(v)[0] + problem.drift) / units.speed
        # By friction; velocities enter the map through the linear law.
        at = jax.lax.stop_gradient(u)
        return v, u, w, natural_map(p, at, problem.friction)

    (_, u, _, _), (dv, du, dw, missed) = sparse_jvp(explicit, (problem,), tangents[:1])
    law = Semismooth.of(p, u, problem.friction, eps)
    response = jnp.where(active, law.response, 0.0)
    stiff = jnp.ones_like(q) / eps
    solve = _linear(problem, response * units.impulse / units.speed, stiff * units.reaction / units.speed)

    dp, dq = jnp.zeros_like(p), jnp.zeros_like(q)
    for _ in range(_PASSES):
        constant = law.change(missed, dp, eps) - apply(law.response, du)
        constant = jnp.where(active, constant, 0.0)
        rows = (eps * dq - dw) * stiff
        moved = solve(
            problem.contacts.momentum(units.impulse * constant)
            + problem.joints.momentum((units.reaction * rows)[None])
        )
        dp = constant - apply(response, problem.contacts.velocity(moved)) / units.speed
        dq = rows - stiff * problem.joints.velocity(moved)[0] / units.speed
    change = ConeSolution(
        dv + moved,
        units.impulse * dp,
        units.reaction * dq,
        jnp.zeros_like(solution.residual),
        np.zeros(solution.turns.shape, jax.dtypes.float0),
    )
    return solution, change


def _linear(problem: ConeProblem, response, stiffness):
    """What solves (M + G^T D G + H^T E H) dv = r, in both modes."""
    plan = problem.elimination
    matrix = problem.matrix(response, stiffness[None, None])
    factors = jax.lax.stop_gradient(lanes_last(plan.factor)(jax.lax.stop_gradient(matrix)))

    def times(dv):
        through = apply(response, problem.contacts.velocity(dv))
        rows = stiffness * problem.joints.velocity(dv)[0]
        return (
            problem.times_mass(dv)
            + problem.contacts.momentum(through)
            + problem.joints.momentum(rows[None])
        )

    def solver(transposed):
        once = lanes_last(partial(plan.solve, transposed=transposed))

        def solve(matvec, right):
            dv = once(factors, right)
            return dv + once(factors, right - matvec(dv))

        return solve

    def solve(right):
        return jax.lax.custom_linear_solve(times, right, solver(False), solver(True))

    return solve


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
