"""Checks of rotation matrices and unit vectors given by a user.

Known numbers are checked at once. Traced ones cannot be: what the functions return for them
then means nothing where they break the rule.
"""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._validate import known, real_array

# Further from unit length than this is a mistake, not round-off or a few typed digits.
UNIT_TOLERANCE = 1e-3
# Matrices are not normalised: their round-off is all that can be let pass, in float32 too.
ORTHOGONAL_TOLERANCE = 1e-5


def vectors(value: Any, name: str, width: int) -> Float[Array, "... width"]:
    """`value` as a floating-point array of shape (..., width).

    Raises:
        ValueError: naming the argument, otherwise.
    """
    array = real_array(value, name)
    if array.ndim < 1 or array.shape[-1] != width:
        raise ValueError(f"{name} must have shape (..., {width}); got {array.shape}.")
    return array


def unit_vectors(value: Any, name: str, width: int) -> Float[Array, "... width"]:
    """`vectors` of unit length to 1e-3, the tolerance of a state's quaternions; normalised.

    Traced ones are normalised whatever their length. What is not a number is left to show in
    the result.
    """
    array = vectors(value, name, width)
    squared = sum(array[..., k] ** 2 for k in range(width))
    length = jnp.sqrt(squared)[..., None]
    numbers = known(length)
    if numbers is not None:
        error = np.fmax.reduce(np.abs(numbers - 1), axis=None, initial=0.0)
        if error > UNIT_TOLERANCE:
            raise ValueError(
                f"{name} must have unit length to {UNIT_TOLERANCE:g}; it is off by {error:.3g}. "
                "Divide it by its length if that is what you mean."
            )
    return array / length


def rotation_matrices(value: Any, name: str) -> Float[Array, "... 3 3"]:
    """`value` as an array of rotation matrices, shape (..., 3, 3), orthogonal to 1e-5."""
    array = real_array(value, name)
    if array.ndim < 2 or array.shape[-2:] != (3, 3):
        raise ValueError(f"{name} must have shape (..., 3, 3); got {array.shape}.")
    numbers = known(array)
    if numbers is not None:
        wide = numbers.astype(float)
        error = np.max(np.abs(wide @ wide.swapaxes(-1, -2) - np.eye(3)), initial=0.0)
        if not error <= ORTHOGONAL_TOLERANCE:
            raise ValueError(
                f"{name} must be orthogonal to {ORTHOGONAL_TOLERANCE:g}; R R^T differs from the "
                f"identity by {error:.3g}. Orthonormalise it first if that is what you mean."
            )
        if np.any(np.linalg.det(wide) < 0):
            raise ValueError(f"{name} must have determinant 1; it contains a reflection.")
    return array
