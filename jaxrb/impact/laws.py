"""Impact laws: from the velocity of a contact before an impact to the impulse."""

from __future__ import annotations

import abc
import operator
from collections.abc import Sequence
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, Float, Int

from .._validate import known, real_array, require
from ..math import Sym3, Vec3, safe_sqrt
from .coulomb import Resolved, columns, solver
from .hypotheses import AbstractHypothesis, Stronge


class AbstractContactLaw(eqx.Module):
    """A law for the impulse at a contact that closes.

    Its numbers are arrays of shape (), or of one shape for many contacts; what is static in it is
    part of the structure of a program. Laws are derived from this class alone.

    Attributes:
        restitution: e, from 0 (plastic) to 1 (elastic).
        frictional: whether the impulse may have a part along the surface.
    """

    restitution: eqx.AbstractVar[Float[Array, "..."]]
    frictional: ClassVar[bool] = True

    @abc.abstractmethod
    def lawful(self) -> Bool[Array, ""]:
        """Whether the numbers of the law are possible ones."""

    @property
    @abc.abstractmethod
    def coefficient_of_friction(self) -> Float[Array, "..."]:
        """mu; infinite where friction has no limit."""

    @property
    def has_limit(self) -> bool:
        """Whether friction has one, as contacts that last need it."""
        return True

    @property
    def turning_friction(
        self,
    ) -> tuple[Float[Array, "..."] | None, Float[Array, "..."] | None]:
        """Of contacts that last, the largest torques against rolling and against spinning about
        the normal, over the normal force [m]; None for none."""
        return None, None

    @abc.abstractmethod
    def resolve(
        self, inverse_inertia: Sym3, velocity: Vec3, collinearity: float | None
    ) -> Resolved:
        """One impact of a contact that approaches, in the contact frame.

        Args:
            inverse_inertia: W [1/kg], positive definite.
            velocity: of the contact before [m/s]; where it does not approach the impulse is 0.
            collinearity: as in `solve_impact`.
        """

    @abc.abstractmethod
    def plastic(self) -> AbstractContactLaw:
        """The same law for an impact that ends with compression.

        Raises:
            ValueError: if the law does not say how the impulse develops.
        """

    def normal_impulse(
        self, normal_velocity: Float[Array, "..."], inverse_mass: Float[Array, "..."]
    ) -> Float[Array, "..."]:
        """The impulse of a law that is not `frictional` [N s]; others need none.

        Args:
            normal_velocity: of the contact before, negative [m/s].
            inverse_mass: along the normal [1/kg].
        """
        raise NotImplementedError(f"{type(self).__name__} is not frictional, without this.")

    @property
    def searched_by(self) -> AbstractHypothesis | None:
        """The hypothesis that ends the search for the impulse, as for `Coulomb` alone; None where a
        formula gives it. For a search the worlds of a batch wait for each other."""
        return None

    @property
    def elastic(self) -> bool:
        """Whether it is known that no impact loses energy."""
        return False

    def alike(self, law: AbstractContactLaw) -> AbstractContactLaw:
        """A law with all kinds of friction that this one has, zero where it has none."""
        return law

    def smooth(self, restitution: Float[Array, ""]) -> AbstractContactLaw | None:
        """A law of the same structure without friction; None if there is none."""
        return None


class _Final(AbstractContactLaw):
    """A law that worlds know how to take, by formulas that stand elsewhere as well."""

    def __init_subclass__(cls, **options):
        super().__init_subclass__(**options)
        for base in cls.__mro__[1:]:
            if base is not _Final and issubclass(base, _Final):
                raise TypeError(
                    f"{cls.__name__} cannot be derived from {base.__name__}, whose formulas worlds "
                    "would use all the same: derive it from AbstractContactLaw."
                )


