"""The throw that is at a target soonest, among all throws at the greatest speed that lead there.

A ball is thrown at 10 m/s at most, past a wall and over a floor, which it hits without loss. Its
velocity is free, and so is the time at which it is to be at the target: `shoot` solves the four
equations of place and speed for these four numbers, from many starts at once, with the exact
derivative by the time. They find throws straight to the target, high and low, by the wall, by the
floor and by several bounces. How the time changes with the greatest speed, the multiplier of that
bound, tells which are the soonest of their kind: of these it is negative.
The wall is a mirror. So the least time straight and by the wall has a closed form: the first root
of g^2 t^4/4 + (g h - v^2) t^2 + d^2 + h^2 = 0, for a (mirrored) target at the distance d and the
height h.
Expected: the target is met to 1e-9 m, both times and multipliers to 1e-9.

Run: python examples/minimum_time_throw.py [--out DIR]
"""

import argparse
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import matplotlib as mpl
import numpy as np
from replays import write_replay

import jaxrb as rb
from jaxrb import optimize as ro
from jaxrb.viz.figure import BLACK, BLUE, GREEN, GREY, ORANGE, PURPLE

G, FASTEST, RADIUS, WALL = 9.81, 10.0, 0.1, 5.0  # [m/s^2], [m/s], of the ball [m], its x [m]
START, TARGET = np.array([0.0, 0.0, 1.5]), np.array([3.0, 1.0, 2.5])
METHOD = rb.EventDriven(rb.ExactFlight(), dt=None)
KINDS = {(): "straight", (0,): "by the floor", (1,): "by the wall"}
COLORS = {"straight": BLUE, "by the floor": GREEN, "by the wall": ORANGE, "by several": GREY}


def world():
    """A ball, a floor and a wall."""
    obstacles = [rb.HalfSpace(), rb.HalfSpace((-1.0, 0.0, 0.0), -WALL)]
    ball = rb.RigidBody(rb.Sphere(RADIUS), 0.5)
    return rb.World([ball], obstacles, gravity=(0, 0, -G), contact_law=rb.Frictionless(1.0))


def thrown(velocity):
    upright, still = jnp.array([[1.0, 0.0, 0.0, 0.0]]), jnp.zeros((1, 3))
    return rb.State(jnp.asarray(START)[None], upright, jnp.asarray(velocity)[None], still)


def missed(x):
    """The target, and the greatest speed: that of the throw follows from the energy at the end."""
    fall = 2 * G * (x.position[0, 2] - START[2])
    speed = jnp.sqrt(jnp.sum(x.velocity[0] ** 2) + fall)
    return jnp.append(x.position[0] - TARGET, speed - FASTEST)


def throws(starts=128) -> Any:
    """From many starts; see `jaxrb.optimize.Shots`."""
    toward = thrown((4.0, 1.0, 2.0))
    return ro.shoot(
        world(), toward, METHOD, t1=1.0, residual=missed, free=("velocity", "t1"), starts=starts,
        spread={"velocity": 4.0, "t1": 0.5}, tolerance=1e-11, rounds=1,
    ).all  # fmt: skip


class Throw(NamedTuple):
    """One that leads there.

    Attributes:
        kind: by what.
        time: when it is there [s].
        multiplier: the derivative of the time by the greatest speed [s^2/m].
        missed: the residual, largest.
        velocity: of the throw [m/s].
        sol: its flight.
    """

    kind: str
    time: float
    multiplier: float
    missed: float
    velocity: np.ndarray
    sol: rb.Solution


def distinct(shots: Any):
    """The throws that were found, each once, the soonest first."""
    solved = np.flatnonzero(np.sqrt(shots.cost) < 1e-9)
    _, first = np.unique(np.round(shots.time[solved], 6), return_index=True)
    flown, by = jax.jit(flight), jax.jit(jax.jacfwd(place, argnums=(0, 1)))
    found = []
    for k in solved[first]:
        velocity, time = jnp.asarray(shots.state.velocity[k, 0]), jnp.asarray(shots.time[k])
        sol = flown(velocity, time)
        hits = tuple(int(i) for i in sol.impacts.pair[:, 1] if i >= 0)
        # The place stays while velocity and time change, and the speed changes by one.
        by_velocity, by_time = by(velocity, time)
        rows = jnp.block([[by_velocity, by_time[:, None]], [velocity / FASTEST, jnp.zeros(1)]])
        multiplier = jnp.linalg.solve(rows, jnp.array([0.0, 0.0, 0.0, 1.0]))[3]
        worst = float(np.abs(shots.residual[k]).max())
        found.append(
            Throw(
                KINDS.get(hits, "by several"), float(time), float(multiplier), worst,
                np.asarray(velocity), sol,
            )
        )  # fmt: skip
    return found


