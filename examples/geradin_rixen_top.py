"""The top of Geradin and Rixen, Section 11.6: Figures 6 and 7, and the force at its tip.

A symmetrical top of 5 kg is pinned 1.3 m below its centre of mass and let go, spinning at
50 rad/s, from rest otherwise (case 1) or thrown backwards at 10 rad/s (case 2). It nutates.
Expected: the energy of the midpoint rule is constant to round-off, and that of the update of
momenta as printed is not (`EnergyMidpoint` says why); the position keeps to its constraint to
round-off, the velocity to the square of the step size h. Part of what is left of the latter
changes its sign with every step, so that the force at the tip is of first order in h for one
step and of second order as a mean over steps. The exact motion is by quadrature: cos(theta)
oscillates between two roots of a cubic.

Run: python examples/geradin_rixen_top.py [--out DIR]
"""

import argparse
import warnings
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import NamedTuple

import jax
import matplotlib as mpl
import numpy as np
from scipy.integrate import quad
from scipy.interpolate import CubicSpline
from scipy.special import ellipj, ellipk

import jaxrb as rb
from jaxrb import viz
from jaxrb.viz.figure import BLACK, BLUE, ORANGE

MASS, LENGTH, GRAVITY = 5.0, 1.3, 9.81  # [kg], of the arm from the tip [m], [m/s^2]
ACROSS, ALONG = 0.8, 1.8  # moments of inertia about the centre of mass [kg m^2]
TILT, SPIN = np.pi / 9, 50.0  # theta [rad] and phi' [rad/s] at the start
CASES = {1: 0.0, 2: -10.0}  # psi' at the start [rad/s]
STEPS = (1e-3, 5e-3)  # [s]; figures show the first
UPDATES = ("corrected", "printed")
CAPTION = (
    "Figure {figure}. Response of the symmetrical top, case {case}, with h = {h:g} ms; dashed: the "
    "exact motion. (a) Height and (b) path of the centre of mass; (c) Euler angle theta and (f) "
    "its phase diagram; (d) Euler angle phi, and its deviation from a steady spin; (e) residuals "
    "of the constraint in position and velocity of the centre of mass; (g) relative change of the "
    "energy E with both updates of the angular momentum, and with h = {other:g} ms (light); (h) "
    "transverse angular velocity.\n"
)


class Angles(NamedTuple):
    """Euler angles, eq. (277), and rates [rad], [rad/s], shape (n,)."""

    theta: np.ndarray
    psi: np.ndarray
    phi: np.ndarray
    theta_rate: np.ndarray
    psi_rate: np.ndarray
    phi_rate: np.ndarray

    def axis(self) -> np.ndarray:
        """Of the top, world frame, shape (n, 3)."""
        sin, cos = np.sin(self.theta), np.cos(self.theta)
        return np.stack([np.sin(self.psi) * sin, -np.cos(self.psi) * sin, cos], axis=-1)

    def axis_rate(self) -> np.ndarray:
        """[1/s], shape (n, 3)."""
        sin, cos = np.sin(self.psi), np.cos(self.psi)
        zero = np.zeros_like(sin)
        by_theta = np.stack(
            [sin * np.cos(self.theta), -cos * np.cos(self.theta), -np.sin(self.theta)], axis=-1
        )
        by_psi = np.stack([cos, sin, zero], axis=-1) * np.sin(self.theta)[:, None]
        return by_theta * self.theta_rate[:, None] + by_psi * self.psi_rate[:, None]

    def transverse(self) -> np.ndarray:
        """Omega_1 by eq. (283) [rad/s]."""
        turned = self.psi_rate * np.sin(self.phi) * np.sin(self.theta)
        return turned + self.theta_rate * np.cos(self.phi)


class Nutation(NamedTuple):
    """The exact motion of u = cos(theta): u'^2 is a cubic."""

    roots: np.ndarray  # u oscillates between the first and the second
    slope: float  # leading coefficient of the cubic [1/s^2]
    period: float  # [s]

    @property
    def span(self) -> np.ndarray:
        """The least and the largest theta [rad]."""
        return np.arccos(self.roots[1::-1])


def momenta(precession: float) -> tuple[float, float]:
    """About the vertical and about the axis, over the moment of inertia across at the tip [1/s]."""
    about_tip = ACROSS + MASS * LENGTH**2
    along = ALONG / about_tip * (SPIN + precession * np.cos(TILT))
    return precession * np.sin(TILT) ** 2 + along * np.cos(TILT), along


