"""Joints: what ties bodies to each other and to the world, one kind a file.

Their kinematics are in `rows` and `coordinates`, which know masses and phases; they are imported
by themselves, since masses know pins.
"""

from .base import AbstractJoint as AbstractJoint
from .distance import Distance as Distance
from .gimbal import Gimbal as Gimbal
from .hinge import Hinge as Hinge
from .pin import Pin as Pin
from .planar import Planar as Planar
from .slider import Slider as Slider
from .universal import Universal as Universal
from .weld import Weld as Weld
