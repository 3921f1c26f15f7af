"""Replays in a browser, without a network: `pytest -m browser tests/viz`.

It needs Chromium, Node and npm, which fetches puppeteer-core for it.
"""

import json
import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import jaxrb as rb
from jaxrb.cli.cases import CASES
from jaxrb.viz import replay

pytestmark = pytest.mark.browser
SCRIPT = Path(__file__).with_name("browser.mjs")
END = 10.0


def program(*names):
    """The path of the first of some programs that is there."""
    found = next(filter(None, map(shutil.which, names)), None)
    assert found, f"The browser tests need {names[0]} on the path (Debian: apt-get install)."
    return found


@pytest.fixture(scope="module")
def drive(tmp_path_factory):
    """Drives a page through the script; returns its report and the pictures, shape (h, w, 3)."""
    from matplotlib.image import imread

    chromium = os.environ.get("CHROMIUM") or program(
        "chromium", "chromium-browser", "google-chrome"
    )
    node, npm = program("node"), program("npm")
    place = tmp_path_factory.mktemp("puppeteer")
    (place / "package.json").write_text('{"private": true}')
    install = [npm, "install", "--no-audit", "--no-fund", "puppeteer-core@24"]
    done = subprocess.run(install, cwd=place, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"npm could not install puppeteer-core: {done.stderr}"
    script = shutil.copy(SCRIPT, place)

    def run(page, duration, times):
        out = tmp_path_factory.mktemp("pictures")
        command = [node, script, chromium, page, duration, out, *times]
        done = subprocess.run(
            list(map(str, command)), capture_output=True, text=True, check=False, timeout=300
        )
        assert done.returncode == 0, done.stderr
        pictures = [imread(out / f"{k}.png")[..., :3] for k in range(len(times))]
        return json.loads(done.stdout), pictures

    return run


@pytest.mark.parametrize("name", ["I", "III", "IV"])
def test_plays_offline(drive, tmp_path, name):
    """It opens, plays, goes to the first impact and back to the start; nothing is fetched."""
    case = CASES[name]
    world, state = case.build()
    save = rb.SaveAt(every=10, impacts=32)
    sol = rb.simulate(world, state, rb.EventDriven(case.flow, case.dt), END, save=save)
    found = replay(world, sol)
    path = found.save(tmp_path / f"{name}.html")
    assert path.stat().st_size < 2_000_000
    impact = float(found.impact_time[0]) + 0.05

    report, (bounce, start) = drive(path, found.duration + 0.5, [impact, 0.0])
    assert report["refused"] == []
    assert report["errors"] == []
    assert all(url.startswith(("file:", "data:", "blob:")) for url in report["requests"])
    before, after = report["played"]
    assert before != after
    np.testing.assert_allclose(report["scrubbed"], [impact, 0.0], atol=0.1)

    bounce, start = (picture[: int(0.9 * len(picture))] for picture in (bounce, start))
    for picture in (bounce, start):
        assert picture.std() > 0.03
        assert (bluish(picture)).mean() > 0.003  # the body
    assert np.abs(bounce - start).max() > 0.3
    # The arrow is there at the impact only.
    assert reddish(start).sum() == 0
    assert reddish(bounce).sum() > 30


def bluish(picture):
    return picture[..., 2] - picture[..., 0] > 0.25


def reddish(picture):
    return picture[..., 0] - picture[..., 2] > 0.15
