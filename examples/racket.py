"""Keepy-uppy: the strokes of a racket that catch a stray ball and keep it up for ten bounces.

A ball comes down beside the middle of a racket, drifting away. The racket makes one stroke every
0.6 s: it rises and sinks and leans over meanwhile. How far it rises, and how far it leans about two
axes, is chosen anew for each stroke. Every bounce takes a fifth of the speed, which the racket
gives back as it moves. Gauss-Newton multiple shooting finds ten strokes that lean little,
after which the ball goes straight up and down over the middle; it starts from ten equal strokes.
Expected: a few iterations, one bounce per stroke, the end met to 1e-9, also in a simulation with
steps that are ten times smaller: the flight of a ball is exact with any.

Run: python examples/racket.py [--out DIR]
"""

import argparse
import dataclasses
from pathlib import Path

import jax
import jax.numpy as jnp
import matplotlib as mpl
import numpy as np
from replays import write_replay

import jaxrb as rb
from jaxrb import optimize as ro
from jaxrb.viz.figure import BLUE, GREEN, GREY, ORANGE

STROKES, PERIOD, G = 10, 0.6, 9.81
BALL, DISC = 0.02, 0.08  # radii of ball and racket [m]
RESTITUTION = 0.8
# What keeps a ball up that is hit a quarter of a period after the start of a stroke: its speed
# there [m/s], the rise of the racket [m], and where the ball is at the start of a stroke.
SPEED = G * PERIOD / 2
RISE = SPEED * (1 - RESTITUTION) / (1 + RESTITUTION) * PERIOD / np.pi
HEIGHT = BALL + RISE / 2 + SPEED * PERIOD / 4 - G * PERIOD**2 / 32
FALL = -SPEED + G * PERIOD / 4


def stroke(t, args):
    """Pose of the racket, which is level and at rest at the start of each stroke."""
    rise, about_x, about_y = args * jnp.sin(jnp.pi * t / PERIOD) ** 2
    zero = jnp.zeros_like(rise)
    return jnp.stack([zero, zero, rise]), jnp.stack([zero + 1, about_x / 2, about_y / 2, zero])


def missed(x):
    """Of a ball over the middle, at the start of a stroke: place [m] and velocity [m/s]."""
    wanted = jnp.array([[0.0, 0.0, HEIGHT], [0.0, 0.0, FALL]])
    return jnp.concatenate([x.position[0], x.velocity[0]]) - wanted.ravel()


def effort(x, u):
    """Rises unlike `RISE`, leans, and a ball that is aside, each by what it may be."""
    return jnp.concatenate([(u - jnp.array([RISE, 0, 0])) / 0.1, x.position[0, :2] / 0.1])


def problem():
    """Ten strokes that lean little, for a ball that strays."""
    ball = rb.RigidBody(rb.Sphere(BALL), 0.003)
    racket = rb.Moving(rb.HalfSpace(), stroke)  # its bounces lie within the disc
    law = rb.Frictionless(RESTITUTION)
    world = rb.World([ball], [racket], gravity=(0.0, 0.0, -G), contact_law=law)
    place, velocity = jnp.array([[0.05, -0.02, HEIGHT + 0.03]]), jnp.array([[0.08, -0.1, FALL]])
    state = rb.State(place, jnp.array([[1.0, 0, 0, 0]]), velocity, jnp.zeros((1, 3)))
    return ro.OptimalControl(
        world, state, rb.LGVCI(dt=0.01), t1=STROKES * PERIOD, stages=STROKES,
        control=ro.Inputs(3), cost=effort, terminal=missed,
    )  # fmt: skip


def sketch():
    """Equal strokes, and a ball that goes straight up and down."""
    nodes = STROKES + 1
    states = rb.State(
        np.tile([0.0, 0.0, HEIGHT], (nodes, 1, 1)),
        np.tile([1.0, 0.0, 0.0, 0.0], (nodes, 1, 1)),
        np.tile([0.0, 0.0, FALL], (nodes, 1, 1)),
        np.zeros((nodes, 1, 3)),
    )
    return np.tile([RISE, 0.0, 0.0], (STROKES, 1)), states


