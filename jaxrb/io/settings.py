"""What a compiled model switches on and off, and arrays that not every release of MuJoCo has."""

from __future__ import annotations

from typing import Any

import numpy as np


def disabled(mujoco: Any, model: Any, *names: str) -> bool:
    """Whether any of these flags of the model disables something; such that a release does not
    have disable nothing."""
    kinds = mujoco.mjtDisableBit
    bits = [getattr(kinds, f"mjDSBL_{name}", None) for name in names]
    return any(bit is not None and bool(model.opt.disableflags & bit) for bit in bits)


def of(model: Any, name: str, index: Any) -> Any:
    """Entries of an array; zero where a release does not have it."""
    array = getattr(model, name, None)
    return 0.0 if array is None else np.array(array)[index]
