"""The exact rotation of a free rigid body, in closed form.

Euler's equations Pi' = Pi x J^{-1} Pi are solved by elliptic functions. Written with them, the
rotation during a time T has cases (on which side of the separatrix, which moments are equal) and
needs theta functions with complex arguments. Here it is put so that none of that is left.

Notation, in principal axes: k = Pi, kk = k.k, x_j = 1/J_j with x_2 between the others,
r = k.J^{-1} k / kk, r_j = r - x_j, u = T/2.

**Cayley vector.** The rotation F = R(0)^T R(T) has the Cayley vector f (the tangent of half the
angle along the axis) that solves

    A f = k + k x f,    A = diag(A_j),  A_j = |k| cot(alpha_j),

the equation of Hairer and Vilmart's preprocessed discrete Moser-Veselov algorithm (J. Phys. A 39
(2006) 13225), with A made exact instead of a power series in the step: A depends on the invariants
and the duration alone. alpha_j is the angle by which the body axis e_l precesses about the momentum
during u, from a moment at which k_k = 0 (derived on the page *Exact flight*). Cramer's rule with
C_j = cos(alpha_j), s_j = sin(alpha_j)/|k| makes it a polynomial, the quaternion of F up to its
length, which has no pole at half a turn:

    q_0 = C_1 C_2 C_3 + k_1^2 C_1 s_2 s_3 + k_2^2 s_1 C_2 s_3 + k_3^2 s_1 s_2 C_3,
    q_1 = s_1 ((C_2 C_3 + kk s_2 s_3) k_1 + (C_2 s_3 - C_3 s_2) k_2 k_3),    and cyclically.

**Angles.** With Weierstrass' function p of roots e_j, e_i - e_j = (x_i - x_j)(k.J^{-1} k - x_l kk),
S_j^2 = p(u) - e_j, and G = 1/(p(u) - p(a)), where p(a) - e_j = n_j = -kk r_k r_l,

    alpha_j = Phi + arg(S_k S_l - i |k| r_j S_j),
    Phi' = |k| (r - kk r_1 r_2 r_3 G).

**Evaluation.** For a small u the power series of G, which solves
G'' = 2 + 4 s_1 G + 6 s_2 G^2 + 8 s_3 G^3 with the elementary symmetric functions s_i of n_j. Then u
is doubled, by the addition theorem in y = 1/S_2, c_1 = S_1/S_2, c_3 = S_3/S_2 (bounded) and
W = e^{i Phi}: with m_j = e_j - e_2 >= 0, Y = y^2 and D = c_1^2 + m_1 Y c_3^2,

    y <- 2 y c_1 c_3 / D,  c_1 <- 1 - 2 m_1 Y c_3^2/D,  c_3 <- 1 - 2 m_3 Y c_1^2/D,
    W <- W^2 ((c_1^2 + c_3^2) g - P (2 - g) + i |k| b y Y c_1 c_3)/D

with P = c_1^2 c_3^2, g = 1 - n_2 Y and b = -2 kk r_1 r_2 r_3. Where a spin passes near the middle
axis, c_1 and c_3 fall like exp(-u), and m_1 Y, m_3 Y and n_2 Y are nearly 1. No difference from 1
is taken then, by c_j^2 = 1 - m_j Y: g is c_3^2 - n_3 Y or c_1^2 - n_1 Y, of which one is a sum of
terms that are not negative, as D is; and c_1 and c_3 become (P +- (m_3 - m_1) Y)/D, where m_3 - m_1
is (x_3 - x_1) kk r_2. So nothing cancels, however many doublings there are. Spheres, symmetric
bodies, steady spins and the separatrix are no special cases.

**Derivatives by a tensor.** Principal axes of equal moments are any, and turn by a product of
inertia over the difference of two moments. The rotation does not: it depends on the invariants and
on A, a function of the matrix J^{-1}. To first order a product of inertia J_ij, by which J^{-1} has
o_ij = -x_i x_j J_ij, changes of the invariants r alone, by 2 o_ij k_i k_j/kk, and of A the entry

    A_ij = o_ij (A_i - A_j)/(x_i - x_j),

whose quotient has no pole: the differences of the angles have x_i - x_j for a factor. With it the
quaternion, up to its length det A + k.A k and adj(A) k + kk k + (A k) x k, changes by

    2 A_ij k_i k_j  and  A_ij (b x k - A_l b),  b = k_j e_i + k_i e_j,  l the third axis.
"""

