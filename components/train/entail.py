"""Labels of claim and abstract (SciFact): does a sentence of it support or contradict the claim?"""

from __future__ import annotations

import dataclasses
import itertools
import random
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from components.cache import key_of
from components.datasets.scifact import LABELS
from components.errors import ClaimflowError
from components.files import write_whole
from components.records import Claim, Document, Finding, Prediction, Record, encode
from components.step import Context, identity
from components.train.negatives import Negatives, Positives
from components.train.pairs import (
    ABOUT,
    CURVE,
    Candidates,
    CrossEncoder,
    Pair,
    PairTask,
    Trained,
    about,
    split,
)
from components.train.rerank import standardised
from components.train.trainer import Row, balanced, tune

if TYPE_CHECKING:
    import numpy as np

TASK = "nli"
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


@dataclasses.dataclass(kw_only=True)
class Entailment(PairTask):
    """A cross-encoder that reads a claim with one sentence: SUPPORT, CONTRADICT or NEI.

    It learns first, for `warm` passes, from entailment data at hand; then from the rationale
    sentences of the training claims, as often as there are passes in `epochs`, against sentences
    of the same abstracts that are no rationale and `sentences` ones of each abstract that
    `negatives` draws (ratio: abstracts for each one with evidence; Wadden et al. 2022). All three
    labels weigh alike in the loss, so that few positives don't drown.

    What is evidence, with which label, a `Decision` says: that of the highest F1 on the claims
    held out.
    """

    negatives: Negatives = dataclasses.field(default_factory=Negatives)
    sentences: int = 3

    def fit(
        self,
        train: list[Candidates],
        others: list[Labelled],
        documents: dict[str, Document],
        folder: Path,
        ctx: Context,
    ) -> Trained:
        """Learn and write the model into `folder`. others: the entailment data at hand."""
        from transformers import set_seed

        seed, trainer = ctx.seed_for(TASK), self.trainer
        set_seed(seed)
        kept, held = split(train, trainer, seed)
        tested = [train[i] for i in held]
        if not any(one.claim.gold for one in tested):
            raise ClaimflowError(
                f"{len(train)} training claims leave none with evidence to hold out: give more."
            )
        encoder = CrossEncoder(self.model, len(OUTPUTS), trainer.max_length)
        learned = [train[i] for i in kept]
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
        passes = [[encoder.row([pair[:2]], OUTPUTS.index(pair[2])) for pair in others]] * self.warm
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
            passes.append([encoder.row([pair[:2]], OUTPUTS.index(pair[2])) for pair in found])
        passes = [part for part in passes if part]
        rows: list[Row] = [
            encoder.row([pair[:2]], OUTPUTS.index(pair[2]))
            for one in tested
            for pair in annotated(one.claim, documents)
        ]
        model = self.wrap(encoder)
        checkpoints = ctx.cache.unfinished(key_of(identity(self), artifact.digest, seed))
        curve = tune(
            model,
            trainer.batches(passes, seed, packed=False),
            trainer.batches([rows], seed, packed=False),
            collate=encoder.batch,
            log_probabilities=lambda out: out.logits.float().log_softmax(-1),
            weights=balanced([row["labels"] for row in passes[-1]], 1.0, len(OUTPUTS)),
            settings=trainer,
            rate=self.rate,
            epochs=len(passes),
            seed=seed,
            folder=checkpoints,
            best="f1_macro",  # by accuracy, a model that says NEI of all is hard to beat
        )
        model.save_pretrained(folder)
        write_whole(folder / CURVE, encode(curve))
        trained = Trained(
            task=TASK,
            base=self.model.name,
            base_digest=identity(self.model),
            labels=list(OUTPUTS),
            max_length=trainer.max_length,
            negatives=artifact.digest,
        )
        scored = self.scores(encoder, tested, documents)
        decision, best = tuned(tested, scored)
        trained.decision = msgspec.structs.asdict(decision)
        trained.held_out = {"f1": best, "f1_argmax": f1(tested, scored, Decision())}
        write_whole(folder / ABOUT, encode(trained))
        shutil.rmtree(checkpoints, ignore_errors=True)
        return trained

    def load(self, folder: Path) -> tuple[CrossEncoder, Trained]:
        """The encoder that training wrote into `folder`, and how it is used."""
        trained = about(folder, TASK, self.model)
        return CrossEncoder(self.model, len(OUTPUTS), trained.max_length, folder), trained

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
                msgspec.structs.replace(finding, label=LABELS[int(second > decision.offset)])
                for finding, score, second in zip(
                    findings[: decision.depth],
                    decision.scores(one, findings),
                    odds(findings, *reversed(LABELS)),
                    strict=False,
                )
                if score > decision.threshold
            ],
        )
        for one, findings in zip(found, scored, strict=True)
    ]


def f1(found: list[Candidates], scored: list[list[Finding]], decision: Decision) -> float:
    """F1 of labelled abstracts, over all claims."""
    right = said = known = 0
    for one, prediction in zip(found, predictions(found, scored, decision), strict=True):
        gold = labels_of(one.claim)
        known += len(gold)
        said += len(prediction.findings)
        right += sum(gold.get(f.doc) == f.label for f in prediction.findings)
    return 2 * right / (said + known) if said + known else 0.0


def tuned(found: list[Candidates], scored: list[list[Finding]]) -> tuple[Decision, float]:
    """The decision of the highest F1, and that: each threshold between two scores is tried."""
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
    return chosen, best


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


def annotated(claim: Claim, documents: dict[str, Document]) -> list[Labelled]:
    """The sentences of a claim's gold abstracts: those of a rationale with its label (and all of
    a rationale as one text, where it has several), the others as NEI."""
    found: list[Labelled] = []
    labels = labels_of(claim)
    marked: dict[str, set[int]] = {doc: set() for doc in labels}
    for gold in claim.gold:
        places = sorted(n for _, n in gold.items if n is not None)
        doc = gold.items[0][0]
        marked[doc] |= set(places)
        if len(places) > 1:
            joined = " ".join(documents[doc].sentences[n] for n in places)
            found.append((claim.text, joined, str(gold.label)))
    for doc, label in labels.items():
        for n, sentence in enumerate(documents[doc].sentences):
            found.append((claim.text, sentence, label if n in marked[doc] else NONE))
    return found
