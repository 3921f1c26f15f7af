"""A quadrotor that is dropped upside down, hits the floor, and follows its path all the same.

A quadrotor of 4.3 kg is let go upside down beside a helix that it is to follow, with its nose in a
given direction. The controller of Lee, Leok and McClamroch (2010) turns it over; on the way it hits
the floor, with friction. Thrust acts along its own vertical axis only, so it must tilt to move
sideways, and the torque that this needs follows from four derivatives of the path.
Expected: it hits the floor at 0.9 s, a few times in short order. After 6 s it is within a
millimetre of the path, which is the error of the steps, and 1 minus the cosine of its attitude
error is below 1e-6.

Run: python examples/quadrotor_recovery.py [--out DIR]
"""

import argparse
from pathlib import Path

import jax
import jax.numpy as jnp
import matplotlib as mpl
import numpy as np
from replays import write_replay

import jaxrb as rb

T1, DT, FLOOR = 6.0, 0.005, -0.75
ARM = 0.3  # from the centre to a rotor [m]


def helix(t, args):
    """Where the centre is to be [m], and where the nose is to point."""
    place = jnp.stack([0.7 * t, 0.4 * jnp.sin(2 * t), 0.3 * jnp.cos(2 * t)])
    return place, jnp.stack([jnp.cos(t), jnp.sin(t), 0 * t])


def fly():
    """The world and the trajectory."""
    control = rb.QuadrotorTracking(
        0,
        helix,
        position_gain=70.0,
        velocity_gain=25.0,
        attitude_gain=9.0,
        angular_velocity_gain=2.5,
    )
    body = rb.RigidBody(rb.Ellipsoid((ARM, ARM, 0.06)), mass=4.3, inertia=(0.082, 0.085, 0.138))
    floor = rb.HalfSpace((0.0, 0.0, 1.0), FLOOR)
    world = rb.World([body], [floor], contact_law=rb.Coulomb(0.3, 0.5), forces=[control])
    half = np.deg2rad(178.0) / 2
    q, zero = jnp.array([[np.cos(half), np.sin(half), 0.0, 0.0]]), jnp.zeros((1, 3))
    state = rb.State(zero, q, zero, zero)
    # It never lies down: without contacts that last the program is smaller.
    method = rb.LGVCI(DT, on_zeno="stop")
    return world, rb.simulate(world, state, method, T1, save=rb.SaveAt(every=4, impacts=16))


def draw(solution, errors, path):
    """The flight from the side with the rotors' plane and thrust axis, and the errors."""
    import matplotlib.pyplot as plt  # noqa: PLC0415  (after the choice of its backend)

    states, ts = solution.states, np.asarray(solution.ts)
    x, turn = np.asarray(states.position[:, 0]), np.asarray(states.rotation_matrix[:, 0])
    wanted = np.asarray(jax.vmap(lambda t: helix(t, None)[0])(solution.ts))
    figure, (side, log) = plt.subplots(
        2, 1, figsize=(10, 7), layout="constrained", height_ratios=(3, 2)
    )
    side.axhline(FLOOR, color="0.3")
    side.plot(wanted[:, 0], wanted[:, 2], color="C2", lw=1, label="desired")
    side.plot(x[:, 0], x[:, 2], color="0.6", lw=1, label="flown")
    for k in range(0, len(ts), 8):
        for arm in (0, 1):
            ends = x[k] + ARM * np.outer([-1, 1], turn[k, :, arm])
            side.plot(ends[:, 0], ends[:, 2], color="C0", lw=2)
        up = np.stack([x[k], x[k] + ARM * turn[k, :, 2]])
        side.plot(up[:, 0], up[:, 2], color="C1", lw=1.5)
    side.set(
        xlabel="x [m]",
        ylabel="z [m]",
        aspect="equal",
        ylim=(FLOOR - 0.4, 0.7),
        title="From the side, every 0.16 s",
    )
    side.legend(loc="lower right")
    log.semilogy(ts, np.linalg.norm(errors.position, axis=1), label="distance from the path [m]")
    log.semilogy(ts, errors.configuration, label="1 - cosine of the attitude error")
    log.set(xlabel="t [s]", title="Errors")
    log.legend()
    figure.savefig(path, dpi=120)
    plt.close(figure)


def main(out=None):
    """Returns the number of impacts, and distance [m] and attitude error Psi at the end."""
    world, solution = fly()
    error_at = lambda t, state: rb.tracking_errors(world, state, t)[0]  # noqa: E731
    errors = jax.vmap(error_at)(solution.ts, solution.states)
    distance = float(jnp.linalg.norm(errors.position[-1]))
    psi, impacts = float(errors.configuration[-1]), int(solution.impacts.count)
    print(f"{impacts} impacts; at the end {distance:.2e} m from the path, Psi {psi:.2e}")
    if out is not None:
        Path(out).mkdir(parents=True, exist_ok=True)
        draw(solution, errors, Path(out) / "quadrotor_recovery.png")
        write_replay(Path(out) / "quadrotor_recovery.html", world, solution)
    return impacts, distance, psi


if __name__ == "__main__":
    jax.config.update("jax_enable_x64", True)
    mpl.use("Agg")
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", default="examples/figures", help="folder of the picture")
    main(parser.parse_args().out)
