"""Matrices of size 3 in component form, and the inertia tensors built on them."""

from __future__ import annotations

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from .vec import Scalar, Vec3, cross, dot, hadamard


class Mat3(eqx.Module):
    """A 3 x 3 matrix by its rows."""

    row1: Vec3
    row2: Vec3
    row3: Vec3

    @staticmethod
    def of(array: Float[Array, "... 3 3"]) -> Mat3:
        """The matrix of an array of shape (..., 3, 3)."""
        return Mat3(*(Vec3.of(array[..., i, :]) for i in range(3)))

    def matrix(self) -> Float[Array, "... 3 3"]:
        """As an array of shape (..., 3, 3)."""
        return jnp.stack([self.row1.array(), self.row2.array(), self.row3.array()], axis=-2)

    def __add__(self, other: Mat3) -> Mat3:
        return Mat3(self.row1 + other.row1, self.row2 + other.row2, self.row3 + other.row3)

    def __sub__(self, other: Mat3) -> Mat3:
        return Mat3(self.row1 - other.row1, self.row2 - other.row2, self.row3 - other.row3)

    def trace(self) -> Scalar:
        return self.row1.x + self.row2.y + self.row3.z

    def transpose(self) -> Mat3:
        a, b, c = self.row1, self.row2, self.row3
        return Mat3(Vec3(a.x, b.x, c.x), Vec3(a.y, b.y, c.y), Vec3(a.z, b.z, c.z))

    def matvec(self, a: Vec3) -> Vec3:
        """The matrix times a column."""
        return Vec3(dot(self.row1, a), dot(self.row2, a), dot(self.row3, a))

    def matmul(self, other: Mat3) -> Mat3:
        """The matrix times `other`."""
        columns = other.transpose()
        return Mat3(*(columns.matvec(row) for row in (self.row1, self.row2, self.row3)))


def symmetric_part(a: Mat3) -> Sym3:
    """(A + A^T)/2."""
    off = Vec3(a.row2.z + a.row3.y, a.row1.z + a.row3.x, a.row1.y + a.row2.x)
    return Sym3(Vec3(a.row1.x, a.row2.y, a.row3.z), off * 0.5)


def axial(a: Vec3, unit: Scalar, spin: Scalar, square: Scalar) -> Mat3:
    """unit I + spin S(a) + square S(a)^2, with S(a) b = a x b.

    Rotations about `a`, their tangent operators and the inverses of these all have this form.
    """
    x, y, z = a.x * square, a.y * square, a.z * square
    u, v, w = a.x * spin, a.y * spin, a.z * spin
    return Mat3(
        Vec3(unit - (y * a.y + z * a.z), x * a.y - w, x * a.z + v),
        Vec3(x * a.y + w, unit - (x * a.x + z * a.z), y * a.z - u),
        Vec3(x * a.z - v, y * a.z + u, unit - (x * a.x + y * a.y)),
    )


def solve3(a: Mat3, b: Vec3) -> Vec3:
    """Solves a x = b by cross products (Cramer's rule).

    The quotient is taken last, component by component: XLA on CPU never duplicates a
    division into the kernels that use its result, so a division ends a fused kernel where
    a product by 1 / det would be computed again by every consumer.
    """
    c1, c2, c3 = cross(a.row2, a.row3), cross(a.row3, a.row1), cross(a.row1, a.row2)
    return (c1 * b.x + c2 * b.y + c3 * b.z) / dot(a.row1, c1)


