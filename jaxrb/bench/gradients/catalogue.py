"""What the table is made of: bodies and what they hit, laws, and flows, each with its name.

All are made when they are asked for, in the precision that is set then.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ...bodies import RigidBody, State
from ...contact import Moving
from ...flows import (
    DirectorEnergyMomentum,
    EnergyMidpoint,
    ExactFlight,
    FourthOrder,
    LieVariational,
    QuaternionEnergyMomentum,
    QuaternionVariational,
    SimoWong,
)
from ...impact import (
    AbstractContactLaw,
    Coulomb,
    Frictionless,
    Moreau,
    Newton,
    Poisson,
    Rough,
    Stronge,
)
from ...shapes import (
    AbstractSolid,
    Box,
    Capsule,
    Complement,
    Cone,
    ConvexPolyhedron,
    Cylinder,
    Ellipsoid,
    HalfSpace,
    Intersection,
    Placed,
    Rounded,
    Scaled,
    Sphere,
    Union,
)
from ...simulate import AbstractMethod, EventDriven, MoreauJean, World
from .columns import Motion

_DT, _T1 = 0.01, 0.6037  # [s]; the last step is a part of one
_GRAVITY = (0.3, -0.2, -9.81)
_TETRAHEDRON = ((0.3, 0.0, -0.1), (-0.2, 0.25, -0.12), (-0.15, -0.25, -0.1), (0.02, 0.01, 0.35))
# Of the restitution and the friction of throws, in turn: slip and stick in the impact.
_RESTITUTION, _FRICTION = (0.8, 0.55, 0.9), (0.15, 0.8, 0.4)
# Where contacts shall last, the body must not bounce for long.
_DULL = 0.2


class Scene(NamedTuple):
    """What flies and what it hits.

    Attributes:
        shapes: of the bodies.
        obstacles: that stay, or move.
        position, velocity: of the first body at the start [m], [m/s]; a second one is at the
            origin, at rest.
    """

    shapes: tuple[AbstractSolid, ...]
    obstacles: tuple
    position: tuple[float, float, float] = (0.05, -0.1, 0.75)
    velocity: tuple[float, float, float] = (0.8, -0.5, -1.5)


class Flow(NamedTuple):
    """A method, and whether contacts last in it."""

    method: Callable[[], AbstractMethod]
    lasting: bool = False


class Shaking(eqx.Module):
    """A motion along x and z in a turned frame; what it holds can be differentiated."""

    amplitude: Float[Array, ""]  # [m]
    rate: Float[Array, ""]  # [rad/s]

    def __call__(self, t, args):
        along = self.amplitude * jnp.sin(self.rate * t)
        return jnp.stack([along, 0 * along, along]), jnp.asarray([1.0, 0.05, -0.1, 0.0])


def _over_plane(shape: Callable[[], AbstractSolid]) -> Callable[[], Scene]:
    return lambda: Scene((shape(),), (HalfSpace((0.1, 0.2, 1.0), 0.05),))


def _pair(*shapes: Callable[[], AbstractSolid]) -> Callable[[], Scene]:
    """In free fall: the first hits the second at some 3 m/s."""
    return lambda: Scene(tuple(make() for make in shapes), (), (0.05, -0.1, 1.2), (0.1, 0.2, -3.0))


def _over(obstacle: Callable, shape: Callable[[], AbstractSolid], height: float = 0.75):
    position = (0.05, -0.1, height)
    return lambda: Scene((shape(),), (obstacle(),), position, (0.3, -0.2, -1.5))


def _sphere():
    return Sphere(0.2)


def _ellipsoid():
    return Ellipsoid((0.2, 0.3, 0.4))


def _box():
    return Box((0.2, 0.3, 0.35))


def _lens():
    return Intersection(Placed(Sphere(0.5), (0, 0, 0.2)), Placed(Sphere(0.5), (0, 0, -0.2)))


SHAPES: dict[str, Callable[[], Scene]] = {
    "sphere": _over_plane(_sphere),
    "ellipsoid": _over_plane(_ellipsoid),
    "box": _over_plane(_box),
    "polyhedron": _over_plane(lambda: ConvexPolyhedron(_TETRAHEDRON)),
    "cylinder": _over_plane(lambda: Cylinder(0.2, 0.3)),
    "capsule": _over_plane(lambda: Capsule(0.15, 0.25)),
    "cone": _over_plane(lambda: Cone(0.25, 0.6)),
    "rounded box": _over_plane(lambda: Rounded(Box((0.15, 0.2, 0.3)), 0.05)),
    "scaled ellipsoid": _over_plane(lambda: Scaled(_ellipsoid(), 0.9)),
    "union": _over_plane(
        lambda: Union(Box((0.1, 0.12, 0.4)), Placed(Sphere(0.2), (0.05, 0.1, 0.35)))
    ),
    "intersection": _over_plane(_lens),
    "sphere on box": _over(lambda: Placed(Box((1.0, 1.0, 0.2)), (0, 0, -0.2)), _sphere),
    "ellipsoid on sphere": _over(lambda: Placed(Sphere(1.0), (0, 0, -1.0)), _ellipsoid),
    "box in a bowl": _over(lambda: Complement(Placed(Sphere(1.5), (0, 0, 1.4))), _box),
    "box on moving plane": _over(
        lambda: Moving(HalfSpace(), Shaking(jnp.asarray(0.05), jnp.asarray(7.0))), _box
    ),
    "sphere+sphere": _pair(_sphere, _sphere),
    "sphere+box": _pair(_sphere, _box),
    "ellipsoid+ellipsoid": _pair(_ellipsoid, _ellipsoid),
    "box+box": _pair(_box, _box),
    "cylinder+capsule": _pair(lambda: Cylinder(0.2, 0.3), lambda: Capsule(0.15, 0.25)),
}
LAWS: dict[str, Callable[[float, float], AbstractContactLaw]] = {
    "frictionless": lambda e, mu: Frictionless(e),
    "Stronge": lambda e, mu: Coulomb(mu, e, Stronge()),
    "Poisson": lambda e, mu: Coulomb(mu, e, Poisson()),
    "Newton": lambda e, mu: Coulomb(mu, e, Newton()),
    "Moreau": lambda e, mu: Moreau(mu, e),
    "Rough": lambda e, mu: Rough(e, 0.4),
    "Rough limited": lambda e, mu: Rough(e, 0.4, mu),
}
FLOWS: dict[str, Flow] = {
    "LieVariational": Flow(lambda: EventDriven(LieVariational(), _DT, on_zeno="stop")),
    "continuous": Flow(lambda: EventDriven(ExactFlight(), dt=None)),
    "ExactFlight": Flow(lambda: EventDriven(ExactFlight(), _DT, on_zeno="stop")),
    "QuaternionVariational": Flow(
        lambda: EventDriven(QuaternionVariational(), _DT, on_zeno="stop")
    ),
    "QuaternionEnergyMomentum": Flow(
        lambda: EventDriven(QuaternionEnergyMomentum(), _DT, on_zeno="stop")
    ),
    "EnergyMidpoint": Flow(lambda: EventDriven(EnergyMidpoint(), _DT, on_zeno="stop")),
    "SimoWong": Flow(lambda: EventDriven(SimoWong(), _DT, on_zeno="stop")),
    "DirectorEnergyMomentum": Flow(
        lambda: EventDriven(DirectorEnergyMomentum(), _DT, on_zeno="stop")
    ),
    "FourthOrder": Flow(lambda: EventDriven(FourthOrder(LieVariational()), _DT, on_zeno="stop")),
    "interior": Flow(lambda: EventDriven(LieVariational(), _DT, on_zeno="stop", detect="interior")),
    "lasting": Flow(lambda: EventDriven(LieVariational(), _DT, on_zeno="rest"), True),
    "stepped": Flow(lambda: MoreauJean(_DT, impacts="stepped"), True),
}


def throw(shape: str, law: str, flow: str, number: int) -> Motion:
    """A motion of the table: throw `number` of a scene, in random attitude and spin.

    Args:
        shape, law, flow: keys of `SHAPES`, `LAWS` and `FLOWS`.
        number: 0 or more; the same in every run.
    """
    scene, rng = SHAPES[shape](), np.random.default_rng(number)
    lasting = FLOWS[flow].lasting
    turn = number % len(_FRICTION)
    restitution = _DULL if lasting else _RESTITUTION[turn]
    world = World(
        [RigidBody(own, 1.2 - 0.4 * k) for k, own in enumerate(scene.shapes)],
        scene.obstacles,
        gravity=_GRAVITY,
        contact_law=LAWS[law](restitution, _FRICTION[turn]),
    )
    n = len(scene.shapes)
    position, velocity = np.zeros((2, n, 3))
    position[0], velocity[0] = scene.position, scene.velocity
    quaternion = rng.normal(size=(n, 4))
    quaternion /= np.linalg.norm(quaternion, axis=-1, keepdims=True)
    position += 0.02 * rng.normal(size=(n, 3))
    velocity += 0.2 * rng.normal(size=(n, 3))
    spin = 2.0 * rng.normal(size=(n, 3))
    state = State(*(jnp.asarray(a, float) for a in (position, quaternion, velocity, spin)))
    return Motion(world, state, jnp.asarray(_DT, float), jnp.asarray(_T1, float))
