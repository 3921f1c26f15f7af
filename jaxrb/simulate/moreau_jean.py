"""Moreau and Jean's method: contacts that last, with impacts located or in the steps."""

from __future__ import annotations

from typing import Literal

import equinox as eqx
from jaxtyping import Array, Float

from .._validate import (
    finite_number,
    nonnegative_number,
    one_of,
    positive_count,
    positive_number,
    step_size,
    true_or_false,
)
from ..flows import LieVariational
from ..impact import Coulomb, Frictionless, Moreau
from ..stepping.theta_step import Rule
from .detectors import EndOfStep
from .differentiate import CheckpointLayout
from .event_driven import EventDriven, for_flow
from .fly import fly
from .method import AbstractMethod
from .stepped_events import AbstractScheme, Projected, SteppedContacts, Theta, Variational
from .system import build
from .trial import Plan

# The names of the schemes, and of the theta rule whether forces are implicit, and whether contacts
# act where they are at the end of the step.
_SCHEMES = {
    "variational": None,
    "implicit": (True, True),
    "nearly_implicit": (True, False),
    "semi_explicit": (False, False),
}
# Closed contacts, by default [m].
_CLOSED = 1e-10


class MoreauJean(AbstractMethod):
    """Steps a world whose contacts last: bodies that stand, slide, roll and are stacked.

    In each step that has contacts these obey one complementarity problem with Coulomb's friction.
    Impacts are of two kinds:

    - `impacts="located"`: every impact is an event, located to round-off, between steps in
      which contacts are held. This is `EventDriven(LieVariational(), dt, on_zeno="rest")`. Its
      derivatives are those of the motion, through impacts too: of one elastic bounce
      dz(T)/dz0 is -1.
    - `impacts="stepped"`: an impact takes place in the step that it falls into, as in all engines
      of time stepping, at a cost that does not depend on how many there are. Its time is that of
      the step, so that the *derivatives of a run with impacts are those of the steps and not of the
      motion*: of one elastic bounce dz(T)/dz0 is +1 for any dt. While contacts stick, slide or open
      without an impact, they are right.

    Where all bodies have come to rest, on obstacles that do not move, `impacts="stepped"` with the
    variational scheme leaves them where they are to the last digit. A step that changes nothing is
    not made again, if nothing depends on the time, that is without loads besides gravity and
    constant forces: worlds at rest cost next to nothing, in a batch from when the last of them is.

    With `impacts="stepped"` bodies penetrate what they hit by up to their speed times dt, and stay
    there where they come to rest, unless `projection` moves them out; joints go as far beyond their
    limits. The law of impact is Newton's, with the velocity at the start of the step; of `Coulomb`
    the hypothesis of restitution is not used. Velocities after it are measured against those of
    obstacles at the end of the step, so that what rests on one that accelerates moves with it.
    Joints hold to round-off at the end of each step, in place and in rate, and are of order 2 with
    the variational scheme, whose energy does not drift, and with theta = 1/2. A time to save within
    a step is reached by a shorter step. A step whose equations are not solved is
    taken in parts, down to 1/1024 of it, each a step of the same scheme: a shorter step has smaller
    forces and turns to solve for. What even that does not solve ends the simulation, with the code
    `held_contacts_not_solved` or `nonlinear_solve_failed`.

    Attributes:
        dt: step size [s], a number or traced.
        theta: of the theta schemes, from 1/2 (of order 2 without contacts) to 1 (damped).
        scheme: "variational" is Moreau's midpoint rule around the free flight of Tran and Leok:
            free bodies keep energy and angular momentum to round-off, what rests does not
            move, and contacts never create energy. In worlds with joints it is the step of
            "located", with impacts at its start: contacts and joints act at both of its ends, and
            Newton's restitution with friction may create energy. The others are the theta schemes
            of Siconos (in the notes on Newton and Euler's equations, *Time integration scheme*),
            for `impacts="stepped"` alone: "implicit" takes loads and contacts at the end of the
            step by Newton's rule, "nearly_implicit" contacts where they were at its start,
            "semi_explicit" loads too. In all three joints are held at the end of the step, and put
            right where they have drifted in it.
        impacts: "located" or "stepped"; by default "located" with the variational scheme.
        tolerance: the largest gap of a closed contact [m], at least the round-off of the gap. With
            `impacts="stepped"` a contact takes part in a step if gap + (dt/2) u_n is not
            more; 1e-10 by default, without which round-off would drop a contact at rest for a step.
            With "located", that of `EventDriven`, by default the round-off.
        max_iterations: of Newton's rule in the two implicit schemes.
        penetration: the depth by which a body may penetrate at the start [m], as the end of a run
            with `impacts="stepped"` does. By default only round-off.
        residual: of `impacts="stepped"`, the largest error with which the contacts and joints of a
            step may obey their laws, relative to the largest velocity along them. By default 1e-9,
            with the theta schemes 1e-6; in float32 2e-4 and 1e-3. Of impacts that shake a wall of
            bricks all at once some are found to two or five digits only, which ends the run; with
            1e-2 here it goes on, and its derivatives are no more exact than that.
        projection: of `impacts="stepped"`, whether each step ends with bodies moved out of what
            they have penetrated, and joints back to their limits, to round-off: as little as
            possible in the metric of the masses, to second order in the depth, by contacts without
            friction and by joints (as `TimeSteppingDirectProjection` of Siconos). Contacts are
            concerned that took part in the step and still would in the next, with
            gap + (dt/2) u_n <= `tolerance` and the gap closed; what bounces or is about to strike
            is not moved, and so does not gain energy. Velocities stay as they are, but for the
            rates of joints that do not hold in the new place. What is lifted gains potential
            energy. Where there is no place without penetration the step is not solved; `residual`
            is of this problem, too.

    Raises:
        ValueError: naming the argument that is not understood; in `simulate` with
            `impacts="stepped"` if the world has a contact law that is neither `Frictionless` nor
            `Coulomb`.
    """

    dt: float | Float[Array, ""] | None
    theta: float = eqx.field(static=True)
    scheme: str = eqx.field(static=True)
    impacts: str = eqx.field(static=True)
    tolerance: float | None = eqx.field(static=True)
    max_iterations: int = eqx.field(static=True)
    penetration: float = eqx.field(static=True)
    residual: float | None = eqx.field(static=True)
    projection: bool = eqx.field(static=True)

    def __init__(
        self,
        dt,
        theta: float = 0.5,
        scheme: Literal[
            "variational", "implicit", "nearly_implicit", "semi_explicit"
        ] = "variational",
        impacts: Literal["located", "stepped"] | None = None,
        tolerance: float | None = None,
        max_iterations: int = 30,
        penetration: float = 0.0,
        residual: float | None = None,
        projection: bool = False,
    ):
        if dt is None:
            raise ValueError(
                "MoreauJean.dt must be a step size: contacts that last are integrated step by step."
            )
        self.dt = step_size(dt)
        self.theta = finite_number(theta, "theta")
        if not 0.5 <= self.theta <= 1:
            raise ValueError(f"theta must lie in [1/2, 1]; got {self.theta}.")
        self.scheme = one_of(scheme, tuple(_SCHEMES), "scheme")
        variational = self.scheme == "variational"
        if variational and self.theta != 0.5:
            raise ValueError(
                f"theta = {self.theta} belongs to the theta schemes: leave it out, or use "
                'scheme="implicit", "nearly_implicit" or "semi_explicit".'
            )
        default = "located" if variational else "stepped"
        self.impacts = (
            default if impacts is None else one_of(impacts, ("located", "stepped"), "impacts")
        )
        if self.impacts == "located" and not variational:
            raise ValueError(
                f'impacts="located" needs scheme="variational"; "{self.scheme}" is a scheme of '
                'steps with impacts in them: use impacts="stepped".'
            )
        self.tolerance = None if tolerance is None else positive_number(tolerance, "tolerance")
        self.max_iterations = positive_count(max_iterations, "max_iterations")
        self.penetration = nonnegative_number(penetration, "penetration")
        self.residual = None if residual is None else positive_number(residual, "residual")
        if self.residual is not None and self.impacts == "located":
            raise ValueError(
                'residual is of impacts="stepped": located impacts cannot be found beside contacts '
                "that are held less exactly."
            )
        self.projection = true_or_false(projection, "projection")
        if self.projection and self.impacts == "located":
            raise ValueError(
                'projection is of impacts="stepped": where impacts are located no body penetrates '
                "what it hits, and nothing is left to project."
            )

    def chosen(self, world):
        if self.impacts == "stepped":
            return self
        located = EventDriven(
            LieVariational(),
            self.dt,
            tolerance=self.tolerance,
            on_zeno="rest",
            penetration=self.penetration,
        )
        return located.chosen(world)

    def prepare(self, world, state):
        laws = (world.contact_law, *(special.law for special in world.pair_laws))
        for law in laws:
            if not isinstance(law, Frictionless | Coulomb | Moreau):
                raise ValueError(
                    'impacts="stepped" knows the laws Frictionless, Coulomb and Moreau; '
                    f"World.contact_law or World.pair_laws holds {type(law).__name__}."
                )
        return for_flow(LieVariational(), state)

    def build(self, world, state, args):
        return build(world, state, args, standing=True, pivots=False)

    @property
    def flight(self):
        return LieVariational()

    def events(self, system, dt):
        closed = _CLOSED if self.tolerance is None else self.tolerance
        return SteppedContacts(system.soon(dt, closed), self._scheme, closed, self.residual)

    def run(self, system, phase, code, grid, times, wanted, progress=False, backend="xla"):
        plan = Plan(self.flight, EndOfStep(), 1, zeno_ends=True, progress=progress)
        events = self.events(system, grid.dt)
        return fly(
            plan, self._layout(grid.capacity), events, phase, code, grid, times, wanted, backend
        )

    def _layout(self, capacity: int) -> CheckpointLayout:
        # There are no impacts to be logged, only parts of steps.
        return CheckpointLayout.of(capacity, 64 + capacity // 64, remembers=True)

    @property
    def _scheme(self) -> AbstractScheme:
        rule, scheme = _SCHEMES[self.scheme], Variational()
        if rule is not None:
            implicit, follows = rule
            scheme = Theta(Rule(self.theta, implicit, follows, self.max_iterations))
        return Projected(scheme) if self.projection else scheme
