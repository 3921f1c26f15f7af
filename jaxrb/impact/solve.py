"""One impact at one contact point, by itself."""

from __future__ import annotations

import enum
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Bool, Float, Int

from .._codes import Codes
from .._hosts import entry, first_of
from .._validate import known, raise_inside, real_array
from ..math import Sym3, Vec3
from .laws import AbstractContactLaw


class ContactMode(enum.IntEnum):
    """How a contact moves in its tangent plane."""

    apart = 0  # there is no impact
    slide = 1
    stick = 2


class IMPACT_RESULTS(Codes):  # noqa: N801  (an enumeration, as RESULTS)
    """How an impact was resolved."""

    successful = ""
    receding = "The contact does not approach (velocity z >= 0): there is no impact."
    invalid_inverse_inertia = "The inverse inertia matrix must be symmetric and positive definite."
    invalid_contact_law = "The friction must be 0 or more, the restitution in [0, 1]."
    non_finite = "The inverse inertia matrix, the velocity or the law is infinite or NaN."
    not_ended = (
        "The impact did not end: its friction keeps the bodies from separating. Condition (18) "
        "of Jia and Wang, W_zz > mu |(W_xz, W_yz)|, is sufficient for an end."
    )


class Events(eqx.Module):
    """Normal impulses at which something happens [N s], infinite where it does not.

    Attributes:
        c: the end of compression.
        r: the end of restitution, of the impact.
        s: the sliding velocity first vanishes.
        l: the hodograph becomes a straight line off the origin.
    """

    c: Float[Array, ""]
    r: Float[Array, ""]
    s: Float[Array, ""]
    l: Float[Array, ""]  # noqa: E741  (the letter of the source)


class ImpactSolution(eqx.Module):
    """An impact, in the contact frame: z along the normal, from the second body to the first.

    Attributes:
        impulse: on the first body [N s], shape (3,).
        velocity: of the contact after the impact [m/s], shape (3,).
        energy_dissipated: [J].
        events: the normal impulse at each event.
        modes: `ContactMode` at the start and at the end, shape (2,).
        termination_guaranteed: (18) of Jia and Wang, which is sufficient for an end of the impact.
        result: an item of `IMPACT_RESULTS`; impulses are 0 unless it is successful.
    """

    impulse: Float[Array, "3"]
    velocity: Float[Array, "3"]
    energy_dissipated: Float[Array, ""]
    events: Events
    modes: Int[Array, "2"]
    termination_guaranteed: Bool[Array, ""]
    result: IMPACT_RESULTS

    @property
    def event_sequence(self) -> str:
        """The sequence of the events, as in Figure 9: "csr", say; empty without an impact.

        Events at one impulse come in the order l, s, c, r. Not while traced, nor of a batch:
        use `jax.tree.map(lambda leaf: leaf[i], solution)` first.
        """
        if not np.isfinite(float(self.events.r)) or float(self.events.r) == 0:
            return ""
        moments = {name: float(getattr(self.events, name)) for name in "lscr"}
        end = moments["r"]
        return "".join(sorted((k for k in moments if moments[k] <= end), key=moments.__getitem__))


def solve_impact(
    inverse_inertia: Float[Array, "3 3"],
    velocity: Float[Array, "3"],
    law: AbstractContactLaw,
    *,
    collinearity: float | None = None,
    throw: bool = True,
) -> ImpactSolution:
    """The impulse of a single-point impact.

    With Coulomb friction (Jia and Wang, Algorithm 1) the hodograph is followed by panels whose
    functions are resolved to round-off, its events are located exactly, and straight parts have
    closed forms (sections 6.2, 6.3), so that the impulse has an error of about 1e-14 of its size
    in float64.

    It can be jitted, vmapped (lanes do not wait for each other) and differentiated in both
    modes, to any order. Where events change their order, or sticking gives way to sliding, the
    impulse is continuous and its derivative is that of the order that was found. With a
    sliding velocity of exactly 0 the derivative is that of sticking, or of the sliding that
    resumes.

    Args:
        inverse_inertia: W [1/kg], contact frame, z along the normal; see
            `inverse_inertia_matrix`.
        velocity: of the first body relative to the second at the contact [m/s].
        law: `Coulomb`, `Moreau`, `Frictionless` or `Rough`.
        collinearity: sine of the angle between gamma and gamma' below which the hodograph
            counts as straight (event l). By default only one that starts on an invariant ray
            does: the others approach one without end. The impulse does not depend on it.
        throw: raise if there is no result; a contact that recedes has one, no impulse.

    Raises:
        ValueError: naming an argument that is not understood.
        RuntimeError: if `throw` and the impact could not be resolved.
    """
    w, v, collinearity = checked(inverse_inertia, velocity, law, collinearity)
    solution = solve(w, v, law, collinearity)
    return raise_failure(solution) if throw else solution


def checked(
    inverse_inertia: Any,
    velocity: Any,
    law: Any,
    collinearity: float | None,
    lanes: tuple[int, ...] = (),
) -> tuple[Float[Array, "*lanes 3 3"], Float[Array, "*lanes 3"], float | None]:
    """W and velocity, in one dtype, and the collinearity, if all arguments are understood.

    Raises:
        ValueError: as `solve_impact` does.
    """
    w = real_array(inverse_inertia, "inverse_inertia", (*lanes, 3, 3))
    v = real_array(velocity, "velocity", (*lanes, 3))
    dtype = jnp.result_type(w, v)
    w, v = w.astype(dtype), v.astype(dtype)
    if not isinstance(law, AbstractContactLaw):
        raise ValueError(f"law must be a contact law, such as Coulomb(0.3); got {law!r}.")
    if collinearity is not None:
        collinearity = float(collinearity)
        if not 0 < collinearity < 1:
            raise ValueError(f"collinearity must lie between 0 and 1; got {collinearity}.")
    _check_symmetric(w)
    return w, v, collinearity


