"""The course of a sliding contact during an impact (Jia and Wang, sections 2 to 5).

While the normal impulse I_z grows, the sliding velocity gamma follows its hodograph

    gamma' = -mu B gamma^ + d    (31),    gamma^ = gamma / |gamma|,

with B and d the blocks of the inverse inertia matrix W (21, 22). In polar coordinates
gamma = r u, u = (cos theta, sin theta), the right-hand side depends on theta alone:

    r' = lambda(theta),  r theta' = f(theta),
    lambda = u . (d - mu B u),  f = u x (d - mu B u).

In the time tau with dI_z = r dtau the direction runs by itself, dtheta/dtau = f(theta), and
ln r and I_z are quadratures; nothing is singular where the sliding velocity vanishes. So no
differential equation is left to be stepped through: on a panel of tau, theta is written in
closed form as the flow of the quadratic that osculates f (as a function of the tangent of half
the angle), tau follows from it exactly, and the quadratures are spectral.

Units: the inverse inertia is divided by W_zz, velocities by the speed of approach; impulses
are then in units of speed of approach over W_zz. Numbers of one impact are a lane; arrays have
shape (lanes,), on a panel (n_points, lanes).
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from ..math.chebyshev import ChebyshevGrid

GRID = ChebyshevGrid(24)

Lane = Float[Array, "*points lanes"]


class Contact(NamedTuple):
    """The numbers that govern an impact, without units."""

    b11: Lane  # B
    b12: Lane
    b22: Lane
    d1: Lane
    d2: Lane
    slip1: Lane  # gamma before the impact
    slip2: Lane
    friction: Lane  # mu
    restitution: Lane  # e

    def solve(self, x: Lane, y: Lane) -> tuple[Lane, Lane]:
        """B^{-1} (x, y)."""
        determinant = self.b11 * self.b22 - self.b12 * self.b12
        return (
            (self.b22 * x - self.b12 * y) / determinant,
            (self.b11 * y - self.b12 * x) / determinant,
        )

    def rates(self, c: Lane, s: Lane) -> tuple[Lane, Lane]:
        """lambda and f in the direction (c, s)."""
        mu = self.friction
        x = self.d1 - mu * (self.b11 * c + self.b12 * s)
        y = self.d2 - mu * (self.b12 * c + self.b22 * s)
        return c * x + s * y, c * y - s * x

    def fastest(self) -> Lane:
        """A bound of |lambda| and |f|."""
        half = (self.b11 - self.b22) / 2
        spread = jnp.sqrt(half * half + self.b12 * self.b12)
        return self.friction * ((self.b11 + self.b22) / 2 + spread) + jnp.sqrt(
            self.d1 * self.d1 + self.d2 * self.d2
        )

    def on_ray(self, turning: Lane) -> Bool[Array, "*points lanes"]:
        """Whether a direction with f = `turning` is invariant to round-off."""
        return jnp.abs(turning) <= 4 * jnp.finfo(turning.dtype).eps * self.fastest()

    def turning_slope(self, c: Lane, s: Lane) -> Lane:
        """df/dtheta in the direction (c, s): negative where directions come together."""
        half, mu = (self.b11 - self.b22) / 2, self.friction
        odd = half * (c * c - s * s) + self.b12 * 2 * s * c
        return 2 * mu * odd - self.d1 * c - self.d2 * s

    def acceleration(self, c: Lane, s: Lane) -> Lane:
        """v_z' while it slides in the direction (c, s) (eqs. 16, 28)."""
        return 1 - self.friction * (self.d1 * c + self.d2 * s)

    def normal_velocity(self, impulse: Lane, pull1: Lane, pull2: Lane) -> Lane:
        """v_z (10)."""
        return impulse - 1 - self.friction * (self.d1 * pull1 + self.d2 * pull2)

    def sticking(self, impulse: Lane) -> tuple[Lane, Lane]:
        """The tangential impulse after which the sliding velocity is 0 (25)."""
        return self.solve(-self.slip1 - impulse * self.d1, -self.slip2 - impulse * self.d2)


