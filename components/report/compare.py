"""Runs side by side: intervals, paired tests of every pair, and how stable their order is.

All figures of a comparison are over the claims that all its runs have, resampled together.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from components.errors import ClaimflowError, listed, nearest
from components.records import Claim, Evidence, Record
from components.report.table import DECIDING, HEADINGS, LOWER_IS_BETTER, heading
from components.score.base import Measure
from components.score.formula import formula_of, over, statistic, usable
from components.score.ranks import Ranks
from components.score.rows import groups_of

if TYPE_CHECKING:
    from components.score.bootstrap import SumStatistic

SWAPS = 10_000  # of randomisation tests
MOST = 6  # runs in parts of a report with one matrix or curve a run
BARE = re.compile(r"[-+]?\.?\d[\d._]*(e[-+]?\d+)?|true|false|null", re.I)  # says little alone
LEVEL = re.compile(r"\w+_at_\d[\d.]*")  # measures at levels of one's own choice
SEED = "seed"  # the axis that makes no system of its own
ALL_PAIRS = 20  # more runs than this: only the best is tested against each


class Point(Record):
    """A run to compare.

    per_claim: rows with `id` and per-claim values by measure name. data: data set and split, where
    known. texts, groups (see `groups_of`), evidence: of claims by id, where known. seconds: what
    its stages took; compute: what its steps cost when they were computed, in seconds summed over
    workers, whether or not the cache had them.
    notes: what its scorers and flow had to say: claims without prediction, failed judge calls …
    warnings: what makes its figures mean something else, said before any of them.
    training: seconds and trained parameters of the steps that learned.
    official: whether it was scored with the official scorer's quirks, where that is known.
    named: whether `name` is one that the user gave it. sweep, choices, config: where a run is
    compared with those of other sweeps: the id of its own, its Hydra choices by group, its config.
    """

    name: str
    named: bool = False
    axes: dict[str, str] = {}
    source: str = ""
    data: str = ""
    measures: dict[str, Measure] = {}
    per_claim: list[dict[str, Any]] = []
    texts: dict[str, str] = {}
    groups: dict[str, dict[str, list[str]]] = {}
    evidence: dict[str, list[Evidence]] = {}
    seconds: dict[str, float] = {}
    compute: dict[str, float] = {}
    tokens: dict[str, float] = {}
    cache: dict[str, int] = {}
    notes: list[str] = []
    warnings: list[str] = []
    training: dict[str, dict[str, float]] = {}
    official: bool | None = None
    error: str | None = None
    sweep: str = ""
    choices: dict[str, str] = {}
    config: dict[str, Any] = {}

    @property
    def claims(self) -> int:
        """Over how many claims its costs are: those scored, else those it has predictions for."""
        return len(self.per_claim) or len(self.texts)

    def lasting(self) -> Point:
        """Without what differs each time that the same run is made: its place and its times."""
        return msgspec.structs.replace(self, source="", seconds={}, cache={}, notes=[])


class Contrast(Record):
    """A choice or setting in which runs differ: its value by the name of the run, where it has
    one."""

    setting: str
    values: dict[str, str]


class Pair(Record, omit_defaults=False):
    """Two runs on one measure: `first` (the one ahead on the primary measure) less `second`.

    low, high: 95 % paired bootstrap interval. p_…: two-sided, by paired bootstrap and by
    randomisation; holm_…: the same after Holm's correction over all pairs of the measure.
    significant: both of these are below .05. detectable: minimal detectable difference. ahead:
    share of resamples in which `first` is the better one; ties count half.
    """

    measure: str
    first: str
    second: str
    value: float
    low: float
    high: float
    p_bootstrap: float
    p_randomisation: float
    holm_bootstrap: float
    holm_randomisation: float
    significant: bool
    detectable: float
    ahead: float

    @property
    def p(self) -> float:
        """The larger of the two corrected p values."""
        return max(self.holm_bootstrap, self.holm_randomisation)

    @property
    def better(self) -> bool:
        """Whether the first run is the better one on this measure."""
        return self.value < 0 if self.measure in LOWER_IS_BETTER else self.value > 0


class Comparison(Record):
    """Runs compared; see `compare`.

    runs: best first on the primary measure. values: by measure and run. claims: how many claims a
    measure is over. pairs and ranks are there for measures that can be computed from rows.
    contrasts: what the runs were set to where they differ, unless their axes say it.
    """

    title: str
    primary: str
    shown: list[str]
    runs: list[Point]
    failed: list[Point] = []
    values: dict[str, dict[str, Measure]] = {}
    claims: dict[str, int] = {}
    pairs: list[Pair] = []
    ranks: dict[str, Ranks] = {}
    notes: list[str] = []
    contrasts: list[Contrast] = []
    gold: dict[str, Claim] = {}
    draws: int = 1000

    def pair(self, measure: str, one: str, other: str) -> Pair | None:
        """The test of two runs on a measure, whichever is first in it."""
        return next(
            (p for p in self.pairs if p.measure == measure and {p.first, p.second} == {one, other}),
            None,
        )

    def groups(self) -> dict[str, dict[str, list[str]]]:
        """The groups of each claim by id: of the gold file where there is one, else as runs say."""
        own = {i: kinds for point in reversed(self.runs) for i, kinds in point.groups.items()}
        return own | {i: groups for i, c in self.gold.items() if (groups := groups_of(c))}

    def label(self, name: str) -> str:
        """What a run is called in text: the name that the user gave it, else the values of its
        axes, where these tell the runs apart."""
        short = labels(self.runs)
        apart = all(short.values()) and len(set(short.values())) == len(short)
        return short[name] if apart else name

    def best_two(self) -> tuple[Point, Point] | None:
        """The best run and the best one beside it; of another setting, where there is one: that a
        seed is ahead of another says nothing of systems."""
        if len(self.runs) < 2:
            return None
        best, *others = self.runs
        known = self.values.get(self.primary, {})
        rivals = [point for point in others if point.name in known and not reseeded(best, point)]
        return best, (rivals or others)[0]

    @property
    def seeded(self) -> bool:
        """Whether some runs differ in their seed alone."""
        return any(reseeded(one, other) for one, other in itertools.combinations(self.runs, 2))

    def few(self, pair: tuple[str, str] | None) -> list[str]:
        """The best runs, at most MOST, the two of `pair` among them; best first."""
        names = [point.name for point in self.runs]
        kept = {*(pair or ()), *[n for n in names if n not in (pair or ())][: MOST - 2]}
        return [name for name in names if name in kept]

    def over(self, measure: str, run: str) -> int | None:
        """How many claims a figure is over, where these are not all that the runs share."""
        point = next(p for p in self.runs if p.name == run)
        n = self.claims.get(measure) or over(measure, self.values[measure][run], point.per_claim)
        whole = max(self.claims.values(), default=len(point.per_claim))
        return n if n and n != whole else None

    @property
    def tests(self) -> int:
        """How many pairs were tested on a measure: what Holm's correction is for."""
        return max((len(self.of(measure)) for measure in self.values), default=0)

    def of(self, measure: str) -> list[Pair]:
        """The pairs tested on a measure."""
        return [pair for pair in self.pairs if pair.measure == measure]


