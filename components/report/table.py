"""Tables of runs as Markdown."""

from __future__ import annotations

import html
from typing import Any

from components.score.base import Measure, Scores

HEADINGS = {
    "q": "H-METEOR Q",
    "qa": "H-METEOR Q+A",
    "accuracy": "label accuracy",
    "f1_macro": "macro-F1",
    "ndcg_at_10": "nDCG@10",
    "recall_at_10": "R@10",
    "recall_at_100": "R@100",
    "mrr": "MRR",
    "ap": "AP",
}


def heading(measure: str) -> str:
    """How a measure is called in tables."""
    if measure.startswith("score_at_"):
        return f"AVeriTeC score @ {measure.removeprefix('score_at_')}"
    return HEADINGS.get(measure, measure)


def figure(measure: Measure | None) -> str:
    """`0.340 [0.320, 0.361]`, or a dash."""
    if measure is None:
        return "–"
    text = f"{measure.value:.3f}"
    if measure.low is not None and measure.high is not None:
        text += f" [{measure.low:.3f}, {measure.high:.3f}]"
    return text


def markdown(columns: list[str], rows: list[list[Any]]) -> str:
    """A Markdown table, padded so that it reads well as plain text too."""
    cells = [[str(x).replace("|", r"\|").replace("\n", " ") for x in row] for row in rows]
    widths = [
        max(len(column), *(len(row[i]) for row in cells)) if cells else len(column)
        for i, column in enumerate(columns)
    ]

    def line(values: list[str]) -> str:
        padded = (value.ljust(width) for value, width in zip(values, widths, strict=True))
        return "| " + " | ".join(padded) + " |"

    return "\n".join(
        [line(columns), "|" + "|".join("-" * (w + 2) for w in widths) + "|", *map(line, cells)]
    )


def run_table(name: str, scores: Scores) -> str:
    """A run's measures with their 95 % intervals, and its notes."""
    rows = [[heading(key), figure(value)] for key, value in scores.measures.items()]
    notes = "".join(f"- {html.escape(note, quote=False)}\n" for note in scores.notes)
    return f"# {name}\n\n{markdown(['measure', 'value [95 % interval]'], rows)}\n" + (
        f"\n{notes}" if notes else ""
    )
