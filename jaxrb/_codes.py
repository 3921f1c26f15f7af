"""Enumerations of results whose items say their names when they are printed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import numpy as np
from jax.core import Tracer

from ._hosts import held_here

if TYPE_CHECKING:
    Codes = eqx.Enumeration
else:

    class _Named(type(eqx.Enumeration)):
        """Puts the names in front of the messages, which is all that an item prints, and the
        messages into the docstring."""

        def __new__(mcs, name, bases, namespace):
            messages = {
                key: text if key.startswith("__") else f"{key}: {text}" if text else key
                for key, text in namespace.items()
            }
            items = [text for key, text in messages.items() if not key.startswith("__")]
            if items:
                text = namespace.get("__doc__") or ""
                messages["__doc__"] = f"{text}\n\nItems:\n    " + "\n    ".join(items) + "\n"
            return super().__new__(mcs, name, bases, messages)

        def __getitem__(cls, item):
            # Of a batch, Equinox would print the message of each.
            batch = isinstance(item, cls) and any(map(np.ndim, jax.tree.leaves(item)))
            return code_names(cls, item) if batch else super().__getitem__(item)

    class Codes(eqx.Enumeration, metaclass=_Named):
        """An enumeration of messages. `print(item)` and `Codes[item]` say name and message, of
        an array of items how many of which name."""


def code_names(codes: type[eqx.Enumeration], item: Any) -> str:
    """The name of an item of `codes`; of an array of items, how many of which name, among
    those that this process holds."""
    (values,) = jax.tree.leaves(item)
    if isinstance(values, Tracer):
        return "traced"
    kinds, counts = np.unique(held_here(values), return_counts=True)
    messages = [codes[jax.tree.map(lambda _, kind=kind: np.asarray(kind), item)] for kind in kinds]
    names = [message.partition(":")[0] for message in messages]
    if not np.ndim(values):
        return names[0]
    return ", ".join(f"{count} {name}" for count, name in zip(counts, names, strict=True))
