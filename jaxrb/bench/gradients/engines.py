"""The first counterexample in another engine, where it is installed: MuJoCo in C.

It has no derivatives of its own through a whole motion, so these are differences of its motion with
steps so small that they are derivatives of what it computes. MJX is the same scheme.
"""

from __future__ import annotations

import importlib.util

import numpy as np

from .counterexamples import R

# An elastic contact: a stiffness [1/s^2] and no damping, as MuJoCo takes them.
_STIFFNESS = 5000.0
HEIGHTS = (0.4, 0.5, 0.5013, 0.5026)  # [m]
STEPS = (0.01, 0.002, 0.0005)  # [s]
_DIFFERENCE = 1e-6  # [m]


def ball_without_gravity(heights=HEIGHTS, steps=STEPS) -> str:
    """Lines to print: dz/dz0 of a ball that falls at 1 m/s and bounces, which is -1, by MuJoCo.

    Args:
        heights: at which it starts [m].
        steps: sizes of MuJoCo's steps [s].
    """
    if importlib.util.find_spec("mujoco") is None:
        return "  mujoco is not installed"
    lines = ["  the first derivative, -1, in MuJoCo C, by differences of 1e-6 m of its own motion"]
    heading = " ".join(f"{f'z0 = {height} m':>14}" for height in heights)
    lines.append(f"  {'':<24} {heading}")
    for dt in steps:
        found = " ".join(f"{_slope(height, dt):>14.4f}" for height in heights)
        lines.append(f"  {f'steps of {dt} s':<24} {found}")
    return "\n".join(lines)


def _slope(height: float, dt: float) -> float:
    above, below = (_final_height(height + s * _DIFFERENCE, dt) for s in (1, -1))
    return (above - below) / (2 * _DIFFERENCE)


def _final_height(height: float, dt: float) -> float:
    import mujoco  # noqa: PLC0415  (optional)

    model = mujoco.MjModel.from_xml_string(f"""<mujoco>
      <option timestep="{dt}" gravity="0 0 0"/>
      <default><geom condim="1" solref="{-_STIFFNESS} 0" solimp="1 1 0.001"/></default>
      <worldbody>
        <geom type="plane" size="0 0 1"/>
        <body pos="0 0 {height!r}"><freejoint/><geom type="sphere" size="{R}" mass="1"/></body>
      </worldbody>
    </mujoco>""")
    data = mujoco.MjData(model)
    data.qvel[2] = -1.0
    mujoco.mj_step(model, data, nstep=round(1 / dt))
    return float(np.asarray(data.qpos)[2])
