"""The operations of scalars: what each gives for constants, and how it is written in C."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np


class Operation(NamedTuple):
    """How an operation of JAX acts on scalars.

    Attributes:
        fold: its value, of constants and parameters.
        write: an expression in C, of the dtype of the first source that is no truth value, the
            dtype of the result, the sources as text, and the parameters.
        simplify: an entry that is the same without any operation, or None.
    """

    fold: Callable
    write: Callable[..., str]
    simplify: Callable | None = None


C_TYPES = {
    "float32": "float",
    "float64": "double",
    "bool": "bool",
    "int8": "signed char",
    "int16": "short",
    "int32": "int",
    "int64": "long long",
    "uint8": "unsigned char",
    "uint16": "unsigned short",
    "uint32": "unsigned",
    "uint64": "unsigned long long",
}


class NotScalarError(NotImplementedError):
    """A function does something that cannot be written with scalars."""


def c_type(dtype) -> str:
    """The type of C for one of NumPy.

    Raises:
        NotScalarError: if there is none.
    """
    name = np.dtype(dtype).name
    if name not in C_TYPES:
        raise NotScalarError(f"numbers of type {name} are not known to kernels")
    return C_TYPES[name]


def _floating(dtype) -> bool:
    return np.issubdtype(dtype, np.floating)


def _infix(symbol: str):
    return lambda dtype, out, a, b: f"{a} {symbol} {b}"


def _ordered(fold: Callable, symbol: str):
    """An order of all numbers, which of integers is the usual one."""

    def of_integers(dtype):
        if _floating(dtype):
            raise NotScalarError("the order of zeros and NaN is no operation of scalars")

    def folded(a, b):
        of_integers(a.dtype)
        return fold(a, b)

    def write(dtype, out, a, b):
        of_integers(dtype)
        return f"{a} {symbol} {b}"

    return folded, write


def _call(name: str):
    """A function of <math.h>, whose name has an f at its end in single precision."""

    def write(dtype, out, *sources):
        return f"{name}{'f' if np.dtype(dtype) == np.float32 else ''}({', '.join(sources)})"

    return write


def _extreme(symbol: str):
    def write(dtype, out, a, b):
        chosen = f"({a} {symbol} {b} ? {a} : {b})"
        return f"({a} != {a} ? {a} : {chosen})" if _floating(dtype) else chosen

    return write


def _absolute(dtype, out, a):
    return _call("fabs")(dtype, out, a) if _floating(dtype) else f"({a} < 0 ? -{a} : {a})"


def _sign(dtype, out, a):
    sign = f"({a} > 0) - ({a} < 0)"
    return f"({a} != {a} ? {a} : ({c_type(out)})({sign}))"


def _power(dtype, out, a, exponent):
    """By repeated squaring, as XLA does."""
    if exponent == 0:
        return "1"
    if exponent < 0:
        return f"1 / ({_power(dtype, out, a, -exponent)})"
    half = _power(dtype, out, a, exponent // 2) if exponent > 1 else ""
    square = f"(({half}) * ({half}))" if exponent > 1 else ""
    return " * ".join(part for part in (square, f"({a})" if exponent % 2 else "") if part)


# To divide integers by zero, and the least one by -1, would end the process: they give what XLA
# says. Products and sums of integers wrap around.


def _write_remainder(dtype, out, a, b):
    if _floating(dtype):
        return _call("fmod")(dtype, out, a, b)
    return f"({b} == 0 ? {a} : ({b} == ({c_type(dtype)})-1 ? {_rest(dtype, a)} : {a} % {b}))"


def _rest(dtype, a: str) -> str:
    """Of a division by -1, which of unsigned numbers is the largest."""
    return (
        "0" if np.issubdtype(dtype, np.signedinteger) else f"({a} == ({c_type(dtype)})-1 ? 0 : {a})"
    )


def _write_quotient(dtype, out, a, b):
    if _floating(dtype):
        return f"{a} / {b}"
    ones = f"({c_type(dtype)})-1"
    by_ones = f"-{a}" if np.issubdtype(dtype, np.signedinteger) else f"({a} == {ones} ? 1 : 0)"
    return f"({b} == 0 ? {ones} : ({b} == {ones} ? {by_ones} : {a} / {b}))"


def _quotient(a, b):
    """That of integers is cut towards zero."""
    if _floating(a.dtype):
        return a / b
    if b == 0:
        return a.dtype.type(-1) if np.issubdtype(a.dtype, np.signedinteger) else ~b
    whole = abs(int(a)) // abs(int(b))
    return whole if (a < 0) == (b < 0) else -whole


def _remainder(a, b):
    if _floating(a.dtype):
        return np.fmod(a, b)
    return a if b == 0 else int(a) - int(b) * int(_quotient(a, b))


def _width(dtype) -> int:
    return 8 * np.dtype(dtype).itemsize


def _shift(symbol: str, kind: str):
    """Of the bits of a number of a kind: "int", whose sign fills the places, or "uint". By as many
    as there are, or more, it gives what XLA says; C does not say. Negative ones are more."""

    def write(dtype, out, a, b):
        own, among = c_type(dtype), c_type(_bits(dtype, kind))
        number, places = f"({among}){a}", f"({c_type(_bits(dtype, 'uint'))}){b}"
        beyond = f"({number} < 0 ? -1 : 0)" if kind == "int" else "0"
        return f"({own})({places} < {_width(dtype)} ? ({among})({number} {symbol} {b}) : {beyond})"

    def fold(a, b):
        places = min(int(b.astype(_bits(b.dtype, "uint"))), _width(a.dtype))
        number = int(a.astype(_bits(a.dtype, kind)))
        number = number << places if symbol == "<<" else number >> places
        unsigned = _bits(a.dtype, "uint")
        return unsigned.type(number % 2 ** _width(a.dtype)).astype(a.dtype)

    return fold, write


def _bits(dtype, kind: str) -> np.dtype:
    """The type of as many bits: "int" has a sign, "uint" none."""
    return np.dtype(f"{kind}{_width(dtype)}")


def _write_count(dtype, out, a):
    """How many bits are set, by sums of ever wider groups of them: what counts them at once has
    another name in each compiler."""
    text = f"((unsigned long long)({c_type(_bits(dtype, 'uint'))}){a})"
    groups = ((1, "0x5555555555555555"), (2, "0x3333333333333333"), (4, "0x0f0f0f0f0f0f0f0f"))
    for places, mask in groups:
        text = f"(({text} & {mask}ULL) + ({text} >> {places} & {mask}ULL))"
    return f"({c_type(out)})({text} * 0x0101010101010101ULL >> 56)"


def _count(a):
    return a.dtype.type(int(a.astype(_bits(a.dtype, "uint"))).bit_count())


def _finite(dtype, out, a):
    return f"({_call('fabs')(dtype, out, a)} < INFINITY)"


def _select(dtype, out, which, *cases):
    if len(cases) == 2:
        return f"{which} ? {cases[1]} : {cases[0]}"
    chain = cases[-1]
    for k in range(len(cases) - 2, -1, -1):
        chain = f"({which} == {k} ? {cases[k]} : {chain})"
    return chain


def _fold_select(which, *cases):
    return cases[int(which)]


def _simple_select(which, *cases):
    if isinstance(which, np.generic):
        return cases[int(which)]
    return cases[0] if all(case is cases[0] for case in cases) else None


def _simple_and(a, b):
    for one, other in ((a, b), (b, a)):
        if isinstance(one, np.bool_):
            return other if one else one
    return a if a is b else None


def _simple_or(a, b):
    for one, other in ((a, b), (b, a)):
        if isinstance(one, np.bool_):
            return one if one else other
    return a if a is b else None


def _simple_product(a, b):
    if isinstance(a, np.generic) and a == 1:
        return b
    return a if isinstance(b, np.generic) and b == 1 else None


def _simple_quotient(a, b):
    return a if isinstance(b, np.generic) and b == 1 else None


def _simple_difference(a, b):
    # To subtract +0 changes no number, not even -0.
    return a if isinstance(b, np.generic) and b == 0 and not np.signbit(b) else None


def _invert(dtype, out, a):
    return f"{'!' if np.dtype(dtype) == np.bool_ else '~'}{a}"


def _convert(dtype, out, a):
    if np.dtype(out) == np.bool_:
        return f"({a} != 0)"
    if not (_floating(dtype) and np.issubdtype(out, np.integer)):
        return f"({c_type(out)})({a})"
    # Of numbers beyond the integers the nearest, as XLA says; C does not say.
    limits = np.iinfo(out)
    most, least = (literal(np.dtype(out).type(limit)) for limit in (limits.max, limits.min))
    above = literal(np.dtype(dtype).type(2.0 ** math.ceil(math.log2(limits.max))))
    below = literal(np.dtype(dtype).type(limits.min))
    inside = f"({a} < {below} ? {least} : ({c_type(out)})({a}))"
    return f"({a} != {a} ? 0 : ({a} >= {above} ? {most} : {inside}))"


def literal(constant: np.generic) -> str:
    """A constant in C, exactly."""
    dtype = constant.dtype
    if dtype == np.bool_:
        return "1" if constant else "0"
    if np.issubdtype(dtype, np.integer):
        value = int(constant)
        suffix = "" if dtype.itemsize < 8 else "LL"
        suffix = "U" + suffix if np.issubdtype(dtype, np.unsignedinteger) else suffix
        # C has no negative literals, and the least integer is not minus one that it has.
        least = np.iinfo(dtype.name).min
        return f"({value}{suffix})" if value > least or value == 0 else f"({value + 1}{suffix} - 1)"
    if np.isnan(constant):
        return "NAN"
    if np.isinf(constant):
        return "(-INFINITY)" if np.signbit(constant) else "INFINITY"
    text = float(constant).hex() + ("f" if dtype == np.float32 else "")
    return f"({text})" if np.signbit(constant) else text


def _bounded(dtype, out, low, a, high):
    return f"({a} < {low} ? {low} : ({a} > {high} ? {high} : {a}))"


OPERATIONS: dict[str, Operation] = {
    "add": Operation(np.add, _infix("+")),
    "add_any": Operation(np.add, _infix("+")),
    "sub": Operation(np.subtract, _infix("-"), _simple_difference),
    "mul": Operation(np.multiply, _infix("*"), _simple_product),
    "div": Operation(_quotient, _write_quotient, _simple_quotient),
    "rem": Operation(_remainder, _write_remainder),
    "max": Operation(np.maximum, _extreme(">")),
    "min": Operation(np.minimum, _extreme("<")),
    "neg": Operation(np.negative, lambda dtype, out, a: f"-{a}"),
    "abs": Operation(np.abs, _absolute),
    "sign": Operation(np.sign, _sign),
    "floor": Operation(np.floor, _call("floor")),
    "ceil": Operation(np.ceil, _call("ceil")),
    "round": Operation(np.rint, _call("rint")),
    "sqrt": Operation(np.sqrt, _call("sqrt")),
    "rsqrt": Operation(
        lambda a: 1 / np.sqrt(a), lambda dtype, out, a: f"1 / {_call('sqrt')(dtype, out, a)}"
    ),
    "cbrt": Operation(np.cbrt, _call("cbrt")),
    "exp": Operation(np.exp, _call("exp")),
    "exp2": Operation(np.exp2, _call("exp2")),
    "expm1": Operation(np.expm1, _call("expm1")),
    "log": Operation(np.log, _call("log")),
    "log1p": Operation(np.log1p, _call("log1p")),
    "sin": Operation(np.sin, _call("sin")),
    "cos": Operation(np.cos, _call("cos")),
    "tan": Operation(np.tan, _call("tan")),
    "asin": Operation(np.arcsin, _call("asin")),
    "acos": Operation(np.arccos, _call("acos")),
    "atan": Operation(np.arctan, _call("atan")),
    "atan2": Operation(np.arctan2, _call("atan2")),
    "sinh": Operation(np.sinh, _call("sinh")),
    "cosh": Operation(np.cosh, _call("cosh")),
    "tanh": Operation(np.tanh, _call("tanh")),
    "pow": Operation(np.power, _call("pow")),
    "square": Operation(np.square, lambda dtype, out, a: f"{a} * {a}"),
    "integer_pow": Operation(lambda a, y: a**y, _power),
    "is_finite": Operation(np.isfinite, _finite),
    "and": Operation(np.bitwise_and, _infix("&"), _simple_and),
    "or": Operation(np.bitwise_or, _infix("|"), _simple_or),
    "xor": Operation(np.bitwise_xor, _infix("^")),
    "not": Operation(np.invert, _invert),
    "shift_left": Operation(*_shift("<<", "uint")),
    "shift_right_logical": Operation(*_shift(">>", "uint")),
    "shift_right_arithmetic": Operation(*_shift(">>", "int")),
    "population_count": Operation(_count, _write_count),
    "eq": Operation(np.equal, _infix("==")),
    "ne": Operation(np.not_equal, _infix("!=")),
    "lt": Operation(np.less, _infix("<")),
    "le": Operation(np.less_equal, _infix("<=")),
    "lt_to": Operation(*_ordered(np.less, "<")),
    "le_to": Operation(*_ordered(np.less_equal, "<=")),
    "gt": Operation(np.greater, _infix(">")),
    "ge": Operation(np.greater_equal, _infix(">=")),
    "select_n": Operation(_fold_select, _select, _simple_select),
    "clamp": Operation(lambda low, a, high: min(max(a, low), high), _bounded),
    "convert_element_type": Operation(lambda a: a, _convert),
}
