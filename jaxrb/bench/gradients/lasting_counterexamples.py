"""The same of contacts that last: bodies that slide, stop, roll and rest.

Slip ends within a step. Of a step of which it takes the part f the way is too long by
mu g dt^2 f (1 - f)/2, of second order. The derivative of that is of first order, as f shifts with
the time at which slip ends: at most mu g dt/2 times the derivative of that time. The bars of two
examples are made of it; the others are exact to round-off.
"""

from __future__ import annotations

import jax.numpy as jnp

from ...impact import Coulomb, Frictionless
from ...shapes import Box, HalfSpace, Sphere
from ...simulate import LGVCI, MoreauJean
from .columns import Motion
from .counterexamples import Counterexample, G, R, scene

DT = 0.005  # [s]
_HALF = (0.2, 0.2, 0.05)
# What lands, and what is on the plane from the start: without impacts, derivatives of steps are
# those of the motion, and their programs are the smaller ones.
_LANDING = LGVCI(DT, on_zeno="rest")
_STANDING = MoreauJean(DT, impacts="stepped")


def _on_plane(shape, height: float, law, velocity: list, t1: float, gravity: tuple) -> Motion:
    position = [[0.0, 0.0, height]]
    plane = (HalfSpace(),)
    return scene([shape], law, position, [velocity], t1, obstacles=plane, gravity=gravity, dt=DT)


def _block_stops(p):
    v, mu, g = p[:3]
    law = Coulomb(mu, 0 * mu)
    return _on_plane(Box(_HALF), _HALF[2], law, [v, 0, 0], 0.6, (0, 0, -g))


def _block_on_incline(p):
    angle, mu = p[:2]
    gravity = (G * jnp.sin(angle), 0, -G * jnp.cos(angle))
    return _on_plane(Box(_HALF), _HALF[2], Coulomb(mu, 0 * mu), [0, 0, 0], 0.5, gravity)


def _slides_closed(p):
    angle, mu = p[:2]
    return [G * (jnp.sin(angle) - mu * jnp.cos(angle)) * 0.125]


def _ball_rolls(p):
    v, mu = p[:2]
    return _on_plane(Sphere(R), R, Coulomb(mu, 0 * mu), [v, 0, 0], 0.5, (0, 0, -G))


def _ball_rolls_closed(p):
    """It slips until v has fallen to 5/7, for 2 v/(7 mu g), and then rolls on."""
    v, mu = p[:2]
    slips = 2 * v / (7 * mu * G)
    way = v * slips - mu * G * slips**2 / 2
    return [way + 5 / 7 * v * (0.5 - slips), 5 / 7 * v / R]


def _ball_on_incline(p):
    angle, mu = p[:2]
    gravity = (G * jnp.sin(angle), 0, -G * jnp.cos(angle))
    return _on_plane(Sphere(R), R, Coulomb(mu, 0 * mu), [0, 0, 0], 0.5, gravity)


def _comes_to_rest(p):
    z0, e = p[:2]
    law, plane = Frictionless(e), (HalfSpace(),)
    velocity, gravity = [[0.3, 0, 0]], (0, 0, -G)
    return scene(
        [Sphere(R)], law, [[0, 0, z0]], velocity, 1.5, obstacles=plane, gravity=gravity, dt=DT
    )


def lasting() -> list[Counterexample]:
    """Those of contacts that last, whose programs take minutes to compile."""
    return _of_a_ball() + _of_a_block()


def _of_a_ball() -> list[Counterexample]:
    return [
        Counterexample(
            "a ball bounces until it lies",
            "",
            ("z0", "restitution"),
            (0.4, 0.4),
            ("x", "z"),
            _comes_to_rest,
            lambda p: [0.45 + 0 * p[0], R + 0 * p[0]],
            _LANDING,
        ),
        Counterexample(
            "a ball slips, then rolls",
            "",
            ("velocity", "friction"),
            (1.0, 0.2),
            ("x", "wy"),
            _ball_rolls,
            _ball_rolls_closed,
            _STANDING,
            bar=7 * DT,
        ),
        Counterexample(
            "a ball rolls down an incline",
            "by friction not 0 where that is smoothed",
            ("angle", "friction"),
            (0.2, 0.5),
            ("x", "vx"),
            _ball_on_incline,
            lambda p: [5 / 7 * G * jnp.sin(p[0]) * 0.125, 5 / 7 * G * jnp.sin(p[0]) * 0.5],
            _STANDING,
        ),
    ]


def _of_a_block() -> list[Counterexample]:
    return [
        Counterexample(
            "a block slides and stops",
            "never stops where friction is smoothed",
            ("velocity", "friction", "gravity"),
            (1.0, 0.4, G),
            ("x", "vx"),
            _block_stops,
            lambda p: [p[0] ** 2 / (2 * p[1] * p[2]), 0 * p[0]],
            _STANDING,
            bar=4 * DT,
        ),
        Counterexample(
            "a block lies on an incline",
            "creeps where friction is smoothed",
            ("angle", "friction"),
            (0.2, 0.5),
            ("x",),
            _block_on_incline,
            lambda p: [0 * p[0]],
            _STANDING,
        ),
        Counterexample(
            "a block slides down an incline",
            "google-deepmind/mujoco 2237: NaN",
            ("angle", "friction"),
            (0.5, 0.2),
            ("x",),
            _block_on_incline,
            _slides_closed,
            _STANDING,
        ),
    ]
