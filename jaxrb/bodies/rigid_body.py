"""A rigid body: a shape with a mass and an inertia tensor."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from .._text import readable
from .._validate import known, real_array, require, require_positive
from ..math import Diag3, InertiaTensor, Sym3, Vec3
from ..math.alike import alike, stacked_results
from ..shapes import AbstractSolid, Placed

# By how much of the sum of the other two a principal moment may exceed it. No solid does, but
# measured and published inertias do: Geradin and Rixen's top by exactly an eighth. The equations
# of motion do not mind.
EXCESS = 1 / 8


class RigidBody(eqx.Module):
    """A rigid body whose body frame has its origin at the centre of mass.

    A shape whose own origin is not the centre of mass, such as a cone, is moved there: the
    position of the body is that of its centre of mass. Its axes stay.

    Attributes:
        shape: the solid, in its own frame.
        mass: [kg], positive.
        inertia: about the centre of mass in the body frame [kg m^2]: principal moments,
            shape (3,), or the full tensor, shape (3, 3). None means uniform density; then
            it follows from the shape and the mass, and so do its derivatives. If it is
            given, the origin of the shape is taken as the centre of mass.

    Raises:
        ValueError: if the mass is not positive, or the tensor is not symmetric, positive
            definite and possible for a solid (each principal moment at most the sum of
            the other two). One that exceeds it by up to an eighth is accepted with a warning.
    """

    shape: AbstractSolid
    mass: Float[Array, ""]
    inertia: Float[Array, "3"] | Float[Array, "3 3"] | None

    def __init__(self, shape: AbstractSolid, mass=1.0, inertia=None):
        if not isinstance(shape, AbstractSolid):
            raise ValueError(f"RigidBody.shape must be a bounded shape; got {shape!r}.")
        self.shape = shape
        self.mass = real_array(mass, "RigidBody.mass", ())
        require_positive(self.mass, "RigidBody.mass")
        if inertia is None:
            self.inertia = None
            shape.mass_properties(mass=self.mass)  # says now if it has no closed form
            return
        self.inertia = real_array(inertia, "RigidBody.inertia")
        if self.inertia.shape not in ((3,), (3, 3)):
            raise ValueError(
                f"RigidBody.inertia must have shape (3,) or (3, 3); got {self.inertia.shape}."
            )
        require(self.inertia, "RigidBody.inertia", np.isfinite, "finite")
        _check_inertia(self.inertia)

    def __repr__(self) -> str:
        return readable(self)

    def centered(self) -> RigidBody:
        """The same body with its inertia given, and its shape in the body frame.

        What uses both asks this once: a quadrature of the shape may be behind it.
        """
        if self.inertia is not None:
            return self
        found = self.shape.mass_properties(mass=self.mass)
        shape = self.shape
        if not shape.is_centered:
            center = found.center_of_mass
            # Not turned, in the precision of the shape.
            shape = Placed(shape, -center, jnp.asarray([1.0, 0.0, 0.0, 0.0], center.dtype))
        return eqx.tree_at(
            lambda body: (body.shape, body.inertia),
            self,
            (shape, found.inertia),
            is_leaf=lambda leaf: leaf is None,
        )

    def centered_shape(self) -> AbstractSolid:
        """The solid in the body frame."""
        return self.centered().shape

    def inertia_matrix(self) -> Float[Array, "3 3"]:
        """The inertia tensor about the centre of mass, body frame [kg m^2], shape (3, 3)."""
        return self.inertia_tensor().matrix()

    def principal_moments(self) -> Float[Array, "3"]:
        """The moments of inertia about the principal axes through the centre of mass [kg m^2],
        ascending, shape (3,)."""
        inertia = self.centered().inertia
        assert inertia is not None
        # Moments that are given are not sent through an eigenvalue problem, and keep all digits.
        return jnp.sort(inertia) if inertia.ndim == 1 else jnp.linalg.eigvalsh(inertia)

    def volume(self) -> Float[Array, ""]:
        """The volume of the shape [m^3].

        Raises:
            ValueError: as `mass_properties` of the shape, if it cannot be found.
        """
        return self.shape.mass_properties(mass=self.mass).volume

    def center_of_mass(self) -> Float[Array, "3"]:
        """The origin of the body frame in the frame of the shape [m], shape (3,).

        It is the centre of mass at uniform density, or the origin of the shape where the inertia
        is given.
        """
        if self.inertia is not None:
            return jnp.zeros(3, self.inertia.dtype)
        return self.shape.mass_properties(mass=self.mass).center_of_mass

    def inertia_tensor(self) -> InertiaTensor:
        """The tensor of `inertia_matrix` in components, as the equations of motion take it.

        A `Diag3` of `jaxrb.math` where the body frame has principal axes, else a `Sym3`: both
        multiply and solve without arrays of shape (3, 3), and have them as `matrix()`.
        """
        inertia = self.centered().inertia
        assert inertia is not None
        return Diag3(Vec3.of(inertia)) if inertia.ndim == 1 else Sym3.of(inertia)


def all_centered(bodies: Sequence[RigidBody]) -> list[RigidBody]:
    """`centered` of each body; of those alike with one piece of program."""
    found: list[RigidBody] = list(bodies)
    for group in alike(bodies):
        if len(group) == 1 or bodies[group[0]].inertia is not None:
            own = [bodies[k].centered() for k in group]
        else:
            row = stacked_results(RigidBody.centered, [bodies[k] for k in group])
            own = [jax.tree.map(lambda leaf, k=k: leaf[k], row) for k in range(len(group))]
        for k, body in zip(group, own, strict=True):
            found[k] = body
    return found


def _check_inertia(inertia: Array) -> None:
    numbers = known(inertia)
    if numbers is None:
        return
    tolerance = 64 * np.finfo(numbers.dtype).eps
    if numbers.ndim == 2:
        scale = np.abs(numbers).max()
        if np.abs(numbers - numbers.T).max() > tolerance * scale:
            raise ValueError(
                f"RigidBody.inertia must be symmetric; got {numbers.tolist()}. "
                "Pass (J + J.T)/2 if the rest is noise."
            )
        numbers = np.linalg.eigvalsh((numbers + numbers.T) / 2)
    if not (numbers > 0).all():
        raise ValueError(
            f"RigidBody.inertia must be positive definite; its moments are {numbers.tolist()}."
        )
    largest, others = numbers.max(), numbers.sum() - numbers.max()
    impossible = (
        "RigidBody.inertia is impossible for a solid: no principal moment may exceed the sum of "
        f"the other two; they are {numbers.tolist()}."
    )
    if largest > others * (1 + EXCESS + tolerance):
        raise ValueError(impossible)
    if largest > others * (1 + tolerance):
        warnings.warn(impossible, stacklevel=5)  # past Equinox, at the call of RigidBody


def possible_inertia(inertia: InertiaTensor) -> Bool[Array, "..."]:
    """Whether a tensor is positive definite with moments that satisfy the triangle inequality,
    up to `EXCESS`.

    That is K = r tr(J) I - J being positive semidefinite, which for r = 1/2 is the second
    moment of the mass; both are tested by leading minors, without eigenvalues.
    """
    sym = inertia.to_sym()
    d, o = sym.diagonal, sym.off
    bound = (d.x + d.y + d.z) * ((1 + EXCESS) / (2 + EXCESS))
    slack = 64 * jnp.finfo(bound.dtype).eps * bound

    def minors(a, b, c, yz, xz, xy):
        det = a * (b * c - yz * yz) - xy * (xy * c - yz * xz) + xz * (xy * yz - b * xz)
        return (
            jnp.minimum(a, jnp.minimum(b, c)),
            a * b - xy * xy,
            b * c - yz * yz,
            a * c - xz * xz,
            det,
        )

    j1, j2, _, _, j3 = minors(d.x, d.y, d.z, o.x, o.y, o.z)
    definite = (j1 > 0) & (j2 > 0) & (j3 > 0)
    k1, *planes, k3 = minors(bound - d.x, bound - d.y, bound - d.z, -o.x, -o.y, -o.z)
    possible = (k1 >= -slack) & (k3 >= -slack * bound**2)
    for minor in planes:
        possible &= minor >= -slack * bound
    return definite & possible
