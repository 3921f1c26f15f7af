"""Contacts that are resolved in steps: no event interrupts a flight."""

from __future__ import annotations

import abc
import functools
import operator
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from ..bodies import Phase
from ..contact import moves
from ..flows import AbstractFlow
from ..math.rarely import if_any
from ..stepping.contact_rows import ContactRows
from ..stepping.held_step import Impulses
from ..stepping.joined_step import Joined, joined_step
from ..stepping.moreau_step import Stepped, Struck, Surroundings, moreau_step
from ..stepping.projection import Projection, project
from ..stepping.put_right import no_shift
from ..stepping.scene import Scene
from ..stepping.theta_step import Moved, Rule, theta_step
from ..stepping.tolerances import Tolerances
from .events import AbstractEvents, Flown, NoContacts
from .lasting_events import held_scene_of, scene_of
from .system import System


class AbstractScheme(eqx.Module):
    """A way to make one step with impacts in it."""

    @abc.abstractmethod
    def allowed(self, dtype) -> float:
        """The largest residual of the cone problems of a step that is taken."""

    @property
    def lag(self) -> float:
        """That of `Surroundings`."""
        return 0.0

    @abc.abstractmethod
    def scene(self, system: System) -> Scene:
        """A world as its steps see it."""

    @abc.abstractmethod
    def nothing(self, scene: Scene, t, phase: Phase) -> Any:
        """The impulses before the first step."""

    @abc.abstractmethod
    def step(
        self,
        flow: AbstractFlow,
        t,
        duration,
        phase: Phase,
        before: Any,
        around: Surroundings,
        known: Any | None,
    ) -> Stepped:
        """One step from a phase at a time [s], given what the one before has found, and what this
        one has, if it was taken before."""


class Variational(AbstractScheme):
    """Moreau's midpoint rule around a flow, and for joined bodies a step that holds joints."""

    def allowed(self, dtype):
        return Tolerances.of(dtype).allowed

    def scene(self, system):
        return held_scene_of(system)

    def nothing(self, scene, t, phase):
        none = scene.no_impulse(t, phase)
        if scene.joints is None:
            return Struck.nothing(none)
        return Joined(none, Impulses.nothing(none))

    def step(self, flow, t, duration, phase, before, around, known):
        step = moreau_step if around.scene.joints is None else joined_step
        return step(flow, t, duration, phase, before, around, known)


class Theta(AbstractScheme):
    """Moreau and Jean's theta rule."""

    rule: Rule = eqx.field(static=True)

    @property
    def lag(self):
        return self.rule.theta - 0.5

    def allowed(self, dtype):
        # Bounces of several contacts of a face may ask for more than rigid bodies can do (see
        # `moreau_step`); as in Siconos, such a step is taken with what the solver has found.
        return 1e-6 if jnp.finfo(dtype).eps < 1e-10 else 1e-3

    def scene(self, system):
        return scene_of(system)

    def nothing(self, scene, t, phase):
        none = scene.no_impulse(t, phase)
        x = phase.position.x
        shift = None if scene.joints is None else no_shift(scene, phase)
        return Moved(jnp.zeros((6, x.shape[0]), x.dtype), none, shift, jnp.zeros((), x.dtype))

    def step(self, flow, t, duration, phase, before, around, known):
        return theta_step(self.rule, flow, t, duration, phase, before, around, known)


class Projected(AbstractScheme):
    """A scheme at the end of whose steps bodies are moved out of what they have penetrated."""

    scheme: AbstractScheme

    @property
    def lag(self):
        return self.scheme.lag

    def allowed(self, dtype):
        return self.scheme.allowed(dtype)

    def scene(self, system):
        return self.scheme.scene(system)

    def nothing(self, scene, t, phase):
        return self.scheme.nothing(scene, t, phase), Projection.nothing(t, phase, scene)

    def step(self, flow, t, duration, phase, before, around, known):
        own, projection = (None, None) if known is None else known
        step = self.scheme.step(flow, t, duration, phase, before[0], around, own)
        if around.scene.contacts is None:
            return step._replace(found=(step.found, before[1]))
        step, projection = project(flow, t + duration, duration, step, around, projection)
        return step._replace(found=(step.found, projection))


class Carried(eqx.Module):
    """The mode of a world that is stepped.

    Attributes:
        found: what the last step has found, from which that of the next is sought.
        lost: whether the closest point of a contact was not found in it.
        unmoved: the duration of that step if it left all as it was, to the last digit, and 0
            otherwise [s]. One that lasts as long leaves all as it is, again.
    """

    found: Any
    lost: Bool[Array, ""]
    unmoved: Float[Array, ""]


