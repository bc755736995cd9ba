"""Stress tests as a table and a plot."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

from components.report.table import heading, markdown
from components.score.perturb import TESTS

WIDTH = 100  # of a table


def stress_report(
    title: str,
    columns: list[str],
    rows: list[list[Any]],
    notes: list[str],
    risen: Collection[str] = (),
) -> str:
    """Markdown: the change of each measure in per cent, in tables as wide as a terminal, notes, and
    what each test does. Measures that no test changes are named below the tables. risen: measures
    that a test changed from 0, which is no change in per cent."""
    moved = [i for i in range(2, len(columns)) if any(row[i] for row in rows)]
    still = [
        heading(columns[i])
        for i in range(2, len(columns))
        if i not in moved and columns[i] not in risen
    ]
    if still:
        notes = [*notes, f"Changed by no test: {', '.join(still)}."]
    names = max((len(row[1]) + len(row[0]) for row in rows), default=0) + 7
    parts: list[list[int]] = [[]]
    for i in moved:
        width = names + sum(len(heading(columns[k])) + 3 for k in [*parts[-1], i])
        if parts[-1] and width > WIDTH:
            parts.append([])
        parts[-1].append(i)
    table = "\n\n".join(
        markdown(
            [*columns[:2], *(heading(columns[i]) for i in part)],
            [[*row[:2], *(percent(row[i]) for i in part)] for row in rows],
        )
        for part in parts
    )
    done = [row[1] for row in rows if row[1] in TESTS]
    about = [
        f"- {name}: {TESTS[name].about}."
        + (f" Table 5: {TESTS[name].row}." if TESTS[name].row else " Not in table 5.")
        for name in done
    ]
    return "\n".join(
        [f"# {title}", "", table, "",
         "Change in per cent of the value without perturbation; an altering test should lower a "
         "measure, a preserving one should leave it.", "",
         *(f"- {note}" for note in notes), "", "## Tests", "", *about, ""]
    )  # fmt: skip


def percent(value: float | None) -> str:
    """`-12.3`, or a dash."""
    return "–" if value is None else f"{value:+.2f}"


def stress_plot(columns: list[str], rows: list[list[Any]], path: Path) -> None:
    """The table as a heat map, from −100 % to +100 %."""
    import numpy as np
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    values = np.array([[np.nan if x is None else x for x in row[2:]] for row in rows], dtype=float)
    picture = Figure(
        figsize=(3.2 + 1.25 * values.shape[1], 1.6 + 0.34 * len(rows)), layout="constrained"
    )
    FigureCanvasAgg(picture)
    panel = picture.subplots()
    image = panel.imshow(values, cmap="RdBu", vmin=-100, vmax=100, aspect="auto")
    for (y, x), value in np.ndenumerate(values):
        text = "–" if np.isnan(value) else f"{value:+.1f}"
        colour = "white" if abs(value) > 60 else "black"
        panel.text(x, y, text, ha="center", va="center", fontsize=8, color=colour)
    names = [f"{row[1]} ({row[0]})" for row in rows]
    panel.set_yticks(range(len(rows)), names, fontsize=8)
    labels = [heading(name) for name in columns[2:]]
    panel.set_xticks(range(len(labels)), labels, rotation=30, ha="right", fontsize=8)
    picture.colorbar(image, ax=panel, label="change in %")
    path.parent.mkdir(parents=True, exist_ok=True)
    picture.savefig(path, dpi=130)