from __future__ import annotations

import math
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.custom_derivatives import SymbolicZero
from jaxtyping import Array, Bool

from ..math import Quat, Vec3, rotate_inverse, tree_where
from ..math.autodiff import sparse_jvp
from ..math.materialize import compute_once
from ..math.vec import Scalar


class _Series(NamedTuple):
    """How many terms of the power series are summed, and up to which arguments, before the first
    doubling, the next ones are round-off."""

    terms: int
    most: float  # |n_j| u^2
    most_phase: float  # Phi^2


# 0.052 most^8 and most_phase^8/16!, 0.045 most^5 and most_phase^5/10!, the first that are left out.
_SERIES = {
    np.dtype("float64"): _Series(8, 0.019, 0.46),
    np.dtype("float32"): _Series(5, 0.067, 0.73),
}


class Rotation(NamedTuple):
    """The rotation of a free body during a time."""

    turn: Quat  # F, unit: from the body frame at the end to that at the start
    error: Scalar  # the argument of the power series, relative to the largest allowed


@partial(jax.custom_jvp, nondiff_argnums=(3,))
def free_rotation(
    duration: Scalar, momentum: Vec3, moments: Vec3, doublings: int, products: Vec3 | None = None
) -> Rotation:
    """The rotation during a time of either sign, in principal axes.

    Args:
        duration: [s].
        momentum: at the start, body frame [kg m^2/s].
        moments: J_j [kg m^2], in any order.
        doublings: each doubles the durations to which it is exact.
        products: of inertia, J_23, J_31 and J_12 [kg m^2], which are zero, if derivatives by them
            are wanted; they are of first order.
    """
    return _rotation(duration, momentum, moments, doublings, products)


def longest_rotation(momentum: Vec3, moments: Vec3, doublings: int) -> Scalar:
    """A duration up to which `free_rotation` is exact to round-off, nearly the longest [s]."""
    one = jnp.ones_like(momentum.x)
    x = Vec3(one / moments.x, one / moments.y, one / moments.z)
    order = _Order.of(x)
    top = _top(order.sort(momentum), order.sort(x), order.sort(moments), None)
    _, most, most_phase = _SERIES[np.dtype(top.kk.dtype)]
    rate = top.middle + jnp.abs(top.r2)
    needed = jnp.maximum(_largest(top) / most, top.kk * (rate * rate) / most_phase)
    spins = needed > 0
    longest = 0.98 * 2 ** (doublings + 1) / jnp.sqrt(jnp.where(spins, needed, 1.0))
    return jnp.where(spins, longest, jnp.inf)


@partial(free_rotation.defjvp, symbolic_zeros=True)
def _(doublings, primals, tangents):
    """By the duration q' = q Omega/2; by the others that of the closed form."""
    duration, momentum, moments, _ = primals

    def at_duration(momentum, moments, products):
        return _rotation(duration, momentum, moments, doublings, products, looped=True)

    rotation, change = sparse_jvp(at_duration, primals[1:], tangents[1:])
    if not isinstance(tangents[0], SymbolicZero):
        end = rotate_inverse(rotation.turn, momentum)
        rate = Vec3(end.x / moments.x, end.y / moments.y, end.z / moments.z) * (0.5 * tangents[0])
        turn = rotation.turn * Quat(jnp.zeros_like(rate.x), rate)
        change = Rotation(jax.tree.map(jnp.add, change.turn, turn), change.error)
    return rotation, change


