"""AVeriTeC 2024 scoring beside plain NLTK and SciPy, on real submissions.

The plain form does what the official script does: tokenise both sides of every pair, score it
with NLTK, match with SciPy. Ours makes intervals and tables besides, and goes first, so that no
word is known to it. `quick=yes` takes 100 claims.

The last rows show growth: the dev claims and train claims, whose QAs are those of ten other train
claims, so that the texts are real and none is scored twice.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from benchmarks.common import argument, data, finish, row, timed
from components.assets import nltk_ready
from components.datasets.gold import read_gold
from components.datasets.submission import read_submission
from components.records import AVERITEC_LABELS, Claim, Evidence, Prediction
from components.score import bootstrap
from components.score.averitec import averitec_2024, gold_strings, predicted_strings
from components.score.meteor import meteors

Pair = tuple[list[str], list[str]]


def pairs(predictions: list[Prediction], gold: list[Claim]) -> Iterator[tuple[str, Pair]]:
    """(measure, (predicted, gold)) of each claim."""
    for prediction, claim in zip(predictions, gold, strict=True):
        evidence = prediction.evidence[:10]
        asked = [e.question for e in evidence]
        yield "q", (asked, [question.question for question in claim.questions])
        yield "qa", (predicted_strings(prediction)[:10], gold_strings(claim))


def plain(predictions: list[Prediction], gold: list[Claim]) -> list[np.ndarray]:
    """METEOR matrices by NLTK; the matching by SciPy is done, and thrown away."""
    from nltk.tokenize import word_tokenize
    from nltk.translate.meteor_score import single_meteor_score
    from scipy.optimize import linear_sum_assignment

    found = []
    for _, (predicted, wanted) in pairs(predictions, gold):
        scores = np.zeros((len(predicted), len(wanted)))
        for i, hypothesis in enumerate(predicted):
            for j, reference in enumerate(wanted):
                scores[i, j] = single_meteor_score(
                    word_tokenize(reference), word_tokenize(hypothesis)
                )
        linear_sum_assignment(scores, maximize=True)
        found.append(scores)
    return found


def ours(predictions: list[Prediction], gold: list[Claim]) -> list[np.ndarray]:
    """The same matrices by `meteors`."""
    return meteors([pair for _, pair in pairs(predictions, gold)])


def many(dev: list[Claim], hero: list[Prediction]) -> tuple[list[Claim], list[Prediction]]:
    """2,214 claims with ten QAs each."""
    train = read_gold(data("averitec", "train.json"))
    bank = [
        [Evidence(question=q.question, answer=a.answer) for q in c.questions for a in q.answers]
        for c in train
    ]
    gold, guessed = list(dev), list(hero)
    for n, claim in enumerate(train[: 2214 - len(dev)]):
        others = (e for k in range(1, 40) for e in bank[(n * 31 + k * 17) % len(bank)])
        evidence = [e for _, e in zip(range(10), others, strict=False)]
        gold.append(claim)
        guessed.append(Prediction(id=claim.id, claim="", evidence=evidence, label="Refuted"))
    for n, (claim, prediction) in enumerate(zip(gold, guessed, strict=True)):
        claim.id = prediction.id = str(n)
    return gold, guessed


def command(predictions: Path) -> None:
    """The whole command, nothing in its cache."""
    with tempfile.TemporaryDirectory() as folder:
        gold = f"gold={data('averitec', 'dev.json')}"
        subprocess.run(
            [sys.executable, "-m", "flows.score", f"predictions={predictions}", gold],
            env={**os.environ, "CLAIMFLOW_CACHE": folder},
            stdout=subprocess.DEVNULL,
            check=True,
        )


def main() -> None:
    nltk_ready()
    dev = read_gold(data("averitec", "dev.json"))
    files = data("averitec", "predictions_dev")
    systems = {n: read_submission(files / f"{n}.json") for n in ("hero_8b", "baseline_2024")}
    take = slice(0, 100 if argument("quick") else None)
    gold, hero = dev[take], systems["hero_8b"][take]
    # NLTK's data are read by both before anything is timed.
    _, loading = timed(lambda: (plain(hero[:1], gold[:1]), ours(hero[:1], gold[:1])))
    scores, fast = timed(lambda: averitec_2024(hero, gold))
    slow_matrices, slow = timed(lambda: plain(hero, gold))
    worst, count = 0.0, 0
    for name, predictions in systems.items():
        theirs = slow_matrices if name == "hero_8b" else plain(predictions[take], gold)
        for a, b in zip(ours(predictions[take], gold), theirs, strict=True):
            worst, count = max(worst, float(np.abs(a - b).max(initial=0))), count + a.size
    assert worst < 1e-9, f"scores differ by {worst}"
    rows = [
        row(f"{len(gold)} claims x 10 QAs, q and qa, all levels", fast, "s", slow),
        row(f"largest difference to NLTK over {count} pairs", worst, "METEOR"),
        row("NLTK and its data read", loading, "s"),
        row(
            "the whole command, 500 claims", timed(lambda: command(files / "hero_8b.json"))[1], "s"
        ),
    ]
    columns = [[r[name] for r in scores.per_claim] for name in ("q", "qa", "accuracy")]
    truth = [str(claim.label) for claim in gold]
    guess = [prediction.label for prediction in hero]

    def intervals() -> None:
        weights = bootstrap.resamples(len(truth), 1000, 13)
        for column in columns * 3:  # nine means: q, qa, six levels, accuracy
            bootstrap.measure(bootstrap.mean(column), weights)
        for labels in (AVERITEC_LABELS, *((label,) for label in AVERITEC_LABELS)):
            bootstrap.measure(bootstrap.f1(truth, guess, labels), weights)

    rows.append(row("all intervals, 1,000 draws", timed(intervals)[1], "s"))
    large, guessed = many(dev, systems["hero_8b"])
    for part in (553, 1107, 2214):
        _, seconds = timed(lambda part=part: averitec_2024(guessed[-part:], large[-part:]))
        rows.append(row(f"{part} claims x 10 QAs", seconds, "s"))
    finish(rows, "quick")


if __name__ == "__main__":
    main()
