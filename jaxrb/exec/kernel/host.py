"""Lane programs on a CPU: compiled by the system's C compiler, called by XLA.

One lane after another on one core, without the overhead that XLA's loops have for each operation:
for single worlds and small batches. XLA's vectors are faster for many.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import tempfile
from functools import cache

import jax
import numpy as np

from .build import LaneProgram, signature
from .operations import NotScalarError, c_type

# Longer programs are compiled with fewer optimisations, whose time grows faster than their length.
_LONG = 30_000
# The handler answers XLA's question for the version of its interface, and runs.
_HANDLER = """\
XLA_FFI_Error* handler(XLA_FFI_CallFrame* frame) {{
  if (frame->extension_start && frame->extension_start->type == XLA_FFI_Extension_Metadata) {{
    XLA_FFI_Metadata* metadata =
        ((XLA_FFI_Metadata_Extension*)frame->extension_start)->metadata;
    metadata->api_version.major_version = XLA_FFI_API_MAJOR;
    metadata->api_version.minor_version = XLA_FFI_API_MINOR;
    return 0;
  }}
  if (frame->stage != XLA_FFI_ExecutionStage_EXECUTE) return 0;
  const XLA_FFI_Buffer* first = (const XLA_FFI_Buffer*)frame->rets.rets[0];
  const int n = (int)first->dims[1];
  for (int lane = 0; lane < n; ++lane) one_lane({arguments}, n, lane);
  return 0;
}}
"""


def source(program: LaneProgram) -> str:
    """The function and its handler in C."""
    buffers = []
    for number, (_, stored) in enumerate(program.arguments):
        k = number - program.n_inputs
        place = f"args.args[{number}]" if k < 0 else f"rets.rets[{k}]"
        kind = c_type(np.dtype(stored))
        buffers.append(f"({kind}*)((const XLA_FFI_Buffer*)frame->{place})->data")
    return (
        "#include <math.h>\n#include <stdbool.h>\n#include <stddef.h>\n"
        '#include "xla/ffi/api/c_api.h"\n'
        f"static void one_lane({signature(program, 'restrict')}, int n, int lane) {{\n"
        f"{program.body}\n}}\n" + _HANDLER.format(arguments=", ".join(buffers))
    )


def call(program: LaneProgram, name: str, inputs: list, n_lanes: int) -> list:
    """The output arrays, of shape (numbers, lanes), for lanes with these input arrays."""
    return list(jax.ffi.ffi_call(name, program.results(n_lanes))(*inputs))


_loaded: list[ctypes.CDLL] = []  # for as long as the process runs


@cache
def compile(program: LaneProgram) -> str:
    """The name under which XLA knows the program.

    Raises:
        NotScalarError: if there is no C compiler, or it fails.
    """
    name = f"jaxrb_lanes_{program.digest}"
    with tempfile.TemporaryDirectory(prefix="jaxrb_") as folder:  # once it is loaded it may go
        library = ctypes.CDLL(_compiled(source(program), folder))
    _loaded.append(library)
    jax.ffi.register_ffi_target(name, jax.ffi.pycapsule(library.handler), platform="cpu")
    return name


def _compiled(text: str, folder: str) -> str:
    """The path of a shared library in a folder.

    Raises:
        NotScalarError: if there is no C compiler, or it fails.
    """
    compiler = shutil.which(os.environ.get("CC", "cc"))
    if compiler is None:
        raise NotScalarError('no C compiler was found: neither the variable CC nor "cc" names one')
    written, library = os.path.join(folder, "lanes.c"), os.path.join(folder, "lanes.so")
    with open(written, "w") as file:
        file.write(text)
    # No products and sums in one rounding: the numbers are those of the same text on a GPU.
    level = "-O2" if text.count("\n") < _LONG else "-O1"
    options = [level, "-march=native", "-ffp-contract=off", "-fwrapv", "-shared", "-fPIC", "-w"]
    command = [compiler, *options, f"-I{jax.ffi.include_dir()}", "-o", library, written, "-lm"]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode:
        raise NotScalarError(f"the C compiler failed: {done.stderr[:2000]}")
    return library
