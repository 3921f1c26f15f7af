"""The demo: what it prints, writes and refuses."""

import re
import subprocess
import sys

import numpy as np
import pytest
from helpers import before_releases

import jaxrb as rb
from jaxrb.__main__ import main
from jaxrb.cli.demo import describe

# Case I of Tran and Leok, to 12 decimals, from a computation with 60 digits.
TIMES = [2.649128901521, 4.893938255328, 5.350135680897, 6.520005137822]  # [s]
HEIGHT = 2.080323260433  # of the centre of mass at the first impact [m]
MOMENTUM = 11.605289919024  # vertical, just after the first impact [kg m/s]
GRAVITY = 9.80665  # [m/s^2]

ROW = re.compile(r"^ *(\d+) +(\d+\.\d+) +(\d+\.\d+) +(\d+\.\d+)$", re.MULTILINE)


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    """Runs a case once and returns its exit status, output and directory."""
    done = {}

    def run(case, *options):
        if (case, *options) not in done:
            out = tmp_path_factory.mktemp("out")
            with pytest.MonkeyPatch.context() as patch:
                lines = []
                patch.setattr("builtins.print", lambda *words, **_: lines.append(" ".join(words)))
                status = main(["demo", case, "--out", str(out), *options])
            done[case, *options] = status, "\n".join(lines), out
        return done[case, *options]

    return run


def times(text):
    """The times of the printed impacts [s]."""
    return np.array([float(row[1]) for row in ROW.findall(text)])


def load(out):
    with np.load(out / "trajectory.npz") as file:
        return dict(file)


@pytest.mark.slow
def test_billiard_break(demo):
    """Balls are listed once; the energy is kept, and shared by balls that were at rest."""
    status, text, out = demo("break", "--steps", "620")
    assert status == 0
    assert text.count("sphere, radius 0.0286 m") == 1
    assert "16 times" in text
    assert float(re.search(r"max \|E - E0\|/E0 = (\S+)", text)[1]) < 1e-13
    assert (out / "snapshots.png").exists()
    velocity = load(out)["velocity"][-1]
    assert (np.linalg.norm(velocity, axis=-1) > 0.1).sum() >= 8


@pytest.mark.slow
@pytest.mark.parametrize(("case", "steps"), [("backspin", "200"), *before_releases(("die", "300"))])
def test_friction(demo, case, steps):
    """At the first impact energy is lost, and for the ball the direction of its flight."""
    status, text, out = demo(case, "--steps", steps)
    assert status == 0
    assert (out / "energies.png").exists()
    lost, first = map(float, re.search(r"energy dissipated +(\S+) J of (\S+) J", text).groups())
    assert 0 < lost < first
    assert len(times(text)) >= 1
    if case == "backspin":
        forward = load(out)["velocity"][:, 0, 0]
        assert forward[0] > 0 > forward[-1]


@pytest.mark.slow
@pytest.mark.parametrize(
    "case",
    before_releases("dice", "stack", "dominoes"),
)
def test_what_comes_to_rest(demo, case):
    """It stays, on a face, and the pictures show it and its forces."""
    status, text, out = demo(case)
    assert status == 0
    arrays = load(out)
    rates = np.concatenate([arrays["velocity"][-1], arrays["angular_velocity"][-1]])
    if case == "dominoes":  # the first has fallen on the second, and so on
        _, x, y, _ = arrays["quaternion"][-1].T
        assert (1 - 2 * (x**2 + y**2) < 0.9)[:-1].all()  # cosines of their tilts
    else:
        np.testing.assert_allclose(rates, 0.0, atol=1e-6)
    lost, first = map(float, re.search(r"energy dissipated +(\S+) J of (\S+) J", text).groups())
    assert 0 < lost < first
    for name in ("energies.png", "snapshots.png", "forces.png", "replay.html"):
        assert (out / name).exists(), name


