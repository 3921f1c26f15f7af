"""Replays: their poses, arrows, files and messages."""

import base64
import dataclasses
import html
import json
import re
import sys
import time
import urllib.request

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxrb as rb
from jaxrb.simulate import ContactForces
from jaxrb.viz import replay

GRAVITY, RADIUS, RESTITUTION = 10.0, 0.5, 0.8
SPIN = np.array([0.0, 3.0, 4.0])  # [rad/s]
WORLD = rb.World(
    [rb.RigidBody(rb.Sphere(RADIUS), mass=2.0)],
    [rb.HalfSpace()],
    gravity=(0.0, 0.0, -GRAVITY),
    contact_law=rb.Frictionless(restitution=RESTITUTION),
)
END = 3.0
DROP = 3.2  # height of the centre of the first ball at the start [m]


@pytest.fixture(scope="module")
def fly():
    """Simulates a ball let go at a height [m] with a forward velocity of 1 m/s."""
    save = rb.SaveAt(every=10, impacts=4)
    run = jax.jit(
        lambda s: rb.simulate(
            WORLD, s, rb.LGVCI(dt=0.01, on_zeno="stop"), END, save=save, throw=False
        )
    )

    def solve(height):
        at, velocity = jnp.array([[0.0, 1.0, height]]), jnp.array([[1.0, 0.0, 0.0]])
        return run(rb.State(at, jnp.array([[1.0, 0.0, 0.0, 0.0]]), velocity, SPIN[None]))

    return solve


@pytest.fixture(scope="module")
def sol(fly):
    return fly(DROP)


def bounces(height):
    """Times [s] and speeds of departure [m/s] of the impacts before END, in closed form."""
    fall = np.sqrt(2 * (height - RADIUS) / GRAVITY)
    times, speeds, t, speed = [], [], fall, GRAVITY * fall
    while t < END:
        speed *= RESTITUTION
        times.append(t)
        speeds.append(speed)
        t += 2 * speed / GRAVITY
    return np.array(times), np.array(speeds)


def heights(t, height):
    """Of the centre of the ball [m], in closed form."""
    times, speeds = bounces(height)
    index = np.searchsorted(times, t) - 1
    since, speed = t - times[index], speeds[index]
    flying = RADIUS + speed * since - GRAVITY * since**2 / 2
    return np.where(index < 0, height - GRAVITY * t**2 / 2, flying)


@pytest.mark.slow
def test_poses_at_saved_times_are_the_saved_ones(sol):
    found = replay(WORLD, sol)  # three frames from one saved time to the next
    np.testing.assert_allclose(found.times[::3], sol.ts, atol=1e-12)
    np.testing.assert_allclose(found.position[0, ::3], sol.states.position, atol=1e-12)
    saved = np.asarray(sol.states.quaternion)
    same = np.abs(np.sum(found.quaternion[0, ::3] * saved, axis=-1))
    np.testing.assert_allclose(same, 1.0, atol=1e-12)
    assert found.duration == pytest.approx(END)


@pytest.mark.slow
def test_slow_replays_tell_every_frame_apart(sol):
    times = replay(WORLD, sol, speed=0.02)
    assert times.label(0) == "t = 0.0000 s" and times.label(7) == "t = 0.0047 s"
    labels = {times.label(frame) for frame in range(len(times.times))}
    assert len(labels) == len(times.times)
    assert replay(WORLD, sol).label(1) == "t = 0.03 s"


def test_poses_between_are_those_of_free_flight(sol):
    """Gravity bends a path by a parabola, which a cubic with the right ends is, through impacts
    as well; the ball turns uniformly."""
    found = replay(WORLD, sol, fps=71)
    t = found.times
    np.testing.assert_allclose(found.position[0, :, 0, 2], heights(t, DROP), atol=1e-9)
    np.testing.assert_allclose(found.position[0, :, 0, :2], np.stack([t, 1 + 0 * t], -1), atol=1e-9)
    q = found.quaternion[0, :, 0]
    assert np.abs(np.linalg.norm(q, axis=-1) - 1).max() < 1e-12
    half = np.unwrap(2 * np.arctan2(q[:, 1:] @ SPIN / 5, q[:, 0])) / 2
    # The scheme's steps turn by a little less, shorter steps at impacts by less too little.
    np.testing.assert_allclose(half, half[-1] * t / END, atol=1e-5)
    np.testing.assert_allclose(2 * half[-1], 5 * END, rtol=1e-3)


