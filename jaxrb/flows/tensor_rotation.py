"""The exact rotation of a free rigid body in its own frame, whatever its inertia tensor."""

from __future__ import annotations

from functools import partial

import jax

from ..math import Quat, Sym3, Vec3
from ..math.autodiff import keep_rule, sparse_jvp
from ..math.principal import PrincipalAxes
from ..math.vec import Scalar
from .free_rotation import Rotation, free_rotation


@partial(jax.custom_jvp, nondiff_argnums=(4,))
def free_rotation_of_tensor(
    duration: Scalar, momentum: Vec3, inertia: Sym3, principal: PrincipalAxes, doublings: int
) -> Rotation:
    """`free_rotation` in the frame of the body, whose inertia tensor has these principal axes.

    The derivative by the tensor is that of the rotation, which has one where moments are equal
    and the axes have none. Second derivatives by it need them.
    """
    return _turned(duration, momentum, principal, doublings)


@partial(free_rotation_of_tensor.defjvp, symbolic_zeros=True)
def _(doublings, primals, tangents):
    _, _, inertia, principal = primals
    rotation = keep_rule(partial(free_rotation_of_tensor, doublings=doublings))(*primals)
    axes = principal.following(inertia)

    def near(duration, momentum, near: Sym3):
        change = Sym3(near.diagonal - inertia.diagonal, near.off - inertia.off)
        return _turned(duration, momentum, axes, doublings, axes.of_tensor(change))

    return rotation, sparse_jvp(near, primals[:3], tangents[:3])[1]


def _turned(duration, momentum, axes: PrincipalAxes, doublings, change: Sym3 | None = None):
    """In the frame of the body, with a change of the tensor along the principal axes, which is
    zero."""
    moments, products = axes.moments, None
    if change is not None:
        moments, products = moments + change.diagonal, change.off
    own = axes.to_principal(momentum)
    found = free_rotation(duration, own, moments, doublings, products)
    return Rotation(Quat(found.turn.w, axes.to_body(found.turn.v)), found.error)
