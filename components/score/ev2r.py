"""The scorers of the Ev2R study (Akhtar et al. 2024): predicted evidence against reference
evidence, against the reference verdict, or against nothing but the claim."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from components.datasets.base import normalised
from components.datasets.gold import read_gold
from components.errors import ClaimflowError, nearest
from components.reason.prompt import filled, prompt_file
from components.records import AVERITEC_LABELS, Case, Claim, Prediction
from components.score import evidence, overlap
from components.score.averitec import Averitec2024
from components.score.averitec_2025 import PROMPTS
from components.score.base import Rankings, Scores
from components.score.control import control
from components.score.formula import measured
from components.score.judge import (
    Asked,
    Facts,
    Judge,
    JudgedScorer,
    ReplyError,
    cost,
    failures,
    read_coverage,
    read_facts,
    read_label,
    unjudged,
)
from components.score.pairing import first_of_each
from components.score.rows import breakdown, mean
from components.score.similarity import TrainedSimilarity
from components.step import Context, Step

T = TypeVar("T")

JUDGED = ("reference", "proxy_llm", "proxy_probability", "reference_less")
TRAINED = ("proxy", "trained")
MODES = {"reference": "evidence", "proxy_llm": "proxy"} | {part: part for part in JUDGED[2:]}
LETTERS = ("A", "B", "C", "D")  # of the labels, one token each
OVERLAP = ("rouge_l", "bleu", "meteor", "hungarian_meteor")
MEASURES = (
    "ev2r", "ev2r_precision", "ev2r_recall", "ev2r_f1", "proxy", "proxy_llm",
    "proxy_probability", "reference_less", "trained", *OVERLAP,
)  # fmt: skip

Row = dict[str, Any]


@dataclasses.dataclass(kw_only=True)
class Ev2r(JudgedScorer):
    """Measures of evidence, all 0 to 1, higher is better, means over claims.

    parts: which of these to compute.
    reference: ev2r_precision, ev2r_recall, ev2r_f1: share of the predicted facts that the
    reference evidence supports, of the reference facts that the predicted evidence supports, and
    their harmonic mean for each claim, as `judge` counts them (section 3.1).
    proxy: probability that a model trained on claims with gold evidence gives the gold verdict on
    the predicted evidence (section 3.2; theirs is DeBERTa). Needs `train`.
    ev2r: weight · ev2r_f1 + (1 − weight) · proxy (section 3.3), where both parts are computed.
    proxy_llm: share of the judge's runs that give the gold verdict on the predicted evidence.
    proxy_probability: probability of the gold verdict, of the four, that the judge gives it on the
    predicted evidence: exp of its log-probability (section 4.4), which not every engine can tell.
    reference_less: share of the claim's facts that the predicted evidence supports or contradicts
    (section 4.4).
    trained: TrainedSimilarity of predicted and reference evidence (section 4.4, BLEURT). Needs
    `train`.
    rouge_l, bleu, meteor: word overlap of both as one text; hungarian_meteor: as in 2024.

    The first 10 QAs count. A claim without prediction or evidence scores 0, for proxy what the
    model says without evidence. A reply that cannot be had or read leaves its claim out of the
    measures that need it, with a note. train: a file of claims with gold evidence, from which
    claims that are scored are dropped; null leaves out proxy, ev2r and trained, with a note.

    official: failed and unread replies count 0, as when the study correlated scores with ratings;
    but what no claim was judged for has no value.
    """

    judge: Judge | None
    parts: list[str]
    proxy: Step | None = None
    similarity: TrainedSimilarity | None = None
    train: Path | None = None
    weight: float = 0.5
    evidence_prompt: Path = Path("ev2r_evidence.txt")
    proxy_prompt: Path = Path("ev2r_proxy.txt")
    choice_prompt: Path = Path("ev2r_choice.txt")
    reference_less_prompt: Path = Path("ev2r_reference_less.txt")
    official: bool = False

    def __post_init__(self) -> None:
        known = (*JUDGED, *TRAINED, *OVERLAP)
        if unknown := [part for part in self.parts if part not in known]:
            raise ClaimflowError(
                f"No part '{unknown[0]}' of scorer ev2r.{nearest(unknown[0], known)} "
                f"Parts: {', '.join(known)}."
            )
        if not 0 <= self.weight <= 1:
            raise ClaimflowError(f"scorer.weight is {self.weight}: give 0 to 1.")
        needs: list[tuple[str, tuple[str, ...], Any]] = [
            ("judge", JUDGED, self.judge),
            ("proxy", ("proxy",), self.proxy),
            ("similarity", ("trained",), self.similarity),
        ]
        for name, parts, value in needs:
            if value is None and set(parts) & set(self.parts):
                raise ClaimflowError(f"scorer.{name} is null, and parts {parts} need one.")
        self.evidence_prompt = prompt_file(self.evidence_prompt, PROMPTS)
        self.proxy_prompt = prompt_file(self.proxy_prompt, PROMPTS)
        self.choice_prompt = prompt_file(self.choice_prompt, PROMPTS)
        self.reference_less_prompt = prompt_file(self.reference_less_prompt, PROMPTS)
        if self.train is not None:
            self.train = Path(self.train).absolute()
            if not self.train.is_file():
                raise ClaimflowError(f"scorer.train={self.train}: there is no such file.")

    def names(self) -> list[str]:
        absent = TRAINED if self.train is None else ()
        parts = {part for part in self.parts if part not in absent}
        facts = ("ev2r_precision", "ev2r_recall", "ev2r_f1")
        known = parts | set(facts if "reference" in parts else ())
        known |= {"ev2r"} if {"reference", "proxy"} <= parts else set()
        return [name for name in MEASURES if name in known]

    def measure(
        self,
        gold: list[Claim],
        predictions: list[Prediction],
        rankings: Rankings,
        ctx: Context | None = None,
    ) -> Scores:
        assert ctx  # JudgedScorer sees to it
        old = Averitec2024(draws=1).measure(gold, predictions, {})
        notes = list(old.notes)
        by_id = {claim.id: claim for claim in gold}
        claims = [by_id[row["id"]] for row in old.per_claim]
        given, _, _ = first_of_each(predictions, gold)
        pairs = [evidence.pairs_of(given[c.id].evidence) if c.id in given else [] for c in claims]
        rows: list[Row] = [{"id": claim.id} for claim in claims]
        problems: list[str] = []
        warnings: list[str] = []
        asked = {c.id for c, p in zip(claims, pairs, strict=True) if evidence.lines(p).strip()}
        if set(JUDGED) & set(self.parts):
            self._judged(rows, claims, pairs, ctx, problems, notes, warnings)
        if set(TRAINED) & set(self.parts):
            self._trained(rows, claims, given, pairs, ctx, notes)
        self._overlap(rows, claims, pairs, old)
        for row in rows:
            f1, proxy = row.get("ev2r_f1"), row.get("proxy")
            if f1 is not None and proxy is not None:
                row["ev2r"] = self.weight * f1 + (1 - self.weight) * proxy
            elif proxy is not None and "ev2r_f1" in row:
                row["ev2r"] = None
        unmeasured = unjudged(MEASURES, rows, asked, problems)
        kept: dict[str, list[str]] = {name: [] for name in MEASURES if name not in unmeasured}
        measures = measured(kept, rows, self.draws, self.seed)
        names = list(measures)
        return Scores(
            measures=measures,
            per_claim=[{"id": row["id"]} | {name: row.get(name) for name in names} for row in rows],
            tables={
                "by_label": breakdown(claims, rows, names, lambda claim: [claim.label or ""]),
                "by_type": breakdown(claims, rows, names, lambda claim: claim.types),
            },
            notes=notes,
            warnings=warnings,
            incomplete=bool(problems),
            unmeasured=unmeasured,
        )

    # Parts

    def _judged(
        self,
        rows: list[Row],
        claims: list[Claim],
        pairs: list[list[tuple[str, str]]],
        ctx: Context,
        problems: list[str],
        notes: list[str],
        warnings: list[str],
    ) -> None:
        assert self.judge
        texts = [evidence.lines(some) for some in pairs]
        some = [i for i, text in enumerate(texts) if text.strip()]

        def asked(mode: str, prompt: Path, choices: Sequence[str] = ()) -> list[Asked]:
            return [
                Asked(
                    id=claims[i].id,
                    mode=mode,
                    prompt=filled(
                        prompt,
                        claim=claims[i].text,
                        reference=evidence.lines(evidence.gold_pairs(claims[i])),
                        predicted=texts[i],
                        labels="\n".join(
                            f"{letter}. {label}"
                            for letter, label in zip(LETTERS, AVERITEC_LABELS, strict=True)
                        ),
                    ),
                    choices=list(choices),
                )
                for i in some
            ]

        nought: list[str] = []  # problems of what some claim was judged for

        def by_claim(found: list[list[T | None]], own: list[str]) -> dict[int, list[T | None]]:
            problems.extend(own)
            if any(value is not None for runs in found for value in runs):
                nought.extend(own)
            return dict(zip(some, found, strict=True))

        def ask(mode: str, prompt: Path, read: Callable[[str], T]) -> dict[int, list[T | None]]:
            assert self.judge
            own: list[str] = []
            return by_claim(self.judge.ask(asked(mode, prompt), read, ctx, own), own)

        def fill(name: str, found: dict[int, list[float | None]]) -> None:
            judged = any(value is not None for runs in found.values() for value in runs)
            for i, row in enumerate(rows):
                runs = found.get(i, [0.0])
                row[name] = mean([v or 0.0 for v in runs] if self.official and judged else runs)

        if "reference" in self.parts:
            facts = ask("evidence", self.evidence_prompt, both_sides)
            for name, value in (
                ("ev2r_precision", lambda f: f.precision),
                ("ev2r_recall", lambda f: f.recall),
                ("ev2r_f1", f1_of),
            ):
                fill(name, {i: [value(f) if f else None for f in r] for i, r in facts.items()})
        if "proxy_llm" in self.parts:
            said = ask("proxy", self.proxy_prompt, lambda r: read_label(r, AVERITEC_LABELS))
            fill(
                "proxy_llm",
                {i: [None if x is None else float(x == claims[i].label) for x in runs]
                 for i, runs in said.items()},
            )  # fmt: skip
        if "proxy_probability" in self.parts:
            questions = asked("proxy_probability", self.choice_prompt, LETTERS)
            own: list[str] = []
            chances = by_claim(self.judge.likely(questions, ctx, own), own)
            place = {label: n for n, label in enumerate(AVERITEC_LABELS)}
            fill(
                "proxy_probability",
                {i: [None if x is None else x[place[str(claims[i].label)]] for x in runs]
                 for i, runs in chances.items()},
            )  # fmt: skip
        if "reference_less" in self.parts:
            fill("reference_less", ask("reference_less", self.reference_less_prompt, read_coverage))
        if weak := control(self.judge, self.evidence_prompt, ctx):
            warnings.append(weak)
        notes += cost(ctx)
        modes = [mode for part, mode in MODES.items() if part in self.parts]
        notes += self.judge.remarks({claim.id for claim in claims}, modes)
        left_out = nought if self.official else problems
        notes += failures(left_out, nought=self.official)

    def _trained(
        self,
        rows: list[Row],
        claims: list[Claim],
        given: dict[str, Prediction],
        pairs: list[list[tuple[str, str]]],
        ctx: Context,
        notes: list[str],
    ) -> None:
        if self.train is None:
            left = [*(part for part in TRAINED if part in self.parts), "ev2r"]
            notes.append(
                f"Left out, as there are no claims to train on: {', '.join(left)}. Name a file "
                "with scorer.train=FILE."
            )
            return
        scored = {normalised(claim.text) for claim in claims}
        train = read_gold(self.train)
        kept = [claim for claim in train if normalised(claim.text) not in scored]
        if not kept:
            raise ClaimflowError(
                f"All {len(train)} claims of {self.train} are scored here, so that none is left to "
                "train on: name a training set with scorer.train=FILE, or leave it out."
            )
        if len(kept) < len(train):
            notes.append(
                f"{len(train) - len(kept)} of {len(train)} training claims are scored here and "
                "were dropped from training."
            )
        inner = Context(ctx.cache, kept, self.seed)
        if "proxy" in self.parts and self.proxy:
            cases = [
                Case(
                    claim=Claim(id=claim.id, text=claim.text),
                    evidence=given[claim.id].evidence[:10] if claim.id in given else [],
                )
                for claim in claims
            ]
            for row, claim, case in zip(rows, claims, self.proxy.run(cases, inner), strict=True):
                found = case.verdict.probabilities if case.verdict else {}
                row["proxy"] = found.get(str(claim.label), 0.0) if claim.id in given else 0.0
        if "trained" in self.parts and self.similarity:
            sides = [
                ([f"{q} {a}" for q, a in some],
                 [f"{q} {a}" for q, a in evidence.gold_pairs(claim)])
                for some, claim in zip(pairs, claims, strict=True)
            ]  # fmt: skip
            for row, value in zip(rows, self.similarity.score(sides, inner), strict=True):
                row["trained"] = value

    def _overlap(
        self, rows: list[Row], claims: list[Claim], pairs: list[list[tuple[str, str]]], old: Scores
    ) -> None:
        measures = {"rouge_l": overlap.rouge_l, "bleu": overlap.bleu, "meteor": overlap.meteor}
        wanted = {name: score for name, score in measures.items() if name in self.parts}
        for row, claim, some, before in zip(rows, claims, pairs, old.per_claim, strict=True):
            predicted, reference = (
                evidence.lines(side).replace("\n", " ")
                for side in (some, evidence.gold_pairs(claim))
            )
            row.update({name: score(predicted, reference) for name, score in wanted.items()})
            if "hungarian_meteor" in self.parts:
                row["hungarian_meteor"] = before["qa"]


def both_sides(reply: str) -> Facts:
    """Precision and recall; a reply must have the counts of both."""
    facts = read_facts(reply)
    if facts.precision is None:
        raise ReplyError("no counts of predicted facts in the reply")
    return facts


def f1_of(facts: Facts) -> float:
    """Harmonic mean of precision and recall; 0 when both are."""
    precision = facts.precision or 0.0
    total = precision + facts.recall
    return 2 * precision * facts.recall / total if total else 0.0
