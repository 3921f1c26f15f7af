"""The numerical experiments of Tran and Leok, Section 7: Figures 6 to 10, and collision counts.

A triaxial ellipsoid over a horizontal (I) and a tilted plane (II), a union of two ellipsoids
(III) and a cube (IV) bounce without loss for 1000 s. Each flies thirteen times: as in the
paper; with its two perturbations, the height 1e-8 m off and the attitude 1e-8 pi rad off; and
ten times with the position 1e-10 m off in a random direction. Expected: energy conserved to
round-off; perturbations that grow several-fold an impact, until the trajectories of a case
have only their statistics in common, among them the number of collisions.

Run: python examples/tran_leok.py [--out DIR] [--steps N]
"""

import argparse
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import matplotlib as mpl
import numpy as np

import jaxrb as rb
from jaxrb import viz
from jaxrb.cli.cases import CASES, Case

STEPS = 100_000
PAPER = {"III": 806, "IV": 652}  # collisions, "roughly", after as many steps (Section 7.3)
ORIGINAL, POSITION, ATTITUDE, RANDOM = 0, 1, 2, slice(3, 13)  # runs
LABELS = {POSITION: r"$\delta x = 10^{-8}$ m", ATTITUDE: r"$\theta = 10^{-8}\pi$"}
SNAPSHOTS, SHORT, LONGER = 7.0, 14.0, 30.0  # ends of the figures' time axes [s]
CAPTIONS = {
    "snapshots": "Snapshots of the four systems, collisions among them, with the paths of the "
    "centres of mass (lines), the points of contact (dots) and shadows along the normal.",
    "energies": "Exchange of rotational energy (R.E.) with translational and potential energy "
    "(T.P.E.) at impacts; the total energy (T.E.) is constant.",
    "energy_error": "Absolute error of the total energy over the first impacts (I, II) and over "
    "all steps (I to IV; grey: ten runs perturbed by 1e-10 m). It is the sum of round-off, in II "
    "that of a body that descends by {descent:.0f} m and has energies to match.",
    "heights": "Height of the centre of mass of the cube: original, and with position or "
    "attitude perturbed. Dashed lines: impacts of the original.",
    "divergence": "Distance of the perturbed cubes from the original one, at first 1e-8 and "
    "2 sin(1e-8 pi/2) = 3.14e-8. Impacts multiply it, until only the energy is shared.",
}


class Flight(NamedTuple):
    """The runs of a case; saved at each step of the first 30 s, then a thousand times more."""

    case: Case
    world: rb.World
    sol: rb.Solution  # leading axis over the runs
    energies: viz.Energies

    @property
    def title(self) -> str:
        return f"({self.case.name}) {self.case.title}"

    def states(self, end: float, run: int = ORIGINAL) -> rb.State:
        """Those saved of a run up to a time [s]."""
        kept = self.energies.t < end + 1e-9
        return jax.tree.map(lambda leaf: leaf[run, kept], self.sol.states)

    def impacts(self, end: float) -> np.ndarray:
        """The times of the impacts of the original run up to a time [s]."""
        times = self.sol.impacts.time[ORIGINAL]
        return times[times < end]

    def growth(self) -> float:
        """The mean factor, per impact, of the error in position as long as it is below 0.1."""
        originals = lambda s: jax.tree.map(lambda leaf: leaf[:1], s)  # noqa: E731
        start, before = (
            viz.pose_distance(s, originals(s))[POSITION, :, 0]
            for s in (self.sol.states, self.sol.impacts.before)
        )
        small = before[: min(self.sol.impacts.count[[POSITION, ORIGINAL]])] < 0.1
        n = int(np.argmin(np.append(small, False))) - 1  # impacts that lie behind
        return float((before[n] / start[0]) ** (1 / n)) if n > 0 else np.nan


def starts(state: rb.State) -> rb.State:
    """The states at t = 0 of all runs."""
    shifts, turns = np.zeros((13, 1, 3)), np.zeros((13, 1, 3))
    shifts[POSITION] = [0.0, 0.0, 1e-8]
    turns[ATTITUDE] = [0.0, np.pi * 1e-8, 0.0]
    directions = np.random.default_rng(0).standard_normal((10, 1, 3))
    shifts[RANDOM] = 1e-10 * directions / np.linalg.norm(directions, axis=-1, keepdims=True)
    runs = jax.tree.map(lambda leaf: jnp.repeat(leaf[None], 13, axis=0), state)
    turned = rb.lie.quaternion.multiply(runs.quaternion, rb.lie.quaternion.exp(turns))
    return rb.State(runs.position + shifts, turned, runs.velocity, runs.angular_velocity)


