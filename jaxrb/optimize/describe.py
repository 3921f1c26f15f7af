"""What results of fitting print."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .._codes import code_names
from ..simulate import RESULTS as WORLD_RESULTS
from .results import RESULTS

if TYPE_CHECKING:
    from .fit import Fit
    from .shoot import Shots


def describe_fit(fit: Fit) -> str:
    """A table of the parameters, and how good the fit is."""
    lines = [("parameter", "estimate", "95 % interval", "")]
    for name, estimate in fit.estimates.items():
        entries = np.ndindex(estimate.value.shape)
        for index in entries:
            where = f"{name}[{', '.join(map(str, index))}]" if index else name
            value, low, high = (float(part[index]) for part in estimate)
            known = np.isfinite(low) and np.isfinite(high)
            interval = f"{_digits(low)} to {_digits(high)}" if known else "not known"
            lines.append((where, _digits(value), interval, ""))
    widths = [max(len(line[column]) for line in lines) for column in range(4)]
    rows = [
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    ]
    rows.insert(1, "-" * max(map(len, rows)))
    rows += [
        "",
        *_goodness(fit),
        f"{fit.impacts} impacts; {int(np.max(fit.starts.iterations))} iterations at most; "
        f"{len(fit.starts.chi_square)} starts: {code_names(RESULTS, fit.starts.result)}",
        f"result {RESULTS[fit.result]}",
    ]
    for direction in fit.unidentifiable:
        parts = ", ".join(f"{name} ({part:+.2f})" for name, part in direction.items())
        rows.append(f"not known together: {parts}")
    return "\n".join(rows)


def _goodness(fit: Fit) -> list[str]:
    if not np.isfinite(fit.chi_square):
        if fit.world_result == WORLD_RESULTS.successful:
            return ["no finite derivative of what is compared with the data"]
        return [f"no simulation of the data: {WORLD_RESULTS[fit.world_result]}"]
    ratio = fit.chi_square / max(fit.dof, 1)
    return [
        f"chi-square {fit.chi_square:.6g} with {fit.dof} degrees of freedom, {ratio:.4g} each",
        f"probability of the runs of the residuals {fit.runs:.2g}",
    ]


def describe_shots(shots: Shots) -> str:
    """The best of all starts, and how they ended."""
    if shots.all is None:
        n = len(shots.cost)
        return f"Shots({n} starts: {code_names(RESULTS, shots.result)})"
    lines = [
        f"residual {np.linalg.norm(shots.residual):.3g} at {float(shots.time):.6g} s, "
        f"{int(shots.impacts)} impacts, {int(shots.iterations)} iterations",
        f"velocity {_row(shots.state.velocity)}, angular velocity "
        f"{_row(shots.state.angular_velocity)}",
        f"{len(shots.all.cost)} starts: {code_names(RESULTS, shots.all.result)}",
        f"result {RESULTS[shots.result]}",
    ]
    return "\n".join(lines)


def _row(array) -> str:
    return np.array2string(np.asarray(array), precision=6, separator=", ").replace("\n", "")


def _digits(number: float) -> str:
    return f"{number + 0.0:.6g}"