def reseeded(one: Point, other: Point) -> bool:
    """Whether two runs are one setting with two seeds."""
    rest = [{a: v for a, v in point.axes.items() if a != SEED} for point in (one, other)]
    return SEED in one.axes and SEED in other.axes and rest[0] == rest[1]


def labels(points: Sequence[Point]) -> dict[str, str]:
    """By name, the values of a run's axes, numbers with what they are of ("ratio 5, seed 0"); empty
    for a run without axes. Where the user gave names, these."""
    if any(point.named for point in points):
        return {point.name: point.name for point in points}
    axes = axes_of(points)
    short = short_axes(axes)
    bare = {a for point in points for a, value in point.axes.items() if BARE.fullmatch(value)}
    return {
        point.name: ", ".join(
            f"{short[a]} {point.axes[a]}" if a in bare else point.axes[a]
            for a in axes if a in point.axes
        )
        for point in points
    }  # fmt: skip


def axes_of(points: Sequence[Point]) -> list[str]:
    """The axes of runs, the seed last."""
    axes = dict.fromkeys(axis for point in points for axis in point.axes)
    return sorted(axes, key=lambda axis: axis == SEED)


def short_axes(axes: Sequence[str]) -> dict[str, str]:
    """By axis, the last part of its name, or the whole where two end alike."""
    last = {axis: axis.rpartition(".")[2] for axis in axes}
    ends = list(last.values())
    return {axis: end if ends.count(end) == 1 else axis for axis, end in last.items()}


