"""AVeriTeC 2024 scoring beside plain NLTK and SciPy, on real submissions.

The plain form does what the official script does: tokenise both sides of every pair, score it
with NLTK, match with SciPy. It gets a part of the claims, to end within a minute; ours gets the
same part (and makes intervals and tables too). Words seen in the first hundred claims are known
in the next.
"""

from __future__ import annotations

import functools

from benchmarks.common import data, finish, row, timed
from components.assets import nltk_ready
from components.datasets.gold import read_gold
from components.datasets.submission import read_submission
from components.records import Claim, Prediction
from components.score import bootstrap
from components.score.averitec import averitec_2024, gold_strings
from components.score.meteor import meteor, tokens

PART = 100


def plain(predictions: list[Prediction], gold: list[Claim]) -> list[tuple[float, float]]:
    """(q, qa) of each claim by NLTK and SciPy."""
    import numpy as np
    from nltk.tokenize import word_tokenize
    from nltk.translate.meteor_score import single_meteor_score
    from scipy.optimize import linear_sum_assignment

    def match(predicted: list[str], wanted: list[str]) -> float:
        scores = np.zeros((len(predicted), len(wanted)))
        for i, hypothesis in enumerate(predicted):
            for j, reference in enumerate(wanted):
                scores[i, j] = single_meteor_score(
                    word_tokenize(reference), word_tokenize(hypothesis)
                )
        return float(scores[linear_sum_assignment(scores, maximize=True)].sum() / len(wanted))

    found = []
    for prediction, claim in zip(predictions, gold, strict=True):
        evidence = prediction.evidence[:10]
        q = match([e.question for e in evidence], [x.question for x in claim.questions])
        qa = match([f"{e.question} {e.answer}" for e in evidence], gold_strings(claim))
        found.append((q, qa))
    return found


def main() -> None:
    nltk_ready()
    gold = read_gold(data("averitec", "dev.json"))
    files = data("averitec", "predictions_dev")
    hero, other = (read_submission(files / f"{n}.json") for n in ("hero_8b", "baseline_2024"))

    # Data files are read by both before anything is timed against the other.
    _, loading = timed(lambda: plain(hero[:1], gold[:1]))
    rows = []
    for name, start in (("first", 0), ("next", PART)):
        part = slice(start, start + PART)
        slow, slow_seconds = timed(functools.partial(plain, hero[part], gold[part]))
        fast, fast_seconds = timed(functools.partial(averitec_2024, hero[part], gold[part]))
        worst = max(
            abs(ours[measure] - theirs)
            for ours, pair in zip(fast.per_claim, slow, strict=True)
            for measure, theirs in zip(("q", "qa"), pair, strict=True)
        )
        assert worst < 1e-9, f"scores differ by {worst}"
        rows.append(row(f"{name} {PART} claims, q and qa", fast_seconds, "s", slow_seconds))
    _, first = timed(lambda: averitec_2024(other, gold))
    _, again = timed(lambda: averitec_2024(other, gold))
    pairs = [
        (tokens(f"{e.question} {e.answer}"), tokens(text))
        for prediction, claim in zip(hero[:PART], gold[:PART], strict=True)
        for e in prediction.evidence
        for text in gold_strings(claim)
    ]
    _, meteors = timed(lambda: [meteor(*pair) for pair in pairs])
    truth = [claim.label for claim in gold]
    guess = [prediction.label for prediction in hero]
    labels = sorted(set(filter(None, truth)))
    _, intervals = timed(
        lambda: bootstrap.measure(
            bootstrap.f1(truth, guess, labels), bootstrap.resamples(len(truth), 1000, 13)
        )
    )
    finish(
        [
            *rows,
            row("500 claims of another system", first, "s"),
            row("the same 500 claims again", again, "s"),
            row("METEOR of a pair, tokens known", meteors / len(pairs) * 1e6, "us"),
            row("macro F1 interval, 500 claims, 1,000 draws", intervals, "s"),
            row("NLTK data read (both)", loading, "s"),
        ]
    )


if __name__ == "__main__":
    main()
