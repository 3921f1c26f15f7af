"""Simulates a case of the sources: its impacts, its energies, its trajectory.

A long run is flown in pieces, each starting from the final state of the one before, so that
its memory and its files stay small. The pieces share one compiled program: each runs from
time 0, and its start is added to its times afterwards.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np

from ..bodies import RigidBody, State
from ..shapes import AbstractSolid, ConvexPolyhedron, Placed, Rounded
from ..simulate import RESULTS, EventDriven, SaveAt, Solution, World, simulate
from ..simulate.progress import progress_bar
from ..viz import (
    Energies,
    new_figure,
    plot_angular_velocity,
    plot_contact_forces,
    plot_energies,
    plot_energy_change,
    plot_snapshots,
    replay,
    save_figure,
)
from .cases import DEMOS, Case
from .playback import playback

MOST_SAVES = 2000
PIECE = 1000  # steps, roughly
MOST_SHOWN = 20  # impacts in the table and in the figure of energies


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments of `python -m jaxrb demo`."""
    parser.add_argument(
        "case", nargs="?", type=_case, default="I", metavar="CASE", help=f"{_names()}; default I"
    )
    parser.add_argument(
        "--out", type=Path, metavar="DIR", help="where to write; default ./out/case-CASE"
    )
    parser.add_argument(
        "--steps", type=_positive, metavar="N", help="number of steps; by default that of the case"
    )


def run(args: argparse.Namespace) -> int:
    """Runs the demo; returns the exit status."""
    jax.config.update("jax_enable_x64", True)
    case: Case = args.case
    world, state = case.build()
    n_steps = args.steps or case.steps
    _print_header(case, world, state, n_steps)
    wanted = ("matplotlib", "tqdm", "viser", "skimage")
    missing = [name for name in wanted if importlib.util.find_spec(name) is None]
    if missing:
        print(f"Without {', '.join(missing)}: for figures and replays, pip install jaxrb[viz]")
    flight = fly(case, world, state, n_steps)
    if world.obstacles or world.pairs:
        _print_impacts(flight)
    if flight.failure:
        print(f"The simulation ended early: {flight.failure}", file=sys.stderr)
        return 1
    energies = Energies.of(world, flight.t, flight.states)
    out = args.out or Path("out") / f"case-{case.name}"
    out.mkdir(parents=True, exist_ok=True)
    written = [_write_trajectory(out, flight, energies)]
    if "matplotlib" not in missing:
        written += _draw(out, case, world, flight, energies)
    if flight.solution is not None and not {"viser", "skimage"} & set(missing):
        speed, fps = playback(flight.solution)
        film = replay(world, flight.solution, speed=speed, fps=fps)
        written.append(film.save(out / "replay.html"))
    if case.report is not None:
        print("\n" + "\n".join(case.report(flight.t, flight.states)))
    _print_summary(flight, world, energies, written)
    return 0


@dataclass(frozen=True)
class Flight:
    """A trajectory, all arrays NumPy's.

    Attributes:
        t: times saved [s], shape (n,).
        states: at these times, leading axis n.
        impacts: by column: time [s] (N,), height of the centre of mass [m] (N,), normal
            impulse [N s] (N,), impulse [N s] (N, 3), position of the contact point [m] (N, 3),
            states before and after, leading axis N.
        failure: why it ended early; empty if it did not.
        compile_time, run_time: wall clock [s].
        solution: of the whole, if it was flown in one piece.
    """

    t: np.ndarray
    states: State
    impacts: dict[str, np.ndarray | State]
    failure: str
    compile_time: float
    run_time: float
    solution: Solution | None


