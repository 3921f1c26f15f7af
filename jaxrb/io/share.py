"""Which part of a common task is that of this process."""

from __future__ import annotations

import os
from typing import Any

import jax
import numpy as np


def share_of(share: Any) -> tuple[int, int]:
    """(k, n): this process is number k of n.

    As it is given; else that of a task of a SLURM job array, and within it that of a process of
    `jax.distributed`; else (0, 1).

    Raises:
        ValueError: if it is no such pair, or SLURM's numbers do not tell.
    """
    if share is None:
        task, n_tasks = _of_job_array()
        n = jax.process_count()
        return task * n + jax.process_index(), n_tasks * n
    whole = (int, np.integer)
    if (
        not isinstance(share, tuple)
        or [isinstance(x, whole) and not isinstance(x, bool) for x in share] != [True, True]
        or not 0 <= share[0] < share[1]
    ):
        raise ValueError(
            f"share must be (k, n) with 0 <= k < n, for process k of n; got {share!r}."
        )
    return int(share[0]), int(share[1])


def _of_job_array() -> tuple[int, int]:
    if "SLURM_ARRAY_TASK_ID" not in os.environ:
        return 0, 1
    names = ("TASK_ID", "TASK_MIN", "TASK_COUNT", "TASK_STEP")
    texts = [os.environ.get(f"SLURM_ARRAY_{name}") for name in names]
    try:
        task, first, count = (int(text) for text in texts[:3])  # type: ignore[arg-type]
        index, rest = divmod(task - first, int(texts[3] or 1))
    except (TypeError, ValueError, ZeroDivisionError):
        index, rest, count = 0, 1, 0
    if rest or not 0 <= index < count:
        raise ValueError(
            f"share cannot be told from SLURM's {dict(zip(names, texts, strict=True))}, as where "
            "some tasks of a job array are submitted anew: give share=(k, n), such as "
            'share=(int(os.environ["SLURM_ARRAY_TASK_ID"]), 100).'
        )
    return index, count
