"""A verdict on the evidence by a prompted language model."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from pathlib import Path
from typing import ClassVar

import msgspec

from components.datasets.submission import NO_ANSWER
from components.engines.base import Request
from components.errors import ClaimflowError, nearest
from components.labels import parse_label
from components.reason.examples import examples
from components.reason.fit import CUT, fitted
from components.reason.prompted import Prompted
from components.records import AVERITEC_LABELS, Case, Claim, Verdict
from components.step import Context

FALLBACK = "{label}, as no reply of the model gave a label"


@dataclasses.dataclass(kw_only=True)
class LlmVerdict(Prompted):
    """A language model is shown claim and evidence, and asked for one of `labels`.

    The verdict of most systems of AVeriTeC 2024 and 2025: zero-shot or few-shot (examples above
    0), with four, three (without Conflicting Evidence/Cherrypicking) or two labels (Papelo, EFC),
    at once or step by step (prompt=verdict_steps.txt). The label is read by
    `components.labels.parse_label`, never found inside prose. The reply is the justification.

    prompt: with {evidence} and, if wanted, {labels} and {examples}. examples: training claims with
    their gold evidence, nearest by BM25. attempts: a reply without a label is asked for again at
    temperature .7 with another seed. fallback: the label after the last attempt, with a remark
    that is counted; None: the claim fails. Evidence too long for the model's context is cut, every
    answer to the same length.
    """

    reads: ClassVar = ("claim", "evidence", "remarks")
    writes: ClassVar = ("verdict", "remarks")
    seeded: ClassVar = True

    slot: ClassVar = "verdict"
    least: ClassVar = {"attempts": 1, "examples": 0}

    prompt: Path = Path("verdict_label.txt")
    labels: list[str] = dataclasses.field(default_factory=lambda: list(AVERITEC_LABELS))
    examples: int = 0
    max_tokens: int = 32
    attempts: int = 3
    fallback: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        for label in [*self.labels, *([self.fallback] if self.fallback else [])]:
            if label not in AVERITEC_LABELS:
                raise ClaimflowError(
                    f"verdict: unknown label '{label}'.{nearest(label, AVERITEC_LABELS)} Labels: "
                    f"{', '.join(AVERITEC_LABELS)}"
                )
        if len(set(self.labels)) < max(2, len(self.labels)):
            raise ClaimflowError("verdict.labels must name two labels or more, each once.")

    def run(self, cases: list[Case], ctx: Context) -> list[Case]:
        near = examples([case.claim for case in cases], self.examples, ctx, labels=self.labels)
        requests: dict[int, Request] = {}
        for i, (case, like) in enumerate(zip(cases, near, strict=True)):
            pairs = [(pair.question, pair.answer) for pair in case.evidence]
            requests[i], cut = fitted(
                self.engine,
                lambda size: self.request(case.claim, pairs, like, size),  # noqa: B023
                max((len(answer) for _, answer in pairs), default=0),
                ctx,
            )
            case.remarks = [*case.remarks, CUT] if cut else list(case.remarks)
        for attempt in range(self.attempts):
            replies = self.engine.generate(list(requests.values()), ctx)
            for (i, request), reply in zip(list(requests.items()), replies, strict=True):
                if reply.error:
                    cases[i].failed = reply.error
                elif label := parse_label(reply.text, self.labels):
                    cases[i].verdict = Verdict(label=label, justification=reply.text.strip())
                else:
                    requests[i] = msgspec.structs.replace(
                        request, temperature=0.7, seed=ctx.seed_for("verdict") + attempt
                    )
                    continue
                del requests[i]
            if not requests:
                break
        for i in requests:
            self._unread(cases[i])
        return cases

    def request(
        self, claim: Claim, pairs: list[tuple[str, str]], near: list[Claim], size: int | None
    ) -> Request:
        """What the model is asked, each answer cut to `size` characters."""
        examples = "\n\n".join(
            f"Claim: {one.text.strip()}\n"
            + _shown(
                (question.question, answer.answer)
                for question in one.questions
                for answer in question.answers
            )
            + f"\nVerdict: {one.label}"
            for one in near
        )
        evidence = _shown((question, answer[:size]) for question, answer in pairs)
        labels = ", ".join(self.labels)
        return self.ask(claim, {"labels": labels, "evidence": evidence, "examples": examples})

    def _unread(self, case: Case) -> None:
        if self.fallback is None:
            case.failed = f"no label in {self.attempts} replies of the model"
            return
        case.verdict = Verdict(label=self.fallback)
        case.remarks.append(FALLBACK.format(label=self.fallback))


def _shown(pairs: Iterable[tuple[str, str]]) -> str:
    lines = [f"Question: {question}\nAnswer: {answer or NO_ANSWER}" for question, answer in pairs]
    return "\n".join(lines) or "No evidence was found."
