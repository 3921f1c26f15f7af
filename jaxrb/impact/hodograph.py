"""The course of a sliding contact during an impact (Jia and Wang, sections 2 to 5).

While the normal impulse I_z grows, the sliding velocity gamma follows its hodograph

    gamma' = -mu B gamma^ + d    (31),    gamma^ = gamma / |gamma|,

with B and d the blocks of the inverse inertia matrix W (21, 22). In polar coordinates
gamma = r u, u = (cos theta, sin theta), the right-hand side depends on theta alone:

    r' = lambda(theta),  r theta' = f(theta),
    lambda = u . (d - mu B u),  f = u x (d - mu B u).

In the time tau with dI_z = r dtau the direction runs by itself, dtheta/dtau = f(theta), and
ln r and I_z are quadratures; nothing is singular where the sliding velocity vanishes. So no
differential equation is left to be stepped through: the functions of a panel of tau are
written down (see `panel`), and so are their derivatives (see `variation`).
"""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool

from ..math.materialize import choose_once
from .panel import GRID, Panel, at_place, panel
from .slide import (
    Compressed,
    Contact,
    HodographOptions,
    Lane,
    Motion,
    SlidingState,
    Stage,
    choose,
    restitution,
    rows,
)
from .variation import reach, resolved_length, resolves_changes


def start(options: HodographOptions, contact: Contact) -> SlidingState:
    """Before the impact."""
    x, y = contact.slip1, contact.slip2
    slides = x * x + y * y > 0
    speed = jnp.sqrt(jnp.where(slides, x * x + y * y, 1.0))
    cos, sin = jnp.where(slides, x / speed, 1.0), jnp.where(slides, y / speed, 0.0)
    speed = jnp.where(slides, speed, 0.0)
    zero, none = jnp.zeros_like(x), jnp.zeros(x.shape, jnp.int32)
    motion = Motion(cos, sin, speed, zero, zero, zero, -jnp.ones_like(x), zero)
    growth, turning = contact.rates(cos, sin)
    if options.collinearity is None:
        collinear = contact.on_ray(turning)
    else:
        collinear = turning**2 <= options.collinearity**2 * (turning**2 + growth**2)
    collinear = collinear & (speed > jnp.finfo(x.dtype).eps)
    return SlidingState(
        motion,
        Compressed(zero, zero),
        none,
        jnp.where(collinear, 0.0, jnp.inf).astype(x.dtype),
        jnp.ones_like(x),
        zero,
        none,
        _straight(options, contact, motion, zero),
    )


def _straight(
    options: HodographOptions, contact: Contact, motion: Motion, settled: Lane
) -> Bool[Array, " lanes"]:
    """Whether what follows is a straight line to round-off, or the sliding has ended."""
    speed = motion.speed
    eps = jnp.finfo(speed.dtype).eps
    growth, turning = contact.rates(motion.cos, motion.sin)
    ended = (speed <= eps) | ((growth < 0) & (speed * contact.fastest() <= -eps * growth))
    on_ray = contact.on_ray(turning)
    if options.derived:
        settled = on_ray & (settled < jnp.log(eps))
        return ended | settled | _converges(contact, motion, growth, turning)
    # What the turning still changes of I_z where the sliding ends.
    small = speed * jnp.abs(turning) * contact.fastest() <= -eps * growth * growth * growth
    return ended | on_ray | ((growth < 0) & small)


def _converges(
    contact: Contact, motion: Motion, growth: Lane, turning: Lane
) -> Bool[Array, " lanes"]:
    """Whether the sliding ends so soon that `finish_impact` also has the derivatives of the rest.

    It knows the turn to first order. What that leaves of the changes of theta, which are of the
    order of the inverse of the slip at the start, must be round-off.
    """
    eps = jnp.finfo(motion.speed.dtype).eps
    fastest = contact.fastest()
    slip = contact.slip1 * contact.slip1 + contact.slip2 * contact.slip2
    tiny = eps * jnp.minimum(jnp.sqrt(jnp.where(slip > 0, slip, 1.0)), 1.0)
    fades = contact.turning_slope(motion.cos, motion.sin) <= 0
    ratio = fastest / jnp.where(growth < 0, -growth, 1.0)
    small = motion.speed * ratio
    bend = jnp.abs(turning) / fastest * ratio * ratio
    return (growth < 0) & fades & (small * small <= tiny) & (small * bend <= tiny)


def ended(slide: SlidingState) -> Bool[Array, " lanes"]:
    """Whether no panel is left to do."""
    return slide.straight | (slide.stage == Stage.OVER) | (slide.turns >= 200)


