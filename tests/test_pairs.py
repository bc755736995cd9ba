"""Rerankers and labels of claim and abstract: data, decisions, training by seed, refusals."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from components.cache import Cache
from components.errors import ClaimflowError
from components.files import home
from components.records import (
    Answer,
    Case,
    Claim,
    Document,
    Evidence,
    Finding,
    GoldSet,
    Question,
)
from components.step import Context
from components.train import best_pairs
from components.train.best_pairs import TrainedBestPairs, gold_odds
from components.train.corruptions import Corruption, Corruptions
from components.train.entail import (
    Decision,
    Entailment,
    annotated,
    f1,
    finding,
    predictions,
    tuned,
)
from components.train.negatives import Negatives
from components.train.pairs import Candidates, CrossEncoder
from components.train.rerank import Reranker, best_weight, cloze_claims, ndcg, summed
from components.train.trainer import Training
from tests.test_tuned import files, models

__all__ = ["models"]  # a fixture
pytestmark = pytest.mark.skipif(not (home() / "models").is_dir(), reason="no models laid out")

TINY = Training(batch=4, held_out=0.25, threads=1, max_length=48, packing=False)
DOCUMENTS = {
    str(n): Document(id=str(n), title=f"Town {n}", sentences=[f"Fact {n}.", "More.", f"End {n}."])
    for n in range(12)
}


def candidates(n: int) -> Candidates:
    """A claim on document n, which the ranking has at its third place."""
    others = [str(i) for i in range(12) if i != n]
    docs = [*others[:2], str(n), *others[2:]]
    gold = [GoldSet(label=("SUPPORT", "CONTRADICT")[n % 2], items=[(str(n), 0), (str(n), 2)])]
    claim = Claim(id=str(n), text=f"Town {n} is so.", gold=gold, relevant=[str(n)])
    return Candidates(claim=claim, docs=docs, scores=[-float(i) for i in range(12)])


FOUND = [candidates(n) for n in range(12)]


def test_annotated_sentences() -> None:
    text = "Town 1 is so."
    assert annotated(FOUND[1].claim, DOCUMENTS) == [
        (text, "Fact 1. End 1.", "CONTRADICT"),  # the rationale, whole
        (text, "Fact 1.", "CONTRADICT"),
        (text, "More.", "NEI"),
        (text, "End 1.", "CONTRADICT"),
    ]


def test_an_abstract_is_judged_by_its_best_sentence() -> None:
    found = finding("7", np.array([[0.1, 0.1, 0.8], [0.2, 0.5, 0.3], [0.5, 0.1, 0.4]]))
    assert (found.doc, found.label, found.sentences) == ("7", "CONTRADICT", [1])
    assert found.probabilities == {"SUPPORT": 0.2, "CONTRADICT": 0.5, "NEI": 0.3}


def said(doc: str, support: float, contradict: float) -> Finding:
    values = {"SUPPORT": support, "CONTRADICT": contradict, "NEI": 1 - support - contradict}
    return Finding(doc=doc, probabilities=values)


def test_the_decision_is_that_of_the_highest_f1() -> None:
    found = FOUND[:2]  # claim 0 is supported by document 0, claim 1 contradicted by document 1
    scored = [
        [said("1", 0.3, 0.2), said("2", 0.3, 0.1), said("0", 0.6, 0.1)],
        [said("0", 0.3, 0.15), said("2", 0.05, 0.05), said("1", 0.2, 0.6)],
    ]
    decision = tuned(found, scored)
    assert f1(found, scored, decision) == 1
    assert decision.depth >= 3
    everything = Decision(threshold=-99)
    assert f1(found, scored, everything) == pytest.approx(2 * 2 / (6 + 2))
    assert f1(found, scored, Decision(threshold=-99, depth=1)) == 0
    [first, second] = predictions(found, scored, Decision(threshold=math.log(0.49 / 0.51), depth=2))
    assert [[f.doc for f in p.findings] for p in (first, second)] == [["1"], []]


def test_a_decision_weighs_the_ranking_and_offsets_the_label() -> None:
    [one], findings = FOUND[:1], [said("1", 0.5, 0.3), said("2", 0.7, 0.2)]
    alone = Decision().scores(one, findings)
    assert alone == pytest.approx([math.log(0.8 / 0.2), math.log(0.9 / 0.1)])
    half = Decision(weight=0.5).scores(one, findings)
    deviation = (143 / 12) ** 0.5  # of the scores 0 to -11, whose mean is -5.5
    assert half == pytest.approx(
        [(5.5 / deviation + alone[0]) / 2, (4.5 / deviation + alone[1]) / 2]
    )
    for offset, labels in ((0.0, ["SUPPORT"] * 2), (-1.0, ["CONTRADICT", "SUPPORT"])):
        [kept] = predictions([one], [findings], Decision(threshold=-99, offset=offset))
        assert [f.label for f in kept.findings] == labels
    assert predictions([one], [[]], Decision())[0].findings == []


def test_scores_in_a_sum() -> None:
    assert summed([1, 2, 3], [30, 20, 10], 0.0) == pytest.approx([-(1.5**0.5), 0, 1.5**0.5])
    assert summed([1, 2, 3], [30, 20, 10], 0.5) == pytest.approx([0, 0, 0])
    first = [[0.0] * 2 + [-1.0] + [-2.0] * 9]
    assert ndcg(FOUND[:1], first) == pytest.approx(1 / math.log2(4))
    right = [[0.0] * 2 + [1.0] + [0.0] * 9]
    assert best_weight(FOUND[:1], right) > 0
    assert ndcg(FOUND[:1], right) == 1


def test_cloze_claims_are_last_sentences() -> None:
    short = Document(id="s", sentences=["One.", "Two."])
    claims = cloze_claims([*DOCUMENTS.values(), short])
    assert len(claims) == 12
    assert (claims[3].text, claims[3].relevant) == ("End 3.", ["3"])


def fitted(kind: str, model: Path, folder: Path, cache: Path, seed: int = 13) -> Any:
    folder.mkdir()
    ctx = Context(Cache(cache), seed=seed)
    more: dict[str, Any] = {"model": model, "trainer": TINY, "rate": 1e-3, "epochs": 2, "warm": 1}
    if kind == "nli":
        pairs = [("It is so.", "It is so, indeed.", "SUPPORT"), ("It is.", "No.", "CONTRADICT")]
        step: Any = Entailment(negatives=Negatives(ratio=2), **more)
        return step, step.train(FOUND, pairs, DOCUMENTS, folder, ctx)
    step = Reranker(negatives=Negatives(ratio=3), **more)
    cloze = [
        Candidates(claim=c, docs=list(DOCUMENTS), scores=[0.0] * 12)
        for c in cloze_claims(list(DOCUMENTS.values()))
    ]
    return step, step.train(FOUND, cloze, DOCUMENTS, folder, ctx)


def asked(n: int) -> Claim:
    """A claim on one of two subjects, whose question and answer name it, too."""
    word = ("port", "bridge")[n % 2]
    question = Question(
        question=f"When was the {word} {n} opened?",
        answers=[Answer(answer=f"The {word} was opened in {n}.", answer_type="Extractive")],
    )
    return Claim(id=str(n), text=f"The {word} {n} is open.", label="Refuted", questions=[question])


def test_pairs_that_fit_the_claim_stay(models: Path, tmp_path: Path) -> None:
    more: dict[str, Any] = {"model": models / "bert", "trainer": TINY, "rate": 1e-3, "epochs": 2}
    step = TrainedBestPairs(corruptions=Corruptions(ratio=3), k=2, **more)
    claims = [asked(n) for n in range(12)]
    weights = []
    for name in ("a", "b"):
        ctx = Context(Cache(tmp_path / name), train=claims, seed=13)
        cases = [
            Case(
                claim=claims[0],
                evidence=[Evidence(question=q, answer=f"{q} yes.") for q in ("A?", "B?", "A?")],
            ),
            Case(claim=claims[1]),
        ]
        done = step.run(cases, ctx)
        folder = Path(ctx.model(step).path)
        weights.append(files(folder))
    assert weights[0] == weights[1]
    known = json.loads((folder / "pairs.json").read_text("utf-8"))
    assert known["labels"] == ["corrupted", "gold"]
    assert known["negatives"]
    assert 0 <= known["held_out"]["hits_at_1 among its corruptions"]["value"] <= 1
    [kept, none] = [case.evidence for case in done]
    assert none == []
    encoder, _ = step.opened(ctx)
    odds = gold_odds(encoder, [(claims[0].text, f"{q} {q} yes.") for q in ("A?", "B?")])
    assert [pair.question for pair in kept] == (["A?"] * 2 if odds[0] > odds[1] else ["B?", "A?"])


def test_pairs_stand_above_their_corruptions_or_not(
    models: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gold = [("c", "q", "a"), ("c", "r", "b"), ("d", "s", "e")]
    against = [
        Corruption(of=0, step=0, part="claim", triple=("d", "q", "a")),
        Corruption(of=0, step=0, part="answer", triple=("c", "q", "b")),
        Corruption(of=1, step=0, part="answer", triple=("c", "r", "a")),
        Corruption(of=2, step=0, part="claim", triple=("c", "s", "e")),
    ]
    said = {"q a": 1.0, "r b": 0.0, "s e": 2.0, "q b": 1.5, "r a": -1.0}
    odds = {("d", "q a"): 0.0, ("c", "s e"): 2.0}
    monkeypatch.setattr(
        best_pairs, "gold_odds", lambda _, pairs: [odds.get(p, said[p[1]]) for p in pairs]
    )
    # Of claim c the second pair stands above its corruption, the first below one; d's is equal.
    assert best_pairs.hits(None, gold, against).value == pytest.approx(1 / 3)  # type: ignore[arg-type]


def test_pairs_need_gold_questions(models: Path, tmp_path: Path) -> None:
    more: dict[str, Any] = {"model": models / "bert", "trainer": TINY}
    with pytest.raises(ClaimflowError, match="k of at least 1"):
        TrainedBestPairs(k=0, **more)
    bare = [Claim(id=str(n), text=f"Claim {n}.", label="Refuted") for n in range(4)]
    ctx = Context(Cache(tmp_path), train=bare)
    with pytest.raises(ClaimflowError, match="0 training claims have gold questions and answers"):
        TrainedBestPairs(**more).run([Case(claim=bare[0])], ctx)


@pytest.mark.parametrize("kind", ["nli", "reranker"])
def test_trained_by_seed_and_used_from_the_folder(kind: str, models: Path, tmp_path: Path) -> None:
    step, trained = fitted(kind, models / "bert", tmp_path / "a", tmp_path / "cache")
    assert files(tmp_path / "a").keys() >= {"model.safetensors", "pairs.json", "curve.json"}
    (tmp_path / "new").touch()  # others may read the weights as they may read any file
    assert (tmp_path / "a/model.safetensors").stat().st_mode == (tmp_path / "new").stat().st_mode
    fitted(kind, models / "bert", tmp_path / "b", tmp_path / "other")
    assert files(tmp_path / "a") == files(tmp_path / "b")
    scored = step.scores(step.load(tmp_path / "a")[0], FOUND, DOCUMENTS)
    assert [len(scores) for scores in scored] == [10 if kind == "nli" else 12] * 12
    assert trained.negatives
    step.model = models / "other"
    with pytest.raises(ClaimflowError, match=rf"was trained for {kind} on bert .* on other"):
        step.load(tmp_path / "a")
    with pytest.raises(ClaimflowError, match=r"no pairs\.json"):
        step.load(tmp_path)


@pytest.mark.parametrize("name", ["bert", "llama"])
def test_a_claim_is_cut_only_where_it_leaves_no_half_to_the_text(name: str, models: Path) -> None:
    encoder = CrossEncoder(models / name, 1, 33)

    def counts(claim: int, text: int) -> tuple[int, int]:
        """Words of claim and text that are kept."""
        ids = encoder.row([("one " * claim, "two " * text)], 0)["input_ids"]
        assert len(ids) <= 33
        read = encoder.tokenizer.decode(ids).split()
        return read.count("one"), read.count("two")

    assert sum(counts(99, 2)) > sum(counts(2, 2))
    assert counts(99, 2)[1] == counts(2, 2)[1] == 2
    for words in (40, 99):  # longer than a pair may be, as the last sentence of a document
        claim, text = counts(words, 99)
        assert claim >= 10
        assert text >= 14
    claim, text = counts(9, 99)
    assert claim == 9
    assert text >= 16
    assert encoder.scores([("one " * 99, "two " * 99)]).shape == (1, 1)


def test_a_causal_model_reads_the_claim_last(models: Path, tmp_path: Path) -> None:
    """Padding and companions change nothing; of a text that is too long its end is cut."""
    encoder = CrossEncoder(models / "llama", 1, 24)
    pairs = [("Town 1 is so.", "Yes."), ("Town 2 is so.", "It is not known. " * 20)]
    together = encoder.scores(pairs)
    alone = np.concatenate([encoder.scores([pair]) for pair in pairs])
    assert together == pytest.approx(alone, abs=1e-6)
    ids = encoder.row([pairs[1]], 0)["input_ids"]
    assert len(ids) == 24
    assert encoder.tokenizer.decode(ids).endswith("\nClaim: Town 2 is so.\n")
    # Trained whole and read back, padding and all.
    step, _ = fitted("reranker", models / "llama", tmp_path / "a", tmp_path / "cache")
    again, _ = step.load(tmp_path / "a")
    assert again.causal
    assert again.scores(pairs).shape == (2, 1)
    assert again.scores(pairs) == pytest.approx(
        np.concatenate([again.scores([pair]) for pair in pairs]), abs=1e-6
    )
