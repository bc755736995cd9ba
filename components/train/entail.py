"""Labels of claim and abstract (SciFact): does a sentence of it support or contradict the claim?"""

from __future__ import annotations

import dataclasses
import itertools
import math
import random
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import msgspec

from components.cache import key_of
from components.datasets.scifact import LABELS
from components.errors import ClaimflowError
from components.records import Case, Claim, Document, Finding, Prediction, Record, read_lines
from components.score.base import Measure
from components.step import Context, identity
from components.train.negatives import Negatives, Positives
from components.train.pairs import (
    Candidates,
    CrossEncoder,
    Pair,
    PairTask,
    Trained,
    candidates,
    corpus,
    split,
)
from components.train.rerank import standardised
from components.train.trainer import Row

if TYPE_CHECKING:
    import numpy as np

NONE = "NEI"
OUTPUTS = (*LABELS, NONE)
DEPTHS = (1, 2, 3, 5, 10)
WEIGHTS = (0.0, 0.25, 0.5, 0.75)
OFFSETS = (-2.0, -1.0, 0.0, 1.0, 2.0)
LEAST = 1e-9  # a probability of 0 has no logarithm
Labelled = tuple[str, str, str]  # claim, text, label


class Decision(Record):
    """When an abstract is evidence for a claim, and with which label.

    It is where it stands in the first `depth` of the ranking, and its score is above `threshold`:
    (1 - weight) times the log-odds that its best sentence is evidence, and weight times the
    retriever's score, standardised over the claim's candidates. It contradicts where
    log P(CONTRADICT) / P(SUPPORT) is above `offset`: training weighs the labels alike, and they
    are not as frequent.
    """

    threshold: float = 0.0
    depth: int = DEPTHS[-1]
    weight: float = 0.0
    offset: float = 0.0

    def scores(self, one: Candidates, findings: list[Finding]) -> list[float]:
        """The score of each of the first `depth` findings."""
        some = findings[: self.depth]
        first = standardised(one.scores) if some else []
        return [
            self.weight * retrieved - (1 - self.weight) * none
            for retrieved, none in zip(first, odds(some, NONE), strict=False)
        ]

    def labels(self, one: Candidates, findings: list[Finding]) -> list[str | None]:
        """The label of each finding; None: it is no evidence."""
        scores = self.scores(one, findings)
        found: list[str | None] = [
            LABELS[int(second > self.offset)] if score > self.threshold else None
            for score, second in zip(scores, odds(findings, *reversed(LABELS)), strict=False)
        ]
        return found + [None] * (len(findings) - len(found))


class Entailed(Record):
    """A line of the file `Entailment.also`; label: SUPPORT, CONTRADICT or NEI."""

    claim: str
    text: str
    label: str


