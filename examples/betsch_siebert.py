"""The numerical experiments of Betsch and Siebert, Section 5: Figures 1, 3, 4 and 5.

A free rigid body tumbles, and a gyro top pinned at its tip precesses without nutation. Four
schemes of second order fly both: the energy-momentum scheme in quaternions (QUAT.EM), a
variational integrator in quaternions (QUAT.VI), the energy-momentum scheme in directors
(DIR.EM) and ALGO.C1 of Simo and Wong. Errors are taken from exact solutions: the free body in
Jacobi's elliptic functions, the top in closed form. Expected: QUAT.EM conserves energy and
momentum to round-off however large its steps are; errors fall with the square of the step
size; QUAT.VI has no solution once a step is longer than about 1/|Omega|.

Run: python examples/betsch_siebert.py [--out DIR]
"""

import argparse
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import matplotlib as mpl
import numpy as np
from scipy.special import ellipj, ellipkinc

import jaxrb as rb
from jaxrb import viz
from jaxrb.viz.figure import BLACK, BLUE, GREEN, GREY, ORANGE

SCHEMES = {
    "QUAT.EM": rb.QuaternionEnergyMomentum(),
    "QUAT.VI": rb.QuaternionVariational(),
    "DIR.EM": rb.DirectorEnergyMomentum(),
    "ALGO.C1": rb.SimoWong(),
}
STYLES = {
    "QUAT.EM": {"color": BLUE, "marker": "o"},
    "QUAT.VI": {"color": ORANGE, "marker": "s"},
    "DIR.EM": {"color": BLACK, "marker": "D"},
    "ALGO.C1": {"color": GREEN, "marker": "^"},
}
FREE_STEPS = (20, 50, 200, 500, 1000)  # in one second
TOP_STEPS = (100, 200, 500, 1000, 2000)
MOMENTS, SPIN = np.array([6.0, 8.0, 3.0]), np.array([10.0, 20.0, 20.0])  # [kg m^2], [rad/s]
LENGTH, TILT, PRECESSION = 0.075, np.pi / 3, 10.0  # L [m], theta_0 [rad], omega_p [rad/s]
CAPTIONS = {
    1: "Free motion of a rigid body. Left: energy and spatial angular momentum of QUAT.EM with "
    "steps of 0.05 s. Right: error of the configuration at t = 1 s, against the exact solution. "
    "QUAT.VI has no solution at 0.05 s.",
    3: "Steady precession of a gyro top. Left: energy and vertical component of the angular "
    "momentum of QUAT.EM with steps of 0.01 s (dots: every fifth). Right: relative error of the "
    "position of the centre of mass at t = 1 s. QUAT.VI has no solution at 0.01 s.",
    4: "Steady precession of a gyro top: coordinates of the centre of mass, exact and by QUAT.EM "
    "and DIR.EM with steps of 0.01 s.",
    5: "Steady precession of a gyro top: coordinates of the centre of mass, exact and by QUAT.VI "
    "and ALGO.C1 with steps of 0.007 s.",
}


