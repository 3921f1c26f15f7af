"""jaxrb: differentiable rigid-body physics with exact impacts, on JAX.

Conventions: SI units and radians; right-handed frames. Quaternions have the scalar first and
multiply by Hamilton's rule; they turn body vectors into world vectors, x_world = q x_body q*.
`velocity` is that of the centre of mass in the world frame, `angular_velocity` is in the body
frame, inertia is about the centre of mass in the body frame. A gap is positive when bodies are
apart. A contact normal points from the obstacle, or the second body, into the first, so that a
positive normal impulse opens the gap. Numbers take the dtype of the state, float32 or float64;
the package never changes JAX's configuration.
"""

import importlib

from . import lie as lie, rotations as rotations
from ._help import publish
from .bodies import (
    AttitudeTracking as AttitudeTracking,
    ConstantForce as ConstantForce,
    Damper as Damper,
    Distance as Distance,
    Drag as Drag,
    Force as Force,
    Gimbal as Gimbal,
    Hinge as Hinge,
    Motor as Motor,
    Pin as Pin,
    Planar as Planar,
    PoseTracking as PoseTracking,
    QuadrotorTracking as QuadrotorTracking,
    RigidBody as RigidBody,
    Slider as Slider,
    Spring as Spring,
    State as State,
    Thruster as Thruster,
    Torque as Torque,
    TrackingError as TrackingError,
    Universal as Universal,
    Weld as Weld,
)
from .contact import Moving as Moving
from .control import (
    PiecewiseConstant as PiecewiseConstant,
    PiecewiseLinear as PiecewiseLinear,
)
from .exec.parallel import parallel_vmap as parallel_vmap
from .flows import (
    DirectorEnergyMomentum as DirectorEnergyMomentum,
    EnergyMidpoint as EnergyMidpoint,
    ExactFlight as ExactFlight,
    FourthOrder as FourthOrder,
    LieVariational as LieVariational,
    QuaternionEnergyMomentum as QuaternionEnergyMomentum,
    QuaternionVariational as QuaternionVariational,
    SimoWong as SimoWong,
)
from .impact import (
    IMPACT_RESULTS as IMPACT_RESULTS,
    CollidingBody as CollidingBody,
    ContactMode as ContactMode,
    Coulomb as Coulomb,
    Frictionless as Frictionless,
    ImpactSolution as ImpactSolution,
    Moreau as Moreau,
    Newton as Newton,
    Poisson as Poisson,
    Rough as Rough,
    Stronge as Stronge,
    contact_velocity as contact_velocity,
    impulse_curve as impulse_curve,
    invariant_directions as invariant_directions,
    inverse_inertia_matrix as inverse_inertia_matrix,
    solve_impact as solve_impact,
    solve_impact_batch as solve_impact_batch,
)
from .shapes import (
    Box as Box,
    Capsule as Capsule,
    Complement as Complement,
    Cone as Cone,
    ConvexPolyhedron as ConvexPolyhedron,
    Cylinder as Cylinder,
    Difference as Difference,
    Ellipsoid as Ellipsoid,
    HalfSpace as HalfSpace,
    Implicit as Implicit,
    Intersection as Intersection,
    Placed as Placed,
    Rounded as Rounded,
    Scaled as Scaled,
    Sphere as Sphere,
    Union as Union,
)
from .simulate import (
    LGVCI as LGVCI,
    RESULTS as RESULTS,
    EventDriven as EventDriven,
    MoreauJean as MoreauJean,
    PairLaw as PairLaw,
    SaveAt as SaveAt,
    Solution as Solution,
    StopAfter as StopAfter,
    StopWhen as StopWhen,
    World as World,
    angular_momentum as angular_momentum,
    constraint_violation as constraint_violation,
    contact_forces as contact_forces,
    energy as energy,
    gaps as gaps,
    joint_coordinates as joint_coordinates,
    joint_reactions as joint_reactions,
    joint_velocities as joint_velocities,
    joint_violations as joint_violations,
    kinetic_energy as kinetic_energy,
    linear_momentum as linear_momentum,
    mean_reaction_forces as mean_reaction_forces,
    pair_gaps as pair_gaps,
    potential_energy as potential_energy,
    reaction_forces as reaction_forces,
    simulate as simulate,
    simulate_batch as simulate_batch,
    tracking_errors as tracking_errors,
)

__version__ = "0.1.0"


def __getattr__(name: str):
    """`jaxrb.optimize`, `jaxrb.viz` and `jaxrb.io` are imported when they are first used."""
    if name in ("io", "optimize", "viz"):
        return importlib.import_module(f".{name}", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


publish(__name__, "io", "lie", "optimize", "rotations", "viz")
