"""What every scorer takes and gives back."""

from __future__ import annotations

import dataclasses
import math
from typing import Any, ClassVar, TypeAlias

import msgspec

from components.cache import Action, Cache, key_of
from components.errors import ClaimflowError
from components.records import Claim, Prediction, Record, decode
from components.step import Context, identity

Rankings: TypeAlias = dict[str, list[tuple[str, float]]]
"""{claim id: [(document id, score), …]}, best document first; the order counts, not the score."""

UNSCORED = "not scored by"  # how a run's note on a scorer begins that lacks something


class Measure(Record):
    """A figure with its 95 % bootstrap interval (claims resampled; percentile method).

    low and high are None where an interval makes no sense. formula: how it follows from per-claim
    rows (see components/score/formula.py); empty: as the mean of the column of its name.
    """

    value: float
    low: float | None = None
    high: float | None = None
    formula: list[str] = []


class Scores(Record):
    """Result of one scorer on one set of predictions.

    measures: name to figure; names are q, qa, score_at_0.25, accuracy, f1_macro, ndcg_at_10,
    recall_at_10, recall_at_100, mrr, ap …
    per_claim: one row a claim with its `id` and the values whose mean is the measure where it is
    a mean (paired tests between runs use these columns).
    notes: what a reader should know: claims without prediction, extra ones, quirks followed.
    warnings: what makes every figure mean something else, to be said before them.
    incomplete: something that may go well another time failed, so these are not kept in the cache.
    unmeasured: measures that were wanted and have no value, and why; `notes` say so as well.
    """

    measures: dict[str, Measure] = {}
    per_claim: list[dict[str, Any]] = []
    tables: dict[str, list[dict[str, Any]]] = {}  # breakdowns, confusion matrix
    notes: list[str] = []
    warnings: list[str] = []
    incomplete: bool = False
    unmeasured: dict[str, str] = {}


@dataclasses.dataclass(kw_only=True)
class Scorer:
    """Base of all scorers. All are called alike, with whatever a run has; `reads` says which of
    `predictions` and `rankings` one needs besides gold claims. A scorer writes `measure`.

    form: that of the predictions it reads (see components/score/fit.py).
    draws, seed: bootstrap resamples for the intervals, and their seed.
    """

    reads: ClassVar[tuple[str, ...]] = ("predictions",)
    form: ClassVar[str] = "AVeriTeC"

    draws: int = 1000
    seed: int = 13

    def score(
        self,
        gold: list[Claim],
        predictions: list[Prediction] | None = None,
        rankings: Rankings | None = None,
    ) -> Scores:
        """Score what was given against `gold`. Pairs by id, never by order; changes no input.

        Raises ClaimflowError when what the scorer reads was not given, is of another form, or is
        for other claims than those of `gold`.
        """
        return self.score_with(None, gold, predictions, rankings)

    def score_with(
        self,
        ctx: Context | None,
        gold: list[Claim],
        predictions: list[Prediction] | None = None,
        rankings: Rankings | None = None,
    ) -> Scores:
        """`score` with a cache at hand, which scorers that ask or train a model need."""
        from components.score.fit import check_form, check_ids, check_texts, remarks, warnings

        for kind, given in (("predictions", predictions), ("rankings", rankings)):
            if kind in self.reads and given is None:
                raise ClaimflowError(
                    f"This scorer needs {kind}, and got none: give {kind}=FILE, or score a "
                    f"pipeline that makes {kind}."
                )
        before: list[str] = []
        after: list[str] = []
        warned: list[str] = []
        if predictions is not None and "predictions" in self.reads:
            check_form(predictions, self.form)
            before = check_texts(predictions, gold)
            check_ids((p.id for p in predictions), gold, "predictions")
            after = remarks(predictions, gold, self.form)
            warned = warnings(predictions, gold, self.form)
        if rankings is not None and "rankings" in self.reads:
            check_ids(rankings, gold, "rankings")
        scores = self.measure(gold, predictions or [], rankings or {}, ctx)
        for why in dict.fromkeys(scores.unmeasured.values()):
            names = [name for name, reason in scores.unmeasured.items() if reason == why]
            before.append(f"No value for {', '.join(names)}: {why}.")
        notes = [*before, *scores.notes, *after]
        return msgspec.structs.replace(scores, notes=notes, warnings=[*warned, *scores.warnings])

    def names(self) -> list[str]:
        """The measures that it can give; for some claims there may be fewer."""
        raise NotImplementedError(type(self).__name__)

    def measure(
        self,
        gold: list[Claim],
        predictions: list[Prediction],
        rankings: Rankings,
        ctx: Context | None = None,
    ) -> Scores:
        """The scores of what `score` has checked; what the scorer does not read may be empty."""
        raise NotImplementedError(type(self).__name__)


def score_once(
    cache: Cache,
    scorer: Scorer,
    gold: list[Claim],
    predictions: list[Prediction] | None = None,
    rankings: Rankings | None = None,
) -> tuple[Scores, bool]:
    """(scores, whether they were in the cache): `scorer.score`, done once for equal input."""
    given = {"predictions": predictions, "rankings": rankings}
    key = key_of("score", identity(scorer), gold, [given[name] for name in scorer.reads])
    action = cache.lookup(key)
    if action:
        return decode(cache.get(action.outputs[0]) or b"", Scores), True
    scores = scorer.score_with(Context(cache, seed=scorer.seed), gold, predictions, rankings)
    for name, measure in list(scores.measures.items()):
        if not all(math.isfinite(x or 0) for x in (measure.value, measure.low, measure.high)):
            del scores.measures[name]  # JSON has no such number
            scores.unmeasured[name] = f"it is {measure.value}"
            scores.notes.append(f"No value for {name}: it is {measure.value}.")
    if not scores.incomplete:
        # Not `records.encode`: it sorts keys, and measures have an order to be read in.
        cache.record(key, Action(outputs=[cache.put(msgspec.json.encode(scores))]))
    return scores, False


def merged(scores: Scores, more: Scores) -> Scores:
    """Scores of several scorers as one; rows of one claim are joined."""
    rows: dict[str, dict[str, Any]] = {}
    for row in [*scores.per_claim, *more.per_claim]:
        rows.setdefault(str(row["id"]), {}).update(row)
    return Scores(
        measures={**scores.measures, **more.measures},
        per_claim=list(rows.values()),
        tables={**scores.tables, **more.tables},
        notes=[*scores.notes, *more.notes],
        warnings=list(dict.fromkeys([*scores.warnings, *more.warnings])),
        incomplete=scores.incomplete or more.incomplete,
        unmeasured={**scores.unmeasured, **more.unmeasured},
    )
