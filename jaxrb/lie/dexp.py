"""The derivative of the exponential map of rotations, for `so3` and `quaternion` alike.

Along a curve of rotation vectors a(t), the world-frame angular velocity of exp(a) is
omega = J_l(a) a' and the body-frame one is Omega = J_r(a) a', with J_r = J_l^T = J_l(-a).
All have shape (..., 3, 3), are smooth at zero, and J_l, J_r lose rank at full turns.
"""

from jaxtyping import Array, Float

from ..math import Vec3, axial, dot, stumpff


def left_jacobian(a: Float[Array, "... 3"]) -> Float[Array, "... 3 3"]:
    """J_l with d/dt exp(a) = S(J_l a') exp(a): the world-frame (right-trivialised) one.

    Acary and Bonnefon's T(Omega), eqs. (124) and (173).
    """
    v = Vec3.of(a)
    x = dot(v, v)
    return axial(v, 1.0, stumpff(2, x), stumpff(3, x)).matrix()


def right_jacobian(a: Float[Array, "... 3"]) -> Float[Array, "... 3 3"]:
    """J_r with d/dt exp(a) = exp(a) S(J_r a'): the body-frame (left-trivialised) one.

    Geradin and Rixen's T(Psi), eq. (171).
    """
    v = Vec3.of(a)
    x = dot(v, v)
    return axial(v, 1.0, -stumpff(2, x), stumpff(3, x)).matrix()


def left_jacobian_inverse(a: Float[Array, "... 3"]) -> Float[Array, "... 3 3"]:
    """J_l^{-1}; grows without bound next to full turns other than zero."""
    v = Vec3.of(a)
    return axial(v, 1.0, -0.5, _square_of_inverse(v)).matrix()


def right_jacobian_inverse(a: Float[Array, "... 3"]) -> Float[Array, "... 3 3"]:
    """J_r^{-1}; grows without bound next to full turns other than zero."""
    v = Vec3.of(a)
    return axial(v, 1.0, 0.5, _square_of_inverse(v)).matrix()


def _square_of_inverse(v: Vec3) -> Float[Array, "..."]:
    """(1 - (t/2) cot(t/2))/t^2 for the angle t, written without cancellation."""
    x = dot(v, v) / 4
    return (stumpff(2, x) - stumpff(3, x)) / (4 * stumpff(1, x))
