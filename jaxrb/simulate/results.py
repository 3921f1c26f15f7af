"""How a simulation ended."""

import enum

import jax.numpy as jnp
from jaxtyping import Array, Int

from .._codes import Codes, code_names


class RESULTS(Codes):
    """One code per world; the first failure wins, and the world keeps its last good state."""

    successful = ""
    nonlinear_solve_failed = (
        "The implicit equations of the flow, or those of forces that depend on velocities, were "
        "not solved to round-off, even in a small part of a step: reduce dt, or raise "
        "the iterations, as in LieVariational(iterations=...) or "
        "MoreauJean(max_iterations=...). Those of "
        "LieVariational and QuaternionVariational have no real solution once the angular "
        "velocity times dt is above about 1."
    )
    root_not_found = (
        "The time of an impact could not be located: the gap function is not continuous to "
        "round-off; or, in continuous time, a body turns so close above an obstacle that its "
        "flight would take too many proofs that it does not touch it: raise "
        "EventDriven(tolerance=...), or give it a dt."
    )
    max_impacts_reached = (
        "Too many impacts: raise EventDriven(max_impacts_per_step=...) if they all fall into "
        "one step, or EventDriven(max_impacts=...) if the log of a saved or differentiated "
        "trajectory is full. Parts of steps that are too long for the flow fill it too: reduce dt "
        "where bodies turn by more than about 0.4 rad in a step; in continuous time they are of "
        "48 rad and less, see ExactFlight(doublings=...)."
    )
    zeno = (
        "Impacts accumulate (Zeno): within one step each follows the last ever sooner. The "
        "body comes to rest on what it hits. With steps, "
        'EventDriven(flow, dt, on_zeno="rest") goes on in contacts that last.'
    )
    initial_penetration = (
        "A body penetrates an obstacle at the start, or another body: check position, quaternion "
        "and the obstacle's offset with jaxrb.gaps(world, state) and jaxrb.pair_gaps(world, "
        "state). What may overlap is left out of World.pairs and World.obstacle_pairs. Measured "
        "poses need EventDriven(penetration=...). A joint with limits must be within them: see "
        "jaxrb.joint_coordinates(world, state)."
    )
    grazing = (
        "A body touched an obstacle without approaching it (a grazing impact): the trajectory "
        "has no derivative there; change the initial state or parameters slightly. A body that "
        'lies on an obstacle needs EventDriven(on_zeno="rest").'
    )
    non_finite = (
        "A number became infinite or NaN, or was so at the start: check the state and the "
        "parameters of the world."
    )
    non_unit_quaternion = "State.quaternion is not of unit length to 1e-3: divide it by its length."
    invalid_body = (
        "RigidBody.mass, the lengths of its shape or RigidBody.inertia are impossible: mass "
        "and lengths must be positive, the inertia positive definite with no principal moment "
        "above the sum of the other two."
    )
    closest_point_not_found = (
        "The point of a body that is closest to an obstacle or a ball was not found: of a solid "
        "without closed form (Intersection, Difference, Implicit) it is sought from seeds; avoid "
        "details much smaller than the solid, edges in an Implicit, and faces that meet an "
        "obstacle exactly flat. Of cylinders and cones that penetrate each other or an ellipsoid "
        "deeply it may not be found either."
    )
    joint_violated = (
        "A body does not satisfy its joint at the start. Pinned to the world, its position must be "
        "point - R anchor and its velocity -R (angular_velocity x anchor), with the rotation R "
        "of State.quaternion; jaxrb.joint_violations(world, state) tells of all joints."
    )
    invalid_contact_law = (
        "The restitution of World.contact_law must lie in [0, 1], its friction be 0 or more."
    )
    max_steps_reached = (
        "More steps than max_steps lead from t0 to t1: raise max_steps of simulate, or dt."
    )
    invalid_times = (
        "Times that were traced are impossible: t1 must not lie before t0, dt must be positive, "
        "SaveAt.ts sorted and within [t0, t1], and the knots of inputs must increase."
    )
    impact_not_ended = (
        "A frictional impact did not end: friction keeps the bodies from separating. Less "
        "friction than W_zz / |(W_xz, W_yz)| (solve_impact's termination_guaranteed) always ends."
    )
    held_contacts_not_solved = (
        "The impulses of contacts that last and of joints, in a step or at an impact, were not "
        "found to the accuracy needed: reduce dt; avoid joints that contradict each other, and "
        "masses that differ by more than about a thousand. MoreauJean(impacts='stepped', "
        "residual=...) takes steps with a larger error."
    )


class Code(enum.IntEnum):
    """`RESULTS` as the plain integers that the loop carries, and that its items hold."""

    successful = 0
    nonlinear_solve_failed = 1
    root_not_found = 2
    max_impacts_reached = 3
    zeno = 4
    initial_penetration = 5
    grazing = 6
    non_finite = 7
    non_unit_quaternion = 8
    invalid_body = 9
    closest_point_not_found = 10
    joint_violated = 11
    invalid_contact_law = 12
    max_steps_reached = 13
    invalid_times = 14
    impact_not_ended = 15
    held_contacts_not_solved = 16


def first_failure(*conditions: tuple[Array, Code]) -> Int[Array, ""]:
    """The code of the first condition that holds, `successful` if none does."""
    code = jnp.zeros((), jnp.int32)
    for condition, failure in reversed(conditions):
        code = jnp.where(condition, jnp.int32(failure), code)
    return code


def result_name(result: RESULTS) -> str:
    """The name of the code of one world; of a batch, how many worlds have which."""
    return code_names(RESULTS, result)


def to_result(code: Int[Array, ""]) -> RESULTS:
    """The enumeration item of a code."""
    result = RESULTS.successful
    for item in Code:
        result = RESULTS.where(code == item.value, getattr(RESULTS, item.name), result)
    return result
