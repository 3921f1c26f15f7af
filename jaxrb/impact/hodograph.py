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


class Phase:
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
    phase: Int[Array, " lanes"]
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
    return slide.straight | (slide.phase == Phase.OVER) | (slide.turns >= 200)


def follow(course: Course, slide: Slide, contact: Contact) -> Slide:
    """One panel on, or to the end of compression or restitution if that comes first.

    A panel whose functions are not resolved to round-off is tried again, shorter.
    """
    eps = jnp.finfo(slide.speed.dtype).eps
    # Along the panel every number of a lane is a row.
    here, given, length = jax.tree.map(
        lambda leaf: leaf[None], (slide, contact, _length(slide, contact))
    )
    cos, sin, passed = _directions(here, given, length, GRID.unit_points(length))
    resolved = jnp.all((passed > 0.2 * length) & (passed < 5 * length), axis=0)
    growth, turning = given.rates(cos, sin)
    log_speed = GRID.integral(growth * passed)
    speed = here.speed * jnp.exp(log_speed)
    flux = speed * passed  # dI_z over the panel's unit
    impulse = here.impulse + GRID.integral(flux)
    pull1 = here.pull1 + GRID.integral(cos * flux)
    pull2 = here.pull2 + GRID.integral(sin * flux)
    normal = given.normal_velocity(impulse, pull1, pull2)
    work = GRID.integral(normal * flux)
    restoring = here.phase == Phase.RESTITUTION
    energy = here.energy + jnp.where(restoring, work, -work)

    good = resolved & (GRID.last_coefficients(flux) <= 20 * eps * jnp.abs(impulse[-1]))
    excess = jnp.where(restoring, _excess(course, here, given, impulse, normal, energy), normal)
    restoring = restoring[0]
    found, at = GRID.first_crossing(excess)
    log_speed_at, *totals_at, energy_at = GRID.interpolate(
        at, log_speed, impulse, pull1, pull2, energy
    )
    cos_at, sin_at, _ = _directions(slide, contact, length[0], (at + 1) / 2)
    unit = jnp.sqrt(cos_at * cos_at + sin_at * sin_at)
    cos_at, sin_at = cos_at / unit, sin_at / unit
    speed_at = slide.speed * jnp.exp(log_speed_at)

    collinear_at = slide.collinear_at
    if course.collinearity is not None:
        angle = course.collinearity**2 * (turning**2 + growth**2) - turning**2
        met, where = GRID.first_crossing(angle)
        (collinear,) = GRID.interpolate(where, impulse)
        new = good & met & (where <= at) & jnp.isinf(collinear_at)
        collinear_at = jnp.where(new, collinear, collinear_at)

    _, turning_here = contact.rates(slide.cos, slide.sin)
    decay = contact.turning_slope(slide.cos, slide.sin) * length[0] * (at + 1) / 2
    off_ray = ~contact.on_ray(turning_here)
    settled = slide.settled + jnp.where(good, decay, 0.0)
    settled = jax.lax.stop_gradient(jnp.where(off_ray, 0.0, settled))

    compressed = good & found & ~restoring
    stretch = slide.stretch * jnp.where(good, jnp.where(found, 1.0, 2.0), 0.4)
    cos_at, sin_at, speed_at, *totals_at = (
        jnp.where(good, new, old)
        for new, old in zip((cos_at, sin_at, speed_at, *totals_at), slide[:6], strict=True)
    )
    impulse_at, pull1_at, pull2_at = totals_at
    return Slide(
        cos_at,
        sin_at,
        speed_at,
        impulse_at,
        pull1_at,
        pull2_at,
        jnp.where(compressed, 0.0, jnp.where(good, energy_at, slide.energy)),
        slide.phase + (good & found).astype(jnp.int32),
        jnp.where(compressed, impulse_at, slide.compressed_at),
        jnp.where(compressed, energy_at, slide.compressed),
        collinear_at,
        stretch,
        settled,
        slide.turns + 1,
        _straight(course, contact, cos_at, sin_at, speed_at, settled),
    )


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
    ahead = jnp.where(slide.phase == Phase.COMPRESSION, -normal, restitution) / acceleration
    eps = jnp.finfo(normal.dtype).eps
    ahead = jnp.maximum(ahead, eps * jnp.maximum(slide.impulse, 1.0))
    speed = jnp.where(slide.speed > 0, slide.speed, 1.0)
    length = slide.stretch * jnp.minimum(3 / contact.fastest(), 1.3 * ahead / speed)
    return jax.lax.stop_gradient(length)


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