@pytest.mark.long
def test_a_slope_holds_one_box(demo):
    """The other one slides down by g (sin - mu cos) t^2/2."""
    status, text, out = demo("incline")
    assert status == 0
    assert "150 steps" in text  # its own number
    way = np.linalg.norm(np.diff(load(out)["position"][[0, -1]], axis=0)[0], axis=1)
    tilt = np.radians(20)
    expected = 9.81 * (np.sin(tilt) - 0.3 * np.cos(tilt)) * 1.5**2 / 2
    np.testing.assert_allclose(way, [0.0, expected], atol=1e-10)
    assert (out / "forces.png").exists()


@pytest.mark.long
def test_a_rattleback_reverses_its_spin(demo):
    """It rolls: of its energy nothing is lost but for the error of the steps."""
    status, text, out = demo("rattleback")
    assert status == 0 and len(times(text)) == 0
    arrays = load(out)
    spin = arrays["angular_velocity"][:, 0, 2]
    assert spin[0] == pytest.approx(-5.0) and spin[-1] > 4.5
    # 5e-6 of it are lost.
    np.testing.assert_allclose(arrays["energy"][-1], arrays["energy"][0], rtol=1e-4)
    assert (out / "angular_velocity.png").exists()


@pytest.mark.long
def test_a_tippe_top_turns_over(demo):
    """It never leaves the plane, and spins the other way about its own axis."""
    status, text, out = demo("tippe-top")
    assert status == 0 and len(times(text)) == 0
    arrays = load(out)
    _, x, y, _ = arrays["quaternion"][:, 0].T
    upright = 1 - 2 * (x**2 + y**2)
    assert upright[0] == pytest.approx(np.cos(0.4)) and upright[-1] < -0.9
    np.testing.assert_allclose(arrays["position"][:, 0, 2] + 0.003 * upright, 0.015, atol=1e-12)
    assert arrays["angular_velocity"][-1, 0, 2] < -100
    assert (np.diff(arrays["energy"]) < 1e-6 * arrays["energy"][0]).all()


@pytest.mark.long
def test_eulers_disc_goes_round_faster_as_it_falls(demo):
    """As a thin disc does: Omega^2 = 4 g/(a sin alpha). Its nutation swings about that."""
    status, text, out = demo("eulers-disc")
    assert status == 0
    rows = re.findall(r"^ +(0\.\d{4}) +(\d+\.\d{4}) +(\d+\.\d{4})$", text, re.MULTILINE)
    tilt, rate, closed_form = np.array(rows, float).T
    np.testing.assert_allclose(tilt, [0.5, 0.4, 0.3, 0.25], atol=2e-3)
    np.testing.assert_allclose(closed_form, np.sqrt(4 * 9.81 / (0.0375 * np.sin(tilt))), rtol=1e-3)
    np.testing.assert_allclose(rate, closed_form, rtol=0.02)
    found = float(re.search(r"0.55 rad: p = (\S+)", text)[1])
    assert found == pytest.approx(-0.5, abs=0.01)
    energy = load(out)["energy"]
    assert (np.diff(energy) < 1e-6 * energy[0]).all()
    assert (out / "eulers-disc.png").exists()


@pytest.mark.long
@pytest.mark.parametrize("case", ["arch", "card-house"])
def test_what_stands_by_friction(demo, case):
    """It has no impact, and stays to round-off for a second."""
    status, text, out = demo(case)
    assert status == 0 and len(times(text)) == 0
    arrays = load(out)
    for name in ("position", "quaternion"):
        np.testing.assert_allclose(arrays[name], arrays[name][:1].repeat(101, axis=0), atol=1e-9)
    if case == "arch":
        assert "convex polyhedron, 8 vertices\n" in text
    assert (out / "forces.png").exists() and (out / "replay.html").exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("case", "joints"), [*before_releases(("double-pendulum", 2)), ("four-bar", 4)]
)
def test_joints(demo, case, joints):
    """They are listed, and the energy errs by no more than the steps make it."""
    status, text, out = demo(case, "--steps", "200")
    assert status == 0
    assert len(re.findall(r"^  hinge   at ", text, re.MULTILINE)) == joints
    assert float(re.search(r"max \|E - E0\|/E0 = (\S+)", text)[1]) < 2e-2
    assert (out / "snapshots.png").exists() and (out / "replay.html").exists()