def primary_of(points: Sequence[Point], wanted: str | None) -> str:
    """The measure that points are ranked by: `wanted` if any point has it, else the one that their
    task decides by, else the first."""
    known = dict.fromkeys(name for point in points for name in point.measures)
    return next((name for name in (wanted, *DECIDING, *known) if name in known), wanted or "")


def check_measures(
    own: Sequence[str], primary: str | None, shown: Sequence[str], whose: str = "these runs"
) -> None:
    """Raise ClaimflowError when `primary` is none of the measures `own`, or one of `shown` is
    none of any scorer either: of those that are wanted, runs may have some."""
    known = [*own, *HEADINGS]
    wrong = [f"primary={primary}"] if primary and primary not in own else []
    wrong += [f"shown={n}" for n in shown if n not in known and not LEVEL.fullmatch(n)]
    if not wrong:
        return
    key, _, name = wrong[0].partition("=")
    hint = nearest(name, own if key == "primary" else known)
    raise ClaimflowError(
        f"There is no measure '{name}' ({key}) of {whose}.{hint} "
        f"Measures: {', '.join(own) or 'none'}."
    )


def unlike(points: Sequence[Point]) -> str | None:
    """Why these runs can't be paired claim by claim, in words; None when they can."""
    points = [point for point in points if point.per_claim]
    if not points:
        return None
    first, *others = points
    rows = {str(row["id"]): row for row in first.per_claim}
    for point in others:
        if first.data and point.data and first.data != point.data:
            return f"{first.name} is on {first.data}, {point.name} on {point.data}"
        shared = [row for row in point.per_claim if str(row["id"]) in rows]
        if not shared:
            return f"{first.name} and {point.name} have no claim in common"
        for row in shared:
            labels = [rows[str(row["id"])].get("gold"), row.get("gold")]
            if None not in labels and labels[0] != labels[1]:
                return (
                    f"claim {row['id']} has the gold label {labels[0]} for {first.name} and "
                    f"{labels[1]} for {point.name}, so they were scored against different files"
                )
        texts = [(first.texts.get(i), point.texts.get(i)) for i in (str(r["id"]) for r in shared)]
        other = [a for a, b in texts if a and b and a.split() != b.split()]
        if 2 * len(other) > len(shared):  # a few may have been mended
            return f"the claims of {first.name} and {point.name} have the same ids but other texts"
    return None