def nutation(precession: float) -> Nutation:
    """Of the top that starts with a precession [rad/s].

    u'^2 = (e - s u)(1 - u^2) - (b - a u)^2, with the momenta b, a of `momenta`, s = 2 m g L/I
    and the energy e, is s (u - u1)(u - u2)(u - u3). With u = u1 + (u2 - u1) sin^2(x) the period
    is the integral of a smooth function.
    """
    b, a = momenta(precession)
    s = 2 * MASS * GRAVITY * LENGTH / (ACROSS + MASS * LENGTH**2)
    e = precession**2 * np.sin(TILT) ** 2 + s * np.cos(TILT)
    roots = np.sort(np.roots([s, -(e + a**2), 2 * a * b - s, e - b**2]).real)
    u1, u2, u3 = roots
    pace = lambda x: 4 / np.sqrt(s * (u3 - u1 - (u2 - u1) * np.sin(x) ** 2))  # noqa: E731
    period = quad(pace, 0, np.pi / 2, epsabs=0, epsrel=1e-13)[0]
    return Nutation(roots, s, period)


def exact_motion(precession: float, ts: np.ndarray) -> Angles:
    """Of the top that starts with a precession [rad/s], at times from 0 in small steps [s].

    u by Jacobi's sn; psi and phi by Gauss's rule over each step.
    """
    b, a = momenta(precession)
    (u1, u2, u3), s, _ = nutation(precession)
    m, p = (u2 - u1) / (u3 - u1), np.sqrt(s * (u3 - u1)) / 2
    falls = abs(u2 - np.cos(TILT)) < abs(u1 - np.cos(TILT))  # it starts at the upper end
    shift = ellipk(m) if falls else 0.0

    def rates(t):
        sn, cn, dn, _ = ellipj(p * t + shift, m)
        u = u1 + (u2 - u1) * sn**2
        psi_rate = (b - a * u) / (1 - u**2)
        phi_rate = SPIN + precession * np.cos(TILT) - psi_rate * u
        return u, 2 * (u2 - u1) * p * sn * cn * dn, psi_rate, phi_rate

    nodes, weights = np.polynomial.legendre.leggauss(5)
    half = np.diff(ts)[:, None] / 2
    _, _, *along = rates(ts[:-1, None] + half * (1 + nodes))
    psi, phi = (np.append(0.0, np.cumsum(np.sum(half * weights * rate, 1))) for rate in along)
    u, u_rate, psi_rate, phi_rate = rates(ts)
    return Angles(np.arccos(u), psi, phi, -u_rate / np.sqrt(1 - u**2), psi_rate, phi_rate)


def exact_force(angles: Angles, precession: float) -> np.ndarray:
    """Of the pin on the top, m (a - g) [N], shape (n, 3).

    The moment of gravity about the tip changes I d x d' + J3 w3 d, for the axis d.
    """
    axis, rate = angles.axis(), angles.axis_rate()
    gravity = np.array([0.0, 0.0, -GRAVITY])
    about_tip, (_, along) = ACROSS + MASS * LENGTH**2, momenta(precession)
    turning = MASS * LENGTH / about_tip * np.cross(axis, gravity) - along * rate
    bend = np.cross(turning, axis) - axis * np.sum(rate**2, axis=-1, keepdims=True)
    return MASS * (LENGTH * bend - gravity)


def top(precession: float) -> tuple[rb.World, rb.State]:
    """Section 11.6."""
    with warnings.catch_warnings():
        # The paper's moments are those of no solid, as 1.8 exceeds 0.8 + 0.8; about the tip,
        # where they are 9.25, 9.25 and 1.8, this makes no difference.
        warnings.filterwarnings("ignore", "RigidBody.inertia is impossible for a solid")
        body = rb.RigidBody(rb.Sphere(0.1), MASS, (ACROSS, ACROSS, ALONG))
    tip = rb.Pin(0, anchor=(0.0, 0.0, -LENGTH), point=(0.0, 0.0, 0.0))
    world = rb.World([body], gravity=(0.0, 0.0, -GRAVITY), joints=[tip])
    sin, cos = np.sin(TILT), np.cos(TILT)
    position = [[0.0, -LENGTH * sin, LENGTH * cos]]
    velocity = [[LENGTH * precession * sin, 0.0, 0.0]]
    quaternion = [[np.cos(TILT / 2), np.sin(TILT / 2), 0.0, 0.0]]
    omega = [[0.0, precession * sin, SPIN + precession * cos]]
    return world, rb.State(position, quaternion, velocity, omega)


