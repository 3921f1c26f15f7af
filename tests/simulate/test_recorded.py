"""Scenes give what they gave when they were confirmed against references of 50 digits."""

import pytest
import recorded
from helpers import before_releases, quick_jit

# States and times are those on record to some units of round-off, whatever compiles them; the
# derivatives of the box that comes to rest pass through 30 impacts on its corners.
LIMITS = {"state": 1e-13, "times": 1e-13, "forward": 1e-12, "reverse": 1e-12}
QUICK = ("Case I", "five balls", "pinned top")
# One of each kind: the others take minutes to compile, and recorded.py compares them by hand.
DERIVED = ("Case I", "friction", "five balls", *before_releases("resting box", "pinned top"))


def compare(name, **options):
    found = recorded.evaluate(name, compile=quick_jit, **options)
    known = recorded.recorded()[name]
    assert set(found) <= set(known)
    far = {key: recorded.distance(value, known[key]) for key, value in found.items()}
    assert all(far[key] <= LIMITS[key] for key in far), far


@pytest.mark.slow
@pytest.mark.parametrize("name", QUICK)
def test_values(name):
    compare(name, derivatives=False)


@pytest.mark.slow
@pytest.mark.parametrize("name", DERIVED)
def test_values_and_derivatives(name):
    compare(name)
