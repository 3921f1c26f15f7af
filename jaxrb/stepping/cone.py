"""The problem of frictional contact between velocities and impulses.

Impulses P at contacts and Q of joints change the velocities v of bodies,

    M (v - v_free) = G^T P + H^T Q,      u = G v + b,      H v + c = 0,

and at each contact the impulse is in Coulomb's cone K = {|P_t| <= mu P_n} and obeys

    u + mu |u_t| n in K*,    perpendicular to P,

the exact law with de Saxce's term (Acary and Brogliato, *Numerical methods for nonsmooth dynamical
systems*, 2008, section 3.9): it sticks, slips against the friction mu P_n, or opens. b holds
the restitution of the normal velocity and the velocity of surfaces that move. Without joints and
with b >= 0 there is always a solution; impulses are not unique where many contacts share a load.

Dry friction in a joint is a contact whose normal impulse is known and moves nothing, as if a pad
were pressed on it: its normal row is zero, and the law leaves its normal impulse as it is.

A row of a joint may yield: its reaction is Q = P - d w, with d >= 0 of any size, within bounds.
Such are dampers, servos, and rotors that are geared to joints, of whose inertia d the velocity is
less that before. Among the rows they follow the velocities after the impulses, so that none is too
strong for a step.

What resists turning at a contact, as rolling friction does, is one more that is pressed with the
normal impulse of that contact, which acts on nothing there, either. Its normal row measures the
same velocity, so that all turns change both impulses alike.

Numbers are in units: velocities in that of the problem, impulses of a contact in that which its own
inverse mass makes of it.
"""

from __future__ import annotations

from functools import partial
from itertools import product

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from .block_matrix import Elimination
from .rows import Rows, added, at_place, contracted, entry, moved, over_needed, put_at, take, total
from .tolerances import Tolerances
from .yielding import Yielding

# Of the terms of a velocity, in units of it: residuals that are round-off are accepted.
_ROUND_OFF = 64


