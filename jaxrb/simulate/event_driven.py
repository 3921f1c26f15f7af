"""Event-driven methods: free flight between impacts that are located to round-off."""

from __future__ import annotations

import dataclasses
from typing import Literal

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from .._validate import (
    nonnegative_number,
    one_of,
    positive_count,
    positive_number,
    step_size,
)
from ..bodies import ConstantForce, State
from ..contact import HalfSpaceContacts, flat_at_rest, is_large
from ..flows import AbstractFlow, ExactFlight, LieVariational
from .detectors import EndOfStep, ExpectedImpact, Interior
from .differentiate import CheckpointLayout
from .events import AbstractEvents, NoContacts
from .fly import fly
from .forward import is_wanted, say_if_asked
from .frictional_events import DirectImpacts, FrictionalImpacts
from .impact_events import AbstractImpacts, Impacts
from .lasting_events import Jointed, LastingContacts
from .method import AbstractMethod
from .proof import Proved
from .rest_events import ImpactsAndRest
from .system import System, build
from .tolerances import Tolerance
from .trial import Plan
from .world import World

# A kernel that looks at more contacts takes minutes to compile, and longer to run than what XLA
# makes of lists of those that are near.
_MOST_IN_KERNEL = 256


class EventDriven(AbstractMethod):
    """Flies a world step by step, locates every impact to round-off and resolves it there.

    Round-off is meant relative to the flow: against Newton's equations the time of an impact has
    its error, which is of order 2 in the angle of a step for the discrete ones; `ExactFlight` has
    none. A step whose equations have no solution, because a body turns too far in it, is taken in
    parts.

    `EventDriven(ExactFlight(), dt=None)` is continuous time: there are no steps, every flight
    is one evaluation of its closed form from one impact to the next, proved to touch nothing on
    the way, and the times of impacts are those of Newton's equations to round-off. For free bodies
    under gravity and constant forces, convex or unions of convex ones, whose contacts do not last.

    Several impacts in a step are taken in the order of their times; of those at one time, whose
    gaps are closed to the tolerance, the first comes first (those with obstacles by body and
    obstacle, then those of pairs by the lower and the higher index), and this is repeated until
    no contact closes. The contact of an accepted impact is on the admissible side,
    0 <= gap <= tolerance.

    Attributes:
        flow: the scheme of the flight.
        dt: step size [s], a number or traced. An impact interrupts a step, whose rest is flown
            after it. None: continuous time, with `ExactFlight` alone.
        tolerance: the largest gap at an accepted impact [m]; by default the round-off of the
            gap, 8 eps times the lengths it is computed from.
        max_impacts_per_step: more end the simulation with a result code: `zeno` if the last
            flight took at most 1 % of the longest of the step or 1e-4 dt, else
            `max_impacts_reached`. By default 64, of more than four bodies 16 each; 4096 with
            on_zeno="rest", where those that accumulate may be more. In continuous time so many
            one after another, each after at most 1 % of the longest flight so far, are `zeno`.
        max_impacts: capacity, for the whole trajectory, of the log from which trajectories
            are differentiated, saved along the way, or recorded; a full log ends the
            simulation with `max_impacts_reached`. By default one per body and 64 steps, and
            `max_impacts_per_step` more; with on_zeno="rest", 256 per body more; in continuous
            time 32 per body, of which flights in parts take one each. A final state
            without derivatives needs no log and has no such limit.
        on_zeno: where impacts accumulate, "rest" goes on in contacts that last; "stop" ends the
            simulation with the code `zeno`. Without friction, between free bodies and half-spaces
            that stay, a contact lasts once a bounce is not higher than the tolerance of the gap,
            until its force would have to pull; in other worlds once a bounce would take less than a
            thousandth of a step, and then it sticks, slides or opens (see `LastingContacts`). By
            default "rest" without friction for bodies made of spheres and ellipsoids where impacts
            can lose energy, and in worlds with joints other than pins to the world; "stop" in
            others. The flow is then of second order. While none lasts, "rest" without friction
            makes a batch take about twice as long as "stop", and a gradient four times; programs
            are about 2.5 times as large, and with friction larger still. Solids stand on spheres,
            ellipsoids, corners, ends and rims, and on each other where faces touch.
        detect: "end" looks for penetration at the end of each trial step, as Tran and Leok
            do; "interior" also finds contacts that open again within the step, if their gap falls
            and rises once; "proved" accepts only what is proved to miss no impact, by bounds of
            the second derivative of every gap: for free bodies without loads and obstacles that
            stay, all convex or unions of convex ones. By default "end", and in continuous time
            "proved".
        penetration: the depth by which a body may penetrate at the start [m], as measured poses
            and nodes of a shooting method do. A contact that approaches there is an impact at once,
            and one that lies there is pushed out in its first step. By default only round-off.
        simultaneous: at an impact where several contacts are closed, or bodies have joints,
            "together" lets all take part in one problem with Newton's restitution: mirror images
            stay mirror images, and the numbers of bodies do not matter; "sequence" lets one impact
            follow another, as in Newton's cradle. "together" by default where contacts last with
            friction, pairs or joints. Elsewhere impacts always follow each other, as one problem
            would make every program larger; "together" then is an error.
    """

    flow: AbstractFlow = eqx.field(static=True)
    dt: float | Float[Array, ""] | None
    tolerance: float | None = eqx.field(static=True)
    max_impacts_per_step: int | None = eqx.field(static=True)
    max_impacts: int | None = eqx.field(static=True)
    on_zeno: Literal["stop", "rest"] | None = eqx.field(static=True)
    detect: str = eqx.field(static=True)
    penetration: float = eqx.field(static=True)
    simultaneous: Literal["together", "sequence"] | None = eqx.field(static=True)

    def __init__(
        self,
        flow: AbstractFlow,
        dt,
        tolerance: float | None = None,
        max_impacts_per_step: int | None = None,
        max_impacts: int | None = None,
        on_zeno: Literal["stop", "rest"] | None = None,
        detect: Literal["end", "interior", "proved"] | None = None,
        penetration: float = 0.0,
        simultaneous: Literal["together", "sequence"] | None = None,
    ):
        if not isinstance(flow, AbstractFlow):
            raise ValueError(f"EventDriven.flow must be a flow; got {flow!r}.")
        self.flow = flow
        self.dt = None if dt is None else step_size(dt)
        self.tolerance = None if tolerance is None else positive_number(tolerance, "tolerance")
        self.max_impacts = (
            None if max_impacts is None else positive_count(max_impacts, "max_impacts")
        )
        self.max_impacts_per_step = (
            None
            if max_impacts_per_step is None
            else positive_count(max_impacts_per_step, "max_impacts_per_step")
        )
        self.on_zeno = one_of(on_zeno, (None, "stop", "rest"), "on_zeno")
        default = "end" if dt is not None else "proved"
        self.detect = default if detect is None else one_of(detect, tuple(_DETECTORS), "detect")
        self.penetration = nonnegative_number(penetration, "penetration")
        self.simultaneous = one_of(simultaneous, (None, "together", "sequence"), "simultaneous")
        if dt is None:
            self._check_continuous()

    def _check_continuous(self) -> None:
        if not isinstance(self.flow, ExactFlight):
            raise ValueError(
                f"dt=None, continuous time, needs ExactFlight: {type(self.flow).__name__} is a "
                "scheme with steps, whose size dt must be given."
            )
        if self.detect != "proved":
            raise ValueError(
                f'detect="{self.detect}" looks at the ends of steps: with dt=None use "proved".'
            )
        if self.on_zeno == "rest":
            raise ValueError(
                'on_zeno="rest" needs dt: contacts that last are integrated step by step. With '
                "dt=None bounces that accumulate end the simulation with the code `zeno`."
            )

    def chosen(self, world):
        if self.dt is None:
            assert isinstance(self.flow, ExactFlight)
            alone = not world.obstacles and not world.pairs
            flow = self.flow.for_long_flights(alone=alone)
            return dataclasses.replace(self, on_zeno="stop", flow=flow)
        if self.on_zeno is not None:
            return self
        simple = not world.frictional and not world.pairs and not world.joints
        simple = simple and all(flat_at_rest(obstacle) for obstacle in world.obstacles)
        rest = simple and not world.elastic and _rests_as_it_hits(world)
        rest = rest or world.joints_beyond_pins is not None
        return dataclasses.replace(self, on_zeno="rest" if rest else "stop")

    def prepare(self, world, state):
        if self.detect == "proved":
            _check_provable(self.flow, world)
        if self.on_zeno == "rest":
            _check_friction(world)
        else:
            _check_joints(self.flow, world)
        return for_flow(self.flow, state)

    def build(self, world, state, args):
        proved = self.detect == "proved"
        principal = self.flow.has_principal_axes or proved
        standing = self.on_zeno == "rest"
        system, phase = build(
            world, state, args, standing=standing, principal=principal, pivots=not standing
        )
        if proved and system.contacts is not None:
            unproved = system.contacts.unproved()
            if unproved is not None:
                raise ValueError(
                    f"{self._name} knows no bound for {unproved}: use a flow with dt and "
                    'detect="interior".'
                )
        return system, phase

    @property
    def flight(self):
        return self.flow

    @property
    def _name(self) -> str:
        return "dt=None" if self.dt is None else 'detect="proved"'

    def run(self, system, phase, code, grid, times, wanted, progress=False, backend="xla"):
        n_bodies = phase.position.x.shape[0]
        events = self.events(system, grid.dt)
        plan = Plan(
            self.flow,
            _DETECTORS[self.detect](),
            self._most_in_a_step(n_bodies),
            zeno_ends=self.on_zeno == "stop",
            progress=progress,
            continuous=self.dt is None,
        )
        if self.detect == "end" and isinstance(events, AbstractImpacts):
            assert system.contacts is not None
            # A kernel, in which numbers that are chosen at run time cost more, looks at all.
            large, number = is_large(system.contacts, phase), system.contacts.number
            if large and number > _MOST_IN_KERNEL and is_wanted(backend, wanted, plan):
                say_if_asked(backend, "of so many contacts it keeps a list of those that are near")
                backend = "xla"
            if large and not is_wanted(backend, wanted, plan):
                events = dataclasses.replace(events, looks_near=True)
                plan = plan._replace(detector=ExpectedImpact())
        layout = self._blocks(n_bodies, grid.capacity, events.remembers)
        return fly(plan, layout, events, phase, code, grid, times, wanted, backend)

    def _blocks(self, n_bodies: int, capacity: int, remembers: bool) -> CheckpointLayout:
        max_impacts = self.max_impacts
        if max_impacts is None and self.dt is None:
            max_impacts = 32 * n_bodies
        elif max_impacts is None:
            more = 256 * n_bodies if self.on_zeno == "rest" else self._most_in_a_step(n_bodies)
            max_impacts = capacity * n_bodies // 64 + more
        return CheckpointLayout.of(capacity, max_impacts, remembers=remembers)

    def _most_in_a_step(self, n_bodies: int) -> int:
        if self.max_impacts_per_step is not None:
            return self.max_impacts_per_step
        return 4096 if self.on_zeno == "rest" else max(64, 16 * n_bodies)

    def events(self, system: System, dt: Float[Array, ""]) -> AbstractEvents:
        events = self._events(system, dt)
        if self.simultaneous == "together" and not events.remembers:
            raise ValueError(
                'simultaneous="together" needs on_zeno="rest", in a world with friction, pairs, '
                "joints, obstacles other than half-spaces that stay, or bodies that stand on "
                "different numbers of points: elsewhere impacts follow each other."
            )
        return events

    def _events(self, system: System, dt: Float[Array, ""]) -> AbstractEvents:
        if system.contacts is None:
            return NoContacts(system) if system.joints is None else Jointed(system)
        tolerance = Tolerance(self.tolerance, self.penetration)
        if self.on_zeno == "rest":
            system = system.soon(dt, self.tolerance or 0.0)
        impacts = self._impacts(system, tolerance)
        if self.on_zeno == "rest":
            alone = not system.contact_law.frictional and system.joints is None
            if alone and isinstance(system.contacts, HalfSpaceContacts):
                return ImpactsAndRest(system, tolerance)
            together = self.simultaneous != "sequence"
            return LastingContacts(system, impacts, tolerance, dt, together)
        if any(system.turning):
            raise ValueError(
                "World.contact_law or World.pair_laws holds friction against rolling or spinning, "
                'which acts in contacts that last: use on_zeno="rest" with a dt.'
            )
        return impacts

    def _impacts(self, system: System, tolerance: Tolerance) -> AbstractImpacts:
        if not system.contact_law.frictional:
            return Impacts(system, tolerance)
        hypothesis = system.contact_law.searched_by
        if hypothesis is None:
            return DirectImpacts(system, tolerance)
        return FrictionalImpacts(system, tolerance, hypothesis)