@pytest.mark.slow
def test_a_chain_swings(demo):
    """Its joints hold, and its energy errs by no more than the steps make it."""
    status, text, out = demo("chain")
    assert status == 0
    assert text.count("  pin     at ") == 8
    assert float(re.search(r"\|g\| <= (\S+) m", text)[1]) < 1e-12
    assert float(re.search(r"max \|E - E0\|/E0 = (\S+)", text)[1]) < 2e-2
    assert load(out)["position"][:, -1, 2].min() < -1.1  # nearly the whole length of 1.2 m
    assert (out / "snapshots.png").exists() and (out / "replay.html").exists()


@pytest.mark.slow
def test_balls_roll_and_stop(demo):
    """The first has 5/7 of its speed at the end; all agree with closed forms to round-off."""
    status, text, out = demo("rolling-ball")
    assert status == 0
    errors = [float(error) for error in re.findall(r"(\S+)$", text, re.MULTILINE) if "e-1" in error]
    assert len(errors) == 3 and max(errors) < 1e-11
    arrays = load(out)
    assert arrays["velocity"][-1, 0, 0] == pytest.approx(5 / 7 * 1.4, rel=1e-12)
    np.testing.assert_allclose(arrays["velocity"][-1, 1:], 0.0, atol=1e-12)
    np.testing.assert_allclose(arrays["angular_velocity"][-1, 1:], 0.0, atol=1e-11)
    assert (out / "rolling-ball.png").exists()


@pytest.mark.long
def test_a_quadruped_bows_and_trots(demo):
    """It stands where its legs say but for what servos yield, bows by as much as its front legs
    are shorter, and has gone forward in the end, upright."""
    status, text, out = demo("quadruped")
    assert status == 0 and len(re.findall(r"^  hinge   at ", text, re.MULTILINE)) == 8
    arrays = load(out)
    t, place, turn = arrays["t"], arrays["position"][:, 0], arrays["quaternion"][:, 0]
    w, x, y, z = turn.T
    pitch = np.degrees(np.arcsin(2 * (w * y - z * x)))
    standing, bowing = np.searchsorted(t, [0.65, 1.25])
    assert place[standing, 2] == pytest.approx(2 * 0.16 * np.cos(0.6) + 0.018, abs=3e-3)
    drop = 2 * 0.16 * np.cos(0.6) - 0.15
    assert pitch[bowing] == pytest.approx(np.degrees(np.arcsin(drop / 0.36)), abs=1.0)
    assert place[-1, 0] > 0.25 and abs(pitch[-1]) < 3.0
    assert place[:, 2].max() == place[0, 2]  # it does not jump
    assert (out / "snapshots.png").exists() and (out / "replay.html").exists()


@pytest.mark.long
def test_a_super_ball_comes_back(demo):
    """From floor, table and floor, without loss."""
    status, text, out = demo("super-ball", "--steps", "800")
    assert status == 0
    assert len(times(text)) == 3
    forward = load(out)["velocity"][:, 0, 0]
    assert forward[0] > 3.9 and forward[-1] < -3.8
    assert float(re.search(r"max \|E - E0\|/E0 = (\S+)", text)[1]) < 1e-13


@pytest.mark.slow
def test_prints_the_impacts_of_case_i(demo):
    status, text, _ = demo("I")
    assert status == 0
    rows = [[float(word) for word in row] for row in ROW.findall(text)]
    number, time, height, impulse = np.transpose(rows)
    np.testing.assert_array_equal(number, np.arange(1, len(number) + 1))
    np.testing.assert_allclose(time[:4], TIMES, rtol=0, atol=1e-9)
    np.testing.assert_allclose(height[0], HEIGHT, rtol=0, atol=1e-9)
    np.testing.assert_allclose(10 - GRAVITY * time[0] + impulse[0], MOMENTUM, rtol=0, atol=1e-9)


