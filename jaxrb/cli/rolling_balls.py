"""Three balls on a plane: one that slides and begins to roll, one that rolls until rolling friction
has stopped it, and one that spins on the spot until spinning friction has stopped it.

A ball of radius R that slides at v is slowed at mu g, while friction turns it at 5 mu g/(2 R); it
rolls from 2 v/(7 mu g) on, with 5/7 of its speed. A ball that rolls is slowed at 5 r g/(7 R) by
the torque r N of rolling friction, and one that spins at 5 s g/(2 R^2) by the torque s N of
spinning friction, with the normal force N = m g of all three.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..bodies import RigidBody, State
from ..impact import Coulomb
from ..shapes import HalfSpace, Sphere
from ..simulate import PairLaw, World
from ..viz.figure import BLUE, ORANGE, STYLE
from .case import Case

_RADIUS, _MASS, _GRAVITY = 0.03, 0.2, 9.81
_FRICTION = 0.2
_ROLLING, _SPINNING = 0.004, 0.001  # [m]
_SLIDES, _ROLLS, _SPINS = 1.4, 1.0, 20.0  # speeds at the start [m/s], and a rate [rad/s]


def _balls() -> tuple[World, State]:
    ball = RigidBody(Sphere(_RADIUS), _MASS)
    laws = [
        Coulomb(_FRICTION, restitution=0.0),
        Coulomb(_FRICTION, restitution=0.0, rolling_friction=_ROLLING),
        Coulomb(_FRICTION, restitution=0.0, spinning_friction=_SPINNING),
    ]
    world = World(
        [ball] * 3,
        [HalfSpace()],
        gravity=(0.0, 0.0, -_GRAVITY),
        contact_law=laws[0],
        pairs=[],
        pair_laws=[PairLaw(law, k, obstacle=0) for k, law in enumerate(laws) if k],
    )
    state = State(
        position=[[0.0, 0.15, _RADIUS], [0.0, 0.0, _RADIUS], [0.3, -0.15, _RADIUS]],
        quaternion=[[1.0, 0.0, 0.0, 0.0]] * 3,
        velocity=[[_SLIDES, 0.0, 0.0], [_ROLLS, 0.0, 0.0], [0.0, 0.0, 0.0]],
        angular_velocity=[[0.0, 0.0, 0.0], [0.0, _ROLLS / _RADIUS, 0.0], [0.0, 0.0, _SPINS]],
    )
    return world, state


def begins_to_roll() -> float:
    """When the first ball does [s]."""
    return 2 * _SLIDES / (7 * _FRICTION * _GRAVITY)


def closed_form(t: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The speeds of the first and the second ball [m/s], and the rate of the third [rad/s], at
    times [s]."""
    sliding = np.maximum(_SLIDES - _FRICTION * _GRAVITY * t, 5 / 7 * _SLIDES)
    rolling = np.maximum(_ROLLS - 5 * _ROLLING * _GRAVITY / (7 * _RADIUS) * t, 0.0)
    spinning = np.maximum(_SPINS - 5 * _SPINNING * _GRAVITY / (2 * _RADIUS**2) * t, 0.0)
    return sliding, rolling, spinning


def _found(states: State) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The same of a run."""
    along = np.asarray(states.velocity)[..., 0]
    return along[:, 0], along[:, 1], np.asarray(states.angular_velocity)[:, 2, 2]


_NAMES = ("slides and rolls", "rolls", "spins")
_UNITS = ("m/s", "m/s", "rad/s")


def _report(t: np.ndarray, states: State) -> list[str]:
    lines = [f"{'ball':<16}  {'at the end':>18}  {'closed form':>14}  {'largest error':>14}"]
    for name, unit, found, exact in zip(
        _NAMES, _UNITS, _found(states), closed_form(t), strict=True
    ):
        error = np.abs(found - exact).max()
        shown = f"{found[-1] + 0.0:.9f} {unit}"
        lines.append(f"{name:<16}  {shown:>18}  {exact[-1]:>14.9f}  {error:>14.1e}")
    lines.append(f"the first ball rolls from {begins_to_roll():.6f} s on, with 5/7 of its speed")
    return lines


def _plot(t: np.ndarray, states: State, ax: Any) -> None:
    from matplotlib import rc_context  # noqa: PLC0415  (optional)

    with rc_context(STYLE):
        scales = (1.0, 1.0, _RADIUS)
        parts = zip(_NAMES, scales, _found(states), closed_form(t), strict=True)
        for k, (name, scale, found, exact) in enumerate(parts):
            label = "closed form" if k == 0 else None
            ax.plot(t, scale * found, color=BLUE, lw=3, alpha=0.4, label=None if k else "simulated")
            ax.plot(t, scale * exact, "--", color=ORANGE, lw=1, label=label)
            ax.annotate(
                name,
                (t[len(t) // 8], scale * exact[len(t) // 8]),
                (4, 4),
                textcoords="offset points",
            )
        ax.set_xlabel("time [s]")
        ax.set_ylabel("speed, or rate times radius [m/s]")
        ax.legend(frameon=False)


ROLLING_BALLS = Case(
    "rolling-ball",
    "balls that slide, roll and spin until friction has stopped them",
    _balls,
    dt=0.01,
    snapshots=(0.0, 0.35, 0.7, 1.5),
    steps=150,
    lasting=True,
    report=_report,
    plot=_plot,
)
