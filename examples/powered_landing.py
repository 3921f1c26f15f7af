"""A powered landing: the thrust that sets a tilted, drifting rocket down upright and at rest.

A rocket of 50 kg comes down at 6 m/s, drifts sideways and is tilted. Its engine pushes at the
tail, in any direction; the force is held over each of 50 stages. Gauss-Newton multiple shooting
finds the least thrust whose landing, within 4 s, ends exactly as it should, from a straight line
to the ground.
Expected: a few iterations; at the end the rocket is a centimetre above the ground, upright and at
rest to 1e-9, also where all stages are simulated one after another.

Run: python examples/powered_landing.py [--out DIR]
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

RADIUS, HALF_HEIGHT, MASS, G = 0.3, 1.2, 50.0, 9.81
T1, STAGES = 4.0, 50
REST = HALF_HEIGHT + 0.01  # height of the centre of mass at the end [m]
TILT = 0.15  # at the start [rad]
# Of the thrust [N]: the tail has a long arm, and a little sideways turns the rocket much.
UNIT = MASS * G * np.array([0.05, 0.05, 1.0])


def miss(x):
    """Of a landing: place [m], velocity [m/s], tilt [rad], spin [rad/s]."""
    w, qx, qy, qz = x.quaternion[0]
    lean = 2 * jnp.stack([w * qx - qy * qz, w * qy + qx * qz])  # of the axis, horizontally
    place = x.position[0] - jnp.array([0.0, 0.0, REST], x.position.dtype)
    return jnp.concatenate([place, x.velocity[0], lean, x.angular_velocity[0]])


def problem():
    """The least thrust that lands, in units of `UNIT`."""
    engine = rb.Thruster(0, lambda t, args: args, anchor=(0.0, 0.0, -HALF_HEIGHT))
    rocket = rb.RigidBody(rb.Ellipsoid((RADIUS, RADIUS, HALF_HEIGHT)), MASS)
    world = rb.World([rocket], [rb.HalfSpace()], gravity=(0.0, 0.0, -G), forces=[engine])
    state = rb.State(
        position=jnp.array([[2.0, -1.0, 14.0]]),
        quaternion=jnp.array([[np.cos(TILT / 2), np.sin(TILT / 2), 0.0, 0.0]]),
        velocity=jnp.array([[-0.8, 0.5, -6.0]]),
        angular_velocity=jnp.array([[0.0, 0.05, 0.0]]),
    )
    thrust = ro.Inputs(3, lambda u: jnp.asarray(UNIT) * u)
    return ro.OptimalControl(
        world, state, rb.LGVCI(dt=0.04), t1=T1, stages=STAGES, control=thrust,
        cost=lambda x, u: u, terminal=miss,
    )  # fmt: skip


def sketch(plan):
    """Thrusts as large as the weight, and states on a straight line to the ground."""
    part = np.linspace(0.0, 1.0, STAGES + 1)[:, None, None]
    start, end = np.asarray(plan.state.position), np.array([[0.0, 0.0, REST]])
    states = rb.State(
        (1 - part) * start + part * end,
        np.tile([1.0, 0.0, 0.0, 0.0], (STAGES + 1, 1, 1)),
        np.broadcast_to((end - start) / T1, (STAGES + 1, 1, 3)),
        np.zeros((STAGES + 1, 1, 3)),
    )
    return np.tile([0.0, 0.0, 1.0], (STAGES, 1)), states


def draw(solution, path):
    """The rocket at some times, side by side, with its thrust; and the thrust over time."""
    import matplotlib.pyplot as plt  # noqa: PLC0415  (after the choice of its backend)

    ts = solution.plan.ts
    force = solution.controls * UNIT / (MASS * G)
    shown = np.append(np.arange(0, STAGES, 5), STAGES)
    states = jax.tree.map(lambda leaf: jnp.asarray(leaf[shown]), solution.states)
    turn = np.asarray(states.rotation_matrix[:, 0])
    # Seen along x, in which it is tilted; pictures stand 2 m apart.
    middle = np.asarray(states.position[:, 0, 1:])
    middle = middle + np.stack([5.0 * ts[shown], 0.0 * ts[shown]], axis=1)
    axis = HALF_HEIGHT * turn[:, 1:, 2]
    flame = -np.einsum("kij,kj->ki", turn, force[np.minimum(shown, STAGES - 1)])[:, 1:]
    figure, axes = plt.subplot_mosaic(
        [["flight", "along"], ["flight", "across"]],
        figsize=(11, 5),
        layout="constrained",
        width_ratios=(2, 1),
    )
    flight = axes["flight"]
    for center, half, jet in zip(middle, axis, flame, strict=True):
        tail, top = center - half, center + half
        flight.plot(*zip(tail, tail + jet, strict=True), color="C1", lw=2)
        flight.plot(*zip(tail, top, strict=True), color="C0", lw=6, solid_capstyle="round")
    flight.axhline(0.0, color="0.3")
    flight.set(xlabel="y [m], and 2 m to the right every 0.4 s", ylabel="z [m]", aspect="equal")
    flight.set_title("The rocket and its thrust, seen along x")
    axes["along"].stairs(force[:, 2], ts, baseline=None, color="C1", lw=1.5)
    axes["along"].set(ylabel="along its axis / weight", title="Thrust in the rocket's frame")
    for k, name in enumerate("xy"):
        axes["across"].stairs(force[:, k], ts, baseline=None, label=name, lw=1.5)
    axes["across"].set(xlabel="t [s]", ylabel="across / weight")
    axes["across"].legend()
    figure.savefig(path, dpi=120)
    plt.close(figure)


def main(out=None):
    """Returns the solution, and what a simulation of all stages misses at most."""
    plan = problem()
    solution = ro.solve(plan, ro.GaussNewtonShooting(), sketch(plan))
    print(solution)
    stages = plan.rollout(solution.controls, rb.SaveAt(every=1))
    missed = float(jnp.abs(miss(stages[-1].final)).max())
    print(f"a simulation with these thrusts misses the end by {missed:.1e}")
    if out is not None:
        Path(out).mkdir(parents=True, exist_ok=True)
        draw(solution, Path(out) / "powered_landing.png")
        write_replay(Path(out) / "powered_landing.html", plan.world, stages)
    return solution, missed


if __name__ == "__main__":
    jax.config.update("jax_enable_x64", True)
    mpl.use("Agg")
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", default="examples/figures", help="folder of the picture")
    main(parser.parse_args().out)
