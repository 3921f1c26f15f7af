"""Newton's steps for the cone problem, all with matrices of one form.

The impulses p and velocities u of a contact are without units here (see `Units`), of shape
(3, n_contacts): normal, then tangents. Linearised, every formulation of the contact law reads

    dp = c - D du,

and with du = G dv the velocities follow from M + G^T D G. The formulations differ in c and D alone:

- `Semismooth`: Alart and Curnier's p_n = (p_n - u_n)+, p_t = what the cone leaves of p_t - u_t;
  from close by;
- `Interior`: the complementarity of second-order cones with a product kappa instead of zero, after
  Dojo (Howell et al., 2022); from far away.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from ..math.safe import safe_sqrt
from .rows import contracted, each, of_lane

# Of velocities and impulses without units: contacts that neither press nor approach by more are
# open, or what they bear would be this over the proximal term.
_ROUND_OFF = 16

PerContact = Float[Array, "3 n_contacts"]
# One number, or one of each lane after an axis of length 1.
Term = float | Float[Array, "1 ..."]


def length(x: Float[Array, "2 n_contacts"]) -> Float[Array, " n_contacts"]:
    """Of tangential vectors, with the derivative 0 at zero."""
    return safe_sqrt(x[0] ** 2 + x[1] ** 2)


def slipping(u: PerContact, friction: Float[Array, " n_contacts"]) -> PerContact:
    """u + mu |u_t| n, with de Saxce's term."""
    return u.at[0].add(friction * length(u[1:]))


def project(y: PerContact, friction: Float[Array, " n_contacts"]) -> PerContact:
    """The closest point of Coulomb's cone |y_t| <= mu y_n."""
    across = length(y[1:])
    along = (y[0] + friction * across) / (1 + friction**2)
    ratio = jnp.where(across > 0, friction * along / jnp.where(across > 0, across, 1.0), 0.0)
    side = jnp.concatenate([along[None], ratio[None] * y[1:]])
    polar = friction * across <= -y[0]
    inside = across < friction * y[0]
    return jnp.where(inside[None], y, jnp.where(polar[None], 0.0, side))


def natural_map(p: PerContact, u: PerContact, friction: Float[Array, " n_contacts"]) -> PerContact:
    """p - proj_K(p - (u + mu |u_t| n)), which is zero at a solution."""
    return p - project(p - slipping(u, friction), friction)


class Branch(NamedTuple):
    """Which of its forms the law has at each contact: it is open, sticks or slips."""

    closed: Bool[Array, " n_contacts"]
    slips: Bool[Array, " n_contacts"]

    @staticmethod
    def of(p: PerContact, u: PerContact, friction: Float[Array, " n_contacts"]) -> Branch:
        """At impulses and velocities."""
        n = p[0] - u[0]
        closed = n > _ROUND_OFF * jnp.finfo(p.dtype).eps
        return Branch(closed, closed & (length(p[1:] - u[1:]) >= friction * n))


def curnier_map(
    p: PerContact, u: PerContact, friction: Float[Array, " n_contacts"], branch: Branch
) -> PerContact:
    """p - p', where p' has the normal part (p_n - u_n)+ and the tangential part of p_t - u_t, no
    longer than mu p'_n; zero where the natural map is.

    Unlike there its normal part is u_n alone wherever a contact is closed, so that semismooth
    turns change pressures by what velocities of the bodies can make of them (see `pressure`).
    """
    n, y = jnp.where(branch.closed, p[0] - u[0], 0.0), p[1:] - u[1:]
    across = length(y)
    bounded = branch.slips | ~branch.closed
    limit = friction * n / jnp.where(bounded & (across > 0), across, 1.0)
    return p - jnp.concatenate([n[None], jnp.where(bounded, limit, 1.0)[None] * y])


