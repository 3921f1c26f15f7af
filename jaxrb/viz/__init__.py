"""Plots. Matplotlib is imported by the functions that draw, so that this package imports
without it; `pip install jaxrb[viz]` installs it."""

from .energies import plot_energies as plot_energies, plot_energy_error as plot_energy_error
