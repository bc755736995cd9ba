"""Tables of runs as Markdown."""

from __future__ import annotations

import csv
import html
import io
from typing import Any

from components.score.base import Measure, Scores
from components.score.formula import over

LEVELS = ("0.10", "0.20", "0.25", "0.30", "0.40", "0.50")

# In the order in which tables show them; others follow.
HEADINGS = {
    "q": "H-METEOR Q",
    "qa": "H-METEOR Q+A",
    **{f"score_at_{level}": f"AVeriTeC score @ {level}" for level in LEVELS},
    "ev2r_q": "Ev2R recall Q",
    "ev2r_qa": "Ev2R recall Q+A",
    "ev2r_score_at_0.50": "AVeriTeC score @ Ev2R 0.50",
    "meteor_q": "H-METEOR Q (2025)",
    "meteor_qa": "H-METEOR Q+A (2025)",
    "meteor_score_at_0.25": "AVeriTeC score @ 0.25 (2025)",
    "ev2r": "Ev2R weighted",
    "ev2r_precision": "Ev2R precision",
    "ev2r_recall": "Ev2R recall",
    "ev2r_f1": "Ev2R F1",
    "proxy": "proxy",
    "proxy_llm": "proxy by LLM",
    "proxy_probability": "proxy by LLM, probability",
    "reference_less": "reference-less",
    "trained": "trained similarity",
    "rouge_l": "ROUGE-L",
    "bleu": "BLEU",
    "meteor": "METEOR",
    "hungarian_meteor": "H-METEOR",
    "fever": "FEVER score",
    "accuracy": "label accuracy",
    "f1_macro": "macro-F1",
    "f1_supported": "F1 Supported",
    "f1_refuted": "F1 Refuted",
    "f1_not_enough_evidence": "F1 Not Enough Evidence",
    "f1_conflicting_evidence_cherrypicking": "F1 Conflicting / Cherrypicking",
    "justification": "justification METEOR",
    **{f"justification_at_{level}": f"justification METEOR @ {level}" for level in LEVELS},
    "evidence_precision": "evidence precision",
    "evidence_recall": "evidence recall",
    "evidence_f1": "evidence F1",
    **{
        f"{part}_{end}": f"{called} {end.capitalize() if end == 'f1' else end}"
        for part, called in {
            "abstract_label_only": "abstract label-only",
            "abstract_rationalized": "abstract rationalised",
            "sentence_selection": "sentence selection",
            "sentence_label": "sentence label",
        }.items()
        for end in ("f1", "precision", "recall")
    },
    **{
        f"abstract_{end}{source and '_' + source}": f"abstract {called}{source and ' by ' + source}"
        for source in ("", "citation", "pooling")
        for end, called in {
            "f1": "F1",
            "precision": "precision",
            "recall": "recall",
            "ap": "AP",
        }.items()
    },
    "ndcg_at_10": "nDCG@10",
    "recall_at_10": "R@10",
    "recall_at_100": "R@100",
    "mrr": "MRR",
    "ap": "AP",
    "ece": "ECE ↓",
    "brier": "Brier score ↓",
}
LOWER_IS_BETTER = ("ece", "brier")

COSTS = ("training_seconds", "trained_parameters")  # what a run says of a training, beside results

# What decides where nobody said so: of these the first that a run has, as its task ranks systems.
DECIDING = (
    *("ev2r_score_at_0.50", "score_at_0.25", "fever", "sentence_label_f1", "abstract_f1"),
    *("ev2r", "qa", "ndcg_at_10"),
)


def heading(measure: str) -> str:
    """How a measure is called in tables."""
    return HEADINGS.get(measure, measure)


def fewer(scores: Scores) -> list[str]:
    """Lines that say over how many claims measures were taken, where these are not all claims."""
    found: dict[int, list[str]] = {}
    for name, measure in scores.measures.items():
        n = over(name, measure, scores.per_claim)
        if 0 < n < len(scores.per_claim):
            found.setdefault(n, []).append(name)
    return [
        f"Over {n} of {len(scores.per_claim)} claims: {', '.join(names)}."
        for n, names in found.items()
    ]


def short(label: str) -> str:
    """A label as it fits into a narrow column."""
    return label.replace("Conflicting Evidence/Cherrypicking", "Conflicting")


def figure(measure: Measure | None) -> str:
    """`0.340 [0.320, 0.361]`, or a dash."""
    if measure is None:
        return "–"
    text = f"{measure.value:z.3f}"
    if measure.low is not None and measure.high is not None:
        text += f" [{measure.low:z.3f}, {measure.high:z.3f}]"
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


def csv_bytes(rows: list[dict[str, Any]]) -> bytes:
    """Rows as a CSV file: a header with every key that some row has, an empty cell for none."""
    text = io.StringIO()
    columns = dict.fromkeys(key for row in rows for key in row)
    writer = csv.DictWriter(text, list(columns), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue().encode()


def learned(training: dict[str, dict[str, float]]) -> list[tuple[str, str, str]]:
    """(step, name, number) of what steps of a run learned, beside what that cost."""
    return [
        (step, name, f"{value:z.3f}" if value % 1 else f"{value:,.0f}")
        for step, known in training.items()
        for name, value in known.items()
        if name not in COSTS
    ]


def run_table(
    name: str, scores: Scores, training: dict[str, dict[str, float]] | None = None
) -> str:
    """A run's measures with their 95 % intervals, what its steps learned, and its notes."""
    names = [m for m in HEADINGS if m in scores.measures]
    names += [m for m in scores.measures if m not in HEADINGS]
    names += scores.unmeasured
    rows = [[heading(name), name, figure(scores.measures.get(name))] for name in names]
    notes = "".join(
        f"- {html.escape(note, quote=False)}\n"
        for note in [*scores.warnings, *fewer(scores), *scores.notes]
    )
    parts = [f"# {name}\n", markdown(["measure", "name", "value [95 % interval]"], rows) + "\n"]
    if known := learned(training or {}):
        parts.append(markdown(["step", "learned on train", "value"], [*map(list, known)]) + "\n")
    return "\n".join([*parts, *([notes] if notes else [])])