@pytest.mark.slow
def test_prints_the_impacts_of_a_union(demo):
    status, text, _ = demo("III")
    assert status == 0
    np.testing.assert_allclose(times(text)[:2], [2.009288622469, 2.928858417470], atol=1e-9)
    header = [line.strip() for line in text.splitlines()[1:5]]
    assert header == [
        "body    union of",
        "ellipsoid, semi axes (3, 4, 5) m, at (0.506287, 0, 0) m",
        "ellipsoid, semi axes (6, 1, 1) m, at (-5.49371, 0, 0) m",
        "mass 1 kg, inertia (7.59327, 9.93264, 8.27313) kg m^2",
    ]


@pytest.mark.long
def test_prints_the_impacts_of_a_cube(demo):
    """The third and the fourth lie in one step."""
    status, text, _ = demo("IV")
    assert status == 0
    found = times(text)
    np.testing.assert_allclose(found[:2], [2.608788264913, 3.657973349046], atol=1e-9)
    assert found[2] < found[3] and found[2] // 0.01 == found[3] // 0.01
    assert "box, half extents (1.73205, 1.73205, 1.73205) m, rounded by 1e-13 m\n" in text


@pytest.mark.slow
def test_turns_a_top(demo):
    """It falls, gains kinetic energy and rises again; its spin about its axis stays."""
    status, text, out = demo("top", "--steps", "240")
    assert status == 0
    assert "QuaternionEnergyMomentum" in text and "pin     at (0, 0, -0.075) m" in text
    assert "impact" not in text
    arrays = load(out)
    height = arrays["position"][:, 0, 2]
    assert height[0] == pytest.approx(0.0375) and height.min() < 0.035
    assert height[-1] - height.min() > 1e-4
    spin = arrays["angular_velocity"][:, 0, 2]
    np.testing.assert_allclose(spin, 400, rtol=1e-5)  # constant but for O(dt^2)
    np.testing.assert_allclose(arrays["energy"], arrays["energy"][0], rtol=1e-12)
    assert (out / "angular_velocity.png").exists()


def test_describes_nested_shapes():
    """A union placed as a whole is described by its parts, from the inside to the outside."""
    quarter = (1.0, 0.0, 0.0, 1.0)
    rod = rb.Placed(rb.Capsule(0.1, 0.5), (1.0, 0.0, 0.0), quarter)
    placed = rb.Placed(rb.Union(rod, rb.Rounded(rb.Sphere(0.2), 0.05)), (0.0, 0.0, 2.0))
    capsule = "capsule, radius 0.1 m, half length 0.5 m, turned by (1, 0, 0, 1), at (1, 0, 0) m"
    assert describe(placed) == [
        "union of",
        f"  {capsule}, at (0, 0, 2) m",
        "  sphere, radius 0.2 m, rounded by 0.05 m, at (0, 0, 2) m",
    ]
    assert describe(rb.Sphere(1.0)) == ["sphere, radius 1 m"]


@pytest.mark.slow
def test_says_what_it_did(demo):
    _, text, out = demo("I")
    for words in (
        "Case I:",
        "normal (0, 0, 1)",
        "LieVariational",
        "0.01 s",
        "1000 steps",
        "compile",
        "run",
    ):
        assert words in text
    for path in out.iterdir():
        assert str(path) in text


@pytest.mark.slow
def test_writes_pictures(demo):
    _, _, out = demo("I")
    for name, start in (
        ("energies.png", b"\x89PNG"),
        ("energies.pdf", b"%PDF"),
        ("replay.html", b"<!doctype html>"),
    ):
        assert (out / name).read_bytes().startswith(start)


