"""A flight from rest to rest between two poses, with a bounce on the way, by the least effort.

An ellipsoid is to be 1.2 m further after 0.9 s, turned by 120 degrees, and at rest again. A force
and a torque act on it, each held over a ninth of the time; the effort is the sum of their squares.
To hover would need the weight throughout. It is cheaper to fall and to be thrown up by a bounce, a
little off the centre, so that it turns the body, too. Gauss-Newton multiple shooting finds that
flight, from a sketch that bounces in the middle: a straight line with a parabola on each side.
Expected: a dozen iterations; stages that meet to 1e-10; the effort a third of hovering. With
steps of a tenth the end is missed by what steps cost, of order 2; a few more iterations mend that.

Run: python examples/flight_between_poses.py [--out DIR]
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
from jaxrb.viz.figure import BLUE, GREEN, ORANGE

AXES, MASS, G, RESTITUTION = (0.2, 0.15, 0.1), 1.0, 9.81, 0.9
T1, STAGES, HEIGHT = 0.9, 9, 0.95
END, TURN = np.array([1.2, 0.3, HEIGHT]), np.array([0.3, 0.4, 2.03])  # the place [m]; [rad]
UNITS = np.array([1.0, 1.0, 1.0, 0.1, 0.1, 0.1])  # of the effort: force [N] and torque [N m]


def missed(x):
    """Of the goal: place [m], attitude [rad], velocity [m/s], spin [rad/s]."""
    turn = rb.lie.quaternion.local(rb.lie.quaternion.exp(jnp.asarray(TURN)), x.quaternion[0])
    place = x.position[0] - jnp.asarray(END)
    return jnp.concatenate([place, turn, x.velocity[0], x.angular_velocity[0]])


def problem(dt=0.01):
    """From rest, with a force and a torque."""
    body = rb.RigidBody(rb.Ellipsoid(AXES), MASS)
    law = rb.Frictionless(RESTITUTION)
    world = rb.World([body], [rb.HalfSpace()], gravity=(0.0, 0.0, -G), contact_law=law)
    upright, still = jnp.array([[1.0, 0.0, 0.0, 0.0]]), jnp.zeros((1, 3))
    state = rb.State(jnp.array([[0.0, 0.0, HEIGHT]]), upright, still, still)
    return ro.OptimalControl(
        world, state, rb.LGVCI(dt, on_zeno="stop"), t1=T1, stages=STAGES, control=ro.Wrench(0),
        cost=lambda x, u: u / jnp.asarray(UNITS), terminal=missed,
    )  # fmt: skip


def sketch():
    """No effort, and a body that falls and rises again while it moves and turns evenly."""
    ts = np.linspace(0.0, T1, STAGES + 1)
    part, away = ts / T1, np.minimum(ts, T1 - ts)  # from the nearer end [s]
    fall = np.stack([0 * ts, 0 * ts, -G * away**2 / 2], axis=1)
    speed = np.stack([0 * ts, 0 * ts, np.where(part < 0.5, -G, G) * away], axis=1)
    start = np.array([0.0, 0.0, HEIGHT])
    states = rb.State(
        (start + part[:, None] * (END - start) + fall)[:, None],
        np.asarray(rb.lie.quaternion.exp(jnp.asarray(part[:, None] * TURN)))[:, None],
        (speed + (END - start) / T1)[:, None],
        np.tile(TURN / T1, (STAGES + 1, 1, 1)),
    )
    return np.zeros((STAGES, 6)), states


def draw(solution, path):
    """The body along its way, and the force and torque."""
    import matplotlib.pyplot as plt  # noqa: PLC0415  (after the choice of its backend)

    plan = solution.plan
    stages = plan.rollout(solution.controls, rb.SaveAt(every=1, impacts=1))
    states = jax.tree.map(lambda *parts: jnp.concatenate(parts), *(sol.states for sol in stages))
    times = np.concatenate([np.asarray(sol.ts) for sol in stages])
    hits = np.concatenate([np.asarray(sol.impacts.position) for sol in stages if sol.impacts.count])
    figure, axes = plt.subplot_mosaic(
        [["way", "force"], ["way", "torque"]], figsize=(11, 4.6), layout="constrained",
        width_ratios=(1.5, 1),
    )  # fmt: skip
    shown = np.unique(np.linspace(0, len(times) - 1, 13).astype(int))
    rb.viz.plot_snapshots(
        plan.world, jax.tree.map(lambda leaf: leaf[shown], states), times[shown],
        path=states.position, impact_positions=hits, ax=axes["way"],
    )  # fmt: skip
    ts = plan.ts
    for name, first, unit in (("force", 0, "N"), ("torque", 3, "N m")):
        for k, color in enumerate((BLUE, GREEN, ORANGE)):
            values = solution.controls[:, first + k]
            axes[name].stairs(values, ts, baseline=None, color=color, lw=1.5, label="xyz"[k])
        axes[name].set(ylabel=f"{name} [{unit}]", xlabel="time [s]")
        axes[name].axhline(0.0, color="0.7", lw=0.6, zorder=0)
    axes["force"].legend(ncols=3)
    path.parent.mkdir(parents=True, exist_ok=True)
    rb.viz.save_figure(figure, path)
    write_replay(path.with_suffix(".html"), plan.world, stages, speed=0.25)


def end_of(plan, controls):
    """What a simulation stage by stage misses at the end, and its bounces."""
    stages = plan.rollout(controls)
    bounces = sum(int(sol.impacts.count) for sol in stages)
    return float(jnp.abs(missed(stages[-1].final)).max()), bounces


def main(out=None):
    """Returns the solution and that with steps of a tenth; for both what is missed at the end and
    the bounces; and the effort of hovering."""
    solution = ro.solve(problem(), ro.GaussNewtonShooting(), sketch())
    print(solution)
    finer = problem(dt=0.001)
    before, _ = end_of(finer, solution.controls)
    again = ro.solve(finer, ro.GaussNewtonShooting(), (solution.controls, solution.states))
    ends = end_of(solution.plan, solution.controls), end_of(finer, again.controls)
    hovering = STAGES * (MASS * G) ** 2
    change = np.abs(again.controls - solution.controls).max()
    print(f"{ends[0][1]} bounce; the end is missed by {ends[0][0]:.1e}, effort {solution.cost:.1f}")
    print(f"hovering alone takes {hovering:.1f}")
    print(f"with steps of 1 ms the end is missed by {before:.1e}, after {again.iterations}")
    print(f"more iterations by {ends[1][0]:.1e}, with controls that differ by {change:.1e}")
    if out is not None:
        with mpl.rc_context(rb.viz.STYLE):
            draw(solution, Path(out) / "flight_between_poses.png")
    return solution, again, ends, hovering


if __name__ == "__main__":
    jax.config.update("jax_enable_x64", True)
    mpl.use("Agg")
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--out", default="examples/figures", help="folder of the picture")
    main(parser.parse_args().out)
