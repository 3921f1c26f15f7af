"""Functions that become one kernel on a CPU.

XLA runs a program on a CPU operation by operation, each a kernel of its own that is called from a
list. For a few lanes the calls cost ten times as much as the arithmetic. XLA can also write
what a call holds, its loops and branches too, as one kernel, where an attribute of the call asks
for it; by itself it does so for tiny loops only. Here a function asks for it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jax.extend.core import ClosedJaxpr, Jaxpr
from jax.interpreters import mlir
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import func, stablehlo

from .kernel.operations import OPERATIONS
from .kernel.scalarise import CALLS, RULES
from .kernel.shapes import SHAPE_RULES
from .lane_call import lane_call, lane_call_p
from .lanes import in_all_lanes
from .traced import bound, called, evaluated, traced_at

# Beyond so many bytes of arguments and results operations are long enough, and XLA shares out each
# of them to all cores; such a kernel has one thread.
_MOST_BYTES = 1 << 20
# So many places at once are written to one after the other without being noticed. More are of
# workers that take problems from a queue, or of batches, for which XLA's kernels are as good.
_MOST_WINDOWS = 16
# LLVM takes more than proportionally long for a long function.
_MOST_OPERATIONS = 10_000

# For products of matrices XLA calls a library, which is faster where they are most of the work:
# so many terms of products for each number that other operations compute.
_MOST_TERMS = 3

_SCATTER: dict[str, Callable] = {
    "scatter": lambda _, new: new,
    "scatter-add": jnp.add,
    "scatter-mul": jnp.multiply,
    "scatter-min": jnp.minimum,
    "scatter-max": jnp.maximum,
}
# The first of the arguments that are places, of operations that read or write there.
_AT_PLACES = {"dynamic_slice": 1, "dynamic_update_slice": 2, "gather": 1}
# What XLA can write into such a kernel, or is written so that it can: neither calls of libraries
# (decompositions, sorting) nor callbacks nor anything between devices. To all else XLA
# says no only when it compiles, or ends the process.
_KNOWN = {*OPERATIONS, *SHAPE_RULES, *RULES, *CALLS, *_SCATTER}
_KNOWN |= {"dynamic_slice", "dynamic_update_slice", "gather", "nextafter", "platform_index"}
_KNOWN |= {"shift_left", "shift_right_arithmetic", "shift_right_logical"}


def in_one_kernel(function: Callable, *arguments: Any) -> Any:
    """function(*arguments), on a CPU as one kernel where it can be one and is small.

    Elsewhere it is compiled as it stands. It can be transformed as any function; derivatives are
    kernels likewise. For reverse mode nothing is kept but the arguments, as by `jax.checkpoint`.

    Args:
        function: of trees of arrays; pure.
        arguments: trees of arrays.
    """
    config: Any = jax.config  # has attributes that its type does not name
    if config.jax_disable_jit:
        return function(*arguments)  # to be followed line by line
    leaves, structure = jax.tree.flatten(arguments)
    leaves = [jnp.asarray(leaf) for leaf in leaves]

    def of_leaves(*leaves):
        return function(*jax.tree.unflatten(structure, leaves))

    traced, results = jax.make_jaxpr(of_leaves, return_shape=True)(*leaves)
    # Effects are such as messages to the user. A number that the function takes from around it and
    # that is transformed would be none of the arguments by which its rules go.
    if traced.effects or any(isinstance(const, Tracer) for const in traced.consts):
        return function(*arguments)
    return jax.tree.unflatten(jax.tree.structure(results), lane_call(traced, leaves))


def _n_bytes(aval) -> int:
    return int(np.prod(aval.shape)) * aval.dtype.itemsize


def _lower(ctx, *values, traced, n_linear, lanes):
    function = in_all_lanes(traced, lanes)
    return mlir.core_call_lowering(ctx, *values, name="lane_call", call_jaxpr=function)


def _lower_on_cpu(ctx, *values, traced, n_linear, lanes):
    function = in_all_lanes(traced, lanes)
    if _is_for_others(ctx) or not _is_kernel([*ctx.avals_in, *ctx.avals_out], function.jaxpr):
        return mlir.core_call_lowering(ctx, *values, name="lane_call", call_jaxpr=function)
    plain = traced_at(lambda *leaves: _evaluated(function, leaves), ctx.avals_in)
    arguments = [value.type for value in values]
    results: list[ir.Type] = [
        ir.RankedTensorType.get(aval.shape, mlir.dtype_to_ir_type(aval.dtype))
        for aval in ctx.avals_out
    ]
    # The function has one argument, a tuple, and gives the smallest part of it back besides the
    # results: XLA (jaxlib 0.10.1) ends the process if the function of such a call uses an argument
    # nowhere, and it does not use one that it finds to be constant.
    whole = ir.TupleType.get_tuple(arguments)
    smallest = int(np.argmin([_n_bytes(aval) for aval in ctx.avals_in]))
    results.append(arguments[smallest])
    module = ctx.module_context
    with ir.InsertionPoint.at_block_begin(module.module.body):
        kernel = func.FuncOp("one_kernel", ir.FunctionType.get([whole], results))
    kernel.attributes["sym_visibility"] = ir.StringAttr.get("private")
    module.symbol_table.insert(kernel)
    with ir.InsertionPoint(kernel.add_entry_block()):
        (given,) = kernel.arguments
        parts = [stablehlo.get_tuple_element(given, i) for i in range(len(arguments))]
        found: Any = mlir.core_call_lowering(ctx, *parts, name="lanes", call_jaxpr=plain)
        func.ReturnOp([*found, parts[smallest]])
    name = ir.FlatSymbolRefAttr.get(kernel.name.value)
    call = func.CallOp(results, name, [stablehlo.tuple(values)])
    wanted = {"xla_cpu_small_call": "true", "inlineable": "false"}
    attributes: Any = {name: ir.StringAttr.get(value) for name, value in wanted.items()}
    call.attributes["mhlo.frontend_attributes"] = ir.DictAttr.get(attributes)
    return list(call.results)[:-1]


mlir.register_lowering(lane_call_p, _lower)
mlir.register_lowering(lane_call_p, _lower_on_cpu, platform="cpu")


def _is_for_others(ctx) -> bool:
    """Whether the program is not for one CPU, here and now. Where XLA shares it out to several
    devices it takes the tuple of arguments apart, and may use some nowhere. What is exported is
    for any version of XLA, and may be called in a program of several devices."""
    module = ctx.module_context
    n_devices = ir.IntegerAttr(module.module.operation.attributes["mhlo.num_partitions"]).value
    return n_devices > 1 or len(module.platforms) > 1 or module.lowering_parameters.for_export


def _is_kernel(avals, jaxpr: Jaxpr) -> bool:
    """Whether it is to be a kernel, with these arguments and results: it holds a loop, is small,
    and all that it does is known."""
    # Keys of random numbers are arrays of JAX's alone.
    if not jaxpr.invars or any(jnp.issubdtype(aval.dtype, jax.dtypes.extended) for aval in avals):
        return False
    names = _operations(jaxpr)
    if not (names & {"while", "scan"}) or not names <= _KNOWN:
        return False
    if sum(map(_n_bytes, avals)) > _MOST_BYTES or _n_operations(jaxpr) > _MOST_OPERATIONS:
        return False
    terms, others = _work(jaxpr)
    return terms <= _MOST_TERMS * others and _most_windows(jaxpr) <= _MOST_WINDOWS


def _operations(jaxpr: Jaxpr) -> set[str]:
    """The names of all operations, those of loops, branches and calls included."""
    names = {_name(eqn) for eqn in jaxpr.eqns}
    return names.union(*(_operations(inner) for eqn in jaxpr.eqns for inner in _inner(eqn)))


def _name(eqn) -> str:
    """Of an operation. To write what a function makes of the old is called as to write."""
    name = eqn.primitive.name
    return "apply" if name == "scatter" and eqn.params["update_jaxpr"] is not None else name


def _n_operations(jaxpr: Jaxpr) -> int:
    inner = (_n_operations(inner) for eqn in jaxpr.eqns for inner in _inner(eqn))
    return len(jaxpr.eqns) + sum(inner)


def _work(jaxpr: Jaxpr) -> tuple[int, int]:
    """The terms of products of matrices, and the numbers that other operations compute, of each
    operation as it stands, however often it is done."""
    terms = others = 0
    for eqn in jaxpr.eqns:
        size = sum(int(np.prod(_shape(out))) for out in eqn.outvars)
        if eqn.primitive.name == "dot_general":
            summed, shape = eqn.params["dimension_numbers"][0][0], _shape(eqn.invars[0])
            terms += size * int(np.prod([shape[axis] for axis in summed]))
        elif not (inner := _inner(eqn)):
            others += size
        else:
            of_inner = [_work(function) for function in inner]
            terms += sum(part for part, _ in of_inner)
            others += sum(part for _, part in of_inner)
    return terms, others


def _most_windows(jaxpr: Jaxpr) -> int:
    """To how many places at once an operation writes, of all the one that writes to most."""
    most = 0
    for eqn in jaxpr.eqns:
        if eqn.primitive.name in _SCATTER:
            most = max(most, int(np.prod(_shape(eqn.invars[1])[:-1])))
        most = max([most, *map(_most_windows, _inner(eqn))])
    return most


def _shape(atom) -> tuple[int, ...]:
    return atom.aval.shape


def _inner(eqn) -> list[Jaxpr]:
    """The functions that an operation calls."""
    return [found.jaxpr if isinstance(found, ClosedJaxpr) else found for found in called(eqn)]


def _evaluated(traced: ClosedJaxpr | Jaxpr, arguments) -> list:
    """The results of a traced function, with products of matrices and scattering as loops."""
    return evaluated(traced, arguments, _performed)


def _performed(eqn, sources) -> list:
    """The results of one operation."""
    name, empty = eqn.primitive.name, any(atom.aval.size == 0 for atom in eqn.invars)
    if name == "dot_general" and not empty:
        return [_product(*map(jnp.asarray, sources), **eqn.params)]
    if name in _SCATTER and not empty:
        return [_scattered(_SCATTER[name], *map(jnp.asarray, sources), **eqn.params)]
    if name in _AT_PLACES:
        first = _AT_PLACES[name]
        sources = [*sources[:first], *map(_signed, sources[first:])]
    if name in CALLS:
        return _evaluated(called(eqn)[0], sources)
    params = {key: _rewritten(value) for key, value in eqn.params.items()}
    return bound(eqn, sources, params)


def _signed(places):
    """Places as signed integers of at least 32 bits: what is computed with unsigned or shorter ones
    may pass their ends, in XLA's kernels too (jaxlib 0.10.1)."""
    places = jnp.asarray(places)
    if not jnp.issubdtype(places.dtype, jnp.integer):
        return places
    most = jnp.iinfo(jnp.int32).max
    if places.dtype in (jnp.uint32, jnp.uint64):
        places = jnp.minimum(places, places.dtype.type(most))
    return places if places.dtype == jnp.int64 else places.astype(jnp.int32)


