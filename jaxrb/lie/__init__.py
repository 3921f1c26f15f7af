"""Lie groups of rotations and rigid motions: SO(3), unit quaternions, directors, SE(3)."""

from .._help import publish
from . import directors as directors, quaternion as quaternion, se3 as se3, so3 as so3

publish(__name__, "directors", "quaternion", "se3", "so3")
