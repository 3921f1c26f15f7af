"""Lie groups of rotations and rigid motions: SO(3), unit quaternions, directors, SE(3)."""

from . import directors as directors, quaternion as quaternion, se3 as se3, so3 as so3