def _check_symmetric(w: Float[Array, "*lanes 3 3"]) -> None:
    """Raises unless known numbers are, to half their digits; what is not finite has a code."""
    numbers = known(w)
    if numbers is None:
        return
    # Contiguous along the lanes, which halves the time.
    entries = np.ascontiguousarray(np.moveaxis(numbers, (-2, -1), (0, 1)))
    size = np.abs(entries).max((0, 1))
    with np.errstate(invalid="ignore"):
        asymmetry = np.abs(entries - entries.swapaxes(0, 1)).max((0, 1))
    wrong = np.isfinite(size) & (asymmetry > np.sqrt(np.finfo(w.dtype).eps) * size)
    if wrong.any():
        first = int(np.argmax(wrong))
        which = f" of impact {first}" if wrong.ndim else ""
        matrix = numbers.reshape(-1, 3, 3)[first].tolist()
        raise ValueError(f"inverse_inertia{which} must be symmetric; got {matrix}.")


@partial(jax.jit, static_argnums=3)
def solve(
    w: Float[Array, "3 3"],
    v: Float[Array, "3"],
    law: AbstractContactLaw,
    collinearity: float | None,
) -> ImpactSolution:
    """One impact, of arguments that are checked."""
    w = (w + w.T) / 2
    mu = law.coefficient_of_friction.astype(v.dtype)
    lawful = law.lawful()

    parts = Sym3.of(w)
    minor = w[0, 0] * w[1, 1] - w[0, 1] ** 2
    definite = (w[0, 0] > 0) & (minor > 0) & (parts.determinant() > 0)
    finite = jnp.all(
        jnp.stack([jnp.all(jnp.isfinite(leaf)) for leaf in (w, v, *jax.tree.leaves(law))])
    )
    proper = definite & finite & lawful
    approaches = proper & (v[2] < 0)

    # What cannot be solved is replaced by something that can, and its result dropped.
    matrix = jnp.where(proper, w, jnp.eye(3, dtype=w.dtype))
    before = jnp.where(approaches, v, 0.0)
    law = jax.tree.map(lambda leaf: jnp.where(proper, leaf.astype(v.dtype), 0.0), law)
    vector, *at, sticks, ended = law.resolve(Sym3.of(matrix), Vec3.of(before), collinearity)
    impulse = vector.array()
    solved = approaches & ended
    impulse = jnp.where(solved, impulse, 0.0)
    change = jnp.sum(matrix * impulse[None], axis=1)
    never = jnp.asarray(jnp.inf, v.dtype)
    at_c, at_s, at_l = (jnp.where(solved, moment, never) for moment in at)
    # Where e = 0 both are equal but for round-off; their derivatives are not.
    ended_at = jnp.minimum(at_c, jnp.where(solved, impulse[2], never))
    beyond = jax.lax.stop_gradient(at_c - ended_at)
    at_c = jnp.where(jnp.isfinite(at_c), at_c - beyond, ended_at)

    sliding = (before[0] != 0) | (before[1] != 0)
    resumes = jnp.isfinite(at_s) & ~sticks
    first = jnp.where(sliding | resumes | ~jnp.isfinite(at_s), ContactMode.slide, ContactMode.stick)
    last = jnp.where(sticks & (at_s <= impulse[2]), ContactMode.stick, ContactMode.slide)
    modes = jnp.where(solved, jnp.stack([first, last]), ContactMode.apart).astype(jnp.int32)

    result = IMPACT_RESULTS.successful
    for condition, item in (
        (~ended, IMPACT_RESULTS.not_ended),
        (v[2] >= 0, IMPACT_RESULTS.receding),
        (~lawful, IMPACT_RESULTS.invalid_contact_law),
        (~definite, IMPACT_RESULTS.invalid_inverse_inertia),
        (~finite, IMPACT_RESULTS.non_finite),
    ):
        result = IMPACT_RESULTS.where(condition, item, result)
    return ImpactSolution(
        impulse=impulse,
        velocity=v + change,
        energy_dissipated=-jnp.sum(impulse * (before + change / 2)),
        events=Events(at_c, jnp.where(solved, impulse[2], never), at_s, at_l),
        modes=modes,
        termination_guaranteed=w[2, 2] > mu * jnp.sqrt(w[0, 2] ** 2 + w[1, 2] ** 2),
        result=result,
    )


def raise_failure(solution: ImpactSolution) -> ImpactSolution:
    """The solution, of one impact or a batch, if there is one; raises otherwise."""
    failed = (solution.result != IMPACT_RESULTS.successful) & (
        solution.result != IMPACT_RESULTS.receding
    )
    if isinstance(failed, Tracer):
        return raise_inside(solution, failed)
    if (found := first_of(failed)) is not None:
        count, first = found
        reason = IMPACT_RESULTS[entry(solution.result, first)]
        if failed.ndim:
            raise RuntimeError(
                f"{count} of {failed.size} impacts were not resolved; the first, impact {first}: "
                f"{reason}"
            )
        raise RuntimeError(f"The impact was not resolved: {reason}")
    return solution