class Stage:
    """Of an impact, as the integers that a state carries."""

    COMPRESSION = 0
    RESTITUTION = 1
    OVER = 2


class Slide(NamedTuple):
    """Where an impact is in its course while the contact slides."""

    cos: Lane  # direction of the sliding velocity
    sin: Lane
    speed: Lane  # r
    impulse: Lane  # I_z
    pull1: Lane  # -I_x / mu: the integral of the direction over I_z
    pull2: Lane  # -I_y / mu
    energy: Lane  # E in compression (11); what has been released of it in restitution
    stage: Int[Array, " lanes"]
    compressed_at: Lane  # I_z at the end of compression
    compressed: Lane  # E there
    collinear_at: Lane  # I_z where gamma and gamma' became collinear; infinite before
    stretch: Lane  # of the next panel, in units of a length that usually fits
    settled: Lane  # log of what is left of a turn off the invariant ray it is on
    turns: Int[Array, " lanes"]
    straight: Bool[Array, " lanes"]  # the rest has a closed form


class Course(NamedTuple):
    """How a hodograph is followed. Static."""

    hypothesis: str
    collinearity: float | None  # sine of the angle between gamma and gamma' that counts as 0
    # Leave the panels on invariant rays. What starts near one has another derivative than the
    # straight line, until what it was off the ray has decayed.
    shortcut: bool


def start(course: Course, contact: Contact) -> Slide:
    """Before the impact."""
    x, y = contact.slip1, contact.slip2
    eps = jnp.finfo(x.dtype).eps
    slides = x * x + y * y > 0
    speed = jnp.sqrt(jnp.where(slides, x * x + y * y, 1.0))
    cos, sin = jnp.where(slides, x / speed, 1.0), jnp.where(slides, y / speed, 0.0)
    speed = jnp.where(slides, speed, 0.0)
    zero, none = jnp.zeros_like(x), jnp.zeros(x.shape, jnp.int32)
    growth, turning = contact.rates(cos, sin)
    if course.collinearity is None:
        collinear = contact.on_ray(turning)
    else:
        collinear = turning**2 <= course.collinearity**2 * (turning**2 + growth**2)
    return Slide(
        cos,
        sin,
        speed,
        zero,
        zero,
        zero,
        zero,
        none,
        zero,
        zero,
        jnp.where(collinear & (speed > eps), 0.0, jnp.inf).astype(x.dtype),
        jnp.ones_like(x),
        zero,
        none,
        _straight(course, contact, cos, sin, speed, zero),
    )


def _straight(
    course: Course, contact: Contact, cos: Lane, sin: Lane, speed: Lane, settled: Lane
) -> Bool[Array, " lanes"]:
    """Whether what follows is a straight line to round-off, or the sliding has ended."""
    eps = jnp.finfo(speed.dtype).eps
    growth, turning = contact.rates(cos, sin)
    ended = (speed <= eps) | ((growth < 0) & (speed * contact.fastest() <= -eps * growth))
    on_ray = contact.on_ray(turning)
    if not course.shortcut:
        return ended | (on_ray & (settled < jnp.log(eps)))
    # What the turning still changes of I_z where the sliding ends.
    small = speed * jnp.abs(turning) * contact.fastest() <= -eps * growth * growth * growth
    return ended | on_ray | ((growth < 0) & small)


def ended(slide: Slide) -> Bool[Array, " lanes"]:
    """Whether no panel is left to do."""
    return slide.straight | (slide.stage == Stage.OVER) | (slide.turns >= 200)