class Semismooth(NamedTuple):
    """Alart and Curnier's map linearised with a proximal term: F' + eps (dp - d) = -F.

    d is what is known of dp: with it the term vanishes.
    """

    inverse: Float[Array, "3 3 n_contacts"]  # N: what -F + eps d makes of dp
    response: Float[Array, "3 3 n_contacts"]

    @staticmethod
    def of(p: PerContact, u: PerContact, friction, branch: Branch, eps: Term) -> Semismooth:
        """At impulses and velocities."""
        n, y = p[0] - u[0], p[1:] - u[1:]
        across = length(y)
        closed, slips = branch
        moving = slips & (across > 0)
        d = jnp.where(moving[None], y / jnp.where(moving, across, 1.0)[None], 0.0)
        k = jnp.where(moving, friction * n / jnp.where(moving, across, 1.0), 0.0)
        one, zero = jnp.ones_like(n), jnp.zeros_like(n)
        opened = one / (1 + eps)
        normal = jnp.where(closed, 1 / eps, opened)
        # Along the slip friction follows the normal impulse; across it turns with the slip.
        pull = jnp.where(slips, friction / (1 + eps), 0.0)
        turn = one / (1 + eps - k) - opened
        stick = closed & ~slips
        inverse, response = [[normal, zero, zero]], [[jnp.where(closed, 1 / eps, 0.0), zero, zero]]
        for i in range(2):
            inverse.append([pull * d[i] * normal])
            response.append([pull * d[i] * (1 / eps + 1)])
            for j in range(2):
                same = one if i == j else zero
                # q q^T, across the direction d.
                q = jnp.where(moving, same - d[i] * d[j], 0.0)
                inverse[-1].append(jnp.where(stick, same / eps, same * opened + q * turn))
                response[-1].append(jnp.where(stick, same / eps, q * (k / (1 + eps - k))))
        return Semismooth(_array(inverse), _array(response))

    def given(self, pads: np.ndarray, eps: float) -> Semismooth:
        """Where the normal impulses of pads are known, so that they follow no velocity."""
        first = np.arange(3)[None, :, None] == 0
        pads = first & pads
        return Semismooth(
            jnp.where(pads, self.inverse * eps, self.inverse),
            jnp.where(pads, 0.0, self.response),
        )

    def change(self, residual: PerContact, known: PerContact, eps: Term) -> PerContact:
        """The constant c for a map F and what is known of dp."""
        return apply(self.inverse, of_lane(jnp.asarray(eps), known) * known - residual)


def _array(entries):
    like = entries[0][0]
    return jnp.stack([jnp.stack([jnp.broadcast_to(e, like.shape) for e in row]) for row in entries])


def apply(matrix: Float[Array, "3 3 n_contacts"], x: PerContact) -> PerContact:
    """A matrix of each contact times its vector."""
    return contracted(matrix, x[None], 1)


class Point(NamedTuple):
    """A point of the interior: impulse, psi (which becomes the slip), slack (which becomes u)."""

    p: PerContact
    psi: Float[Array, " n_contacts"]
    s: PerContact

    def moved(self, change: Point, size) -> Point:
        """A part of a step further."""
        return Point(*(x + of_lane(size, x) * dx for x, dx in zip(self, change, strict=True)))


class Complementarity(NamedTuple):
    """The equations p_n s_n = kappa; mu p_n psi + p_t.s_t = kappa; mu p_n s_t + psi p_t = 0."""

    normal: Float[Array, " n_contacts"]
    cone: Float[Array, " n_contacts"]
    tangents: Float[Array, "2 n_contacts"]

    @staticmethod
    def of(a: Point, friction, pads: np.ndarray) -> Complementarity:
        """The left sides; of pads, whose normal impulse is known, the first one is not asked."""
        rough = friction > 0
        normal = a.p[0] * a.s[0]
        cone = friction * a.p[0] * a.psi + dot2(a.p[1:], a.s[1:])
        tangents = (friction * a.p[0])[None] * a.s[1:] + a.psi[None] * a.p[1:]
        cone = jnp.where(rough, cone, normal)
        normal = jnp.where(each(pads, cone), cone, normal)
        return Complementarity(normal, cone, jnp.where(rough[None], tangents, 0.0))

    def mean(self, active, axis=0):
        """The mean product of the active contacts."""
        two = jnp.where(active, 2.0, 0.0).astype(self.normal.dtype)
        count = jnp.maximum(jnp.sum(two, axis=axis), 1.0)
        return jnp.sum(jnp.where(active, self.normal + self.cone, 0.0), axis=axis) / count


def dot2(a, b):
    """Of tangential vectors."""
    return a[0] * b[0] + a[1] * b[1]


