"""Impacts without friction, and the guards that all impacts share."""

from __future__ import annotations

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from ..bodies import Phase
from ..contact import AbstractContacts, ContactKinematics, HalfSpaceContacts, NearContacts
from ..impact.laws import push_along_normal
from ..math.rarely import if_any
from .events import AbstractEvents, Contacts, Event, Guards, Kind, Reset
from .results import Code
from .system import System
from .tolerances import Tolerance, gap_tolerance, transversality
from .zeno import remaining_bounces


class AbstractImpacts(AbstractEvents):
    """Impacts alone; nothing is remembered between flights.

    Attributes:
        tolerance: of gaps.
        looks_near: whether the loop looks for impacts among contacts that are near.
    """

    system: System
    tolerance: Tolerance = eqx.field(static=True)
    looks_near: bool = eqx.field(static=True, default=False, kw_only=True)

    def initial_mode(self, t, phase):
        return None

    @property
    def depth(self):
        return self.tolerance.depth

    def gap_tolerance(self, contacts):
        return gap_tolerance(contacts, self.tolerance)

    def guards(self, t, end, contacts, mode, dt):
        motion = contacts.kinematics(end, self.system.inertial)
        return impact_guards(t, end, contacts, motion, self.system, self.tolerance, dt)

    @property
    def near(self):
        return self.looks_near

    @property
    def round_of_iterations(self):
        # Of many bodies some two hit each other in nearly every flight.
        return 1 if self.looks_near else 48

    def look(
        self, near: NearContacts, t: Float[Array, ""], end: Phase, dt: Float[Array, ""]
    ) -> tuple[AbstractImpacts, AbstractContacts, Guards]:
        """The guards at the end of a trial, by the contacts that are near, or by all of them if
        more are near than a list has places; and what holds the contact of the impact that may
        happen there, which is all that a reset needs.

        Args:
            near: a list of contacts that was renewed there.
            t: time there [s].
            end: the phase there.
            dt: step size [s].
        """

        def guards(events: AbstractImpacts, t, end, dt) -> tuple[Guards, Int[Array, ""]]:
            contacts = events.contacts(t, end)
            found = events.guards(t, end, contacts, None, dt)
            here = found.event.contact
            order = events.system.numbers
            order = jnp.arange(here.size, dtype=jnp.int32) if order is None else order
            # A list may hold a contact more than once.
            number = jnp.max(jnp.where(here, order.reshape(here.shape), -1))
            unknown = found.event._replace(contact=jnp.zeros(1, bool))
            return dataclasses.replace(found, event=unknown), number

        def by_all(near: NearContacts, events: AbstractImpacts, *where):
            return guards(events, *where)

        def by_near(near: NearContacts, events: AbstractImpacts, *where):
            return guards(events.among(near), *where)

        found, number = if_any(near.crowded(), by_all, by_near, near, self, t, end, dt)
        one = self.alone(jnp.maximum(number, 0))
        contacts = one.contacts(t, end)
        assert contacts is not None
        event = Event.of((number << 2) | Kind.IMPACT, contacts.gap, one.system.numbers)
        allowed, motion = one.gap_tolerance(contacts), contacts.kinematics(end, one.system.inertial)
        steep = transversality(t, end, motion, allowed, one.system)
        steep = jnp.min(jnp.where(event.contact, steep, jnp.inf))
        return one, contacts, dataclasses.replace(found, transversality=steep, event=event)


class Impacts(AbstractImpacts):
    """Impacts whose impulse is known in closed form."""

    def reset(self, t, end, contacts, event, resolution, mode, known=None):
        motion = contacts.kinematics(end, self.system.inertial)
        law = self.system.contact_law
        impulse = push_along_normal(law, motion.normal_velocity, motion.inverse_mass)
        after = contacts.apply_impulse(end, impulse, event.contact, self.system.inertial)
        return Reset(after, mode, event)

    def zeno_time(self, t, final, mode, code):
        assert self.system.contacts is not None
        unknown = jnp.full_like(final.position.x, jnp.nan)
        # The bounces to come are those of each body by itself where it is free and touches
        # half-spaces alone.
        alone = isinstance(self.system.contacts, HalfSpaceContacts)
        alone &= self.system.inertial.pivot is None
        ends = t + remaining_bounces(t, final, self.system) if alone else unknown
        return jnp.where(code == Code.zeno, ends, jnp.inf)


def impact_guards(
    t: Float[Array, ""],
    end: Phase,
    contacts: AbstractContacts,
    motion: ContactKinematics,
    system: System,
    tolerance: Tolerance,
    dt: Float[Array, ""],
    lasting: Contacts | None = None,
) -> Guards:
    """The guards of impacts at the end of a trial.

    Args:
        t: time there [s].
        end: of the trial.
        contacts, motion: there.
        system: the world.
        tolerance: of gaps.
        dt: step size [s].
        lasting: contacts that neither close nor penetrate, because they last.
    """
    allowed = gap_tolerance(contacts, tolerance)
    gap = contacts.gap / allowed
    rate = motion.normal_velocity * dt / allowed

    closing = rate < 0
    # A contact that was just resolved sits at gap zero to round-off and must not be found
    # again; one that is below it by more, or gets there within the step, must.
    # So must one of a body that started deeper, as long as it approaches.
    deepest = -1 - tolerance.depth / allowed if tolerance.depth else -1
    penetrating = (gap < deepest) | ((gap < 0) & (rate < -1))
    no = jnp.zeros((), bool)
    search_failed = no
    assert system.contacts is not None
    if system.contacts.searched:
        moving = jnp.stack([jnp.sum(leaf) for leaf in jax.tree.leaves(end)])
        search_failed = jnp.any(jnp.isnan(gap)) & jnp.all(jnp.isfinite(moving))
    if lasting is not None:
        closing &= ~lasting
        penetrating &= ~lasting
    # Newton aims at half the tolerance, so that it ends on the admissible side.
    time = jnp.where(closing, dt * (gap - 0.5) / jnp.where(closing, -rate, 1.0), jnp.inf)
    # Of contacts that touch to the tolerance the first is the nearest, whatever round-off says.
    nearest = jnp.where(closing, jnp.maximum(gap, 1.0), jnp.inf)
    steep = transversality(t, end, motion, allowed, system)
    impact = closing if gap.size == 1 else least(nearest, system)
    return Guards(
        penetrating=jnp.any(penetrating),
        closing=jnp.any(closing),
        releasing=no,
        gap=jnp.min(nearest),
        time=jnp.min(time),
        transversality=jnp.min(jnp.where(impact, steep, jnp.inf)),
        event=Event(jnp.full((), Kind.IMPACT, jnp.int32), impact),
        finite=jnp.all(jnp.isfinite(gap + rate)),
        search_failed=search_failed,
    )


def least(values: Float[Array, "..."], system: System) -> Contacts:
    """A mask of the least finite value; of equal ones the first in the order of the world."""
    order = system.order(values.shape)
    lowest = (values == jnp.min(values)) & (values < jnp.inf)
    return lowest & (order == jnp.min(jnp.where(lowest, order, jnp.iinfo(order.dtype).max)))
