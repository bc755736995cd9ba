"""Gold evidence, for oracle runs: how good are verdicts on the best input? And a rule for them."""

from __future__ import annotations

import collections
import dataclasses
import re
from typing import ClassVar

from components.datasets.submission import NO_ANSWER
from components.reason.tuned import gold_pairs
from components.reason.verdict import verdict
from components.records import AVERITEC_LABELS, Case, Evidence
from components.step import Context, Step

SUPPORTED, REFUTED, NEI, CONFLICTING = AVERITEC_LABELS


@dataclasses.dataclass(kw_only=True)
class GoldAnswers(Step):
    """The gold questions and answers as evidence, one pair an answer: for oracle runs."""

    reads: ClassVar = ("claim",)
    writes: ClassVar = ("evidence",)

    def run(self, cases: list[Case], ctx: Context) -> list[Case]:
        for case in cases:
            case.evidence = [Evidence(question=q, answer=a) for q, a in gold_pairs(case.claim)]
        return cases


@dataclasses.dataclass(kw_only=True)
class RuleVerdict(Step):
    """A verdict without a model: yes speaks for the claim, no against it, both for conflict, and a
    question without an answer for not enough evidence; what is level is refuted, as most claims
    that are checked are. A label's probability is its share of the answers, one added to each.
    """

    reads: ClassVar = ("evidence",)
    writes: ClassVar = ("verdict",)

    def run(self, cases: list[Case], ctx: Context) -> list[Case]:
        for case in cases:
            counts = votes([pair.answer for pair in case.evidence])
            total = counts.total() + len(AVERITEC_LABELS)
            chances = {label: (counts[label] + 1) / total for label in AVERITEC_LABELS}
            case.verdict = verdict(chances, ties=(REFUTED, SUPPORTED, CONFLICTING, NEI))
        return cases


def votes(answers: list[str]) -> collections.Counter[str]:
    """How many answers speak for each label; most speak for none."""
    counts: collections.Counter[str] = collections.Counter()
    for answer in answers:
        word = re.split(r"\W", answer.strip().casefold(), maxsplit=1)[0]
        if answer.strip() in ("", NO_ANSWER):
            counts[NEI] += 1
        elif word in ("yes", "no"):
            counts[SUPPORTED if word == "yes" else REFUTED] += 1
    if counts[SUPPORTED] and counts[REFUTED]:
        counts[CONFLICTING] = counts[SUPPORTED] + counts[REFUTED]
    return counts