def compare(
    title: str,
    points: list[Point],
    primary: str | None = None,
    shown: Sequence[str] = (),
    gold: dict[str, Claim] | None = None,
    draws: int = 1000,
    seed: int = 13,
) -> Comparison:
    """Compare runs on every measure that they have.

    A measure is computed, for each run that has it, on the claims that all these runs have; runs
    without per-claim rows keep their own figure and are not tested. Measures are tested for all
    pairs of runs, with `draws` resamples for intervals and at least as many for tests.
    """
    wanted, primary = primary, primary_of(points, primary)
    sign = -1 if primary in LOWER_IS_BETTER else 1
    runs = [point for point in points if not point.error]
    names = [*HEADINGS, *dict.fromkeys(m for point in runs for m in point.measures)]
    measures = [m for m in dict.fromkeys(names) if any(m in point.measures for point in runs)]
    found = Comparison(
        title=title,
        primary=primary,
        shown=[m for m in dict.fromkeys([primary, *shown]) if m in measures],
        runs=runs,
        failed=[point for point in points if point.error],
        values={m: {p.name: p.measures[m] for p in runs if m in p.measures} for m in measures},
        draws=draws,
        gold=gold or {},
    )
    if wanted and runs and wanted != primary:
        found.notes.append(
            f"These runs have no {heading(wanted)} (primary={wanted}): {heading(primary)} "
            f"({primary}) ranks them instead."
        )
    for one, other in itertools.combinations([p for p in runs if p.per_claim], 2):
        if one.per_claim == other.per_claim and one.axes == other.axes:
            found.notes.append(
                f"{one.name} and {other.name} have the same values on every claim: are they one "
                "system, given twice?"
            )
    quirky = [point.name for point in runs if point.official]
    if quirky and any(point.official is False for point in runs):
        found.notes.append(
            f"Scored with official=true: {listed(quirky)}; the others by the defined values. "
            "Score all of them alike: where the two rules part, figures differ by that alone."
        )
    reason = unlike(runs)
    if reason:
        found.notes.append(f"Not tested claim by claim: {reason}.")
    else:
        _resample(found, seed)
    values = found.values.get(primary, {})
    found.runs.sort(key=lambda p: -sign * values[p.name].value if p.name in values else 9e9)
    _orient(found)
    return found


def _resample(found: Comparison, seed: int) -> None:
    """Fill in values, intervals, pairs and ranks; measures on the same claims share the draws."""
    from components.score import bootstrap

    groups: dict[tuple[str, ...], dict[tuple[str, str], SumStatistic]] = {}
    reasons: dict[str, list[str]] = {}  # what is to be said, of which measures
    for name in found.values:
        figures, ids = _statistics(found, name, reasons)
        if figures:
            group = groups.setdefault(ids, {})
            group.update({(name, run): figure for run, figure in figures.items()})
    found.notes += [f"{text}: {listed(names)}." for text, names in reasons.items()]
    for ids, group in groups.items():
        members = list(group.values())
        pairs = _pairs(found, list(group))
        # Enough draws that Holm's correction leaves room for p < .05.
        draws = max(found.draws, SWAPS if pairs else 0)
        drawn = bootstrap.drawn(members, draws, seed)
        for (name, run), figure, values in zip(group, members, drawn, strict=True):
            point = next(p for p in found.runs if p.name == run)
            if len(ids) < sum(usable(row, _formula(point, name)) for row in point.per_claim):
                low, high = bootstrap.interval(values[: found.draws])
                found.values[name][run] = Measure(value=figure.value, low=low, high=high)
        by_chance = bootstrap.randomisation(members, pairs, SWAPS, seed) if pairs else []
        at = {key: i for i, key in enumerate(group)}
        for name in dict.fromkeys(name for name, _ in group):
            _tests(found, name, group, at, pairs, drawn, by_chance)
            _ranks(found, name, at, drawn)
            found.claims[name] = len(ids)


def _formula(point: Point, name: str) -> tuple[str, ...]:
    return formula_of(name, point.measures[name].formula)


def _statistics(
    found: Comparison, name: str, reasons: dict[str, list[str]]
) -> tuple[dict[str, SumStatistic], tuple[str, ...]]:
    """(statistic by run, ids of the claims that all of them have) of a measure."""

    def because(text: str) -> None:
        reasons.setdefault(text, []).append(name)

    rows: dict[str, dict[str, dict[str, Any]]] = {}
    formulas = {}
    without = []
    for point in found.runs:
        if name not in point.measures:
            continue
        formula = _formula(point, name)
        inside = {str(row["id"]): row for row in point.per_claim if usable(row, formula)}
        if inside:
            rows[point.name], formulas[point.name] = inside, formula
        else:
            without.append(point.name)
    if without:
        because(f"Not tested, for want of per-claim values of {listed(without)}")
    if len(set(formulas.values())) > 1:
        because("Not tested, because the runs compute it in different ways")
        return {}, ()
    if not rows:
        return {}, ()
    first, *others = rows.values()
    ids = tuple(i for i in first if all(i in other for other in others))
    if not ids:
        because("Not tested, because no claim is in all runs")
        return {}, ()
    fewer = [f"{run} ({len(own)})" for run, own in rows.items() if len(own) > len(ids)]
    if fewer:
        because(f"Only the {len(ids)} claims that all runs have count; more have {listed(fewer)}")
    return {run: statistic(formulas[run], [own[i] for i in ids]) for run, own in rows.items()}, ids


