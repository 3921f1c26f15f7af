"""Imports point one way: from a layer to those before it."""

import ast
from pathlib import Path

import pytest

import jaxrb

ROOT = Path(jaxrb.__file__).parent
FILES = ["_validate", "_codes", "_help", "_text"]  # modules by themselves, below all packages
LAYERS = [
    *FILES,
    "math",
    "lie",
    "rotations",
    "shapes",
    "control",
    "bodies",
    "contact",
    "impact",
    "flows",
    "simulate",
]
# Nobody imports these but the command line.
ENDS = ["viz", "io", "cli", "bench"]


def imported(path: Path) -> set[str]:
    """The layers a module imports when it runs (not only for type checkers)."""
    package = path.relative_to(ROOT).parts[:-1]
    found = set()
    tree = ast.parse(path.read_text())
    for node in list(ast.walk(tree)):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            node.body = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.level:
            base = package[: len(package) - node.level + 1]
            target = (*base, *(node.module or "").split("."))
            names = [part for part in target if part]
            found.update([names[0]] if names else [alias.name for alias in node.names])
    return found


MODULES = [path for path in sorted(ROOT.rglob("*.py")) if len(path.relative_to(ROOT).parts) > 1]


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(ROOT)))
def test_layers(path):
    layer = path.relative_to(ROOT).parts[0]
    others = imported(path) - {layer}
    if layer in LAYERS:
        assert others <= set(LAYERS[: LAYERS.index(layer)])
    else:
        assert layer in ENDS
        assert others <= {*LAYERS, *ENDS, "__version__"}


def test_every_layer_is_reached():
    assert {path.relative_to(ROOT).parts[0] for path in MODULES} == {*LAYERS, *ENDS} - {*FILES}
