"""Solves the cone problem: from the impulses of the step before, or from afar.

A problem whose old impulses still solve it takes no turn. Otherwise up to a few semismooth turns
are tried from them; where these fail, which active set holds is unknown, and the interior point
method finds it from a start of its own; semismooth turns then polish its answer to round-off. Where
contacts must slip by next to nothing, as feet do that cannot all stay where they are, impulses
change by much while velocities hardly do: that takes turns with a fine proximal term. Where
contacts are on the verge of slipping, and slip by next to nothing, these know no direction of that
slip, and the interior point method begins again and goes on until it shows. All turns share one
matrix and one code. A batch of problems is worked off by a queue, so that none waits for the
hardest.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from ..exec.work_queue import Task, of_lanes, run_queue
from ..math.materialize import compute_once
from ..math.rarely import if_any, where_any
from .cone import ConeProblem, Units
from .interior import InteriorTurn
from .pressure import level
from .residual import Begun, residual_of, velocities_of
from .rows import each, of_lane
from .tolerances import Tolerances
from .turns import (
    Branch,
    Point,
    Semismooth,
    apply,
    curnier_map,
    length,
    project,
)

# Stages of a problem.
WARM, INSIDE, POLISH, ENDED = range(4)
# Ways of semismooth turns: with linear pressures where faces slide; without, and with a large
# proximal term; or with a fine one.
LINEAR, PLAIN, FINE = range(3)
# Semismooth turns in a row, of each way.
_MOST = (4, 12, 24)
# Fine proximal terms, one after another, in units of the residual: slip of that size moves impulses
# by its ratio to the term. All that must reach the cone seldom does with the same one.
_FINE = (3.0, 3.0, 30.0, 0.3, 0.3, 30.0)
# They are tried from residuals below this part of the other ways' least term.
_CLOSE = 0.1
# Slip slower than this, of an answer, is tried with fine terms as well. They take a few turns until
# what is left says how good they are.
_CREEPING = 1e-5
_LEAST_FINE = 6
# More follow while each leaves less than this part of the residual.
_NEARER = 0.1
# Turns from one start in the interior, the sizes of the starts, one after another, and how much of
# the damping they have: with much of it tall stacks keep their digits, with little of it problems
# are solved of which many contacts are about to open or to slide.
_MOST_INSIDE = 25
_STARTS = (1.0, 100.0, 10.0)
_DAMPING = (10.0, 0.1, 1.0)
# And where the answer of the first has not been polished.
_DEEP_DAMPING = 0.1
# The error of a problem times this is the largest residual of impulses that are nearly the answer.
_DRIFT = 4.0


class ConeSolution(NamedTuple):
    """Velocities and impulses of a problem."""

    velocity: Float[Array, "6 n_bodies"]
    impulse: Float[Array, "3 n_contacts"]  # [N s]
    reaction: Float[Array, " n_rows"]  # of joint rows [N s]
    residual: Float[Array, ""]
    turns: Int[Array, ""]
    drifted: Bool[Array, ""]  # whether impulses that are nearly the answer have become better ones


class _State(NamedTuple):
    """The search for one answer, without units."""

    point: Point
    q: Float[Array, " n_rows"]
    stage: Int[Array, ""]
    start: Int[Array, ""]  # of the interior, by number
    in_stage: Int[Array, ""]  # turns
    turns: Int[Array, ""]  # in all
    residual: Float[Array, ""]
    best: tuple[Float[Array, "3 n_contacts"], Float[Array, " n_rows"], Float[Array, ""]]
    inner: tuple[Float[Array, "3 n_contacts"], Float[Array, " n_rows"]]  # found in the interior
    way: Int[Array, ""]  # of semismooth turns
    deep: Bool[Array, ""]  # whether the interior goes on as far as it comes


def _turn(state: _State, problem: ConeProblem, units: Units, tolerances: Tolerances) -> _State:
    """One turn of each lane, in its stage."""
    active, friction = problem.active, problem.friction
    inner = state.stage == INSIDE
    # What is not unique moves by as much as the residual over this term.
    eps = _proximal(state, tolerances, state.residual.dtype)[None]
    point, q = state.point, state.q
    _, u, w = velocities_of(problem, units, point.p, q)
    off = u - point.s  # of the slack
    pads = problem.pads
    off = off.at[0].set(jnp.where(each(pads, u[0]), 0.0, off[0]))

    inside = InteriorTurn(
        point, friction, pads, active, off, _damping(state, tolerances, eps.dtype)
    )
    # Few turns are those of the interior.
    any_inside = jnp.any(inner)
    damped, products, predictor = where_any(any_inside, inside.predictor)
    branch = Branch.of(point.p, u, friction)
    smooth = Semismooth.of(point.p, u, friction, branch, eps)
    response = _choose(inner, damped.response, smooth.response)
    response = jnp.where(active[None, None], response, 0.0)
    asked, yields = problem.yielded(units, q, w)
    stiff = problem.where_yielding(yields, jnp.ones_like(q) / eps)
    respond = _Response.of(problem, units, response, stiff)

    # First solve: the predictor of the interior, or the semismooth step.
    missed = curnier_map(point.p, u, friction, branch)
    constant = smooth.change(missed, jnp.zeros_like(missed), eps)
    # What a row asks for that yields is linear within its bounds, in both solves the same.
    pull = problem.where_yielding(asked - q, -w * stiff)
    du, dp, dq = respond(_choose(inner, predictor, constant), pull)

    # Second solve: with the centre and the corrector, or without the proximal term.
    least = jnp.where(state.deep, tolerances.deep, tolerances.product).astype(eps.dtype)
    first = state.start == 0
    given = damped, products, du, dp, first, least
    corrector, aim = where_any(any_inside, inside.corrector, *given)
    constant = smooth.change(missed, dp, eps)
    pull = problem.where_yielding(asked - q, -(w - eps * dq) * stiff)
    du, dp, dq = respond(_choose(inner, corrector, constant), pull)
    dpsi, ds, size = where_any(any_inside, inside.step, aim, du, dp)
    size = jnp.where(inner, size, 1.0)
    point, q = compute_once((point.moved(Point(dp, dpsi, ds), size), q + size[None] * dq))

    p = problem.followed(point.p)
    _, u, w = velocities_of(problem, units, p, q)
    even = level(problem, p, u)
    # Turns change linear pressures to linear ones, but may begin with others, or open contacts.
    point = point._replace(p=_choose(inner | (state.way != LINEAR), p, even))
    _, u, w = velocities_of(problem, units, point.p, q)
    found = residual_of(problem, units, point.p, q, u, w)
    slip = jnp.where(problem.active & (point.p[0] > 0), length(u[1:]), 0.0)
    creeping = jnp.any((slip > 10 * tolerances.accepted) & (slip < _CREEPING), axis=0)
    accepted = jnp.maximum(problem.error / units.speed, tolerances.accepted)[0]
    return _next(state, Point(*point), q, even, found, creeping, problem, tolerances, accepted)


def _proximal(state: _State, tolerances: Tolerances, dtype) -> Float[Array, " lanes"]:
    """The term of semismooth turns, in the way that they have."""
    fixed = jnp.where(state.way == PLAIN, tolerances.careful, tolerances.proximal)
    parts = jnp.asarray(_FINE, dtype).at[state.in_stage % len(_FINE)].get(mode="clip")
    fine = jnp.clip(parts * state.best[2], tolerances.fine, tolerances.proximal)
    return jnp.where(state.way == FINE, fine, fixed).astype(dtype)


def _damping(state: _State, tolerances: Tolerances, dtype) -> Float[Array, " lanes"]:
    """Of the interior, at the start that it has."""
    damping = jnp.asarray(_DAMPING, dtype).at[state.start].get(mode="clip")
    return tolerances.damping * jnp.where(state.deep, _DEEP_DAMPING, damping)


class _Response(NamedTuple):
    """The matrix of a turn, and what it answers."""

    problem: ConeProblem
    units: Units
    response: Float[Array, "3 3 n_contacts"]  # without units, as the following
    stiff: Float[Array, " n_rows"]
    factors: Float[Array, "n_blocks 6 6"]

    @staticmethod
    def of(problem: ConeProblem, units: Units, response, stiff) -> _Response:
        """With D of each contact and of each joint row."""
        own = _Response(problem, units, response, stiff, response)
        matrix = problem.matrix(own._through, own._rows[None, None])
        return own._replace(factors=problem.elimination.factor(matrix))

    def __call__(self, constant, reaction):
        """The step that impulses would make, of which velocities take back a part: the changes of
        the velocities of contacts, of impulses and of reactions."""
        problem, units, plan = self.problem, self.units, self.problem.elimination
        right = problem.momentum_of_active(
            units.impulse[None] * constant, units.reaction * reaction
        )
        dv = plan.solve(self.factors, right)
        dv = dv + plan.solve(self.factors, right - self._times(dv))
        du = problem.contact_rates.velocity(dv) / units.speed[None]
        dw = problem.joint_rates.velocity(dv)[0] / units.speed
        dp = jnp.where(problem.active[None], constant - apply(self.response, du), 0.0)
        return du, dp, reaction - self.stiff * dw

    @property
    def _through(self):
        return self.response * (self.units.impulse / self.units.speed)[None, None]

    @property
    def _rows(self):
        return self.stiff * (self.units.reaction / self.units.speed)

    def _times(self, dv):
        through = apply(self._through, self.problem.contact_rates.velocity(dv))
        rows = self._rows * self.problem.joint_rates.velocity(dv)[0]
        return self.problem.times_mass(dv) + self.problem.momentum_of_active(through, rows)


def _next(
    state: _State, point, q, even, residual, creeping, problem, tolerances: Tolerances, accepted
) -> _State:
    """What follows a turn: another of its kind, another kind, or the end.

    Args:
        state: before it.
        point, q, residual: after it.
        even: its impulses, with linear pressures.
        creeping: whether contacts that bear slip by next to nothing.
        accepted: the residual of an answer.
    """
    finite = jnp.isfinite(residual)
    better = residual < state.best[2]
    best = _choose(better, (point.p, q, residual), state.best)
    count, inner = state.in_stage + 1, state.stage == INSIDE
    plain = state.way != LINEAR
    ended, creeps = _ended(state, residual, best[2], creeping, tolerances, accepted)
    most = jnp.asarray(_MOST, jnp.int32).at[state.way].get(mode="clip")
    many = (count >= most) & (residual > accepted) & ~(residual < _NEARER * state.residual)
    # With a small term the residual is large until all that changes has changed.
    grows = (residual > 10 * state.residual) & (state.way != FINE)
    lost = ~finite | grows | many
    lost &= ~inner & ~ended
    # Without contacts that bear the interior may reach the end at once.
    near = inner & ~state.deep & ~ended & (residual <= tolerances.near)
    # What the interior does not come near to may yet be polished from its best.
    tried = inner & (count >= _MOST_INSIDE) & ~near
    stalled = tried & (best[2] <= tolerances.coarse)
    stuck = (tried & ~stalled) | (inner & ~finite)
    stalled &= finite
    # Linear pressures may not solve it, where they would have to pull.
    polished = lost & (state.stage == POLISH)
    again = polished & ~plain
    # Contacts that must slip by next to nothing are on the cone: turns move impulses there by that
    # slip over the proximal term.
    close = best[2] <= _CLOSE * tolerances.proximal
    fine = lost & jnp.where(state.stage == WARM, ~plain, state.way == PLAIN) & close | creeps
    deepen = polished & ~again & ~fine & (state.start == 0) & ~state.deep
    anew = (lost & ~again & ~fine) | stuck
    failed = anew & (state.stage != WARM) & ~deepen
    start = jnp.where(failed, state.start + 1, state.start)
    exhausted = anew & (start >= len(_STARTS))
    stage = jnp.where(anew, INSIDE, jnp.where(near | stalled, POLISH, state.stage))
    stage = jnp.where(ended | exhausted, ENDED, stage).astype(jnp.int32)

    found = _choose(near, (point.p, q), state.inner)
    p = _choose(near, even, point.p)
    p, q = _choose(again, found, _choose(stalled | fine, best[:2], (p, q)))
    sizes = jnp.asarray(_STARTS, residual.dtype)
    fresh = _start_inside(problem, point, sizes.at[start].get(mode="clip"))
    point = _choose(anew, fresh, point._replace(p=p))
    q = jnp.where(anew[None], 0.0, q)
    # The interior has other pressures than linear ones; they are no answer while there are these.
    best = (best[0], best[1], jnp.where(near, jnp.inf, best[2]))
    changed = anew | near | stalled | again | fine
    count = jnp.where(changed, 0, count)
    residual = jnp.where(changed, jnp.inf, residual)
    way = jnp.where(again | stalled, PLAIN, jnp.where(fine, FINE, state.way))
    way = jnp.where(near | anew, LINEAR, way).astype(jnp.int32)
    turns = state.turns + 1
    deep = (state.deep | deepen) & ~failed
    return _State(point, q, stage, start, count, turns, residual, best, found, way, deep)


def _ended(
    state: _State, residual, best, creeping, tolerances: Tolerances, accepted
) -> tuple[Bool[Array, " lanes"], Bool[Array, " lanes"]]:
    """Whether no turn need follow; and whether none would, but for contacts that slip by next to
    nothing, for which finer ones are left."""
    smooth, fine = state.stage != INSIDE, state.way == FINE
    reached = residual <= tolerances.reached
    # A polish that no longer improves has reached round-off. That of linear pressures is the
    # round-off of velocities over the proximal term, from turn to turn another.
    settled = smooth & (best <= accepted) & ~(residual < 0.5 * state.residual)
    settled &= ~(fine & (state.in_stage + 1 < _LEAST_FINE))
    # Where all contacts of a face have nearly all the friction they can, they may slip or stick,
    # and slip along friction is in the residual only by the angle between both.
    creeps = settled & ~fine & creeping & ~reached
    # One with which a step is taken is no better from elsewhere where contacts that stick cannot
    # all do so, as of faces that meet and tilt: the law asks them to slip by as little.
    nearly = (best <= tolerances.allowed) & (residual > 0.9 * state.residual)
    settled |= smooth & (state.way != LINEAR) & nearly
    return reached | (settled & ~creeps), creeps


def _start_inside(problem: ConeProblem, like: Point, size) -> Point:
    """On the axes of the cones."""
    one = jnp.ones_like(like.psi) * size[None]
    zero = jnp.zeros_like(one)
    normal = jnp.where(each(problem.pads, one), like.p[0], one)
    return Point(jnp.stack([normal, zero, zero]), one, jnp.stack([one, zero, zero]))


def _choose(where: Bool[Array, " lanes"], new: Any, old: Any) -> Any:
    return jax.tree.map(lambda a, b: jnp.where(of_lane(where, a), a, b), new, old)


def _task(unpack, tolerances: Tolerances) -> Task:
    def needed(columns):
        return unpack(columns)[1].wanting

    def start(columns):
        problem, (_, p, q, found, _) = unpack(columns)
        zero = jnp.zeros(found.shape, jnp.int32)
        point = _start_inside(problem, Point(p, p[0], p), jnp.ones_like(found))
        best = (p, q, found)
        point, no = point._replace(p=p), jnp.zeros(found.shape, bool)
        return _State(point, q, zero, zero, zero, zero, found, best, (p, q), zero, no)

    def turn(state, columns):
        problem, begun = unpack(columns)
        return _turn(state, problem, begun.units, tolerances)

    def ended(state):
        return state.stage == ENDED

    def finish(state, columns):
        problem, begun = unpack(columns)
        units = begun.units
        p, q, residual = state.best
        p = jnp.where(problem.active[None], project(p, problem.friction), 0.0)
        p = p.at[0].set(jnp.where(each(problem.pads, p[0]), state.best[0][0], problem.follow(p[0])))
        impulse, reaction = units.impulse[None] * p, units.reaction * q
        v = problem.velocity(impulse, reaction)
        turns, error = state.turns.astype(v.dtype), (problem.error / units.speed)[0]
        drifted = begun.residual <= jnp.maximum(tolerances.allowed, _DRIFT * error)
        drifted &= residual < 0.5 * begun.residual
        return _pack((v, impulse, reaction, residual, turns, drifted))

    return Task(needed, start, turn, ended, finish)


def _pack(tree) -> Float[Array, "numbers lanes"]:
    leaves = jax.tree.leaves(tree)
    dtype = jnp.result_type(*(leaf for leaf in leaves if jnp.issubdtype(leaf.dtype, jnp.inexact)))
    return jnp.concatenate([leaf.reshape(-1, leaf.shape[-1]).astype(dtype) for leaf in leaves])


def _layout(tree):
    """What puts columns back into the form of a tree."""
    leaves, structure = jax.tree.flatten(tree)
    shapes = [(leaf.shape, leaf.dtype) for leaf in leaves]

    def unpack(columns):
        parts, at = [], 0
        for shape, dtype in shapes:
            size = 1
            for n in shape:
                size *= n
            part = columns[at : at + size].reshape(*shape, columns.shape[-1])
            parts.append(part > 0.5 if dtype == jnp.bool_ else part.astype(dtype))
            at += size
        return jax.tree.unflatten(structure, parts)

    return unpack


def _one_lane(tree) -> Float[Array, "numbers 1"]:
    return _pack(jax.tree.map(lambda leaf: leaf[..., None], tree))


def search(
    problem: ConeProblem, impulse, reaction, exactly: bool | Bool[Array, ""] = False
) -> ConeSolution:
    """The answer, sought from given impulses; its derivatives are not those of the answer.

    Args:
        problem: see `ConeProblem`.
        impulse, reaction: of contacts and joint rows [N s].
        exactly: whether these are kept only if they solve it as exactly as turns would.
    """
    return _search(problem, impulse, reaction, jnp.asarray(exactly))


@jax.jit  # a program uses it many times and traces it once
def _search(problem: ConeProblem, impulse, reaction, exactly) -> ConeSolution:
    begun = Begun.of(problem, impulse, reaction, exactly)
    # Most steps of what rests end here.
    solution = if_any(begun.wanting, _sought, _kept, problem, begun)
    # To the last digit: what rests is to be the same after each step.
    kept = jnp.where(problem.active[None], problem.press(impulse), 0.0), reaction
    found = solution.impulse, solution.reaction
    impulse, reaction = _choose(begun.wanting, found, kept)
    turns = solution.turns.astype(jnp.int32)
    return solution._replace(impulse=impulse, reaction=reaction, turns=turns)


def _kept(problem: ConeProblem, begun: Begun) -> ConeSolution:
    """The impulses with which the search begins."""
    units, p, q, residual, _ = begun
    p, q = jnp.where(problem.active[None], units.impulse[None] * p, 0.0), units.reaction * q
    none = jnp.zeros_like(residual)
    return ConeSolution(problem.velocity(p, q), p, q, residual, none, none > 0)


def _sought(problem: ConeProblem, begun: Begun) -> ConeSolution:
    """The answer, by a queue of all problems of a batch that have none yet."""
    given = (problem, begun)
    tolerances = Tolerances.of(problem.free.dtype)
    unpack = _layout(given)

    def solved(columns):
        problem, begun = unpack(columns)
        begun = begun.levelled(problem)
        task = _task(unpack, tolerances)
        found = run_queue(task, _pack((problem, begun)))
        return _choose(begun.wanting, found, _pack(_kept(problem, begun)))

    found = of_lanes(solved)(_one_lane(given))
    like = jax.eval_shape(_kept, *given)
    return jax.tree.map(lambda leaf: leaf[..., 0], _layout(like)(found))
