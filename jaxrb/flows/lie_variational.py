"""The Lie group variational integrator of Tran and Leok, eq. (70).

The discrete Moser-Veselov equation (70c), S(h Pi) = F J_d - J_d F^T, is solved for the
Cayley vector f of F = Cay(S(f)), for which (1, f)/sqrt(1 + f.f) *is* the unit quaternion of
F. It then reads J f + f x J f = (1 + f.f) k with k = h Pi/2. Multiplied by the inverse of
1 + S(f), which is (1 - S(f) + f f^T)/(1 + f.f), it becomes

    J f = k + k x f + s f,    s = k.f,

which is linear in f once s is known: f = (J - s - S(k))^{-1} k. Cramer's rule, put into
s = k.f, leaves one quartic equation for s, and the step needs neither trigonometry nor a
linear solve. The map is symmetric, symplectic and of order 2; free flight keeps the spatial
angular momentum and the energy exactly, because it follows the exact trajectory of the rigid
body at a slightly changed pace.
"""

from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp

from ..bodies import Phase
from ..math import InertiaTensor, Mat3, Quat, Vec3, cross, dot, solve3
from ..math.autodiff import keep_rule, sparse_jvp
from ..math.newton import relative_error
from .base import AbstractFlow, steep_growth
from .rigid_rotation import ballistic, following_orientation


class LieVariational(AbstractFlow):
    """Tran and Leok's discrete Hamiltonian map, eq. (70), of free bodies.

    Attributes:
        iterations: of Halley's rule for (70c). With the default its residual is at round-off
            for rotations of up to about 0.4 rad a step (0.3 rad for thin rods); beyond, the
            step is taken in parts. One more iteration serves up to about 0.8 rad.
    """

    has_pins = False
    iterations: int = eqx.field(default=2, static=True)

    def bend_growth(self, angle):
        return steep_growth(angle, 1.0)

    def drift(self, duration, phase, inertial, gravity):
        h, q, pi = duration, phase.orientation, phase.angular_momentum

        k = pi * (0.5 * h)
        f = cayley_vector(k, inertial.inertia, self.iterations)
        n = 1 + dot(f, f)
        position, linear_momentum = ballistic(h, phase, inertial, gravity)
        following = Phase(
            position=position,  # (70a)
            # (70e), q (1, f)/sqrt(1 + f.f)
            orientation=following_orientation(q, Quat(jnp.ones_like(n), f)),
            linear_momentum=linear_momentum,  # (70b)
            angular_momentum=pi + cross(f, cross(f, pi) - pi) * 2 / n,  # (70d), F^T Pi
        )
        residual = _residual(f, k, inertial.inertia)
        return following, relative_error(residual, dot(k, k))


@partial(jax.custom_jvp, nondiff_argnums=(2,))
def cayley_vector(k: Vec3, inertia: InertiaTensor, iterations: int) -> Vec3:
    """The root f of J f + f x J f = (1 + f.f) k near J^{-1} k.

    With t, c, d the coefficients of det(J - s) = d - c s + t s^2 - s^3 and C = adj J,

        adj(J - s - S(k)) k = C k + s J k + (s^2 - t s + k.k) k + J k x k,
        det(J - s - S(k)) = det(J - s) + k.(J - s) k,

    so that s = k.f is the least root of

        s^4 - t s^3 + (c + 2 k.k) s^2 - (d + t k.k) s + k.C k + (k.k)^2 = 0,

    found by Halley's rule from its value k.J^{-1} k for slow turns. The derivative of f is
    that of the implicit function.
    """
    # In units of the trace, so that no product of small inertias leaves the range of floats.
    unit = inertia.trace()
    j, k = inertia / unit, k / unit
    adjugate = j.adjugate()
    t, c, d = j.trace(), adjugate.trace(), j.determinant()
    jk, ck, kk = j.matvec(k), adjugate.matvec(k), dot(k, k)
    c0, c1, c2 = dot(k, ck) + kk * kk, d + t * kk, c + 2 * kk

    s = dot(k, ck) / d
    for _ in range(iterations):
        p = (((s - t) * s + c2) * s - c1) * s + c0
        dp = ((4 * s - 3 * t) * s + 2 * c2) * s - c1
        half_ddp = (6 * s - 3 * t) * s + c2
        s = s - p * dp / (dp * dp - p * half_ddp)

    numerator = ck + jk * s + k * ((s - t) * s + kk) + cross(jk, k)
    return numerator / (((t - s) * s - c - kk) * s + d + dot(k, jk))


@partial(cayley_vector.defjvp, symbolic_zeros=True)
def _(iterations, primals, tangents):
    k, inertia = primals
    f = keep_rule(lambda k, inertia: cayley_vector(k, inertia, iterations))(k, inertia)
    _, change = sparse_jvp(partial(_residual, f), primals, tangents)
    return f, -solve3(_jacobian(f, k, inertia), change)


def _residual(f: Vec3, k: Vec3, inertia: InertiaTensor) -> Vec3:
    """J f - k - k x f - (k.f) f."""
    return inertia.matvec(f) - k - cross(k, f) - f * dot(k, f)


def _jacobian(f: Vec3, k: Vec3, inertia: InertiaTensor) -> Mat3:
    """The Jacobian of the residual, J - k.f - S(k) - f k^T."""
    s = dot(k, f)
    j = inertia.rows()
    return Mat3(
        Vec3(j.row1.x - s - f.x * k.x, j.row1.y + k.z - f.x * k.y, j.row1.z - k.y - f.x * k.z),
        Vec3(j.row2.x - k.z - f.y * k.x, j.row2.y - s - f.y * k.y, j.row2.z + k.x - f.y * k.z),
        Vec3(j.row3.x + k.y - f.z * k.x, j.row3.y - k.x - f.z * k.y, j.row3.z - s - f.z * k.z),
    )
