"""Contacts of pairs of bodies, each of a solid of one kind with a solid of another."""

from __future__ import annotations

from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from ..math import cross, norm, rotate, rotate_inverse
from .base import AbstractContactSet
from .forms import AbstractForm, Nearest
from .points import ContactPoints, Incidence, Points
from .separation import separation

Pairs = tuple[tuple[int, int], ...]


class BodyContacts(AbstractContactSet):
    """Contacts of solids of one kind with solids of one other."""

    forms: tuple[AbstractForm, AbstractForm]  # stacked
    pairs: Pairs = eqx.field(static=True)  # the bodies of each contact, in the order of the phase
    n_obstacles: int = eqx.field(static=True)

    @property
    def shape(self):
        return (len(self.pairs),)

    @property
    def partners(self):
        return np.array(self.pairs) + np.array([0, self.n_obstacles])

    @property
    def searched(self):
        return any(isinstance(form, Nearest) for form in self.forms)

    def _find(self, phase):
        first, second = (Incidence(side) for side in zip(*self.pairs, strict=True))
        x, q = first.gather((phase.position, phase.orientation))
        y, p = second.gather((phase.position, phase.orientation))
        shift, turn = rotate_inverse(q, y - x), q.conjugate() * p
        gap, normal, point = jax.vmap(separation)(*self.forms, shift, turn)
        points = (point + normal * gap, rotate_inverse(turn, point - shift))
        levers = (cross(points[0], normal), cross(points[1], rotate_inverse(turn, normal)))
        size = norm(x) + norm(y) + norm(points[0]) + norm(points[1])
        round_off = 8 * jnp.finfo(gap.dtype).eps * size
        sides = (Points(first, points[0], levers[0]), Points(second, points[1], levers[1]))
        return ContactPoints(gap, round_off, rotate(q, normal), sides)


def stacked(trees: Sequence):
    """One tree whose leaves have a leading axis over `trees`."""
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *trees)