def advance_panel(options: HodographOptions, slide: SlidingState, contact: Contact) -> SlidingState:
    """One panel on, or to the end of compression or restitution if that comes first.

    A panel whose functions are not resolved to round-off is tried again, shorter.
    """
    restoring = slide.stage == Stage.RESTITUTION
    # Searching is not differentiated: what is found has its derivatives from `reach`.
    held, given = jax.lax.stop_gradient((slide, contact))
    length = _length(held, given)
    if options.derived:
        length = jnp.minimum(length, resolved_length(given, held.motion))
    functions = panel(held.motion, given, restoring, length)
    along = rows(given, held.compressed, restoring)
    found, at = GRID.first_crossing(options.stage_excess(functions.motion, *along))
    good = functions.resolved & _resolved_to(functions, held.motion, at)
    if options.derived:
        good = good & resolves_changes(given, functions)
    compresses, ends, goes_on = choose_once(
        good & found & ~restoring, good & found & restoring, good & ~found, dtype=at.dtype
    )
    good = compresses | ends | goes_on
    both = jnp.zeros_like(good)
    to = partial(reach, slide.motion, slide.compressed, contact, restoring, length)
    if options.derived:
        at, motion = to(at, found, options.stage_excess)
        compressed = Compressed(motion.impulse, motion.energy)
    else:
        moved = functions.motion
        compressed = Compressed(*GRID.interpolate(at, moved.impulse, moved.energy))
        # Mostly restitution ends on the same panel.
        both, end = _restored_at(options, contact, moved, at, compressed)
        both = both & compresses
        at = jnp.where(both, end, at)
        motion = at_place(functions, at)
    passed = jnp.where(good, length * (at + 1) / 2, 0.0)
    settled = _settled(held.settled, given, held.motion, jax.lax.stop_gradient(passed))
    stretch = slide.stretch * jnp.where(good, jnp.where(found, 1.0, 2.0), 0.6)
    collinear_at = slide.collinear_at
    if options.collinearity is not None:
        met, where = GRID.first_crossing(options.straightness(functions.motion, *along))
        met = met & good & (where <= at) & jnp.isinf(collinear_at)
        _, straight = to(where, met, options.straightness)
        collinear_at = jnp.where(met, straight.impulse, collinear_at)
    motion = motion._replace(
        normal=jnp.where(compresses, 0.0, motion.normal),
        energy=jnp.where(compresses, 0.0, motion.energy),
    )
    motion = choose(good, motion, slide.motion)
    return SlidingState(
        motion,
        choose(compresses, compressed, slide.compressed),
        slide.stage + (compresses | ends).astype(jnp.int32) + both.astype(jnp.int32),
        collinear_at,
        stretch,
        settled,
        slide.turns + 1,
        _straight(options, contact, motion, settled),
    )


def _resolved_to(functions: Panel, start: Motion, at: Lane) -> Bool[Array, " lanes"]:
    """Whether I_z and E are, to the place that is used of a panel.

    It may go far beyond its event, to where both are much larger than there.
    """
    moved = functions.motion
    impulse, normal = GRID.interpolate(at, moved.impulse, moved.normal)
    fastest = jnp.maximum(jnp.maximum(jnp.abs(start.normal), jnp.abs(normal)), 1.0)
    round_off = 20 * jnp.finfo(at.dtype).eps * jnp.abs(impulse)
    of_impulse, of_energy = functions.unresolved
    return (of_impulse <= round_off) & (of_energy <= round_off * fastest)


def _restored_at(
    options: HodographOptions, contact: Contact, moved: Motion, at: Lane, compressed: Compressed
) -> tuple[Bool[Array, " lanes"], Lane]:
    """Whether and where restitution ends on the panel on which compression does."""
    given, stored = rows(contact, compressed)
    moved = moved._replace(energy=stored.energy - moved.energy)
    now = restitution(given, moved, stored)
    excess, serves = options.hypothesis.excess_from_compression(contact.restitution, now)
    found, end = GRID.first_crossing(excess, after=at)
    return found & serves, end


def _settled(settled: Lane, contact: Contact, motion: Motion, passed: Lane) -> Lane:
    """The log of what is left of a turn off the invariant ray after some tau; a constant."""
    _, turning = contact.rates(motion.cos, motion.sin)
    decay = contact.turning_slope(motion.cos, motion.sin) * passed
    return jnp.where(contact.on_ray(turning), settled + decay, 0.0)


def _length(slide: SlidingState, contact: Contact) -> Lane:
    """The length of the next panel in tau: a few turning times, not far beyond the next event."""
    motion, compressed, e = slide.motion, slide.compressed, contact.restitution
    normal = motion.normal
    acceleration = jnp.maximum(contact.acceleration(motion.cos, motion.sin), 0.1)
    left = e * e * compressed.energy - motion.energy
    root = jnp.sqrt(jnp.maximum(normal * normal + 2 * left * acceleration, 0.0))
    restitution = jnp.maximum(root - normal, 0.05 * e * compressed.impulse)
    compression = -normal * (1 + e)
    ahead = jnp.where(slide.stage == Stage.COMPRESSION, compression, restitution) / acceleration
    eps = jnp.finfo(normal.dtype).eps
    ahead = jnp.maximum(ahead, eps * jnp.maximum(motion.impulse, 1.0))
    # While the speed grows or fades at the rate that it has here.
    speed = jnp.where(motion.speed > 0, motion.speed, 1.0)
    growth, _ = contact.rates(motion.cos, motion.sin)
    straight = slide.stretch * 2 * ahead / speed
    grown = jnp.maximum(growth * straight, eps - 1)
    grows = grown != 0
    grown = jnp.where(grows, grown, 1.0)
    straight = jnp.where(grows, straight * jnp.log1p(grown) / grown, straight)
    return jnp.minimum(slide.stretch * 3 / contact.fastest(), straight)
