"""The equations of a cone problem at a solution, linearised, and what follows from their change.

Derivatives of impulses are those of the implicit function: A dx = -b with the derivative A of the
equations by the impulses themselves and b by all else. It is solved by repetition with the inverse
that one semismooth turn has, in both modes. Where impulses are not unique, A has none: what comes
out then is a solution of least size, about, and velocities do not depend on which.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.custom_batching import custom_vmap
from jaxtyping import Array, Float

from ..math.autodiff import Differential, linear_solve
from .cone import ConeProblem, Units
from .pressure import Shared
from .refinement import Flat, refined
from .rows import Rows, take, total
from .scene import Impulse
from .tolerances import Tolerances
from .turns import Branch, Semismooth, apply, curnier_map
from .yielding import Yielding


class Linearized(eqx.Module):
    """A cone problem at its solution. Unknowns are impulses without units, in one row: of contacts
    by components, then of joint rows."""

    problem: ConeProblem
    units: Units
    branch: Branch
    law: Semismooth
    shared: Shared | None
    factors: Float[Array, "n_blocks 6 6"]
    yields: Float[Array, " n_rows"]
    eps: float = eqx.field(static=True)

    @staticmethod
    def of(problem: ConeProblem, impulse: Impulse, velocities: Impulse) -> Linearized:
        """At impulses [N s] that solve a problem with velocities u and w [m/s]."""
        problem, impulse, velocities = jax.lax.stop_gradient((problem, impulse, velocities))
        units, velocity = problem.units(), velocities.contact
        q, w = impulse.joint / units.reaction, velocities.joint / units.speed
        _, yields = problem.yielded(units, q, w)
        # A turn leaves what it adds, and round-off over the square of it: with less no digit is
        # left where arms are long beside the radii of inertia.
        eps = 1e-6 if jnp.finfo(velocity.dtype).eps < 1e-10 else 5e-3
        p, u = impulse.contact / units.impulse[None], velocity / units.speed[None]
        # One that bears nothing is open: where others bear the load for it, it moves no more than
        # they do, and to bear some of it would be another of the many ways to share that load.
        bears = p[0] > jnp.maximum(Tolerances.of(velocity.dtype).accepted, _least(problem, p[0]))
        p = jnp.where(bears[None], p, 0.0)
        branch = Branch.of(p, u, problem.friction)
        branch = Branch(branch.closed & bears, branch.slips & bears)
        law = Semismooth.of(p, u, problem.friction, branch, eps).given(problem.pads, eps)
        law = law._replace(response=jnp.where(problem.active[None, None], law.response, 0.0))
        scaled = law.response * (units.impulse / units.speed)[None, None]
        held = units.reaction / (eps * units.speed)
        stiff = problem.where_yielding(yields * units.reaction / units.speed, held)
        matrix = problem.matrix(scaled, stiff[None, None])
        factors = lanes_last(problem.elimination.factor)(matrix)
        return Linearized(
            problem, units, branch, law, Shared.of(problem, p, u), factors, yields, eps
        )

    def flat(self, impulse: Impulse) -> Flat:
        """The unknowns of impulses [N s]."""
        p = impulse.contact / self.units.impulse[None]
        q = impulse.joint / self.units.reaction
        return jnp.concatenate([p.reshape(-1), q])

    def impulses(self, x: Flat) -> Impulse:
        """Impulses [N s] of the unknowns."""
        p, q = self._split(x)
        return Impulse(p * self.units.impulse[None], q * self.units.reaction)

    def equations(
        self, x: Flat, velocities: Impulse, friction, pressed, yielding: Yielding, rates: Rows
    ) -> Flat:
        """What is zero at a solution, for velocities of contacts and joint rows [m/s], friction,
        the normal impulses that are known [N s], the law of rows that yield, and the rows along
        which velocities change."""
        p, q = self._split(x)
        u, w = velocities.contact / self.units.speed[None], velocities.joint / self.units.speed
        missed = curnier_map(p, u, friction, self.branch)
        if self.shared is not None:
            # Velocities of a face are linear functions of the place: of the sum both parts vanish.
            missed = missed.at[0].add(self.shared.beyond_linear(rates, p[0]))
        missed = self._tied(missed, p)
        if pressed.size:
            known = pressed / self.units.impulse[-pressed.size :]
            missed = missed.at[0, -pressed.size :].set(p[0, -pressed.size :] - known)
        missed = jnp.where(self.problem.active[None], missed, p)
        asked, _ = dataclasses.replace(self.problem, yielding=yielding).yielded(self.units, q, w)
        return self._join(missed, self.problem.where_yielding(q - asked, w))

    def follow(self, matvec: Callable[[Flat], Flat], change: Flat) -> Flat:
        """The change of the unknowns by a change of the equations.

        Args:
            matvec: the derivative of the equations by the unknowns; linear.
            change: of the equations while the unknowns stay.
        """
        inverse, transpose = (partial(self._inverse, transposed=x) for x in (False, True))

        def solve(inverse):
            def solved(matvec, right):
                apply = lambda _, x, __: (matvec(x), ())  # noqa: E731
                return refined(inverse, apply, ([], right, []))[0]

            return solved

        return jax.lax.custom_linear_solve(matvec, -change, solve(inverse), solve(transpose))

    def follow_flight(self, flight: Differential, equations: Differential) -> tuple[Impulse, Any]:
        """The changes of the impulses at the start of a flight and of what comes of it.

        Both are unknowns of one linear system, in which the flight stands once: first along what is
        given, then along what each turn adds to the impulses.

        Args:
            flight: of what comes of it, by the impulses and what is given.
            equations: as they change by the impulses, by what comes of the flight and what is
                given.
        """
        dgiven = flight.directions[len(Impulse._fields) :]

        def of_impulses(x: Flat) -> list:
            return list(self.impulses(x))

        def to_unknowns(impulses: list) -> Flat:
            """The transpose."""
            contact, joint = impulses
            return self._join(contact * self.units.impulse[None], joint * self.units.reaction)

        def forwards(dgiven, x, dend):
            impulses = of_impulses(x)
            dend = _sum(dend, flight.push([*impulses, *dgiven]))
            (missed,) = equations.push([*impulses, *dend, *dgiven])
            return missed, dend

        def backwards(dgiven, x, dend):
            pulled = equations.pull([x])
            missed, by_end, by_given = pulled[:2], pulled[2:][: len(dend)], pulled[2 + len(dend) :]
            dend = _difference(dend, by_end)
            through = flight.pull(dend)
            missed = to_unknowns(_difference(missed, through[:2]))
            return missed, (_sum(dgiven, _difference(through[2:], by_given)), dend)

        def system(changes):
            dgiven, x, dend = changes
            impulses = of_impulses(x)
            (missed,) = equations.push([*impulses, *dend, *dgiven])
            return dgiven, missed, _difference(dend, flight.push([*impulses, *dgiven]))

        def solve(_, right):
            x, dend = refined(partial(self._inverse, transposed=False), forwards, right)
            return right[0], x, dend

        def transposed(_, right):
            inverse = partial(self._inverse, transposed=True)
            x, (dgiven, dend) = refined(inverse, backwards, right)
            return dgiven, x, dend

        none = jnp.zeros_like(self.flat(Impulse(*flight.directions[: len(Impulse._fields)])))
        right = (dgiven, none, flight.no_change())
        _, x, dend = linear_solve(system, right, solve, transposed)
        return self.impulses(x), flight.tree(dend)

    def _tied(self, missed, p):
        """With the equations of followers, whose normal impulses are those of their sources."""
        own, problem = self.problem.followers, self.problem
        if not problem.sources:
            return missed
        return missed.at[0, own].set(p[0, own] - p[0, np.array(problem.sources)])

    def _untied(self, missed, transposed: bool):
        """Of equations with these those that followers would have as contacts, which are solved by
        the same impulses; or the transpose of that map."""
        own, sources = self.problem.followers, np.array(self.problem.sources, int)
        if not self.problem.sources:
            return missed
        normal = missed[0]
        share = jnp.where(self.problem.active, self.law.inverse[0, 0], 1.0)[own]
        if transposed:
            normal = normal.at[sources].add(normal[own]).at[own].divide(share)
        else:
            normal = normal.at[own].set(normal[sources] + normal[own] / share)
        return missed.at[0].set(normal)

    def _beyond_less(self, missed):
        """With less of what is no linear function of the place, which impulses make up for as it
        is, while of velocities a turn takes what is missed over the term for impulses. It is its
        own transpose."""
        if self.shared is None:
            return missed
        beyond = self.shared.beyond_linear(self.problem.contact_rates, missed[0], turns=1)
        return missed.at[0].add((self.eps - 1) * beyond)

    def _split(self, x: Flat):
        n = self.problem.friction.shape[0]
        return x[: 3 * n].reshape(3, n), x[3 * n :]

    def _inverse(self, x: Flat, transposed: bool) -> Flat:
        """Nearly the inverse of the derivative of the equations, or its transpose.

        With dp = N r - D G dv at contacts and dq = (r - H dv)/eps at joints, or r - d H dv,
        the velocities follow from (M + G^T D G + H^T H/eps) dv = G^T N r + H^T r/eps.
        """
        problem, units, law = self.problem, self.units, self.law
        one = jnp.ones_like(units.reaction)
        share = problem.where_yielding(one, one / self.eps)
        stiff = problem.where_yielding(self.yields, one / self.eps)
        active = problem.active[None]
        p, q = self._split(x)
        solve = lanes_last(partial(problem.elimination.solve, transposed=transposed))
        if transposed:
            pushed = apply(_transpose(law.response), p) / units.speed[None]
            pulled = problem.joint_rates.momentum((q * stiff / units.speed)[None])
            dv = solve(self.factors, problem.contact_rates.momentum(pushed) + pulled)
            p = p - jnp.where(active, problem.contacts.velocity(dv) * units.impulse[None], 0.0)
            q = q - problem.joints.velocity(dv)[0] * units.reaction
            p = jnp.where(active, apply(_transpose(law.inverse), p), p)
            return self._join(self._untied(self._beyond_less(p), transposed=True), q * share)
        p = self._beyond_less(self._untied(p, transposed=False))
        p, q = jnp.where(active, apply(law.inverse, p), p), q * share
        dv = solve(self.factors, problem.momentum(p * units.impulse[None], q * units.reaction))
        p = p - apply(law.response, problem.contact_rates.velocity(dv)) / units.speed[None]
        return self._join(p, q - problem.joint_rates.velocity(dv)[0] * stiff / units.speed)

    def _join(self, p, q) -> Flat:
        return jnp.concatenate([p.reshape(-1), q])


def _least(problem: ConeProblem, normal: Float[Array, " n_contacts"]) -> Float[Array, "..."]:
    """What is no load beside that of all contacts of a pair: what turns leave where a face could
    share its load in many ways, and this contact bears nothing."""
    pairs = problem.contacts.links.of_pairs
    if pairs is None:
        return jnp.zeros((), normal.dtype)
    table, owner = pairs
    load = total(jnp.where(problem.active, normal, 0.0)[None], table, 1)[0]
    part = 1e-6 if jnp.finfo(normal.dtype).eps < 1e-10 else 1e-3
    # Of dry friction in joints the load is known, however small.
    return jnp.where(problem.pads, 0.0, part * take(load, owner, 0))


def _transpose(matrix: Float[Array, "3 3 n_contacts"]) -> Float[Array, "3 3 n_contacts"]:
    return jnp.swapaxes(matrix, 0, 1)


def _sum(a: list, b: list) -> list:
    return [x + y for x, y in zip(a, b, strict=True)]


def _difference(a: list, b: list) -> list:
    return [x - y for x, y in zip(a, b, strict=True)]


def lanes_last(function: Callable) -> Callable:
    """A function of arrays after whose axes lanes may follow: `vmap` lets them follow there.

    What it is never asked for is its derivative.
    """

    @custom_vmap
    def call(*arrays):
        # XLA on CPU (JAX 0.10.1) gives wrong solutions of transposed systems where it fuses what
        # makes their right side into them.
        return function(*jax.lax.optimization_barrier(arrays))

    @call.def_vmap
    def _(size, batched, *arrays):
        trailing = []
        for array, own in zip(arrays, batched, strict=True):
            moved = jnp.moveaxis(array, 0, -1) if own else array[..., None]
            trailing.append(jnp.broadcast_to(moved, (*moved.shape[:-1], size)))
        found = call(*trailing)
        return jnp.moveaxis(found, -1, 0), True

    return call
