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
import math
import mmap
import os
from os import PathLike
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .. import __version__
from .paths import existing_file, write_atomically, write_once
from .structure import as_jax, decode, encode, host_array, numbers, with_numbers

SUFFIX = ".jaxrb"
FORMAT_VERSION = 3
_START = b'{"format": "jaxrb", '
# NumPy's, of one array: far more than a shape takes.
_LONGEST_HEADER = 4096
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
    write_atomically(_own(path), _chunks(thing, structure))


def save_once(path: str | PathLike, thing: Any) -> bool:
    """`save`, unless there is such a file, which stays as it is; returns whether it was written.

    Several processes may try at once.

    Raises:
        ValueError: as `save`.
        OSError: if it cannot be written; then nothing is left of it.
    """
    return write_once(_own(path), _chunks(thing, structure=True))


def _chunks(thing: Any, structure: bool) -> list[bytes]:
    """The bytes of a file."""
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
    return [line, payload, digest.digest()]


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
    header, values = _opened(path.read_bytes(), path)
    wanted = wanted_dtype(dtype, path)
    arrays = [
        # A copy, as a view would keep the whole file in memory.
        as_jax(converted(np.array(value), wanted, path), entry["weak"])
        for value, entry in zip(values, header["arrays"], strict=True)
    ]
    if like is None and not header["structure"]:
        raise ValueError(
            f"{path} holds the numbers of a {header['kind']} without its structure: give "
            "load(..., like=template)."
        )
    if like is not None and header["structure"]:
        raise ValueError(f"{path} holds its structure: leave out like=.")
    return _made(header, arrays, like, path)


def map_file(path: str | PathLike, *, check: bool = True) -> Any:
    """What `load_file` opens, with arrays of NumPy that are views of the file, mapped into memory:
    what nobody looks at takes no memory.

    Args:
        path: the file, with its structure. It must not be written to any more.
        check: whether to read all of it once for its checksum. Without, nothing is read but what
            is looked at, and a changed bit in an array is not noticed.

    Raises:
        FileNotFoundError, ValueError: as `load_file`, but for precision.
    """
    path = existing_file(_own(path))
    with path.open("rb") as file:
        empty = os.fstat(file.fileno()).st_size == 0
        content = b"" if empty else mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    header, values = _opened(content, path, check)
    return _made(header, values, None, path)


def _made(header: dict, arrays: list, like: Any, path: Path) -> Any:
    """The object of a header and its arrays."""
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


def _opened(
    content: bytes | mmap.mmap, path: Path, check: bool = True
) -> tuple[dict, list[np.ndarray]]:
    """The header and views of the arrays, checked."""
    if content[: len(_START)] != _START:
        if content and _START.startswith(content[: len(_START)]):
            raise ValueError(f"{path} is truncated: it has {len(content)} bytes.")
        raise ValueError(f"{path} is no file of jaxrb, or its first bytes are damaged.")
    if not (check and _checksum_fits(content)):
        damage = _damage(content)
        if damage is None and check:
            damage = _wrong_checksum(content)
        if damage is not None:
            raise ValueError(f"{path} {damage}")
    end = content.find(b"\n") + 1
    header = json.loads(content[:end])
    version = header["format_version"]
    if version != FORMAT_VERSION:
        raise ValueError(f"{path} {_other_version(version, header['jaxrb'])}")
    try:
        return header, _views(content, end, header)
    except (EOFError, MemoryError, TypeError, ValueError) as error:
        raise ValueError(f"{path} holds arrays that are not understood: {error}") from error


def _views(content: bytes | mmap.mmap, start: int, header: dict) -> list[np.ndarray]:
    """The arrays, which NumPy's headers precede, as views of the content from a byte on.

    Raises:
        ValueError: if they are not those of the header.
    """
    views, ends = [], len(content) - _DIGEST_SIZE
    for entry in header["arrays"]:
        own = io.BytesIO(content[start : min(start + _LONGEST_HEADER, ends)])
        if np.lib.format.read_magic(own) != (1, 0):
            raise ValueError("another version of NumPy's format")
        shape, fortran, dtype = np.lib.format.read_array_header_1_0(own)
        if (fortran and len(shape) > 1) or dtype.hasobject:
            raise ValueError(f"the order or the dtype {dtype}")
        if list(shape) != entry["shape"] or dtype != np.dtype(entry["dtype"]):
            raise ValueError(f"{dtype} of the shape {shape}, in place of {entry}")
        start += own.tell()
        n_bytes = math.prod(shape) * dtype.itemsize
        if start + n_bytes > ends:
            raise ValueError("too few bytes")
        views.append(np.ndarray(shape, dtype, content, start))
        start += n_bytes
    return views


def _checksum_fits(content: bytes | mmap.mmap) -> bool:
    whole = memoryview(content)
    return hashlib.sha256(whole[:-_DIGEST_SIZE]).digest() == whole[-_DIGEST_SIZE:]


def _damage(content: bytes | mmap.mmap) -> str | None:
    """What is wrong with a file, as far as its first line tells, which may be what is damaged."""
    end = content.find(b"\n") + 1
    if not end:
        return "is truncated: its first line has no end."
    try:
        header = json.loads(content[:end])
    except ValueError:
        return "is damaged: its first line is not understood."
    rest = len(content) - end
    version, size = header.get("format_version"), header.get("bytes")
    if version == 1:  # which has no checksum at its end
        return _other_version(version, header.get("jaxrb"))
    if isinstance(size, int) and rest != size + _DIGEST_SIZE:
        what = "truncated" if rest < size + _DIGEST_SIZE else "damaged"
        return f"is {what}: it has {rest} of {size + _DIGEST_SIZE} bytes after its first line."
    return None


def _wrong_checksum(content: bytes | mmap.mmap) -> str:
    version = json.loads(content[: content.find(b"\n")]).get("format_version")
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


def wanted_dtype(dtype: Any, path: Path) -> np.dtype | None:
    """The dtype that a file is to be opened in; raises `ValueError` if that cannot be."""
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


def converted(value: np.ndarray, wanted: np.dtype | None, path: Path) -> np.ndarray:
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
