"""Forces on bodies besides gravity, one kind a file."""

from .attitude_tracking import AttitudeTracking as AttitudeTracking
from .base import AbstractLoad as AbstractLoad, Wrench as Wrench
from .constant import ConstantForce as ConstantForce
from .damper import Damper as Damper
from .drag import Drag as Drag
from .general import Force as Force
from .in_joints import (
    JointDampers as JointDampers,
    JointMotors as JointMotors,
    joint_loads as joint_loads,
)
from .motor import Motor as Motor
from .pose_tracking import PoseTracking as PoseTracking
from .quadrotor_tracking import QuadrotorTracking as QuadrotorTracking
from .spring import Spring as Spring
from .thruster import Thruster as Thruster, Torque as Torque
from .tracking import AbstractTracking as AbstractTracking, TrackingError as TrackingError