class Frictionless(_Final):
    """Newton's law: the gap opens at `restitution` times the speed at which it closed.

    With restitution 1 the impulse is the non-zero root of the energy balance (Tran and
    Leok, eq. 61c), so the energy is kept to round-off wherever the contact is. Without
    friction the hypotheses of Newton, Poisson and Stronge are the same.

    Attributes:
        restitution: e, from 0 (plastic) to 1 (elastic).
    """

    restitution: Float[Array, "..."]
    frictional = False

    def __init__(self, restitution: ArrayLike = 1.0):
        self.restitution = restitution_number(restitution, "Frictionless.restitution")

    @property
    def elastic(self):
        e = known(self.restitution)
        return e is not None and bool(np.all(e == 1))

    def smooth(self, restitution):
        return Frictionless(restitution)

    def lawful(self):
        return in_unit_interval(self.restitution)

    @property
    def coefficient_of_friction(self):
        return jnp.zeros_like(self.restitution)

    def resolve(self, inverse_inertia, velocity, collinearity):
        inverse_mass, zero = inverse_inertia.diagonal.z, jnp.zeros_like(velocity.z)
        never, no = jnp.full_like(zero, jnp.inf), jnp.zeros(zero.shape, bool)
        return Resolved(
            Vec3(zero, zero, self.normal_impulse(velocity.z, inverse_mass)),
            -velocity.z / inverse_mass,
            stuck_at=never,
            collinear_at=never,
            sticks=no,
            ended=~no,
        )

    def plastic(self):
        return Coulomb(0.0, 0.0)

    def normal_impulse(self, normal_velocity, inverse_mass):
        """lambda = -(1 + e) v_n / W."""
        return -(1 + self.restitution) * normal_velocity / inverse_mass


class Coulomb(_Final):
    """Dry friction during the impact, resolved in the course of the normal impulse.

    Jia and Wang, "Analysis and computation of two body impact in three dimensions": the
    sliding velocity follows its hodograph (eq. 31), sticks or slides on (section 5), and
    restitution ends by a hypothesis. See `jaxrb.solve_impact`.

    Attributes:
        friction: mu, 0 or more.
        restitution: e, from 0 (plastic) to 1 (elastic), as the hypothesis understands it.
        hypothesis: `Stronge()`, `Poisson()` or `Newton()`.
        rolling_friction: the largest torque against rolling, over the normal force [m]; None for
            none. It acts in contacts that last, not in an impact.
        spinning_friction: likewise, against turning about the normal [m].

    Raises:
        ValueError: naming the argument that is not understood.
    """

    friction: Float[Array, "..."]
    restitution: Float[Array, "..."]
    hypothesis: AbstractHypothesis
    rolling_friction: Float[Array, "..."] | None
    spinning_friction: Float[Array, "..."] | None

    def __init__(
        self,
        friction: ArrayLike,
        restitution: ArrayLike = 1.0,
        hypothesis: AbstractHypothesis | None = None,
        *,
        rolling_friction: ArrayLike | None = None,
        spinning_friction: ArrayLike | None = None,
    ):
        self.friction = friction_number(friction, "Coulomb.friction")
        self.rolling_friction = self.spinning_friction = None
        if rolling_friction is not None:
            self.rolling_friction = friction_number(rolling_friction, "Coulomb.rolling_friction")
        if spinning_friction is not None:
            self.spinning_friction = friction_number(spinning_friction, "Coulomb.spinning_friction")
        self.restitution = restitution_number(restitution, "Coulomb.restitution")
        self.hypothesis = Stronge() if hypothesis is None else hypothesis
        if not isinstance(self.hypothesis, AbstractHypothesis):
            raise ValueError(
                "Coulomb.hypothesis must be Stronge(), Poisson() or Newton(); "
                f"got {self.hypothesis!r}."
            )

    def lawful(self):
        lawful = in_unit_interval(self.restitution) & jnp.all(self.friction >= 0)
        for turning in self.turning_friction:
            if turning is not None:
                lawful = lawful & jnp.all(turning >= 0)
        return lawful

    @property
    def coefficient_of_friction(self):
        return self.friction

    @property
    def turning_friction(self):
        return self.rolling_friction, self.spinning_friction

    @property
    def searched_by(self):
        return self.hypothesis

    def resolve(self, inverse_inertia, velocity, collinearity):
        numbers = columns(inverse_inertia, velocity, self.friction, self.restitution)
        return Resolved.of(solver(self.hypothesis, collinearity)(numbers[:, None])[:, 0])

    def plastic(self):
        return eqx.tree_at(lambda law: law.restitution, self, jnp.zeros_like(self.restitution))

    def smooth(self, restitution):
        return self.alike(Coulomb(jnp.zeros_like(restitution), restitution, self.hypothesis))

    def alike(self, law):
        if not isinstance(law, Coulomb):
            return law
        for name in ("rolling_friction", "spinning_friction"):
            if getattr(self, name) is not None and getattr(law, name) is None:
                none = jnp.zeros_like(law.restitution)
                where = operator.attrgetter(name)
                law = eqx.tree_at(where, law, none, is_leaf=lambda leaf: leaf is None)
        return law