def follow(course: Course, slide: Slide, contact: Contact) -> Slide:
    """One panel on, or to the end of compression or restitution if that comes first.

    A panel whose functions are not resolved to round-off is tried again, shorter.
    """
    panel = _panel(course, slide, contact, _length(slide, contact))
    good = panel.good
    found, at = GRID.first_crossing(panel.excess)
    impulse_at, energy_at = GRID.interpolate(at, panel.impulse, panel.energy)
    compressed = good & found & (slide.stage == Stage.COMPRESSION)
    compressed_at = jnp.where(compressed, impulse_at, slide.compressed_at)
    stored = jnp.where(compressed, energy_at, slide.compressed)
    # Mostly restitution ends on the same panel.
    both, end = _restored_at(course, contact, panel, at, impulse_at, energy_at)
    both = both & compressed
    at = jnp.where(both, end, at)

    cos, sin, log_speed, *totals = GRID.interpolate(
        at, panel.cos, panel.sin, panel.log_speed, panel.impulse, panel.pull1, panel.pull2
    )
    unit = jnp.sqrt(cos * cos + sin * sin)
    reached = (cos / unit, sin / unit, slide.speed * jnp.exp(log_speed), *totals)
    cos, sin, speed, impulse, pull1, pull2 = (
        jnp.where(good, new, old) for new, old in zip(reached, slide[:6], strict=True)
    )
    settled = _settled(slide, contact, jnp.where(good, panel.length * (at + 1) / 2, 0.0))
    stretch = slide.stretch * jnp.where(good, jnp.where(found, 1.0, 2.0), 0.4)
    if not course.shortcut:
        # Derivatives grow or fade by no more than exp(12) on a panel, which is resolved.
        stretch = jnp.minimum(stretch, 2.0)
    return Slide(
        cos,
        sin,
        speed,
        impulse,
        pull1,
        pull2,
        jnp.where(compressed, 0.0, jnp.where(good, energy_at, slide.energy)),
        slide.stage + (good & found).astype(jnp.int32) + both.astype(jnp.int32),
        compressed_at,
        stored,
        _collinear_at(course, slide, panel, at),
        stretch,
        settled,
        slide.turns + 1,
        _straight(course, contact, cos, sin, speed, settled),
    )


def _restored_at(
    course: Course, contact: Contact, panel: _Panel, at: Lane, compressed_at: Lane, stored: Lane
) -> tuple[Bool[Array, " lanes"], Lane]:
    """Whether and where restitution ends on the panel on which compression does."""
    e = contact.restitution
    simple = e > 0.1
    if course.hypothesis == "newton":
        excess = panel.excess - e[None]
    elif course.hypothesis == "poisson":
        excess = panel.impulse - ((1 + e) * compressed_at)[None]
    else:
        released = e * e * stored
        excess = (stored - released)[None] - panel.energy
        # What is released must not be small beside the energies of the panel, or their round-off
        # tells; on a panel of its own roots of energies are compared.
        simple = released > 0.05 * jnp.max(jnp.abs(panel.energy), axis=0)
    found, end = GRID.first_crossing(excess, after=at)
    # Where little is released the root is almost a double one: from a panel of its own.
    return found & simple, end


class _Panel(NamedTuple):
    """The functions of a slide on a panel, shape (n_points, lanes)."""

    cos: Lane
    sin: Lane
    growth: Lane  # lambda
    turning: Lane  # f
    log_speed: Lane  # of the speed over that at its start
    impulse: Lane
    pull1: Lane
    pull2: Lane
    energy: Lane
    excess: Lane  # becomes positive where the stage ends
    good: Bool[Array, " lanes"]  # whether all are resolved to round-off
    length: Float[Array, " lanes"]  # in tau


def _panel(course: Course, slide: Slide, contact: Contact, length: Lane) -> _Panel:
    eps = jnp.finfo(slide.speed.dtype).eps
    here, given = _along(slide, contact)
    cos, sin, passed = _path(slide, contact, length)
    resolved = (jnp.min(passed, axis=0) > 0.2 * length) & (jnp.max(passed, axis=0) < 5 * length)
    growth, turning = given.rates(cos, sin)
    (log_speed,) = GRID.integrals(growth * passed)
    flux = here.speed * jnp.exp(log_speed) * passed  # dI_z over the panel's unit
    totals = GRID.integrals(flux, cos * flux, sin * flux)
    impulse, pull1, pull2 = (a + b for a, b in zip(here[3:6], totals, strict=True))
    normal = given.normal_velocity(impulse, pull1, pull2)
    (work,) = GRID.integrals(normal * flux)
    restoring = here.stage == Stage.RESTITUTION
    energy = here.energy + jnp.where(restoring, work, -work)
    ending = _excess(course, here, given, impulse, normal, energy)
    return _Panel(
        cos,
        sin,
        growth,
        turning,
        log_speed,
        impulse,
        pull1,
        pull2,
        energy,
        jnp.where(restoring, ending, normal),
        resolved & (GRID.last_coefficients(flux) <= 20 * eps * jnp.abs(impulse[-1])),
        length,
    )


