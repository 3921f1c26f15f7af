"""A quadruped of MJCF that falls on its feet, makes a bow and trots.

Its legs have a hip and a knee each, which position servos drive. What they are to do is a table of
targets over time, between which controls go linearly.
"""

from __future__ import annotations

import math
import tempfile
from pathlib import Path

import jax.numpy as jnp
import numpy as np

from ..bodies import State
from ..control import PiecewiseLinear
from ..io import load
from ..simulate import World
from .case import Case

_LEG = """
<body name="{name}_thigh" pos="{x} {y} 0">
  <joint name="{name}_hip" range="-1 2"/>
  <geom type="capsule" size=".018" fromto="0 0 0 0 0 -.16" mass=".25"/>
  <body name="{name}_shank" pos="0 0 -.16">
    <joint name="{name}_knee" range="-2.6 -.2"/>
    <geom type="capsule" size=".018" fromto="0 0 0 0 0 -.16" mass=".15"/>
  </body>
</body>
"""
_SERVOS = """
<position name="{name}_hip" joint="{name}_hip"/>
<position name="{name}_knee" joint="{name}_knee"/>
"""
_MODEL = """
<mujoco model="quadruped">
  <compiler angle="radian"/>
  <default>
    <joint axis="0 1 0" damping=".05" armature=".01"/>
    <geom contype="0" friction=".9"/>
    <position kp="80" kv="2" forcerange="-15 15"/>
  </default>
  <worldbody>
    <geom name="floor" type="plane" size="2 2 .1" contype="1"/>
    <body name="trunk" pos="0 0 .36">
      <freejoint/>
      <geom type="box" size=".22 .07 .04" mass="4"/>
      {legs}
    </body>
  </worldbody>
  <actuator>{servos}</actuator>
  <keyframe><key name="falling" qpos="0 0 .36 1 0 0 0 {stance}" ctrl="{stance}"/></keyframe>
</mujoco>
"""
# Legs, and where their hips are on the trunk [m].
_PLACES = {
    "front_left": (0.18, 0.1),
    "front_right": (0.18, -0.1),
    "hind_left": (-0.18, 0.1),
    "hind_right": (-0.18, -0.1),
}
# Angles of hip and knee [rad]: a thigh that points backwards, and a shank that points forwards.
_STANCE = (0.6, -1.2)
_LINK = 0.16  # length of a thigh and of a shank [m]
_FRONT, _HIND = ("front_left", "front_right"), ("hind_left", "hind_right")
_DIAGONALS = (("front_left", "hind_right"), ("front_right", "hind_left"))
_STRIDE, _LIFT, _HALF_STEP, _STEPS = 0.035, 0.05, 0.2, 6  # [m], [m], [s]

Feet = dict[str, tuple[float, float]]  # of each leg that differs: forward [m], below its hip [m]


def _reach() -> float:
    """How far below its hip the foot of a leg that stands is [m]."""
    return 2 * _LINK * math.cos(_STANCE[0])


def schedule() -> list[tuple[float, Feet]]:
    """The times [s], and where the feet are to be then: the robot lands and stands, bows, stands
    up, and trots, of which each half step swings one pair of diagonal legs forwards above the
    ground while the other pair pushes the trunk on."""
    stand, down = _reach(), 0.15
    bow = dict.fromkeys(_FRONT, (0.0, down))
    found: list[tuple[float, Feet]] = [(0.0, {}), (0.7, {}), (1.0, bow), (1.3, bow), (1.6, {})]
    start = 1.8
    found.append((start, {}))
    for step in range(_STEPS + 1):
        swinging, pushing = _DIAGONALS[step % 2], _DIAGONALS[1 - step % 2]
        end = _STRIDE if step < _STEPS else 0.0
        up, over = (
            dict.fromkeys(swinging, (0.0, stand - _LIFT)),
            dict.fromkeys(pushing, (-end, stand)),
        )
        found.append((start + (step + 0.5) * _HALF_STEP, up))
        found.append(
            (start + (step + 1) * _HALF_STEP, dict.fromkeys(swinging, (end, stand)) | over)
        )
    return found


def targets() -> PiecewiseLinear:
    """The targets of the servos [rad], hip and knee of each leg, over time [s]."""
    times, rows = [], []
    for time, feet in schedule():
        times.append(time)
        angles = [_angles(*feet.get(leg, (0.0, _reach()))) for leg in _PLACES]
        rows.append(np.concatenate(angles))
    return PiecewiseLinear(jnp.array(times), jnp.array(rows))


def _angles(forward: float, below: float) -> tuple[float, float]:
    """Hip and knee [rad] for a foot at a place from the hip: both links are equally long."""
    bend = math.acos(math.hypot(forward, below) / (2 * _LINK))
    return bend - math.atan2(forward, below), -2 * bend


def mjcf() -> str:
    """The model as text."""
    legs = "".join(_LEG.format(name=name, x=x, y=y) for name, (x, y) in _PLACES.items())
    servos = "".join(_SERVOS.format(name=name) for name in _PLACES)
    stance = " ".join(f"{angle:g}" for angle in _STANCE * len(_PLACES))
    return _MODEL.format(legs=legs, servos=servos, stance=stance)


def _quadruped() -> tuple[World, State]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "quadruped.xml"
        path.write_text(mjcf())
        model = load(path, restitution=0.0, keyframe="falling")
    return model.world, model.state


QUADRUPED = Case(
    "quadruped",
    "robot on four legs that lands, bows and trots",
    _quadruped,
    dt=0.005,
    snapshots=(1.25,),
    steps=680,
    lasting=True,
    args=targets,
)