class Flight(NamedTuple):
    """One trajectory, at every step; arrays with a leading axis over the times."""

    t: np.ndarray  # [s]
    position: np.ndarray  # of the centre of mass [m]
    rotation: np.ndarray
    omega: np.ndarray  # body frame [rad/s]
    energy: np.ndarray  # [J]
    off: np.ndarray  # residual of the constraint (294) [m]
    slip: np.ndarray  # and of its rate [m/s]
    force: np.ndarray  # of the pin, the mean over each step, so that there is one less [N]

    @property
    def energy_change(self) -> np.ndarray:
        return np.abs(self.energy / self.energy[0] - 1)

    @property
    def residuals(self) -> tuple[np.ndarray, np.ndarray]:
        """The lengths of those of the constraint [m] and of its rate [m/s]."""
        return np.linalg.norm(self.off, axis=-1), np.linalg.norm(self.slip, axis=-1)

    @property
    def angles(self) -> Angles:
        """By eqs. (279) and (345)."""
        r, (first, second, third) = self.rotation, self.omega.T
        theta = np.arctan2(np.hypot(r[:, 2, 0], r[:, 2, 1]), r[:, 2, 2])
        psi = np.unwrap(np.arctan2(r[:, 0, 2], -r[:, 1, 2]))
        phi = np.unwrap(np.arctan2(r[:, 2, 0], r[:, 2, 1]))
        psi_rate = (np.sin(phi) * first + np.cos(phi) * second) / np.sin(theta)
        theta_rate = np.cos(phi) * first - np.sin(phi) * second
        return Angles(theta, psi, phi, theta_rate, psi_rate, third - psi_rate * np.cos(theta))

    def nutation(self) -> tuple[np.ndarray, float]:
        """The range of theta [rad] and its period [s], from the turns after the start."""
        # Not from its rate: part of the error of that changes its sign with every step.
        theta = CubicSpline(self.t, self.angles.theta)
        turns = theta.derivative().roots(extrapolate=False)
        turns = turns[turns > self.t[1] / 2]
        ends = np.sort([theta(turns[::2]).mean(), theta(turns[1::2]).mean()])
        return ends, 2 * turns[-1] / len(turns)

    def force_errors(self, precession: float) -> tuple[float, float]:
        """Of the pin in a step, and as a mean over three (1:2:1), relative.

        That of a step belongs to its middle, where the exact one is taken.
        """
        halves = np.arange(2 * len(self.t) - 1) * self.t[1] / 2
        middle = Angles(*(x[1::2] for x in exact_motion(precession, halves)))
        exact = exact_force(middle, precession)
        error = self.force - exact
        mean = (error[:-2] + 2 * error[1:-1] + error[2:]) / 4
        size = np.linalg.norm(exact, axis=-1)
        relative = np.linalg.norm(error, axis=-1) / size
        return float(relative.max()), float((np.linalg.norm(mean, axis=-1) / size[1:-1]).max())


# Each step size and update is a program of its own, which takes much longer to compile than to
# run: so the compiler is asked for plain ones.
@partial(
    jax.jit,
    static_argnames=("update", "h", "t1"),
    compiler_options={
        "xla_backend_optimization_level": 0,
        "xla_disable_hlo_passes": "fusion",
    },
)
def simulate(world: rb.World, state: rb.State, update, h: float, t1: float):
    """The trajectory at every step, and what is observed of it."""
    method = rb.EventDriven(rb.EnergyMidpoint(update), h)
    sol = rb.simulate(world, state, method, t1, save=rb.SaveAt(every=1), throw=False)
    energy = jax.vmap(partial(rb.energy, world))(sol.states)
    off, slip = jax.vmap(partial(rb.constraint_violation, world))(sol.states)
    return sol, energy, off, slip, rb.mean_reaction_forces(world, sol.ts, sol.states)