@pytest.mark.slow
def test_writes_the_trajectory(demo):
    _, _, out = demo("I")
    arrays = load(out)
    assert all(array.dtype == np.float64 for array in arrays.values())
    assert arrays["t"].shape == (1001,)
    assert arrays["t"][-1] == 10.0
    for name, width in (
        ("position", 3),
        ("quaternion", 4),
        ("velocity", 3),
        ("angular_velocity", 3),
    ):
        assert arrays[name].shape == (1001, 1, width)
    energy = arrays["energy"]
    np.testing.assert_allclose(energy / energy[0], 1, rtol=0, atol=1e-12)
    np.testing.assert_allclose(arrays["impact_time"][:4], TIMES, rtol=0, atol=2e-12)
    # The contact points lie on the plane, and the impulses are normal to it.
    np.testing.assert_allclose(arrays["impact_position"][:, 2], 0, atol=1e-12)
    np.testing.assert_allclose(arrays["impact_impulse"][:, :2], 0, atol=1e-13)


@pytest.mark.long
def test_a_tilted_plane_changes_the_momentum_along_x_only(demo):
    status, text, out = demo("II")
    assert status == 0
    assert "normal (-0.0348995, 0, 0.999391)" in text
    velocity = load(out)["velocity"][:, 0]
    np.testing.assert_allclose(velocity[:, 1], 2, rtol=0, atol=1e-13)
    assert np.ptp(velocity[:, 0]) > 0.1


@pytest.mark.slow
def test_pieces_join_without_a_seam(demo):
    """4000 steps fly in pieces of 1000 and save every second step."""
    status, _, out = demo("I", "--steps", "4000")
    assert status == 0
    whole, pieces = load(demo("I")[2]), load(out)
    np.testing.assert_allclose(np.diff(pieces["t"]), 0.02, rtol=1e-9)
    assert pieces["t"][-1] == 40.0
    n = len(whole["impact_time"])
    np.testing.assert_allclose(pieces["impact_time"][:n], whole["impact_time"], rtol=0, atol=1e-12)
    assert np.all(np.diff(pieces["impact_time"]) > 0)
    np.testing.assert_allclose(pieces["position"][:501], whole["position"][::2], atol=1e-12)


@pytest.mark.slow
def test_without_matplotlib_it_says_how_to_install_it(tmp_path):
    """In a process of its own, which finds no matplotlib."""
    hide = "import sys; sys.modules['matplotlib'] = None; from jaxrb.__main__ import main; "
    code = hide + "import jaxrb.viz; sys.exit(main(sys.argv[1:]))"
    command = [sys.executable, "-c", code, "demo", "I", "--out", str(tmp_path), "--steps", "50"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "pip install jaxrb[viz]" in done.stdout
    # The replay needs viser alone.
    assert sorted(path.name for path in tmp_path.iterdir()) == ["replay.html", "trajectory.npz"]


def test_refuses_a_case_that_does_not_exist(capsys):
    with pytest.raises(SystemExit) as stop:
        main(["demo", "VII"])
    assert stop.value.code == 2
    assert "'VII'; the cases are I, II, III, IV" in capsys.readouterr().err


@pytest.mark.parametrize("steps", ["0", "-3", "many"])
def test_refuses_an_impossible_number_of_steps(steps, capsys):
    with pytest.raises(SystemExit) as stop:
        main(["demo", "I", f"--steps={steps}"])
    assert stop.value.code == 2
    assert "positive whole number" in capsys.readouterr().err


def test_without_a_command_it_prints_help(capsys):
    assert main([]) == 0
    text = capsys.readouterr().out
    assert "demo" in text
    assert "bench" in text


def test_version(capsys):
    with pytest.raises(SystemExit) as stop:
        main(["--version"])
    assert stop.value.code == 0
    assert capsys.readouterr().out.startswith("jaxrb ")