def _rotation(
    duration: Scalar,
    momentum: Vec3,
    moments: Vec3,
    doublings: int,
    products: Vec3 | None,
    *,
    looped: bool = False,
) -> Rotation:
    """`free_rotation`; looped, a small program whose derivatives are small, too."""
    # Momentum and inertia count by their ratio, momentum and duration by their product: all is
    # dimensionless, and no product of small numbers leaves the range of floats.
    one = jnp.ones_like(momentum.x)
    inverse = Vec3(one / moments.x, one / moments.y, one / moments.z)
    size = inverse.x + inverse.y + inverse.z
    k = momentum * (size * (duration * 0.5 ** (doublings + 1)))
    x = inverse / size
    order = _Order.of(x)
    off = None
    if products is not None:
        off = order.sort(_off_diagonal(products, inverse) / size)
    k, x, moments = order.sort(k), order.sort(x), order.sort(moments)
    # Without such waists XLA would compute all that a number depends on for every derivative.
    once = compute_once if looped else lambda numbers: numbers
    top = once(_top(k, x, moments, off))
    half, error = _start(top)
    half = once(half)
    if looped:
        half = jax.lax.fori_loop(0, doublings, lambda _, half: _doubled(top, half), half)
    else:
        for _ in range(doublings):
            half = _doubled(top, half)
    angles = once(_angles(top, half))
    turn = _cayley(top, angles)
    if off is not None:
        turn = _by_off_diagonal(turn, top, half, angles, off)
    turn = Quat(turn.w, order.back(turn.v)).normalized()
    return Rotation(turn, jax.lax.stop_gradient(error))


def _off_diagonal(products: Vec3, inverse: Vec3) -> Vec3:
    """Of J^{-1}, from those of J, to first order."""
    return Vec3(
        -products.x * (inverse.y * inverse.z),
        -products.y * (inverse.z * inverse.x),
        -products.z * (inverse.x * inverse.y),
    )


class _Top(NamedTuple):
    """A free top: its momentum, and what stays."""

    k: Vec3
    squares: Vec3  # k_j^2
    kk: Scalar
    middle: Scalar  # x_2
    r1: Scalar
    r2: Scalar
    r3: Scalar
    n1: Scalar
    n2: Scalar
    n3: Scalar
    m1: Scalar
    m31: Scalar  # m_3 - m_1
    n13: Scalar  # -n_3 or -n_1, that which is not negative
    b: Scalar
    d12: Scalar  # x_2 - x_1
    d23: Scalar
    d13: Scalar


class _Half(NamedTuple):
    """The elliptic functions of half the duration."""

    y: Scalar
    c1: Scalar
    c3: Scalar
    cosine: Scalar  # W = cosine + i |k| sine
    sine: Scalar


class _Angles(NamedTuple):
    """C_j and s_j, each pair with a factor of its own, and the sums and differences of the angles
    that the quaternion needs, with one more factor that all of these have in common."""

    c1: Scalar
    c2: Scalar
    c3: Scalar
    s1: Scalar
    s2: Scalar
    s3: Scalar
    near23: Scalar  # C_2 C_3 + kk s_2 s_3
    near31: Scalar
    near12: Scalar
    d12: Scalar  # C_1 s_2 - C_2 s_1
    d23: Scalar
    d31: Scalar


def _top(k: Vec3, x: Vec3, moments: Vec3, off: Vec3 | None) -> _Top:
    a = Vec3(k.x * k.x, k.y * k.y, k.z * k.z)
    kk = a.x + a.y + a.z
    # Of the moments, whose differences are exact where they are small: thin bodies magnify them.
    d12 = (moments.x - moments.y) / moments.x * x.y
    d23 = (moments.y - moments.z) / moments.z * x.y
    d13 = (moments.x - moments.z) / moments.x * x.z
    # Without spin any r between the x_j serves, as x_2, and with little it changes what is of the
    # third order in k. Derivatives of r grow as k falls: where what it changes is round-off, they
    # would make as much of second derivatives as they are.
    still = kk <= 0.125 * jnp.finfo(kk.dtype).eps
    divisor = jnp.where(still, 1.0, kk)
    # Sums of differences: nothing cancels.
    r1 = jnp.where(still, d12, (a.y * d12 + a.z * d13) / divisor)
    r2 = jnp.where(still, 0.0, (a.z * d23 - a.x * d12) / divisor)
    r3 = jnp.where(still, -d23, -(a.x * d13 + a.y * d23) / divisor)
    if off is not None:
        crossed = off.x * (k.y * k.z) + off.y * (k.z * k.x) + off.z * (k.x * k.y)
        shift = jnp.where(still, 0.0, 2 * crossed / divisor)
        r1, r2, r3 = r1 + shift, r2 + shift, r3 + shift
    e1 = kk * r1
    return _Top(
        k=k,
        squares=a,
        kk=kk,
        middle=x.y,
        r1=r1,
        r2=r2,
        r3=r3,
        n1=-kk * (r2 * r3),
        n2=-e1 * r3,
        n3=-e1 * r2,
        m1=-kk * (d12 * r3),
        m31=kk * (d13 * r2),
        n13=kk * (r2 * jnp.where(r2 > 0, r1, r3)),
        b=-2 * (e1 * (r2 * r3)),
        d12=d12,
        d23=d23,
        d13=d13,
    )


