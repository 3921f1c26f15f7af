"""One flight of a trajectory that was found, and the event that it may end with.

It is taken without any search. The duration of a flight that ends with an event is known as a
number; its derivatives are those of the root that was located.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.custom_derivatives import SymbolicZero
from jaxtyping import Array, Bool, Float, Int

from ..bodies import Phase
from ..contact import AbstractContacts
from ..flows import AbstractFlow
from ..math.autodiff import is_moving, keep_rule, sparse_jvp
from ..math.materialize import compute_once, opaque_one
from ..math.rarely import if_any, where_any
from .course import Course
from .events import AbstractEvents, Event, Mode, Resolution
from .log import WHOLE
from .recorder import Times
from .time_grid import TimeGrid


class Scene(eqx.Module):
    """The numbers on which a trajectory depends, besides its start."""

    grid: TimeGrid
    events: AbstractEvents
    times: Times  # to save


class Logged(NamedTuple):
    """The logged event that ends an arc, if any."""

    number: Int[Array, ""]
    resolution: Resolution
    mode: Mode  # at the end, where that is remembered

    @property
    def happens(self) -> Bool[Array, ""]:
        """Whether there is an event."""
        return self.number >= 0

    @property
    def within_step(self) -> Bool[Array, ""]:
        """Whether the flight ended before its step, with an event or without."""
        return self.number != WHOLE

    def at(self, events: AbstractEvents) -> AbstractEvents:
        """The events at the contact of this one, where it is found alone."""
        return events.alone(jnp.maximum(self.number, 0) >> 2) if events.near else events

    def event(self, events: AbstractEvents, contacts: AbstractContacts | None) -> Event:
        """The event, at one of the contacts of these events."""
        like = jnp.zeros(1) if contacts is None else contacts.gap
        return Event.of(self.number, like, events.system.numbers)


class End(NamedTuple):
    """The states at the end of a flight, before and after the event that it may end with."""

    before: Phase
    after: Phase
    mode: Mode  # from then on
    duration: Float[Array, ""]  # [s]
    work: Float[Array, ""] | None  # of the flight [J]


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def fly_to_event(
    scheme: AbstractFlow,
    planned: Float[Array, ""],
    late: Bool[Array, ""],
    logged: Logged,
    scene: Scene,
    course: Course,
) -> End:
    """The end of a flight, before and after the event it may end with.

    The duration of a flight that ends with an event is the root that was located of the event's
    function, such as a gap: its value is the planned one, its derivative that of the root.

    Args:
        planned: the duration [s].
        late: whether the flight may begin within a step, after an event.
        logged: the event at its end.
        scene, course: the world and where it is.
    """
    end = _fly(scheme, logged, planned, scene, course)
    return _reset(logged, end, planned, scene, course)


@partial(fly_to_event.defjvp, symbolic_zeros=True)
def _(scheme, primals, tangents):
    """The implicit function theorem: d(duration) = -dPhi / (dPhi/d duration) at fixed duration.

    It is evaluated at the duration that the function itself returns, so that higher
    derivatives follow from this one.
    """
    planned, late, logged, scene, course = primals
    dplanned, _, _, dscene, dcourse = tangents
    duration = keep_rule(partial(fly_to_event, scheme))(*primals).duration

    # The end of the flight is linearised once along what is given, and once along its duration.
    one = opaque_one(course.step, duration.dtype)
    fly = partial(_fly, scheme, logged)
    end, dend = sparse_jvp(partial(fly, duration), (scene, course), (dscene, dcourse))
    dend = compute_once(dend, one)

    def along_duration(duration, scene, course):
        fly_for = lambda d: fly(d, scene, course)  # noqa: E731
        return jax.jvp(fly_for, (duration,), (jnp.ones_like(duration),))[1]

    # A whole step has its own duration, whatever else changes, if the grid of times does not.
    late = late | is_moving(dscene.grid)
    motion_matters = logged.happens | late
    motion = where_any(motion_matters, along_duration, duration, scene, course)

    def root(end, duration, scene, course):
        t = course.time(scene.grid) + duration
        events = logged.at(scene.events)
        event = logged.event(events, end.contacts)
        return events.root(t, end.phase, end.contacts, event, end.mode)

    still = jnp.zeros_like(duration)
    arguments = (end, duration, scene, course)
    _, change = sparse_jvp(root, arguments, (dend, still, dscene, dcourse))
    passing = lambda end, duration: root(end, duration, scene, course)  # noqa: E731
    _, rate = jax.jvp(passing, (end, duration), (motion, jnp.ones_like(duration)))
    moving = logged.happens & (rate != 0)
    if isinstance(dplanned, SymbolicZero):
        dplanned = jnp.zeros_like(planned)
    dduration = jnp.where(logged.happens, -change / jnp.where(moving, rate, 1.0), dplanned)
    dduration = compute_once(dduration, one)

    moves = lambda d: jnp.issubdtype(d.dtype, jnp.floating)  # noqa: E731
    moved = jax.tree.map(lambda d, rate: d + rate * dduration if moves(d) else d, dend, motion)
    return sparse_jvp(partial(_reset, logged), arguments, (moved, dduration, dscene, dcourse))


class _Arrival(NamedTuple):
    """The end of a flight, before anything happens there."""

    phase: Phase
    contacts: AbstractContacts | None
    work: Float[Array, ""] | None
    mode: Mode


@jax.jit  # it is differentiated in two ways, and so is what happens after it: traced once for both
def _fly(
    scheme: AbstractFlow, logged: Logged, duration: Float[Array, ""], scene: Scene, course: Course
) -> _Arrival:
    events = logged.at(scene.events)
    t = course.time(scene.grid)
    end = events.flow(scheme, t, duration, course.phase, course.mode, logged.mode)
    contacts = events.contacts_after(end, t + duration)
    return _Arrival(end.phase, contacts, end.work, end.mode)


@jax.jit
def _reset(
    logged: Logged, end: _Arrival, duration: Float[Array, ""], scene: Scene, course: Course
) -> End:
    """The world after the event that a flight may end with."""
    # What reverse mode keeps of it would pass through the branches, which would copy it.
    happened = jax.checkpoint(_happened, prevent_cse=False)
    arguments = (logged, end, duration, scene, course)
    phase, mode = if_any(logged.happens, happened, _nothing_happened, *arguments)
    return End(end.phase, phase, mode, duration, end.work)


def _happened(
    logged: Logged, end: _Arrival, duration: Float[Array, ""], scene: Scene, course: Course
) -> tuple[Phase, Mode]:
    t = course.time(scene.grid) + duration
    events = logged.at(scene.events)
    event = logged.event(events, end.contacts)
    after = events.reset(
        t, end.phase, end.contacts, event, logged.resolution, end.mode, logged.mode
    )
    return after.phase, after.mode


def _nothing_happened(
    logged: Logged, end: _Arrival, duration: Float[Array, ""], scene: Scene, course: Course
) -> tuple[Phase, Mode]:
    return end.phase, end.mode