def exact_free_rotation(moments, omega0, t: float) -> np.ndarray:
    """Where a free rigid body has turned to, from the identity.

    Euler's equations are solved by Omega = (A_a cn, A_b sn, A_c dn)(p t + tau_0), with b the
    axis of the middle moment and c, of the others, the one about which the angular momentum
    never changes sign. The axis c precesses about the momentum L, at the rate |L| (I_a w_a^2 +
    I_b w_b^2)/((I_a w_a)^2 + (I_b w_b)^2), whose integral is taken by Gauss's rule.

    Args:
        moments: of inertia, all different [kg m^2], shape (3,).
        omega0: angular velocity at the start, not along a principal axis and not on the
            separatrix, body frame [rad/s], shape (3,).
        t: [s].

    Returns:
        Body to world, shape (3, 3), to some 1e-13.
    """
    moments, omega0 = np.asarray(moments, float), np.asarray(omega0, float)
    twice_energy, momentum = moments @ omega0**2, moments * omega0
    square = momentum @ momentum
    a, b, c = np.argsort(moments)
    if square < twice_energy * moments[b]:
        a, c = c, a
    i_a, i_b, i_c = moments[[a, b, c]]
    parity = np.linalg.det(np.eye(3)[[a, b, c]])  # of the order of the axes, in Euler's equations
    wide, steep = twice_energy * i_c - square, square - twice_energy * i_a
    size_a = np.sqrt(wide / (i_a * (i_c - i_a)))
    size_c = np.copysign(np.sqrt(steep / (i_c * (i_c - i_a))), omega0[c])
    p = np.sqrt((i_c - i_b) * steep / (i_a * i_b * i_c))
    size_b = parity * i_a * p * size_a / ((i_c - i_b) * size_c)
    m = (i_b - i_a) * wide / ((i_c - i_b) * steep)
    start = ellipkinc(np.arctan2(omega0[b] / size_b, omega0[a] / size_a), m)

    def momentum_at(t):
        sn, cn, dn, _ = ellipj(p * t + start, m)
        omega = np.empty((3, *np.shape(t)))
        omega[a], omega[b], omega[c] = size_a * cn, size_b * sn, size_c * dn
        return (moments * omega.T).T

    nodes, weights = np.polynomial.legendre.leggauss(16)
    ends = np.linspace(0.0, t, 2 + int(4 * p * abs(t)))
    half = np.diff(ends)[:, None] / 2
    l_a, l_b, _ = momentum_at(ends[:-1, None] + half * (1 + nodes))[[a, b, c]]
    rate = np.sqrt(square) * (l_a**2 / i_a + l_b**2 / i_b) / (l_a**2 + l_b**2)
    angle = np.sum(half * weights * rate)

    def axes(momentum):
        """Columns: the normal of the plane of c and L, one in this plane, and L itself."""
        along = momentum / np.linalg.norm(momentum)
        normal = np.cross(np.eye(3)[c], along)
        normal /= np.linalg.norm(normal)
        return np.stack([normal, np.cross(along, normal), along], axis=1)

    cos, sin = np.cos(angle), np.sin(angle)
    precession = np.array([[cos, -sin, 0], [sin, cos, 0], [0, 0, 1]])
    return axes(momentum) @ precession @ axes(momentum_at(t)).T


class Motion(NamedTuple):
    """What flies, and from where."""

    world: rb.World
    state: rb.State

    @property
    def limit(self) -> float:
        """The step size with |Omega| dt = 1 at the start [s]."""
        return 1 / float(jnp.linalg.norm(self.state.angular_velocity))


class Flight(NamedTuple):
    """One trajectory, at every step."""

    t: np.ndarray  # [s], shape (n,)
    position: np.ndarray  # of the centre of mass [m], shape (n, 3)
    energy: np.ndarray  # [J], shape (n,)
    momentum: np.ndarray  # angular, what is conserved of it [kg m^2/s], shape (n, 3) or (n, 1)

    @property
    def energy_error(self) -> float:
        """The largest, relative."""
        return float(np.abs(self.energy / self.energy[0] - 1).max())

    @property
    def momentum_error(self) -> float:
        """The largest, relative."""
        change = np.linalg.norm(self.momentum - self.momentum[0], axis=1)
        return float(change.max() / np.linalg.norm(self.momentum[0]))


def free_body() -> Motion:
    """Section 5.1."""
    still = np.zeros((1, 3))
    body = rb.RigidBody(rb.Sphere(0.1), mass=1.0, inertia=MOMENTS)
    world = rb.World([body], gravity=(0.0, 0.0, 0.0))
    return Motion(world, rb.State(still, [[1.0, 0.0, 0.0, 0.0]], still, SPIN[None]))


def gyro_top() -> Motion:
    """Section 5.2: a cone held at its tip, started so that it does not nutate."""
    height, radius, density, g = 0.1, 0.05, 2700.0, 9.81
    mass = density * np.pi * radius**2 * height / 3
    across, along = 3 * mass / 80 * (4 * radius**2 + height**2), 0.3 * mass * radius**2
    about_tip = across + mass * LENGTH**2
    spin = mass * g * LENGTH / (along * PRECESSION)
    spin += (about_tip - along) / along * PRECESSION * np.cos(TILT)
    omega = np.array([0.0, PRECESSION * np.sin(TILT), PRECESSION * np.cos(TILT) + spin])
    body = rb.RigidBody(rb.Sphere(0.01), mass, (across, across, along))
    tip = rb.Pin(0, anchor=(0.0, 0.0, -LENGTH), point=(0.0, 0.0, 0.0))
    world = rb.World([body], gravity=(0.0, 0.0, -g), joints=[tip])
    q = [np.cos(TILT / 2), np.sin(TILT / 2), 0.0, 0.0]
    velocity = [PRECESSION * LENGTH * np.sin(TILT), 0.0, 0.0]
    return Motion(world, rb.State([exact_centre(0.0)], [q], [velocity], [omega]))