def _start(top: _Top) -> tuple[_Half, Scalar]:
    """The elliptic functions of 1 by power series, and their arguments relative to the largest."""
    n1, n2, n3 = top.n1, top.n2, top.n3
    terms, most, most_phase = _SERIES[np.dtype(top.kk.dtype)]
    growth, mean = _growth(n1, n2, n3, terms)
    phase = (top.middle + top.r2) + (0.5 * top.b) * mean
    square = top.kk * (phase * phase)
    # Far beyond the range of the series the phase is none.
    far = _largest(top) / most
    error = jnp.where(far > 1, far, jnp.maximum(far, square / most_phase))
    cosine, sinc = _cos_sinc(square, terms)
    q2 = 1 + n2 * growth
    c1, c3 = jnp.sqrt((1 + n1 * growth) / q2), jnp.sqrt((1 + n3 * growth) / q2)
    return _Half(jnp.sqrt(growth / q2), c1, c3, cosine, sinc * phase), error


def _largest(top: _Top) -> Scalar:
    """|n_j|, the largest."""
    return jnp.maximum(jnp.abs(top.n2), jnp.maximum(jnp.abs(top.n1), jnp.abs(top.n3)))


def _doubled(top: _Top, half: _Half) -> _Half:
    """The elliptic functions of twice the argument."""
    y, c1, c3, cosine, sine = half
    kk, square, both = top.kk, y * y, c1 * c3
    c11, c33, product = c1 * c1, c3 * c3, both * both
    m1y, apart = top.m1 * square, top.m31 * square
    m3y = m1y + apart
    # 1 - n_2 Y as a sum of terms that are not negative.
    part = top.n13 * square + jnp.where(top.r2 > 0, c33, c11)
    real = (c11 + c33) * part - product * (2 - part)
    imaginary = top.b * both * (y * square)
    cosine, sine = cosine * cosine - kk * (sine * sine), 2 * (cosine * sine)
    cosine, sine = cosine * real - kk * (sine * imaginary), cosine * imaginary + sine * real
    divisor = c11 + m1y * c33
    # Near 1 by what they are less; the other form has the round-off of a quotient then, which the
    # next doublings would multiply. Chosen before they are divided, which takes longest.
    near1, near3 = m1y < 0.5, m3y < 0.5
    part1 = jnp.where(near1, -2 * (m1y * c33), product + apart) / divisor
    part3 = jnp.where(near3, -2 * (m3y * c11), product - apart) / divisor
    # W counts up to a positive factor, which each doubling squares: of unit size it stays finite.
    size = jnp.sqrt(cosine * cosine + kk * (sine * sine))
    return _Half(
        2 * (y * both) / divisor,
        jnp.where(near1, 1 + part1, part1),
        jnp.where(near3, 1 + part3, part3),
        cosine / size,
        sine / size,
    )


def _angles(top: _Top, half: _Half) -> _Angles:
    y, c1, c3, cosine, sine = half

    def turned(real: Scalar, imaginary: Scalar) -> tuple[Scalar, Scalar]:
        return cosine * real - top.kk * (sine * imaginary), cosine * imaginary + sine * real

    first_c, first_s = turned(c3, -top.r1 * (c1 * y))
    second_c, second_s = turned(c1 * c3, -top.r2 * y)
    third_c, third_s = turned(c1, -top.r3 * (c3 * y))
    # By p(u) - p(a) = S_j^2 - n_j, whatever j, the cosines and sines of differences of angles are
    # products: nothing cancels, as it would for rods, whose A_3 is far from the others. The factor
    # is |W|^2 (1 - n_2 Y).
    return _Angles(
        c1=first_c,
        c2=second_c,
        c3=third_c,
        s1=first_s,
        s2=second_s,
        s3=third_s,
        near23=c3,
        near31=c1 * c3,
        near12=c1,
        d12=top.d12 * (c3 * y),
        d23=top.d23 * (c1 * y),
        d31=-top.d13 * y,
    )