class ConeProblem(eqx.Module):
    """A problem; arrays end with contacts, joint rows or bodies, and lanes if there are any.

    Attributes:
        mass: of the bodies [kg].
        inertia, inverse_inertia: body frames [kg m^2], shape (3, 3, n_bodies).
        contacts: items of three rows, the normal first, then two tangents, along which impulses
            act.
        contact_rates: rows along which velocities are measured: the same, but for normal impulses
            that act on nothing, and where the problem stands for one of displacements, at whose end
            bodies have turned.
        friction: mu of each contact.
        bias: b [m/s], shape (3, n_contacts).
        active: which contacts take part.
        joints, joint_rates: items of one row, likewise.
        drift: c of each joint row [m/s].
        free: v_free, shape (6, n_bodies).
        error: of the bias and of the drift [m/s]; no residual below is looked for. Shape (1,).
        pressed: normal impulses of the last contacts, those of dry friction in joints [N s].
        yielding: the law of the last joint rows, those of rotors, dampers and servos.
        sources: of those before them, the contacts by which they are pressed.
    """

    mass: Float[Array, " n_bodies"]
    inertia: Float[Array, "3 3 n_bodies"]
    inverse_inertia: Float[Array, "3 3 n_bodies"]
    contacts: Rows
    contact_rates: Rows
    friction: Float[Array, " n_contacts"]
    bias: Float[Array, "3 n_contacts"]
    active: Bool[Array, " n_contacts"]
    joints: Rows
    joint_rates: Rows
    drift: Float[Array, " n_rows"]
    free: Float[Array, "6 n_bodies"]
    error: Float[Array, "1"]
    pressed: Float[Array, " n_pressed"]
    yielding: Yielding
    sources: tuple[int, ...] = eqx.field(static=True, default=())

    @property
    def followers(self) -> slice:
        """The contacts that are pressed by others."""
        end = len(self.contacts.links) - self.pressed.shape[0]
        return slice(end - len(self.sources), end)

    def follow(self, normal: Float[Array, " n_contacts"]) -> Float[Array, " n_contacts"]:
        """Numbers of all contacts where followers have those of what they follow."""
        if not self.sources:
            return normal
        return normal.at[self.followers].set(take(normal, np.array(self.sources), 0))

    def followed(self, impulse: Float[Array, "3 n_contacts"]) -> Float[Array, "3 n_contacts"]:
        """Impulses where followers have the normal ones of what they follow, to the last digit."""
        return impulse.at[0].set(self.follow(impulse[0])) if self.sources else impulse

    def acting(self, impulse: Float[Array, "3 n_contacts"]) -> Float[Array, "3 n_contacts"]:
        """Impulses without the normal ones of followers, which act on nothing."""
        return impulse.at[0, self.followers].set(0.0) if self.sources else impulse

    @property
    def pads(self) -> Bool[np.ndarray, " n_contacts"]:
        """Which contacts are those whose normal impulse is known."""
        n = len(self.contacts.links)
        return np.arange(n) >= n - self.pressed.shape[0]

    def where_yielding(self, yielding: Array, others: Array) -> Array:
        """Numbers of joint rows: those of rows that yield, and those of others."""
        n, n_rows = self.yielding.push.shape[0], others.shape[0]
        return others.at[n_rows - n :].set(yielding[n_rows - n :]) if n else others

    def yielded(self, units: Units, q: Array, w: Array) -> tuple[Array, Array]:
        """Of all joint rows, without units: the reactions that those which yield have by their
        velocities, near some, and minus their derivatives; 0 of those that hold."""
        none, n = jnp.zeros_like(units.reaction), self.yielding.push.shape[0]
        if not n:
            return none, none
        unit = units.reaction[-n:]
        mass = unit / units.speed
        reaction, d = self.yielding.sought(q[-n:] * unit, w[-n:] * units.speed, mass)
        return none.at[-n:].set(reaction / unit), none.at[-n:].set(d / mass)

    def press(self, impulse: Float[Array, "3 n_contacts"]) -> Float[Array, "3 n_contacts"]:
        """Impulses with the normal ones that are known or follow others [N s]."""
        n = self.pressed.shape[0]
        if n:
            impulse = impulse.at[0, -n:].set(self.pressed)
        return self.followed(impulse)

    @property
    def elimination(self) -> Elimination:
        """The plan by which its matrices are factored."""
        sides = self.contacts.links.sides + self.joints.links.sides
        links = [pair for pair in sides if min(pair) >= 0]
        return Elimination(self.contacts.links.n_bodies, links)

    def times_mass(self, v: Float[Array, "6 n_bodies"]) -> Float[Array, "6 n_bodies"]:
        """M v."""
        return jnp.concatenate([self.mass[None] * v[:3], _times(self.inertia, v[3:])])

    def over_mass(self, momentum: Float[Array, "6 n_bodies"]) -> Float[Array, "6 n_bodies"]:
        """M^-1 of momenta."""
        turning = _times(self.inverse_inertia, momentum[3:])
        return jnp.concatenate([momentum[:3] / self.mass[None], turning])

    def contact_velocity(self, v: Float[Array, "6 n_bodies"]) -> Float[Array, "3 n_contacts"]:
        """u = G v + b."""
        return self.contact_rates.velocity(v) + self.bias

    def joint_velocity(self, v: Float[Array, "6 n_bodies"]) -> Float[Array, " n_rows"]:
        """w = H v + c."""
        return self.joint_rates.velocity(v)[0] + self.drift

    def momentum(self, impulse, reaction) -> Float[Array, "6 n_bodies"]:
        """G^T P + H^T Q, of the contacts that take part [N s]."""
        impulse = jnp.where(self.active[None], impulse, 0.0)
        return self.contacts.momentum(impulse) + self.joints.momentum(reaction[None])

    def momentum_of_active(self, impulse, reaction) -> Float[Array, "6 n_bodies"]:
        """The same at the cost of the pairs of bodies that touch in any lane; not to be
        differentiated."""
        impulse = jnp.where(self.active[None], impulse, 0.0)
        pushed = self.contacts.momentum_of(impulse, self.active)
        return pushed + self.joints.momentum(reaction[None])

    def velocity(self, impulse, reaction) -> Float[Array, "6 n_bodies"]:
        """v after impulses [N s]."""
        return self.free + self.over_mass(self.momentum(impulse, reaction))

    def units(self) -> Units:
        """Those of its velocities and impulses: the largest velocity along its rows, and no less
        than what round-off makes of the velocities of bodies."""
        rho = self.follow(self._pair_means(self.inverse_masses(self.contacts) / 3))
        delta = self.inverse_masses(self.joints)
        u = jnp.where(self.active[None], jnp.abs(self.contact_velocity(self.free)), 0.0)
        w = jnp.abs(self.joint_velocity(self.free))
        speed = jnp.max(u, axis=(0, 1), initial=0.0)
        speed = jnp.maximum(speed, jnp.max(w, axis=0, initial=0.0))
        # What moves fast where it touches nothing moves, as legs that bend on feet that stand, has
        # velocities there no more exact than those that they are differences of.
        terms = jnp.where(self.active[None], self.contact_rates.terms(self.free), 0.0)
        largest = jnp.max(terms, axis=(0, 1), initial=0.0)
        terms = self.joint_rates.terms(self.free)
        largest = jnp.maximum(largest, jnp.max(terms, axis=(0, 1), initial=0.0))
        accepted = Tolerances.of(speed.dtype).accepted
        speed = jnp.maximum(speed, _ROUND_OFF * jnp.finfo(speed.dtype).eps / accepted * largest)
        # Of what is next to nothing products would end as zeros, which are divided by.
        least = float(jnp.finfo(speed.dtype).smallest_normal) ** 0.5
        speed = jnp.where(speed > least, speed, 1.0)
        return Units(speed[None], speed[None] / rho, speed[None] / delta)

    def _pair_means(self, values: Float[Array, " n_contacts"]) -> Float[Array, " n_contacts"]:
        """The means over active contacts of each pair, so that these count alike."""
        if self.contacts.links.of_pairs is None:
            return values
        table, owner = self.contacts.links.of_pairs
        weight = jnp.where(self.active, 1.0, 0.0).astype(values.dtype)
        sums, count = total(jnp.stack([weight * values, weight]), table, 1)
        mean = take(sums / jnp.maximum(count, 1.0), owner, 0)
        return jnp.where(self.active, mean, values)

    def inverse_masses(self, rows: Rows) -> Float[Array, " n_items"]:
        """The traces of the diagonal blocks of the Delassus operator, G M^-1 G^T [1/kg]."""
        flat = self.inverse_inertia.reshape(9, *self.mass.shape)
        inverse = moved(jnp.concatenate([1 / self.mass[None], flat]))
        length = jnp.sum(rows.direction**2, axis=(0, 1))
        sides = []
        for lever, column in zip(rows.levers, rows.links.columns, strict=True):
            own = take(inverse, column, 1)
            turning = own[1:].reshape(3, 3, *own.shape[1:])
            moved_by = contracted(turning[None], lever[:, None], 2)
            sides.append(length * own[0] + jnp.sum(lever * moved_by, axis=(0, 1)))
        return sides[0] + sides[1]

    def matrix(
        self, response: Float[Array, "3 3 n_contacts"], stiffness: Float[Array, "1 1 n_rows"]
    ) -> Float[Array, "n_blocks 6 6 ..."]:
        """M + G^T D G + H^T E H by its blocks, with D and E of each contact and joint row."""
        n, dtype = self.contacts.links.n_bodies, self.free.dtype
        unit = jnp.eye(3, dtype=dtype).reshape(3, 3, *(1,) * self.mass.ndim)
        zero = jnp.zeros_like(self.inertia)
        upper = jnp.concatenate([unit * self.mass[None, None], zero], axis=1)
        diagonal = jnp.concatenate([upper, jnp.concatenate([zero, self.inertia], axis=1)])
        # One more at the end, for the world.
        more = len(self.elimination.blocks) - n + 1
        others = jnp.zeros((more, 6, 6, *self.mass.shape[1:]), dtype)
        blocks = jnp.concatenate([jnp.moveaxis(diagonal, 2, 0), others])
        blocks = self._added(blocks, self.contacts, self.contact_rates, response, self.active)
        every = jnp.ones(stiffness.shape[2:], bool)
        return self._added(blocks, self.joints, self.joint_rates, stiffness, every)[:-1]

    def _added(self, blocks, rows: Rows, rates: Rows, response, needed):
        """Blocks with G^T D G of items added, of one pair of bodies after another."""
        runs, numbers = rows.links.runs, self.elimination.blocks
        sides, n = runs.sides, rows.links.n_bodies
        places = [[numbers.get(pair, len(numbers)) for pair in product(ab, ab)] for ab in sides]
        places, both = np.array(places, int).reshape(-1, 4), np.max(sides, axis=1, initial=0) < n

        def add(k, blocks):
            own, acting = runs.own(k, response, 2), rows.of_run(k)
            pushes = [_applied(own, jacobian) for jacobian in rates.of_run(k)]

            def put(which, blocks):
                for acts, moves in which:
                    at = entry(places[:, 2 * acts + moves], k)
                    change = _outer(acting[acts], pushes[moves])
                    blocks = put_at(blocks, at, at_place(blocks, at) + change)
                return blocks

            blocks = put(((0, 0),), blocks)
            others = partial(put, ((1, 1), (0, 1), (1, 0)))
            if both.all() or not both.any():
                return others(blocks) if both.any() else blocks
            return jax.lax.cond(entry(both, k), others, lambda blocks: blocks, blocks)

        return over_needed(add, runs.needed(needed), blocks)