def fly(case: Case, steps: int) -> Flight:
    world, state = case.build()
    each = np.arange(min(steps, round(LONGER / case.dt)) + 1)
    ts = case.dt * np.unique(np.append(each, np.linspace(0, steps, 1001).astype(int)))
    save = rb.SaveAt(ts=ts, impacts=64 + steps // 64)
    sol = rb.simulate_batch(world, starts(state), rb.LGVCI(case.dt), ts[-1], save=save)
    sol = jax.tree.map(np.asarray, sol)
    return Flight(case, world, sol, viz.Energies.of(world, sol.ts[ORIGINAL], sol.states))


def draw_snapshots(flights: list[Flight]):
    """Figure 6: start, impacts and the middles of long flights, where the body has moved on."""
    figure, axes = viz.new_figure(2, 2, size=(7.0, 5.2))
    for ax, flight in zip(axes.flat, flights, strict=True):
        states, impacts = flight.states(SNAPSHOTS), flight.impacts(SNAPSHOTS)
        moments = [0.0, *impacts]
        moments += [(a + b) / 2 for a, b in pairwise(moments) if b - a > 1.5]
        shown = np.floor(np.sort(moments) / flight.case.dt).astype(int)
        moved_on = np.diff(states.position[shown, 0, :2], axis=0, prepend=np.inf)
        shown = shown[np.linalg.norm(moved_on, axis=-1) > 2.75]
        viz.plot_snapshots(
            flight.world,
            jax.tree.map(lambda leaf, shown=shown: leaf[shown], states),
            flight.energies.t[shown],
            path=states.position,
            impact_positions=flight.sol.impacts.position[ORIGINAL, : len(impacts)],
            span=(0.0, SNAPSHOTS),
            ax=ax,
        )
        ax.set(title=flight.title, anchor="N")
    viz.add_colorbar(figure, axes.flat, "time [s]")
    return figure


def draw_energies(flights: list[Flight]):
    """Figure 7."""
    figure, axes = viz.new_figure(2, 2, size=(7.0, 4.4))
    for ax, flight in zip(axes.flat, flights, strict=True):
        energies = flight.energies
        kept = energies.t <= SHORT
        rotational = energies.rotational[ORIGINAL, kept]
        rest = energies.total[ORIGINAL, kept] - rotational
        impacts = flight.impacts(SHORT)
        viz.plot_energies(energies.t[kept], rest, rotational, impact_times=impacts, ax=ax)
        ax.set_title(flight.title, loc="left")
    viz.share_legend(figure, axes.flat)
    return figure


def draw_energy_errors(flights: list[Flight]):
    """Figure 8."""
    figure, axes = viz.new_figure(3, 2, size=(7.0, 6.2))
    ends = [SHORT] * 2 + [np.inf] * 4
    for ax, flight, end in zip(axes.flat, flights[:2] + flights, ends, strict=True):
        kept = flight.energies.t <= end
        total = flight.energies.total[:, kept]
        viz.plot_energy_error(
            flight.energies.t[kept],
            total[ORIGINAL],
            others=total[RANDOM] if end > SHORT else (),
            impact_times=flight.impacts(end),
            ax=ax,
        )
        ax.set_title(flight.title, loc="left")
    viz.share_legend(figure, axes.flat)
    return figure


def draw_sensitivity(cube: Flight):
    """Figures 9 and 10."""
    original, impacts = cube.states(LONGER), cube.impacts(LONGER)
    ts = cube.energies.t[: len(original.position)]
    perturbed = {label: cube.states(LONGER, run) for run, label in LABELS.items()}
    states = {"original": original, **perturbed}
    heights = {label: s.position[:, 0, 2] for label, s in states.items()}
    distances = {label: viz.pose_distance(s, original)[:, 0] for label, s in perturbed.items()}
    above, ax = viz.new_figure(size=(7.0, 2.8))
    viz.plot_heights(ts, heights, impact_times=impacts, ax=ax)
    apart, ax = viz.new_figure(size=(7.0, 3.0))
    viz.plot_divergence(ts, distances, impact_times=impacts, ax=ax)
    return above, apart


def main(out: Path | str = Path(__file__).parent / "figures", steps: int = STEPS) -> dict:
    """Writes the figures, prints a table; returns the collision counts of all runs by case."""
    first, *others = CASES.values()
    flights = [fly(first, steps)]
    with ThreadPoolExecutor() as pool:  # their programs compile at the same time; II has that of I
        flights += pool.map(partial(fly, steps=steps), others)
    counts = {flight.case.name: flight.sol.impacts.count for flight in flights}
    print(f"{steps} steps    collisions            ten runs perturbed      energy     growth per")
    print("case         here    paper      by 1e-10 m: mean, std      error      impact")
    for flight in flights:
        name, count = flight.case.name, counts[flight.case.name]
        paper = PAPER.get(name, "-") if steps == STEPS else "-"
        mean, std = count[RANDOM].mean(), count[RANDOM].std(ddof=1)
        print(
            f"{name:8} {count[ORIGINAL]:8d} {paper:>8} {mean:17.1f} {std:10.1f} "
            f"{flight.energies.relative_error:10.1e} {flight.growth():10.1f}"
        )
    with mpl.rc_context(viz.STYLE):
        figures = [draw(flights) for draw in (draw_snapshots, draw_energies, draw_energy_errors)]
        figures += draw_sensitivity(flights[3])
    descent = -flights[1].sol.final.position[ORIGINAL, 0, 2]
    Path(out).mkdir(parents=True, exist_ok=True)
    captions = []
    for number, (figure, name) in enumerate(zip(figures, CAPTIONS, strict=True), start=6):
        captions.append(f"Figure {number}. {CAPTIONS[name].format(descent=descent)}\n")
        stem = Path(out) / f"figure_{number}_{name}"
        for path in viz.save_figure(figure, stem.with_suffix(".png"), stem.with_suffix(".pdf")):
            print(f"written  {path}")
    (Path(out) / "captions.txt").write_text("\n".join(captions))
    return counts


if __name__ == "__main__":
    jax.config.update("jax_enable_x64", True)
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "figures")
    parser.add_argument("--steps", type=int, default=STEPS)
    main(**vars(parser.parse_args()))
