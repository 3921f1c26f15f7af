"""Plots and replays. Matplotlib, viser and scikit-image are imported by the functions that use
them, so that this package imports without them; `pip install jaxrb[viz]` installs them."""

from .._help import publish
from .contacts import plot_contact_forces as plot_contact_forces
from .energies import (
    Energies as Energies,
    plot_energies as plot_energies,
    plot_energy_change as plot_energy_change,
    plot_energy_error as plot_energy_error,
)
from .figure import (
    STYLE as STYLE,
    add_colorbar as add_colorbar,
    new_figure as new_figure,
    save_figure as save_figure,
    share_legend as share_legend,
)
from .impacts import plot_hodograph as plot_hodograph, plot_impulse_curve as plot_impulse_curve
from .meshes import Mesh as Mesh, mesh as mesh, surface as surface
from .replay import LiveReplay as LiveReplay, Replay as Replay, replay as replay
from .snapshots import plot_snapshots as plot_snapshots
from .solutions import (
    plot_energy_parts as plot_energy_parts,
    plot_gaps as plot_gaps,
    plot_momentum as plot_momentum,
    plot_phase_portrait as plot_phase_portrait,
)
from .trajectories import (
    plot_angular_velocity as plot_angular_velocity,
    plot_divergence as plot_divergence,
    plot_heights as plot_heights,
    pose_distance as pose_distance,
)

publish(__name__)
