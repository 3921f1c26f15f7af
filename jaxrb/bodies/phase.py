"""Positions and momenta of all bodies in component form: what the integrators advance."""

import equinox as eqx

from ..math import Quat, Sym3, Vec3


class Phase(eqx.Module):
    """Each component has shape (n_bodies,)."""

    position: Vec3  # of the centre of mass, world [m]
    orientation: Quat  # body to world, unit
    linear_momentum: Vec3  # gamma, world [kg m/s]
    angular_momentum: Vec3  # Pi = J Omega, about the centre of mass, body [kg m^2/s]
    stretch: Sym3 | None = None  # State.stretch, of flows that advance the directors
