"""A batch of independent lanes, spread over the cores of a CPU or over devices."""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache, partial, wraps
from typing import Any
from weakref import WeakKeyDictionary

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from .._hosts import spans_processes

# Lanes that advance in step on one core: enough to fill its vector units, few enough for
# their state to stay in its cache.
CPU_CHUNK = 512
# Fewer lanes a thread take longer to hand out than to fly.
SMALLEST_CHUNK = 128


def parallel_vmap(
    function: Callable,
    in_axes: int | tuple[int | None, ...] = 0,
    *,
    chunk: int | None = None,
    devices: Sequence[Any] | None = None,
) -> Callable:
    """`jax.vmap` of a function, compiled, and spread over cores or devices.

    As `simulate_batch` does it, for any function of worlds, such as a Jacobian:

        jacobians = rb.parallel_vmap(jax.jacfwd(landing))(throws)

    On several devices the lanes are sharded over them; on one CPU they are cut into chunks that
    run on all cores. Inside jit or grad it is `jax.vmap`, over all devices.

    On a CPU a singular value decomposition in the function, as of `jnp.linalg.norm(ord=2)`, of
    matrices larger than 3 x 3 can make XLA (jaxlib 0.10.1) wait for ever where several chunks run
    at once: return the matrices, and decompose them with NumPy.

    Args:
        function: of trees of arrays.
        in_axes: 0 for an argument with a leading axis over the lanes, None for one that all lanes
            share; one for all arguments or a tuple with one for each.
        chunk: number of lanes that advance together on a CPU core; chosen by default.
        devices: to use; by default all of this process, or all there are where an argument spans
            processes.

    Returns:
        A function of the same arguments by position. The arrays of its result have a leading axis
        over the lanes. Keep it: a new one compiles anew.

    Raises:
        ValueError: naming what of `in_axes` or of the arguments is not understood.
    """
    axes = in_axes if isinstance(in_axes, tuple) else (in_axes,)
    if any(axis not in (0, None) for axis in axes) or 0 not in axes:
        raise ValueError(f"in_axes must be 0 or None, and once 0; got {in_axes}.")

    @jax.jit
    def lanes(shared, batched):
        def lane(own):
            return function(*(argument for _, argument in sorted({**shared, **own}.items())))

        return jax.vmap(lane)(batched)

    @wraps(function)
    def spread(*arguments):
        each = axes if isinstance(in_axes, tuple) else axes * len(arguments)
        if len(each) != len(arguments):
            raise ValueError(f"in_axes has {len(each)} entries for {len(arguments)} arguments.")
        places = range(len(arguments))
        shared = {k: arguments[k] for k in places if each[k] is None}
        batched = {k: arguments[k] for k in places if each[k] == 0}
        sizes = {jnp.shape(leaf)[:1] for leaf in jax.tree.leaves(batched)}
        if len(sizes) != 1 or sizes & {(), (0,)}:
            raise ValueError(
                "arguments with in_axes 0 must have one leading axis, over at least one lane; "
                f"got lengths {sorted(sizes)}."
            )
        ((n_lanes,),) = sizes
        return in_parallel(
            lanes,
            shared,
            batched,
            options={},
            devices=chosen_devices(devices, arguments),
            chunk=chunk_size(n_lanes, chunk),
        )

    return spread


