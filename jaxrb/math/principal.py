"""Principal axes of inertia tensors, found once per body and world."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from .autodiff import keep_rule
from .small import Diag3, InertiaTensor, Mat3, Sym3, symmetric_part
from .vec import Vec3, cross, dot

# Moments are taken for equal within so many units of round-off.
_EQUAL = 64


class PrincipalAxes(eqx.Module):
    """Moments and their axes."""

    moments: Vec3
    axes: Mat3 | None  # from the principal to the body frame, a rotation; None: they are the same

    @staticmethod
    def of(inertia: InertiaTensor) -> PrincipalAxes:
        """Those of tensors with components of shape (n_bodies,); of tensors that are not diagonal
        without derivatives, which `following` gives them."""
        if isinstance(inertia, Diag3):
            return PrincipalAxes(inertia.diagonal, None)
        moments, axes = jnp.linalg.eigh(jax.lax.stop_gradient(inertia.matrix()))
        rows = Mat3.of(axes)
        left_handed = dot(rows.row1, cross(rows.row2, rows.row3)) < 0
        axes = jnp.where(left_handed[:, None, None], -axes, axes)
        return PrincipalAxes(Vec3.of(moments), Mat3.of(axes))

    def following(self, inertia: Sym3) -> PrincipalAxes:
        """With the derivatives by the tensor whose axes they are. Where two moments are equal their
        axes are any and have none: it is NaN."""
        assert self.axes is not None
        own = self.moments.array(), self.axes.matrix()
        moments, axes = _following(own, inertia.matrix())
        return PrincipalAxes(Vec3.of(moments), Mat3.of(axes))

    def of_tensor(self, tensor: Sym3) -> Sym3:
        """A tensor, given along the axes of the body, along the principal ones."""
        assert self.axes is not None
        back = self.axes.transpose()
        return symmetric_part(back.matmul(tensor.rows()).matmul(self.axes))

    def to_principal(self, v: Vec3) -> Vec3:
        """From the body frame."""
        return v if self.axes is None else self.axes.transpose().matvec(v)

    def to_body(self, v: Vec3) -> Vec3:
        """From the principal frame."""
        return v if self.axes is None else self.axes.matvec(v)


@jax.custom_jvp
def _following(
    axes: tuple[Float[Array, "n 3"], Float[Array, "n 3 3"]], inertia: Float[Array, "n 3 3"]
) -> tuple[Float[Array, "n 3"], Float[Array, "n 3 3"]]:
    return axes


@_following.defjvp
def _(primals, tangents):
    moments, axes = keep_rule(_following)(*primals)
    change = tangents[1]
    hi = jax.lax.Precision.HIGHEST
    inner = jnp.einsum("nji,njk,nkl->nil", axes, change, axes, precision=hi)
    apart = moments[:, None, :] - moments[:, :, None]
    round_off = _EQUAL * jnp.finfo(moments.dtype).eps
    equal = jnp.abs(apart) <= round_off * jnp.max(jnp.abs(moments), axis=1)[:, None, None]
    rate = jnp.where(equal, jnp.nan, 1 / jnp.where(equal, 1.0, apart))
    turn = inner * jnp.where(jnp.eye(3, dtype=bool)[None], 0.0, rate)
    dmoments = jnp.diagonal(inner, axis1=1, axis2=2)
    return (moments, axes), (dmoments, jnp.einsum("nij,njk->nik", axes, turn, precision=hi))
