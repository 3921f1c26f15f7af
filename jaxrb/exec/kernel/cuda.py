"""Lane programs on an NVIDIA GPU: compiled by NVRTC, loaded and launched by XLA.

XLA launches PTX as a custom call of its own, which is not a promised interface: everything that
knows of it is here, and callers fall back to XLA's own loops if it ever goes.
"""

from __future__ import annotations

import ctypes
import glob
import importlib.util
import os
from functools import lru_cache

import jax
import jax.numpy as jnp
import numpy as np

from .build import LaneProgram, signature
from .operations import NotScalarError

# A block of two warps: they need no barrier, and end as soon as their own lanes have.
_THREADS = 64
# PTX for the oldest GPUs that NVRTC 13 knows, which is compiled anew for the GPU at hand. No
# product and sum in one rounding: the numbers are those of the same text on a CPU.
_OPTIONS = ("--gpu-architecture=compute_75", "-default-device", "--fmad=false")
_PRELUDE = """\
#define INFINITY __longlong_as_double(0x7ff0000000000000LL)
#define NAN __longlong_as_double(0x7ff8000000000000LL)
typedef unsigned long size_t;
"""


def source(program: LaneProgram) -> str:
    """The kernel in CUDA C++."""
    return (
        f'{_PRELUDE}extern "C" __global__ void __launch_bounds__({_THREADS}) lanes('
        f"{_parameters(program)}) {{\n"
        "  const int n = *count, lane = blockIdx.x * blockDim.x + threadIdx.x;\n"
        f"  if (lane >= n) return;\n{program.body}\n}}\n"
    )


def _parameters(program: LaneProgram) -> str:
    """Those of the program, with the number of lanes between inputs and outputs."""
    parts = signature(program, "__restrict__").split(", ")
    return ", ".join([*parts[: program.n_inputs], "const int* count", *parts[program.n_inputs :]])


def compile(program: LaneProgram) -> str:
    """The program as PTX.

    Raises:
        NotScalarError: if NVRTC is not installed or does not compile it.
    """
    return compile_to_ptx(source(program))


def call(program: LaneProgram, ptx: str, inputs: list, n_lanes: int) -> list:
    """The output arrays, of shape (numbers, lanes), for lanes with these input arrays."""
    shapes = program.results(n_lanes)
    launch = jax.ffi.ffi_call("__gpu$xla.gpu.ptx", shapes, custom_call_api_version=4)
    one = np.int32(1)
    outputs = launch(
        *inputs,
        jnp.asarray([n_lanes], jnp.int32),
        name="lanes",
        kernel_type="ptx",
        kernel_data=ptx,
        grid_x=np.int32(-(-n_lanes // _THREADS)),
        grid_y=one,
        grid_z=one,
        block_x=np.int32(_THREADS),
        block_y=one,
        block_z=one,
        shared_mem_bytes=np.int32(0),
        output_indices=np.arange(len(shapes), dtype=np.int32) + len(inputs) + 1,
    )
    return list(outputs)


@lru_cache(maxsize=256)
def compile_to_ptx(text: str) -> str:
    """CUDA C++ as PTX.

    Raises:
        NotScalarError: if NVRTC is not installed or does not compile it.
    """
    nvrtc, handle = _nvrtc(), ctypes.c_void_p()

    def check(status: int) -> None:
        if status:
            raise NotScalarError(f"NVRTC failed with code {status}: {log()}")

    def log() -> str:
        return _string(nvrtc.nvrtcGetProgramLogSize, nvrtc.nvrtcGetProgramLog, handle)[:2000]

    arguments = (text.encode(), b"lanes.cu", 0, None, None)
    check(nvrtc.nvrtcCreateProgram(ctypes.byref(handle), *arguments))
    try:
        options = (ctypes.c_char_p * len(_OPTIONS))(*(option.encode() for option in _OPTIONS))
        check(nvrtc.nvrtcCompileProgram(handle, len(_OPTIONS), options))
        return _string(nvrtc.nvrtcGetPTXSize, nvrtc.nvrtcGetPTX, handle)
    finally:
        nvrtc.nvrtcDestroyProgram(ctypes.byref(handle))


def _string(size_of, get, handle) -> str:
    size = ctypes.c_size_t()
    size_of(handle, ctypes.byref(size))
    text = ctypes.create_string_buffer(size.value)
    get(handle, text)
    return text.value.decode()


@lru_cache
def _nvrtc() -> ctypes.CDLL:
    """NVIDIA's compiler, of the wheels that come with JAX for GPUs or of the system."""
    for path in (*_wheels(), "libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"):
        try:
            return ctypes.CDLL(path)
        except OSError:
            continue
    raise NotScalarError("NVRTC is not installed; it comes with jax[cuda12] and jax[cuda13]")


def _wheels() -> list[str]:
    spec = importlib.util.find_spec("nvidia")
    places = spec.submodule_search_locations if spec is not None else None
    return [
        path
        for place in places or []
        for path in sorted(
            glob.glob(os.path.join(place, "*", "lib", "libnvrtc.so.*")), reverse=True
        )
        if "builtins" not in path and "alt" not in path
    ]