_DETECTORS = {"end": EndOfStep, "interior": Interior, "proved": Proved}


def LGVCI(dt, **options) -> EventDriven:  # noqa: N802  (the paper's name)
    """The Lie group variational collision integrator of Tran and Leok (Algorithm 2).

    Args:
        dt: step size [s].
        options: of `EventDriven`.
    """
    return EventDriven(LieVariational(), dt, **options)


def _check_provable(flow: AbstractFlow, world: World) -> None:
    """Raises `ValueError` where flights cannot be proved free of impacts."""
    flow.bend_growth(jnp.zeros(()))
    if world.joints:
        raise ValueError(
            "Flights are proved free of impacts for free bodies: World.joints must be empty, or "
            'use a flow with dt and detect="end" or "interior".'
        )
    if any(not isinstance(load, ConstantForce) for load in world.forces):
        raise ValueError(
            "Flights are proved free of impacts under gravity and constant forces: World.forces "
            "holds others, of which no bound is known. Use dt, as they act step by step, with "
            'detect="end" or "interior".'
        )


def _rests_as_it_hits(world: World) -> bool:
    """Whether bodies stand on the same contacts by which they are hit.

    A box stands on its corners. One that falls flat is hit at the middle of its face, once; of its
    corners one would be hit after the other, in the order of their numbers.
    """
    touching = range(len(world.bodies)) if world.obstacles else ()
    if world.obstacle_pairs is not None:
        touching = {body for body, _ in world.obstacle_pairs}
    shapes = [world.bodies[body].shape for body in touching]
    return all(len(shape.parts()) == len(shape.standing_parts()) for shape in shapes)