def fly(world: rb.World, state: rb.State, update, h: float, t1: float) -> Flight:
    sol, energy, *of_pin = simulate(world, state, update, h, t1)
    if sol.result != rb.RESULTS.successful:
        raise RuntimeError(f"{update} update, h = {h}: {rb.RESULTS[sol.result]}")
    s = sol.states
    motion = (x[:, 0] for x in (s.position, s.rotation_matrix, s.angular_velocity))
    return Flight(*map(np.asarray, (sol.ts, *motion, energy, *(x[:, 0] for x in of_pin))))


# The exact curve lies upon that of the scheme.
LINE, EXACT = {"color": BLUE, "lw": 1.8}, {"color": BLACK, "lw": 0.8, "ls": (0, (4, 3))}


def draw(case: int, flights: dict, steps: Sequence[float]):
    """Figures 6 and 7: the panels (a) to (h) of Section 11.6."""
    figure, axes = viz.new_figure(4, 2, size=(7.0, 8.4))
    figure.get_layout_engine().set(wspace=0.05, hspace=0.04)
    (height, path), (theta, phi), (constraints, phase), (energy, transverse) = axes

    flight = flights[case, "corrected", steps[0]]
    t, found = flight.t, flight.angles
    exact = exact_motion(CASES[case], t)
    compare(height, t, flight.position[:, 2], LENGTH * np.cos(exact.theta))
    height.set(ylabel="$x_3$ [m]")
    draw_path(figure, path, flight.position)
    compare(theta, t, found.theta, exact.theta)
    theta.set(ylabel=r"$\theta$ [rad]")
    draw_spin(phi, t, found.phi, exact.phi)
    draw_residuals(constraints, flight)
    phase.plot(found.theta, found.theta_rate, **LINE)
    once = t <= nutation(CASES[case]).period + t[1]
    phase.plot(exact.theta[once], exact.theta_rate[once], **EXACT)
    phase.set(xlabel=r"$\theta$ [rad]", ylabel=r"$\dot\theta$ [rad/s]")
    draw_energies(energy, case, flights, steps)
    compare(transverse, t, flight.omega[:, 0], exact.transverse())
    transverse.set(ylabel=r"$\Omega_1$ [rad/s]")

    in_order = height, path, theta, phi, constraints, phase, energy, transverse
    for letter, ax in zip("abcdefgh", in_order, strict=True):
        ax.set_title(f"({letter})", loc="left")
        if ax not in (path, phase):
            ax.set(xlabel="time [s]", xlim=(t[0], t[-1]))
    figure.align_ylabels(axes[:, 0])
    viz.share_legend(figure, [height])
    return figure


def compare(ax, t, found, exact):
    ax.plot(t, found, label="midpoint rule", **LINE)
    ax.plot(t, exact, label="exact", **EXACT)


def draw_path(figure, ax, position: np.ndarray):
    """In space, from the dot on; the axes in the plane of the page carry the title."""
    ax.set_axis_off()
    with mpl.rc_context({"grid.color": "0.85", "grid.linewidth": 0.5}):
        space = figure.add_subplot(ax.get_subplotspec(), projection="3d")
    space.plot(*position.T, color=BLUE, lw=1.0)
    space.plot(*position[0], "o", color=BLACK, ms=3)
    space.set_box_aspect((1, 1, 0.65), zoom=1.3)
    space.view_init(elev=28, azim=-60)
    pads = {"x": (-3, -5), "y": (-3, -5), "z": (1, 2)}
    for number, (name, (of_numbers, of_label)) in enumerate(pads.items(), start=1):
        axis = getattr(space, f"{name}axis")
        axis.set_major_locator(mpl.ticker.MaxNLocator(3))
        axis.set_pane_color("white")
        axis.set_tick_params(pad=of_numbers)
        axis.set_label_text(f"$x_{number}$ [m]")
        axis.labelpad = of_label


def draw_spin(ax, t, found, exact):
    """phi, and on the right how far it is from a steady spin."""
    compare(ax, t, found, exact)
    ax.set_ylabel(r"$\phi$ [rad]", color=BLUE)
    other = ax.twinx()
    other.spines["right"].set(visible=True)
    other.plot(t, found - SPIN * t, **(LINE | {"color": ORANGE}))
    other.plot(t, exact - SPIN * t, **EXACT)
    other.set_ylabel(r"$\phi - \dot\phi_0 t$ [rad]", color=ORANGE)