def flight(velocity, time):
    save = rb.SaveAt(ts=jnp.linspace(0.0, 1.0, 200) * time, impacts=4)
    return rb.simulate(world(), thrown(velocity), METHOD, time, save=save, throw=False)


def place(velocity, time):
    """Where the ball is then [m]."""
    sol = rb.simulate(world(), thrown(velocity), METHOD, time, throw=False)
    return sol.final.position[0]


def known_time(kind, speed, late=False):
    """The closed form: the time [s] and its derivative by the speed [s^2/m]; NaN where too slow."""
    target = TARGET.copy()
    if kind == "by the wall":
        target[0] = 2 * (WALL - RADIUS) - target[0]
    away = target - START
    half = (speed**2 - G * away[2]) / 2
    root = np.sqrt(half**2 - (G / 2) ** 2 * (away @ away)) * (-1 if late else 1)
    time = np.sqrt(half - root) / (G / 2)
    return time, -speed * time / (2 * root)


def draw(found, path):
    """The throws from the side, and the least time by the greatest speed."""
    figure, (side, times) = rb.viz.new_figure(1, 2, size=(10, 5), width_ratios=(1, 1.25))
    kinds = set()
    for throw in found:
        color, soonest = COLORS[throw.kind], throw.multiplier < 0
        name = None if throw.kind in kinds else throw.kind
        kinds.add(throw.kind)
        lines = {"ls": "-", "lw": 2.0} if soonest else {"ls": ":", "lw": 0.8}
        place = throw.sol.states.position[:, 0]
        side.plot(place[:, 0], place[:, 2], color=color, **lines)
        times.plot(FASTEST, throw.time, "o", color=color, mfc=color if soonest else "white",
                   label=name, zorder=3)  # fmt: skip
    side.fill_between([-0.5, WALL], -0.3, 0.0, color="0.85", lw=0)
    side.fill_between([WALL, WALL + 0.3], -0.3, 7.0, color="0.85", lw=0)
    side.plot(*START[[0, 2]], "o", color=BLACK)
    side.plot(*TARGET[[0, 2]], "*", color=PURPLE, ms=13, zorder=5)
    side.set(aspect="equal", xlim=(-0.5, WALL + 0.3), ylim=(-0.3, 7), xlabel="x [m]")
    side.set_ylabel("z [m]")
    side.set_title("All throws that were found, from the side", loc="left")
    speeds = np.linspace(5.0, 12.0, 2000)
    with np.errstate(invalid="ignore"):
        for kind in ("straight", "by the wall"):
            for late in (False, True):
                known, _ = known_time(kind, speeds, late)
                times.plot(speeds, known, color=COLORS[kind], lw=1, ls=":" if late else "-")
    times.set(xlabel="greatest speed [m/s]", ylabel="time [s]", ylim=(0, 3))
    times.set_title("Lines: closed forms; full dots: the soonest of their kind", loc="left")
    times.legend(loc="upper left")
    path.parent.mkdir(parents=True, exist_ok=True)
    rb.viz.save_figure(figure, path)
    soonest = [throw.sol for throw in found if throw.multiplier < 0]
    sols = jax.tree.map(lambda *leaves: jnp.stack(leaves), *soonest)
    lanes = range(len(soonest))
    write_replay(path.with_suffix(".html"), world(), sols, lanes=lanes, speed=0.25)


def main(out=None):
    """Returns the throws, and the least times by kind with their multipliers in closed form."""
    shots = throws()
    found = distinct(shots)
    print(f"{(np.sqrt(shots.cost) < 1e-9).sum()} of {len(shots.cost)} starts lead to the target")
    print("throw            time [s]   d time/d speed   target missed by [m]")
    for one in found:
        print(f"{one.kind:14}{one.time:11.6f}{one.multiplier:17.6f}{one.missed:23.1e}")
    known = {kind: known_time(kind, FASTEST) for kind in ("straight", "by the wall")}
    for kind, (time, multiplier) in known.items():
        print(f"{kind} at the soonest in closed form: {time:.6f} s, {multiplier:.6f} s^2/m")
    if out is not None:
        with mpl.rc_context(rb.viz.STYLE):
            draw(found, Path(out) / "minimum_time_throw.png")
    return found, known


if __name__ == "__main__":
    jax.config.update("jax_enable_x64", True)
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--out", default="examples/figures", help="folder of the picture")
    main(parser.parse_args().out)
