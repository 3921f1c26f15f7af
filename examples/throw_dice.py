"""A die that is thrown until it lies, and the derivative of the place where it lies.

It hits the table with a corner, slides, tips over edges, clatters down on a face, turns on it and
comes to rest. The derivative of its place by the velocity of the throw passes through every impact
and every step in which it slides or sticks. Expected, for each of the throws: it is that of finite
differences, to 1e-8 s. (Where a contact begins to last in another step the place jumps, in the
neighbourhood of these throws by no more than 2e-8 m.)

With a number, so many dice are thrown, and it is counted what is on top. Expected: all lie level;
chi-square of the six counts is below 11.07 for 95 of 100 seeds.

Run: python examples/throw_dice.py [4000] [--out DIR]
"""

import argparse
from pathlib import Path

import jax
import jax.numpy as jnp
from replays import write_replay

import jaxrb as rb

METHOD = rb.LGVCI(dt=0.005, on_zeno="rest")
VELOCITIES = ((1.2, 0.0, 0.0), (-0.04, 0.78, 0.87), (0.57, -0.22, -0.73))  # of throws [m/s]


def table(restitution):
    """A die and a table."""
    die = rb.RigidBody(rb.Box((0.05, 0.05, 0.05)), mass=0.5)
    return rb.World([die], [rb.HalfSpace()], contact_law=rb.Coulomb(0.4, restitution))


def thrown(velocity, save=None):
    """The trajectory of a throw."""
    place, turn = jnp.array([[0.0, 0.0, 0.3]]), jnp.array([[0.8, 0.4, 0.4, 0.2]])
    state = rb.State(place, turn, velocity[None], jnp.array([[3.0, 6.0, 2.0]]))
    return rb.simulate(table(0.0), state, METHOD, t1=1.2, save=save, throw=False)


def throw(velocity):
    """Where a die comes to rest in the plane of the table [m], and how its axes are inclined
    there: the sines, of which one is 1 or -1."""
    lies = thrown(velocity).final
    return lies.position[0, :2], lies.rotation_matrix[0, 2]


def face(upward):
    """The number on top, of which those on opposite faces sum to seven."""
    axis = jnp.argmax(jnp.abs(upward))
    return jnp.where(upward[axis] > 0, axis + 1, 6 - axis)


def main(out=None, h=1e-5):
    """Returns of each throw the number on top, how far that face is from level, the derivative of
    the place by the velocity, shape (2, 3) [s], and the same by differences of a step h [m/s]."""
    run, derivative = jax.jit(throw), jax.jit(jax.jacfwd(throw))
    found = []
    for velocity in jnp.array(VELOCITIES):
        place, upward = run(velocity)
        exact, _ = derivative(velocity)
        sides = [(run(velocity + step)[0], run(velocity - step)[0]) for step in h * jnp.eye(3)]
        differences = jnp.stack([(more - less) / (2 * h) for more, less in sides], axis=1)
        print(f"thrown with {velocity} m/s it lies at {place} m with {face(upward)} on top")
        print(f"derivative by the velocity [s]\n{exact}\nby differences\n{differences}")
        found.append((int(face(upward)), 1 - jnp.abs(upward).max(), exact, differences))
    if out is not None:
        Path(out).mkdir(parents=True, exist_ok=True)
        save = rb.SaveAt(every=1, impacts=64, contacts=True)
        sols = jax.vmap(lambda velocity: thrown(velocity, save))(jnp.array(VELOCITIES))
        path, lanes = Path(out) / "throw_dice.html", range(len(VELOCITIES))
        write_replay(path, table(0.0), sols, lanes=lanes, speed=0.25)
    return found


def many(n, seed=0):
    """Throws n dice, turned at random, until they lie. Returns how many have each number on top,
    chi-square of that, how far the worst is from level, and which simulations succeeded."""
    keys = jax.random.split(jax.random.key(seed), 3)
    turns, velocity, spin = (
        jax.random.normal(key, (n, 1, width)) for key, width in zip(keys, (4, 3, 3), strict=True)
    )
    turns = turns / jnp.linalg.norm(turns, axis=-1, keepdims=True)
    places = jnp.tile(jnp.array([0.0, 0.0, 0.3]), (n, 1, 1))
    states = rb.State(places, turns, velocity, 10 * spin)
    sol = rb.simulate_batch(table(0.3), states, METHOD, t1=3.0, throw=False)
    upward = jax.vmap(lambda state: state.rotation_matrix[0, 2])(sol.final)
    counts = jnp.bincount(jax.vmap(face)(upward), length=7)[1:]
    chi_square = jnp.sum((counts - n / 6) ** 2) / (n / 6)
    tilt = jnp.max(1 - jnp.abs(upward).max(axis=1))
    print(f"{int(sol.successful.sum())} of {n} dice lie, {tilt:.1e} from level at most")
    print(f"on top are one to six {counts} times, chi-square {chi_square:.1f}")
    return counts, chi_square, tilt, sol.successful


if __name__ == "__main__":
    jax.config.update("jax_enable_x64", True)
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("dice", type=int, nargs="?", help="how many to throw and to count")
    parser.add_argument("--out", default="examples/figures", help="folder of the replay")
    arguments = parser.parse_args()
    if arguments.dice is not None:
        many(arguments.dice)
    else:
        main(arguments.out)
