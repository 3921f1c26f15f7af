"""A powered landing: the thrust that sets a tilted, drifting rocket down upright and at rest.

A rocket of 50 kg comes down at 6 m/s, drifts sideways and is tilted. Its engine pushes at the
tail, in any direction; the force is given at knots and joined by straight lines. L-BFGS of optax
on the miss at the end, with a little weight on the thrust, finds one that lands within 4 s. The
gradient passes through all steps and, where a guess hits the ground, through impacts.
Expected: at the end the rocket is a centimetre above the ground, upright and at rest to some
millimetres, centimetres per second and hundredths of a radian.

Run: python examples/powered_landing.py [--out DIR]
"""

import argparse
from pathlib import Path

import jax
import jax.numpy as jnp
import matplotlib as mpl
import numpy as np
import optax

import jaxrb as rb

RADIUS, HALF_HEIGHT, MASS, G = 0.3, 1.2, 50.0, 9.81
T1, N_KNOTS = 4.0, 12
KNOTS = np.linspace(0.0, T1, N_KNOTS)
METHOD = rb.LGVCI(dt=0.04)
REST = HALF_HEIGHT + 0.01  # height of the centre of mass at the end [m]
TILT = 0.15  # at the start [rad]
# Of the thrust [N]: the tail has a long arm, and a little sideways turns the rocket much.
UNIT = MASS * G * np.array([0.05, 0.05, 1.0])


def land(thrust, save=None):
    """The trajectory under a thrust at the knots, in units of `UNIT`, shape (n_knots, 3)."""
    engine = rb.Thruster(
        0,
        rb.PiecewiseLinear(KNOTS, jnp.asarray(UNIT, thrust.dtype) * thrust),
        anchor=(0.0, 0.0, -HALF_HEIGHT),
    )
    world = rb.World(
        bodies=[rb.RigidBody(rb.Ellipsoid((RADIUS, RADIUS, HALF_HEIGHT)), MASS)],
        obstacles=[rb.HalfSpace()],
        gravity=(0.0, 0.0, -G),
        contact_law=rb.Frictionless(),  # a hard landing throws it back
        forces=[engine],
    )
    state = rb.State(
        position=jnp.array([[2.0, -1.0, 14.0]], thrust.dtype),
        quaternion=jnp.array([[np.cos(TILT / 2), np.sin(TILT / 2), 0.0, 0.0]], thrust.dtype),
        velocity=jnp.array([[-0.8, 0.5, -6.0]], thrust.dtype),
        angular_velocity=jnp.array([[0.0, 0.05, 0.0]], thrust.dtype),
    )
    return rb.simulate(world, state, METHOD, T1, save=save, throw=False)


def errors(final):
    """Of a landing: place [m], velocity [m/s], tilt [rad], spin [rad/s]."""
    w, x, y, z = final.quaternion[0]
    lean = 2 * jnp.stack([w * x - y * z, w * y + x * z])  # of the axis, horizontally
    place = final.position[0] - jnp.array([0.0, 0.0, REST], final.position.dtype)
    return place, final.velocity[0], lean, final.angular_velocity[0]


def loss(thrust):
    """The squared errors, and a little of the squared thrust."""
    place, velocity, lean, spin = errors(land(thrust).final)
    miss = jnp.sum(place**2) + jnp.sum(velocity**2) + 25 * jnp.sum(lean**2) + jnp.sum(spin**2)
    return miss + 1e-4 * jnp.sum(thrust**2)


def solve(iterations):
    """The best thrust found, and the loss along the way."""
    # Tilt and place are tightly coupled: it remembers more steps than usual.
    optimizer = optax.lbfgs(memory_size=20)
    value_and_gradient = optax.value_and_grad_from_state(loss)

    @jax.jit
    def step(thrust, memory):
        value, gradient = value_and_gradient(thrust, state=memory)
        update, memory = optimizer.update(
            gradient, memory, thrust, value=value, grad=gradient, value_fn=loss
        )
        return optax.apply_updates(thrust, update), memory, value

    thrust = jnp.zeros((N_KNOTS, 3)).at[:, 2].set(1.2)  # more than its weight
    memory, values = optimizer.init(thrust), []
    best = thrust
    for k in range(iterations):
        following, memory, value = step(thrust, memory)
        # A step may lead into the ground, where the loss jumps.
        best = thrust if value < min(values, default=np.inf) else best
        thrust = following
        values.append(float(value))
        if k % 20 == 0:
            print(f"{k:4d}  loss {value:.6f}")
    return best, values


def draw(thrust, path):
    """The rocket at some times, side by side, with its thrust; and the thrust over time."""
    import matplotlib.pyplot as plt  # noqa: PLC0415  (after the choice of its backend)

    solution = land(thrust, rb.SaveAt(every=10))
    states, ts = solution.states, np.asarray(solution.ts)
    turn = np.asarray(states.rotation_matrix[:, 0])
    force = [np.interp(ts, KNOTS, column) for column in np.asarray(thrust * UNIT / (MASS * G)).T]
    # Seen along x, in which it is tilted; pictures stand 2 m apart.
    middle = np.asarray(states.position[:, 0, 1:]) + np.stack([5.0 * ts, 0.0 * ts], axis=1)
    axis = HALF_HEIGHT * turn[:, 1:, 2]
    flame = -np.einsum("kij,jk->ki", turn, force)[:, 1:]
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
    axes["along"].plot(KNOTS, thrust[:, 2], marker=".", color="C1")
    axes["along"].set(ylabel="along its axis / weight", title="Thrust in the rocket's frame")
    for k, name in enumerate("xy"):
        axes["across"].plot(KNOTS, thrust[:, k] * UNIT[k] / (MASS * G), marker=".", label=name)
    axes["across"].set(xlabel="t [s]", ylabel="across / weight")
    axes["across"].legend()
    figure.savefig(path, dpi=120)
    plt.close(figure)


def main(out=None, iterations=300):
    """Returns the norms of the errors at the end and the number of touches."""
    thrust, values = solve(iterations)
    solution = land(thrust)
    norms = [float(jnp.sqrt(jnp.sum(error**2))) for error in errors(solution.final)]
    names = ("place {:.4f} m", "velocity {:.4f} m/s", "tilt {:.4f} rad", "spin {:.4f} rad/s")
    print(f"loss {values[0]:.3f} -> {min(values):.6f}; errors at the end:")
    print(", ".join(name.format(norm) for name, norm in zip(names, norms, strict=True)))
    if out is not None:
        Path(out).mkdir(parents=True, exist_ok=True)
        draw(thrust, Path(out) / "powered_landing.png")
    return norms, int(solution.impacts.count)


if __name__ == "__main__":
    jax.config.update("jax_enable_x64", True)
    mpl.use("Agg")
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", default="examples/figures", help="folder of the picture")
    main(parser.parse_args().out)