def exact_centre(t) -> np.ndarray:
    """Of the mass of the gyro top [m], shape (..., 3)."""
    turned, out = PRECESSION * np.asarray(t), LENGTH * np.sin(TILT)
    up = np.full_like(turned, LENGTH * np.cos(TILT))
    return np.stack([out * np.sin(turned), -out * np.cos(turned), up], axis=-1)


# Every step size is a program of its own, which takes much longer to compile than to run: so
# the compiler is asked for plain ones.
@partial(
    jax.jit,
    static_argnames=("flow", "dt", "t1", "save"),
    compiler_options={
        "xla_backend_optimization_level": 0,
        "xla_disable_hlo_passes": "fusion",
    },
)
def simulate(motion: Motion, flow, dt: float, t1: float, save: rb.SaveAt) -> rb.Solution:
    method = rb.EventDriven(flow, dt)
    return rb.simulate(*motion, method, t1, save=save, throw=False)


@jax.jit
@partial(jax.vmap, in_axes=(None, 0))
def invariants(world: rb.World, state: rb.State):
    """Energy, and angular momentum about the world's origin."""
    return rb.energy(world, state), rb.angular_momentum(world, state)


def fly(motion: Motion, scheme: str, dt: float, n: int) -> Flight:
    sol = simulate(motion, SCHEMES[scheme], dt, n * dt, rb.SaveAt(every=1))
    if sol.result != rb.RESULTS.successful:
        raise RuntimeError(f"{scheme}, dt = {dt}: {rb.RESULTS[sol.result]}")
    energy, momentum = invariants(motion.world, sol.states)
    if motion.world.joints:
        momentum = momentum[:, 2:]  # gravity turns the others
    found = sol.ts, sol.states.position[:, 0], energy, momentum
    return Flight(*map(np.asarray, found))


def error_after_one_second(motion: Motion, scheme: str, n: int) -> float:
    """Of the attitude of a free body, and of the place of a pinned one; NaN without solution."""
    sol = simulate(motion, SCHEMES[scheme], 1 / n, 1.0, rb.SaveAt(final=True))
    # Steps without a solution are taken in parts: more evaluations than steps tell of them.
    if sol.result != rb.RESULTS.successful or sol.stats.flow_evaluations > sol.stats.steps:
        return np.nan
    if motion.world.joints:
        exact = exact_centre(1.0)
        return float(np.linalg.norm(sol.final.position[0] - exact) / np.linalg.norm(exact))
    exact = exact_free_rotation(MOMENTS, SPIN, 1.0)
    return float(np.linalg.norm(exact @ sol.final.rotation_matrix[0].T - np.eye(3)))


def order(steps: Sequence[int], errors: np.ndarray) -> float:
    """The slope of the errors against the step size, over the three smallest of these."""
    return float(-np.polyfit(np.log(steps[-3:]), np.log(errors[-3:]), 1)[0])


def draw_errors(ax, steps: Sequence[int], errors: Mapping[str, np.ndarray], limit: float):
    """Against the step size, with a triangle of slope 2."""
    dts = 1 / np.array(steps)
    for scheme, error in errors.items():
        ax.loglog(dts, error, lw=1.0, ms=4.5, mfc="white", label=scheme, **STYLES[scheme])
    least, most = (f(list(errors.values())) for f in (np.nanmin, np.nanmax))
    ax.set(xlabel=r"step size $\Delta t$ [s]")
    ax.set(xlim=(dts[-1] / 1.6, dts[0] * 1.6), ylim=(least / 3, most * 3))
    ax.legend(loc="upper left", frameon=False, handlelength=2.0, borderaxespad=0.2)

    dark = {"color": "0.35", "fontsize": 9, "clip_on": True}
    ax.axvline(limit, color=GREY, lw=0.6, ls=(0, (4, 3)), zorder=0)
    label = r"limit of QUAT.VI: $|\Omega_0|\,\Delta t = 1$"
    ax.text(limit * 1.06, least / 2.5, label, rotation=90, va="bottom", **dark)
    left, right = np.array([3.0, 7.0]) * dts[-1]
    low, high = least, least * (right / left) ** 2
    ax.plot([left, right, right, left], [low, high, low, low], color=dark["color"], lw=0.8)
    ax.text(right * 1.06, np.sqrt(low * high), "2", va="center", **dark)
    ax.text(np.sqrt(left * right), low / 1.12, "1", ha="center", va="top", **dark)