class Rough(AbstractContactLaw):
    """A restitution of the slip as well, as of a super ball (Garwin 1969).

    The impulse of a plastic impact that sticks, -W^{-1} v, is the sum of a part along the
    normal, N, that takes the normal velocity alone, and of the rest, T. They are orthogonal in
    W, so that an impulse (1 + e) N + s T dissipates

        (1 - e^2)/2 N . W N + (1 - (s - 1)^2)/2 T . W T,

    which is not negative for any W and s from 0 to 2. Here s = 1 + beta, where the impulse is a
    push and in the cone of friction; else the largest s for which it is. (The cone is convex and
    has (1 + e) N in it.) The normal velocity after is -e v_z. Of the slip that compression by N
    leaves T makes -beta times it; where W couples both, e N adds to it.

    Attributes:
        restitution: e, from 0 (plastic) to 1 (elastic).
        tangential_restitution: beta, from -1 (no tangential impulse) over 0 (a ball sticks) to
            1 (a perfectly rough ball, which keeps its energy and reverses its slip).
        friction: mu, 0 or more, or None for a friction without limit.

    Raises:
        ValueError: naming the argument that is not understood.
    """

    restitution: Float[Array, "..."]
    tangential_restitution: Float[Array, "..."]
    friction: Float[Array, "..."] | None

    def __init__(
        self,
        restitution: ArrayLike = 1.0,
        tangential_restitution: ArrayLike = 1.0,
        friction: ArrayLike | None = None,
    ):
        self.restitution = restitution_number(restitution, "Rough.restitution")
        name = "Rough.tangential_restitution"
        self.tangential_restitution = real_array(tangential_restitution, name, ())
        in_range = lambda beta: (beta >= -1) & (beta <= 1)  # noqa: E731
        require(self.tangential_restitution, name, in_range, "in the interval [-1, 1]")
        self.friction = None if friction is None else friction_number(friction, "Rough.friction")

    @property
    def elastic(self):
        """Both speeds are reversed, or that of the slip stays as it is."""
        e, beta = known(self.restitution), known(self.tangential_restitution)
        if self.friction is not None or e is None or beta is None:
            return False
        return bool(np.all(e == 1) and np.all(np.abs(beta) == 1))

    def lawful(self):
        lawful = in_unit_interval(self.restitution)
        lawful = lawful & jnp.all(jnp.abs(self.tangential_restitution) <= 1)
        return lawful if self.friction is None else lawful & jnp.all(self.friction >= 0)

    @property
    def coefficient_of_friction(self):
        if self.friction is None:
            return jnp.full_like(self.restitution, jnp.inf)
        return self.friction

    @property
    def has_limit(self):
        return self.friction is not None

    def resolve(self, inverse_inertia, velocity, collinearity):
        normal = -velocity.z / inverse_inertia.diagonal.z
        rest = -inverse_inertia.solve(velocity)
        rest = rest - Vec3(jnp.zeros_like(normal), jnp.zeros_like(normal), normal)
        along = (1 + self.restitution) * normal
        share = jnp.minimum(1 + self.tangential_restitution, self._limit(along, rest))
        total = along + share * rest.z
        coupled = jnp.abs(inverse_inertia.off.x) + jnp.abs(inverse_inertia.off.y)
        sticks = (share == 1) & (self.restitution * coupled == 0)
        return Resolved(
            Vec3(share * rest.x, share * rest.y, total),
            normal,
            stuck_at=jnp.where(sticks, total, jnp.inf),
            collinear_at=jnp.full_like(normal, jnp.inf),
            sticks=sticks,
            ended=jnp.ones(normal.shape, bool),
        )

    def _limit(self, along: Float[Array, "..."], rest: Vec3) -> Float[Array, "..."]:
        """The largest s for which |s T_t| <= mu (N + s T_z)."""
        if self.friction is None:
            excess, room = -rest.z, along
        else:
            length = safe_sqrt(rest.x * rest.x + rest.y * rest.y)
            excess, room = length - self.friction * rest.z, self.friction * along
        return jnp.where(excess > 0, room / jnp.where(excess > 0, excess, 1.0), jnp.inf)

    def smooth(self, restitution):
        friction = None if self.friction is None else jnp.zeros_like(restitution)
        return Rough(restitution, -jnp.ones_like(restitution), friction)

    def plastic(self):
        raise ValueError(f"law must say how the impulse develops, as Coulomb does; got {self!r}.")


