"""A panel of the course of a sliding contact: its functions of the time tau (see `hodograph`).

The direction is written in closed form as the flow of the quadratic that osculates f (as a
function of the tangent of half the angle), tau follows from it exactly, and the quadratures
are spectral.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from ..math.chebyshev import ChebyshevGrid
from .slide import Contact, Lane, Motion, rows

GRID = ChebyshevGrid(24)


class Panel(NamedTuple):
    """The functions of a slide on a panel, shape (n_points, lanes)."""

    motion: Motion
    gained: list[Lane]  # of I_z, of its pulls and of E since the start, of which each digit counts
    growth: Lane  # lambda
    turning: Lane  # f
    passed: Lane  # d tau over the place in [0, 1]
    resolved: Bool[Array, " lanes"]  # whether direction and speed are, to round-off
    unresolved: tuple[Lane, Lane]  # what may be missing of I_z and of E


def panel(
    start: Motion,
    contact: Contact,
    restoring: Bool[Array, " lanes"],
    length: Float[Array, " lanes"],
) -> Panel:
    """The panel that begins at `start` and is about `length` long in tau."""
    eps = jnp.finfo(start.speed.dtype).eps
    here, given = rows(start, contact)
    cos, sin, passed = _path(start, contact, length)
    resolved = (jnp.min(passed, axis=0) > 0.2 * length) & (jnp.max(passed, axis=0) < 5 * length)
    growth, turning = given.rates(cos, sin)
    stretching = growth * passed  # d(ln r) over the panel's unit
    (log_speed,) = GRID.integrals(stretching)
    # What is slow adds little to I_z, and may be fast later: its speed has a test of its own.
    resolved = resolved & (GRID.last_coefficients(stretching) <= 200 * eps)
    speed = here.speed * jnp.exp(log_speed)
    flux = speed * passed  # dI_z over the panel's unit
    gained = GRID.integrals(flux, cos * flux, sin * flux)
    normal = here.normal + given.lift(*gained)
    power = normal * flux
    (work,) = GRID.integrals(power)
    gained.append(jnp.where(restoring[None], work, -work))
    impulse, pull1, pull2, energy = (
        a + b for a, b in zip((*here[3:6], here.energy), gained, strict=True)
    )
    return Panel(
        Motion(cos, sin, speed, impulse, pull1, pull2, normal, energy),
        gained,
        growth,
        turning,
        passed,
        resolved,
        (GRID.last_coefficients(flux), GRID.last_coefficients(power)),
    )


def at_place(functions: Panel, place: Float[Array, " lanes"]) -> Motion:
    """The motion at a place in [-1, 1] of the panel."""
    motion = Motion(*GRID.interpolate(place, *functions.motion))
    unit = jnp.sqrt(motion.cos * motion.cos + motion.sin * motion.sin)
    return motion._replace(cos=motion.cos / unit, sin=motion.sin / unit)


@jax.custom_jvp
def _path(start: Motion, contact: Contact, length: Lane) -> tuple[Lane, Lane, Lane]:
    """The directions at the points of a panel, and d tau over the place."""
    here, given, row = rows(start, contact, length)
    return _directions(here, given, row, GRID.unit_points(row))


@_path.defjvp
def _(primals, tangents):
    """What is found depends on no tau, so that the points are held at theirs.

    Then a change of theta obeys d(change)/dtau = (df/dtheta) change + (change of f).
    """
    (start, contact, _), (dstart, dcontact, _) = primals, tangents
    cos, sin, passed = _path(*primals)
    given, dgiven = rows(contact, dcontact)
    _, forced = jax.jvp(lambda given: given.rates(cos, sin)[1], (given,), (dgiven,))
    (growth,) = GRID.integrals(given.turning_slope(cos, sin) * passed)
    grown = jnp.exp(growth)
    (change,) = GRID.integrals(forced * passed / grown)
    turn = grown * ((start.cos * dstart.sin - start.sin * dstart.cos)[None] + change)
    return (cos, sin, passed), (-sin * turn, cos * turn, jnp.zeros_like(passed))


def _directions(
    start: Motion, contact: Contact, length: Lane, place: Lane
) -> tuple[Lane, Lane, Lane]:
    """The directions at places in [0, 1] of a panel, and d tau over the place.

    With t = tan((theta - theta_0)/2) the equation of theta is
    dt/dtau = F(t) / (2 (1 + t^2)), F of degree 4. Its right-hand side is a + b t + c t^2 to
    third order; the solution t of dt/dsigma = a + b t + c t^2 is elementary and tells how fast
    tau runs along it. All parts of F are taken from the same numbers, so that nothing is lost
    near an invariant direction, where both right-hand sides vanish.
    """
    c, s, mu = start.cos, start.sin, contact.friction
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