@dataclasses.dataclass(kw_only=True)
class Entailment(PairTask):
    """A cross-encoder that reads a claim with one sentence: SUPPORT, CONTRADICT or NEI.

    It learns first, for `warm` passes, from other entailment data (also: a file of JSON lines with
    claim, text and label; None: none); then from the rationale
    sentences of the training claims, as often as there are passes in `epochs`, against sentences
    of the same abstracts that are no rationale and `sentences` ones of each abstract that
    `negatives` draws (ratio: abstracts for each one with evidence; Wadden et al. 2022). All three
    labels weigh alike in the loss, so that few positives don't drown.

    What is evidence, with which label, a `Decision` says: that of the highest F1 on the claims
    held out. A `threshold` that is given is of 1 - P(NEI), by the best sentence alone, and the
    label is the more probable one (.5 and a `depth` of 10: whatever is more probable than not, as
    without a held-out part). The first ten documents of a case are its findings, those that are no
    evidence without a label, so that average precision sees all.
    """

    reads: ClassVar = ("claim", "documents", "hits")
    writes: ClassVar = ("findings",)
    learns: ClassVar = ("claim", "documents", "hits")
    unlearned: ClassVar = ("threshold", "depth")
    task: ClassVar = "nli"
    does: ClassVar = "Says whether a sentence supports or contradicts a claim, or neither."
    outputs: ClassVar = OUTPUTS

    negatives: Negatives = dataclasses.field(default_factory=Negatives)
    sentences: int = 3
    also: Path | None = None
    threshold: float | None = None
    depth: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.also is not None:
            self.also = Path(self.also).absolute()

    def fit(self, train: list[Claim], folder: Path, ctx: Context) -> None:
        cases = ctx.cases(self)
        labels = {gold.label for claim in train for gold in claim.gold}
        if not labels & set(OUTPUTS):
            known = f", and here they are {', '.join(sorted(map(str, labels)))}" if labels else ""
            raise ClaimflowError(
                f"Entailment learns from abstracts labelled {', '.join(LABELS)}{known}: choose "
                "another verdict for this data set, or name a split with such labels by "
                "dataset.train_split=…"
            )
        found = [candidates(case) for case in cases]
        others = [
            (line.claim, line.text, line.label)
            for _, line in (read_lines(self.also, Entailed) if self.also else ())
        ]
        self.train(found, others, corpus(cases), folder, ctx)

    def train(
        self,
        train: list[Candidates],
        others: list[Labelled],
        documents: dict[str, Document],
        folder: Path,
        ctx: Context,
    ) -> Trained:
        """Learn and write the model into `folder`. others: the other entailment data."""
        from transformers import set_seed

        if wrong := {label for _, _, label in others} - set(OUTPUTS):
            raise ClaimflowError(f"{self.also} has the label {min(wrong)}: give {OUTPUTS}.")
        seed = ctx.seed_for(self.task)
        set_seed(seed)
        kept, held = split(train, self.trainer, seed)
        tested, learned = [train[i] for i in held], [train[i] for i in kept]
        if not all(any(labels_of(one.claim) for one in part) for part in (tested, learned)):
            raise ClaimflowError(
                f"Of {len(train)} training claims too few have abstracts that are marked as "
                "evidence to learn from some and hold out others: give more (trainer.limit), or "
                "a data set that has such marks, as dataset=scifact."
            )
        encoder = self.encoder()
        positives = [
            Positives(claim=one.claim.id, count=len(gold), gold=list(gold), ranking=one.docs)
            for one in learned
            if (gold := labels_of(one.claim))
        ]
        drawn, artifact = self.negatives.kept(
            positives, sorted(documents), self.epochs, seed, ctx.cache
        )
        rng = random.Random(seed)
        texts = {one.claim.id: one.claim.text for one in learned}

        def rows(pairs: list[Labelled]) -> list[Row]:
            return [encoder.row([pair[:2]], OUTPUTS.index(pair[2])) for pair in pairs]

        passes = [rows(others)] * self.warm if others else []
        for step in range(self.epochs):
            found = [pair for one in learned for pair in annotated(one.claim, documents)]
            for negative in drawn:
                if negative.step == step:
                    sentences = documents[negative.doc].sentences
                    some = rng.sample(sentences, min(self.sentences, len(sentences)))
                    found += [(texts[negative.claim], sentence, NONE) for sentence in some]
            for one in learned:  # what claims without evidence cite is related, and no evidence
                for doc in () if one.claim.gold else one.claim.relevant:
                    if doc in documents:
                        sentences = documents[doc].sentences
                        some = rng.sample(sentences, min(self.sentences, len(sentences)))
                        found += [(one.claim.text, sentence, NONE) for sentence in some]
            passes.append(rows(found))
        key = key_of(identity(self), artifact.digest, seed)
        trained = self.learn(
            encoder,
            passes,
            rows([pair for one in tested for pair in annotated(one.claim, documents)]),
            folder,
            ctx,
            seed=seed,
            key=key,
        )
        trained.negatives = artifact.digest
        scored = self.scores(encoder, tested, documents)
        decision = tuned(tested, scored)
        trained.threshold, trained.depth = decision.threshold, decision.depth
        trained.weight, trained.offset = decision.weight, decision.offset
        trained.held_out = {
            "f1": f1_measure(tested, scored, decision),
            "f1_argmax": f1_measure(tested, scored, Decision()),
        }
        data: dict[str, object] = {
            "trained on": f"{len(learned)} claims, {len(positives)} with evidence",
            "held out": f"{len(tested)} claims, with and without evidence alike, seed {seed}",
            "other entailment data": f"{len(others)} pairs",
        }
        self.finish(trained, folder, ctx, key, data)
        return trained

    def run(self, cases: list[Case], ctx: Context) -> list[Case]:
        encoder, trained = self.opened(ctx)
        decision = self.decision(trained)
        for case in cases:
            documents = {document.id: document for document in case.documents}
            one = candidates(case)
            [found] = self.scores(encoder, [one], documents)
            labels = decision.labels(one, found)
            case.findings = [
                msgspec.structs.replace(
                    finding,
                    label=label,
                    probabilities={x: round(finding.probabilities[x], 6) for x in LABELS},
                )
                for finding, label in zip(found, labels, strict=True)
            ]
        return cases

    def decision(self, trained: Trained) -> Decision:
        """That of the training, unless the settings have another."""
        if self.threshold is not None:
            odds = math.log(max(self.threshold, LEAST) / max(1 - self.threshold, LEAST))
            return Decision(threshold=odds, depth=self.depth or DEPTHS[-1])
        return Decision(
            threshold=trained.threshold,
            depth=self.depth or trained.depth,
            weight=trained.weight,
            offset=trained.offset,
        )

    def scores(
        self, encoder: CrossEncoder, found: list[Candidates], documents: dict[str, Document]
    ) -> list[list[Finding]]:
        """A finding for each of the first candidates of each claim, by its best sentence."""
        import numpy as np

        docs = [one.docs[: DEPTHS[-1]] for one in found]
        pairs: list[Pair] = [
            (one.claim.text, sentence)
            for one, some in zip(found, docs, strict=True)
            for doc in some
            for sentence in documents[doc].sentences
        ]
        logits = encoder.scores(pairs).astype(np.float64)
        powers = np.exp(logits - logits.max(axis=1, keepdims=True, initial=-np.inf))
        chances = powers / powers.sum(axis=1, keepdims=True)
        at = 0
        findings: list[list[Finding]] = []
        for some in docs:
            findings.append([])
            for doc in some:
                size = len(documents[doc].sentences)
                if size:
                    findings[-1].append(finding(doc, chances[at : at + size]))
                at += size
        return findings