class Diag3(eqx.Module):
    """An inertia tensor in principal axes: J = diag(diagonal)."""

    diagonal: Vec3

    def matvec(self, a: Vec3) -> Vec3:
        """J a."""
        return hadamard(self.diagonal, a)

    def solve(self, b: Vec3) -> Vec3:
        """J^{-1} b."""
        j = self.diagonal
        return Vec3(b.x / j.x, b.y / j.y, b.z / j.z)

    def __truediv__(self, scale: Scalar) -> Diag3:
        return Diag3(self.diagonal / scale)

    def trace(self) -> Scalar:
        return self.diagonal.x + self.diagonal.y + self.diagonal.z

    def determinant(self) -> Scalar:
        return self.diagonal.x * self.diagonal.y * self.diagonal.z

    def adjugate(self) -> Diag3:
        """det(J) J^{-1}."""
        j = self.diagonal
        return Diag3(Vec3(j.y * j.z, j.z * j.x, j.x * j.y))

    def rows(self) -> Mat3:
        j, zero = self.diagonal, jnp.zeros_like(self.diagonal.x)
        return Mat3(Vec3(j.x, zero, zero), Vec3(zero, j.y, zero), Vec3(zero, zero, j.z))

    def matrix(self) -> Float[Array, "... 3 3"]:
        """As an array of shape (..., 3, 3)."""
        return self.to_sym().matrix()

    def to_sym(self) -> Sym3:
        zero = jnp.zeros_like(self.diagonal.x)
        return Sym3(self.diagonal, Vec3(zero, zero, zero))


class Sym3(eqx.Module):
    """A symmetric inertia tensor: `diagonal` (xx, yy, zz) and `off` (yz, xz, xy)."""

    diagonal: Vec3
    off: Vec3

    @staticmethod
    def of(array: Float[Array, "... 3 3"]) -> Sym3:
        """The symmetric part of an array of shape (..., 3, 3)."""
        return Sym3(
            Vec3(array[..., 0, 0], array[..., 1, 1], array[..., 2, 2]),
            Vec3(
                (array[..., 1, 2] + array[..., 2, 1]) / 2,
                (array[..., 0, 2] + array[..., 2, 0]) / 2,
                (array[..., 0, 1] + array[..., 1, 0]) / 2,
            ),
        )

    def rows(self) -> Mat3:
        d, o = self.diagonal, self.off
        return Mat3(Vec3(d.x, o.z, o.y), Vec3(o.z, d.y, o.x), Vec3(o.y, o.x, d.z))

    def matvec(self, a: Vec3) -> Vec3:
        """J a."""
        return self.rows().matvec(a)

    def solve(self, b: Vec3) -> Vec3:
        """J^{-1} b."""
        return solve3(self.rows(), b)

    def __truediv__(self, scale: Scalar) -> Sym3:
        return Sym3(self.diagonal / scale, self.off / scale)

    def trace(self) -> Scalar:
        return self.diagonal.x + self.diagonal.y + self.diagonal.z

    def determinant(self) -> Scalar:
        rows = self.rows()
        return dot(rows.row1, cross(rows.row2, rows.row3))

    def adjugate(self) -> Sym3:
        """det(J) J^{-1}."""
        d, o = self.diagonal, self.off
        return Sym3(
            Vec3(d.y * d.z - o.x * o.x, d.z * d.x - o.y * o.y, d.x * d.y - o.z * o.z),
            Vec3(o.y * o.z - o.x * d.x, o.z * o.x - o.y * d.y, o.x * o.y - o.z * d.z),
        )

    def matrix(self) -> Float[Array, "... 3 3"]:
        """As an array of shape (..., 3, 3)."""
        return self.rows().matrix()

    def to_sym(self) -> Sym3:
        return self


InertiaTensor = Diag3 | Sym3


def stack_inertia(tensors: list[InertiaTensor]) -> InertiaTensor:
    """One tensor whose components have a leading axis over `tensors`.

    Stays diagonal, and so cheaper, when every tensor is.
    """
    if not all(isinstance(t, Diag3) for t in tensors):
        tensors = [t.to_sym() for t in tensors]

    def stack(vectors: list[Vec3]) -> Vec3:
        def join(component: str) -> Scalar:
            return jnp.stack([getattr(v, component) for v in vectors])

        return Vec3(join("x"), join("y"), join("z"))

    diagonal = stack([t.diagonal for t in tensors])
    offs = [t.off for t in tensors if isinstance(t, Sym3)]
    return Sym3(diagonal, stack(offs)) if offs else Diag3(diagonal)
