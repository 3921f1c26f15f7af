"""Which names `dir` and completion show of a module, and what `help` says of constructors."""

from __future__ import annotations

import inspect
import re
import sys
from types import ModuleType
from typing import Any

_SECTION = re.compile(r"^(?:Attributes|Args):\n((?:(?: .*)?\n)+)", re.MULTILINE)
_ENTRY = re.compile(r"^ {4}(\w[\w, ]*):(.*\n(?:(?: {5}.*)?\n)*)", re.MULTILINE)


def publish(module: str, *submodules: str) -> None:
    """Sets what `dir`, completion and `import *` show of a module, and the texts of its classes.

    That is what its package defines under names without an underscore. To be called at its end.

    Args:
        module: its `__name__`.
        submodules: that are public as well, also such as are imported later.
    """
    this = sys.modules[module]
    found = {name: thing for name, thing in vars(this).items() if _is_public(name, thing, this)}
    for thing in found.values():
        if inspect.isclass(thing):
            _explain_constructor(thing)
    vars(this)["__all__"] = sorted([*found, *(vars(this).keys() & submodules)])
    vars(this)["__dir__"] = lambda: sorted([*found, *submodules])


def _is_public(name: str, thing: Any, module: ModuleType) -> bool:
    if name.startswith("_") or isinstance(thing, ModuleType):
        return False
    defined_in = getattr(thing, "__module__", module.__name__)
    return f"{defined_in}.".startswith(f"{module.__package__}.") and "._" not in defined_in


def _explain_constructor(kind: type) -> None:
    """Says in the `__init__` of a class what its arguments are, if nothing does.

    `help` would show a sentence of Python's `object` there, as modules of Equinox have their
    text in the class. Their arguments are called and described as their attributes are, in
    the docstring of the class or of one that it is derived from.
    """
    constructor = vars(kind).get("__init__")
    if constructor is None or constructor.__doc__ not in (None, object.__init__.__doc__):
        return
    texts = _attribute_texts(kind)
    names = [name for name in inspect.signature(kind).parameters if name in texts]
    entries = [f"    {name}:{texts[name]}" for name in names]
    lines = ["It takes these attributes.", "", "Args:", *entries]
    constructor.__doc__ = "\n".join(lines) if names else "It takes no arguments."


def _attribute_texts(kind: type) -> dict[str, str]:
    """What docstrings say of each attribute of a class."""
    texts = {}
    for owner in reversed(kind.__mro__):
        for section in _SECTION.findall(inspect.cleandoc(owner.__doc__ or "") + "\n"):
            for names, text in _ENTRY.findall(section):
                texts |= dict.fromkeys(re.split(r", *", names), text.rstrip())
    return texts
