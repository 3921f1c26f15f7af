"""Directions spread evenly over the sphere."""

import numpy as np
from jaxtyping import Float


def fibonacci_lattice(n: int) -> Float[np.ndarray, "n 3"]:
    """Unit vectors, one in each of n zones of equal area, turned on by the golden angle."""
    k = np.arange(n) + 0.5
    z, azimuth = 1 - 2 * k / n, np.pi * (1 + 5**0.5) * k
    across = np.sqrt(1 - z**2)
    return np.stack([across * np.cos(azimuth), across * np.sin(azimuth), z], axis=-1)
