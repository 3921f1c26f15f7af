"""Plots. Matplotlib is imported by the functions that draw, so that this package imports
without it; `pip install jaxrb[viz]` installs it."""

from .energies import (
    Energies as Energies,
    plot_energies as plot_energies,
    plot_energy_error as plot_energy_error,
)
from .figure import (
    STYLE as STYLE,
    add_colorbar as add_colorbar,
    new_figure as new_figure,
    save_figure as save_figure,
    share_legend as share_legend,
)
from .snapshots import plot_snapshots as plot_snapshots, surface as surface
from .trajectories import (
    plot_angular_velocity as plot_angular_velocity,
    plot_divergence as plot_divergence,
    plot_heights as plot_heights,
    pose_distance as pose_distance,
)