def _pairs(found: Comparison, keys: list[tuple[str, str]]) -> list[tuple[int, int]]:
    """Indexes of the pairs to test, measure by measure."""
    pairs = []
    best = _best(found)
    for _, group in itertools.groupby(enumerate(keys), lambda item: item[1][0]):
        members = list(group)
        for (i, (_, one)), (j, (_, other)) in itertools.combinations(members, 2):
            if len(members) <= ALL_PAIRS or best in (one, other):
                pairs.append((i, j))
    return pairs


def _best(found: Comparison) -> str:
    values = found.values.get(found.primary, {})
    sign = -1 if found.primary in LOWER_IS_BETTER else 1
    return max(values, key=lambda run: sign * values[run].value, default="")


def _tests(
    found: Comparison,
    name: str,
    group: dict[tuple[str, str], Any],
    at: dict[tuple[str, str], int],
    pairs: list[tuple[int, int]],
    drawn: Any,
    by_chance: list[float],
) -> None:
    from components.score import bootstrap

    keys = list(group)
    sign = -1 if name in LOWER_IS_BETTER else 1
    tested = [  # level to the last bits is level
        (keys[i][1], keys[j][1], (drawn[i] - drawn[j]).round(12), p)
        for (i, j), p in zip(pairs, by_chance, strict=True)
        if keys[i][0] == name
    ]
    differences = [
        bootstrap.difference(group[name, one].value - group[name, other].value, apart)
        for one, other, apart, _ in tested
    ]
    holm_bootstrap = bootstrap.holm([difference.p for difference in differences])
    holm_randomisation = bootstrap.holm([p for *_, p in tested])
    for n, (one, other, apart, p) in enumerate(tested):
        difference = differences[n]
        found.pairs.append(
            Pair(
                measure=name,
                first=one,
                second=other,
                value=difference.value,
                low=difference.low,
                high=difference.high,
                p_bootstrap=difference.p,
                p_randomisation=p,
                holm_bootstrap=holm_bootstrap[n],
                holm_randomisation=holm_randomisation[n],
                significant=max(holm_bootstrap[n], holm_randomisation[n]) < bootstrap.ALPHA,
                detectable=bootstrap.detectable(group[name, one], group[name, other], apart),
                ahead=float((sign * apart > 0).mean() + (apart == 0).mean() / 2),
            )
        )


def _ranks(found: Comparison, name: str, at: dict[tuple[str, str], int], drawn: Any) -> None:
    from components.score.ranks import rank_stability

    sign = -1 if name in LOWER_IS_BETTER else 1
    runs = sorted(
        (run for measure, run in at if measure == name),
        key=lambda run: -sign * found.values[name][run].value,
    )
    if len(runs) > 1:
        values = sign * drawn[[at[name, run] for run in runs]]
        found.ranks[name] = rank_stability(runs, values)


def _orient(found: Comparison) -> None:
    """Put the run that is ahead on the primary measure first in every pair."""
    place = {point.name: i for i, point in enumerate(found.runs)}
    for i, pair in enumerate(found.pairs):
        if place[pair.first] > place[pair.second]:
            found.pairs[i] = _turned(pair)
    found.pairs.sort(key=lambda p: (place[p.first], place[p.second]))


def _turned(pair: Pair) -> Pair:
    return msgspec.structs.replace(
        pair,
        first=pair.second,
        second=pair.first,
        value=-pair.value,
        low=-pair.high,
        high=-pair.low,
        ahead=1 - pair.ahead,
    )
