"""Runs side by side within groups of claims: by claim type, by fact-checking strategy."""

from __future__ import annotations

from components.records import Record
from components.report.claims import shared
from components.report.compare import Comparison
from components.score.base import Measure
from components.score.formula import formula_of

FEWEST = 10  # claims of a group that an interval is given for


class Group(Record, omit_defaults=False):
    """Runs on one measure within one group, over the claims that all runs have.

    difference: of the first two runs of `values`; its interval is paired, 95 %, by bootstrap, and
    not corrected for the number of groups.
    """

    kind: str
    group: str
    measure: str
    claims: int
    values: dict[str, float]
    difference: Measure


def groups_in(found: Comparison, pair: tuple[str, str], seed: int = 13) -> list[Group]:
    """Every group of every kind, large ones first, on the shown measures that are means over
    claims; `pair` first among the runs of each."""
    from components.score import bootstrap

    members = _members(found)
    weights: dict[int, bootstrap.Floats] = {}
    rows: list[Group] = []
    for measure in found.shown:
        names = [p.name for p in found.runs if measure in p.measures]
        formulas = {tuple(p.measures[measure].formula) for p in found.runs if p.name in names}
        if not {*pair} <= {*names} or {formula_of(measure, f) for f in formulas} != {
            ("mean", measure)
        }:
            continue
        own = shared(found, ("mean", measure))
        if not {*pair} <= own.keys():  # without values of single claims
            continue
        first, second = ({str(row["id"]): row[measure] for row in own[name]} for name in pair)
        others = [name for name in own if name not in pair]
        for (kind, group), ids in members.items():
            inside = [i for i in ids if i in first]
            if not inside:
                continue
            apart = bootstrap.mean([first[i] - second[i] for i in inside])
            n = len(inside)
            if n >= FEWEST:
                if n not in weights:
                    weights[n] = bootstrap.resamples(n, found.draws, seed)
                difference = bootstrap.measure(apart, weights[n])
            else:
                difference = Measure(value=apart.value)
            kept = {*inside}
            values = {
                name: sum(row[measure] for row in own[name] if str(row["id"]) in kept) / n
                for name in (*pair, *others)
            }
            rows.append(
                Group(
                    kind=kind,
                    group=group,
                    measure=measure,
                    claims=n,
                    values=values,
                    difference=difference,
                )
            )
    place = {key: n for n, key in enumerate(members)}
    return sorted(rows, key=lambda row: place[row.kind, row.group])


def _members(found: Comparison) -> dict[tuple[str, str], list[str]]:
    """Ids of claims by kind and group, large groups first within a kind."""
    members: dict[tuple[str, str], list[str]] = {}
    for id, kinds in found.groups().items():
        for kind, groups in kinds.items():
            for group in groups:
                members.setdefault((kind, group), []).append(id)
    place = {kind: n for n, kind in enumerate(dict.fromkeys(kind for kind, _ in members))}
    order = sorted(members, key=lambda key: (place[key[0]], -len(members[key])))
    return {key: members[key] for key in order}
