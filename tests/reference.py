"""An independent implementation of the collision integrator, for any kind of number.

Plain Python on lists, with rotation matrices and the equation of Tran and Leok's appendix D,
g + g x f + f (f.g) - 2 J f = 0 (g = h Pi), in place of the quaternions and the quadratic
form of the package. The numbers may be floats, complex numbers (a complex step gives
derivatives without cancellation: every formula is analytic) or mpmath's. Decisions look at
real parts; roots are bisected there and then polished by Newton's method.
"""

import math
from dataclasses import dataclass, field
from typing import Any


def real(x):
    return x.real if hasattr(x, "real") else x


def vadd(a, b):
    return [x + y for x, y in zip(a, b, strict=True)]


def scaled(a, s):
    return [x * s for x in a]


def vdot(a, b):
    return sum(x * y for x, y in zip(a, b, strict=True))


def vcross(a, b):
    return [
        a[1] * b[2] - a[2] * b[1],
        a[2] * b[0] - a[0] * b[2],
        a[0] * b[1] - a[1] * b[0],
    ]


def matvec(m, a):
    return [vdot(row, a) for row in m]


def matmul(a, b):
    return [[sum(a[i][k] * b[k][j] for k in range(3)) for j in range(3)] for i in range(3)]


def transpose(m):
    return [list(row) for row in zip(*m, strict=True)]


def solve(m, b):
    """Gaussian elimination with pivoting."""
    rows = [[*row, y] for row, y in zip(m, b, strict=True)]
    n = len(rows)
    for i in range(n):
        pivot = max(range(i, n), key=lambda k: abs(rows[k][i]))
        rows[i], rows[pivot] = rows[pivot], rows[i]
        for k in range(i + 1, n):
            factor = rows[k][i] / rows[i][i]
            rows[k] = [x - factor * y for x, y in zip(rows[k], rows[i], strict=True)]
    x = [0] * n
    for i in reversed(range(n)):
        x[i] = (rows[i][n] - sum(rows[i][k] * x[k] for k in range(i + 1, n))) / rows[i][i]
    return x