@pytest.mark.parametrize("recorded", [0, 1])
def test_no_overshoot_where_impacts_were_not_recorded(sol, recorded):
    bare = eqx.tree_at(lambda s: s.impacts, sol, record_of(sol.impacts, recorded))
    found = replay(WORLD, bare, fps=300)
    low = found.position[0, :, 0, 2]
    assert low.min() > RADIUS - 1e-9
    gap = np.abs(low - heights(found.times, DROP))
    first, second = bounces(DROP)[0][:2]
    known = found.times < first if recorded else found.times < 0
    assert gap[known].max(initial=0.0) < 1e-9
    assert gap.max() < 0.1 * GRAVITY * first  # a saved interval of falling at most
    assert second < END


def record_of(record, n):
    """The record of a simulation with room for n impacts."""
    if n == 0:
        return type(record)(record.count)
    cut = jax.tree.map(lambda leaf: leaf[:n] if jnp.ndim(leaf) else leaf, record)
    return eqx.tree_at(lambda r: r.count, cut, record.count)


def test_arrows_end_at_contact_points(sol):
    found = replay(WORLD, sol, fps=100)
    times, speeds = bounces(DROP)
    np.testing.assert_allclose(found.impact_time, times, atol=1e-9)
    tails, tips = np.moveaxis(found.arrows, 1, 0)
    np.testing.assert_allclose(tips, np.stack([times, 1 + 0 * times, 0 * times], -1), atol=1e-9)
    along = tips - tails
    assert np.abs(along[:, :2]).max() < 1e-9
    np.testing.assert_allclose(along[:, 2] / along[0, 2], speeds / speeds[0], rtol=1e-9)
    # They come with the impact and soon go.
    for impact, shown in zip(times, found.arrow_shown.T, strict=True):
        there = found.times[shown]
        assert impact - 1e-9 <= there[0] < impact + 0.011
        assert 0.2 < there[-1] - impact < 0.5 or there[-1] == found.times[-1]
    assert not replay(WORLD, sol, impacts=False).arrows.size


def test_lanes(fly):
    sols = [fly(height) for height in (DROP, 2.0, 4.0)]
    batch = jax.tree.map(lambda *leaves: jnp.stack(leaves), *sols)
    found = replay(WORLD, batch, lanes=[2, 0])
    assert found.position.shape[0] == 2
    for lane, height in enumerate((4.0, DROP)):
        np.testing.assert_allclose(
            found.position[lane, :, 0, 2], heights(found.times, height), atol=1e-9
        )
    nodes = payload(found.html)["messages"]
    opacity = {m["name"]: m["props"]["opacity"] for _, m in nodes if m["type"] == "MeshMessage"}
    assert opacity["/lane0/body0/mesh"] is None
    assert 0 < opacity["/lane1/body0/mesh"] < 1
    with pytest.raises(ValueError, match=r"3 lanes: choose some, as lanes=\[0, 1\]"):
        replay(WORLD, batch)
    for lanes in ([3], [-1], [0, 0]):
        with pytest.raises(ValueError, match="different numbers from 0 to 2"):
            replay(WORLD, batch, lanes=lanes)


@pytest.mark.parametrize("padding", ["last good", np.nan, np.inf])
def test_a_failed_simulation_is_shown_up_to_its_end(sol, padding):
    """It ended after 1.23 s; what comes later was not reached."""
    late = sol.ts > 1.23
    failed = eqx.tree_at(
        lambda s: (s.result, s.stats.time, s.final.position),
        sol,
        (rb.RESULTS.grazing, jnp.asarray(1.23), jnp.array([[1.23, 1.0, 7.0]])),
    )
    if padding == "last good":
        failed = eqx.tree_at(
            lambda s: s.states.position,
            failed,
            jnp.where(late[:, None, None], failed.final.position, sol.states.position),
        )
    else:
        fill = lambda leaf: jnp.where(late.reshape(-1, *[1] * (leaf.ndim - 1)), padding, leaf)  # noqa: E731
        failed = eqx.tree_at(
            lambda s: (s.ts, s.states),
            failed,
            (fill(sol.ts), jax.tree.map(fill, sol.states)),
        )
    found = replay(WORLD, failed)
    assert found.times[-1] == pytest.approx(1.23)
    assert np.isfinite(found.position).all()
    np.testing.assert_allclose(found.position[0, -1, 0], [1.23, 1.0, 7.0])
    before = found.times <= 1.2
    np.testing.assert_allclose(
        found.position[0, before, 0, 2], heights(found.times[before], DROP), atol=1e-9
    )
    assert found.impact_time.max() < 1.23
    assert found.label(0) == "t = 0.00 s (grazing)"
    assert replay(WORLD, sol).label(0) == "t = 0.00 s"


