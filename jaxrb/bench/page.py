"""The page of the documentation that tells what was measured, made of files by `--json`.

    python -m jaxrb.bench.page docs/measured/*.json > docs/pages/measured.md

It has a section for each file, and in it the table that the command printed.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from . import BENCHMARKS, benchmark
from .machine import describe
from .record import LOSES, Column

_TOP = """# Measured

What `python -m jaxrb bench` printed, as it came out: `python -m jaxrb.bench.page` makes this page
of the files in `docs/measured`. Each run names its machine, versions and load. Ratios are medians
of the rounds, with the least and the most beside them, which tell how far to trust them. **Bold**
is a ratio by which jaxrb loses to a peer or misses its goal. To measure again on your machine:

```sh
python -m jaxrb bench throughput --json docs/measured/throughput.json
python -m jaxrb.bench.page docs/measured/*.json > docs/pages/measured.md
```
"""
_SCENE, _PRECISION = Column("scene", "scene"), Column("dtype", "precision")
_RATIO = "ratio"


def page(paths: Iterable[Path]) -> str:
    """The text of the page, in the order in which the command lists benchmarks."""
    contents = [json.loads(path.read_text()) for path in sorted(paths)]
    order = list(BENCHMARKS)
    contents.sort(key=lambda content: order.index(content["benchmark"]))
    return "\n".join([_TOP, *map(_section, contents)])


def _section(content: dict[str, Any]) -> str:
    name, rows = content["benchmark"], content["rows"]
    versions = ", ".join(f"{package} {version}" for package, version in content["versions"].items())
    lines = [
        f"## {name}",
        "",
        f"`python -m jaxrb bench {name}`: {BENCHMARKS[name]}.",
        "",
        f"- Problem: {content['problem']}.",
        f"- Machine: {describe(content['machine'])}.",
        f"- Versions: {versions}.",
        f"- Date: {content['date']}. Rounds: {content['rounds']}.",
    ]
    if content["note"]:
        lines.append(f"- Note: {content['note']}.")
    columns = (_SCENE, _PRECISION, *benchmark(name).TABLE.every())
    lines += ["", *_table(columns, rows), ""]
    lines += [f"- {note}" for note in content["notes"]]
    return "\n".join([*lines, ""])


def _table(columns: Iterable[Column], rows: list[dict[str, Any]]) -> list[str]:
    """Its lines, without columns in which nothing stands."""
    shown = [column for column in columns if any(column.text(row) != "-" for row in rows)]
    lines = [
        _line(column.title for column in shown),
        _line("--:" if column.form else "---" for column in shown),
    ]
    return lines + [_line(_cell(column, row) for column in shown) for row in rows]


def _cell(column: Column, row: dict[str, Any]) -> str:
    text = column.text(row)
    lost = row.get(LOSES.key) is not None
    return f"**{text}**" if lost and column.key == _RATIO else text


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    sys.stdout.write(page(map(Path, sys.argv[1:])))
