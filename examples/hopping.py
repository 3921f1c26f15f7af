"""Hopping: kicks that make an ellipsoid hop along a curve to a pose.

An ellipsoid without friction bounces with restitution 0.6. At the start of each of eight stages
a kick changes its velocity and its spin. Gauss-Newton multiple shooting finds small ones that
lead, over eight bounces, to a goal: 1 m along, 0.5 m aside and turned by 0.6 rad, exactly. It
starts from a sketch: at every node the same height and fall, on a straight line.
Expected: about twenty iterations, stages that meet to 1e-10, and a rollout that is the plan.

Run: python examples/hopping.py [--out DIR]
"""

import argparse
from pathlib import Path

import jax
import jax.numpy as jnp
import matplotlib as mpl
import numpy as np
from replays import write_replay

import jaxrb as rb
from jaxrb import optimize as ro

AXES = (0.06, 0.05, 0.04)
T1, STAGES = 2.0, 8
HEIGHT, FALL = 0.089, -0.735  # a little before a bounce [m], [m/s]
GOAL, TURN = np.array([1.0, 0.5, HEIGHT]), 0.6
KICK = np.array([0.0, 0.0, -0.84, 0.0, 0.0, 0.0])  # what a bounce loses


def cost(x, u):
    """Kicks, and hops of other heights."""
    hop = 0.5 * (x.position[0, 2:] - HEIGHT), 0.2 * (x.velocity[0, 2:] - FALL)
    return jnp.concatenate([0.05 * u, *hop])


def miss(x):
    """Of the goal: place [m], attitude [rad]."""
    goal = jnp.array([np.cos(TURN / 2), 0.0, 0.0, np.sin(TURN / 2)])
    turn = rb.lie.quaternion.local(goal, x.quaternion[0])
    return jnp.concatenate([x.position[0] - jnp.asarray(GOAL), turn])


def problem():
    """From rest, but for the fall."""
    body, law = rb.RigidBody(rb.Ellipsoid(AXES), 0.5), rb.Frictionless(0.6)
    world = rb.World([body], [rb.HalfSpace()], contact_law=law)
    start = jax.tree.map(lambda leaf: jnp.asarray(leaf[0]), sketch())
    still = rb.State(
        start.position, start.quaternion, jnp.array([[0.0, 0.0, FALL]]), jnp.zeros((1, 3))
    )
    method = rb.EventDriven(rb.LieVariational(), 0.01, max_impacts_per_step=8, max_impacts=12)
    return ro.OptimalControl(
        world, still, method, t1=T1, stages=STAGES, control=ro.Kick(0), cost=cost, terminal=miss
    )


def sketch():
    """States on the straight line to the goal."""
    part = np.linspace(0.0, 1.0, STAGES + 1)
    half, zero = part * TURN / 2, 0.0 * part
    place = part[:, None] * (GOAL * [1, 1, 0]) + [0.0, 0.0, HEIGHT]
    return rb.State(
        place[:, None],
        np.stack([np.cos(half), zero, zero, np.sin(half)], axis=1)[:, None],
        np.tile([*GOAL[:2] / T1, FALL], (STAGES + 1, 1, 1)),
        np.tile([0.0, 0.0, TURN / T1], (STAGES + 1, 1, 1)),
    )


def guess():
    """Kicks that make up for what bounces lose, and the sketch."""
    return np.tile(KICK, (STAGES, 1)), sketch()


def draw(solution, stages, path):
    """The path of the centre with the body at the nodes, from the side; and the kicks."""
    import matplotlib.pyplot as plt  # noqa: PLC0415  (after the choice of its backend)

    figure, (side, kicks) = plt.subplots(
        2, 1, figsize=(9, 5), layout="constrained", height_ratios=(1, 1.6)
    )
    path_x, path_z = (
        np.concatenate([np.asarray(sol.states.position[:, 0, k]) for sol in stages]) for k in (0, 2)
    )
    side.plot(path_x, path_z, color="C0", lw=1)
    s = np.linspace(0.0, 2 * np.pi, 60)
    rim = np.stack([AXES[0] * np.cos(s), 0 * s, AXES[2] * np.sin(s)])
    nodes = jax.tree.map(jnp.asarray, solution.states)
    for turn, place in zip(
        np.asarray(nodes.rotation_matrix), np.asarray(nodes.position), strict=True
    ):
        x, _, z = turn[0] @ rim + place[0][:, None]
        side.fill(x, z, color="C1", alpha=0.3)
    side.plot(*np.asarray(nodes.position)[:, 0, [0, 2]].T, "k.", ms=4)
    side.axhline(0.0, color="0.3")
    side.set(xlabel="x [m]", ylabel="z [m]", aspect="equal")
    side.set_title("The ellipsoid at the starts of the stages, and the path of its centre")
    ts = solution.plan.ts[:-1]
    for k, name in enumerate("xyz"):
        kicks.bar(ts + 0.02 * (k - 1), solution.controls[:, k], 0.02, label=f"v_{name} [m/s]")
    kicks.bar(ts + 0.04, solution.controls[:, 5], 0.02, label="omega_z [rad/s]")
    kicks.axhline(0.0, color="0.3", lw=0.8)
    kicks.set(xlabel="t [s]", title="Kicks")
    kicks.legend(ncols=4)
    figure.savefig(path, dpi=120)
    plt.close(figure)


def main(out=None):
    """Returns the solution, and by how much a simulation of all stages differs from its nodes."""
    plan = problem()
    solution = ro.solve(plan, ro.GaussNewtonShooting(), guess())
    print(solution)
    stages = plan.rollout(solution.controls, rb.SaveAt(every=1, impacts=4))
    ends = jnp.stack([sol.final.position[0] for sol in stages])
    apart = float(np.abs(np.asarray(ends) - solution.states.position[1:, 0]).max())
    bounces = sum(int(sol.impacts.count) for sol in stages)
    print(f"{bounces} bounces; a simulation with these kicks differs by {apart:.1e} m")
    if out is not None:
        Path(out).mkdir(parents=True, exist_ok=True)
        draw(solution, stages, Path(out) / "hopping.png")
        write_replay(Path(out) / "hopping.html", plan.world, stages)
    return solution, apart


if __name__ == "__main__":
    jax.config.update("jax_enable_x64", True)
    mpl.use("Agg")
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", default="examples/figures", help="folder of the picture")
    main(parser.parse_args().out)
