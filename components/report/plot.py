"""Plots of runs, as figures of matplotlib: saved as PNG, or as SVG inside a page."""

from __future__ import annotations

import io
import textwrap
from typing import TYPE_CHECKING, Any

from components.report.claims import confusions, reliabilities
from components.report.compare import Comparison
from components.report.table import LOWER_IS_BETTER, heading, short

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BEST, REST, GREY = "#c44e00", "#2b6ca3", "#9aa3ab"
COLOURS = (BEST, REST, "#009e73", "#a3559c", "#b8860b", "#5b5b5b")


def measures_plot(found: Comparison) -> Figure | None:
    """One panel a shown measure, one line a run: value and 95 % interval. The best stand out,
    unless all runs are level."""
    measures = found.shown
    if not found.runs or not measures:
        return None
    # Few panels a row: a page is read at the width of a column.
    down = -(-len(measures) // 4)
    across = -(-len(measures) // down)
    names = [_named(found.label(point.name)) for point in found.runs]
    widest = max(len(line) for name in names for line in name.split("\n"))
    row = 0.3 + 0.08 * max(name.count("\n") for name in names)  # inches
    picture = blank(1.2 + 0.06 * widest + 2.2 * across, down * (0.95 + row * len(names)))
    panels = picture.subplots(down, across, sharey=True, squeeze=False).ravel()
    for panel, measure in zip(panels, measures, strict=False):
        values = found.values[measure]
        choose = min if measure in LOWER_IS_BETTER else max
        best = choose(m.value for m in values.values())
        level = len({m.value for m in values.values()}) == 1 < len(values) == len(found.runs)
        for row, point in enumerate(found.runs):
            m = values.get(point.name)
            if m is None:
                continue
            low, high = m.value if m.low is None else m.low, m.value if m.high is None else m.high
            colour = BEST if m.value == best and not level else REST
            panel.plot([low, high], [row, row], color=colour, lw=2, solid_capstyle="round")
            panel.plot(m.value, row, "o", color=colour, ms=6)
        panel.set_title(heading(measure), fontsize=10)
        panel.set_yticks(range(len(names)), names)
        panel.set_ylim(len(names) - 0.5, -0.5)
        panel.locator_params(axis="x", nbins=5)
        plain(panel, "x")
        panel.tick_params(axis="y", length=0)
    for panel in panels[len(measures) :]:
        panel.set_visible(False)
    return settled(picture)


def differences_plot(found: Comparison, first: str, second: str) -> Figure | None:
    """One line a measure: the difference with its 95 % interval, full where it is significant, on
    a bar that reaches as far as the minimal detectable difference."""
    pairs = [p for m in found.values if (p := found.pair(m, first, second))]
    if not pairs:
        return None
    picture = blank(7.6, 0.9 + 0.27 * len(pairs))
    panel = picture.subplots()
    panel.use_sticky_edges = False  # bars leave a margin
    for row, pair in enumerate(pairs):
        colour = GREY if not pair.significant else BEST if pair.better else REST
        panel.barh(row, 2 * pair.detectable, left=-pair.detectable, height=0.62, color="#edf0f2")
        panel.plot([pair.low, pair.high], [row, row], color=colour, lw=2, solid_capstyle="round")
        face = colour if pair.significant else "white"
        panel.plot(pair.value, row, "o", color=colour, ms=6, markerfacecolor=face)
    panel.axvline(0, color="#444444", lw=0.8, zorder=0.5)
    panel.set_yticks(range(len(pairs)), [heading(pair.measure) for pair in pairs])
    panel.set_ylim(len(pairs) - 0.5, -0.5)
    panel.set_xlabel("difference", fontsize=9)
    plain(panel, "x")
    return settled(picture)


def confusion_plot(found: Comparison, names: list[str]) -> Figure | None:
    """One matrix a run: how often each gold label (row) was given which label (column)."""
    tables = {name: t for name, t in confusions(found).items() if name in names}
    if not tables:
        return None
    across = min(len(tables), 3)
    down = -(-len(tables) // across)
    picture = blank(1.4 + 2.8 * across, 0.5 + 2.6 * down)
    grid = picture.subplots(down, across, sharey=True, squeeze=False)
    for panel, (name, table) in zip(grid.ravel(), tables.items(), strict=False):
        shares = [[c / max(sum(row), 1) for c in row] for row in table.counts]
        panel.imshow(shares, cmap="Blues", vmin=0, vmax=1, aspect="auto")
        for y, row in enumerate(table.counts):
            for x, count in enumerate(row):
                colour = "white" if shares[y][x] > 0.55 else "#222222"
                panel.text(x, y, str(count), ha="center", va="center", color=colour, fontsize=9)
        panel.set_title(_named(found.label(name), 28), fontsize=10)
        for axis, labels in ((panel.xaxis, table.predicted), (panel.yaxis, table.gold)):
            words = [short(label).replace(" ", "\n") for label in labels]
            axis.set_ticks(range(len(labels)), words, fontsize=8)
        panel.tick_params(length=0)
    for panel in grid.ravel()[len(tables) :]:
        panel.set_visible(False)
    for row in grid:
        row[0].set_ylabel("gold label", fontsize=9)
    for panel in grid[-1]:
        panel.set_xlabel("predicted label", fontsize=9)
    return settled(picture)


def calibration_plot(found: Comparison, names: list[str]) -> Figure | None:
    """Accuracy by confidence, in ten bins: on the diagonal a system is as often right as it says;
    areas of dots are in proportion to the claims in a bin."""
    curves = {name: rows for name, rows in reliabilities(found).items() if name in names}
    if not curves:
        return None
    picture = blank(5.2, 4.4)
    panel = picture.subplots()
    panel.plot([0, 1], [0, 1], color=GREY, lw=1, ls="--")
    for (name, rows), colour in zip(curves.items(), COLOURS, strict=False):
        x, y = [r["confidence"] for r in rows], [r["accuracy"] for r in rows]
        total = sum(r["claims"] for r in rows)
        panel.plot(x, y, color=colour, lw=1.5, label=_named(found.label(name)))
        panel.scatter(
            x, y, s=[20 + 400 * r["claims"] / total for r in rows], color=colour, alpha=0.6
        )
    panel.set(xlim=(0, 1), ylim=(0, 1.02))
    panel.set_xlabel("confidence in the predicted label", fontsize=9)
    panel.set_ylabel("accuracy", fontsize=9)
    panel.legend(frameon=False, fontsize=9, loc="upper left")
    plain(panel, "both")
    return settled(picture)


def _named(text: str, width: int = 30) -> str:
    """A name of a run on lines of at most so many characters, three at most."""
    lines = textwrap.wrap(text, width)
    return "\n".join([*lines[:2], " ".join(lines[2:3]) + "…" * (len(lines) > 3)]).strip()


def png(picture: Figure) -> bytes:
    """The figure as PNG, sharp enough for print."""
    out = io.BytesIO()
    picture.savefig(out, format="png", dpi=200, metadata={"Software": None})
    return out.getvalue()


def svg(picture: Figure) -> str:
    """The figure as an SVG element."""
    out = io.StringIO()
    picture.savefig(out, format="svg", metadata={"Date": None})
    text = out.getvalue()
    return text[text.index("<svg") :]


def blank(width: float, height: float) -> Figure:
    # A Figure of its own, not pyplot: flows run in threads.
    from matplotlib import rcParams
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    rcParams["text.parse_math"] = False  # dollars in the name of a run mark no formula
    picture = Figure(figsize=(width, height), layout="tight")
    FigureCanvasAgg(picture)
    return picture


def settled(picture: Figure) -> Figure:
    """Lay the figure out once, not again for each form in which it is saved."""
    engine = picture.get_layout_engine()
    if engine:
        engine.execute(picture)
    picture.set_layout_engine(None)
    return picture


def plain(panel: Any, grid: str) -> None:
    panel.grid(axis=grid, alpha=0.3)
    panel.set_axisbelow(True)
    panel.tick_params(labelsize=9)
    for side in ("top", "right", "left") if grid == "x" else ("top", "right"):
        panel.spines[side].set_visible(False)