def finding(doc: str, chances: np.ndarray) -> Finding:
    """What the best sentence says; chances (sentences, outputs)."""
    best = int(chances[:, -1].argmin())
    values = dict(zip(OUTPUTS, chances[best].tolist(), strict=True))
    label = max(LABELS, key=lambda name: values[name])
    return Finding(doc=doc, label=label, sentences=[best], probabilities=values)


def predictions(
    found: list[Candidates], scored: list[list[Finding]], decision: Decision
) -> list[Prediction]:
    """The findings that are evidence by the decision, with the label that it gives them."""
    return [
        Prediction(
            id=one.claim.id,
            claim=one.claim.text,
            evidence=[],
            label="",
            findings=[
                msgspec.structs.replace(finding, label=label)
                for finding, label in zip(findings, decision.labels(one, findings), strict=True)
                if label
            ],
        )
        for one, findings in zip(found, scored, strict=True)
    ]


def counts(
    found: list[Candidates], scored: list[list[Finding]], decision: Decision
) -> tuple[list[int], list[int], list[int]]:
    """(right, predicted, gold) labelled abstracts of each claim."""
    right, said, known = [], [], []
    for one, prediction in zip(found, predictions(found, scored, decision), strict=True):
        gold = labels_of(one.claim)
        known.append(len(gold))
        said.append(len(prediction.findings))
        right.append(sum(gold.get(f.doc) == f.label for f in prediction.findings))
    return right, said, known