class SteppedContacts(AbstractEvents):
    """A flight is a whole step, with its impacts and all contacts; nothing interrupts it.

    Attributes:
        scheme: of the steps.
        tolerance: the largest gap of a closed contact [m], at least its round-off.
        residual: the largest with which a step is taken; None: that of the scheme.
    """

    system: System
    scheme: AbstractScheme
    tolerance: float = eqx.field(static=True)
    residual: float | None = eqx.field(static=True)

    remembers = True

    def initial_mode(self, t, phase):
        scene = self.scheme.scene(self.system)
        none = jnp.zeros_like(phase.position.x[0])
        return Carried(self.scheme.nothing(scene, t, phase), jnp.zeros((), bool), none)

    def flow(self, scheme, t, duration, phase, mode: Carried, known=None, contacts=None):
        # Only what was found is differentiated: that what rests stays is no derivative.
        if known is not None or not self._autonomous:
            return self._flown(scheme, t, duration, phase, mode, known)

        def step(t, duration, phase: Phase, mode: Carried) -> Flown:
            return self._flown(scheme, t, duration, phase, mode, None)

        # Of a batch, worlds that have ended are flown for no time.
        needed = (duration != mode.unmoved) & (duration != 0)
        return if_any(needed, step, _unmoved, t, duration, phase, mode)

    def _flown(self, scheme, t, duration, phase, mode: Carried, known) -> Flown:
        """A step that is taken."""
        step = self._step(scheme, t, duration, phase, mode, known)
        missed = self._missed(step)
        error = jnp.maximum(step.error, missed)
        found = jax.lax.stop_gradient(step.found)
        rests = _equal((phase, mode.found), (step.phase, found)) & (error <= 1) & ~step.lost
        unmoved = jnp.where(rests & self._autonomous, duration, jnp.zeros_like(duration))
        carried = Carried(found, step.lost, jax.lax.stop_gradient(unmoved))
        return Flown(step.phase, error, step.work, carried, missed <= 1)

    @property
    def _autonomous(self) -> bool:
        """Whether steps do not depend on the time."""
        return not self.system.dynamics.loads and not moves(self.system.contacts)

    def _missed(self, step: Stepped) -> Float[Array, ""]:
        """The residual of a step, relative to the largest with which it is taken."""
        dtype = step.residual.dtype
        allowed = self.scheme.allowed(dtype) if self.residual is None else self.residual
        return step.residual / allowed

    def _step(self, scheme, t, duration, phase, mode: Carried, known: Carried | None) -> Stepped:
        around, found = self._around, None if known is None else jax.lax.stop_gradient(known.found)
        return self.scheme.step(scheme, t, duration, phase, mode.found, around, found)

    @property
    def _around(self) -> Surroundings:
        scene = self.scheme.scene(self.system)
        restitution = scene.of_sources(scene.beside_contacts(self._restitution, 0.0))
        return Surroundings(scene, restitution, self.tolerance, self.scheme.lag)

    def contact_rows(self, t, duration, phase):
        scene = self._around.across(t, duration)
        found = scene.find(t, phase)
        assert found is not None
        return ContactRows.of(found.points(), phase)

    def contact_impulse(self, scheme, t, duration, phase):
        step = self._step(scheme, t, duration, phase, self.initial_mode(t, phase), None)
        contacts = self.system.contacts
        n_contacts = 0 if contacts is None else contacts.number
        solved = jnp.maximum(step.error, self._missed(step)) <= 1
        return step.contact[:, :n_contacts], solved, step.residual

    def contacts(self, t, phase):
        return None

    def guards(self, t, end, contacts, mode: Carried, dt):
        plain = NoContacts(self.system).guards(t, end, contacts, mode, dt)
        return eqx.tree_at(lambda guards: guards.search_failed, plain, mode.lost)

    def root(self, t, end, contacts, event, mode):
        return NoContacts(self.system).root(t, end, contacts, event, mode)

    def reset(self, t, end, contacts, event, resolution, mode, known=None):
        return NoContacts(self.system).reset(t, end, contacts, event, resolution, mode)

    @property
    def _restitution(self) -> Float[Array, " n_contacts"]:
        contacts = self.system.contacts
        if contacts is None:
            return jnp.zeros(0, self.system.inertial.mass.dtype)
        return jnp.broadcast_to(self.system.contact_law.restitution, contacts.shape).reshape(-1)


def _unmoved(t, duration, phase: Phase, mode: Carried) -> Flown:
    """A step that leaves all as it is."""
    return Flown(phase, jnp.zeros_like(duration), None, mode, jnp.ones((), bool))


def _equal(before: Any, after: Any) -> Bool[Array, ""]:
    """Whether all numbers of two trees are the same."""
    pairs = zip(jax.tree.leaves(before), jax.tree.leaves(after), strict=True)
    return functools.reduce(operator.and_, (jnp.all(a == b) for a, b in pairs))
