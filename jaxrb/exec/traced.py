"""Functions that were traced, as JAX keeps them, and their evaluation operation by operation."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import jax
from jax.extend import source_info_util
from jax.extend.core import ClosedJaxpr, Jaxpr, Literal


def shape_of(aval, *leading: int) -> jax.ShapeDtypeStruct:
    """The shape and the type of an array, with leading axes of its own."""
    return jax.ShapeDtypeStruct((*leading, *aval.shape), aval.dtype)


def traced_at(function: Callable, avals) -> ClosedJaxpr:
    """A function as it is traced for arguments of these shapes and types."""
    return jax.make_jaxpr(function)(*map(shape_of, avals))


def opened(function: ClosedJaxpr | Jaxpr) -> tuple[Jaxpr, list]:
    """A function and the constants that it takes before its arguments."""
    return (function, []) if isinstance(function, Jaxpr) else (function.jaxpr, function.consts)


def called(eqn) -> list[ClosedJaxpr | Jaxpr]:
    """The functions that an operation calls, those for derivatives not included."""
    if eqn.primitive.name == "custom_linear_solve":
        return [eqn.params["jaxprs"].solve]
    found = []
    for parameter in eqn.params.values():
        values = parameter if isinstance(parameter, tuple) else (parameter,)
        found += [value for value in values if isinstance(value, ClosedJaxpr | Jaxpr)]
    return found


def arguments_of_solve(eqn, arguments: Sequence) -> tuple:
    """Of those of a linear system the arguments of the function that solves it."""
    # Each function has its own numbers from around it; the right side comes last.
    lengths = eqn.params["const_lengths"]
    begin = lengths.matvec + lengths.vecmat
    end = begin + lengths.solve
    return (*arguments[begin:end], *arguments[end + lengths.transpose_solve :])


def evaluated(function: ClosedJaxpr | Jaxpr, arguments, performed: Callable) -> list:
    """The results of a function, of which each operation is performed as it is needed.

    Args:
        function: that was traced.
        arguments: of any kind.
        performed: gives the results of an operation, of which the second argument holds those of
            the operation; constants are as they are.
    """
    jaxpr, consts = opened(function)
    env = dict(zip(jaxpr.constvars, consts, strict=True))
    env.update(zip(jaxpr.invars, arguments, strict=True))

    def read(atom):
        return atom.val if isinstance(atom, Literal) else env[atom]

    for eqn in needed(jaxpr):
        # Profiles and errors name the line that it came from.
        names = source_info_util.current_name_stack() + eqn.source_info.name_stack
        with source_info_util.user_context(eqn.source_info.traceback, name_stack=names):
            results = performed(eqn, [read(atom) for atom in eqn.invars])
        env.update(zip(eqn.outvars, results, strict=True))
    return [read(atom) for atom in jaxpr.outvars]


def needed(jaxpr: Jaxpr) -> list:
    """The operations on which results depend.

    What rules for derivatives compute besides them would be transformed and compiled before XLA
    finds that nobody needs it.
    """
    wanted = {atom for atom in jaxpr.outvars if not isinstance(atom, Literal)}
    found = []
    for eqn in reversed(jaxpr.eqns):
        if eqn.effects or any(out in wanted for out in eqn.outvars):
            found.append(eqn)
            wanted.update(atom for atom in eqn.invars if not isinstance(atom, Literal))
    return found[::-1]


def pruned(function: ClosedJaxpr) -> ClosedJaxpr:
    """A function with the operations on which its results depend alone."""
    return function.replace(jaxpr=function.jaxpr.replace(eqns=needed(function.jaxpr)))


def bound(eqn, sources, params) -> list:
    """The results of an operation, with parameters in the place of its own."""
    results = eqn.primitive.bind(*sources, **eqn.primitive.get_bind_params(params))
    return results if eqn.primitive.multiple_results else [results]