def flown(plan, controls):
    """All states of a simulation stroke by stroke, their times, and the solutions."""
    stages = plan.rollout(controls, rb.SaveAt(every=1, impacts=2))
    states = jax.tree.map(lambda *parts: jnp.concatenate(parts), *(sol.states for sol in stages))
    times = np.concatenate([np.asarray(sol.ts) for sol in stages])
    return states, times, stages


def draw(plan, controls, path):
    """Heights over time, the ball from above with its bounces, and the strokes."""
    states, times, stages = flown(plan, controls)
    place = 100 * np.asarray(states.position[:, 0])
    hits = 100 * np.stack([np.asarray(sol.impacts.position[0]) for sol in stages])
    when = np.array([float(sol.impacts.time[0]) for sol in stages])
    chosen = controls[np.minimum((times / PERIOD + 1e-9).astype(int), STROKES - 1)]
    racket = 100 * chosen[:, 0] * np.sin(np.pi * times / PERIOD) ** 2
    figure, axes = rb.viz.new_figure(2, 2, size=(9.5, 4.8), width_ratios=(1.6, 1))
    (heights, above), (strokes, lean) = axes
    heights.plot(times, place[:, 2], color=BLUE, lw=1, label="centre of the ball")
    heights.plot(times, racket, color=ORANGE, lw=1.5, label="racket")
    heights.plot(when, hits[:, 2], ".", color="black", ms=4, label="bounces")
    heights.set(ylabel="height [cm]", xlabel="time [s]", ylim=(-3, 68))
    heights.legend(loc="upper right", ncols=3)
    turn = np.linspace(0, 2 * np.pi, 100)
    above.plot(100 * DISC * np.cos(turn), 100 * DISC * np.sin(turn), color=ORANGE, lw=1.5)
    above.plot(place[:, 0], place[:, 1], color=BLUE, lw=1)
    above.plot(hits[:, 0], hits[:, 1], ".", color="black", ms=4)
    above.annotate("start", place[0, :2], (0, 4), textcoords="offset points", ha="center")
    above.set(aspect="equal", xlabel="x [cm]", ylabel="y [cm]", title="From above")
    number = np.arange(STROKES) + 1
    strokes.axhline(100 * RISE, color=GREY, lw=0.8, label="of the sketch")
    strokes.plot(number, 100 * controls[:, 0], "o", color=ORANGE, label="chosen")
    strokes.set(xlabel="stroke", ylabel="rise [cm]", xticks=number)
    strokes.legend()
    for k, (axis, color) in enumerate((("x", GREEN), ("y", BLUE))):
        lean.bar(number + 0.4 * k - 0.2, np.degrees(controls[:, 1 + k]), 0.4, color=color,
                 label=f"about {axis}")  # fmt: skip
    lean.axhline(0.0, color=GREY, lw=0.8)
    lean.set(xlabel="stroke", ylabel="lean [degrees]", xticks=number)
    lean.legend()
    path.parent.mkdir(parents=True, exist_ok=True)
    rb.viz.save_figure(figure, path)
    write_replay(path.with_suffix(".html"), plan.world, stages, args=controls)


def main(out=None):
    """Returns the solution; the numbers of bounces by stroke, and how far from the middle they
    are at most [m]; and what a simulation with steps of a tenth misses at the end."""
    plan = problem()
    solution = ro.solve(plan, ro.GaussNewtonShooting(), sketch())
    print(solution)
    finer = dataclasses.replace(plan, method=rb.LGVCI(dt=0.001))
    stages = finer.rollout(solution.controls, rb.SaveAt(final=True, impacts=1))
    bounces = [int(sol.impacts.count) for sol in stages]
    hits = np.concatenate([np.asarray(sol.impacts.position) for sol in stages])
    aside = float(np.linalg.norm(hits[:, :2], axis=1).max())
    apart = float(jnp.abs(missed(stages[-1].final)).max())
    print(f"{sum(bounces)} bounces, at most {100 * aside:.1f} cm aside", end="; ")
    print(f"with steps of 1 ms the end is missed by {apart:.1e}")
    if out is not None:
        with mpl.rc_context(rb.viz.STYLE):
            draw(plan, solution.controls, Path(out) / "racket.png")
    return solution, bounces, aside, apart


if __name__ == "__main__":
    jax.config.update("jax_enable_x64", True)
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--out", default="examples/figures", help="folder of the picture")
    main(parser.parse_args().out)