def test_messages(sol, monkeypatch):
    short = jax.tree.map(lambda leaf: leaf[-1:], (sol.ts, sol.states))
    final = eqx.tree_at(lambda s: (s.ts, s.states), sol, short)
    with pytest.raises(ValueError, match=r"save=SaveAt\(every=..., impacts=...\)"):
        replay(WORLD, final)
    with pytest.raises(ValueError, match="no batch axis"):
        replay(WORLD, sol, lanes=[0])
    with pytest.raises(ValueError, match="sol must be a Solution"):
        replay(WORLD, sol.states)
    with pytest.raises(ValueError, match="1 bodies, world has 2"):
        replay(rb.World(WORLD.bodies * 2, pairs=[]), sol)
    for wrong in ({"fps": 0}, {"speed": -1.0}, {"speed": np.inf}):
        with pytest.raises(ValueError, match="must be positive and finite"):
            replay(WORLD, sol, **wrong)
    monkeypatch.setitem(sys.modules, "viser", None)
    with pytest.raises(ImportError, match=r'pip install "jaxrb\[viz\]"'):
        replay(WORLD, sol)


def payload(page):
    """What a page will play, decoded as its viewer does; its arrays are the entry "arrays"."""
    import msgspec
    import zstandard

    data = base64.b64decode(re.search(r'__VISER_EMBED_DATA__="([^"]*)"', page)[1])
    inner = zstandard.ZstdDecompressor().decompress(data[8:])
    length = int.from_bytes(inner[:8], "little")
    content = msgspec.msgpack.decode(inner[8 : 8 + length])
    end, arrays = 8 + length, []
    for size in content["binaryBufferLengths"]:
        begin = -(-end // 8) * 8  # each is aligned to 8 bytes
        end = begin + size
        arrays.append(inner[begin:end])
    return content | {"arrays": arrays}


def test_the_file_is_one_page_that_plays_the_trajectory(sol, tmp_path):
    found = replay(WORLD, sol, speed=2.0)
    path = found.save(tmp_path / "ball.html")
    assert path.stat().st_size < 2_000_000
    page = path.read_text(encoding="utf-8")
    assert not re.search(r"""(src|href)\s*=\s*["']?\s*(https?:)?//""", page)
    assert replay(WORLD, sol, speed=2.0).html == page

    content = payload(page)
    assert END / 2 <= content["durationSeconds"] <= END / 2 + 1
    messages = content["messages"]
    moves = [
        (t, m["position"])
        for t, m in messages
        if m["type"] == "SetPositionMessage" and m["name"] == "/lane0/body0"
    ]
    played, position = np.array([t for t, _ in moves]), np.array([p for _, p in moves])
    # All in one unit of length.
    unit = np.ptp(position[:, 0]) / np.ptp(found.position[0, :, 0, 0])
    truth = np.stack([2 * played, 1 + 0 * played, heights(2 * played, DROP)], axis=-1)
    np.testing.assert_allclose(position, unit * truth, rtol=1e-6, atol=1e-5)
    texts = [json.dumps(m) for t, m in messages if "/time" in m.get("name", "")]
    assert any("t = 3.00 s" in text for text in texts)
    kinds = {m["type"] for _, m in messages}
    assert {"MeshMessage", "GridMessage", "ArrowMessage", "LineSegmentsMessage"} <= kinds


def test_notebooks_show_the_page_in_a_frame(sol):
    found = replay(WORLD, sol)
    text = found._repr_html_()
    assert text.startswith("<iframe ")
    assert html.unescape(re.search(r'srcdoc="([^"]*)"', text)[1]) == found.html


def test_live(sol, capsys):
    live = replay(WORLD, sol, speed=5.0).show(port=0, browser=False, blocking=False)
    try:
        with urllib.request.urlopen(live.url) as answer:
            assert b"<html" in answer.read(2000)
        seen, limit = set(), time.monotonic() + 20
        # It goes on, and at the end from the beginning.
        while (len(seen) < 3 or live.frame >= max(seen)) and time.monotonic() < limit:
            seen.add(live.frame)
            time.sleep(0.01)
        assert len(seen) >= 3
        assert live.frame < max(seen)
    finally:
        live.stop()
    live.stop()
    with pytest.raises(OSError, match="refused"):
        urllib.request.urlopen(live.url)
    assert capsys.readouterr().out == ""


@pytest.mark.slow
def test_obstacles_are_drawn_where_they_are():
    """A plate that goes up and down, a solid, and a cavity; frames have the poses of the motion."""

    def lift(t, args):
        return jnp.stack([0 * t, 0 * t, args * t]), jnp.array([1.0, 0.0, 0.0, 0.0])

    ball = rb.RigidBody(rb.Sphere(0.1), 1.0)
    room = rb.Complement(rb.Sphere(3.0))
    solid = rb.Placed(rb.Box((0.1, 0.2, 0.3)), (1.0, 0.0, 0.0))
    world = rb.World(
        [ball], [rb.Moving(rb.HalfSpace(), lift), solid, room, rb.HalfSpace(offset=-2)]
    )
    start = rb.State([[0.0, 0.0, 1.0]], [[1.0, 0, 0, 0]], [[0.0, 0.0, 0.0]], [[0.0, 0.0, 0.0]])
    save = rb.SaveAt(every=10)
    sol = rb.simulate(
        world, start, rb.LGVCI(dt=0.01, on_zeno="stop"), 0.2, save=save, args=jnp.asarray(0.5)
    )
    found = replay(world, sol, args=jnp.asarray(0.5))
    assert list(found.obstacle_poses) == [0]
    position, quaternion = found.obstacle_poses[0]
    np.testing.assert_allclose(position[:, 2], 0.5 * found.times, atol=1e-12)
    np.testing.assert_allclose(quaternion, np.tile([1.0, 0, 0, 0], (len(found.times), 1)))
    nodes = [m for _, m in payload(found.html)["messages"]]
    sides = {m["name"]: m["props"]["side"] for m in nodes if m["type"] == "MeshMessage"}
    sides = {name: side for name, side in sides.items() if name.startswith("/obstacles")}
    names = [f"/obstacles/{k}/mesh" for k in range(3)]
    assert sides == dict(zip(names, ("double", "front", "back"), strict=True))
    moved = [m for m in nodes if m["type"] == "SetPositionMessage" and m["name"] == "/obstacles/0"]
    assert len(moved) >= len(found.times) - 1


def test_forces_are_arrows_that_end_at_the_points_of_contact(sol):
    """Of the last time saved, as long as they are large but for the very largest; without one
    where there is none."""
    n, load = len(sol.ts), np.zeros((len(sol.ts), 3, 3))
    load[10:, 0, 0], load[20:, 1, 0] = 2.0, 1.0
    load[15, 0, 0], load[12, 1, 1] = 500.0, np.nan
    place = np.arange(9.0).reshape(3, 3) + np.zeros((n, 1, 1))
    held = dataclasses.replace(sol, contacts=forces_of(load, place))
    found = replay(WORLD, held)  # three frames from one saved time to the next
    arrows = found.force_arrows
    assert arrows.shape == (len(found.times), 2, 2, 3)
    np.testing.assert_allclose(
        arrows[:, :, 1], np.broadcast_to(place[0, :2], arrows[:, :, 1].shape)
    )
    along = arrows[:, :, 1] - arrows[:, :, 0]
    assert not along[..., 1:].any()  # the normal is the x-axis
    length = along[..., 0] / along[-1, 0, 0]
    np.testing.assert_allclose(length[:, 0], np.arange(len(length)) >= 30)
    np.testing.assert_allclose(length[:, 1], np.where(np.arange(len(length)) >= 60, 0.5, 0.0))
    # The first is shown from the tenth time saved on.
    shown = [(t, m) for t, m in payload(found.html)["messages"] if m.get("name") == "/forces/0"]
    (first,) = [
        t for t, m in shown if m["type"] == "SetSceneNodeVisibilityMessage" and m["visible"]
    ]
    assert first == pytest.approx(float(sol.ts[10]), abs=1e-6)
    assert not replay(WORLD, held, forces=False).force_arrows.size
    assert not replay(WORLD, sol).force_arrows.size


def forces_of(load, place):
    """At contacts of the first body with the first obstacle, along axes whose normal is x."""
    n, m, _ = load.shape
    axes = jnp.broadcast_to(jnp.eye(3), (n, m, 3, 3))
    none = jnp.zeros((n, m))
    found = jnp.ones(n, bool), jnp.zeros(n)
    parts = (jnp.asarray(load), none, none.astype(int), jnp.asarray(place), axes, *found)
    return ContactForces(*parts, ((0, 0),) * m)


def test_joints_are_marked_where_they_hold():
    """Balls at both ends in the frames of the bodies, and axes in the frames in which they are
    fixed: of a universal joint the first in the other body, or in the world, and the last in the
    body itself."""
    bar = rb.RigidBody(rb.Box((0.2, 0.02, 0.02)))
    joints = [
        rb.Hinge(0, axis=(0, 2, 0), anchor=(-0.2, 0, 0), other_anchor=(0, 0, 1)),
        rb.Distance(1, (0, 0, 0), 0.5, other=0, other_anchor=(0.2, 0, 0)),
        rb.Universal(
            1,
            axes=((0, 3, 0), (0, 0, 1)),
            anchor=(0.1, 0, 0),
            other_anchor=(0.5, 0, 0.5),
            reference=(np.sqrt(0.5), np.sqrt(0.5), 0, 0),
        ),
    ]
    world = rb.World([bar, bar], [], joints=joints)
    zero = jnp.zeros((2, 3))
    start = rb.State(
        jnp.array([[0.2, 0, 1], [0.4, 0, 0.5]]), jnp.tile(jnp.eye(1, 4), (2, 1)), zero, zero
    )
    # Poses matter alone, and those of bodies without joints compile fast.
    free = rb.World([bar, bar], [], pairs=[])
    sol = rb.simulate(free, start, rb.LGVCI(0.01), 0.1, save=rb.SaveAt(every=5))
    found = replay(world, sol)
    content = payload(found.html)
    nodes = [m for _, m in content["messages"]]
    kinds = {m["name"]: m["type"] for m in nodes if "/joint" in m.get("name", "")}
    balls = {
        m["name"]: np.array(m["position"])
        for m in nodes
        if m["type"] == "SetPositionMessage" and "/joint" in m["name"]
    }
    unit = 6.0 / found.extent.size
    expected = {
        "/lane0/body0/joint0": (-0.2, 0, 0),
        "/world/joint0": (0, 0, 1),
        "/lane0/body1/joint1": (0, 0, 0),
        "/lane0/body0/joint1": (0.2, 0, 0),
        "/lane0/body1/joint2": (0.1, 0, 0),
        "/world/joint2": (0.5, 0, 0.5),
    }
    assert set(kinds) == set(expected)
    for name, place in balls.items():
        np.testing.assert_allclose(place, unit * np.array(expected[name]), atol=1e-6)
    axes = {}
    for m in nodes:
        if m["type"] == "LineSegmentsMessage" and "axis" in m["name"]:
            where = m["props"]["points"]
            points = np.frombuffer(content["arrays"][where["__binary_index"]], where["dtype"])
            axes[m["name"]] = points.reshape(2, 3)
    along = {
        "/lane0/body0/axis0": ("/lane0/body0/joint0", (0, 1, 0)),
        "/lane0/body1/axis2": ("/lane0/body1/joint2", (0, 0, 1)),
        "/world/axis2": ("/world/joint2", (0, 0, 1)),  # y, turned by a quarter about x
    }
    assert set(axes) == set(along)
    for name, (ball, direction) in along.items():
        begin, end = axes[name]
        np.testing.assert_allclose((begin + end) / 2, balls[ball], atol=1e-6)
        np.testing.assert_allclose(
            (end - begin) / np.linalg.norm(end - begin), direction, atol=1e-6
        )