def _rewritten(parameter):
    """The same with functions that are evaluated so, too."""
    if type(parameter) is tuple:
        return tuple(map(_rewritten, parameter))
    if not isinstance(parameter, ClosedJaxpr):
        return parameter
    return traced_at(lambda *leaves: _evaluated(parameter, leaves), parameter.in_avals)


def _product(a, b, *, dimension_numbers, preferred_element_type, **_):
    """A product of matrices, term by term. As a sum it would take what it sums up apart: XLA
    computes what it fuses into a sum again for each of its results."""
    (summed_a, summed_b), (shared_a, shared_b) = dimension_numbers
    dtype = preferred_element_type or a.dtype
    n = len(shared_a)

    def ordered(array, shared, summed):
        """The common axes, one for all that is summed over, and the others."""
        own = [axis for axis in range(array.ndim) if axis not in (*shared, *summed)]
        array = array.transpose(*shared, *summed, *own).astype(dtype)
        return array.reshape(*array.shape[:n], -1, *array.shape[n + len(summed) :])

    a, b = ordered(a, shared_a, summed_a), ordered(b, shared_b, summed_b)
    own_a, own_b = a.shape[n + 1 :], b.shape[n + 1 :]
    places_b = tuple(range(n + len(own_a), n + len(own_a) + len(own_b)))
    places_a = tuple(range(n, n + len(own_a)))

    def with_term(k, total):
        left = jax.lax.dynamic_index_in_dim(a, k, axis=n, keepdims=False)
        right = jax.lax.dynamic_index_in_dim(b, k, axis=n, keepdims=False)
        return total + jnp.expand_dims(left, places_b) * jnp.expand_dims(right, places_a)

    total = jnp.zeros((*a.shape[:n], *own_a, *own_b), dtype)
    return jax.lax.fori_loop(0, a.shape[n], with_term, total)


