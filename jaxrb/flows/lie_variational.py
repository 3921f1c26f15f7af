"""The Lie group variational integrator of Tran and Leok, eq. (70).

The discrete Moser-Veselov equation (70c), S(h Pi) = F J_d - J_d F^T, is solved for the
Cayley vector f of F = Cay(S(f)), in which it is a quadratic equation without trigonometry:

    J f + f x J f = (1 + f.f) h Pi / 2,

and (1, f)/sqrt(1 + f.f) *is* the unit quaternion of F. The map is symmetric, symplectic and
of order 2; free flight keeps the spatial angular momentum and the energy exactly, because it
follows the exact trajectory of the rigid body at a slightly changed pace.
"""

from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..bodies import Inertial, Phase
from ..math import InertiaTensor, Mat3, Quat, Vec3, cross, dot, solve3
from ..math.tangents import keep_rule, sparse_jvp
from .base import AbstractFlow


class LieVariational(AbstractFlow):
    """Tran and Leok's discrete Hamiltonian map, eq. (70).

    Attributes:
        newton_iterations: on (70c). With the default the residual is at round-off for
            rotations of up to about 0.4 rad a step; beyond, the step reports failure (the
            remedy is a smaller dt or, up to about 1 rad, more iterations).
    """

    newton_iterations: int = eqx.field(default=2, static=True)

    def step(self, duration, phase: Phase, inertial: Inertial, gravity: Vec3):
        h, m = duration, inertial.mass
        x, q = phase.position, phase.orientation
        gamma, pi = phase.linear_momentum, phase.angular_momentum

        f = cayley_vector(pi * h, inertial.inertia, self.newton_iterations)
        n = 1 + dot(f, f)
        q_turned = q * Quat(jnp.ones_like(n), f)
        following = Phase(
            # (70a). Adding the constant g h^2/2 to x by itself would round the same way at
            # every step, and the energy would drift with time.
            position=x + (gamma / m + gravity * (0.5 * h)) * h,
            # (70e), q (1, f)/sqrt(1 + f.f). Divided by its own length, which is the same but for
            # round-off, it does not drift from unit length.
            orientation=q_turned / jnp.sqrt(q_turned.norm_squared()),
            linear_momentum=gamma + gravity * (m * h),  # (70b)
            angular_momentum=pi + cross(f, cross(f, pi) - pi) * 2 / n,  # (70d), F^T Pi
        )
        return following, _error(f, pi * h, inertial.inertia)


@partial(jax.custom_jvp, nondiff_argnums=(2,))
def cayley_vector(g: Vec3, inertia: InertiaTensor, newton_iterations: int) -> Vec3:
    """The root f of J f + f x J f = (1 + f.f) g/2, near J^{-1} g/2.

    Newton's method, after two sweeps of the cheap iteration f = J^{-1} ((1 + f.f) g/2 +
    J f x f), each of which gains one order in g. As the equation is quadratic, its Newton
    step f - A^{-1} r(f) is A^{-1} (f x J f + (1 - f.f) g/2). The derivative is that of the
    implicit function.
    """
    f = inertia.solve(g * 0.5)
    for _ in range(2):
        f = inertia.solve(g * (0.5 * (1 + dot(f, f))) + cross(inertia.matvec(f), f))
    for _ in range(newton_iterations):
        jf = inertia.matvec(f)
        f = solve3(_jacobian(f, g, inertia), cross(f, jf) + g * (0.5 * (1 - dot(f, f))))
    return f


@partial(cayley_vector.defjvp, symbolic_zeros=True)
def _(newton_iterations, primals, tangents):
    g, inertia = primals
    f = keep_rule(lambda g, inertia: cayley_vector(g, inertia, newton_iterations))(g, inertia)
    _, change = sparse_jvp(partial(_residual, f), primals, tangents)
    return f, -solve3(_jacobian(f, g, inertia), change)


def _residual(f: Vec3, g: Vec3, inertia: InertiaTensor) -> Vec3:
    jf = inertia.matvec(f)
    return jf + cross(f, jf) - g * (0.5 * (1 + dot(f, f)))


def _jacobian(f: Vec3, g: Vec3, inertia: InertiaTensor) -> Mat3:
    """J + S(f) J - S(J f) - g f^T."""
    jf = inertia.matvec(f)
    skew_plus_outer = Mat3(
        Vec3(g.x * f.x, g.x * f.y - jf.z, g.x * f.z + jf.y),
        Vec3(g.y * f.x + jf.z, g.y * f.y, g.y * f.z - jf.x),
        Vec3(g.z * f.x - jf.y, g.z * f.y + jf.x, g.z * f.z),
    )
    return inertia.plus_spin(f) - skew_plus_outer


def _error(f: Vec3, g: Vec3, inertia: InertiaTensor) -> Float[Array, ""]:
    """The residual relative to the one allowed, a multiple of round-off (squared)."""
    residual = _residual(f, g, inertia)
    allowed = 128 * jnp.finfo(residual.x.dtype).eps
    size = dot(g, g)
    relative = dot(residual, residual) / jnp.where(size > 0, size, 1.0)
    return jnp.max(relative) / allowed**2