def draw_constant(ax, t, curves: Mapping[str, np.ndarray], error: str):
    """Curves that ought to be constant, over an axis from 0, named where they are."""
    largest = max(curve.max() for curve in curves.values())
    ax.set(ylim=(0.0, 1.4 * largest), xlim=(t[0], t[-1]))
    ax.text(0.98, 0.97, error, transform=ax.transAxes, ha="right", va="top", fontsize=9)
    for (name, curve), color in zip(curves.items(), (BLUE, ORANGE), strict=False):
        every = max(1, len(t) // 20)
        dots = {"marker": "o", "ms": 2.5, "markevery": every, "clip_on": False}
        ax.plot(t, curve, color=color, lw=1.0, **dots)
        ax.text(0.1, curve[0] - 0.05 * largest, name, color=color, va="top")


def draw_scheme(flight: Flight, momenta: Mapping[str, np.ndarray], change: str):
    """Figures 1 and 3 on the left: what QUAT.EM conserves; with axes for the right."""
    figure, axes = viz.new_figure(2, 2, size=(7.0, 3.6), sharex="col", width_ratios=(1, 1.1))
    figure.get_layout_engine().set(wspace=0.06)
    figure.align_ylabels(axes[:, 0])
    (above, _), (below, _) = axes
    for ax in axes[:, 1]:
        ax.remove()
    note = rf"$\max |E/E(0) - 1| = {scientific(flight.energy_error)}$"
    draw_constant(above, flight.t, {"$E$": flight.energy}, note)
    above.set_ylabel("energy [J]")
    above.set_title(rf"QUAT.EM, $\Delta t = {flight.t[1]:g}$ s", loc="left")
    note = rf"$\max {change} = {scientific(flight.momentum_error)}$"
    draw_constant(below, flight.t, momenta, note)
    below.set_xlabel("time [s]")
    return figure, below, figure.add_subplot(axes[0, 1].get_gridspec()[:, 1])


def scientific(number: float) -> str:
    digits, exponent = f"{number:.1e}".split("e")
    return rf"{digits} \times 10^{{{int(exponent)}}}"


def draw_free_body(flight: Flight, errors: Mapping[str, np.ndarray], steps, limit: float):
    """Figure 1."""
    first, second, third = flight.momentum.T
    momenta = {"$J_1 = J_3$": first, "$J_2$": second}
    assert np.allclose(first, third)
    figure, below, right = draw_scheme(flight, momenta, "|J - J(0)|/|J(0)|")
    draw_errors(right, steps, errors, limit)
    below.set_ylabel(r"$J$ [kg m$^2$/s]")
    right.set_ylabel(r"$\| R_\mathrm{ref} R^\mathrm{T} - I \|$ at $t = 1$ s")
    return figure


def draw_gyro_top(flight: Flight, errors: Mapping[str, np.ndarray], steps, limit: float):
    """Figure 3."""
    momenta = {"$J_3$": 1e3 * flight.momentum[:, 0]}
    figure, below, right = draw_scheme(flight, momenta, "|J_3/J_3(0) - 1|")
    draw_errors(right, steps, errors, limit)
    below.set_ylabel(r"$J_3$ [10$^{-3}$ kg m$^2$/s]")
    label = r"$|\varphi_\mathrm{ref} - \varphi|\, / \,|\varphi_\mathrm{ref}|$ at $t = 1$ s"
    right.set_ylabel(label)
    return figure


def draw_paths(flights: Mapping[str, Flight]):
    """Figures 4 and 5, which have the same axes so that they can be compared."""
    figure, axes = viz.new_figure(2, 1, size=(5.5, 4.2), sharex=True)
    fine = np.linspace(0.0, 1.0, 1001)
    for ax, axis, name in zip(axes, (0, 2), "xz", strict=True):
        ax.plot(fine, 1e3 * exact_centre(fine)[:, axis], color=GREY, lw=2.6, label="exact")
        for (scheme, flight), dashes in zip(flights.items(), ("-", (0, (5, 1.5))), strict=True):
            line = {"color": STYLES[scheme]["color"], "lw": 1.2, "ls": dashes}
            label = rf"{scheme}, $\Delta t = {flight.t[1]:g}$ s"
            ax.plot(flight.t, 1e3 * flight.position[:, axis], label=label, **line)
        ax.set(ylabel=rf"${name}$ [mm]", xlim=(0.0, 1.0))
    axes[0].set_ylim(-80, 80)
    axes[1].set(ylim=(10, 60), xlabel="time [s]")
    viz.share_legend(figure, axes)
    return figure


def print_errors(title: str, steps: Sequence[int], errors: Mapping[str, np.ndarray]) -> None:
    print(f"{title:28}" + "".join(f"{scheme:>12}" for scheme in errors))
    for n, *row in zip(steps, *errors.values(), strict=True):
        print(f"  dt = {1 / n:<21g}" + "".join(f"{error:12.3e}" for error in row))
    print(f"  {'order':26}" + "".join(f"{order(steps, error):12.3f}" for error in errors.values()))


def main(
    out: Path | str = Path(__file__).parent / "figures",
    free_steps: Sequence[int] = FREE_STEPS,
    top_steps: Sequence[int] = TOP_STEPS,
) -> dict:
    """Writes the figures, prints tables; returns errors by scheme, their orders and flights."""
    free, top = free_body(), gyro_top()
    tasks = [(free, scheme, n) for scheme in SCHEMES for n in free_steps]
    tasks += [(top, scheme, n) for scheme in SCHEMES for n in top_steps]
    shown = {"free": (free, "QUAT.EM", 0.05, 20)}
    shown |= {scheme: (top, scheme, 0.01, 100) for scheme in ("QUAT.EM", "DIR.EM")}
    shown |= {scheme: (top, scheme, 0.007, 143) for scheme in ("QUAT.VI", "ALGO.C1")}
    with ThreadPoolExecutor() as pool:  # programs compile at the same time
        flown = [pool.submit(fly, *task) for task in shown.values()]
        found = list(pool.map(lambda task: error_after_one_second(*task), tasks))
    flights = {name: flight.result() for name, flight in zip(shown, flown, strict=True)}
    split = len(SCHEMES) * len(free_steps)
    errors_free, errors_top = (
        dict(zip(SCHEMES, np.reshape(part, (len(SCHEMES), -1)), strict=True))
        for part in (found[:split], found[split:])
    )
    print_errors("free body, attitude", free_steps, errors_free)
    print_errors("gyro top, centre of mass", top_steps, errors_top)
    print("NaN: the scheme has no solution at this step size")
    print("relative changes                  energy   angular momentum (top: vertical)")
    for (name, flight), (_, scheme, dt, _) in zip(flights.items(), shown.values(), strict=True):
        title = f"{'top' if name in SCHEMES else name}, {scheme}, dt = {dt:g}"
        print(f"  {title:28}{flight.energy_error:10.1e}{flight.momentum_error:12.1e}")
    with mpl.rc_context(viz.STYLE):
        figures = {
            1: draw_free_body(flights["free"], errors_free, free_steps, free.limit),
            3: draw_gyro_top(flights["QUAT.EM"], errors_top, top_steps, top.limit),
            4: draw_paths({name: flights[name] for name in ("QUAT.EM", "DIR.EM")}),
            5: draw_paths({name: flights[name] for name in ("QUAT.VI", "ALGO.C1")}),
        }
    Path(out).mkdir(parents=True, exist_ok=True)
    for number, figure in figures.items():
        stem = Path(out) / f"betsch_siebert_{number}"
        for path in viz.save_figure(figure, stem.with_suffix(".png"), stem.with_suffix(".pdf")):
            print(f"written  {path}")
    captions = "\n".join(f"Figure {number}. {text}\n" for number, text in CAPTIONS.items())
    (Path(out) / "betsch_siebert_captions.txt").write_text(captions)
    return {"free": errors_free, "top": errors_top, "flights": flights}


if __name__ == "__main__":
    jax.config.update("jax_enable_x64", True)
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "figures")
    main(**vars(parser.parse_args()))