def _scattered(combined, operand, indices, updates, *, dimension_numbers, mode, **_):
    """Windows of an array, changed one after the other."""
    places, lead, indices = dimension_numbers, indices.shape[:-1], _signed(indices)
    n = int(np.prod(lead))
    apart = [axis for axis in range(updates.ndim) if axis not in places.update_window_dims]
    windows = updates.transpose(*apart, *places.update_window_dims)
    single = {*places.inserted_window_dims, *places.operand_batching_dims}
    sizes = iter(windows.shape[len(apart) :])
    shape = tuple(1 if axis in single else next(sizes) for axis in range(operand.ndim))
    windows = windows.reshape(n, *shape)
    # Where each window begins, along every axis of the array.
    along = [jnp.zeros(n, indices.dtype)] * operand.ndim
    for column, axis in enumerate(places.scatter_dims_to_operand_dims):
        along[axis] = indices[..., column].reshape(n)
    pairs = zip(places.operand_batching_dims, places.scatter_indices_batching_dims, strict=True)
    for axis, of_indices in pairs:
        along[axis] = jax.lax.broadcasted_iota(indices.dtype, lead, of_indices).reshape(n)
    begins = jnp.stack(along, axis=1)
    most = jnp.asarray(np.subtract(operand.shape, shape)[None], indices.dtype)
    if mode == jax.lax.GatherScatterMode.CLIP:
        begins = jnp.clip(begins, jnp.zeros_like(most), most)
    inside = jnp.all((begins >= 0) & (begins <= most), axis=1)

    def one(i, array):
        begin = [begins[i, axis] for axis in range(array.ndim)]
        old = jax.lax.dynamic_slice(array, begin, shape)
        new = jnp.where(inside[i], combined(old, windows[i]), old)
        return jax.lax.dynamic_update_slice(array, new, begin)

    return jax.lax.fori_loop(0, n, one, operand)