def _collinear_at(course: Course, slide: Slide, panel: _Panel, at: Lane) -> Lane:
    """I_z where gamma and gamma' became collinear, if that is before a place on the panel."""
    if course.collinearity is None:
        return slide.collinear_at
    turning, growth = panel.turning, panel.growth
    angle = course.collinearity**2 * (turning**2 + growth**2) - turning**2
    met, where = GRID.first_crossing(angle)
    (collinear,) = GRID.interpolate(where, panel.impulse)
    new = panel.good & met & (where <= at) & jnp.isinf(slide.collinear_at)
    return jnp.where(new, collinear, slide.collinear_at)


def _settled(slide: Slide, contact: Contact, passed: Lane) -> Lane:
    """The log of what is left of a turn off the invariant ray after some tau; a constant."""
    _, turning = contact.rates(slide.cos, slide.sin)
    decay = contact.turning_slope(slide.cos, slide.sin) * passed
    off_ray = ~contact.on_ray(turning)
    return jax.lax.stop_gradient(jnp.where(off_ray, 0.0, slide.settled + decay))


def _excess(
    course: Course, slide: Slide, contact: Contact, impulse: Lane, normal: Lane, energy: Lane
) -> Lane:
    """What becomes positive at the end of restitution."""
    e = contact.restitution
    if course.hypothesis == "newton":
        return normal - e
    since = impulse - slide.compressed_at
    if course.hypothesis == "poisson":
        return since - e * slide.compressed_at
    # Of the energies the roots are compared: they grow like the impulse, so the end is a
    # simple root for every e, 0 included.
    begins = since <= 0
    acceleration = contact.acceleration(slide.cos, slide.sin)
    ratio = jnp.where(begins, acceleration / 2, energy / jnp.where(begins, 1.0, since * since))
    rise = jnp.sqrt(jnp.where(ratio > 0, ratio, 1.0))
    rise = jnp.where(ratio > 0, rise, 0.0)
    stored = jnp.where(slide.compressed > 0, slide.compressed, 1.0)
    return since * rise - e * jnp.sqrt(stored)


def _length(slide: Slide, contact: Contact) -> Lane:
    """Of the next panel, in tau: a few turning times, and not far beyond the next event.

    The result does not depend on it, so that it is not differentiated.
    """
    normal = contact.normal_velocity(slide.impulse, slide.pull1, slide.pull2)
    acceleration = jnp.maximum(contact.acceleration(slide.cos, slide.sin), 0.1)
    left = contact.restitution**2 * slide.compressed - slide.energy
    root = jnp.sqrt(jnp.maximum(normal * normal + 2 * left * acceleration, 0.0))
    restitution = jnp.maximum(root - normal, 0.05 * slide.compressed_at)
    compression = -normal * (1 + contact.restitution)
    ahead = jnp.where(slide.stage == Stage.COMPRESSION, compression, restitution) / acceleration
    eps = jnp.finfo(normal.dtype).eps
    ahead = jnp.maximum(ahead, eps * jnp.maximum(slide.impulse, 1.0))
    speed = jnp.where(slide.speed > 0, slide.speed, 1.0)
    length = slide.stretch * jnp.minimum(3 / contact.fastest(), 2 * ahead / speed)
    return jax.lax.stop_gradient(length)


def _along(*trees):
    """Along a panel every number of a lane is a row."""
    return jax.tree.map(lambda leaf: leaf[None], trees)


