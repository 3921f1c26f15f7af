"""A start that violates its joints is told of which, and by how much."""

import dataclasses
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxrb as rb
from jaxrb.simulate.joint_observables import worst_joint

BALL = rb.RigidBody(rb.Sphere(0.1), mass=2.0)
Y, Z = (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)
BOTH = "body 1 and body 0"


def start(**changes):
    """Two balls at rest, 1 m apart along x."""
    still = np.zeros((2, 3))
    state = rb.State([[0.0, 0, 0], [1.0, 0, 0]], np.eye(1, 4).repeat(2, 0), still, still)
    return dataclasses.replace(state, **{name: jnp.asarray(x) for name, x in changes.items()})


def tilted(angle, axis):
    """The second body turned about an axis of the world."""
    turn = np.concatenate([[np.cos(angle / 2)], np.sin(angle / 2) * np.asarray(axis)])
    return start(quaternion=np.stack([[1.0, 0, 0, 0], turn]))


def moving(**changes):
    """With all of a body's motion in one entry, of the velocity or of the angular velocity."""
    return start(**{name: np.array([[0.0, 0, 0], list(x)]) for name, x in changes.items()})


AT_REST = start()
PIN = rb.Pin.at(AT_REST, 1, (0.4, 0, 0), 0)
HINGE = rb.Hinge.at(AT_REST, 1, Y, (0.5, 0, 0), 0)
SLIDER = rb.Slider.at(AT_REST, 1, Z, (1.0, 0, 0), 0)
UNIVERSAL = rb.Universal.at(AT_REST, 1, (Y, Z), (1.0, 0, 0), 0)
PLANAR = rb.Planar.at(AT_REST, 1, ((1.0, 0, 0), Y, Z), (1.0, 0, 0), 0)
DISTANCE = rb.Distance.at(AT_REST, 1, (1.0, 0, 0), (0, 0, 0), 0)
WELD = rb.Weld.at(AT_REST, 1, 0)
APART = start(position=[[0.0, 0, 0], [1.03, 0, 0]])


@pytest.mark.parametrize(
    ("joint", "state", "says"),
    [
        (PIN, APART, f"Pin between {BOTH}, is off by 0.03 m"),
        (DISTANCE, APART, f"Distance between {BOTH}, is off by 0.03 m"),
        (SLIDER, tilted(0.3, Z), f"Slider between {BOTH}, is off by 0.3 rad"),
        (UNIVERSAL, tilted(0.2, (1.0, 0, 0)), f"Universal between {BOTH}, is off by 0.2 rad"),
        (PLANAR, tilted(0.2, (1.0, 0, 0)), f"Planar between {BOTH}, is off by 0.2 rad"),
        (
            PLANAR,
            start(position=[[0.0, 0, 0], [1.5, 0.3, 0.03]]),
            f"Planar between {BOTH}, is off by 0.03 m",
        ),
        (PLANAR, moving(velocity=(3.0, 2.0, 0.4)), "Planar .* moves off at 0.4 m/s"),
        (WELD, tilted(2.5, Z), f"Weld between {BOTH}, is off by 2.5 rad"),
        # Its violation is zero again at half a turn.
        (
            rb.Hinge(1, Y, other=0, other_anchor=(1, 0, 0)),
            tilted(np.pi, Z),
            "Hinge .* is off by 3.14 rad",
        ),
        (DISTANCE, moving(velocity=(0.7, 0, 0)), "Distance .* moves off at 0.7 m/s"),
        (
            HINGE,
            moving(angular_velocity=(0, 0, 0.2), velocity=(0, 0.1, 0)),
            "Hinge .* moves off at 0.2 rad/s",
        ),
        (SLIDER, moving(velocity=(0, 0.4, 3.0)), "Slider .* moves off at 0.4 m/s"),
        (WELD, moving(angular_velocity=(0.3, 0, 0.4)), "Weld .* moves off at 0.5 rad/s"),
    ],
)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_worst_joint(joint, state, says, dtype):
    """Of joints to the world that hold it is the one that does not."""
    joints = [rb.Distance(0, (0, 0, 1.0), 1.0), joint, rb.Pin(0, (0, 0, 0))]
    world = rb.World([BALL, BALL], joints=joints)
    state = jax.tree.map(lambda leaf: leaf.astype(dtype), state)
    text = worst_joint(world, state)
    assert re.search(rf"At the start World.joints\[1\], a {says}\.$", text), text


@pytest.mark.slow
def test_simulations_name_it():
    """In a batch that of the first world."""
    pins = [rb.Pin(0, (0, 0, 0)), rb.Pin(1, (0, 0, 0.5), (1.0, 0, 0.5))]
    world = rb.World([BALL, BALL], joints=pins)
    method = rb.EventDriven(rb.QuaternionEnergyMomentum(), dt=0.01, on_zeno="stop")
    apart = start(position=[[0.0, 0, 0], [1.0, 0.02, 0]])
    says = r"does not satisfy .* World.joints\[1\], a Pin between body 1 and the world, is off by"
    with pytest.raises(RuntimeError, match=rf"{says} 0.02 m\."):
        rb.simulate(world, apart, method, 0.1)
    further = start(position=[[0.0, 0, 0], [1.0, 0.05, 0]])
    states = jax.tree.map(lambda *leaves: jnp.stack(leaves), AT_REST, further)
    with pytest.raises(RuntimeError, match=rf"first, world 1: .*{says} 0.05 m\."):
        rb.simulate_batch(world, states, method, 0.1)
    worlds = jax.tree.map(lambda leaf: jnp.stack([leaf, leaf]), world)
    with pytest.raises(RuntimeError, match=rf"first, world 1: .*{says} 0.05 m\."):
        rb.simulate_batch(worlds, states, method, 0.1, batch_world=True)


@pytest.mark.slow
def test_of_joints_between_bodies():
    world = rb.World([BALL, BALL], joints=[HINGE])
    with pytest.raises(RuntimeError, match=r"joints\[0\], a Hinge between .* is off by 0.25 rad\."):
        rb.simulate(world, tilted(0.25, (1.0, 0, 0)), rb.LGVCI(0.01), 0.1)