def push_along_normal(
    law: AbstractContactLaw, normal_velocity: Float[Array, "..."], inverse_mass: Float[Array, "..."]
) -> Float[Array, "..."]:
    """The impulses of a law that is not frictional where contacts approach, 0 elsewhere [N s].

    The law is never asked about a contact that recedes, of which it may know nothing.
    """
    approaches = normal_velocity < 0
    velocity = jnp.where(approaches, normal_velocity, -1.0)
    return jnp.where(approaches, law.normal_impulse(velocity, inverse_mass), 0.0)


def of_one_kind(laws: Sequence[AbstractContactLaw]) -> list[AbstractContactLaw]:
    """Laws of one structure; `Frictionless` ones become such as the others are.

    Raises:
        ValueError: if they are of several kinds.
    """
    kind = next((law for law in laws if law.frictional), laws[0])
    for law in laws:
        kind = law.alike(kind)
    found = []
    for law in laws:
        same = kind.alike(law)
        if isinstance(law, Frictionless):
            same = kind.smooth(law.restitution)
        if same is None or jax.tree.structure(same) != jax.tree.structure(kind):
            both = " and ".join(eqx.tree_pformat(own, width=1000) for own in (kind, law))
            raise ValueError(f"laws of one kind (Frictionless besides); got {both}.")
        found.append(same)
    return found


def law_of_each(
    laws: Sequence[AbstractContactLaw], own: Int[np.ndarray, "..."]
) -> AbstractContactLaw:
    """One law, whose numbers have an entry for each contact, of which `own` says its law."""
    return jax.tree.map(lambda *numbers: jnp.stack(numbers)[own], *of_one_kind(laws))


def in_unit_interval(restitution: Array) -> Bool[Array, ""]:
    """Whether all are possible restitutions."""
    return jnp.all((restitution >= 0) & (restitution <= 1))


def friction_number(friction: ArrayLike, name: str) -> Float[Array, ""]:
    """A coefficient of friction.

    Raises:
        ValueError: naming it, if it is none.
    """
    value = real_array(friction, name, ())
    require(value, name, lambda mu: mu >= 0, "0 or more")
    require(value, name, np.isfinite, "finite")
    return value


def restitution_number(restitution: ArrayLike, name: str) -> Float[Array, ""]:
    """A coefficient of restitution.

    Raises:
        ValueError: naming it, if it is none.
    """
    value = real_array(restitution, name, ())
    require(value, name, lambda e: (e >= 0) & (e <= 1), "in the interval [0, 1]")
    return value