@jax.custom_jvp
def _path(slide: Slide, contact: Contact, length: Lane) -> tuple[Lane, Lane, Lane]:
    """The directions at the points of a panel, and d tau over the place."""
    here, given, row = _along(slide, contact, length)
    return _directions(here, given, row, GRID.unit_points(row))


@_path.defjvp
def _(primals, tangents):
    """What is found depends on no tau, so that the points are held at theirs.

    Then a change of theta obeys d(change)/dtau = (df/dtheta) change + (change of f).
    """
    (slide, contact, _), (dslide, dcontact, _) = primals, tangents
    cos, sin, passed = _path(*primals)
    given, dgiven = _along(contact, dcontact)
    _, forced = jax.jvp(lambda given: given.rates(cos, sin)[1], (given,), (dgiven,))
    (growth,) = GRID.integrals(given.turning_slope(cos, sin) * passed)
    grown = jnp.exp(growth)
    (change,) = GRID.integrals(forced * passed / grown)
    turn = grown * ((slide.cos * dslide.sin - slide.sin * dslide.cos)[None] + change)
    return (cos, sin, passed), (-sin * turn, cos * turn, jnp.zeros_like(passed))


def _directions(
    slide: Slide, contact: Contact, length: Lane, place: Lane
) -> tuple[Lane, Lane, Lane]:
    """The directions at places in [0, 1] of a panel, and d tau over the place.

    With t = tan((theta - theta_0)/2) the equation of theta is
    dt/dtau = F(t) / (2 (1 + t^2)), F of degree 4. Its right-hand side is a + b t + c t^2 to
    third order; the solution t of dt/dsigma = a + b t + c t^2 is elementary and tells how fast
    tau runs along it. All parts of F are taken from the same numbers, so that nothing is lost
    near an invariant direction, where both right-hand sides vanish.
    """
    c, s, mu = slide.cos, slide.sin, contact.friction
    cos_two, sin_two = c * c - s * s, 2 * s * c
    half, off = (contact.b11 - contact.b22) / 2, contact.b12
    # f(theta_0 + x) = even2 cos 2x + odd2 sin 2x + even1 cos x + odd1 sin x.
    even2 = mu * (half * sin_two - off * cos_two)
    odd2 = mu * (half * cos_two + off * sin_two)
    even1 = contact.d2 * c - contact.d1 * s
    odd1 = -(contact.d1 * c + contact.d2 * s)
    a, b = (even1 + even2) / 2, 2 * odd2 + odd1
    product = -a * (3 * even2 + a)  # a c
    # Where the quadratic has no real root, or hardly two, a neighbour with two serves.
    discriminant = b * b / 4 - product
    floor = (0.1 / length) ** 2
    osculates = discriminant >= floor
    omega_squared = jnp.where(osculates, discriminant, floor)
    product = jnp.where(osculates, product, b * b / 4 - omega_squared)
    third = 2 * odd1 - 4 * odd2 - 2 * b  # of F less 2 (1 + t^2) (a + b t + c t^2)
    fourth = even2 - even1

    omega = jnp.sqrt(omega_squared)
    decay = jnp.exp(-2 * omega * length * place)
    sinh = (1 - decay) / (2 * omega)
    denominator = (1 + decay) / 2 - (b / 2) * sinh
    over_a = sinh / denominator  # t / a
    t = a * over_a
    square = t * t
    speed = 2 * decay * (1 + square) / (denominator * denominator)
    # Near an invariant direction round-off of a term that vanishes would be all that is left.
    second = jnp.where(osculates, 0.0, t * (-6 * even2 - 2 * a) - 2 * product * over_a)
    rest = second + square * (third + t * fourth - 2 * product * over_a)
    rate = speed / (speed + over_a * rest)

    turned_cos, turned_sin = (1 - square) / (1 + square), 2 * t / (1 + square)
    return (
        c * turned_cos - s * turned_sin,
        s * turned_cos + c * turned_sin,
        length * rate,
    )