@dataclass
class Body:
    """A rigid body with a support function, over half-spaces."""

    x: list
    R: list
    p: list
    Pi: list
    mass: Any
    J: list  # 3 x 3
    support: Any  # direction -> point
    planes: list  # of (unit normal, offset)
    gravity: list
    restitution: Any
    impacts: list = field(default_factory=list)  # (time, plane, impulse, x, p after)

    def flow(self, h):
        """One step of (70) from the present state."""
        g = scaled(self.Pi, h)
        f = scaled(solve(self.J, g), 1 / (h * 0 + 2))
        for _ in range(12):
            gf, Jf, gxf = vdot(g, f), matvec(self.J, f), vcross(g, f)
            residual = [g[i] + gxf[i] + f[i] * gf - 2 * Jf[i] for i in range(3)]
            skew = [[0, -g[2], g[1]], [g[2], 0, -g[0]], [-g[1], g[0], 0]]
            jacobian = [
                [
                    skew[i][k] + f[i] * g[k] - 2 * self.J[i][k] + (gf if i == k else 0)
                    for k in range(3)
                ]
                for i in range(3)
            ]
            f = vadd(f, scaled(solve(jacobian, residual), -1))
        n = 1 + vdot(f, f)
        F = [
            [(2 * f[i] * f[k] + ((2 - n) if i == k else 0)) / n for k in range(3)] for i in range(3)
        ]
        for i, k, s in ((0, 1, -f[2]), (0, 2, f[1]), (1, 2, -f[0])):
            F[i][k] = F[i][k] + 2 * s / n
            F[k][i] = F[k][i] - 2 * s / n
        x = [self.x[i] + h * self.p[i] / self.mass + h * h * self.gravity[i] / 2 for i in range(3)]
        p = [self.p[i] + h * self.mass * self.gravity[i] for i in range(3)]
        return Body(
            x,
            matmul(self.R, F),
            p,
            matvec(transpose(F), self.Pi),
            self.mass,
            self.J,
            self.support,
            self.planes,
            self.gravity,
            self.restitution,
            self.impacts,
        )

    def gap(self, plane):
        n, d = plane
        point = self.support(scaled(matvec(transpose(self.R), n), -1))
        return vdot(n, vadd(self.x, matvec(self.R, point))) - d

    def least_gap(self):
        return min(real(self.gap(plane)) for plane in self.planes)

    def bounce(self, t):
        """The jump (61) at the plane that is touched."""
        index = min(range(len(self.planes)), key=lambda k: real(self.gap(self.planes[k])))
        n, _ = self.planes[index]
        in_body = matvec(transpose(self.R), n)
        chi = vcross(self.support(scaled(in_body, -1)), in_body)
        JinvPi, Jinvchi = solve(self.J, self.Pi), solve(self.J, chi)
        rate = vdot(n, self.p) / self.mass + vdot(chi, JinvPi)
        impulse = -(1 + self.restitution) * rate / (1 / self.mass + vdot(chi, Jinvchi))
        self.p = vadd(self.p, scaled(n, impulse))
        self.Pi = vadd(self.Pi, scaled(chi, impulse))
        self.impacts.append((t, index, impulse, list(self.x), list(self.p)))

    def impact_time(self, h, width):
        """Root of the gap along the flow in (0, h): bisection, then Newton's method."""
        lower, upper = 0 * real(h), real(h)
        while upper - lower > width:
            middle = (lower + upper) / 2
            if self.flow(middle).least_gap() > 0:
                lower = middle
            else:
                upper = middle
        alpha = upper + 0 * h
        end = self.flow(alpha)
        plane = min(self.planes, key=lambda q: real(end.gap(q)))
        # A secant slope suffices: each turn gains the digits that the slope has right.
        eps = width ** (1 / 2) if isinstance(width, float) else width
        slope = (self.flow(alpha + eps).gap(plane) - self.flow(alpha - eps).gap(plane)) / (2 * eps)
        for _ in range(6):
            alpha = alpha - self.flow(alpha).gap(plane) / slope
        return alpha

    def simulate(self, h, n_steps, width=1e-9):
        """Algorithm 2, corrected; returns the final body."""
        body = self
        for step in range(n_steps):
            remaining = h
            while True:
                end = body.flow(remaining)
                if end.least_gap() >= 0:
                    body = end
                    break
                alpha = body.impact_time(remaining, width)
                body = body.flow(alpha)
                remaining = remaining - alpha
                body.bounce(step * h + (h - remaining))
        return body

    def energy(self):
        omega = solve(self.J, self.Pi)
        potential = -self.mass * vdot(self.gravity, self.x)
        return (vdot(self.p, self.p) / self.mass + vdot(self.Pi, omega)) / 2 + potential


def ellipsoid_support(axes, sqrt):
    def support(d):
        stretched = [a * x for a, x in zip(axes, d, strict=True)]
        length = sqrt(vdot(stretched, stretched))
        return [a * s / length for a, s in zip(axes, stretched, strict=True)]

    return support


def sphere_support(radius):
    return lambda d: scaled(d, radius)


def paper_case(case="I", number=float, sqrt=math.sqrt, **changes):
    """Case I or II of Tran and Leok; `changes` replace z0, mass, gravity, axes, J, ..."""
    one = number(1)
    z0 = changes.get("z0", number(10))
    axes = changes.get("axes", [number(a) for a in (2, 3, 4)])
    mass = changes.get("mass", one)
    moments = changes.get("moments", [number(5), number(4), number(26) / 10])
    J = [[moments[i] if i == k else 0 * one for k in range(3)] for i in range(3)]
    normal, offset = changes.get("plane", ([0 * one, 0 * one, one], 0 * one))
    length = sqrt(vdot(normal, normal))
    gravity = changes.get("g", number(980665) / 100000)
    return Body(
        x=[0 * one, 0 * one, z0],
        R=[[one if i == k else 0 * one for k in range(3)] for i in range(3)],
        p=changes.get("p", [number(2), number(2), number(10)]),
        Pi=changes.get("Pi", [number(4), number(-4), number(4)]),
        mass=mass,
        J=J,
        support=ellipsoid_support(axes, sqrt),
        planes=[(scaled(normal, 1 / length), offset / length)],
        gravity=[0 * one, 0 * one, -gravity],
        restitution=changes.get("restitution", one),
    )
