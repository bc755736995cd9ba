"""What perturbations do to measures, as in table 5 of the Ev2R study (Akhtar et al. 2024)."""

from __future__ import annotations

from typing import Any

from components.records import Record
from components.score.base import Scores
from components.score.perturb import ALTERING, PRESERVING, TESTS
from components.score.rows import mean

# Scores of a matching of QAs, which their order must not change.
MATCHING = ("q", "qa", "hungarian_meteor", "meteor_q", "meteor_qa")
SAME = 1e-9


class Effect(Record):
    """A measure before and after a perturbation.

    change: in per cent of the value before; None where that is 0. difference, low, high: of the
    claims' mean, after less before, with its 95 % bootstrap interval, where it is one.
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


def effects(
    before: Scores, after: dict[str, Scores], draws: int = 1000, seed: int = 13
) -> list[Effect]:
    """One for each perturbation and each measure that both have a value for."""
    found = []
    for test, scores in after.items():
        for name, measure in before.measures.items():
            if name not in scores.measures:
                continue
            old, new = measure.value, scores.measures[name].value
            low, high = _interval(before, scores, name, draws, seed)
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
                )
            )
    return found


def _interval(
    before: Scores, after: Scores, name: str, draws: int, seed: int
) -> tuple[float | None, float | None]:
    from components.score import bootstrap

    old, new = (
        {row["id"]: row[name] for row in scores.per_claim if row.get(name) is not None}
        for scores in (before, after)
    )
    ids = [id for id in old if id in new]
    if not ids:
        return None, None
    weights = bootstrap.resamples(len(ids), draws, seed)
    apart = bootstrap.measure(bootstrap.mean([new[id] - old[id] for id in ids]), weights)
    return apart.low, apart.high


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
