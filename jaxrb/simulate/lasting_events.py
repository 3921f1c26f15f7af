"""Impacts, and the contacts that last between them: with friction, joints, between all bodies."""

from __future__ import annotations

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from ..bodies import Phase
from ..contact import AbstractContacts, AbstractContactSet
from ..math import tree_where
from ..math.rarely import if_any
from ..stepping.cone_solver import search
from ..stepping.contact_rows import ContactRows, Turning, pushed, velocities
from ..stepping.held_step import Impulses, held_step
from ..stepping.scene import Impulse, Scene
from ..stepping.solve_cone import answer
from ..stepping.tolerances import Tolerances
from .events import AbstractEvents, Event, Flown, Kind, NoContacts, Reset, free_flow
from .impact_events import AbstractImpacts, impact_guards
from .system import System
from .tolerances import Tolerance, gap_tolerance

# A bounce that takes less than this part of a step is none.
_SHORT = 1e-3


class Touching(eqx.Module):
    """The mode of a world whose contacts may last.

    Attributes:
        held: the contacts that took part in the last flight, of shape (n_contacts,), those of dry
            friction in joints included.
        lasting: the same, by the numbers that contacts have at its end.
        impulses: of that flight, from which those of the next are sought.
        struck: of the impact after it in which several contacts or joints took part.
    """

    held: Bool[Array, " n_contacts"]
    lasting: Bool[Array, " n_contacts"]
    impulses: Impulses
    struck: Impulse

    @staticmethod
    def start(scene: Scene, t, phase: Phase) -> Touching:
        """Nothing is held yet."""
        nothing = scene.no_impulse(t, phase)
        no = jnp.zeros(nothing.contact.shape[1:], bool)
        return Touching(no, no, Impulses.nothing(nothing), nothing)


def scene_of(system: System) -> Scene:
    """A world as the problems of contacts and joints see it."""
    contacts, law = system.contacts, system.contact_law
    dtype = system.inertial.mass.dtype
    friction = jnp.zeros(0, dtype)
    if contacts is not None:
        friction = _of_each(law.coefficient_of_friction, contacts).astype(dtype)
    turning, resistance = _turning(system, dtype)
    return Scene.of(system.dynamics, contacts, friction, system.joints, turning, resistance)


def held_scene_of(system: System) -> Scene:
    """Likewise, for `held_step`."""
    return scene_of(system).with_dampers_in_rows()


def _turning(system: System, dtype) -> tuple[Turning | None, Float[Array, " n_turning"]]:
    """What resists turning at contacts, and how much it does [m]."""
    rolling, spinning = system.turning
    if not rolling + spinning:
        return None, jnp.zeros(0, dtype)
    assert system.contacts is not None
    largest = [
        _of_each(friction, system.contacts)[np.array(own)]
        for own, friction in zip(system.turning, system.contact_law.turning_friction, strict=True)
        if friction is not None and own
    ]
    # Any length: that of which the body's inertia and mass make the same.
    inertial = system.inertial
    moments = inertial.inertia.diagonal
    spread = (moments.x + moments.y + moments.z) / (3 * inertial.mass)
    bodies = system.contacts.partners[:, 0][np.array(rolling + spinning)]
    arc = jax.lax.stop_gradient(jnp.sqrt(spread))[bodies]
    return Turning(rolling, spinning, arc), jnp.concatenate(largest).astype(dtype)


def _of_each(number: Float[Array, "..."], contacts: AbstractContactSet) -> Float[Array, " n"]:
    return jnp.broadcast_to(number, contacts.shape).reshape(-1)


def held_flight(scene: Scene, scheme, closed: Float[Array, ""]):
    """The flight in which contacts are held and joints hold.

    Args:
        scene: the world.
        scheme: of free bodies.
        closed: the largest gap of a closed contact, besides its round-off [m].
    """

    def fly(t, duration, phase, contacts, mode: Touching, known: Touching | None):
        held, found = scene.resisted(mode.held), None if known is None else known.impulses
        start = (t, duration, phase, contacts, held)
        step = held_step(scheme, *start, mode.impulses, scene, closed, found)
        missed = missed_part(step.residual)
        if scene.joints is None:
            missed = jnp.where(jnp.any(held), missed, 0.0)
        mode = Touching(held, step.lasting, jax.lax.stop_gradient(step.impulses), mode.struck)
        error = jnp.maximum(step.error, missed)
        return Flown(step.phase, error, step.work, mode, missed <= 1, step.contacts)

    return fly


