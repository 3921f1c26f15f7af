"""The solution of the cone problem, with its derivatives."""

from __future__ import annotations

from functools import partial

import jax

from ..math.autodiff import keep_rule, sparse_jvp
from .cone import ConeProblem
from .cone_solver import ConeSolution, search
from .linearized import Linearized
from .scene import Impulse


def solve_cone(problem: ConeProblem, impulse, reaction) -> ConeSolution:
    """Velocities and impulses after contact.

    Args:
        problem: see `ConeProblem`.
        impulse: where to begin, of contacts [N s], shape (3, n_contacts); no derivative depends on
            it.
        reaction: likewise, of joint rows [N s].
    """
    found = search(*jax.lax.stop_gradient((problem, impulse, reaction)))
    impulses = answer(problem, Impulse(found.impulse, found.reaction))
    velocity = problem.velocity(*impulses)
    contact, joint = impulses
    return found._replace(velocity=velocity, impulse=contact, reaction=joint)


@jax.jit  # a program uses it many times and traces its rule once
def answer(problem: ConeProblem, known: Impulse) -> Impulse:
    """Impulses that solve a problem, which are known, with the derivatives of its solution."""
    return _answer(problem, known)


@jax.custom_jvp
def _answer(problem: ConeProblem, known: Impulse) -> Impulse:
    return known


@partial(_answer.defjvp, symbolic_zeros=True)
def _(primals, tangents):
    problem, _ = primals
    impulse = keep_rule(_answer)(*primals)
    linearized = Linearized.of(problem, impulse, _velocities(problem, impulse))
    x = linearized.flat(impulse)

    def equations(x, problem: ConeProblem):
        velocities = _velocities(problem, linearized.impulses(x))
        given = problem.friction, problem.pressed, problem.yielding, problem.contact_rates
        return linearized.equations(x, velocities, *given)

    def matvec(dx):
        return jax.jvp(lambda x: equations(x, problem), (x,), (dx,))[1]

    _, change = sparse_jvp(partial(equations, x), primals[:1], tangents[:1])
    return impulse, linearized.impulses(linearized.follow(matvec, change))


def _velocities(problem: ConeProblem, impulse: Impulse) -> Impulse:
    """Along the rows [m/s]."""
    v = problem.velocity(*impulse)
    return Impulse(problem.contact_velocity(v), problem.joint_velocity(v))
