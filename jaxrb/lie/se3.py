"""The group SE(3) of rigid motions: matrices [[R, p], [0, 1]] of shape (..., 4, 4).

A motion takes body points to world points, x = p + R X. Twists have shape (..., 6): the
linear part v [m/s, or m], then the angular part w [rad/s, or rad], in the order of a state's
velocity and angular velocity. In a body-frame twist v is the velocity of the body's origin in
body axes; `left` is the world frame and `right` the body frame.

By the principle of transference, series in ad are those of SO(3) for the dual vector w + e v
with e^2 = 0: the coupling block of each Jacobian is the derivative of the Jacobian of SO(3)
at w along v.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from .._help import publish
from ..math import Mat3, Vec3, cross, dot
from . import so3


def hat(twist: Float[Array, "... 6"]) -> Float[Array, "... 4 4"]:
    """The matrix [[S(w), v], [0, 0]]."""
    return _bordered(so3.hat(twist[..., 3:]), twist[..., :3], 0.0)


def vee(matrix: Float[Array, "... 4 4"]) -> Float[Array, "... 6"]:
    """The inverse of `hat`, of the skew part of the upper left block."""
    return jnp.concatenate([matrix[..., :3, 3], so3.vee(matrix[..., :3, :3])], axis=-1)


def exp(twist: Float[Array, "... 6"]) -> Float[Array, "... 4 4"]:
    """The motion by a constant twist during unit time; smooth at zero."""
    v, w = twist[..., :3], twist[..., 3:]
    return _bordered(so3.exp(w), _apply(so3.left_jacobian(w), v), 1.0)


def log(motion: Float[Array, "... 4 4"]) -> Float[Array, "... 6"]:
    """The twist whose `exp` is the motion, with an angular part of length at most pi."""
    w = so3.log(motion[..., :3, :3])
    v = _apply(so3.left_jacobian_inverse(w), motion[..., :3, 3])
    return jnp.concatenate([v, w], axis=-1)


def cayley(twist: Float[Array, "... 6"]) -> Float[Array, "... 4 4"]:
    """(I + hat(twist)) (I - hat(twist))^{-1}, whose rotation is `so3.cayley` of w."""
    v, w = Vec3.of(twist[..., :3]), Vec3.of(twist[..., 3:])
    # Geradin and Rixen, eq. (182): (1 + w.w) (I - S(w))^{-1} = I + S(w) + w w^T.
    position = (v + cross(w, v) + w * dot(w, v)) * (2 / (1 + dot(w, w)))
    return _bordered(so3.cayley(w.array()), position.array(), 1.0)


def cayley_inverse(motion: Float[Array, "... 4 4"]) -> Float[Array, "... 6"]:
    """The twist of `cayley`; not finite at half a turn, where there is none."""
    w = so3.cayley_inverse(motion[..., :3, :3])
    position = Vec3.of(motion[..., :3, 3])
    v = (position - cross(Vec3.of(w), position)) * 0.5
    return jnp.concatenate([v.array(), w], axis=-1)


def inverse(motion: Float[Array, "... 4 4"]) -> Float[Array, "... 4 4"]:
    """[[R^T, -R^T p], [0, 1]]."""
    back = Mat3.of(motion[..., :3, :3]).transpose()
    return _bordered(back.matrix(), -back.matvec(Vec3.of(motion[..., :3, 3])).array(), 1.0)


def multiply(
    first: Float[Array, "... 4 4"], second: Float[Array, "... 4 4"]
) -> Float[Array, "... 4 4"]:
    """The product `first` `second`, which moves a point by `second` and then by `first`."""
    rotation = Mat3.of(first[..., :3, :3])
    position = rotation.matvec(Vec3.of(second[..., :3, 3])) + Vec3.of(first[..., :3, 3])
    turned = rotation.matmul(Mat3.of(second[..., :3, :3]))
    return _bordered(turned.matrix(), position.array(), 1.0)


def Ad(motion: Float[Array, "... 4 4"]) -> Float[Array, "... 6 6"]:
    """[[R, S(p) R], [0, R]]: takes body-frame twists to world-frame ones."""
    rotation = motion[..., :3, :3]
    coupling = Mat3.of(so3.hat(motion[..., :3, 3])).matmul(Mat3.of(rotation)).matrix()
    return _dual(rotation, coupling)


def ad(twist: Float[Array, "... 6"]) -> Float[Array, "... 6 6"]:
    """[[S(w), S(v)], [0, S(w)]]: hat(ad(a) b) = hat(a) hat(b) - hat(b) hat(a)."""
    return _dual(so3.hat(twist[..., 3:]), so3.hat(twist[..., :3]))


def left_jacobian(twist: Float[Array, "... 6"]) -> Float[Array, "... 6 6"]:
    """J_l with d/dt exp(a) = hat(J_l a') exp(a): the world-frame twist of a changing `exp`."""
    return _transferred(so3.left_jacobian, twist)


def right_jacobian(twist: Float[Array, "... 6"]) -> Float[Array, "... 6 6"]:
    """J_r with d/dt exp(a) = exp(a) hat(J_r a'): the body-frame twist of a changing `exp`."""
    return _transferred(so3.right_jacobian, twist)


def left_jacobian_inverse(twist: Float[Array, "... 6"]) -> Float[Array, "... 6 6"]:
    """J_l^{-1}; grows without bound next to full turns other than zero."""
    return _transferred(so3.left_jacobian_inverse, twist)


def right_jacobian_inverse(twist: Float[Array, "... 6"]) -> Float[Array, "... 6 6"]:
    """J_r^{-1}; grows without bound next to full turns other than zero."""
    return _transferred(so3.right_jacobian_inverse, twist)


def retract(
    motion: Float[Array, "... 4 4"], step: Float[Array, "... 6"]
) -> Float[Array, "... 4 4"]:
    """motion exp(step), for a body-frame step."""
    return multiply(motion, exp(step))


def local(start: Float[Array, "... 4 4"], end: Float[Array, "... 4 4"]) -> Float[Array, "... 6"]:
    """The body-frame step with retract(start, step) = end."""
    return log(multiply(inverse(start), end))


def _transferred(function, twist: Float[Array, "... 6"]) -> Float[Array, "... 6 6"]:
    """The matrix of a function of SO(3) at the dual vector w + e v."""
    return _dual(*jax.jvp(function, (twist[..., 3:],), (twist[..., :3],)))


def _dual(diagonal, coupling) -> Float[Array, "... 6 6"]:
    """[[diagonal, coupling], [0, diagonal]]."""
    upper = jnp.concatenate([diagonal, coupling], axis=-1)
    lower = jnp.concatenate([jnp.zeros_like(diagonal), diagonal], axis=-1)
    return jnp.concatenate([upper, lower], axis=-2)


def _bordered(block, column, corner: float) -> Float[Array, "... 4 4"]:
    """[[block, column], [0, corner]]."""
    lead = jnp.broadcast_shapes(block.shape[:-2], column.shape[:-1])
    block = jnp.broadcast_to(block, (*lead, 3, 3))
    column = jnp.broadcast_to(column, (*lead, 3))
    last = jnp.broadcast_to(jnp.array([[0.0, 0.0, 0.0, corner]], block.dtype), (*lead, 1, 4))
    return jnp.concatenate([jnp.concatenate([block, column[..., None]], axis=-1), last], axis=-2)


def _apply(matrix, vector) -> Float[Array, "... 3"]:
    return Mat3.of(matrix).matvec(Vec3.of(vector)).array()


publish(__name__)
