"""Flows: one-step maps of the motion between events, one scheme a file."""

from .base import AbstractFlow as AbstractFlow, Step as Step
from .director_energy_momentum import DirectorEnergyMomentum as DirectorEnergyMomentum
from .energy_midpoint import EnergyMidpoint as EnergyMidpoint
from .exact_flight import ExactFlight as ExactFlight
from .fourth_order import FourthOrder as FourthOrder
from .lie_variational import LieVariational as LieVariational
from .quaternion_energy_momentum import QuaternionEnergyMomentum as QuaternionEnergyMomentum
from .quaternion_variational import QuaternionVariational as QuaternionVariational
from .simo_wong import SimoWong as SimoWong
