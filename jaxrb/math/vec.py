"""Vectors and quaternions as pytrees of scalars.

Under `vmap` a product like `R @ v` on arrays of shape (3, 3) becomes a batched matrix
product that XLA cannot fuse; kept apart as (x, y, z), every operation is elementwise over
worlds, bodies and contacts, and a whole step fuses. The components of one object have
equal (or broadcastable) shapes: () for one vector, (n_bodies,) for one per body.
"""

from __future__ import annotations

from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from .safe import safe_sqrt

Scalar = Any  # Float[Array, "..."] or a Python float
Tree = TypeVar("Tree")


class Vec3(eqx.Module):
    """Three components x, y, z; `+`, `-`, and `*`, `/` by a scalar."""

    x: Scalar
    y: Scalar
    z: Scalar

    @staticmethod
    def of(array: Float[Array, "... 3"] | Vec3) -> Vec3:
        """Splits the last axis of an array of shape (..., 3); leaves a vector as it is."""
        if isinstance(array, Vec3):
            return array
        return Vec3(array[..., 0], array[..., 1], array[..., 2])

    def array(self) -> Float[Array, "... 3"]:
        """Joins the components into an array of shape (..., 3)."""
        return jnp.stack(jnp.broadcast_arrays(self.x, self.y, self.z), axis=-1)

    def __add__(self, other: Vec3) -> Vec3:
        return Vec3(self.x + other.x, self.y + other.y, self.z + other.z)

    def __sub__(self, other: Vec3) -> Vec3:
        return Vec3(self.x - other.x, self.y - other.y, self.z - other.z)

    def __neg__(self) -> Vec3:
        return Vec3(-self.x, -self.y, -self.z)

    def __mul__(self, scale: Scalar) -> Vec3:
        return Vec3(self.x * scale, self.y * scale, self.z * scale)

    __rmul__ = __mul__

    def __truediv__(self, scale: Scalar) -> Vec3:
        return Vec3(self.x / scale, self.y / scale, self.z / scale)


class Quat(eqx.Module):
    """A quaternion with scalar part w and vector part v; `*` is the Hamilton product."""

    w: Scalar
    v: Vec3

    @staticmethod
    def of(array: Float[Array, "... 4"]) -> Quat:
        """Splits the last axis of an array of shape (..., 4), scalar first."""
        return Quat(array[..., 0], Vec3.of(array[..., 1:]))

    def array(self) -> Float[Array, "... 4"]:
        """Joins the components into an array of shape (..., 4), scalar first."""
        parts = jnp.broadcast_arrays(self.w, self.v.x, self.v.y, self.v.z)
        return jnp.stack(parts, axis=-1)

    def conjugate(self) -> Quat:
        return Quat(self.w, -self.v)

    def __mul__(self, other: Quat) -> Quat:
        return Quat(
            self.w * other.w - dot(self.v, other.v),
            other.v * self.w + self.v * other.w + cross(self.v, other.v),
        )

    def __truediv__(self, scale: Scalar) -> Quat:
        return Quat(self.w / scale, self.v / scale)

    def norm_squared(self) -> Scalar:
        return self.w * self.w + dot(self.v, self.v)

    def normalized(self) -> Quat:
        """The unit quaternion along this one."""
        return self / jnp.sqrt(self.norm_squared())


def dot(a: Vec3, b: Vec3) -> Scalar:
    """a . b."""
    return a.x * b.x + a.y * b.y + a.z * b.z


def cross(a: Vec3, b: Vec3) -> Vec3:
    """a x b."""
    return Vec3(
        a.y * b.z - a.z * b.y,
        a.z * b.x - a.x * b.z,
        a.x * b.y - a.y * b.x,
    )


def hadamard(a: Vec3, b: Vec3) -> Vec3:
    """The componentwise product."""
    return Vec3(a.x * b.x, a.y * b.y, a.z * b.z)


def norm(a: Vec3) -> Scalar:
    """The Euclidean length, with derivative 0 at the zero vector."""
    return safe_sqrt(dot(a, a))


def direction(a: Vec3) -> tuple[Vec3, Scalar]:
    """The unit vector along a vector, and its length; of the zero vector the z axis."""
    length = norm(a)
    zero = length == 0
    unit = a / jnp.where(zero, 1.0, length)
    return Vec3(unit.x, unit.y, jnp.where(zero, 1.0, unit.z)), length


def rotate(q: Quat, a: Vec3) -> Vec3:
    """q a conj(q) for a unit quaternion q: from the body to the world."""
    t = cross(q.v, a) * 2.0
    return a + t * q.w + cross(q.v, t)


def rotate_inverse(q: Quat, a: Vec3) -> Vec3:
    """conj(q) a q for a unit quaternion q: from the world to the body."""
    t = cross(q.v, a) * 2.0
    return a - t * q.w + cross(q.v, t)


def zeros_like(tree: Tree) -> Tree:
    """Zero in place of every number, even where that is not finite."""
    return jax.tree.map(jnp.zeros_like, tree)


def tree_where(condition: Bool[Array, ...], a: Tree, b: Tree) -> Tree:
    """`a` where the condition holds, else `b`, leaf by leaf."""
    return jax.tree.map(lambda u, v: jnp.where(condition, u, v), a, b)
