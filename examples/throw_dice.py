"""A die that is thrown until it lies, and the derivative of the place where it lies.

It hits the table with a corner, slides, tips over edges and comes to rest on a face. The derivative
of its place by the velocity of the throw passes through every impact and every step in which it
slides or sticks. Expected: it is that of finite differences, to 1e-8 s. (From throw to throw the
place also jumps, by 1e-6 m or up to a millimetre, where a contact begins to last in another step: a
difference that meets a jump is wrong by as much over its step.)

Run: python examples/throw_dice.py
"""

import jax
import jax.numpy as jnp

import jaxrb as rb

METHOD = rb.LGVCI(dt=0.005, on_zeno="rest")
VELOCITY = (1.2, 0.0, 0.0)  # of the throw [m/s]


def throw(velocity):
    """Where a die comes to rest in the plane of the table [m], and how its axes are inclined
    there: the sines, of which one is 1 or -1."""
    die = rb.RigidBody(rb.Box((0.05, 0.05, 0.05)), mass=0.5)
    world = rb.World([die], [rb.HalfSpace()], contact_law=rb.Coulomb(0.4, restitution=0.0))
    place, turn = jnp.array([[0.0, 0.0, 0.3]]), jnp.array([[0.8, 0.4, 0.4, 0.2]])
    state = rb.State(place, turn, velocity[None], jnp.array([[3.0, 6.0, 2.0]]))
    lies = rb.simulate(world, state, METHOD, t1=1.2, throw=False).final
    return lies.position[0, :2], lies.rotation_matrix[0, 2]


def face(upward):
    """The number on top, of which those on opposite faces sum to seven."""
    axis = int(jnp.argmax(jnp.abs(upward)))
    return axis + 1 if upward[axis] > 0 else 6 - axis


def main(h=1e-5):
    """Returns the number on top, how far that face is from level, the derivative of the place by
    the velocity, shape (2, 3) [s], and the same by differences of a step h [m/s]."""
    run, velocity = jax.jit(throw), jnp.array(VELOCITY)
    place, upward = run(velocity)
    exact, _ = jax.jit(jax.jacfwd(throw))(velocity)
    sides = [(run(velocity + step)[0], run(velocity - step)[0]) for step in h * jnp.eye(3)]
    differences = jnp.stack([(more - less) / (2 * h) for more, less in sides], axis=1)
    print(f"lies at {place} m with {face(upward)} on top")
    print(f"derivative by the velocity [s]\n{exact}\nby differences\n{differences}")
    return face(upward), 1 - jnp.abs(upward).max(), exact, differences


if __name__ == "__main__":
    jax.config.update("jax_enable_x64", True)
    main()
