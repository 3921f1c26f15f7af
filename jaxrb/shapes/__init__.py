"""Shapes: solids in their own frame, in metres."""

from .base import (
    AbstractShape as AbstractShape,
    AbstractSolid as AbstractSolid,
    MassProperties as MassProperties,
)
from .box import Box as Box
from .capsule import Capsule as Capsule
from .cone import Cone as Cone
from .convex_polyhedron import ConvexPolyhedron as ConvexPolyhedron
from .csg.boolean import (
    Complement as Complement,
    Difference as Difference,
    Intersection as Intersection,
    Union as Union,
)
from .csg.implicit import Implicit as Implicit
from .cylinder import Cylinder as Cylinder
from .ellipsoid import Ellipsoid as Ellipsoid, Sphere as Sphere
from .half_space import HalfSpace as HalfSpace
from .placed import Placed as Placed
from .rounded import Rounded as Rounded
from .scaled import Scaled as Scaled