class Interior(NamedTuple):
    """The complementarity linearised at a point."""

    at: Point
    friction: Float[Array, " n_contacts"]
    pads: np.ndarray  # which contacts keep their normal impulse

    @property
    def _cone(self):
        """mu p_n and the determinant psi mu p_n - p_t.s_t."""
        g = self.friction * self.at.p[0]
        return g, jnp.where(
            self.friction > 0, self.at.psi * g - dot2(self.at.p[1:], self.at.s[1:]), 1.0
        )

    def response(self) -> Float[Array, "3 3 n_contacts"]:
        """D."""
        p, psi, s = self.at
        mu, rough = self.friction, self.friction > 0
        g, delta = self._cone
        a = p[0] / s[0]
        curved = (psi**2 - dot2(s[1:], s[1:])) / delta
        column = [-(mu * a) * (s[i] - p[i] * curved) / psi for i in (1, 2)]
        across = [
            [
                ((g if i == j else 0.0) + p[i] * (g * s[j] - psi * p[j]) / delta) / psi
                for j in (1, 2)
            ]
            for i in (1, 2)
        ]
        zero = jnp.zeros_like(a)
        rows = [[a, zero, zero]]
        for c, row in zip(column, across, strict=True):
            rows.append([jnp.where(rough, x, 0.0) for x in (c, *row)])
        return _array(rows)

    def step(
        self, right: Complementarity, ds: PerContact | None
    ) -> tuple[PerContact, Float[Array, " n_contacts"]]:
        """dp and dpsi that change the products by `right`, when the slack changes by ds."""
        p, psi, s = self.at
        mu, rough = self.friction, self.friction > 0
        g, delta = self._cone
        if ds is None:
            ds = jnp.zeros_like(s)
        dp_n = (right.normal - p[0] * ds[0]) / s[0]
        dp_n = jnp.where(each(self.pads, dp_n), 0.0, dp_n)
        dg = mu * dp_n
        square = psi**2 - dot2(s[1:], s[1:])
        driven = psi * right.cone - dot2(s[1:], right.tangents) - square * dg
        dpsi = (driven + dot2(g[None] * s[1:] - psi[None] * p[1:], ds[1:])) / delta
        turned = s[1:] * dg[None] + g[None] * ds[1:] + p[1:] * dpsi[None]
        dp_t = (right.tangents - turned) / psi[None]
        dp_t, dpsi = jnp.where(rough[None], dp_t, 0.0), jnp.where(rough, dpsi, 0.0)
        return jnp.concatenate([dp_n[None], dp_t]), dpsi

    def longest(self, change: Point, active) -> Float[Array, " n_contacts"]:
        """The largest part of a step that keeps each contact inside; infinite without limit."""
        (p, psi, s), (dp, dpsi, ds) = self.at, change
        mu, rough = self.friction, self.friction > 0
        room = jnp.minimum(_to_zero(p[0], dp[0]), _to_zero(s[0], ds[0]))
        of_cones = jnp.minimum(
            _to_cone(mu * p[0], p[1:], mu * dp[0], dp[1:]), _to_cone(psi, s[1:], dpsi, ds[1:])
        )
        room = jnp.where(rough, jnp.minimum(room, of_cones), room)
        return jnp.where(active, room, jnp.inf)


class Damped(NamedTuple):
    """dp = c - D (du + delta dp) in place of dp = c - D du: D grows without bound as products go to
    zero, and is no more than 1/delta here, so that solutions keep their digits. At the end dp is
    zero."""

    inverse: Float[Array, "3 3 n_contacts"]  # of 1 + delta D
    response: Float[Array, "3 3 n_contacts"]
    undamped: Float[Array, "3 3 n_contacts"]

    @staticmethod
    def of(response: Float[Array, "3 3 n_contacts"], delta: Term) -> Damped:
        """Of a D whose first row has only its first entry."""
        a, b, c, d = (delta * response[i, j] for i, j in ((1, 1), (1, 2), (2, 1), (2, 2)))
        a, d = 1 + a, 1 + d
        det = a * d - b * c
        n = 1 / (1 + delta * response[0, 0])
        e, f = (-delta * response[i, 0] * n for i in (1, 2))
        zero = jnp.zeros_like(n)
        inverse = _array(
            [
                [n, zero, zero],
                [(d * e - b * f) / det, d / det, -b / det],
                [(a * f - c * e) / det, -c / det, a / det],
            ]
        )
        times = [apply(inverse, response[:, k]) for k in range(3)]
        return Damped(inverse, jnp.stack(times, axis=1), response)

    def change(self, constant: PerContact, off: PerContact) -> PerContact:
        """The constant, where the slack is off the velocities."""
        return apply(self.inverse, constant - apply(self.undamped, off))


def _to_zero(x, dx):
    """How many steps dx until x > 0 is zero."""
    falls = dx < 0
    return jnp.where(falls, -x / jnp.where(falls, dx, -1.0), jnp.inf)


def _to_cone(a, b, da, db):
    """How many steps until (a, b) inside of |b| <= a is on the cone.

    |b + t db|^2 = (a + t da)^2 has the roots of A t^2 + 2 B t + C with C > 0.
    """
    square = da**2 - dot2(db, db)
    half = a * da - dot2(b, db)
    left = jnp.maximum(a**2 - dot2(b, b), 0.0)
    root = jnp.sqrt(jnp.maximum(half**2 - square * left, 0.0))
    # The least positive root is left/(root - half), if there is one.
    below = root - half
    never = (below <= 0) | ((square > 0) & ((half >= 0) | (half**2 < square * left)))
    return jnp.where(never, jnp.inf, left / jnp.where(never, 1.0, below))
