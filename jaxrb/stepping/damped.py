"""What dampers and servos in joints do in a step of `held_step`.

They act at both ends by what the joints move in the step, servos with what they are given there.
That is the midpoint rule, of order 2 and the same in both directions of time, and as the impulse at
the start is found with those of joints and contacts, dampers may be as strong as they are. By that
rule alone one that stops its joint within a step would turn its velocity around, again and again:
of such a damper the impulse at the end is in part by the velocity there (see `_share`).
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float

from ..bodies import Phase
from ..flows import Step
from .cone import ConeProblem
from .scene import Impulse, Scene
from .tolerances import Tolerances
from .yielding import Yielding


class Damped(NamedTuple):
    """What dampers do in a step but for what is by the velocity at its end."""

    share: Float[Array, " n_dampers"]  # of what they do at the end, by velocities there
    force: Float[Array, " n_dampers"]  # of servos at the end, at no velocity [N]
    again: Float[Array, " n_dampers"]  # impulses at the end that are known before [N s]
    speed: Float[Array, " n_dampers"]  # before these [m/s]
    work: Float[Array, ""] | None  # of loads, and of dampers at the start [J]

    def law(self, half: Float[Array, ""], scene: Scene) -> Yielding:
        """What the rows of joints that yield obey at the end, of a step of twice the time [s]."""
        return scene.yielding(half * self.share, self.force)

    def work_until(self, end: Phase, impulse: Impulse, scene: Scene) -> Float[Array, ""] | None:
        """The work of loads and dampers in a step with all impulses at its end, after which the
        phase is the end [J]."""
        if scene.damping is None:
            return self.work
        # Of all that acts at the end at once: between the velocities before and after all of it.
        reaction = self.again + scene.damping.own(impulse.joint)
        speeds = self.speed + scene.damping.speed(end, scene.dynamics.inertial)
        return _and(self.work, 0.5 * jnp.sum(reaction * speeds))


def damped(
    impulse: Impulse,
    problem: ConeProblem,
    when: tuple[Float[Array, ""], Float[Array, ""]],
    start: tuple[Phase, Phase],
    step: Step,
    scene: Scene,
) -> tuple[Phase, Damped]:
    """The end of a flight with the impulses that dampers have there and that are known before, and
    what they do.

    Args:
        impulse: at the start.
        problem: there.
        when: the time of the start, and the duration [s].
        start: the phases before and after the impulse.
        step: the flight.
        scene: masses and joints.
    """
    damping, inertial, (t, duration) = scene.damping, scene.dynamics.inertial, when
    share = _share(problem, duration, scene)
    if damping is None:
        return step.phase, Damped(share, share, share, share, step.work)
    own, force = damping.own(impulse.joint), scene.servo_force(t + duration, step.phase)
    again = own
    if damping.motors:
        # By the same mean speed, with what servos are given at the end.
        half, before = 0.5 * duration, scene.servo_force(t, start[0])
        law, again = scene.of_dampers(half, force), own + half * (force - before)
        if law.bounds is not None:
            # At a bound, or next to one, the impulse at the start does not tell the speed.
            speed = damping.travel(start[0], step.phase) / jnp.where(duration > 0, duration, 1.0)
            pull = law.resistance * speed
            near = Tolerances.of(own.dtype).allowed * (jnp.abs(law.push) + jnp.abs(pull))
            free = (own > law.bounds[0] + near) & (own < law.bounds[1] - near)
            again = law.within(jnp.where(free, again, law.push - pull))
    again = (1 - share) * again
    pushes = damping.directions(step.phase).push(again, step.phase.position.x.shape[0])
    speeds = [damping.speed(phase, inertial) for phase in (*start, step.phase)]
    work = _and(step.work, 0.5 * jnp.sum(own * (speeds[0] + speeds[1])))
    return inertial.pushed(step.phase, *pushes), Damped(share, force, again, speeds[2], work)


def _share(problem: ConeProblem, duration, scene: Scene) -> Float[Array, " n_dampers"]:
    """The part of what dampers do at the end of a step that is by the velocity there.

    With y = damping/(inertia of its joint) in a step the velocity becomes, for a share s,

        (1 - (1 - s) y/2) / ((1 + y/2) (1 + s y/2))

    of itself. It keeps its sign, for any inertia that is no less than that of free bodies and of
    its rotor, if s is 0 up to y = 2 of these, and 1 - 2/y beyond: there a step is too long to tell
    how it dies away.
    """
    damping = scene.damping_for(duration)
    inverse = problem.inverse_masses(problem.joints)[problem.drift.shape[0] - damping.shape[0] :]
    if scene.damping is not None:
        inverse = inverse / (1 + scene.damping.rotors * inverse)
    y = damping * inverse
    return jnp.where(y > 2, 1 - 2 / jnp.where(y > 2, y, 2.0), 0.0)


def _and(work: Float[Array, ""] | None, more: Float[Array, ""]) -> Float[Array, ""]:
    return more if work is None else work + more
