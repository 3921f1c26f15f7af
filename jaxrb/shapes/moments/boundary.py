"""The boundary of a solid made from others: where the surface of each of its shapes shows."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, Int

from ...math import Vec3, cross, dot, tree_where, zeros_like
from .assembly import Assembly, relevance
from .patches import Ball, join, patches

_TURNS = 20  # of Newton's method


class Curves(NamedTuple):
    """Lines u = const of patches, see `Patches`."""

    form: Float[Array, "n_lines 4 3"]
    arc: Float[Array, "n_lines 2"]
    normal: Float[Array, "n_lines 4 3"] | None


class Boundary(NamedTuple):
    """The patches of all leaves. Arrays have one row for each patch."""

    assembly: Assembly
    form: Float[Array, "n 4 4 3"]
    turn: Float[Array, "n 2"]
    arc: Float[Array, "n 2"]
    normal: Float[Array, "n 4 4 3"] | None
    owner: Int[Array, " n"]  # the leaf

    @staticmethod
    def of(assembly: Assembly) -> Boundary:
        """The boundary of a solid in the unit ball."""
        found = []
        for leaf in assembly.leaves:
            frame = leaf.frame
            center = frame.own(zeros_like(frame.position)).array()
            own = patches(leaf, Ball(center, 1 / frame.scale))
            found.append(own.mapped(frame.matrix(), frame.position.array()))
        owner = np.repeat(np.arange(len(found)), [len(own.form) for own in found])
        return Boundary(assembly, *join(found), jnp.asarray(owner))

    def at(self, patch: Int[Array, " n_lines"]) -> Boundary:
        """One row for each line, on the patches named."""
        normal = None if self.normal is None else self.normal[patch]
        return self._replace(
            form=self.form[patch],
            turn=self.turn[patch],
            arc=self.arc[patch],
            normal=normal,
            owner=self.owner[patch],
        )

    def curves(self, u: Float[Array, " n_lines"]) -> Curves:
        """The line at u in each row."""
        phi = self.turn[:, 0] + self.turn[:, 1] * u
        basis = (jnp.ones_like(u), u, jnp.cos(phi), jnp.sin(phi))

        def along(form):
            first, *others = (form[:, k] * b[:, None, None] for k, b in enumerate(basis))
            return sum(others, first)

        normal = None if self.normal is None else along(self.normal)
        return Curves(along(self.form), self.arc, normal)

    def points(self, curves: Curves, v: Float[Array, "n_lines n"]) -> Vec3:
        """The points at v, components of shape (n_lines, n)."""
        alpha = curves.arc[:, :1] + curves.arc[:, 1:] * v
        basis = (v, jnp.cos(alpha), jnp.sin(alpha))

        def along(form):
            x = form[:, 0, :, None] + sum(
                form[:, k + 1, :, None] * b[:, None] for k, b in enumerate(basis)
            )
            return Vec3(x[:, 0], x[:, 1], x[:, 2])

        x = along(curves.form)
        if curves.normal is None:
            return x
        normal = along(curves.normal)
        return x + normal * self._height(x, normal)

    def _height(self, x: Vec3, normal: Vec3) -> Array:
        """t at which x + normal t lies on the surface of the row's leaf; 0 if normal = 0.

        With its derivatives, up to the second.
        """

        def closer(boundary, x, normal, t):
            owner, leaves = boundary.owner[:, None], boundary.assembly.leaves
            own = [k for k, n in enumerate(boundary.assembly.n_quadrics) if n == 0]

            def level(t):
                levels = [jnp.where(owner == k, leaves[k].level(x + normal * t), 0.0) for k in own]
                return sum(levels[1:], levels[0])

            value, slope = jax.jvp(level, (t,), (jnp.ones_like(t),))
            used = dot(normal, normal) > 0
            return jnp.where(used, value / jnp.where(slope != 0, slope, 1.0), 0.0)

        def unfinished(carry):
            _, step, turn = carry
            return jnp.any(jnp.abs(step) > 1e-4) & (turn < _TURNS)

        def advance(carry):
            t, _, turn = carry
            step = closer(boundary, place, along_normal, t)
            return t - step, step, turn + 1

        boundary, place, along_normal = jax.tree.map(lax.stop_gradient, (self, x, normal))
        start = jnp.zeros_like(x.x), jnp.full_like(x.x, jnp.inf), jnp.zeros((), jnp.int32)
        t, _, _ = lax.while_loop(unfinished, advance, start)
        for _ in range(2):
            t = t - closer(self, x, normal, t)
        return t

    def clearance(self, curves: Curves, v: Float[Array, "n_lines n"]) -> tuple[Array, Array]:
        """Negative at points v of lines that bound the solid; with the surface to be crossed.

        The first is no larger than the distance to the end of the boundary. The second is a
        number for each smooth surface. Both of shape (n_lines, n). Not for a single leaf.

        Where the surfaces of two leaves coincide, the one named first is taken to lie outside
        by some round-off: so a surface that both share counts once, or not at all where they
        are on different sides of it.
        """
        leaves, formula = self.assembly.leaves, self.assembly.formula
        levels = self.assembly.levels(self.points(curves, v))
        outer = 64 * float(jnp.finfo(v.dtype).eps)
        found = jnp.zeros_like(v), jnp.zeros(v.shape, jnp.int32)
        for k in range(len(leaves)):
            signs = [np.sign(j - k) * (1 if leaf.inside else -1) for j, leaf in enumerate(leaves)]
            shifted = [(a + outer * float(s), b) for s, (a, b) in zip(signs, levels, strict=True)]
            own = relevance(formula, k, shifted)
            assert own is not None
            found = tree_where((self.owner == k)[:, None], own, found)
        return found

    def surface(self, u: Float[Array, " n_lines"], v: Array) -> tuple[Vec3, Vec3]:
        """Points at v of shape (n_lines, n), and the vector area out of the solid per du dv."""
        curves, by_u = jax.jvp(self.curves, (u,), (jnp.ones_like(u),))
        x, x_u = jax.jvp(self.points, (curves, v), (by_u, jnp.zeros_like(v)))
        _, x_v = jax.jvp(lambda v: self.points(curves, v), (v,), (jnp.ones_like(v),))
        signs = np.array([1.0 if leaf.inside else -1.0 for leaf in self.assembly.leaves])
        sign = jnp.asarray(signs, u.dtype)[self.owner]
        return x, cross(x_u, x_v) * sign[:, None]