def draw_residuals(ax, flight: Flight):
    labels = ("position [m]", "velocity [m/s]")
    for residual, label, color in zip(flight.residuals, labels, (BLUE, ORANGE), strict=True):
        ax.semilogy(flight.t, positive(residual), color=color, lw=0.8, label=label)
    ax.set_ylabel("residual")
    put_legend(ax)


def draw_energies(ax, case: int, flights: dict, steps: Sequence[float]):
    for update, color in zip(UPDATES, (BLUE, ORANGE), strict=True):
        for h, alpha in ((steps[1], 0.45), (steps[0], 1.0)):
            flight = flights[case, update, h]
            line = {"color": color, "lw": 0.8, "alpha": alpha}
            label = update if h == steps[0] else None
            ax.semilogy(flight.t, positive(flight.energy_change), label=label, **line)
    ax.set_ylabel(r"$|E/E(0) - 1|$")
    put_legend(ax)


def positive(values: np.ndarray) -> np.ndarray:
    """Without zeros, where a logarithmic curve has a gap."""
    return np.where(values > 0, values, np.nan)


def put_legend(ax):
    """Above the axes, where it hides no curve."""
    place = {"loc": "lower right", "bbox_to_anchor": (1.0, 1.0), "borderaxespad": 0.2}
    ax.legend(ncols=2, frameon=False, handlelength=1.2, columnspacing=1.0, **place)


def report(case: int, flights: dict, steps: Sequence[float]) -> dict:
    """Prints and returns what is compared with the exact motion."""
    precession = CASES[case]
    exact = nutation(precession)
    print(f"case {case}{'exact':>35}" + "".join(f"{f'h = {1e3 * h:g} ms':>15}" for h in steps))
    runs = [flights[case, "corrected", h] for h in steps]
    spans, periods = zip(*(run.nutation() for run in runs), strict=True)
    numbers = {
        "theta, least [rad]": (exact.span[0], *(span[0] for span in spans)),
        "theta, largest [rad]": (exact.span[1], *(span[1] for span in spans)),
        "period of the nutation [s]": (exact.period, *periods),
    }
    for name, row in numbers.items():
        print(f"  {name:28}" + "".join(f"{x:15.9f}" for x in row))
    forces = zip(*(run.force_errors(precession) for run in runs), strict=True)
    errors: dict[str, Sequence[float]] = dict(
        zip(("force of a step", "force, mean of steps"), forces, strict=True)
    )
    for name, k in (("position", 0), ("velocity", 1)):
        errors[f"constraint, {name}"] = [run.residuals[k].max() for run in runs]
    for update in UPDATES:
        changes = [flights[case, update, h].energy_change.max() for h in steps]
        errors[f"energy, {update} update"] = changes
    for name, row in errors.items():
        print(f"  {name:43}" + "".join(f"{x:15.2e}" for x in row))
    return numbers | errors


def main(
    out: Path | str = Path(__file__).parent / "figures",
    steps: Sequence[float] = STEPS,
    t1: float = 5.0,
) -> dict:
    """Writes the figures, prints tables; returns their numbers by case."""
    flights = {}
    tops = {case: top(precession) for case, precession in CASES.items()}

    def fly_both(update, h):  # by one program
        for case, start in tops.items():
            flights[case, update, h] = fly(*start, update, h, t1)

    runs = [(update, h) for update in UPDATES for h in steps]
    with ThreadPoolExecutor() as pool:  # programs compile at the same time
        list(pool.map(fly_both, *zip(*runs, strict=True)))
    numbers = {case: report(case, flights, steps) for case in CASES}
    Path(out).mkdir(parents=True, exist_ok=True)
    captions = []
    for figure_number, case in zip((6, 7), CASES, strict=True):
        with mpl.rc_context(viz.STYLE):
            figure = draw(case, flights, steps)
        h, other = (1e3 * step for step in steps)
        captions.append(CAPTION.format(figure=figure_number, case=case, h=h, other=other))
        stem = Path(out) / f"geradin_rixen_{figure_number}"
        for path in viz.save_figure(figure, stem.with_suffix(".png"), stem.with_suffix(".pdf")):
            print(f"written  {path}")
    (Path(out) / "geradin_rixen_captions.txt").write_text("\n".join(captions))
    return numbers


if __name__ == "__main__":
    jax.config.update("jax_enable_x64", True)
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "figures")
    main(**vars(parser.parse_args()))
