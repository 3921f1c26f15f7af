"""Shapes: solids in their own frame, in metres."""

from .base import (
    AbstractConvexShape as AbstractConvexShape,
    AbstractShape as AbstractShape,
    MassProperties as MassProperties,
)
from .box import Box as Box
from .ellipsoid import Ellipsoid as Ellipsoid, Sphere as Sphere
from .half_space import HalfSpace as HalfSpace
from .rounded import Rounded as Rounded
