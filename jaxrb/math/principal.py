"""Principal axes of inertia tensors, found once per body and world."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from .small import Diag3, InertiaTensor, Mat3
from .vec import Vec3, cross, dot

# Moments are taken for equal within so many units of round-off.
_EQUAL = 64


class PrincipalAxes(eqx.Module):
    """Moments and their axes."""

    moments: Vec3
    axes: Mat3 | None  # from the principal to the body frame, a rotation; None: they are the same

    @staticmethod
    def of(inertia: InertiaTensor) -> PrincipalAxes:
        """Those of tensors with components of shape (n_bodies,).

        By a tensor that is not diagonal and has equal moments, whose axes are any, they have no
        derivative: it is NaN.
        """
        if isinstance(inertia, Diag3):
            return PrincipalAxes(inertia.diagonal, None)
        moments, axes = _principal_axes(inertia.matrix())
        return PrincipalAxes(Vec3.of(moments), Mat3.of(axes))

    def to_principal(self, v: Vec3) -> Vec3:
        """From the body frame."""
        return v if self.axes is None else self.axes.transpose().matvec(v)

    def to_body(self, v: Vec3) -> Vec3:
        """From the principal frame."""
        return v if self.axes is None else self.axes.matvec(v)


@jax.custom_jvp
def _principal_axes(
    inertia: Float[Array, "n 3 3"],
) -> tuple[Float[Array, "n 3"], Float[Array, "n 3 3"]]:
    moments, axes = jnp.linalg.eigh(inertia)
    rows = Mat3.of(axes)
    left_handed = dot(rows.row1, cross(rows.row2, rows.row3)) < 0
    return moments, jnp.where(left_handed[:, None, None], -axes, axes)


@_principal_axes.defjvp
def _(primals, tangents):
    (inertia,), (change,) = primals, tangents
    moments, axes = _principal_axes(inertia)
    hi = jax.lax.Precision.HIGHEST
    inner = jnp.einsum("nji,njk,nkl->nil", axes, change, axes, precision=hi)
    apart = moments[:, None, :] - moments[:, :, None]
    round_off = _EQUAL * jnp.finfo(moments.dtype).eps
    equal = jnp.abs(apart) <= round_off * jnp.max(jnp.abs(moments), axis=1)[:, None, None]
    rate = jnp.where(equal, jnp.inf, 1 / jnp.where(equal, 1.0, apart))
    turn = inner * jnp.where(jnp.eye(3, dtype=bool)[None], 0.0, rate)
    dmoments = jnp.diagonal(inner, axis1=1, axis2=2)
    return (moments, axes), (dmoments, jnp.einsum("nij,njk->nik", axes, turn, precision=hi))
