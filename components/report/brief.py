"""A comparison in short, for a terminal: the finding in words and one narrow table."""

from __future__ import annotations

import io
import itertools
import textwrap

import msgspec

from components.report.compare import Comparison
from components.report.sections import failures, finding, leaderboard

WIDTH = 100  # columns of the terminal that it is for


def brief(found: Comparison) -> str:
    """What the comparison says on its primary measure; the report has the rest."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table

    whole = leaderboard(msgspec.structs.replace(found, shown=[found.primary]))
    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    kept = [i for i, column in enumerate(whole.columns) if column != "p (Holm)"][whole.words :]
    table.add_column(", ".join(whole.columns[: whole.words]), overflow="fold")
    for i in kept:
        table.add_column(whole.columns[i], justify="right", no_wrap=True)
    for row in whole.rows:
        table.add_row(", ".join(row[: whole.words]), *(row[i] for i in kept))
    out = Console(file=io.StringIO(), width=WIDTH, color_system=None)
    out.print(table, markup=False, highlight=False)
    drawn = [line.rstrip() for line in out.file.getvalue().splitlines()]  # type: ignore[attr-defined]
    said = [text.replace("**", "") for text in (" ".join(finding(found)), *failures(found))]
    if found.tests > 1:
        said.append(
            "Each interval is of its difference alone; significant: by both tests, after Holm's "
            f"correction for {found.tests} pairs of runs."
        )
    words, *why = (textwrap.wrap(text, WIDTH) for text in said)
    return "\n".join([found.title, "", *words, *drawn, *itertools.chain(*why)])
