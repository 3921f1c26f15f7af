"""What `dir` and completion show, and what `help` says of constructors."""

import inspect
import pkgutil
import re
import subprocess
import sys

import pytest

import jaxrb as rb

PACKAGES = [rb, rb.rotations, rb.viz, rb.io, rb.lie, rb.optimize]
MODULES = [*PACKAGES, rb.lie.so3, rb.lie.se3, rb.lie.quaternion, rb.lie.directors]


def exported(module):
    """The names that the text of a package imports as themselves."""
    return {found for _, found in re.findall(r"(\w+) as (\w+)", inspect.getsource(module))}


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_only_public_names_are_shown(module):
    shown = dir(module)
    assert shown == sorted(set(shown))
    public_modules = {"io", "optimize", "viz", "lie", "rotations"}
    public_modules |= {"so3", "se3", "quaternion", "directors"}
    for name in shown:
        assert not name.startswith("_")
        thing = getattr(module, name)
        assert not inspect.ismodule(thing) or name in public_modules, name
    if module in PACKAGES:
        assert exported(module) <= set(shown)
    assert "jnp" not in shown and "Vec3" not in shown


def test_names_that_are_hidden():
    hidden = {"importlib", "math", "shapes", "bodies", "flows", "impact", "contact", "publish"}
    assert hidden.isdisjoint(dir(rb))
    assert {"World", "simulate", "io", "viz", "lie", "rotations"} <= set(dir(rb))
    assert {"left_jacobian", "exp"} <= set(dir(rb.lie.so3))
    submodules = {module.name for module in pkgutil.iter_modules(rb.viz.__path__)}
    assert submodules & set(dir(rb.viz)) == {"replay"}  # a function of the same name


def test_star_imports_shadow_nothing():
    """In a process of its own: `math` stays Python's."""
    code = "import math; from jaxrb import *; print(math.pi, World, lie)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.startswith("3.14159"), done.stderr


def test_viz_is_shown_before_it_is_imported():
    code = "import sys, jaxrb; print('viz' in dir(jaxrb), 'jaxrb.viz' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["True", "False"], done.stderr


CLASSES = [
    pytest.param(thing, id=name)
    for module in (rb, rb.rotations)
    for name, thing in vars(module).items()
    if inspect.isclass(thing) and name in dir(module) and "__init__" in vars(thing)
]


def constructor(kind):
    return inspect.getdoc(kind.__init__) or ""


@pytest.mark.parametrize("kind", CLASSES)
def test_constructors_tell_all_their_arguments(kind):
    text = constructor(kind)
    assert "help(type(self))" not in text
    for name in inspect.signature(kind).parameters:
        assert f"\n    {name}: " in text


def test_help_of_a_constructor():
    text = constructor(rb.World)
    assert "gravity: acceleration, world frame [m/s^2], shape (3,)." in text
    # The second line of an entry.
    assert "cavity (`Complement`, `Difference`) whose gap to the bodies" in text
    # Two attributes in one entry, and attributes of the class that it is derived from.
    assert "b: the solids" in constructor(rb.Union)
    assert "iterations: at most" in constructor(rb.SimoWong)
    assert constructor(rb.Stronge) == "It takes no arguments."


def test_enumerations_list_their_codes():
    for codes in (rb.RESULTS, rb.IMPACT_RESULTS):
        text = inspect.getdoc(codes) or ""
        assert "\n    successful\n" in text
        assert "\n    non_finite: " in text