class Jointed(NoContacts):
    """The events of a world whose bodies are joined and can touch nothing: none."""

    remembers = True

    def initial_mode(self, t, phase):
        return Touching.start(held_scene_of(self.system), t, phase)

    def flow(self, scheme, t, duration, phase, mode: Touching, known=None, contacts=None):
        fly = held_flight(held_scene_of(self.system), scheme, jnp.zeros_like(duration))
        return fly(t, duration, phase, None, mode, known)


class LastingContacts(AbstractEvents):
    """Impacts are located; between them contacts that are closed and slow take part in the flight.

    A contact is held through a flight if at its start it is closed and its normal velocity is less
    than that of a bounce that takes a thousandth of a step, or is no higher than round-off. It
    sticks, slides or opens in the flight. Any other contact that closes is an impact: by itself it
    obeys the law of impact; of several that are closed all take part in one cone problem, those
    that approach with Newton's restitution, the others with none. So do the joints of bodies that
    have some.

    Attributes:
        impacts: what happens where only one contact is closed.
        tolerance: of gaps.
        dt: step size, a scale of times [s].
        together: whether several closed contacts take part in an impact; if not, impacts follow
            each other.
    """

    system: System
    impacts: AbstractImpacts
    tolerance: Tolerance = eqx.field(static=True)
    dt: Float[Array, ""]
    together: bool = eqx.field(static=True)

    keeps_contacts = True
    remembers = True

    @property
    def deferred(self):
        return self.impacts.deferred and self.system.joints is None

    @property
    def round_of_iterations(self):
        return 4  # flights with contacts cost more than impulses

    def initial_mode(self, t, phase):
        return Touching.start(self._scene, t, phase)

    def flow(self, scheme, t, duration, phase, mode: Touching, known=None, contacts=None):
        contacts = self.contacts(t, phase) if contacts is None else contacts
        assert contacts is not None
        held = self._held(t, contacts, phase) if known is None else known.held
        fly = held_flight(self._scene, scheme, self._height(t, phase))
        arguments = (t, duration, phase, contacts, dataclasses.replace(mode, held=held), known)
        if self.system.joints is not None:
            return fly(*arguments)
        return if_any(jnp.any(held), fly, self._free_flight(scheme), *arguments)

    def _free_flight(self, scheme):
        def fly(t, duration, phase, contacts, mode: Touching, known):
            step = free_flow(scheme, t, duration, phase, self.system)
            nothing = jax.tree.map(jnp.zeros_like, mode.impulses)
            mode = dataclasses.replace(mode, lasting=mode.held, impulses=nothing)
            found = self.contacts(t + duration, step.phase)
            return Flown(step.phase, step.error, step.work, mode, jnp.ones((), bool), found)

        return fly

    def contact_impulse(self, scheme, t, duration, phase):
        scene, contacts = self._scene, self.contacts(t, phase)
        assert contacts is not None
        held = scene.resisted(self._held(t, contacts, phase))
        start, before = (t, duration, phase, contacts, held), self.initial_mode(t, phase)
        step = held_step(scheme, *start, before.impulses, scene, self._height(t, phase))
        error = jnp.maximum(step.error, missed_part(step.residual))
        return step.contact[:, : self._n_contacts], error <= 1, step.residual

    def lasting(self, mode: Touching, like):
        return self._like(mode.held | mode.lasting, like)

    @property
    def depth(self):
        return self.tolerance.depth

    def unevenness(self, t, phase):
        """Of gaps to which the equations of contacts and joints are solved, which are open by more
        than round-off where lengths are those of several bodies."""
        return self._height(t, phase)

    def gap_tolerance(self, contacts):
        return gap_tolerance(contacts, self.tolerance)

    def guards(self, t, end, contacts, mode: Touching, dt):
        motion = contacts.kinematics(end, self.system.inertial)
        held = self._like(mode.lasting, contacts.gap)
        guards = impact_guards(t, end, contacts, motion, self.system, self.tolerance, dt, held)
        # A contact that closes ever so slowly is held from then on.
        kind = jnp.full((), Kind.LANDING, jnp.int32)
        return dataclasses.replace(guards, event=guards.event._replace(kind=kind))

    def resolve(self, phase, contacts, event):
        return self.impacts.resolve(phase, contacts, event)

    def linearize(self, resolutions):
        # With joints an impact is a cone problem, whose impulses the mode remembers.
        return self.impacts.linearize(resolutions) if self.deferred else resolutions

    def reset(self, t, end, contacts, event, resolution, mode: Touching, known=None):
        struck = self._scene.beside_contacts(event.contact.reshape(-1), False)
        rows = self._scene.rows_of(contacts, end)
        closed, slow = self._closed(t, contacts, end), self._slow(t, end, rows)
        lands = jnp.any(struck & (self._speed(rows, end) >= -slow))
        kind = jnp.where(lands, jnp.int32(Kind.LANDING), jnp.int32(Kind.IMPACT))
        event = Event(kind, event.contact)
        if self.system.joints is not None:
            active = struck | closed if self.together else struck
            after, mode, found = self._in_one_problem(
                end, rows, slow, active & jnp.any(struck), mode, known
            )
            return Reset(tree_where(jnp.any(struck), after, end), mode, event, found)
        alone = self.impacts.reset(t, end, contacts, event, resolution, None)
        if not self.together:
            return Reset(alone.phase, mode, event, alone.found)
        several = jnp.any(struck) & jnp.any(closed & ~struck)
        after, mode, found = self._in_one_problem(
            end, rows, slow, (struck | closed) & several, mode, known
        )
        phase = tree_where(several, after, alone.phase)
        return Reset(phase, mode, event, jnp.where(several, found, alone.found))

    def _in_one_problem(
        self, end: Phase, rows: ContactRows, slow, active, mode: Touching, known: Touching | None
    ) -> tuple[Phase, Touching, Bool[Array, ""]]:
        """The phase and the mode after an impact in which several contacts and all joints take
        part, and whether its impulses were found."""
        scene, inertial = self._scene, self.system.inertial
        speed = self._speed(rows, end)
        restitution = jnp.zeros(0, rows.gap.dtype)
        if self.system.contacts is not None:
            restitution = _of_each(self.system.contact_law.restitution, self.system.contacts)
        restitution = scene.beside_contacts(restitution, 0.0)
        returned = jnp.where(speed < -slow, restitution * speed, 0.0)
        nothing = scene.nothing(rows)
        bias = nothing._replace(contact=(-rows.drift).at[0].add(returned))
        problem = scene.problem(rows, end, bias, active)
        if known is None:
            solution = search(*jax.lax.stop_gradient((problem, *nothing)))
            impulse = Impulse(solution.impulse, solution.reaction)
            found = missed_part(solution.residual) <= 1
        else:
            impulse, found = known.struck, jnp.ones((), bool)
        after = pushed(end, problem.momentum(*answer(problem, impulse)), inertial)
        return after, dataclasses.replace(mode, struck=impulse), found

    @property
    def _scene(self) -> Scene:
        return held_scene_of(self.system)

    def _like(self, mask: Bool[Array, " n_contacts"], like: Array) -> Bool[Array, "..."]:
        """A mask of contacts alone, in the shape in which they are found."""
        return mask[: self._n_contacts].reshape(like.shape)

    @property
    def _n_contacts(self) -> int:
        assert self.system.contacts is not None
        return self.system.contacts.number

    def _speed(self, rows: ContactRows, phase: Phase) -> Float[Array, " n_contacts"]:
        """The rates of the gaps [m/s]."""
        return rows.rates.velocity(velocities(phase, self.system.inertial))[0] - rows.drift[0]

    def _held(self, t, contacts: AbstractContacts, phase: Phase) -> Bool[Array, " n_contacts"]:
        """The contacts that take part in a flight."""
        rows = self._scene.rows_of(contacts, phase)
        slow = jnp.abs(self._speed(rows, phase)) <= self._slow(t, phase, rows)
        return self._closed(t, contacts, phase) & slow

    def _closed(self, t, contacts: AbstractContacts, phase: Phase) -> Bool[Array, " n_contacts"]:
        height = self.gap_tolerance(contacts) + self._height(t, phase)
        return self._scene.beside_contacts((contacts.gap <= height).reshape(-1), False)

    def _slow(self, t, phase: Phase, rows: ContactRows) -> Float[Array, " n_contacts"]:
        """The speeds of bounces that are none [m/s]: that take a thousandth of a step, or cannot
        be told from none, as often in float32."""
        scale = self.system.dynamics.acceleration_scale(t, phase)
        least = rows.least_speed(scale, phase, self.system.inertial)
        return jax.lax.stop_gradient(jnp.maximum(0.5 * scale * _SHORT * self.dt, least))

    def _height(self, t, phase: Phase) -> Float[Array, ""]:
        """How high a bounce is, about, that is none, or by how much a step leaves gaps open [m]."""
        scale = self.system.dynamics.acceleration_scale(t, phase)
        bounce = jax.lax.stop_gradient(0.125 * scale * (_SHORT * self.dt) ** 2)
        return jnp.maximum(bounce, self._scene.left_open(t, phase, self.dt))


def missed_part(residual: Float[Array, ""]) -> Float[Array, ""]:
    """The residual of cone problems, relative to the one allowed."""
    return jax.lax.stop_gradient(residual / Tolerances.of(residual.dtype).allowed)
