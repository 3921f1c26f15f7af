"""Charts: how a number with constraints is moved by a step without any.

A chart is to one array what `State.retract` and `State.local` are to a state: `retract(value,
step)` moves the value by a step of R^n, zero being where it stands, and `local(value, other)` is
the step that leads to another value. Whatever the step is, the result is possible, so optimisers
that know nothing of constraints may choose it.
"""

from __future__ import annotations

import abc

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._validate import finite_number, known
from ..lie import quaternion as quaternions
from ..math import safe_divide, safe_sqrt


class AbstractChart(eqx.Module):
    """A chart of the possible values of one array. All that it holds is static."""

    @abc.abstractmethod
    def n_coordinates(self, shape: tuple[int, ...]) -> int:
        """The length of a step of a value of some shape.

        Raises:
            ValueError: if no value has this shape.
        """

    @abc.abstractmethod
    def retract(self, value: Array, step: Float[Array, " n"]) -> Array:
        """The value moved by a step; at a step of zero it is the value."""

    @abc.abstractmethod
    def local(self, value: Array, other: Array) -> Float[Array, " n"]:
        """The step for which retract(value, step) is `other`."""

    def possible(self, value: np.ndarray) -> str | None:
        """What a value must be that is none of this chart, as "must be ..."; None if it is one."""
        del value
        return None

    @property
    def elementwise(self) -> bool:
        """Whether each entry of a value has one coordinate, and grows with it."""
        return False

    @property
    def largest_step(self) -> float:
        """Of one coordinate, for an optimiser: what is linear is not trusted further."""
        return 1.0


class _Elementwise(AbstractChart):
    def n_coordinates(self, shape: tuple[int, ...]) -> int:
        return int(np.prod(shape))

    @property
    def elementwise(self) -> bool:
        return True


class Real(_Elementwise):
    """Any number: value + step."""

    @property
    def largest_step(self):
        return np.inf  # it depends on units

    def retract(self, value, step):
        return value + step.reshape(value.shape)

    def local(self, value, other):
        return (other - value).reshape(-1)


class Positive(_Elementwise):
    """Positive numbers: value exp(step), so that a step is a relative change.

    Steps beyond half of the logarithm of the largest number (354, or 44 in single precision) count
    as that, lest the value overflow or vanish.
    """

    def retract(self, value, step):
        return value * _exp(step.reshape(value.shape), 1 / 2)

    def local(self, value, other):
        return jnp.log(other / value).reshape(-1)

    def possible(self, value):
        return None if (value > 0).all() else "positive"


class Bounded(_Elementwise):
    """Numbers between two bounds: a step adds to log((value - lower)/(upper - value)).

    Attributes:
        lower, upper: bounds, which a value does not reach.

    Raises:
        ValueError: if upper is not above lower.
    """

    lower: float = eqx.field(static=True)
    upper: float = eqx.field(static=True)

    def __init__(self, lower, upper):
        self.lower = finite_number(lower, "Bounded.lower")
        self.upper = finite_number(upper, "Bounded.upper")
        if self.upper <= self.lower:
            raise ValueError(f"Bounded.upper must be above lower; got {lower} and {upper}.")

    def retract(self, value, step):
        step = step.reshape(value.shape)
        below, above = value - self.lower, self.upper - value
        # The larger of exp(step) and 1 divided out of both, so that no step overflows. Not by
        # exp(-|step|), whose derivative at zero, where every fit starts, is that of one side.
        shrink = jnp.exp(jnp.where(step > 0, -step, step))
        up, down = jnp.where(step > 0, 1.0, shrink), jnp.where(step > 0, shrink, 1.0)
        moved = (self.upper * below * up + self.lower * above * down) / (below * up + above * down)
        return jnp.clip(moved, *self._ends(value.dtype))

    def _ends(self, dtype) -> tuple[Array, Array]:
        """The numbers next to the bounds: a value at them could be moved no more."""
        ends = []
        for bound, other in ((self.lower, self.upper), (self.upper, self.lower)):
            near = np.nextafter(np.asarray(bound, dtype), np.asarray(other, dtype))
            # From the smallest number, next to zero, the way back is as long as no exponential.
            small = np.finfo(dtype).eps * other
            ends.append(jnp.asarray(small if bound == 0 else near, dtype))
        return ends[0], ends[1]

    def local(self, value, other):
        odds = (other - self.lower) / (self.upper - other)
        return jnp.log(odds * (self.upper - value) / (value - self.lower)).reshape(-1)

    def possible(self, value):
        inside = (value > self.lower) & (value < self.upper)
        return None if inside.all() else f"between {self.lower:g} and {self.upper:g}, not at them"


def _exp(step: Array, part: float) -> Array:
    """exp, kept within a power of the largest number; its derivative is zero beyond."""
    most = part * float(np.log(jnp.finfo(step.dtype).max))
    return jnp.exp(jnp.clip(step, -most, most))


