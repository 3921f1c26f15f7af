"""Flows: one-step maps of the free motion between events, one scheme a file."""

from .base import AbstractFlow as AbstractFlow
from .lie_variational import LieVariational as LieVariational
