"""What measures: the machine and the versions of what takes part."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

import jax

from .. import __version__

# Peers as well, where they are installed.
_PACKAGES = ("jax", "jaxlib", "numpy", "mujoco", "mujoco-mjx", "brax")
_CPU_INFO = Path("/proc/cpuinfo")


def versions() -> dict[str, str]:
    """The version of each package that is installed."""
    found = {"jaxrb": __version__, "python": platform.python_version()}
    for name in _PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def machine() -> dict[str, str | int]:
    """The machine, as JAX and the operating system name it."""
    devices = jax.devices()
    return {
        "platform": f"{platform.system()} {platform.machine()}",
        "cpu": _cpu_model(),
        "cpus": os.cpu_count() or 1,
        "device": devices[0].device_kind,
        "devices": len(devices),
        "backend": devices[0].platform,
    }


def describe(machine: Mapping[str, Any]) -> str:
    """One line, of what `machine` returns."""
    return (
        f"{machine['cpus']} CPU cores ({machine['cpu']}), {machine['platform']}; "
        f"JAX on {machine['devices']} x {machine['device']}"
    )


def _cpu_model() -> str:
    # Of Linux; other systems tell Python themselves.
    if _CPU_INFO.exists():
        for line in _CPU_INFO.read_text().splitlines():
            name, _, value = line.partition(":")
            if name.strip() == "model name":
                return value.strip()
    return platform.processor() or platform.machine()
