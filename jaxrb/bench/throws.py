"""Throws to a full pose after two or three bounces, each found by one call of `shoot`.

The goals are where random throws lie after a second and a half, so that each can be reached. The
throws that are looked for start from the same place and attitude, with another velocity and spin.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from ..bodies import RigidBody, State
from ..flows import ExactFlight
from ..impact import Frictionless
from ..optimize import RESULTS, Shots, pose_error, shoot
from ..shapes import Ellipsoid, HalfSpace
from ..simulate import EventDriven, World, simulate_batch
from .record import Column, Record, Table

BATCHES = (128,)
N_GOALS = 25
T1, BOUNCES = 1.5, (2, 3)
METHOD = EventDriven(ExactFlight(), dt=None)
# About which velocity and spin throws are drawn, of goals and of starts alike [m/s, rad/s].
_MEAN = np.array([1.0, 0.3, 2.0, 0.0, 0.0, 0.0])
_SPREAD = {"velocity": 1.0, "angular_velocity": 3.0}
ALL = "all goals"
# Which numbers of bounces the throws that are looked for may have.
SCENES = {"two or three bounces": BOUNCES, "any number of bounces": None}
TABLE = Table(
    f"throws of an ellipsoid to {N_GOALS} random reachable poses after {T1} s, from one call each",
    "goal",
    (
        Column("solved", "solved", "d"),
        Column("miss", "miss", ".1e", 8),
        Column("bounces", "bounces", "d"),
        Column("rounds", "rounds", "d"),
        Column("seconds", "seconds", ".2f"),
    ),
    (
        "batch: of starts; solved: below a miss of 1e-8, position [m] and rotation vector [rad]",
        f"{ALL}: how many are solved, and the largest of the other numbers",
        "seconds: of a call after one that compiled, whatever --rounds says",
    ),
)


def measure(record: Record, scene: str, batches: tuple[int, ...]) -> None:
    """Adds the rows of a scene."""
    goals = reachable(N_GOALS)
    for batch in batches:
        next(found(goals[:1], batch, SCENES[scene]))
        rows = []
        for number, (shots, seconds) in enumerate(found(goals, batch, SCENES[scene]), 1):
            row = {
                "solved": int(shots.result == RESULTS.successful),
                "miss": float(np.sqrt(shots.cost)),
                "bounces": int(shots.impacts),
                "rounds": shots.rounds,
                "seconds": seconds,
            }
            record.add(batch, f"{number}", **row)
            rows.append(row)
        most = {key: max(row[key] for row in rows) for key in rows[0]}
        record.add(batch, ALL, **{**most, "solved": sum(row["solved"] for row in rows)})


def problem() -> tuple[World, State]:
    """An ellipsoid above a floor, and the throw about which others are drawn."""
    body = RigidBody(Ellipsoid((0.06, 0.05, 0.04)), 0.5)
    return World([body], [HalfSpace()], contact_law=Frictionless(0.8)), thrown(_MEAN)


def thrown(motion) -> State:
    """A throw with a velocity and a spin, shape (6,) [m/s, rad/s]."""
    turn = np.array([[np.cos(np.pi / 8), np.sin(np.pi / 8), 0.0, 0.0]])
    motion = jnp.asarray(motion, float)
    place = jnp.array([[0.0, 0.0, 0.5]])
    return State(place, jnp.asarray(turn, float), motion[None, :3], motion[None, 3:])


def reachable(n: int, seed: int = 7) -> list[tuple[jax.Array, jax.Array]]:
    """Positions and quaternions where random throws lie after two or three bounces."""
    world, _ = problem()
    scale = np.repeat(list(_SPREAD.values()), 3)
    drawn = _MEAN + scale * np.random.default_rng(seed).normal(size=(8 * n, 6))
    sols = simulate_batch(world, jax.vmap(thrown)(jnp.asarray(drawn)), METHOD, T1, throw=False)
    fine = np.asarray(sols.successful) & np.isin(sols.impacts.count, BOUNCES)
    chosen = np.flatnonzero(fine)[:n]
    return [(sols.final.position[k, 0], sols.final.quaternion[k, 0]) for k in chosen]


def found(goals, starts: int, bounces: tuple[int, ...] | None) -> Iterator[tuple[Shots, float]]:
    """What `shoot` finds for each goal, and the time that it takes [s]."""
    world, state = problem()
    for position, quaternion in goals:
        goal = eqx.Partial(pose_error, position=position, quaternion=quaternion)
        begin = time.perf_counter()
        shots = shoot(
            world, state, METHOD, T1, residual=goal, impacts=bounces, starts=starts, spread=_SPREAD
        )
        yield shots, time.perf_counter() - begin