def _check_friction(world: World) -> None:
    """Raises `ValueError` where contacts that last would have a friction without limit."""
    for law in (world.contact_law, *(special.law for special in world.pair_laws)):
        if not law.has_limit:
            raise ValueError(
                f"Contacts that last have a friction: give {type(law).__name__}.friction a number, "
                'as large as you like, or use on_zeno="stop".'
            )


def _check_joints(flow: AbstractFlow, world: World) -> None:
    """Raises `ValueError` where a flow alone cannot hold the joints of a world."""
    beyond = world.joints_beyond_pins
    if beyond is not None:
        raise ValueError(
            f"A flow alone knows joints that pin a body to the world, at most one Pin for each; "
            f'{beyond}. Use EventDriven(on_zeno="rest"), in which contacts and joints last.'
        )
    if world.joints and not flow.has_pins:
        raise ValueError(
            f"{type(flow).__name__} does not know joints: World.joints must be empty, or use "
            'EventDriven(on_zeno="rest"), or another flow such as QuaternionEnergyMomentum.'
        )


def for_flow(flow: AbstractFlow, state: State) -> State:
    """The state with what the flow advances; raises `ValueError` if they do not fit."""
    name = type(flow).__name__
    if flow.has_stretch and state.stretch is None:
        zero = jnp.zeros((*state.position.shape[:-1], 6), state.position.dtype)
        return dataclasses.replace(state, stretch=zero)
    if state.stretch is not None and not flow.has_stretch:
        raise ValueError(
            f"State.stretch belongs to DirectorEnergyMomentum and would be lost by {name}: leave "
            "it out, with dataclasses.replace(state, stretch=None), if that is what you mean."
        )
    return state
