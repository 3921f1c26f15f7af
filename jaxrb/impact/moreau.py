"""Moreau's law of impact: friction of the whole impulse.

In the contact frame, with W the inverse inertia and b = -(1 + e) v_n > 0, an impulse that slips is

    P = N (mu d, 1),   N = b / k(d),   k(d) = W_nn + mu W_nt . d,

for a direction d = (cos a, sin a) against the slip after, v_t + W_tn N + W_tt mu N d = -l d with
l >= 0. Across d this is zero, which times k(d) is a trigonometric polynomial of degree 2 in a: it
has at most four roots.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, Float

from ..math import Sym3, Vec3, tree_where
from ..math.autodiff import keep_rule
from .coulomb import Resolved
from .laws import AbstractContactLaw, friction_number, in_unit_interval, restitution_number

# Of the circle; roots nearer to each other than one of them may hide each other.
_PARTS = 32
# Newton's rule within a part: quadratic from a hundredth of a turn on. Where it leaves, the end of
# the part is tried, then bisection.
_TURNS = 8

Numbers = tuple[Sym3, Vec3, Float[Array, "..."], Float[Array, "..."]]  # W, v before, mu and e


class Moreau(AbstractContactLaw):
    """Newton's restitution, and Coulomb's friction of the whole impulse.

    The gap opens at `restitution` times the speed at which it closed; the contact does not slip
    after the impact, or its impulse lies on the cone of friction against the slip after (Moreau
    1988, Unilateral contact and dry friction in finite freedom dynamics). What happens in the
    course of the impact, which `Coulomb` follows, is not asked. This is the impact of time stepping
    methods, such as Siconos' and those of game engines, and of the impacts in which several
    contacts take part here (see `EventDriven`): the law for motions of theirs. The two differ where
    the slip turns or ends in the impact.

    With friction and a restitution above 0 it can gain energy (Kane's paradox), as every law with
    Newton's restitution. Where the contact can stick it does; of several slips after, which strong
    coupling of the normal with tangents allows, it takes that with the least impulse.

    Attributes:
        friction: mu, 0 or more.
        restitution: e, from 0 (plastic) to 1.

    Raises:
        ValueError: naming the argument that is not understood.
    """

    friction: Float[Array, "..."]
    restitution: Float[Array, "..."]

    def __init__(self, friction: ArrayLike, restitution: ArrayLike = 1.0):
        self.friction = friction_number(friction, "Moreau.friction")
        self.restitution = restitution_number(restitution, "Moreau.restitution")

    def lawful(self):
        return in_unit_interval(self.restitution) & jnp.all(self.friction >= 0)

    @property
    def coefficient_of_friction(self):
        return self.friction

    def resolve(self, inverse_inertia, velocity, collinearity):
        del collinearity
        v, mu, e = velocity, self.friction, self.restitution
        stuck = -inverse_inertia.solve(Vec3(v.x, v.y, (1 + e) * v.z))
        room = mu * stuck.z
        sticks = (stuck.z > 0) & (stuck.x * stuck.x + stuck.y * stuck.y <= room * room)
        # Where it sticks the angle may be any, and its derivative is not asked.
        other = Vec3(jnp.where(sticks, 1.0, v.x), jnp.where(sticks, 0.0, v.y), v.z)
        numbers = (inverse_inertia, other, mu, e)
        angle = slip_angle(numbers)
        push = slip(angle, numbers).push
        slid = Vec3(mu * push * jnp.cos(angle), mu * push * jnp.sin(angle), push)
        impulse = tree_where(sticks, stuck, slid)
        return Resolved(
            impulse,
            -v.z / inverse_inertia.diagonal.z,
            stuck_at=jnp.where(sticks, impulse.z, jnp.inf),
            collinear_at=jnp.full_like(push, jnp.inf),
            sticks=sticks,
            ended=sticks | is_slip(angle, numbers),
        )

    def smooth(self, restitution):
        return Moreau(jnp.zeros_like(restitution), restitution)

    def plastic(self):
        raise ValueError(f"law must say how the impulse develops, as Coulomb does; got {self!r}.")


class Slip(NamedTuple):
    """What an impulse in a direction makes of a contact.

    Attributes:
        push: N, its normal part [N s].
        across: the part across d of the slip after, times k / W_nn [m/s].
        along: the part along d, likewise; an impulse that slips has none above zero.
        possible: whether k > 0.
    """

    push: Float[Array, "..."]
    across: Float[Array, "..."]
    along: Float[Array, "..."]
    possible: Bool[Array, "..."]


def slip(angle: Float[Array, "..."], numbers: Numbers) -> Slip:
    """The slip after an impulse in the direction of an angle."""
    w, v, friction, restitution = numbers
    d, o = w.diagonal, w.off
    x, y = jnp.cos(angle), jnp.sin(angle)
    stiffness = 1 + friction * (o.y * x + o.x * y) / d.z
    push = -(1 + restitution) * v.z / d.z
    after_x = v.x * stiffness + push * (o.y + friction * (d.x * x + o.z * y))
    after_y = v.y * stiffness + push * (o.x + friction * (o.z * x + d.y * y))
    possible = stiffness > 0
    return Slip(
        push / jnp.where(possible, stiffness, 1.0),
        x * after_y - y * after_x,
        x * after_x + y * after_y,
        possible,
    )


@jax.custom_jvp
def slip_angle(numbers: Numbers) -> Float[Array, "..."]:
    """The angle of the impulse's tangential part, where it slips; of several such angles that
    with the least impulse. Any angle where there is none."""

    def part(lower, upper):
        def turn(_, state):
            angle, lower, upper = state
            value, slope = _across(angle, numbers)
            before = value * first > 0
            lower, upper = jnp.where(before, angle, lower), jnp.where(before, upper, angle)
            following = angle - value / jnp.where(slope == 0, 1.0, slope)
            # At the root round-off decides the side. A root may be at an end, as of impacts in a
            # plane: Newton's rule then leaves near it, and bisection alone would be too slow.
            inside = (following > lower - slack) & (following < upper + slack)
            end = jnp.clip(following, lower, upper)
            outside = jnp.where((end == angle) | (slope == 0), (lower + upper) / 2, end)
            return jnp.where(inside & (slope != 0), following, outside), lower, upper

        first, slack = slip(lower, numbers).across, 16 * jnp.finfo(lower.dtype).eps
        return jax.lax.fori_loop(0, _TURNS, turn, ((lower + upper) / 2, lower, upper))[0]

    like = jnp.broadcast_arrays(*jax.tree.leaves(numbers))[0]
    edges = jnp.arange(_PARTS + 1, dtype=like.dtype) * (2 * jnp.pi / _PARTS)
    edges = edges.reshape(-1, *[1] * like.ndim)
    positive = slip(edges[:-1], numbers).across > 0
    # The last part ends where the first begins, to round-off, too.
    changes = positive != jnp.roll(positive, -1, axis=0)
    ends = [jnp.broadcast_to(edge, (_PARTS, *like.shape)) for edge in (edges[:-1], edges[1:])]
    angle = part(*ends)
    found = slip(angle, numbers)
    valid = changes & found.possible & (found.along <= _round_off(numbers))
    best = jnp.argmin(jnp.where(valid, found.push, jnp.inf), axis=0, keepdims=True)
    return jnp.take_along_axis(angle, best, axis=0)[0]


@slip_angle.defjvp
def _(primals, tangents):
    (numbers,), (rates,) = primals, tangents
    angle = keep_rule(slip_angle)(numbers)
    _, change = jax.jvp(lambda numbers: slip(angle, numbers).across, (numbers,), (rates,))
    _, slope = _across(angle, numbers)
    return angle, -change / jnp.where(slope == 0, 1.0, slope)


def is_slip(angle: Float[Array, "..."], numbers: Numbers) -> Bool[Array, "..."]:
    """Whether an impulse in the direction of an angle slips against it, to round-off."""
    found, allowed = slip(angle, numbers), _round_off(numbers)
    return found.possible & (jnp.abs(found.across) <= allowed) & (found.along <= allowed)


def _across(angle, numbers: Numbers):
    """What is zero, and its rate."""
    one = jnp.ones_like(angle)
    return jax.jvp(lambda angle: slip(angle, numbers).across, (angle,), (one,))


def _round_off(numbers: Numbers) -> Float[Array, "..."]:
    """Of the velocities that cancel [m/s]."""
    w, v, friction, restitution = numbers
    d, o = w.diagonal, w.off
    coupling = (jnp.abs(o.x) + jnp.abs(o.y) + friction * (d.x + d.y)) / d.z
    size = jnp.abs(v.x) + jnp.abs(v.y) + (1 + restitution) * jnp.abs(v.z) * coupling
    return jax.lax.stop_gradient(128 * jnp.finfo(size.dtype).eps * (1 + friction) * size)
