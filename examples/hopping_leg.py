"""A body that hops on one leg: ten hops by the motor in the leg, from a drop to a steady gait.

A body on a vertical rail carries a foot on a slider with a spring, and a motor in the slider pushes
one against the other. The foot bounces on the floor with restitution 0.8: each hop takes energy,
which the motor gives back. It pushes by two sines and two cosines of the period of a hop, and how
much of each is chosen anew for each hop. At first body and foot are let go at rest.
Gauss-Newton multiple shooting finds the pushes, as near as can be to those of the steady gait,
after which the tenth hop ends as that begins, from a sketch in which every hop does so.
Expected: some five iterations, one bounce for each hop, stages that meet to 1e-10, and an end that
a simulation with steps that are ten times smaller misses by the error of the steps, 0.075 m and m/s
at most; a plan in steps of 2 ms, by 0.014.

Run: python examples/hopping_leg.py [--out DIR]
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
from jaxrb.viz.figure import BLUE, GREY, ORANGE

HOPS, PERIOD, G, DT = 10, 0.4, 9.81, 0.005
BODY, FOOT, LEG, MASS = 0.08, 0.04, 0.35, 1.0  # radii, length [m]; of each of both [kg]
STIFFNESS = (2 * np.pi / PERIOD) ** 2 * MASS / 2  # the leg swings once in a hop
# The steady gait: the height of the centre of mass at the top of a hop [m], how fast the leg,
# relaxed there, shortens [m/s], and the pushes, which are of the weight of both [N].
TOP, SHORTENING = FOOT + LEG / 2 + G * PERIOD**2 / 8, 0.872
PUSHES = np.array([2 * MASS * G, 0.0, 0.0, 0.0])


def push(t, state, args):
    """The force of the motor, whatever the state."""
    phase = 2 * jnp.pi * t / PERIOD * jnp.array([1.0, 1.0, 2.0, 2.0])
    waves = jnp.where(jnp.array([True, False] * 2), jnp.cos(phase), jnp.sin(phase))
    return jnp.sum(args * waves)


def at_top(shortening):
    """The state at the top of a hop, with a leg that is relaxed but shortens at a rate."""
    place, velocity, zero = np.zeros((2, 3)), np.zeros((2, 3)), np.zeros((2, 3))
    place[:, 2] = TOP + LEG / 2, TOP - LEG / 2
    velocity[:, 2] = -shortening / 2, shortening / 2
    return rb.State(*map(jnp.asarray, (place, np.eye(4)[[0, 0]], velocity, zero)))


def missed(x):
    """By how much a state differs from that at the top of a hop of the steady gait."""
    wanted = at_top(SHORTENING)
    parts = x.position - wanted.position, x.velocity - wanted.velocity
    return jnp.concatenate([part[:, 2] for part in parts])


def unsteady(x, u):
    """Pushes and tops of hops that differ from those of the steady gait."""
    weights = jnp.array([10.0, 10.0, 1.0, 1.0])
    return jnp.concatenate([(u - jnp.asarray(PUSHES)) / 10, weights * missed(x)])


def problem():
    """Ten hops that are hardly unsteady, from a leg at rest."""
    bodies = [rb.RigidBody(rb.Sphere(radius), MASS) for radius in (BODY, FOOT)]
    up = (0.0, 0.0, 1.0)
    below = (0.0, 0.0, -LEG)
    leg = rb.Slider(1, axis=up, other=0, other_anchor=below, stiffness=STIFFNESS)
    motor = rb.Motor(1, push, velocity_dependent=False)
    world = rb.World(
        bodies, [rb.HalfSpace()], gravity=(0.0, 0.0, -G), joints=[rb.Slider(0, axis=up), leg],
        forces=[motor], contact_law=rb.Frictionless(0.8),
    )  # fmt: skip
    return ro.OptimalControl(
        world, at_top(0.0), rb.LGVCI(dt=DT), t1=HOPS * PERIOD, stages=HOPS,
        control=ro.Inputs(4), cost=unsteady, terminal=missed,
    )  # fmt: skip


def sketch():
    """The steady gait in every hop."""
    steady = at_top(SHORTENING)
    states = jax.tree.map(lambda leaf: np.tile(leaf, (HOPS + 1, 1, 1)), steady)
    return np.tile(PUSHES, (HOPS, 1)), states


def flown(plan, controls):
    """Times and heights of body and foot in a simulation hop by hop, and its bounces."""
    stages = plan.rollout(controls, rb.SaveAt(every=1, impacts=2))
    times = np.concatenate([np.asarray(sol.ts) for sol in stages])
    heights = np.concatenate([np.asarray(sol.states.position[..., 2]) for sol in stages])
    return times, heights, stages


def draw(plan, controls, path):
    """Heights of body and foot, and the force of the motor."""
    times, heights, stages = flown(plan, controls)
    figure, (above, below) = rb.viz.new_figure(2, 1, size=(9.5, 5), height_ratios=(1.7, 1))
    above.fill_between(times, heights[:, 0] - BODY, heights[:, 0] + BODY, color=BLUE, lw=0,
                       alpha=0.3, label="body")  # fmt: skip
    above.fill_between(times, heights[:, 1] - FOOT, heights[:, 1] + FOOT, color=ORANGE, lw=0,
                       alpha=0.5, label="foot")  # fmt: skip
    above.plot(times, heights.mean(axis=1), color="black", lw=1, label="centre of mass")
    hits = [float(sol.impacts.time[0]) for sol in stages]
    above.plot(hits, np.zeros(len(hits)), "^", color="black", ms=5, clip_on=False, label="bounces")
    above.set(ylabel="height [m]", ylim=(0, 0.85), xlim=(0, HOPS * PERIOD))
    above.legend(loc="upper right", ncols=4)
    number = np.minimum((times / PERIOD + 1e-9).astype(int), HOPS - 1)
    forces = [push(t, None, controls[k]) for t, k in zip(times, number, strict=True)]
    below.plot(times, forces, color=ORANGE, lw=1)
    for k in range(1, HOPS):
        below.axvline(k * PERIOD, color=GREY, lw=0.5)
    below.set(xlabel="time [s]", ylabel="force of the motor [N]", xlim=(0, HOPS * PERIOD))
    path.parent.mkdir(parents=True, exist_ok=True)
    rb.viz.save_figure(figure, path)
    write_replay(path.with_suffix(".html"), plan.world, stages)


def main(out=None):
    """Returns the solution, the numbers of bounces by hop, and what a simulation with steps of a
    tenth misses at the end."""
    plan = problem()
    solution = ro.solve(plan, ro.GaussNewtonShooting(), sketch())
    print(solution)
    finer = dataclasses.replace(plan, method=rb.LGVCI(dt=DT / 10))
    stages = finer.rollout(solution.controls, rb.SaveAt(final=True))
    apart = float(jnp.abs(missed(stages[-1].final)).max())
    bounces = [int(sol.impacts.count) for sol in stages]
    print(f"bounces {bounces}, the end missed by {apart:.1e}, in steps of {1e3 * DT / 10:g} ms")
    if out is not None:
        with mpl.rc_context(rb.viz.STYLE):
            draw(plan, solution.controls, Path(out) / "hopping_leg.png")
    return solution, bounces, apart


if __name__ == "__main__":
    jax.config.update("jax_enable_x64", True)
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--out", default="examples/figures", help="folder of the picture")
    main(parser.parse_args().out)
