"""jaxrb's own files: a line of JSON, then the arrays, then a checksum.

The line says what the file is: format, its version, the version of jaxrb, units, dtype, the kind
of object and its structure. The arrays follow as Equinox serialises them. The last 32 bytes are
the SHA-256 of all bytes before them, those of the line included, which says which number is
which. Nothing in a file is executed when it is opened.
"""

from __future__ import annotations

import hashlib
import io
import json
from os import PathLike
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .. import __version__
from .paths import existing_file, write_atomically
from .structure import as_jax, decode, encode, host_array, numbers, with_numbers

SUFFIX = ".jaxrb"
FORMAT_VERSION = 3
_START = b'{"format": "jaxrb", '
_DIGEST_SIZE = hashlib.sha256().digest_size


def save(path: str | PathLike, thing: Any, *, structure: bool = True) -> None:
    """Writes a world, a state, a solution, or a tuple, list or dict of them, to a file.

    The file is written whole or not at all: a process that is killed leaves the old one.

    Args:
        path: with the suffix `.jaxrb`. An existing file is replaced.
        thing: of jaxrb's classes, arrays, numbers and strings, in tuples, lists and dicts.
        structure: False writes the numbers alone, of any tree: for worlds with functions of
            yours, as in `Implicit`. `load` then asks for a template.

    Raises:
        ValueError: naming the place of what cannot be written, as functions of yours.
    """
    path = _own(path)
    kind = type(thing).__name__
    arrays: list = []
    if structure:
        tree = encode(thing, kind, arrays)
    else:
        tree, arrays = numbers(thing)
    values = [host_array(array, kind) for array in arrays]
    buffer = io.BytesIO()
    eqx.tree_serialise_leaves(buffer, values)
    payload = buffer.getvalue()
    floating = sorted({value.dtype.name for value in values if value.dtype.kind == "f"})
    header = {
        "format": "jaxrb",
        "format_version": FORMAT_VERSION,
        "jaxrb": __version__,
        "units": "SI",
        "dtype": floating[-1] if floating else None,
        "kind": kind,
        "arrays": [
            {
                "dtype": value.dtype.name,
                "shape": value.shape,
                "weak": bool(getattr(array, "weak_type", False)),
            }
            for array, value in zip(arrays, values, strict=True)
        ],
        "structure": structure,
        "tree": tree,
        "bytes": len(payload),
    }
    line = json.dumps(header).encode() + b"\n"
    digest = hashlib.sha256(line)
    digest.update(payload)
    write_atomically(path, [line, payload, digest.digest()])


def load_file(path: str | PathLike, *, dtype: Any = None, like: Any = None) -> Any:
    """Opens a file written by `save`: the same object, bit by bit.

    Args:
        path: the file.
        dtype: "float32" or "float64", to convert its real numbers; as they are by default.
        like: for files without structure: an object of the same structure, such as the world
            made anew, that gives everything but the numbers.

    Returns:
        What was saved.

    Raises:
        FileNotFoundError: if there is no such file.
        ValueError: if the file is none of jaxrb's, if a byte of it is missing, changed or too
            much, or if it has another version of the format; if it holds 64-bit numbers, JAX is
            in 32-bit mode and no dtype="float32" asks to round them; or if `like` is missing,
            superfluous or different.
    """
    path = existing_file(_own(path))
    header, payload = _read(path)
    wanted = _wanted_dtype(dtype, path)
    try:
        leaves = [np.empty(entry["shape"], entry["dtype"]) for entry in header["arrays"]]
        values = eqx.tree_deserialise_leaves(io.BytesIO(payload), leaves)
    except (EOFError, MemoryError, RuntimeError, TypeError, ValueError) as error:
        raise ValueError(f"{path} holds arrays that are not understood: {error}") from error
    arrays = [
        as_jax(_converted(value, wanted, path), entry["weak"])
        for value, entry in zip(values, header["arrays"], strict=True)
    ]
    if like is None and not header["structure"]:
        raise ValueError(
            f"{path} holds the numbers of a {header['kind']} without its structure: give "
            "load(..., like=template)."
        )
    if like is not None and header["structure"]:
        raise ValueError(f"{path} holds its structure: leave out like=.")
    try:
        tree = header["tree"]
        return decode(tree, arrays) if like is None else with_numbers(like, tree, arrays)
    except (LookupError, TypeError, ValueError) as error:
        raise ValueError(
            f"{path}, written by jaxrb {header['jaxrb']}, does not fit jaxrb {__version__}"
            f"{'' if like is None else ' or the template'}: {error}."
        ) from error


