"""Euler's disc: a coin that is spun on a table turns round faster and faster as it falls.

A thin disc that rolls while its centre stays, tilted by alpha from the plane, has its axis go round
the vertical at the rate

    Omega^2 = 4 g/(a sin alpha)

(Moffatt, "Euler's disk and its finite-time singularity", Nature 404, 833, 2000). Friction against
rolling and spinning lets it fall. The plane is smooth: on one that holds the disc its centre has to
follow as it falls, comes to go round in a circle, and the rate is another.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..bodies import RigidBody, State
from ..impact import Coulomb
from ..shapes import Cylinder, HalfSpace
from ..simulate import World
from ..viz.figure import BLUE, ORANGE, STYLE
from .case import Case

_RADIUS, _HALF_HEIGHT, _MASS, _GRAVITY = 0.0375, 0.0005, 0.04, 9.81
_FRICTION = 0.02
# Against rolling and spinning [m]: their torques are about along the angular velocity.
_ROLLING, _SPINNING = 0.0006, 0.0002
_START = 0.6  # tilt [rad]
# Where the rim is the circle (see `shapes.rim`), and the start has died away.
_FITTED = (0.2, 0.55)
_SHOWN = (0.5, 0.4, 0.3, 0.25)  # tilts of the table [rad]


def _spun() -> tuple[World, State]:
    """It rolls about its centre, which stays: the angular velocity points from there to the rim.

    With n the axis, d from the centre of the lower face to the contact and h the half height, it is
    -(Omega sin alpha)(d - n h/a), for which the moment of the plane's force m g turns the angular
    momentum at the rate Omega.
    """
    a, h, tilt = _RADIUS, _HALF_HEIGHT, _START
    sine, cosine = math.sin(tilt), math.cos(tilt)
    across, along = _MASS * (a**2 / 4 + h**2 / 3), _MASS * a**2 / 2
    moment = _MASS * _GRAVITY * (a * cosine - h * sine)
    rate = math.sqrt(moment / (sine * (across * cosine - along * sine * h / a)))
    disc = RigidBody(Cylinder(a, h), _MASS)
    law = Coulomb(
        _FRICTION, restitution=0.0, rolling_friction=_ROLLING, spinning_friction=_SPINNING
    )
    world = World([disc], [HalfSpace()], contact_law=law, gravity=(0.0, 0.0, -_GRAVITY))
    # Turned about y: the axis leans to x, and the contact is on that side.
    state = State(
        position=[[0.0, 0.0, a * sine + h * cosine]],
        quaternion=[[math.cos(tilt / 2), 0.0, math.sin(tilt / 2), 0.0]],
        velocity=[[0.0, 0.0, 0.0]],
        angular_velocity=[[-rate * sine, 0.0, rate * sine * h / a]],
    )
    return world, state


def thin_disc_rate(tilt: np.ndarray) -> np.ndarray:
    """Omega by the closed form [rad/s], of tilts [rad]."""
    return np.sqrt(4 * _GRAVITY / (_RADIUS * np.sin(tilt)))


def precession(t: np.ndarray, states: State) -> tuple[np.ndarray, np.ndarray]:
    """The tilt [rad] and the rate at which the axis goes round the vertical [rad/s], by
    differences, of all times but the first and the last [s]."""
    w, x, y, z = np.asarray(states.quaternion)[:, 0].T
    axis = 2 * (x * z + w * y), 2 * (y * z - w * x), 1 - 2 * (x * x + y * y)
    around = np.unwrap(np.arctan2(axis[1], axis[0]))
    rate = (around[2:] - around[:-2]) / (t[2:] - t[:-2])
    return np.arccos(np.clip(axis[2], -1, 1))[1:-1], rate


def exponent(tilt: np.ndarray, rate: np.ndarray) -> float:
    """p of Omega ~ (sin alpha)^p, by least squares where the rim is a circle."""
    fitted = (tilt > _FITTED[0]) & (tilt < _FITTED[1])
    return float(np.polyfit(np.log(np.sin(tilt[fitted])), np.log(rate[fitted]), 1)[0])


def _report(t: np.ndarray, states: State) -> list[str]:
    tilt, rate = precession(t, states)
    lines = [f"{'tilt [rad]':>10}  {'rate [rad/s]':>12}  {'sqrt(4 g/(a sin tilt))':>22}"]
    for shown in _SHOWN:
        if tilt.min() > shown:
            break
        k = int(np.argmax(tilt <= shown))
        lines.append(f"{tilt[k]:>10.4f}  {rate[k]:>12.4f}  {thin_disc_rate(tilt[k]):>22.4f}")
    if tilt.min() < _FITTED[1]:
        low, high = max(_FITTED[0], tilt.min()), _FITTED[1]
        found = exponent(tilt, rate)
        lines.append(f"rate ~ (sin tilt)^p between {low:.2f} and {high:.2f} rad: p = {found:.4f}")
    lines += [
        "the law is of a thin disc that slides on the plane as its centre stays: with friction of",
        "0.8, which holds the rim, the rate is up to 17 % lower; nutation makes it swing by 1 %",
        "the run ends near a tilt of 0.2 rad: below, the rim is drawn in by up to 0.003 of its",
        "radius, and corners of a hexagon on it bump on the plane as the disc rolls over them",
    ]
    return lines


def _plot(t: np.ndarray, states: State, ax: Any) -> None:
    from matplotlib import rc_context  # noqa: PLC0415  (optional)

    tilt, rate = precession(t, states)
    with rc_context(STYLE):
        ax.loglog(tilt, rate, color=BLUE, label="simulated")
        law = r"$\sqrt{4g/(a\,\sin\alpha)}$"
        ax.loglog(tilt, thin_disc_rate(tilt), "--", color=ORANGE, label=law)
        for axis, ticks in ((ax.xaxis, (0.2, 0.3, 0.4, 0.5, 0.6)), (ax.yaxis, (50, 60, 70))):
            axis.set_ticks(ticks, [f"{tick:g}" for tick in ticks])
            axis.set_ticks([], minor=True)
        ax.set_xlabel(r"tilt $\alpha$ [rad]")
        ax.set_ylabel(r"rate of the axis about the vertical $\Omega$ [rad/s]")
        ax.legend(frameon=False)


EULERS_DISC = Case(
    "eulers-disc",
    "disc that is spun on a plane and goes round ever faster as it falls",
    _spun,
    dt=0.002,
    snapshots=(1.0,),
    steps=850,
    lasting=True,
    report=_report,
    plot=_plot,
)
