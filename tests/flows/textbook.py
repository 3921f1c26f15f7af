"""The conserving schemes as their papers print them, in dense NumPy matrices and all unknowns.

Independent of the library, which solves three equations for each: here Newton's rule, with
derivatives by complex steps, solves the 9, 5, 15, 3 and 9 equations of the sources. A body of
inertia J about a fixed point moves in the potential V = -lever . R^T g, of which the schemes
need what they print: gradients in their own coordinates.
"""

import numpy as np


def newton(residual, x):
    """The root near x."""
    for _ in range(50):
        columns = [residual(x + 1e-30j * e).imag / 1e-30 for e in np.eye(x.size)]
        change = np.linalg.solve(np.stack(columns, axis=1), residual(x))
        x = x - change
        # Convergence is quadratic: the step after this one would be round-off.
        if np.abs(change).max() <= 1e-9 * np.abs(x).max():
            return x
    raise AssertionError("no convergence")


def hat(w):
    return np.array([[0, -w[2], w[1]], [w[2], 0, -w[0]], [-w[1], w[0], 0]])


def axial(a):
    return np.array([a[2, 1] - a[1, 2], a[0, 2] - a[2, 0], a[1, 0] - a[0, 1]]) / 2


def left(q):
    """Q_l of Betsch and Siebert, eq. (9)."""
    a = np.zeros((4, 4), np.asarray(q).dtype)
    a[0, 0], a[0, 1:], a[1:, 0] = q[0], -q[1:], q[1:]
    a[1:, 1:] = q[0] * np.eye(3) + hat(q[1:])
    return a


def gee(q):
    """G(q) of eq. (10): the lower rows of Q_l^T."""
    return left(q).T[1:]


def matrix(q):
    """R(q) of eq. (8), a quadratic form also where q is not of unit length."""
    v = q[1:]
    return (q[0] ** 2 - v @ v) * np.eye(3) + 2 * np.outer(v, v) + 2 * q[0] * hat(v)


def gradient(function, x):
    """Of a scalar polynomial of degree two: central differences are exact."""
    return np.array([(function(x + e) - function(x - e)) / 2 for e in np.eye(x.size)])


class Top:
    """Inertia about the point, mass times the arm from it (body), gravity (world)."""

    def __init__(self, inertia, lever=(0, 0, 0), gravity=(0, 0, 0)):
        self.inertia = np.diag(np.asarray(inertia, float))
        self.lever, self.gravity = np.array(lever, float), np.array(gravity, float)

    def potential(self, q):
        return -self.gravity @ matrix(q) @ self.lever


def quaternion_energy_momentum(top, h, n, q, omega):
    """Eq. (51) for q', p' and the multiplier."""
    j4 = np.zeros((4, 4))
    j4[0, 0], j4[1:, 1:] = np.trace(top.inertia) / 2, top.inertia
    inverse = np.linalg.inv(j4)
    p = left(q) @ np.concatenate([[0], 2 * top.inertia @ omega])
    for _ in range(n):

        def residual(z, q=q, p=p):
            q1, p1, multiplier = z[:4], z[4:8], z[8]
            qm, pm = (q + q1) / 2, (p + p1) / 2
            pi = inverse @ (left(q).T @ p + left(q1).T @ p1)
            other = np.column_stack([pm, -gee(pm).T])
            force = gradient(top.potential, qm) + multiplier * qm
            return np.concatenate(
                [
                    q1 - q - h / 8 * left(qm) @ pi,
                    p1 - p + h / 8 * other @ pi + h * force,
                    [(q1 @ q1 - 1) / 2],
                ]
            )

        z = newton(residual, np.concatenate([q, p, [0.0]]))
        q, p = z[:4], z[4:8]
    return matrix(q), np.linalg.solve(top.inertia, gee(q) @ p / 2)


def quaternion_variational(top, h, n, q, omega):
    """Eq. (E1), started from the momentum; the momentum J^- at the end."""

    def mass(q):
        return 4 * gee(q).T @ top.inertia @ gee(q)

    def d1(q, q1):
        return mass(q1) @ q / h - h / 2 * gradient(top.potential, (q + q1) / 2)

    def d2(q, q1):
        return mass(q) @ q1 / h - h / 2 * gradient(top.potential, (q + q1) / 2)

    before = None
    momentum = left(q) @ np.concatenate([[0], 2 * top.inertia @ omega])
    for _ in range(n):
        arriving = momentum if before is None else d2(before, q)

        def residual(z, q=q, arriving=arriving):
            q1, multiplier = z[:4], z[4]
            return np.concatenate([arriving + d1(q, q1) - h * multiplier * q, [q1 @ q1 - 1]])

        guess = q + h / 2 * left(q) @ np.concatenate([[0], omega])
        if before is not None:
            guess = 2 * q - before
        z = newton(residual, np.concatenate([guess / np.linalg.norm(guess), [0.0]]))
        before, q = q, z[:4]
    return matrix(q), np.linalg.solve(top.inertia, gee(q) @ d2(before, q) / 2)