class Units(eqx.Module):
    """Units of a problem."""

    speed: Float[Array, "1"]  # [m/s]; of length 1, as all arrays begin with items
    impulse: Float[Array, " n_contacts"]  # [N s]
    reaction: Float[Array, " n_rows"]  # of joint rows [N s]


def _applied(response: Float[Array, "k k n"], jacobian: Float[Array, "k 6 n"]):
    return contracted(response[:, :, None], jacobian[None], 1)


def _outer(jacobian: Float[Array, "k 6 n"], pushes: Float[Array, "k 6 n"]):
    """The sum over rows and items; over these term by term, as they are far apart in memory."""
    items = range(jacobian.shape[2])
    return added(contracted(jacobian[:, :, None, c], pushes[:, None, :, c], 0) for c in items)


def _times(a: Float[Array, "3 3 ..."], b: Float[Array, "3 ..."]) -> Float[Array, "3 ..."]:
    return contracted(a, b[None], 1)


def adjugate3(a: Float[Array, "3 3 ..."]) -> Float[Array, "3 3 ..."]:
    """Of a symmetric matrix."""
    return jnp.stack(
        [
            jnp.stack(
                [
                    a[(j + 1) % 3, (i + 1) % 3] * a[(j + 2) % 3, (i + 2) % 3]
                    - a[(j + 1) % 3, (i + 2) % 3] * a[(j + 2) % 3, (i + 1) % 3]
                    for j in range(3)
                ]
            )
            for i in range(3)
        ]
    )


def inverse3(a: Float[Array, "3 3 ..."]) -> Float[Array, "3 3 ..."]:
    """Of a symmetric matrix."""
    cofactors = adjugate3(a)
    return cofactors / contracted(a[0], cofactors[:, 0], 0)[None, None]
