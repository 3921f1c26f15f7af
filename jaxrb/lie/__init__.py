"""Rotation groups: SO(3) and the unit quaternions."""

from . import quaternion as quaternion, so3 as so3
