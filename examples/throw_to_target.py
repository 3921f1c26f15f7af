"""A throw that hits a target after two bounces, found by gradient descent.

An ellipsoid is thrown over a plane without spin. It bounces twice, tumbling, and must be where
another throw got it one and a half seconds later. The gradient of the miss with respect to the
velocity passes through both impacts and includes the shift of their times. Expected: the miss
shrinks from 0.8 m to less than a millimetre. (More than one throw leads there.)

Run: python examples/throw_to_target.py [--out DIR]
"""

import argparse
from pathlib import Path

import jax
import jax.numpy as jnp
import optax
from replays import write_replay

import jaxrb as rb

# The throw ends before contacts last: without them the program is smaller.
METHOD = rb.LGVCI(dt=0.01, on_zeno="stop")
AIM = (1.0, 0.3, -1.5)  # a velocity that leads there [m/s]


def world():
    """An ellipsoid and a plane."""
    return rb.World(
        bodies=[rb.RigidBody(rb.Ellipsoid((0.10, 0.11, 0.12)), mass=0.5)],
        obstacles=[rb.HalfSpace()],
        contact_law=rb.Frictionless(restitution=0.9),
    )


def throw(velocity, save=None):
    """The trajectory of a throw with a velocity [m/s], shape (3,)."""
    state = rb.State(
        position=jnp.array([[0.0, 0.0, 1.0]], velocity.dtype),
        quaternion=jnp.array([[0.9238795325112867, 0.3826834323650898, 0.0, 0.0]], velocity.dtype),
        velocity=velocity[None],
        angular_velocity=jnp.zeros((1, 3), velocity.dtype),
    )
    return rb.simulate(world(), state, METHOD, t1=1.5, save=save, throw=False)


def miss(velocity, target):
    """Squared distance from the target at the end [m^2]."""
    solution = throw(velocity)
    return jnp.sum((solution.final.position[0] - target) ** 2), solution


def main(out=None, iterations=160):
    """Returns the distance from the target before and after, and the number of impacts."""
    optimizer = optax.adam(optax.cosine_decay_schedule(0.1, iterations))

    @jax.jit
    def step(velocity, memory, target):
        (squared, solution), gradient = jax.value_and_grad(miss, has_aux=True)(velocity, target)
        update, memory = optimizer.update(gradient, memory)
        return optax.apply_updates(velocity, update), memory, jnp.sqrt(squared), solution

    velocity = jnp.array([0.6, 0.0, -1.2])
    target = throw(jnp.array(AIM)).final.position[0]
    memory = optimizer.init(velocity)
    for k in range(iterations):
        velocity, memory, distance, solution = step(velocity, memory, target)
        if k == 0:
            first = float(distance)
        if k % 10 == 0:
            print(f"{k:3d}  {float(distance):.6f} m  impacts {int(solution.impacts.count)}")
    print(f"     {float(distance):.6f} m  with velocity {velocity}")
    if out is not None:
        Path(out).mkdir(parents=True, exist_ok=True)
        sol = throw(velocity, rb.SaveAt(every=1, impacts=4))
        write_replay(Path(out) / "throw_to_target.html", world(), sol)
    return first, float(distance), int(solution.impacts.count)


if __name__ == "__main__":
    jax.config.update("jax_enable_x64", True)
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--out", default="examples/figures", help="folder of the replay")
    main(parser.parse_args().out)