def fly(case: Case, world: World, state: State, n_steps: int) -> Flight:
    """Flies a case for a number of steps, showing progress if there is more than one piece."""
    every = -(-n_steps // MOST_SAVES)
    # What drives motors over time does not begin again with each piece.
    piece = every * max(1, PIECE // every) if case.args is None else n_steps
    args = None if case.args is None else case.args()
    starts = range(0, n_steps, piece)
    programs = {}
    times, states, impacts = [], [], []
    compile_time = run_time = 0.0
    failure = ""
    with progress_bar(_progress(starts), len(starts), "piece") as bar:
        for start in starts:
            size = min(piece, n_steps - start)
            if size not in programs:
                programs[size], seconds = _timed(_compile, case, world, state, args, size, every)
                compile_time += seconds
            sol, seconds = _timed(programs[size], world, state, args)
            run_time += seconds
            # The first state of a piece is the last of the one before.
            kept = slice(0 if start == 0 else 1, None)
            steps = start + np.append(np.arange(0, size, every), size)
            times.append(case.dt * steps[kept])
            states.append(jax.tree.map(lambda leaf, kept=kept: np.asarray(leaf)[kept], sol.states))
            impacts.append(_impact_columns(sol, case.dt * start))
            state = sol.final
            if bar is not None:
                bar.update(1)
            if sol.result != RESULTS.successful:
                failure = RESULTS[sol.result]
                break
    return Flight(
        t=np.concatenate(times),
        states=_join(*states),
        impacts=_join(*impacts),
        failure=failure,
        compile_time=compile_time,
        run_time=run_time,
        solution=sol if len(starts) == 1 else None,
    )


def _compile(case: Case, world: World, state: State, args: Any, n_steps: int, every: int):
    """The program of a piece, a function of world, state and args."""
    if case.lasting:  # before they last, bodies that come to rest bounce in every step
        capacity = 32 + n_steps
        method = EventDriven(case.flow, case.dt, on_zeno="rest")
    else:
        capacity = 32 + n_steps // 8
        method = EventDriven(case.flow, case.dt, max_impacts=capacity)
    save = SaveAt(every=every, impacts=capacity, contacts=case.lasting)

    def solve(world, state, args):
        t1 = n_steps * case.dt
        return simulate(world, state, method, t1=t1, args=args, save=save, throw=False)

    return jax.jit(solve).lower(world, state, args).compile()


def _join(*trees):
    return jax.tree.map(lambda *leaves: np.concatenate(leaves), *trees)


def _timed(function, *args):
    start = time.perf_counter()
    result = jax.block_until_ready(function(*args))
    return result, time.perf_counter() - start


def _progress(starts: range) -> Callable | bool:
    """The maker of the progress bar, if there is one."""
    if len(starts) == 1 or importlib.util.find_spec("tqdm") is None:
        return False
    from tqdm import tqdm  # noqa: PLC0415  (optional)

    # disable=None: only on a terminal, a log would get a line for every turn. The bar goes when
    # it is done, so that the output is the same with and without it.
    return partial(tqdm, disable=None, leave=False)


def _impact_columns(sol: Solution, start: float) -> dict[str, np.ndarray | State]:
    """The impacts of a piece that begins at a time [s]; see `Flight`."""
    count = int(sol.impacts.count)
    cut = lambda tree: jax.tree.map(lambda leaf: np.asarray(leaf)[:count], tree)  # noqa: E731
    record = sol.impacts
    body = cut(record.pair)[:, 0]
    before, impulse = cut(record.before), cut(record.impulse)
    return {
        "time": start + cut(record.time),
        "height": before.position[np.arange(count), body, 2],
        "normal_impulse": np.sum(impulse * cut(record.normal), axis=-1),
        "impulse": impulse,
        "position": cut(record.position),
        "before": before,
        "after": cut(record.after),
    }


def _write_trajectory(out: Path, flight: Flight, energies: Energies) -> Path:
    """Arrays as in `Flight`; those of bodies have shape (n, n_bodies, 3) or (..., 4)."""
    path = out / "trajectory.npz"
    np.savez_compressed(
        path,
        t=flight.t,
        position=flight.states.position,
        quaternion=flight.states.quaternion,
        velocity=flight.states.velocity,
        angular_velocity=flight.states.angular_velocity,
        energy=energies.total,
        impact_time=flight.impacts["time"],
        impact_impulse=flight.impacts["impulse"],
        impact_position=flight.impacts["position"],
    )
    return path


def _draw(out: Path, case: Case, world: World, flight: Flight, energies: Energies) -> list[Path]:
    moments = _distinct_moments(flight)
    jumps = _with_jumps(world, flight)
    parts = jumps.total - jumps.rotational, jumps.rotational
    if world.elastic:
        figure, (ax, below) = new_figure(2, size=(5.5, 4.6), height_ratios=(2, 1))
        plot_energy_change(energies.t, energies.total, impact_times=moments, ax=below)
    else:
        figure, ax = new_figure()
    plot_energies(jumps.t, *parts, impact_times=moments[:MOST_SHOWN], ax=ax)
    written = save_figure(figure, out / "energies.png", out / "energies.pdf")
    if case.snapshots:
        places = np.searchsorted(flight.t, np.array(case.snapshots) - 1e-9)
        shown = places[places < len(flight.t)]
        states = jax.tree.map(lambda leaf: leaf[shown], flight.states)
        path = flight.states.position[: shown[-1] + 1]
        picture, ax = new_figure()
        plot_snapshots(world, states, flight.t[shown], path=path, ax=ax)
        written += save_figure(picture, out / "snapshots.png")
    if flight.solution is not None and flight.solution.contacts is not None:
        forces, ax = new_figure()
        plot_contact_forces(world, flight.solution, ax=ax)
        written += save_figure(forces, out / "forces.png")
    free = not (world.obstacles or world.pairs)
    if free or (case.lasting and len(world.bodies) == 1):  # what it does is spin
        spin, ax = new_figure()
        plot_angular_velocity(flight.t, flight.states.angular_velocity[:, 0], ax=ax)
        written += save_figure(spin, out / "angular_velocity.png")
    if case.plot is not None:
        figure, ax = new_figure()
        case.plot(flight.t, flight.states, ax)
        written += save_figure(figure, out / f"{case.name}.png")
    return written


def _with_jumps(world: World, flight: Flight) -> Energies:
    """Energies with two entries at each impact, before and after, as far as a figure shows."""
    moments = flight.impacts["time"]
    t = np.concatenate([flight.t, moments, moments])
    states = _join(flight.states, flight.impacts["before"], flight.impacts["after"])
    order = np.argsort(t, kind="stable")
    distinct = _distinct_moments(flight)
    if len(distinct) > MOST_SHOWN:
        order = order[t[order] < distinct[MOST_SHOWN]]
    return Energies.of(world, t[order], jax.tree.map(lambda leaf: leaf[order], states))


def _distinct_moments(flight: Flight) -> np.ndarray:
    """Times of impacts [s], once where there are many at one, as among balls that touch."""
    moments = flight.impacts["time"]
    return moments[np.diff(moments, prepend=-np.inf) > 1e-9 * flight.t[-1]]


def _print_header(case: Case, world: World, state: State, n_steps: int) -> None:
    print(f"Case {case.name}: {case.title}")
    for text, number in Counter(map(_describe_body, world.bodies)).items():
        print(f"  body    {text}" + (f", {number} times" if number > 1 else ""))
    for obstacle in world.obstacles:
        print(f"  plane   normal {_row(obstacle.normal)}, offset {obstacle.offset:g} m")
    for joint in world.joints:
        kind = type(joint).__name__.lower()
        # Places worked out from others have zeros that are round-off.
        here, there = (_row(np.round(place, 12) + 0.0) for place in (joint.anchor, joint.held_at()))
        of = "" if joint.other is None else f" from that of body {joint.other}"
        print(f"  {kind:<7} at {here} m from the centre of mass, {there} m{of}")
    print(f"  flow    {type(case.flow).__name__}")
    print(f"  dt      {case.dt:g} s")
    print(f"  span    {n_steps * case.dt:g} s, {n_steps} steps, {state.position.dtype}")


def _describe_body(body: RigidBody) -> str:
    lines = [*describe(body.shape), f"mass {body.mass:g} kg, inertia {_row(_inertia(body))} kg m^2"]
    return "\n          ".join(lines)


def _inertia(body: RigidBody) -> np.ndarray:
    """The inertia tensor, or its diagonal where the rest is round-off."""
    inertia = np.asarray(body.inertia_matrix())
    rest = inertia - np.diag(np.diag(inertia))
    round_off = 8 * np.finfo(inertia.dtype).eps * np.abs(inertia).max()
    return inertia if np.any(np.abs(rest) > round_off) else np.diag(inertia)


def describe(shape: AbstractSolid) -> list[str]:
    """One line, or for a union a heading and one line a part."""
    parts = [_part(part) for part in shape.parts()]
    return parts if len(parts) == 1 else ["union of", *("  " + part for part in parts)]


def _part(shape: AbstractSolid) -> str:
    match shape:
        case Rounded():
            return f"{_part(shape.shape)}, rounded by {_row(shape.radius)} m"
        case Placed():
            turned = f", turned by {_row(shape.quaternion)}" if np.any(shape.quaternion[1:]) else ""
            return f"{_part(shape.shape)}{turned}, at {_row(shape.position)} m"
        case ConvexPolyhedron():
            return f"convex polyhedron, {len(shape.vertices)} vertices"
        case _:
            sizes = [f"{name.replace('_', ' ')} {_row(v)} m" for name, v in vars(shape).items()]
            return ", ".join([type(shape).__name__.lower(), *sizes])


def _row(values) -> str:
    numbers = np.asarray(values)
    if numbers.ndim == 0:
        return f"{numbers:.6g}"
    return f"({', '.join(_row(value) for value in numbers)})"


def _print_impacts(flight: Flight) -> None:
    columns = [flight.impacts[key] for key in ("time", "height", "normal_impulse")]
    n = len(columns[0])
    print(f"\n{'impact':>6}  {'time [s]':>18}  {'height [m]':>15}  {'normal impulse [N s]':>20}")
    for index, (moment, height, impulse) in enumerate(zip(*columns, strict=True)):
        if index == MOST_SHOWN:
            print(f"{'...':>6}  and {n - index} more, {n} in all")
            break
        print(f"{index + 1:>6}  {moment:>18.12f}  {height:>15.12f}  {impulse:>20.12f}")


def _print_summary(flight: Flight, world: World, energies: Energies, written: list[Path]) -> None:
    if world.elastic:
        print(f"\nrelative energy error  max |E - E0|/E0 = {energies.relative_error:.1e}")
    else:
        first, lost = energies.total[0], energies.total[0] - energies.total[-1]
        if abs(lost) <= 1e-12 * abs(energies.total).max():
            lost = 0.0  # but for round-off
        print(f"\nenergy dissipated      {lost:.6g} J of {first:.6g} J")
    seconds = f"compile {flight.compile_time:.2f} s, run {flight.run_time:.3g} s"
    print(f"wall time              {seconds}")
    for path in written:
        print(f"written                {path}")


def _names() -> str:
    return ", ".join(DEMOS)


def _case(name: str) -> Case:
    for case in DEMOS.values():
        if case.name.lower() == name.lower():
            return case
    raise argparse.ArgumentTypeError(f"there is no case {name!r}; the cases are {_names()}")


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be a positive whole number; got {text!r}")
    return int(text)
