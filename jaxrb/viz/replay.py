"""Trajectories in three dimensions, to play, pause and turn around in a browser.

A replay is worked out once, in NumPy: poses of all bodies at frames of a uniform rate, and the
impulses of impacts as arrows. What is left is to tell viser about each frame, either while it
records a file or live.
"""

from __future__ import annotations

import contextlib
import functools
import html
import importlib
import io
import math
import threading
import time
import webbrowser
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jaxtyping import Bool, Float

from ..contact import Moving
from ..simulate import Solution, World
from ..simulate.results import Code, result_name
from .forces import SHORTEST, Forces
from .meshes import Mesh, mesh
from .obstacles import poses
from .scene import Extent, Scene
from .tracks import Track, chosen_lanes

_ARROW = 0.3  # length of the longest, in sizes of the scene
_ARROW_OF_BODY = 2.5  # and at most, in sizes of the largest body
_FORCE_OF_BODY = 0.8  # likewise, of the arrows of forces, which are at several points of a body
_HOLD = 0.35  # how long an arrow stays [s of playing]


def replay(
    world: World,
    sol: Solution | Sequence[Solution],
    *,
    lanes: Sequence[int] | None = None,
    fps: float = 30.0,
    speed: float = 1.0,
    trace: bool = True,
    impacts: bool = True,
    forces: bool = True,
    args: Any = None,
) -> Replay:
    """An interactive replay of a simulation: a file for a browser, or live.

    Between saved states and recorded impacts, positions are cubics that match the velocities,
    and attitudes turn about a fixed axis by less than half a turn: save often enough for that.
    Each cubic ends at an impact and the next begins with the velocity after it, so that none
    overshoots an obstacle; where impacts were not recorded, positions are linear instead.

    Args:
        world: of the simulation; the same for all lanes.
        sol: saved with `SaveAt(every=...)` or `SaveAt(ts=...)`, with `impacts=` for the arrows.
            Of a simulation that ended early, what there is. Or several that follow one another,
            such as those of `OptimalControl.rollout`: they are shown as one motion.
        lanes: of a solution with a batch axis, which to show. The first is opaque, the others
            are translucent.
        fps: frames per second of playing.
        speed: seconds of the simulation per second of playing.
        trace: whether to draw the paths of the centres of mass.
        impacts: whether to draw the impulse of each impact on its body, as an arrow that ends
            at the contact point; for a short time. Lengths are proportional to impulses.
        forces: whether to draw the forces of contacts that last, where they were saved
            (`SaveAt(..., contacts=True)`), as darker arrows to each point of contact. Their
            lengths are proportional but for the largest twentieth of them.
        args: those of `simulate`, for the motions of obstacles; of several solutions one for
            each, such as the controls of `Inputs`.

    Returns:
        The replay; see `Replay.save` and `Replay.show`.

    Raises:
        ImportError: if viser is not installed, or scikit-image where a mesh needs it.
        ValueError: if the solution has no saved states, the lanes do not fit to it, `fps` or
            `speed` is not positive, or of several solutions one begins before the last one ends or
            `args` are not as many.
    """
    _viser()
    for name, value in (("fps", fps), ("speed", speed)):
        if not (math.isfinite(value) and value > 0):
            raise ValueError(f"{name} must be positive and finite; got {value!r}.")
    chosen = chosen_lanes(world, sol, lanes)
    args_of_each = _args_of_each(sol, args)
    tracks = [Track.joined([Track.of(one) for one in lane]) for lane in chosen]
    first, last = min(t.time[0] for t in tracks), max(t.time[-1] for t in tracks)
    step = speed / fps
    times = first + step * np.arange(math.floor((last - first) / step * (1 + 1e-12)) + 1)
    if last > times[-1] + 1e-6 * step:
        times = np.append(times, last)
    found = [track.at(times) for track in tracks]
    starts = [float(one.ts[0]) for one in chosen[0]]
    return Replay(
        world=world,
        times=times,
        position=np.stack([position for position, _ in found]),
        quaternion=np.stack([quaternion for _, quaternion in found]),
        impact_time=np.concatenate([track.impact_time for track in tracks]),
        impact_position=np.concatenate([track.impact_position for track in tracks]),
        impact_impulse=np.concatenate([track.impact_impulse for track in tracks]),
        speed=float(speed),
        note=_note(chosen, lanes),
        trace=bool(trace),
        impacts=bool(impacts),
        forces=Forces.of(chosen if forces else [], times),
        obstacle_poses={
            index: poses(obstacle, times, starts, args_of_each)
            for index, obstacle in enumerate(world.obstacles)
            if isinstance(obstacle, Moving)
        },
    )


