"""Rigid bodies and their states."""

from .forces import ConstantForce as ConstantForce
from .inertial import Inertial as Inertial
from .joints import Pin as Pin
from .phase import Phase as Phase
from .rigid_body import RigidBody as RigidBody
from .state import State as State