def _own(path: str | PathLike) -> Path:
    path = Path(path)
    if path.suffix != SUFFIX:
        raise ValueError(f"jaxrb's files have the suffix {SUFFIX}; got {path}.")
    return path


def _read(path: Path) -> tuple[dict, bytes]:
    """The header and the arrays, checked."""
    content = path.read_bytes()
    if not content.startswith(_START):
        if content and _START.startswith(content):
            raise ValueError(f"{path} is truncated: it has {len(content)} bytes.")
        raise ValueError(f"{path} is no file of jaxrb, or its first bytes are damaged.")
    line, newline, payload = content[:-_DIGEST_SIZE].partition(b"\n")
    digest = hashlib.sha256(line + newline)
    digest.update(payload)
    if digest.digest() != content[-_DIGEST_SIZE:]:
        raise ValueError(f"{path} {_damage(content)}")
    header = json.loads(line)
    version = header["format_version"]
    if version != FORMAT_VERSION:
        raise ValueError(f"{path} {_other_version(version, header['jaxrb'])}")
    return header, payload


def _damage(content: bytes) -> str:
    """Why a file's checksum does not fit, as far as its first line tells, which may be what is
    damaged."""
    line, newline, rest = content.partition(b"\n")
    if not newline:
        return "is truncated: its first line has no end."
    try:
        header = json.loads(line)
    except ValueError:
        return "is damaged: its first line is not understood."
    version, size = header.get("format_version"), header.get("bytes")
    if version == 1:  # which has no checksum at its end
        return _other_version(version, header.get("jaxrb"))
    if isinstance(size, int) and len(rest) != size + _DIGEST_SIZE:
        what = "truncated" if len(rest) < size + _DIGEST_SIZE else "damaged"
        return f"is {what}: it has {len(rest)} of {size + _DIGEST_SIZE} bytes after its first line."
    if version != FORMAT_VERSION:
        return (
            f"is damaged, or has another version of the format than jaxrb {__version__}, which "
            f"knows version {FORMAT_VERSION}: it says {version!r}, and its checksum does not fit."
        )
    return "is damaged: its checksum does not fit."


def _other_version(version: Any, release: Any) -> str:
    remedy = (
        "Install a newer jaxrb."
        if version > FORMAT_VERSION
        else "Write it anew, or open it with the jaxrb that wrote it."
    )
    return (
        f"has version {version} of the format, written by jaxrb {release}; this is jaxrb "
        f"{__version__}, which opens version {FORMAT_VERSION} alone. {remedy}"
    )


def _wanted_dtype(dtype: Any, path: Path) -> np.dtype | None:
    if dtype is None:
        return None
    try:
        wanted = np.dtype(dtype)
    except TypeError:
        wanted = None
    if wanted is None or wanted not in (np.dtype("float32"), np.dtype("float64")):
        raise ValueError(f'dtype must be "float32" or "float64"; got {dtype!r}.')
    if wanted.itemsize == 8 and not _has_64_bits():
        raise ValueError(
            f'{path} cannot be opened as float64: call jax.config.update("jax_enable_x64", True) '
            "first."
        )
    return wanted


def _converted(value: np.ndarray, wanted: np.dtype | None, path: Path) -> np.ndarray:
    """The array in the dtype that is wanted, where JAX has it."""
    if wanted is not None and value.dtype.kind == "f":
        return value.astype(wanted)
    if value.dtype.itemsize < 8 or _has_64_bits():
        return value
    if wanted is None:
        raise ValueError(
            f"{path} holds numbers of dtype {value.dtype} and JAX is in 32-bit mode: call "
            'jax.config.update("jax_enable_x64", True) first, or round them with '
            'load(..., dtype="float32").'
        )
    narrow = value.astype(f"{value.dtype.kind}4")
    if not np.array_equal(narrow, value):
        raise ValueError(f"{path} holds whole numbers that 32 bits do not.")
    return narrow


def _has_64_bits() -> bool:
    return jax.dtypes.canonicalize_dtype(np.float64) == jnp.float64