def _args_of_each(sol: Solution | Sequence[Solution], args: Any) -> list:
    """The args of each solution."""
    if not isinstance(sol, Sequence):
        return [args]
    if args is None:
        return [None] * len(sol)
    listed = isinstance(args, Sequence) or (isinstance(args, np.ndarray | jax.Array) and args.ndim)
    if not listed or len(args) != len(sol):
        raise ValueError(f"args must be one for each of {len(sol)} solutions; got {args!r}.")
    return list(args)


def _note(chosen: list[list[Solution]], lanes: Sequence[int] | None) -> str:
    """The results of lanes that ended early."""
    numbers = [""] if lanes is None else [f"lane {lane}: " for lane in lanes]
    results = [
        number + result_name(one.result)
        for number, lane in zip(numbers, chosen, strict=True)
        for one in lane
        if result_name(one.result) != Code.successful.name
    ]
    return ", ".join(dict.fromkeys(results))


@dataclass(frozen=True, eq=False)
class Replay:
    """Frames of one or several trajectories of a world; made by `jaxrb.viz.replay`.

    Attributes:
        world: bodies and obstacles.
        times: of the frames [s], shape (n_frames,).
        position: of the centres of mass [m], shape (n_lanes, n_frames, n_bodies, 3).
        quaternion: body to world, shape (n_lanes, n_frames, n_bodies, 4).
        impact_time: of the impacts of all lanes [s], shape (n_impacts,).
        impact_position: of their contact points [m], shape (n_impacts, 3).
        impact_impulse: on the bodies [N s], shape (n_impacts, 3).
        speed: seconds of the simulation per second of playing.
        note: names of the results of lanes that ended early; empty if none did.
        trace, impacts: whether paths and impulses are drawn.
        forces: of contacts that last.
        obstacle_poses: positions [m], shape (n_frames, 3), and quaternions, shape (n_frames, 4),
            of obstacles that move, by their numbers.
    """

    world: World
    times: Float[np.ndarray, " n_frames"]
    position: Float[np.ndarray, "n_lanes n_frames n_bodies 3"]
    quaternion: Float[np.ndarray, "n_lanes n_frames n_bodies 4"]
    impact_time: Float[np.ndarray, " n_impacts"]
    impact_position: Float[np.ndarray, "n_impacts 3"]
    impact_impulse: Float[np.ndarray, "n_impacts 3"]
    speed: float
    note: str
    trace: bool
    impacts: bool
    forces: Forces
    obstacle_poses: dict[int, tuple[np.ndarray, np.ndarray]]

    @property
    def duration(self) -> float:
        """The time that it plays [s]."""
        return float(self.times[-1] - self.times[0]) / self.speed

    def label(self, frame: int) -> str:
        """The text shown with a frame."""
        step = self.duration * self.speed / max(1, len(self.times) - 1)
        digits = max(2, math.ceil(-math.log10(step))) if step > 0 else 2
        text = f"t = {self.times[frame]:.{digits}f} s"
        return f"{text} ({self.note})" if self.note else text

    @functools.cached_property
    def arrows(self) -> Float[np.ndarray, "n_arrows 2 3"]:
        """Tails and tips [m] of the arrows of the impacts that `arrow_impacts` lists."""
        tips = self.impact_position[self.arrow_impacts]
        impulses = self.impact_impulse[self.arrow_impacts]
        longest = np.linalg.norm(impulses, axis=-1).max(initial=0.0)
        scale = self._longest_arrow(_ARROW_OF_BODY) / longest if longest > 0 else 0.0
        return np.stack([tips - scale * impulses, tips], axis=1)

    @functools.cached_property
    def force_arrows(self) -> Float[np.ndarray, "n_frames n_contacts 2 3"]:
        """Tails and tips [m] of the arrows of `forces`; of those that are not drawn they are one
        point."""
        return self.forces.arrows(self._longest_arrow(_FORCE_OF_BODY))

    def _longest_arrow(self, bodies: float) -> float:
        """A length [m], at most so many sizes of the largest body."""
        return min(_ARROW * self.extent.size, bodies * self.body_size)

    @functools.cached_property
    def body_size(self) -> float:
        """The longest side of the largest body [m]."""
        return float(max(np.ptp(mesh.vertices, axis=0).max() for mesh in self.meshes))

    @functools.cached_property
    def arrow_impacts(self) -> np.ndarray:
        """Indices of the impacts that have an arrow: none that would be too short to be seen."""
        length = np.linalg.norm(self.impact_impulse, axis=-1)
        longest = length.max(initial=0.0)
        return np.flatnonzero((length > 0) & (length >= SHORTEST * longest) & self.impacts)

    @functools.cached_property
    def arrow_shown(self) -> Bool[np.ndarray, "n_frames n_arrows"]:
        """The frames in which an arrow is shown: from its impact on, for a while."""
        start = self.impact_time[self.arrow_impacts]
        # Frames are numbered, or round-off would decide whether one is there at its impact.
        first = np.searchsorted(self.times, start - 1e-9 * (self.times[-1] - self.times[0]))
        last = np.searchsorted(self.times, start + _HOLD * self.speed)
        frame = np.arange(len(self.times))[:, None]
        return (frame >= first) & (frame < np.maximum(last, first + 1))

    @functools.cached_property
    def html(self) -> str:
        """One page that holds all it needs, with buttons to play, a speed and a slider."""
        # viser records what a server would send: for that time one listens on this machine.
        server = _serve(port=0)
        try:
            scene = Scene(server, self)
            serializer = server.get_scene_serializer()
            for frame in range(1, len(self.times)):
                step = self.times[frame] - self.times[frame - 1]
                serializer.insert_sleep(float(step) / self.speed)
                scene.show(frame)
            # The last frame stays for a moment before the page starts again.
            serializer.insert_sleep(0.5 if len(self.times) > 1 else 0.0)
            return serializer.as_html()
        finally:
            _stop(server)

    def save(self, path: Path | str) -> Path:
        """Writes the page to one file, which opens without a network; returns its path."""
        path = Path(path)
        path.write_text(self.html, encoding="utf-8")
        return path

    def _repr_html_(self) -> str:
        return (
            f'<iframe srcdoc="{html.escape(self.html, quote=True)}" width="100%" height="480" '
            'style="border:none;display:block"></iframe>'
        )

    def show(
        self, *, port: int = 8080, loop: bool = True, browser: bool = True, blocking: bool = True
    ) -> LiveReplay | None:
        """Plays live, on a server of this machine.

        Args:
            port: to listen on; the next free one if it is taken, any free one if 0.
            loop: start again at the end.
            browser: open it there.
            blocking: return only when interrupted (Ctrl-C); otherwise at once.

        Returns:
            Without `blocking`, what plays, to be stopped by its `stop`.
        """
        live = LiveReplay(self, port, loop)
        if browser:
            webbrowser.open(live.url)
        if not blocking:
            return live
        try:
            print(f"Replay at {live.url}; Ctrl-C ends it.")
            threading.Event().wait()
        except KeyboardInterrupt:
            pass
        finally:
            live.stop()
        return None

    @functools.cached_property
    def meshes(self) -> list[Mesh]:
        """The meshes of the bodies, in their body frames."""
        # Several bodies may be one object.
        known = {id(body): body for body in self.world.bodies}
        known = {key: mesh(body.centered_shape()) for key, body in known.items()}
        return [known[id(body)] for body in self.world.bodies]

    @functools.cached_property
    def extent(self) -> Extent:
        """The box about all bodies at all times [m]."""
        return Extent.of(self)


