"""The rate at which directors leave orthonormality, in schemes that advance them.

A body with directors R and their rates V has the momentum Y = R^T V E = S(Omega) E + S, where
E is the Euler tensor, Omega the angular velocity of its angular momentum J Omega, and S a
symmetric matrix: the stretch. The two parts are orthogonal in the kinetic energy, which is
(Omega.J Omega + tr(S E^{-1} S))/2. A rigid motion has S = 0. Betsch and Siebert, section 3.
"""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Float

from ..math import InertiaTensor, Sym3, Vec3, dot, solve3


def euler_tensor(inertia: InertiaTensor) -> Sym3:
    """E = tr(J)/2 - J, the second moment of the mass [kg m^2]; Betsch and Siebert, eq. (20)."""
    j = inertia.to_sym()
    half = j.trace() / 2
    d = j.diagonal
    return Sym3(Vec3(half - d.x, half - d.y, half - d.z), -j.off)


def stretch_energy(stretch: Sym3, inertia: InertiaTensor) -> Float[Array, " n_bodies"]:
    """tr(S E^{-1} S)/2 [J]."""
    rows, euler = stretch.rows(), euler_tensor(inertia).rows()
    columns = [solve3(euler, row) for row in (rows.row1, rows.row2, rows.row3)]
    squares = [
        dot(row, column)
        for row, column in zip((rows.row1, rows.row2, rows.row3), columns, strict=True)
    ]
    return (squares[0] + squares[1] + squares[2]) / 2


def to_array(stretch: Sym3) -> Float[Array, "n_bodies 6"]:
    """The entries in the order of `State.stretch`: xx, yy, zz, yz, xz, xy."""
    return jnp.concatenate([stretch.diagonal.array(), stretch.off.array()], axis=-1)


def of_array(array: Float[Array, "... 6"]) -> Sym3:
    """The matrix of the entries of `State.stretch`."""
    return Sym3(Vec3.of(array[..., :3]), Vec3.of(array[..., 3:]))
