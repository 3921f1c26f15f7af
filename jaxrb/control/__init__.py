"""Control inputs: what is prescribed as a function of time."""

from .base import AbstractInput as AbstractInput
from .piecewise import PiecewiseConstant as PiecewiseConstant, PiecewiseLinear as PiecewiseLinear
