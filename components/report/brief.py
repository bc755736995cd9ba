"""A comparison in short, for a terminal: the finding in words and one narrow table."""

from __future__ import annotations

import io
import textwrap

import msgspec

from components.report.compare import Comparison
from components.report.sections import (
    Table,
    failures,
    finding,
    leaderboard,
    remarks,
    side_by_side,
    two_of,
    warnings,
)

WIDTH = 100  # columns of the terminal that it is for


def brief(found: Comparison, pair: tuple[str, str] | None = None, notes: bool = False) -> str:
    """What the comparison says on its primary measure, of two runs on all that are shown; the
    report has the rest.

    pair: as for the report. notes: also what is to be known of the runs.
    """
    pair = two_of(found, pair)
    two = len(found.runs) == 2 and not found.failed
    table = side_by_side(found, pair) if pair and two and found.values else _narrow(found)
    out = [found.title, ""]
    for text in warnings(found):
        out += [*_wrapped(text), ""]
    out += [*_wrapped(" ".join(finding(found))), *_drawn(table)]
    for text in failures(found):
        out += _wrapped(text)
    if found.tests > 1:
        out += _wrapped(
            "Each interval is of its difference alone; significant: by both tests, after Holm's "
            f"correction for {found.tests} pairs of runs"
            f"{', seeds of one setting among them' if found.seeded else ''}."
        )
    for text in [*found.notes, *remarks(found)] if notes else ():
        out += ["", *_wrapped(text)]
    return "\n".join(out)


def _narrow(found: Comparison) -> Table:
    """The leaderboard on the primary measure, its axes in one column, without p."""
    primary = [found.primary] if found.primary in found.values else []
    whole = leaderboard(msgspec.structs.replace(found, shown=primary))
    kept = [i for i, column in enumerate(whole.columns) if column != "p (Holm)"][whole.words :]
    columns, *rows = (
        [", ".join(row[: whole.words]), *(row[i] for i in kept)]
        for row in (whole.columns, *whole.rows)
    )
    return Table(columns=columns, rows=rows)


def _drawn(table: Table) -> list[str]:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table as Grid

    grid = Grid(box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    first, *others = table.columns
    grid.add_column(first, overflow="fold")
    for i, column in enumerate(others, 1):  # only long headings, names of runs, are folded
        figures = max((len(row[i]) for row in table.rows), default=0)
        grid.add_column(
            column, justify="right", overflow="fold", no_wrap=len(column) <= max(figures, 16)
        )
    for row in table.rows:
        grid.add_row(*row)
    out = io.StringIO()
    Console(file=out, width=WIDTH, color_system=None).print(grid, markup=False, highlight=False)
    return [line.rstrip() for line in out.getvalue().splitlines()]


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text.replace("**", ""), WIDTH)
