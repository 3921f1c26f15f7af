"""Two bodies that meet at a point (Jia and Wang, section 2)."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from .._validate import real_array, require
from ..math import Sym3


class CollidingBody(eqx.Module):
    """A body at the moment of an impact, in the contact frame.

    That frame has its origin at the contact and its z axis along the normal, from the second
    body into the first.

    Attributes:
        mass: [kg]; infinite for one that cannot be moved.
        inertia: about the centre of mass, body frame [kg m^2], shape (3,) along principal
            axes or (3, 3); all of it infinite for one that cannot be turned.
        rotation: from the body to the contact frame, shape (3, 3).
        center: of mass [m], shape (3,).
        velocity: of the centre of mass [m/s], shape (3,).
        angular_velocity: body frame [rad/s], shape (3,).

    Raises:
        ValueError: naming the argument that is not understood.
    """

    mass: Float[Array, ""]
    inertia: Float[Array, "3 3"] | Float[Array, "3"]
    rotation: Float[Array, "3 3"]
    center: Float[Array, "3"]
    velocity: Float[Array, "3"]
    angular_velocity: Float[Array, "3"]

    def __init__(
        self,
        mass,
        inertia,
        center,
        velocity=(0.0, 0.0, 0.0),
        angular_velocity=(0.0, 0.0, 0.0),
        rotation=None,
    ):
        self.mass = real_array(mass, "CollidingBody.mass", ())
        require(self.mass, "CollidingBody.mass", lambda m: m > 0, "positive")
        self.inertia = real_array(inertia, "CollidingBody.inertia")
        if self.inertia.shape not in ((3,), (3, 3)):
            raise ValueError(
                f"CollidingBody.inertia must have shape (3,) or (3, 3); got {self.inertia.shape}."
            )
        identity = jnp.eye(3, dtype=self.inertia.dtype)
        rotation = identity if rotation is None else rotation
        self.rotation = real_array(rotation, "CollidingBody.rotation", (3, 3))
        self.center = real_array(center, "CollidingBody.center", (3,))
        self.velocity = real_array(velocity, "CollidingBody.velocity", (3,))
        self.angular_velocity = real_array(angular_velocity, "CollidingBody.angular_velocity", (3,))

    def contact_velocity(self) -> Float[Array, "3"]:
        """The velocity of the body's point at the contact, V + R omega x r [m/s]."""
        return self.velocity + jnp.cross(
            _product(self.rotation, self.angular_velocity), -self.center
        )

    def inverse_inertia(self) -> Float[Array, "3 3"]:
        """Q^{-1}, body frame."""
        if self.inertia.ndim == 1:
            return jnp.diag(1 / self.inertia)
        # An infinite matrix has no inverse that a solver would find.
        infinite = jnp.any(jnp.isinf(self.inertia))
        safe = jnp.where(infinite, jnp.eye(3, dtype=self.inertia.dtype), self.inertia)
        tensor = Sym3.of(safe)
        inverse = tensor.adjugate() / tensor.determinant()
        return jnp.where(infinite, 0.0, inverse.matrix())

    def response(self) -> Float[Array, "3 3"]:
        """U/m - P R Q^{-1} R^T P, its part of W (3, 5)."""
        p = _cross_matrix(-self.center)
        arm = _product(p, self.rotation)
        turning = -_product(_product(arm, self.inverse_inertia()), arm.T)
        return jnp.eye(3, dtype=p.dtype) / self.mass - turning

    def velocity_changes(
        self, impulse: Float[Array, "3"]
    ) -> tuple[Float[Array, "3"], Float[Array, "3"]]:
        """The changes of velocity [m/s] and angular velocity [rad/s] by an impulse on it (1)."""
        torque = _product(self.rotation.T, jnp.cross(-self.center, impulse))
        return impulse / self.mass, _product(self.inverse_inertia(), torque)


def inverse_inertia_matrix(
    first: CollidingBody, second: CollidingBody | None = None
) -> Float[Array, "3 3"]:
    """W [1/kg], the change of the contact velocity by an impulse (4, 5).

    Without a second body the first one hits an immovable obstacle.
    """
    own = first.response()
    return own if second is None else own + second.response()


def contact_velocity(
    first: CollidingBody, second: CollidingBody | None = None
) -> Float[Array, "3"]:
    """The velocity of the first body relative to the second at the contact [m/s] (2)."""
    own = first.contact_velocity()
    return own if second is None else own - second.contact_velocity()


def _cross_matrix(a: Float[Array, "3"]) -> Float[Array, "3 3"]:
    zero = jnp.zeros_like(a[0])
    return jnp.array([[zero, -a[2], a[1]], [a[2], zero, -a[0]], [-a[1], a[0], zero]])


def _product(a: Array, b: Array) -> Array:
    """In the precision of its numbers: a GPU rounds those of a product to 10 bits by default."""
    return jnp.matmul(a, b, precision=jax.lax.Precision.HIGHEST)