class UnitVector(AbstractChart):
    """Unit vectors of shape (3,): a step of length t [rad] turns the value by the angle t."""

    def n_coordinates(self, shape):
        if shape != (3,):
            raise ValueError(f"UnitVector is a chart of shape (3,); got {shape}.")
        return 2

    def retract(self, value, step):
        first, second = _across(value)
        across = first * step[0] + second * step[1]
        # A rotation vector at right angles to both, by whose turn the value moves along `across`.
        turn = quaternions.exp(jnp.cross(value, across))
        return quaternions.rotate(turn, value)

    def local(self, value, other):
        # Along the axes of the step, whose length is the sine. Of a cross product, round-off would
        # lie in any direction where the vectors are opposite.
        across = jnp.stack([jnp.sum(one * other) for one in _across(value)])
        sine, cosine = safe_sqrt(jnp.sum(across**2)), jnp.sum(value * other)
        angle = jnp.arctan2(sine, cosine)
        near = (cosine > 0) & (sine < jnp.finfo(sine.dtype).eps ** 0.5)
        step = across * jnp.where(near, 1.0, safe_divide(angle, sine))
        # To the opposite vector, all directions lead.
        opposite = jnp.stack([angle, jnp.zeros_like(angle)])
        return jnp.where((sine == 0) & (cosine < 0), opposite, step)

    def possible(self, value):
        return None if abs(np.linalg.norm(value) - 1) < 1e-3 else "of unit length to 1e-3"


def _across(n: Float[Array, "3"]) -> Float[Array, "2 3"]:
    """Two unit vectors at right angles to a third and to each other."""
    other = jnp.eye(3, dtype=n.dtype)[jnp.argmin(jnp.abs(n))]
    first = jnp.cross(n, other)
    first = first / jnp.sqrt(jnp.sum(first**2))
    return jnp.stack([first, jnp.cross(n, first)])


class Rotation(AbstractChart):
    """Unit quaternions of shape (4,): turned further by a rotation vector [rad] in body axes."""

    def n_coordinates(self, shape):
        if shape != (4,):
            raise ValueError(f"Rotation is a chart of shape (4,); got {shape}.")
        return 3

    def retract(self, value, step):
        return quaternions.retract(value, step)

    def local(self, value, other):
        return quaternions.local(value, other)

    def possible(self, value):
        return None if abs(np.linalg.norm(value) - 1) < 1e-3 else "of unit length to 1e-3"


class PhysicalInertia(AbstractChart):
    """Inertia tensors that some solid has: principal moments, shape (3,), or tensors, (3, 3).

    The coordinates are those of the second moments of mass Sigma = tr(J)/2 - J, whose only
    condition is to be positive definite; J itself must obey the triangle inequality, which a step
    of its entries breaks. Of principal moments, a step is the relative change of the second moment
    along each axis. Of a tensor, the Cholesky factor L of Sigma becomes L T with the lower
    triangular matrix T whose diagonal is the exponential of the first three coordinates and whose
    other entries (10, 20, 21) are the last three (log-Cholesky: Rucker and Wensing, IEEE Robotics
    and Automation Letters 7 (2022), eq. (11)).

    Steps are limited as those of `Positive`. Where one second moment is less than the round-off of
    another, the moments of inertia meet the triangle inequality with equality.
    """

    def n_coordinates(self, shape):
        if shape not in ((3,), (3, 3)):
            raise ValueError(f"PhysicalInertia is a chart of shape (3,) or (3, 3); got {shape}.")
        return 3 if shape == (3,) else 6

    def retract(self, value, step):
        if value.ndim == 1:
            return _others(_second_moments(value) * _exp(step, 1 / 2))
        full = jax.lax.Precision.HIGHEST
        root = jnp.linalg.cholesky(_second_moments(value))
        root = jnp.matmul(root, _triangle(step), precision=full)
        moments = jnp.matmul(root, root.T, precision=full)
        squares = jnp.diagonal(moments)
        return jnp.diag(_others(squares)) - (moments - jnp.diag(squares))

    def local(self, value, other):
        if value.ndim == 1:
            return jnp.log(_second_moments(other) / _second_moments(value))
        roots = [jnp.linalg.cholesky(_second_moments(tensor)) for tensor in (value, other)]
        factor = jax.scipy.linalg.solve_triangular(roots[0], roots[1], lower=True)
        return jnp.concatenate([jnp.log(jnp.diagonal(factor)), factor[[1, 2, 2], [0, 0, 1]]])

    def possible(self, value):
        moments = _second_moments(value)
        least = (moments if value.ndim == 1 else np.linalg.eigvalsh(moments)).min()
        if least > 0:
            return None
        return "of a solid: each principal moment less than the sum of the other two"


def _second_moments(inertia):
    """Of an array of NumPy or of JAX."""
    if inertia.ndim == 1:
        return inertia.sum() / 2 - inertia
    return inertia.trace() / 2 * np.eye(3, dtype=inertia.dtype) - inertia


def _others(moments):
    """The sum of the two others of each: without the difference of a sum and its term, which
    leaves nothing of small ones."""
    return jnp.roll(moments, 1) + jnp.roll(moments, 2)


def _triangle(step):
    # Squared in the moments of mass, hence half as far as a moment itself.
    return jnp.diag(_exp(step[:3], 1 / 4)).at[(1, 2, 2), (0, 0, 1)].set(step[3:])


class Fixed(AbstractChart):
    """A number that stays; the same as if it was not named, for switching parameters off."""

    def n_coordinates(self, shape):
        del shape
        return 0

    def retract(self, value, step):
        del step
        return value

    def local(self, value, other):
        del other
        return jnp.zeros(0, value.dtype)


def checked(chart: AbstractChart, value: Array, name: str) -> None:
    """Raises `ValueError` if a value that is known is none of a chart."""
    chart.n_coordinates(value.shape)
    numbers = known(value)
    wanted = None if numbers is None else chart.possible(numbers)
    if wanted is not None:
        raise ValueError(
            f"{name} must be {wanted}, for {type(chart).__name__} to move it; "
            f"got {numbers.tolist()}."  # type: ignore[union-attr]
        )