def f1(found: list[Candidates], scored: list[list[Finding]], decision: Decision) -> float:
    """F1 of labelled abstracts, over all claims."""
    right, said, known = map(sum, counts(found, scored, decision))
    return 2 * right / (said + known) if said + known else 0.0


def f1_measure(found: list[Candidates], scored: list[list[Finding]], decision: Decision) -> Measure:
    """F1 with its 95 % interval, claims resampled."""
    from components.score import bootstrap

    right, said, known = counts(found, scored, decision)
    both = bootstrap.harmonic(bootstrap.ratio(right, said), bootstrap.ratio(right, known))
    return bootstrap.measure(both, bootstrap.resamples(len(found), 1000, 13))


def tuned(found: list[Candidates], scored: list[list[Finding]]) -> Decision:
    """The decision of the highest F1: each threshold between two scores is tried."""
    import numpy as np

    known = sum(len(labels_of(one.claim)) for one in found)
    best, chosen = -1.0, Decision()
    for weight, depth in itertools.product(WEIGHTS, DEPTHS):
        tried = Decision(weight=weight, depth=depth)
        scores = np.array(
            [s for o, f in zip(found, scored, strict=True) for s in tried.scores(o, f)]
        )
        second = np.array([x for some in scored for x in odds(some[:depth], *reversed(LABELS))])
        gold = np.array(
            [
                labels_of(one.claim).get(finding.doc, NONE)
                for one, some in zip(found, scored, strict=True)
                for finding in some[:depth]
            ]
        )
        order = np.argsort(-scores, kind="stable")
        for offset in OFFSETS:
            right = gold == np.where(second > offset, LABELS[1], LABELS[0])
            said = np.arange(1, len(order) + 1)
            values = 2 * right[order].cumsum() / (said + known)
            at = int(values.argmax())
            if values[at] > best:
                after = scores[order[at + 1]] if at + 1 < len(order) else scores[order[at]] - 1
                threshold = float(scores[order[at]] + after) / 2
                best = float(values[at])
                chosen = Decision(threshold=threshold, depth=depth, weight=weight, offset=offset)
    return chosen


def odds(findings: list[Finding], label: str, other: str | None = None) -> list[float]:
    """Log of P(label) / P(other) in each finding; without `other`, of P(label) / (1 - P(label))."""
    import numpy as np

    found = []
    for finding in findings:
        chance = finding.probabilities[label]
        beside = finding.probabilities[other] if other else 1 - chance
        found.append(float(np.log(max(chance, LEAST)) - np.log(max(beside, LEAST))))
    return found


def labels_of(claim: Claim) -> dict[str, str]:
    """The gold label of each abstract that has evidence."""
    return {doc: str(gold.label) for gold in claim.gold for doc, _ in gold.items}


def annotated(claim: Claim, documents: dict[str, Document], joined: bool = True) -> list[Labelled]:
    """The sentences of a claim's gold abstracts: those of a rationale with its label, the others as
    NEI. joined: also all of a rationale as one text, where it has several."""
    found: list[Labelled] = []
    labels = {doc: label for doc, label in labels_of(claim).items() if doc in documents}
    marked: dict[str, set[int]] = {doc: set() for doc in labels}
    for gold in claim.gold:
        places = sorted(n for _, n in gold.items if n is not None)
        doc = gold.items[0][0]
        if doc not in documents:
            continue
        marked[doc] |= set(places)
        if joined and len(places) > 1:
            text = " ".join(documents[doc].sentences[n] for n in places)
            found.append((claim.text, text, str(gold.label)))
    for doc, label in labels.items():
        for n, sentence in enumerate(documents[doc].sentences):
            found.append((claim.text, sentence, label if n in marked[doc] else NONE))
    return found
