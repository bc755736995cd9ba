"""One verdict out of several: of the pieces of a claim's evidence, or of several systems.

Each takes verdicts and the order in which level labels win. One without probabilities counts as
sure. Rules give a label without probabilities, as they have none; the others give both.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from components.reason.verdict import verdict
from components.records import AVERITEC_LABELS, NOT_ENOUGH, Verdict

SUPPORTED, REFUTED, _, CONFLICTING = AVERITEC_LABELS
Aggregate = Callable[[list[Verdict], Sequence[str]], Verdict]


def chances(one: Verdict) -> dict[str, float]:
    """The probabilities of a verdict; all on its label where it gives none."""
    return one.probabilities or {one.label: 1.0}


def majority(verdicts: list[Verdict], ties: Sequence[str]) -> Verdict:
    """The most frequent label; probabilities are the shares of the verdicts."""
    counts = Counter(one.label for one in verdicts)
    return verdict({label: n / len(verdicts) for label, n in counts.items()}, ties=ties)


def mean(verdicts: list[Verdict], ties: Sequence[str]) -> Verdict:
    """The mean of the probabilities."""
    return verdict(_pooled(verdicts, largest=False), ties=ties)


def mean_max(verdicts: list[Verdict], ties: Sequence[str]) -> Verdict:
    """Mean and highest probability of each label, added (the pooling of Athene, FEVER 2018, without
    the layers that theirs learns behind it: see `StackedVerdict`)."""
    pooled = _pooled(verdicts, largest=True)
    return verdict({label: p / sum(pooled.values()) for label, p in pooled.items()}, ties=ties)


def _pooled(verdicts: list[Verdict], largest: bool) -> dict[str, float]:
    every = [chances(one) for one in verdicts]
    labels = dict.fromkeys(label for one in every for label in one)
    columns = {label: [one.get(label, 0.0) for one in every] for label in labels}
    return {
        label: sum(column) / len(column) + (max(column) if largest else 0.0)
        for label, column in columns.items()
    }


def highest(verdicts: list[Verdict], ties: Sequence[str]) -> Verdict:
    """The surest verdict (SIRIUS, FEVER 2018); of equally sure ones the first."""
    best = max(verdicts, key=lambda one: round(chances(one).get(one.label, 0.0), 6))
    return Verdict(label=best.label, probabilities=best.probabilities)


def highest_decided(verdicts: list[Verdict], ties: Sequence[str]) -> Verdict:
    """The surest verdict that is not Not Enough Evidence, where there is one (Ohio State, FEVER
    2018)."""
    return highest([one for one in verdicts if one.label != NOT_ENOUGH] or verdicts, ties)


def one_sided(verdicts: list[Verdict], ties: Sequence[str]) -> Verdict:
    """Supported, or Refuted, where no verdict but Not Enough Evidence stands beside it; else the
    majority (Columbia, FEVER 2018)."""
    decided = {one.label for one in verdicts} - {NOT_ENOUGH}
    if decided in ({SUPPORTED}, {REFUTED}):
        return Verdict(label=decided.pop())
    return majority(verdicts, ties)


def strict(verdicts: list[Verdict], ties: Sequence[str]) -> Verdict:
    """All Supported or all Refuted: that; both: Conflicting Evidence/Cherrypicking; any other
    verdict among them: Not Enough Evidence (baseline of AVeriTeC 2024)."""
    labels = {one.label for one in verdicts}
    if labels <= {SUPPORTED, REFUTED}:
        return Verdict(label=labels.pop() if len(labels) == 1 else CONFLICTING)
    return Verdict(label=NOT_ENOUGH)


def both_conflict(verdicts: list[Verdict], ties: Sequence[str]) -> Verdict:
    """Supported and Refuted, whatever is beside them: Conflicting Evidence/Cherrypicking; all the
    same: that; else Not Enough Evidence (KnowComp, AVeriTeC 2024)."""
    labels = {one.label for one in verdicts}
    if labels >= {SUPPORTED, REFUTED}:
        return Verdict(label=CONFLICTING)
    return Verdict(label=labels.pop() if len(labels) == 1 else NOT_ENOUGH)


def agreed(verdicts: list[Verdict], ties: Sequence[str]) -> Verdict:
    """The label of all; any other one beside it: Conflicting Evidence/Cherrypicking (UHH's first
    strategy, AVeriTeC 2024)."""
    labels = {one.label for one in verdicts}
    return Verdict(label=labels.pop() if len(labels) == 1 else CONFLICTING)


def majority_or_conflict(verdicts: list[Verdict], ties: Sequence[str]) -> Verdict:
    """The most frequent label; where three are level Conflicting Evidence/Cherrypicking (UHH's
    second strategy, AVeriTeC 2024)."""
    counts = Counter(one.label for one in verdicts)
    first = [label for label, n in counts.items() if n == max(counts.values())]
    return Verdict(label=CONFLICTING) if len(first) > 2 else majority(verdicts, ties)


AGGREGATES: dict[str, Aggregate] = {
    function.__name__: function
    for function in (
        majority, mean, mean_max, highest, highest_decided, one_sided, strict, both_conflict,
        agreed, majority_or_conflict,
    )
}  # fmt: skip
