"""How fast replays of demos play."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from jaxrb.cli.playback import LONGEST, SHORTEST, TURN, playback


@pytest.mark.parametrize("span", [0.5, 2.0, 5.0, 10.0, 40.0])
@pytest.mark.parametrize("rate", [0.0, 3.0, 30.0, 400.0])
def test_lasts_several_seconds_with_many_frames(span, rate):
    """Within what rounding the speed to one digit allows."""
    ts = np.linspace(1.0, 1.0 + span, 11)
    omega = np.zeros((11, 2, 3))
    omega[4, 1, 2] = -rate
    sol: Any = SimpleNamespace(ts=ts, states=SimpleNamespace(angular_velocity=omega))
    speed, fps = playback(sol)
    duration = span / speed
    assert 0 < speed <= 1
    assert float(f"{speed:.1g}") == speed
    assert 30 <= fps <= 60
    assert duration * fps >= 150
    assert duration > SHORTEST / 1.5
    if speed < 1:
        assert duration < LONGEST * 1.5
    # A turn from frame to frame is small, unless the replay would last too long for that.
    if rate * speed / fps > TURN * 1.01:
        assert fps == 60 or duration > LONGEST / 1.5