def _cayley(top: _Top, angles: _Angles) -> Quat:
    """The quaternion of F, of any length but 0.

    q_0 is that of the module's docstring, with the sum over k_2^2 taken together.
    """
    k, a, of = top.k, top.squares, angles
    w = of.c2 * of.near31 + a.x * (of.s3 * of.d12) - a.z * (of.s1 * of.d23)
    vector = Vec3(
        of.s1 * (of.near23 * k.x + of.d23 * (k.y * k.z)),
        of.s2 * (of.near31 * k.y + of.d31 * (k.z * k.x)),
        of.s3 * (of.near12 * k.z + of.d12 * (k.x * k.y)),
    )
    return Quat(w, vector)


def _by_off_diagonal(turn: Quat, top: _Top, half: _Half, of: _Angles, off: Vec3) -> Quat:
    """`_cayley` with what the entries of J^{-1} beside its diagonal add, to first order."""
    k, y = top.k, half.y
    # Of each pair of axes, with the third one: A_ij over o_ij, times s_1 s_2 s_3 over that of the
    # third axis.
    pairs = (
        (off.x * half.c1, of.c1, of.s1, (k.y, k.z, k.x), lambda a, b, c: Vec3(c, a, b)),
        (off.y, of.c2, of.s2, (k.z, k.x, k.y), lambda a, b, c: Vec3(b, c, a)),
        (off.z * half.c3, of.c3, of.s3, (k.x, k.y, k.z), Vec3),
    )
    for own, cosine, sine, (a, b, c), placed in pairs:
        entry = -y * own
        vector = placed(
            sine * (a * c) - cosine * b, -sine * (b * c) - cosine * a, sine * (b * b - a * a)
        )
        turn = Quat(turn.w + 2 * entry * sine * (a * b), turn.v + vector * entry)
    return turn


class _Order(NamedTuple):
    """Which axis is the middle one, if not the second. Orders are cyclic: axes remain
    right-handed."""

    first: Bool[Array, "..."]
    third: Bool[Array, "..."]

    @staticmethod
    def of(x: Vec3) -> _Order:
        return _Order((x.x - x.y) * (x.x - x.z) < 0, (x.z - x.x) * (x.z - x.y) < 0)

    def sort(self, v: Vec3) -> Vec3:
        """So that the second is between the others."""
        last = tree_where(self.third, Vec3(v.y, v.z, v.x), v)
        return tree_where(self.first, Vec3(v.z, v.x, v.y), last)

    def back(self, v: Vec3) -> Vec3:
        """As they were."""
        last = tree_where(self.third, Vec3(v.z, v.x, v.y), v)
        return tree_where(self.first, Vec3(v.y, v.z, v.x), last)


def _growth(n1: Scalar, n2: Scalar, n3: Scalar, terms: int) -> tuple[Scalar, Scalar]:
    """G(1), and the integral of G from 0 to 1."""
    s1, s2, s3 = 4 * (n1 + n2 + n3), 6 * (n2 * (n1 + n3) + n1 * n3), 8 * (n1 * n2 * n3)
    g: list = [jnp.ones_like(n1)]
    squares: list = []
    for i in range(1, terms):
        following = s1 * g[i - 1]
        if i >= 2:
            squares.append(sum(g[p] * g[i - 2 - p] for p in range(i - 1)))
            following = following + s2 * squares[-1]
        if i >= 3:
            following = following + s3 * sum(squares[p] * g[i - 3 - p] for p in range(i - 2))
        g.append(following / ((2 * i + 2) * (2 * i + 1)))
    value = sum(g[:0:-1], jnp.zeros_like(n1)) + g[0]
    mean = sum((g[i] / (2 * i + 3) for i in range(terms - 1, 0, -1)), jnp.zeros_like(n1)) + g[0] / 3
    return value, mean


def _cos_sinc(square: Scalar, terms: int) -> tuple[Scalar, Scalar]:
    """cos(z) and sin(z)/z of z^2, for small z."""
    cosine = jnp.full_like(square, 1 / math.factorial(2 * terms))
    sinc = jnp.full_like(square, 1 / math.factorial(2 * terms + 1))
    for i in reversed(range(terms)):
        cosine = 1 / math.factorial(2 * i) - square * cosine
        sinc = 1 / math.factorial(2 * i + 1) - square * sinc
    return cosine, sinc
