"""How a sliding contact moves on a panel, and to where, with derivatives.

At a tau that is held, changes of the start of a panel and of the numbers q that govern it obey
equations that are solved one after the other,

    d(theta)' = f_theta d(theta) + f_q dq,    d(ln r)' = lambda_theta d(theta) + lambda_q dq,

and every number X that runs along, I_z or E say, is an integral that changes by

    dX = int (A d(ln r) + C d(theta)) dtau + ...

Exchanging the order of integration, its change up to a place is

    dX = R(0) d(ln r)_0 + T(0) d(theta)_0 + int (R lambda_q + T f_q) dtau dq + ...

with the adjoint variables R and T: what changes of ln r and of theta at some tau do to X at the
place. They are running integrals, too, and the same for all directions; so along each of these
only scalars of a lane are multiplied.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from .panel import GRID, Panel, at_place, panel
from .slide import Compressed, Contact, Lane, Motion, rows

# A panel resolves functions that grow or fade by the exponential of this.
RANGE = 15.0


@partial(jax.custom_jvp, nondiff_argnums=(7,))
def reach(
    start: Motion,
    compressed: Compressed,
    contact: Contact,
    restoring: Bool[Array, " lanes"],
    length: Float[Array, " lanes"],
    at: Float[Array, " lanes"],
    happens: Bool[Array, " lanes"],
    excess,
) -> tuple[Lane, Motion]:
    """The place, and the motion there, where an excess vanishes on a panel.

    Args:
        start: of the panel.
        compressed: the end of compression, where that is over.
        contact: its numbers.
        restoring: whether the stage is restitution.
        length: of the panel in tau, about.
        at: the place in [-1, 1], as it is known already.
        happens: whether the excess vanishes there. If not the place is a constant.
        excess: a function of the motion there, contact, compressed and restoring.
    """
    return at, at_place(panel(start, contact, restoring, length), at)


@reach.defjvp
def _(excess, primals, tangents):
    """Differentiates at a fixed tau, then adds its change by the implicit function theorem."""
    start, compressed, contact, restoring, length, _, happens = primals
    dstart, dcompressed, dcontact, *_ = tangents
    at, end = reach(*primals, excess)
    functions = panel(start, contact, restoring, length)
    held = _response(start, contact, restoring, functions, at, end)(dstart, dcontact)
    rate = _rates(contact, restoring, end)

    def total(numbers):
        return jnp.sum(excess(*numbers, restoring))

    gradient = jax.grad(total)((end, contact, compressed))
    change = _paired(gradient, (held, dcontact, dcompressed))
    slope = _paired(gradient[0], rate)
    usable = happens & (slope != 0)
    later = jnp.where(usable, -change / jnp.where(usable, slope, 1.0), 0.0)
    (passed,) = GRID.interpolate(at, functions.passed)
    moved = jax.tree.map(lambda change, rate: change + rate * later, held, rate)
    return (at, end), (2 * later / passed, moved)


def _paired(gradient, change) -> Lane:
    """The sum of products. As a reduction, so that it is not repeated for all that use it."""
    rows, others = (jnp.stack(jax.tree.leaves(tree)) for tree in (gradient, change))
    return jnp.sum(rows * others, axis=0)


def resolves_changes(contact: Contact, functions: Panel) -> Bool[Array, " lanes"]:
    """Whether a panel resolves what `reach` integrates on it.

    These are products of a change of theta, of r and of v_z, which may fade like r.
    """
    fade, speed = _fade(contact, functions), functions.motion.speed
    of_turn = jnp.max(fade, axis=0) - jnp.min(fade, axis=0)
    of_speed = jnp.log(jnp.max(speed, axis=0) / jnp.min(speed, axis=0))
    return of_turn + 2 * of_speed < RANGE


def resolved_length(contact: Contact, start: Motion) -> Lane:
    """The length of a panel on which the rates stay as they are at the start."""
    growth, _ = contact.rates(start.cos, start.sin)
    turn = contact.turning_slope(start.cos, start.sin)
    rate = jnp.abs(turn) + 2 * jnp.abs(growth)
    return 0.9 * RANGE / jnp.maximum(rate, 1e-3 * contact.fastest())


def _fade(contact: Contact, functions: Panel) -> Lane:
    """The log of how changes of theta have grown."""
    (given,), run = rows(contact), functions.motion
    (fade,) = GRID.integrals(given.turning_slope(run.cos, run.sin) * functions.passed)
    return fade


def _rates(contact: Contact, restoring: Bool[Array, " lanes"], end: Motion) -> Motion:
    """The derivative of the motion by tau."""
    growth, turning = contact.rates(end.cos, end.sin)
    work = end.normal * end.speed
    return Motion(
        -end.sin * turning,
        end.cos * turning,
        end.speed * growth,
        end.speed,
        end.speed * end.cos,
        end.speed * end.sin,
        end.speed * contact.acceleration(end.cos, end.sin),
        jnp.where(restoring, work, -work),
    )


class _Drive(NamedTuple):
    """What theta and ln r depend on.

    f = half sin 2 theta - off cos 2 theta + d2 cos theta - d1 sin theta,
    lambda = -mean - half cos 2 theta - off sin 2 theta + d1 cos theta + d2 sin theta.
    """

    mean: Lane  # of the diagonal of mu B
    half: Lane  # of its difference
    off: Lane
    d1: Lane
    d2: Lane
    lift1: Lane  # mu d
    lift2: Lane

    @staticmethod
    def of(contact: Contact) -> _Drive:
        mu, b11, b22 = contact.friction, contact.b11, contact.b22
        return _Drive(
            mu * (b11 + b22) / 2,
            mu * (b11 - b22) / 2,
            mu * contact.b12,
            contact.d1,
            contact.d2,
            mu * contact.d1,
            mu * contact.d2,
        )


def _influences(
    contact: Contact,
    restoring: Bool[Array, " lanes"],
    functions: Panel,
    weights: Array,
    gained: list[Lane],
) -> tuple[Array, Array]:
    """What changes of theta and of ln r at each place of a panel do to the motion at its end.

    Args:
        contact: its numbers.
        restoring: whether the stage is restitution.
        functions: of the panel.
        weights: by which functions are interpolated there.
        gained: the running integrals there.

    Returns:
        T and R, rows for theta, ln r, I_z, its two pulls and E.
    """
    (given,), run = rows(contact), functions.motion
    c, s, passed = run.cos, run.sin, functions.passed
    fade = _fade(contact, functions)
    faded = jnp.sum(weights * fade, axis=0)
    # A change of theta that starts as 1, and of the theta at the place by what it is before.
    change, back = jnp.exp(fade), jnp.exp(-fade)
    to_end = jnp.exp(faded)[None] * back

    # R: what a change of ln r does to ln r, I_z, its pulls and E at the place. E is quadratic in r
    # but for the v_z that is already there.
    one, zero = jnp.ones_like(c), jnp.zeros_like(c)
    left, pull1, pull2, energy = (
        b[None] - a for a, b in zip(functions.gained, gained, strict=True)
    )
    sign = jnp.where(restoring[None], one, -one)
    energy = 2 * energy - sign * left * run.normal
    by_speed = jnp.stack([one, left, pull1, pull2, energy], axis=1)
    # T: what a change of theta does, by itself as it runs on and by those of ln r that it makes.
    bend = run.speed * given.friction * (given.d1 * s - given.d2 * c)
    itself = jnp.stack([zero, zero, -run.speed * s, run.speed * c, sign * left * bend], axis=1)
    weight = change * passed
    rate = itself * weight[:, None] + by_speed * (given.growth_slope(c, s) * weight)[:, None]
    (running,) = GRID.integrals(rate)
    total = jnp.sum(weights[:, None] * running, axis=0)
    by_turn = (total[None] - running) * back[:, None]
    # And to theta there.
    by_turn = jnp.concatenate([to_end[:, None], by_turn], axis=1)
    by_speed = jnp.concatenate([zero[:, None], by_speed], axis=1)
    return by_turn, by_speed


def _response(
    start: Motion,
    contact: Contact,
    restoring: Bool[Array, " lanes"],
    functions: Panel,
    at: Lane,
    end: Motion,
) -> Callable[[Motion, Contact], Motion]:
    """How the motion at a place changes with that at the start and with the numbers, linearly."""
    weights = GRID.values_at(at)
    gained = [jnp.sum(weights * of, axis=0) for of in functions.gained]
    by_turn, by_speed = _influences(contact, restoring, functions, weights, gained)

    # What the numbers of `_Drive` do.
    run, passed = functions.motion, functions.passed
    c, s, one = run.cos, run.sin, jnp.ones_like(run.cos)
    upto = GRID.integrals_to(at) * passed
    waves = jnp.stack([upto * x for x in (one, c * c - s * s, 2 * s * c, c, s)])
    speed, turn = (jnp.sum(waves[:, :, None] * by[None], axis=1) for by in (by_speed, by_turn))
    drives = (
        -speed[0],
        turn[2] - speed[1],
        -turn[1] - speed[2],
        speed[3] - turn[4],
        speed[4] + turn[3],
    )
    flux = upto * run.speed
    lifts = [jnp.sum(flux * pull, axis=0) for pull in functions.gained[1:3]]
    sign = jnp.where(restoring, 1.0, -1.0).astype(end.speed.dtype)
    responses = jnp.stack([by_turn[0], by_speed[0], *drives], axis=1)

    def along(dstart: Motion, dcontact: Contact) -> Motion:
        _, drive = jax.jvp(_Drive.of, (contact,), (dcontact,))
        turn = start.cos * dstart.sin - start.sin * dstart.cos
        speed = dstart.speed / jnp.where(start.speed > 0, start.speed, 1.0)
        causes = jnp.stack([turn, speed, *drive[:5]])
        changes = jnp.sum(responses * causes[None], axis=1)
        turn, speed, *gains, released = changes
        normal = dstart.normal + contact.lift(*gains)
        normal = normal - drive.lift1 * gained[1] - drive.lift2 * gained[2]
        work = dstart.normal * gained[0] - drive.lift1 * lifts[0] - drive.lift2 * lifts[1]
        return Motion(
            -end.sin * turn,
            end.cos * turn,
            end.speed * speed,
            dstart.impulse + gains[0],
            dstart.pull1 + gains[1],
            dstart.pull2 + gains[2],
            normal,
            dstart.energy + released + sign * work,
        )

    return along
