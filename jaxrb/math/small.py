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

    def __sub__(self, other: Mat3) -> Mat3:
        return Mat3(self.row1 - other.row1, self.row2 - other.row2, self.row3 - other.row3)


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

    def plus_spin(self, f: Vec3) -> Mat3:
        """J + S(f) J, where S(f) a = f x a."""
        j = self.diagonal
        return Mat3(
            Vec3(j.x, -f.z * j.y, f.y * j.z),
            Vec3(f.z * j.x, j.y, -f.x * j.z),
            Vec3(-f.y * j.x, f.x * j.y, j.z),
        )

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
        """From the symmetric part of an array of shape (..., 3, 3)."""
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
        rows = self.rows()
        return Vec3(dot(rows.row1, a), dot(rows.row2, a), dot(rows.row3, a))

    def solve(self, b: Vec3) -> Vec3:
        """J^{-1} b."""
        return solve3(self.rows(), b)

    def plus_spin(self, f: Vec3) -> Mat3:
        """J + S(f) J, where S(f) a = f x a."""
        rows = self.rows()  # J is symmetric: its columns are its rows
        s1, s2, s3 = cross(f, rows.row1), cross(f, rows.row2), cross(f, rows.row3)
        return Mat3(
            rows.row1 + Vec3(s1.x, s2.x, s3.x),
            rows.row2 + Vec3(s1.y, s2.y, s3.y),
            rows.row3 + Vec3(s1.z, s2.z, s3.z),
        )

    def matrix(self) -> Float[Array, "... 3 3"]:
        """As an array of shape (..., 3, 3)."""
        rows = self.rows()
        return jnp.stack([rows.row1.array(), rows.row2.array(), rows.row3.array()], axis=-2)

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
