"""Impact laws."""

from .frictionless import AbstractContactLaw as AbstractContactLaw, Frictionless as Frictionless
