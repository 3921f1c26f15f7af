"""Parametrizations of finite rotations, screws, and velocities from axis and angle.

The families of Geradin and Rixen, *Parametrization of finite rotations in computational
dynamics: a review*, are stateless classes with the same functions: `to_matrix`, `from_matrix`,
`to_quaternion`, `from_quaternion`, `compose`, `tangent_operator`, `spatial_tangent_operator`
and `inverse_tangent_operator`. Arrays have the parameters on their last axis and any leading
axes. Rotations take body vectors to world vectors.
"""

from .._help import publish
from .base import AbstractParametrization as AbstractParametrization, convert as convert
from .bryant_angles import BryantAngles as BryantAngles
from .conformal import ConformalRotationVector as ConformalRotationVector
from .euler_angles import EulerAngles as EulerAngles
from .euler_parameters import EulerParameters as EulerParameters
from .invariants import (
    angular_acceleration as angular_acceleration,
    angular_velocity as angular_velocity,
    instantaneous_axis_rate as instantaneous_axis_rate,
    spatial_angular_acceleration as spatial_angular_acceleration,
    spatial_angular_velocity as spatial_angular_velocity,
)
from .linear import LinearParameters as LinearParameters
from .rodrigues import RodriguesParameters as RodriguesParameters
from .rotation_vector import RotationVector as RotationVector
from .screw import (
    InstantaneousScrew as InstantaneousScrew,
    Screw as Screw,
    finite_screw as finite_screw,
    instantaneous_screw as instantaneous_screw,
)

publish(__name__)
