"""Imports point one way: from a layer to those before it, and within a layer without circles.

Imports within functions and for type checkers count: what a module knows of, it depends on.
"""

import ast
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import jaxrb

ROOT = Path(jaxrb.__file__).parent
# Modules by themselves, below all packages.
FILES = ["_hosts", "_validate", "_codes", "_help", "_text"]
LAYERS = [
    *FILES,
    "math",
    "exec",
    "lie",
    "rotations",
    "shapes",
    "control",
    "bodies",
    "contact",
    "impact",
    "flows",
    "stepping",
    "simulate",
    "optimize",
]
# Nobody imports these but the command line.
ENDS = ["viz", "io", "cli", "bench"]
# What is known to point back, and why.
BACK = {
    # A shape without a formula for its moments has them by quadrature, whose regions are shapes.
    ("shapes/base", "shapes/moments"),
    ("shapes/base", "shapes/rounded"),
    # A region takes what one of its solids has to say.
    ("shapes/csg/normal_form", "shapes/base"),
    # The text of an object names its type.
    ("simulate/describe", "simulate/saving"),
    ("simulate/describe", "simulate/world"),
    ("simulate/unread", "simulate/saving"),
    ("optimize/describe", "optimize/fit"),
    ("optimize/describe", "optimize/shoot"),
    ("viz/scene", "viz/replay"),
}


def imported(path: Path) -> set[str]:
    """The modules that one imports, wherever it does, as paths below the package."""
    package = path.relative_to(ROOT).parts[:-1]
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.level:
            base = Path(*package[: len(package) - node.level + 1], *(node.module or "").split("."))
            for alias in node.names:
                module = base / alias.name
                is_module = (ROOT / module).is_dir() or (ROOT / module).with_suffix(".py").exists()
                found.add((module if is_module else base).as_posix())
    return found


MODULES = [path for path in sorted(ROOT.rglob("*.py")) if len(path.relative_to(ROOT).parts) > 1]


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(ROOT)))
def test_layers(path):
    layer = path.relative_to(ROOT).parts[0]
    others = {Path(module).parts[0] if module != "." else "." for module in imported(path)}
    others -= {layer}
    if layer in LAYERS:
        assert others <= set(LAYERS[: LAYERS.index(layer)])
    else:
        assert layer in ENDS
        assert others <= {*LAYERS, *ENDS, "."}  # the version


def test_no_circles():
    """A package stands for all of its modules where others import from it."""
    graph = {}
    for path in MODULES:
        name = path.relative_to(ROOT).with_suffix("").as_posix().removesuffix("/__init__")
        graph[name] = {other for other in imported(path) if (name, other) not in BACK} - {name}
    list(TopologicalSorter(graph).static_order())  # raises CycleError
    assert all(other in imported(ROOT / f"{name}.py") for name, other in BACK)


def test_every_layer_is_reached():
    assert {path.relative_to(ROOT).parts[0] for path in MODULES} == {*LAYERS, *ENDS} - {*FILES}