class LiveReplay:
    """A replay that plays on a server; from `Replay.show(blocking=False)`.

    Attributes:
        url: where.
        frame: the one shown last.
    """

    def __init__(self, replay: Replay, port: int, loop: bool):
        self._replay, self._loop = replay, loop
        self._server = _serve(port)
        self.url = f"http://localhost:{self._server.get_port()}"
        self.frame = 0
        self._scene = Scene(self._server, replay)
        gui = self._server.gui
        longest = replay.duration if replay.duration > 0 else 1.0
        self._playing = gui.add_checkbox("play", True)
        self._at = gui.add_slider("time", 0.0, longest, longest / 1000, 0.0)
        self._rate = gui.add_slider("speed", 0.1, 4.0, 0.1, 1.0)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._play, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Ends playing and the server."""
        if not self._ended.is_set():
            self._ended.set()
            self._thread.join()
            _stop(self._server)

    def _play(self) -> None:
        replay, now, at = self._replay, time.monotonic(), 0.0
        frames = (replay.times - replay.times[0]) / replay.speed
        shown = self._at.value
        while not self._ended.wait(max(0.005, 0.5 * replay.duration / len(frames))):
            before, now = now, time.monotonic()
            if self._at.value != shown:  # moved by hand
                at = self._at.value
            elif self._playing.value:
                at += (now - before) * self._rate.value
            if at > frames[-1]:
                at = 0.0 if self._loop else frames[-1]
            frame = int(np.searchsorted(frames, at + 1e-9, side="right")) - 1
            if frame != self.frame:
                with self._server.atomic():
                    self._scene.show(frame)
            self.frame = frame
            if abs(at - self._at.value) > 0.05:
                self._at.value = min(at, frames[-1])
            shown = self._at.value


def _viser():
    try:
        return importlib.import_module("viser")
    except ImportError as error:
        raise ImportError('A replay needs viser: pip install "jaxrb[viz]".') from error


def _serve(port: int):
    """A server that only this machine can reach."""
    # It would print its address even with verbose=False.
    with contextlib.redirect_stdout(io.StringIO()):
        return _viser().ViserServer(host="127.0.0.1", port=port, verbose=False)


def _stop(server) -> None:
    # It would print that it has stopped.
    with contextlib.redirect_stdout(io.StringIO()):
        server.stop()
