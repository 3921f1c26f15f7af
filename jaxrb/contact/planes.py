"""Contacts of bodies with the half-spaces that they can touch, at rest or moving."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from ..bodies import RigidBody
from ..math import dot, rotate
from ..shapes import AbstractSolid, HalfSpace
from .base import AbstractContactSet
from .half_spaces import HalfSpaceContacts, largest_terms, place_above
from .moving import Motions, Moving
from .of_some import ContactsOfSome
from .points import Incidence


class MovingHalfSpaceContacts(AbstractContactSet):
    """The pairs of all bodies with half-spaces that move."""

    planes: HalfSpaceContacts  # in the frames that move
    motions: Motions

    @property
    def shape(self):
        return self.planes.shape

    @property
    def partners(self):
        return self.planes.partners

    @property
    def searched(self):
        return self.planes.searched

    def _find(self, t, phase):
        position, turn = self.motions.poses(t)
        normal = rotate(turn, self.planes.normal)
        offset = self.planes.offset + dot(normal, position)
        place = place_above(normal, offset, phase)
        terms = largest_terms(normal, position) + jnp.abs(self.planes.offset)
        place = place._replace(terms=place.terms + terms[None])
        found = self.planes.found_above(place, normal, phase)
        x, q = jax.tree.map(lambda leaf: leaf[:, None], (phase.position, phase.orientation))
        each_part = self.motions.repeated(self.planes.n_parts)
        surface = each_part.surface(t, x + rotate(q, found.point), x)
        return dataclasses.replace(found, surface=surface)

    def unproved(self):
        return "obstacles that move"


class Plane(NamedTuple):
    """A half-space, the number of the obstacle that it bounds, and what moves that."""

    number: int
    mover: Moving | None
    half_space: HalfSpace


def with_planes(
    bodies: Sequence[RigidBody],
    solids: Sequence[AbstractSolid],
    planes: Sequence[Plane],
    touched: Sequence[frozenset[int]],
    args: Any,
    standing: bool,
) -> list[AbstractContactSet]:
    """The contacts of bodies with the half-spaces that they can touch."""
    sets: list[AbstractContactSet] = []
    for own, numbers in _alike(solids, planes, touched, standing):
        few = [bodies[body] for body in own.bodies]
        here = [plane for plane in planes if plane.number in numbers]
        still = [(number, plane) for number, mover, plane in here if mover is None]
        found: list[AbstractContactSet] = []
        if still:
            found.append(HalfSpaceContacts.of(few, still, standing=standing))
        movers = [plane.mover for plane in here if plane.mover is not None]
        if movers:
            moved = [(number, plane) for number, mover, plane in here if mover is not None]
            moving = HalfSpaceContacts.of(few, moved, standing=standing)
            found.append(MovingHalfSpaceContacts(moving, Motions.of(movers, args)))
        all_here = len(few) == len(bodies)
        sets += found if all_here else [ContactsOfSome(one, own) for one in found]
    return sets


def _alike(
    solids: Sequence[AbstractSolid],
    planes: Sequence[Plane],
    touched: Sequence[frozenset[int]],
    standing: bool,
) -> list[tuple[Incidence, frozenset[int]]]:
    """Bodies whose contacts with planes are found together, and the obstacles of these planes:
    those that touch the same ones, all of them, or those that stand on as many parts. To repeat a
    part changes no least gap, but is one more contact of those that share a load."""
    flat = frozenset(plane.number for plane in planes)
    groups: dict[tuple, list[int]] = {}
    for body, solid in enumerate(solids):
        own = flat & touched[body]
        parts = len(solid.standing_parts()) if standing and own else 0
        groups.setdefault((parts, tuple(sorted(own))), []).append(body)
    return [(Incidence(tuple(groups[key])), frozenset(key[1])) for key in sorted(groups) if key[1]]