def chunk_size(n_lanes: int, most: int | None = None) -> int:
    """How many of so many lanes advance together on a CPU core."""
    return min(most or CPU_CHUNK, max(-(-n_lanes // n_cores()), SMALLEST_CHUNK))


def chosen_devices(devices: Sequence[Any] | None, arrays: Any) -> list[Any]:
    """The devices to use, given or by default, for a tree of arrays.

    By default those of this process: lanes need nothing of each other, so that the processes of a
    run on many machines each do their own without a word. Only if the arrays already span
    processes, all devices.

    Raises:
        ValueError: if there is no device among those given, or the arrays span processes and none
            of another process is.
    """
    spans = spans_processes(arrays)
    if devices is None:
        return list(jax.devices() if spans else jax.local_devices())
    devices = list(devices)
    if not devices:
        raise ValueError("devices must hold at least one device.")
    if spans and not _of_others(devices):
        raise ValueError(
            "devices must be those of all processes, jax.devices(), for arrays that span them."
        )
    return devices


def in_parallel(
    function: Callable,
    shared: Any,
    batched: Any,
    *,
    options: Mapping[str, Hashable],
    devices: Sequence[Any],
    chunk: int,
    report: Callable[[int], object] | None = None,
) -> Any:
    """function(shared, batched, **options), with the lanes of `batched` spread out.

    Over several devices they are sharded; on one CPU they are cut into chunks that run on all
    cores; otherwise, and under a transformation on one device, they stay together.

    Args:
        function: jitted, with static options; each lane of its result depends on `shared` and
            on the same lane of `batched` alone.
        shared: a tree of arrays.
        batched: a tree of arrays with a leading axis over the lanes, at least one.
        options: of the function.
        devices: to use, as `chosen_devices` gives them.
        chunk: number of lanes that a core takes at once.
        report: called with the number of lanes of each chunk that is done.

    Returns:
        The tree that the function returns; its arrays have a leading axis over the lanes.

    Raises:
        ValueError: if devices of several processes do not divide the lanes.
    """
    if len(devices) > 1:
        return _over_devices(function, shared, batched, options, devices)
    lanes = partial(function, **options)
    if traced((shared, batched)):
        return lanes(shared, batched)
    # The first of this process is where JAX computes by itself. What is there already stays
    # uncommitted, so that its user can move it.
    device = None if devices[0] == jax.local_devices()[0] else devices[0]
    if on_cores(devices, (shared, batched)):
        return _over_cores(lanes, shared, batched, chunk, report, device)
    if devices[0].platform == "gpu":
        lanes = _as_graph(function, tuple(options.items()))
    return lanes(*_moved((shared, batched), device))


def on_cores(devices: Sequence[Any], arrays: Any) -> bool:
    """Whether `in_parallel` cuts these arrays into chunks for the cores of a CPU."""
    return len(devices) == 1 and devices[0].platform == "cpu" and not traced(arrays)


def traced(arrays: Any) -> bool:
    """Whether some arrays are traced by a transformation."""
    return any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves(arrays))


def n_cores() -> int:
    """The number of cores of this machine."""
    return os.cpu_count() or 1


def _moved(tree, device):
    return tree if device is None else jax.device_put(tree, device)


def _of_others(devices) -> bool:
    """Whether some devices are of another process."""
    return any(device.process_index != jax.process_index() for device in devices)


def _over_devices(function, shared, batched, options, devices) -> Any:
    """Lanes shared out evenly; a few are done twice to fill up the last device.

    JAX has no array of which one device holds more rows than another. If the shares come out
    even, the result stays where it was computed. Otherwise, once the copies are taken off, it is
    put together on the first device: JAX by itself would put it together on every one. Between
    processes nobody may want that, and it is refused.
    """
    n_lanes = _n_lanes(batched)
    size = -(-n_lanes // len(devices)) * len(devices)
    program = _sharded(function, tuple(options.items()), tuple(devices))
    if size == n_lanes:
        return program(shared, batched)
    if traced((shared, batched)):  # where the rows are is up to the compiler
        return _take(program(shared, _pad(batched, size)), n_lanes)
    if _of_others(devices):
        raise ValueError(
            f"{n_lanes} lanes over {len(devices)} devices of several processes: their number must "
            "be a multiple of that of the devices. Or let each process do its own, with "
            "devices=jax.local_devices()."
        )
    done = program(shared, _shared_out(batched, size, devices))
    numbers, rest = eqx.partition(done, eqx.is_array)
    return _take(eqx.combine(jax.device_put(numbers, devices[0]), rest), n_lanes)


def _shared_out(batched, size: int, devices):
    """Each device's rows, the last one repeated up to a size. They are cut on the host: on a
    device the whole batch would have to fit into the first one."""
    place = NamedSharding(Mesh(np.asarray(devices), ("lanes",)), PartitionSpec("lanes"))

    def spread(leaf):
        rows = np.asarray(leaf)
        last = rows.shape[0] - 1

        def share(index):
            return rows[np.minimum(np.arange(size)[index[0]], last)]

        return jax.make_array_from_callback((size, *rows.shape[1:]), place, share)

    return jax.tree.map(spread, batched)


# Loops and branches belong to the CUDA graph of a program, too. Otherwise the host waits for the
# condition of a loop in every turn: 10 000 worlds of Case I then take five times as long (H100).
_GRAPHS = "FUSION,CUBLAS,CUBLASLT,CUSTOM_CALL,CUDNN,WHILE,CONDITIONAL"


@lru_cache
def _as_graph(function, options) -> Callable:
    """The program as one graph of a GPU. Only an outermost program has options of its own."""
    lanes = partial(function, **dict(options))
    return jax.jit(lanes, compiler_options={"xla_gpu_enable_command_buffer": _GRAPHS})


@lru_cache
def _sharded(function, options, devices) -> Callable:
    """One program for equal arguments: jit would compile a new function anew."""
    # Inside shard_map each device runs its own loop; under jit with a sharded batch every
    # turn would wait for all of them to agree whether any lane is left.
    mesh = Mesh(np.asarray(devices), ("lanes",))
    split, whole = PartitionSpec("lanes"), PartitionSpec()
    lanes = partial(function, **dict(options))
    on_gpus = devices[0].platform == "gpu"
    return jax.jit(
        jax.shard_map(lanes, mesh=mesh, in_specs=(whole, split), out_specs=split, check_vma=False),
        compiler_options={"xla_gpu_enable_command_buffer": _GRAPHS} if on_gpus else None,
    )


def _over_cores(lanes, shared, batched, chunk, report, device=None) -> Any:
    """Chunks of equal size, each on one thread: XLA's own threads share out single
    operations, which are too small here, and leave a core idle half of the time."""

    def run(piece):
        done = jax.block_until_ready(lanes(shared, _moved(piece, device)))
        if report is not None:
            report(_n_lanes(piece))
        return done

    n_lanes = _n_lanes(batched)
    shared = _moved(shared, device)
    if n_lanes <= chunk:
        return lanes(shared, _moved(batched, device)) if report is None else run(batched)
    n_chunks = -(-n_lanes // chunk)
    arrays = jax.tree.map(np.asarray, _pad(batched, n_chunks * chunk))
    pieces = [
        jax.tree.map(lambda leaf, k=k: leaf[k * chunk : (k + 1) * chunk], arrays)
        for k in range(n_chunks)
    ]
    done = [run(pieces[0])] if _is_new(lanes, (shared, pieces[0])) else []
    with ThreadPoolExecutor(n_cores()) as pool:
        done += pool.map(run, pieces[len(done) :])
    return _take(jax.tree.map(lambda *leaves: jnp.concatenate(leaves), *done), n_lanes)


_seen: WeakKeyDictionary[Callable, set] = WeakKeyDictionary()


def _is_new(lanes, arguments) -> bool:
    """Whether a program is called for the first time: two threads would compile it twice."""
    leaves, structure = jax.tree.flatten(arguments)
    types = ((np.shape(leaf), jnp.result_type(leaf)) for leaf in leaves)
    key = (tuple(lanes.keywords.items()), structure, *types)
    seen = _seen.setdefault(lanes.func, set())
    new = key not in seen
    seen.add(key)
    return new


def _n_lanes(batched) -> int:
    return jax.tree.leaves(batched)[0].shape[0]


def _pad(tree, size: int):
    """Repeats the last entry along the leading axis up to a size."""

    def fill(leaf):
        missing = size - leaf.shape[0]
        return leaf if missing == 0 else jnp.concatenate([leaf, jnp.repeat(leaf[-1:], missing, 0)])

    return jax.tree.map(fill, tree)


def _take(tree, n: int):
    return jax.tree.map(lambda leaf: leaf[:n] if eqx.is_array(leaf) else leaf, tree)
