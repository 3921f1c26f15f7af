"""Rigid bodies and their states."""

from .dynamics import Dynamics as Dynamics
from .forces import (
    AbstractLoad as AbstractLoad,
    AbstractTracking as AbstractTracking,
    AttitudeTracking as AttitudeTracking,
    ConstantForce as ConstantForce,
    Damper as Damper,
    Drag as Drag,
    Force as Force,
    Motor as Motor,
    PoseTracking as PoseTracking,
    QuadrotorTracking as QuadrotorTracking,
    Spring as Spring,
    Thruster as Thruster,
    Torque as Torque,
    TrackingError as TrackingError,
    Wrench as Wrench,
)
from .inertial import Inertial as Inertial
from .joints import (
    AbstractJoint as AbstractJoint,
    Distance as Distance,
    Gimbal as Gimbal,
    Hinge as Hinge,
    Pin as Pin,
    Planar as Planar,
    Slider as Slider,
    Universal as Universal,
    Weld as Weld,
)
from .phase import Phase as Phase
from .rigid_body import RigidBody as RigidBody
from .spin import SpinBounds as SpinBounds, spin_bounds as spin_bounds
from .state import State as State
