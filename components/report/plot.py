"""Plots of runs, as PNG."""

from __future__ import annotations

from pathlib import Path

from components.report.compare import Point
from components.report.table import heading


def sweep_plot(points: list[Point], measures: list[str], path: Path) -> None:
    """One panel a measure, one line a point: value and 95 % interval; no failed points."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    shown = [p for p in points if not p.error and any(m in p.measures for m in measures)]
    measures = [m for m in measures if any(m in p.measures for p in shown)]
    if not shown or not measures:
        return
    # A Figure of its own, not pyplot: flows run in threads.
    picture = Figure(figsize=(1.8 + 2.9 * len(measures), 1.1 + 0.34 * len(shown)), layout="tight")
    FigureCanvasAgg(picture)
    names = [", ".join(p.axes.values()) or p.name for p in shown]
    for panel, measure in zip(
        picture.subplots(1, len(measures), sharey=True, squeeze=False)[0], measures, strict=True
    ):
        best = max(p.measures[measure].value for p in shown if measure in p.measures)
        for row, point in enumerate(shown):
            m = point.measures.get(measure)
            if m is None:
                continue
            low, high = m.value if m.low is None else m.low, m.value if m.high is None else m.high
            colour = "#c44e00" if m.value == best else "#2b6ca3"
            panel.plot([low, high], [row, row], color=colour, lw=2, solid_capstyle="round")
            panel.plot(m.value, row, "o", color=colour, ms=6)
        panel.set_title(heading(measure), fontsize=10)
        panel.set_yticks(range(len(shown)), names)
        panel.invert_yaxis() if panel.get_subplotspec().is_first_col() else None
        panel.grid(axis="x", alpha=0.3)
        panel.tick_params(labelsize=9)
        for side in ("top", "right", "left"):
            panel.spines[side].set_visible(False)
    path.parent.mkdir(parents=True, exist_ok=True)
    picture.savefig(path, dpi=130)
