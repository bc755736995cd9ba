"""What perturbations do to measures, as in table 5 of the Ev2R study (Akhtar et al. 2024)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from components.errors import listed
from components.records import Record
from components.score.base import Scores
from components.score.formula import formula_of, statistic, usable
from components.score.perturb import ALTERING, PRESERVING, TESTS
from components.score.rows import mean

# Scores of a matching of QAs, which their order must not change.
MATCHING = ("q", "qa", "hungarian_meteor", "meteor_q", "meteor_qa")
SAME = 1e-9

_Rows: TypeAlias = dict[str, Mapping[str, Any]]


class Effect(Record):
    """A measure before and after a perturbation.

    before, after: over the same claims, those that have what the measure needs both times.
    change: in per cent of the value before; None where that is 0. difference, low, high: of the
    claims' mean, after less before, with its 95 % bootstrap interval, where it is one. claims: over
    how many; None where no row tells. lost: ids that have a value only before or only after.
    """

    test: str
    kind: str
    measure: str
    before: float
    after: float
    change: float | None
    difference: float
    low: float | None = None
    high: float | None = None
    claims: int | None = None
    lost: list[str] = []


def effects(
    before: Scores, after: dict[str, Scores], draws: int = 1000, seed: int = 13
) -> list[Effect]:
    """One for each perturbation and each measure that both have a value for, on some claim."""
    found = []
    for test, scores in after.items():
        for name in before.measures:
            if name not in scores.measures:
                continue
            formula = formula_of(name, before.measures[name].formula)
            first, second = _rows(before, formula), _rows(scores, formula)
            ids = [id for id in first if id in second]
            lost = [id for id in first | second if not (id in first and id in second)]
            if lost and not ids:
                continue
            old = _value(before, name, formula, first, ids)
            new = _value(scores, name, formula, second, ids)
            low, high = _interval(first, second, ids, formula, draws, seed)
            found.append(
                Effect(
                    test=test,
                    kind=TESTS[test].kind,
                    measure=name,
                    before=old,
                    after=new,
                    change=100 * (new - old) / old if old else None,
                    difference=new - old,
                    low=low,
                    high=high,
                    claims=len(ids) or None,
                    lost=lost,
                )
            )
    return found


def _rows(scores: Scores, formula: tuple[str, ...]) -> _Rows:
    """The rows that a measure is taken over, by claim."""
    return {str(row["id"]): row for row in scores.per_claim if usable(row, formula)}


def _value(
    scores: Scores, name: str, formula: tuple[str, ...], rows: _Rows, ids: list[str]
) -> float:
    """The measure over the claims `ids`, as it was given where these are all that it is over."""
    if len(ids) == len(rows):
        return scores.measures[name].value
    return float(statistic(formula, [rows[id] for id in ids]).value)


def _interval(
    old: _Rows, new: _Rows, ids: list[str], formula: tuple[str, ...], draws: int, seed: int
) -> tuple[float | None, float | None]:
    from components.score import bootstrap

    kind, column, *_ = formula
    if kind != "mean" or not ids:
        return None, None
    weights = bootstrap.resamples(len(ids), draws, seed)
    apart = [new[id][column] - old[id][column] for id in ids]
    found = bootstrap.measure(bootstrap.mean(apart), weights)
    return found.low, found.high


def uncompared(before: Scores, after: dict[str, Scores], found: list[Effect]) -> list[str]:
    """A line for each test and the measures that were compared over fewer claims than have a value,
    before or after, and one for those that no claim has both times."""
    lines = []
    for test, scores in after.items():
        fewer: dict[tuple[int, tuple[str, ...]], list[str]] = {}
        for effect in found:
            if effect.test == test and effect.lost:
                same = fewer.setdefault((effect.claims or 0, tuple(effect.lost)), [])
                same.append(effect.measure)
        lines += [
            f"{test}: {', '.join(names)} over the claims that have a value both before and after, "
            f"{claims} of {claims + len(lost)}; without {listed(lost)}."
            for (claims, lost), names in fewer.items()
        ]
        if apart := incomparable(before, scores, test, found):
            lines.append(f"{test}: no claim has a value of {', '.join(apart)} before and after.")
    return lines


def incomparable(before: Scores, after: Scores, test: str, found: list[Effect]) -> list[str]:
    """The measures that both have, but for no claim in common."""
    done = {effect.measure for effect in found if effect.test == test}
    return [name for name in before.measures if name in after.measures and name not in done]


def grid(found: list[Effect]) -> tuple[list[str], list[list[Any]]]:
    """(columns, rows) with the change in per cent of each measure: the altering tests of table 5
    and their average, its preserving ones and theirs, then the further tests."""
    measures = list(dict.fromkeys(effect.measure for effect in found))
    change = {(effect.test, effect.measure): effect.change for effect in found}
    seen = [test for test in TESTS.values() if any(e.test == test.name for e in found)]
    rows: list[list[Any]] = []
    for kind in (ALTERING, PRESERVING):
        tests = [test.name for test in seen if test.kind == kind and test.row]
        rows += [[kind, test, *(change.get((test, m)) for m in measures)] for test in tests]
        if tests:
            averages = (mean([change.get((test, m)) for test in tests]) for m in measures)
            rows.append([kind, "average", *averages])
    for test in seen:
        if not test.row:
            rows.append([test.kind, test.name, *(change.get((test.name, m)) for m in measures)])
    return ["kind", "test", *measures], rows


def order_check(before: Scores, after: Scores) -> tuple[bool, str]:
    """Whether another order of the QAs leaves every matching score of every claim as it is."""
    names = [name for name in MATCHING if name in before.measures]
    if not names:
        return True, "No matching score among the measures, so their order was not checked."
    new = {row["id"]: row for row in after.per_claim}
    apart = {
        row["id"]: max(abs(row[name] - new[row["id"]][name]) for name in names)
        for row in before.per_claim
    }
    worst = max(apart, key=apart.__getitem__)
    if apart[worst] <= SAME:
        return True, f"QAs in another order change no matching score ({', '.join(names)})."
    return False, (
        f"QAs in another order change a matching score, which must not be: claim {worst} by "
        f"{apart[worst]:.3g} ({', '.join(names)})."
    )


def repeats_report(found: list[Effect], repeating: int, claims: int) -> list[str]:
    """What Hungarian METEOR gains by repeated QAs, and what these predictions gain by theirs."""
    lines = []
    for effect in found:
        if effect.measure not in MATCHING or effect.test not in ("duplicates", "repeats_removed"):
            continue
        if effect.test == "duplicates":
            what = f"Every QA three times takes {effect.measure}"
        else:
            what = (
                f"{repeating} of {claims} claims repeat a question; without the repeats "
                f"{effect.measure} goes"
            )
        interval = (
            f" [{effect.low:+z.4f}, {effect.high:+z.4f}]"
            if effect.low is not None and effect.high is not None
            else ""
        )
        lines.append(
            f"{what} from {effect.before:z.4f} to {effect.after:z.4f} "
            f"({effect.difference:+z.4f}{interval})."
        )
    if lines:
        lines.append(
            "Hungarian METEOR rewards repeats, as one QA can then match several gold ones; only "
            "the first 10 QAs count, so who has 10 gains nothing by more."
        )
    return lines