def director_energy_momentum(top, h, n, q, omega):
    """The midpoint rule for nine coordinates with the six constraints (17) at the end."""
    euler = np.trace(top.inertia) / 2 * np.eye(3) - top.inertia
    mass = np.kron(euler, np.eye(3))  # directors one after the other, eq. (19)
    force = np.kron(top.lever, top.gravity)
    pairs = [(0, 0), (1, 1), (2, 2), (0, 1), (0, 2), (1, 2)]

    def constraints(d):
        d = d.reshape(3, 3)
        return np.array([(d[a] @ d[b] - (a == b)) / (1 + (a == b)) for a, b in pairs])

    def jacobian(d):
        d = d.reshape(3, 3)
        rows = np.zeros((6, 3, 3), d.dtype)
        for row, (a, b) in zip(rows, pairs, strict=True):
            row[a], row[b] = d[b], d[a]
        return rows.reshape(6, 9)

    d = matrix(q).T.reshape(9)
    v = (matrix(q) @ hat(omega)).T.reshape(9)
    for _ in range(n):

        def residual(z, d=d, v=v):
            d1, multipliers = z[:9], z[9:]
            v1 = 2 / h * (d1 - d) - v
            pulled = jacobian((d + d1) / 2).T @ multipliers
            return np.concatenate([mass @ (v1 - v) - h * force + h * pulled, constraints(d1)])

        z = newton(residual, np.concatenate([d + h * v, np.zeros(6)]))
        v, d = 2 / h * (z[:9] - d) - v, z[:9]
    rotation = d.reshape(3, 3).T
    momenta = (mass @ v).reshape(3, 3)
    spatial = sum(np.cross(d.reshape(3, 3)[a], momenta[a]) for a in range(3))
    energy = v @ mass @ v / 2 - force @ d
    return rotation, np.linalg.solve(top.inertia, rotation.T @ spatial), energy


def rotation(w):
    """Rodrigues' formula."""
    t = np.sqrt(w @ w)
    return np.eye(3) + np.sin(t) / t * hat(w) + (1 - np.cos(t)) / t**2 * hat(w) @ hat(w)


def simo_wong(top, h, n, q, omega):
    """ALGO.C1, the moment taken at R exp(Theta/2)."""
    r = matrix(q)
    for _ in range(n):

        def residual(w1, r=r, omega=omega):
            theta = h / 2 * (omega + w1)
            r1, middle = r @ rotation(theta), r @ rotation(theta / 2)
            moment = np.cross(middle @ top.lever, top.gravity)
            return r1 @ top.inertia @ w1 - r @ top.inertia @ omega - h * moment

        w1 = newton(residual, omega)
        r, omega = r @ rotation(h / 2 * (omega + w1)), w1
    return r, omega


def energy_midpoint(inertia, mass, arm, gravity, h, n, q, omega, printed):
    """Geradin and Rixen's residual (341) for x', e and lambda, and their update of step (iv).

    `inertia` is about the centre of mass. With `printed`, the mean of the momenta is that of
    eq. (310), else the mean of the angular velocities that of eq. (326). Returns rotation,
    angular velocity, position, velocity and the multiplier of the last step.
    """
    inertia, arm, gravity = np.diag(inertia), np.array(arm, float), np.array(gravity, float)
    r = matrix(q)
    x, v = r @ arm, r @ np.cross(omega, arm)

    def half(e):  # (324)
        e0 = np.sqrt(1 - e @ e)
        return e0 * np.eye(3) + np.outer(e, e) / (1 + e0) + hat(e)

    for _ in range(n):
        momentum = r @ inertia @ omega

        def following(e, r=r, omega=omega, momentum=momentum):
            if printed:
                return 4 / h * r @ half(e) @ inertia @ e - momentum
            return r @ half(e) @ half(e) @ inertia @ (4 / h * e - omega)

        def residual(z, r=r, x=x, v=v, momentum=momentum, following=following):
            x1, e, force = z[:3], z[3:6], z[6:]
            middle = r @ half(e)
            return np.concatenate(
                [
                    force + mass * gravity + 2 / h * mass * v - 2 * mass / h**2 * (x1 - x),
                    following(e) - momentum + h * np.cross(middle @ arm, force),
                    x1 - x + 2 * middle @ hat(arm) @ e,
                ]
            )

        z = newton(residual, np.concatenate([x + h * v, h / 2 * omega, -mass * gravity]))
        x1, e, force = z[:3], z[3:6], z[6:]
        if printed:
            last = r @ half(e) @ half(e)
            omega = np.linalg.solve(inertia, last.T @ following(e))
        else:
            omega = 4 / h * e - omega
        r, v, x = r @ half(e) @ half(e), 2 / h * (x1 - x) - v, x1
    return r, omega, x, v, force
