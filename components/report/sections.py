"""The content of a comparison's report: findings in words, tables, and which plots and claims."""

from __future__ import annotations

from components.errors import listed
from components.records import Record
from components.report import claims as by_claim
from components.report.claims import Differing
from components.report.compare import (
    ALL_PAIRS,
    SWAPS,
    Comparison,
    Pair,
    Point,
    axes_of,
    labels,
    short_axes,
)
from components.report.groups import FEWEST, Group, groups_in
from components.report.table import figure, heading, learned
from components.score.base import UNSCORED

COST_UNKNOWN = "not known, as files of predictions say nothing of what they cost to make."
MATRIX = 10  # more runs than this: pairs stand in pairs.csv alone
KINDS = {
    "first": "Only {0} right",
    "second": "Only {1} right",
    "neither": "Both wrong, differently",
}


class Table(Record):
    """A table. marks: for each row how dark its cells are (0 to 1), where they are shaded."""

    columns: list[str]
    rows: list[list[str]]
    caption: str = ""
    words: int = 1  # columns of words, on the left
    marks: list[list[float]] = []


class Section(Record):
    """A part of the report. fold: the tables say what the plot shows, so the page folds them."""

    title: str
    text: list[str] = []
    plot: str = ""  # name of a figure
    caption: str = ""
    tables: list[Table] = []
    fold: bool = False
    claims: list[tuple[str, list[Differing]]] = []  # kind, claims


def two_of(found: Comparison, wanted: tuple[str, str] | None) -> tuple[str, str] | None:
    """The two runs to look at closely, the better one first: those wanted, else the best two."""
    if not wanted:
        return (two[0].name, two[1].name) if (two := found.best_two()) else None
    names = [point.name for point in found.runs if point.name in wanted]
    return (names[0], names[1]) if len(names) > 1 else None


def sections(
    found: Comparison, pair: tuple[str, str] | None, claims: int, plots: set[str]
) -> list[Section]:
    """The content of the report."""
    parts = [
        Section(title="Finding", text=[*warnings(found), *finding(found), *found.notes]),
        Section(
            title="Runs",
            tables=[leaderboard(found)],
            plot="measures",
            caption="Values with 95 % intervals; the best of each measure in orange, where not all "
            "runs are level.",
        ),
    ]
    if found.contrasts:
        parts.append(Section(title="What differs", tables=[_contrasts(found)]))
    if found.failed:
        parts.append(Section(title="Failed runs", text=failures(found)))
    if any(point.notes for point in found.runs):
        parts.append(Section(title="What to know of the runs", text=remarks(found)))
    if pair:
        counts = by_claim.agreement(found, *pair)
        optional = [
            _measures(found, *pair) if any(found.pair(m, *pair) for m in found.values) else None,
            _ranks(found) if found.primary in found.ranks and len(found.runs) > 2 else None,
            _labels(found, pair, counts) if counts else None,
            _questions(found, pair),
            *_groups(found, pair),
            _calibration(found, pair),
            _learned(found),
            _cost(found),
            Section(title="How to read this", text=_reading(found)) if found.values else None,
            _claims(found, pair, claims),
            _evidence(found, pair, claims),
        ]
        parts += [part for part in optional if part]
    for part in parts:
        if part.plot not in plots:
            part.plot = part.caption = ""
            part.fold = False
    return parts


# Words


def finding(found: Comparison) -> list[str]:
    """What the comparison says on the primary measure, in a few sentences."""
    runs = [point for point in found.runs if point.name in found.values.get(found.primary, {})]
    if len(runs) < 2:
        if found.failed and not found.runs:
            return [f"**All {len(found.failed)} runs failed**: nothing is compared."]
        if not found.values:
            return _unscored(found)
        if len(found.runs) == 1:
            return [f"Only {found.label(found.runs[0].name)} has results: nothing is compared."]
        return [f"No two runs have {heading(found.primary)}: nothing is compared on it."]
    name, values = heading(found.primary), found.values[found.primary]
    two = found.best_two() or (runs[0], runs[1])
    pair = found.pair(found.primary, two[0].name, two[1].name)
    best, second = (found.label(point.name) for point in two)
    one, other = (values[point.name].value for point in two)
    digits = agreeing(one, other)
    if not pair:
        return [
            f"**{best}** has the best {name}, {one:z.{digits}f} against "
            f"{other:z.{digits}f} of **{second}**; "
            "whether that could be chance was not tested (see the notes)."
        ]
    n = found.claims[found.primary]
    tests = (
        f"p {p_text(pair.p_bootstrap)} by paired bootstrap, {p_text(pair.p_randomisation)} by "
        "randomisation" + (f", {p_text(pair.p)} after Holm's correction" if found.tests > 1 else "")
    )
    ahead = f"{best} is ahead in {_percent(pair.ahead)} of resamples."
    if pair.value:
        lines = [
            f"**{best} is ahead of {second}** on {name}: {one:z.{digits}f} against "
            f"{other:z.{digits}f}, a difference of **{abs(pair.value):z.{digits}f}** "
            f"({_between(pair, digits)}) over **{n} claims**. The difference is "
            f"**{'significant' if pair.significant else 'not significant'}** ({tests}); {ahead}"
        ]
    else:
        lines = [
            f"**{best} and {second} are level** on {name}: {one:z.3f} each, a difference of "
            f"{pair.value:z.3f} ({_between(pair)}) over **{n} claims** ({tests}); {ahead}"
        ]
    power = (
        f"The **minimal detectable difference** on these {n} claims is {pair.detectable:z.3f}: a "
        f"test{' at .05, before any correction,' if found.tests > 1 else ''} finds a true "
        "difference of that size between the two four times out of five."
        if pair.detectable
        else "They are alike on every claim, so what difference could be found here is not known."
    )
    if pair.value and not pair.significant and len(runs) == 2:
        needed = n * (pair.detectable / pair.value) ** 2
        power += f" To find one as small as that seen here takes about {needed:,.0f} claims."
    lines.append(power)
    if found.contrasts:
        parts = [row.setting for row in found.contrasts]
        if len(runs) == 2:
            parts = [
                f"{row.setting} ({' – '.join(row.values.get(point.name, 'none') for point in two)})"
                for row in found.contrasts
            ]
        whose = "They" if len(runs) == 2 else "The runs"
        lines.append(f"{whose} differ in {listed(parts, 6)}: see What differs.")
    lines += _baseline(found)
    if len(runs) == 2:
        others = [p for p in found.pairs if p.measure != found.primary]
        won = [heading(p.measure) for p in others if p.significant and p.better]
        lost = [heading(p.measure) for p in others if p.significant and not p.better]
        even = [heading(p.measure) for p in others if not p.significant]
        pairs = {p.measure for p in found.pairs}
        untested = [heading(m) for m, v in found.values.items() if len(v) == 2 and m not in pairs]
        if others:
            lines.append(
                f"Of the {len(others)} other measures{' that were tested' if untested else ''}, "
                f"{best} is significantly better on {len(won) or 'none'}, worse on "
                f"{len(lost) or 'none'}{_names(lost)}; on {len(even) or 'none'} the two can't be "
                f"told apart{_names(even)}."
            )
        if untested:
            lines.append(f"Not tested (see the notes): {listed(untested, 5)}.")
    else:
        level = [found.label(p.name) for p in runs if values[p.name].value == one]
        if len(level) > 2:
            lines.append(f"{len(level)} runs share this value: {'; '.join(level)}.")
        tested = [p for p in found.of(found.primary) if p.first == pair.first]
        even_with = [found.label(p.second) for p in tested if not p.significant]
        ahead_of = len(tested) - len(even_with)
        lines.append(
            f"{best} is significantly better than {ahead_of if even_with else 'all'} of the other "
            f"{len(tested)} runs"
            + (f"; not told apart from it: {'; '.join(even_with)}." if even_with else ".")
            if ahead_of
            else f"None of the other {len(tested)} runs can be told apart from {best}: choose by "
            "another measure, by cost, or on more claims."
        )
    if qas := by_claim.repeats(found, 0.25):
        given = [f"{found.label(p.name)} {qas[p.name].qas:.1f}" for p in two if p.name in qas]
        lines.append(f"QAs a claim: {', '.join(given)}.")
    return [*lines, _cost_line(found, [point.name for point in two])]


def _unscored(found: Comparison) -> list[str]:
    """That no run has a measure, and why: claims have no gold, say."""
    notes = dict.fromkeys(note for point in found.runs for note in point.notes)
    why = "; ".join(note for note in notes if note.startswith(UNSCORED))
    return [f"**No run has a measure, so nothing is compared**{why and f': {why}'}."]


def _baseline(found: Comparison) -> list[str]:
    """What always giving the commonest label would score, and who does no better."""
    always = by_claim.majority(found)
    if not always:
        return []
    figures = [f"{heading(m)} {v.value:z.3f}" for m, v in always.measures.items()]
    line = f"Majority baseline: always answering {always.label} has {' and '.join(figures)}"
    for measure, own in always.measures.items():
        values = found.values[measure]
        below = [n for n, v in values.items() if v.value <= own.value]
        if below:
            named = ", ".join(f"{found.label(n)} ({values[n].value:z.3f})" for n in below)
            line += f"; no better on {heading(measure)}: **{named}**"
    return [line + "."]


def _cost_line(found: Comparison, names: list[str]) -> str:
    """What the best two cost, where it is known."""
    if not _timed(found):
        return f"Cost: {COST_UNKNOWN}"
    parts = []
    for point in (p for p in found.runs if p.name in names):
        claims = max(point.claims, 1)
        tokens = sum(point.tokens.get(f"{kind}_tokens", 0) for kind in ("prompt", "completion"))
        seconds = sum(point.compute.values()) / claims
        spent = f"{seconds:z.3f} s" if point.compute else "an unknown time"
        spent += f" and {tokens / claims:,.0f} tokens" if tokens else ""
        parts.append(f"{found.label(point.name)} {spent}")
    return f"Cost a claim when computed, with loading models, of all workers: {'; '.join(parts)}."


def _names(names: list[str]) -> str:
    return f" ({', '.join(names)})" if names else ""


def _reading(found: Comparison) -> list[str]:
    tests = max(found.tests, 1)
    every = len(found.runs) <= ALL_PAIRS
    seeds = ", seeds of one setting among them" if found.seeded else ""
    return [
        f"**Intervals** are 95 % percentile bootstrap intervals: the claims are drawn again with "
        f"replacement, {found.draws:,} times. All runs share the draws. **Differences** are paired "
        f"(same claims), with {max(SWAPS, found.draws):,} draws.",
        f"**p** is two-sided, of the paired bootstrap and of a randomisation test ({SWAPS:,} "
        "random swaps of each claim's two outcomes; all of them where there are no more). Both are "
        f"corrected after Holm for {tests} {'pair' if tests == 1 else 'pairs'} of runs"
        f"{'' if every else ' (the best against each)'}{seeds}; **significant** means that both "
        "are below .05. They are not corrected for the number of measures: choose the one that "
        "decides before looking.",
        "**Detectable** is the minimal detectable difference: the smallest true difference that a "
        "two-sided test at .05 finds with power .8 on this many claims, 2.80 standard errors of "
        "the paired difference (its standard deviation over claims by the root of their number; "
        "for figures that are no mean, such as F1, its standard deviation over resamples); none "
        "where the two are alike on every claim. **n**: over how many claims a figure is, where "
        "these are not all. **Ahead "
        "in**: share of resamples in which the first run is ahead; ties count half.",
    ]


def failures(found: Comparison) -> list[str]:
    """Each distinct error once, with the runs that it hit."""
    hit: dict[str, list[str]] = {}
    called = labels([*found.runs, *found.failed])
    for point in found.failed:
        short = called[point.name] or point.name
        hit.setdefault(" ".join(str(point.error).split()), []).append(short)
    return [
        f"**{len(names)} {'run' if len(names) == 1 else 'runs'}** ({'; '.join(names)}): {error}"
        for error, names in hit.items()
    ]


def warnings(found: Comparison) -> list[str]:
    """What makes figures of runs mean something else."""
    return _said(found, {point.name: point.warnings for point in found.runs})


def remarks(found: Comparison) -> list[str]:
    """The notes of the runs, one that several share once; those of most runs first."""
    return _said(found, {point.name: point.notes for point in found.runs})


def _said(found: Comparison, notes: dict[str, list[str]]) -> list[str]:
    said: dict[str, list[str]] = {}
    for name, own in notes.items():
        for note in dict.fromkeys(own):
            said.setdefault(note, []).append(found.label(name))
    every = len(found.runs)
    return [
        f"**{'All runs' if len(names) == every > 1 else ', '.join(names)}:** {note}"
        for note, names in sorted(said.items(), key=lambda item: -len(item[1]))
    ]


# Tables


def leaderboard(found: Comparison) -> Table:
    """The runs, best first, with the shown measures, and how far each is behind the best; failed
    ones stand last."""
    if found.runs and not found.values:
        return _coverage(found)
    axes = _axes(found)
    best = found.runs[0].name if found.runs else ""
    timed = _timed(found)
    columns = [
        *(short_axes(axes).values() if axes else ["run"]),
        *map(heading, found.shown),
        "behind the best",
        "p (Holm)",
        "significant",
        *(("seconds", "from cache") if timed else ()),
    ]
    rows = []
    for point in [*found.runs, *found.failed]:
        start = [point.axes.get(axis, "") for axis in axes] or [point.name]
        pair = found.pair(found.primary, best, point.name)
        if point.error:
            figures = ["–"] * len(found.shown)
            apart = ["failed", "–", "–"]
        else:
            figures = [_figure(found, m, point.name) for m in found.shown]
            apart = ["best" if point.name == best else "–", "–", "–"]
        if pair:
            sign = "yes" if pair.significant else "no"
            apart = [_difference(pair), p_text(pair.p), sign]
        spent = [_seconds(point), _from_cache(point)] if timed else []
        rows.append([*start, *figures, *apart, *spent])
    always = by_claim.majority(found)
    if always and set(always.measures) & set(found.shown):
        figures = [figure(always.measures.get(m)) for m in found.shown]
        blank = [""] * (max(len(axes), 1) - 1)
        start = [f"always {always.label} (baseline)", *blank]
        rows.append([*start, *figures, "–", "–", "–", *(("–", "–") if timed else ())])
    caption = (
        "Best first; values with 95 % intervals. Behind the best, p and significant: on "
        f"{heading(found.primary)}{', which the baseline is not tested on' if always else ''}."
    )
    return Table(columns=columns, rows=rows, words=len(axes) or 1, caption=caption)


def _coverage(found: Comparison) -> Table:
    """The runs that have no measure: for how many claims they say something, and what it cost."""
    axes, timed = _axes(found), _timed(found)
    rows = []
    for point in [*found.runs, *found.failed]:
        given = [evidence for evidence in point.evidence.values() if evidence]
        counts = [str(len(point.texts)), str(len(given)), str(sum(map(len, given)))]
        rows.append([
            *([point.axes.get(axis, "") for axis in axes] or [point.name]),
            *(["failed", "–", "–"] if point.error else counts),
            *([_seconds(point), _from_cache(point)] if timed else []),
        ])  # fmt: skip
    return Table(
        columns=[
            *(short_axes(axes).values() if axes else ["run"]),
            *("claims with a prediction", "with evidence", "pieces of evidence"),
            *(("seconds", "from cache") if timed else ()),
        ],
        rows=rows,
        words=len(axes) or 1,
        caption="In the order in which they were run.",
    )


def _contrasts(found: Comparison) -> Table:
    """The choices and settings in which the runs differ: a column a run, or a row of many."""
    names = [point.name for point in found.runs]
    rows = [
        [row.setting, *(row.values.get(name, "–") for name in names)] for row in found.contrasts
    ]
    table = [["choice or setting", *map(found.label, names)], *rows]
    if len(names) > MATRIX:
        table = [["run", *cells[1:]] if i == 0 else list(cells)
                 for i, cells in enumerate(zip(*table, strict=True))]  # fmt: skip
    return Table(
        columns=table[0],
        rows=table[1:],
        words=len(table[0]),
        caption="What the runs were set to where they are not alike; – where a run has no such "
        "part. Of a choice that differs its settings are left out.",
    )


def side_by_side(found: Comparison, pair: tuple[str, str]) -> Table:
    """The shown measures of two runs, and whether they differ."""
    rows = []
    for name in found.shown:
        test = found.pair(name, *pair)
        values = found.values[name]
        both = [f"{values[run].value:z.3f}" if run in values else "–" for run in pair]
        apart = [_difference(test), "yes" if test.significant else "no"] if test else ["–", "–"]
        rows.append([heading(name), *both, *apart])
    one, other = map(found.label, pair)
    return Table(columns=["measure", one, other, "difference", "significant"], rows=rows)


def _timed(found: Comparison) -> bool:
    """Whether a run is one of a pipeline; of a file of predictions only the scoring took time."""
    return any(point.compute for point in [*found.runs, *found.failed])


def _seconds(point: Point) -> str:
    return f"{sum(point.seconds.values()):.1f}" if point.seconds else "–"


def _from_cache(point: Point) -> str:
    return f"{point.cache.get('hits', 0)}/{sum(point.cache.values())}" if point.cache else "–"


def _axes(found: Comparison) -> list[str]:
    points = [*found.runs, *found.failed]
    if any(point.named for point in points):
        return []
    axes = list(axes_of(points))
    values = [tuple(point.axes.get(axis) for axis in axes) for point in points]
    whole = all(point.axes for point in points) and len(set(values)) == len(points)
    return axes if whole else []


def _measures(found: Comparison, first: str, second: str) -> Section:
    one, other = found.label(first), found.label(second)
    columns = [
        *("measure", one, other, "difference", "p bootstrap", "p randomisation"),
        *("significant", "detectable", "ahead in"),
    ]
    rows = [
        [
            heading(name),
            _figure(found, name, first),
            _figure(found, name, second),
            _difference(pair),
            p_text(pair.holm_bootstrap),
            p_text(pair.holm_randomisation),
            "yes" if pair.significant else "no",
            f"{pair.detectable:z.3f}" if pair.detectable else "–",
            _percent(pair.ahead),
        ]
        for name in found.values
        if (pair := found.pair(name, first, second))
    ]
    caption = (
        f"Difference: {one} less {other}, paired; values with 95 % intervals, p values after Holm, "
        "detectable: the minimal detectable difference."
    )
    tables = [Table(columns=columns, rows=rows, caption=caption)]
    if 2 < len(found.runs) <= MATRIX:
        tables.append(_matrix(found))
    return Section(
        title=f"{one} against {other}",
        tables=tables,
        plot="differences",
        caption=f"{one} less {other}, with 95 % intervals. Filled: significant; orange where "
        f"{one} is better, blue where {other} is. Bars: differences too small to be detected "
        "reliably on these claims.",
    )


def _matrix(found: Comparison) -> Table:
    names = [point.name for point in found.runs]
    short = [found.label(name) for name in names]
    rows, marks = [], []
    for one, label in zip(names, short, strict=True):
        cells, shade = [label], [0.0]
        for other in names:
            pair = found.pair(found.primary, one, other)
            value = (pair.value if pair.first == one else -pair.value) if pair else 0
            cells.append(f"{value:+z.3f} (p {p_text(pair.p)})" if pair else "–")
            shade.append(0.35 if pair and pair.significant else 0.0)
        rows.append(cells)
        marks.append(shade)
    return Table(
        columns=["row less column", *short],
        rows=rows,
        marks=marks,
        caption=f"{heading(found.primary)}, every pair: difference, and the larger of the two "
        "corrected p values; significant ones shaded.",
    )


def _ranks(found: Comparison) -> Section:
    ranks = found.ranks[found.primary]
    count = len(ranks.systems)
    shown = min(count, MATRIX)
    columns = ["run", *(f"rank {n}" for n in range(1, shown + 1)), "overtaken by the next in"]
    rows, marks = [], []
    for i, (name, chances) in enumerate(zip(ranks.systems, ranks.chances, strict=True)):
        swap = _percent(ranks.swaps[i]) if i < count - 1 else "–"
        rows.append([found.label(name), *map(_percent, chances[:shown]), swap])
        marks.append([0.0, *chances[:shown], 0.0])
    return Section(
        title="Rank stability",
        text=[
            f"Under resampling of the claims the order on {heading(found.primary)} changes in "
            f"**{_percent(ranks.order_changes)}** of draws."
        ],
        tables=[
            Table(
                columns=columns,
                rows=rows,
                marks=marks,
                caption="Probability of each rank, and how often the next run in the table is "
                "ahead instead. Runs that are level in a draw share its ranks.",
            )
        ],
    )


def _of_few(found: Comparison, pair: tuple[str, str]) -> str:
    """What is to be said where not all runs are shown."""
    few, every = len(found.few(pair)), len(found.runs)
    return f" Shown: the best {few} of {every} runs." if few < every else ""


def _labels(found: Comparison, pair: tuple[str, str], counts: dict[str, int]) -> Section:
    first, second = map(found.label, pair)
    total = sum(counts.values())
    tables = []
    matrices = by_claim.confusions(found)
    for name in (name for name in found.few(pair) if name in matrices):
        matrix = matrices[name]
        rows = [
            [gold, *map(str, row), str(sum(row))]
            for gold, row in zip(matrix.gold, matrix.counts, strict=True)
        ]
        marks = [[0.0, *(c / max(sum(row), 1) for c in row), 0.0] for row in matrix.counts]
        tables.append(
            Table(
                columns=["gold \\ predicted", *matrix.predicted, "claims"],
                rows=rows,
                marks=marks,
                caption=f"{found.label(name)}: claims by gold label (row) and predicted label.",
            )
        )
    return Section(
        title="Labels",
        text=[
            f"Right label: both on {counts['both']} of {total} claims, only **{first}** on "
            f"{counts['first']}, only **{second}** on {counts['second']}, neither on "
            f"{counts['neither']}."
        ],
        tables=tables,
        plot="confusion",
        fold=True,
        caption="Claims by gold label (row) and predicted label (column); shade: share of the row."
        + _of_few(found, pair),
    )


def _questions(found: Comparison, pair: tuple[str, str]) -> Section | None:
    """How many QAs the runs give, and what repeating a question does for their scores."""
    level = float(name[9:]) if (name := found.primary).startswith("score_at_") else 0.25
    known = by_claim.repeats(found, level)
    if not known:
        return None
    score = heading(f"score_at_{level:.2f}")
    rows = [
        [
            found.label(name),
            f"{own.qas:.1f}",
            str(own.repeating),
            f"{own.qa:z.3f}",
            f"{own.qa_once:z.3f} ({own.qa_once - own.qa:+z.3f})",
            f"{own.score:z.3f}",
            f"{own.score_once:z.3f} ({own.score_once - own.score:+z.3f})",
        ]
        for name in (point.name for point in found.runs)
        if (own := known.get(name))
    ]
    text = []
    if set(pair) <= known.keys():
        (a, one), (b, other) = ((found.label(name), known[name]) for name in pair)
        text.append(
            f"Repeating a question raises Hungarian METEOR, as one QA can then match several gold "
            f"ones (a known flaw of the measure). It brings {a} {one.qa - one.qa_once:+z.3f} and "
            f"{b} {other.qa - other.qa_once:+z.3f} of {heading('qa')}. On {score} the difference "
            f"of the two is {one.score - other.score:+z.3f} as submitted and "
            f"**{one.score_once - other.score_once:+z.3f}** without the repeats."
        )
    columns = [
        *("run", "QAs a claim", "claims with a repeat", heading("qa"), "without repeats"),
        *(score, "without repeats"),
    ]
    caption = (
        "Means over claims; of QAs with the same question among the first 10 the first is kept."
    )
    return Section(
        title="Questions and answers",
        text=text,
        tables=[Table(columns=columns, rows=rows, caption=caption)],
    )


def _calibration(found: Comparison, pair: tuple[str, str]) -> Section | None:
    bins = by_claim.reliabilities(found)
    rows = [
        [
            found.label(name),
            bin_["bin"],
            str(bin_["claims"]),
            f"{bin_['confidence']:z.3f}",
            f"{bin_['accuracy']:z.3f}",
        ]
        for name in found.few(pair)
        for bin_ in bins.get(name, [])
    ]
    if not rows:
        return None
    return Section(
        title="Calibration",
        tables=[
            Table(
                columns=["run", "bin", "claims", "confidence", "accuracy"],
                rows=rows,
                words=2,
                caption="Claims by confidence in a label: its mean, and how many are right.",
            )
        ],
        plot="calibration",
        fold=True,
        caption="On the dashed line a run is right as often as its probabilities say; above it is "
        "too careful, below too sure. Dots grow with the number of claims." + _of_few(found, pair),
    )


def _claims(found: Comparison, pair: tuple[str, str], most: int) -> Section | None:
    first, second = pair
    claims = by_claim.differing(found, *pair)
    if not claims:
        return None
    groups = []
    for kind, title in KINDS.items():
        inside = [claim for claim in claims if claim.right == kind]
        if inside:
            groups.append(
                (f"{title.format(*map(found.label, pair))} ({len(inside)})", inside[:most])
            )
    what = "give different labels" if claims[0].labels != (None, None) else "are not equally good"
    return Section(
        title="Claim by claim",
        text=[
            f"The two {what} on {len(claims)} claims. Those furthest apart on "
            f"{heading(found.primary)} come first, with the scores of {found.label(first)} – "
            f"{found.label(second)}; claims.csv has all claims of all runs."
        ],
        claims=groups,
    )


def _evidence(found: Comparison, pair: tuple[str, str], most: int) -> Section | None:
    """The claims on which the evidence of two runs is furthest apart."""
    apart = by_claim.evidence_apart(found, *pair)
    if not apart or not apart[1] or apart[1][0].labels == (None, None):
        return None  # without labels, `_claims` shows them
    measure, claims = apart
    groups = []
    for kind, name in zip(("first", "second"), pair, strict=True):
        inside = [claim for claim in claims if claim.right == kind]
        if inside:
            title = f"{found.label(name)} has the better evidence ({len(inside)})"
            groups.append((title, inside[:most]))
    first, second = map(found.label, pair)
    return Section(
        title="Evidence, claim by claim",
        text=[
            f"Whatever the labels: on {len(claims)} claims the two are apart on "
            f"{heading(measure)}, which stands first, as {first} – {second}. Those furthest apart "
            "come first."
        ],
        claims=groups,
    )


def _groups(found: Comparison, pair: tuple[str, str]) -> list[Section]:
    """A section for each kind of groups: types of claims, strategies."""
    kinds: dict[str, list[Group]] = {}
    for row in groups_in(found, pair):
        kinds.setdefault(row.kind, []).append(row)
    first, second = map(found.label, pair)
    few = _of_few(found, pair)
    return [
        Section(
            title=f"By {kind}",
            text=[
                "Over the claims of each group that all runs have; a claim may be in several. The "
                f"difference is {first} less {second} with its paired 95 % interval, shaded where "
                f"that leaves out 0. One in twenty does so by chance: nothing is corrected for the "
                f"number of groups. Of fewer than {FEWEST} claims there is no interval."
                f"{few and few + ' groups.csv has all.'}"
            ],
            tables=[_group_table(found, rows, pair)],
        )
        for kind, rows in kinds.items()
    ]


def _group_table(found: Comparison, groups: list[Group], pair: tuple[str, str]) -> Table:
    few = found.few(pair)
    names = list(dict.fromkeys(name for row in groups for name in row.values if name in few))
    rows, marks, before = [], [], ""
    for row in groups:
        start = [row.group, str(row.claims)] if row.group != before else ["", ""]
        before = row.group
        low, high = row.difference.low, row.difference.high
        sure = low is not None and high is not None and not low <= 0 <= high
        values = [f"{row.values[n]:z.3f}" if n in row.values else "–" for n in names]
        rows.append([start[0], heading(row.measure), start[1], *values, figure(row.difference)])
        marks.append([0.0] * (3 + len(names)) + [0.35 if sure else 0.0])
    columns = ["group", "measure", "claims", *map(found.label, names), "difference"]
    return Table(columns=columns, rows=rows, words=2, marks=marks)


def _learned(found: Comparison) -> Section | None:
    """What steps learned on the training claims, in numbers."""
    rows = [[found.label(p.name), *row] for p in found.runs for row in learned(p.training)]
    if not rows:
        return None
    columns = ["run", "step", "learned on train", "value"]
    return Section(title="What was learned", tables=[Table(columns=columns, rows=rows, words=3)])


def _cost(found: Comparison) -> Section | None:
    if not _timed(found):
        return None
    columns = [
        *("run", "seconds of this run", "from cache", "worker seconds to compute"),
        *("prompt tokens", "completion tokens"),
    ]
    trained = any(point.training for point in found.runs)
    if trained:
        columns += ["seconds to train", "trained parameters"]
    rows = []
    for point in found.runs:
        claims = max(point.claims, 1)
        compute = sum(point.compute.values())
        tokens = [point.tokens.get(f"{kind}_tokens", 0) for kind in ("prompt", "completion")]
        rows.append(
            [
                found.label(point.name),
                _seconds(point),
                _from_cache(point),
                f"{compute:.1f} ({compute / claims:z.3f} a claim)" if compute else "–",
                *(f"{n:,.0f}" if n else "–" for n in tokens),
                *(f"{n:,.0f}" if n else "–" for n in _training(point) if trained),
            ]
        )
    caption = (
        "Seconds of this run are what it took by the clock, with the cache. Seconds to compute are "
        "what the steps took when they were computed, now or in an earlier run that the cache has "
        "them from, summed over workers: two that worked, or waited for one another, side by side "
        "count twice what the clock says. Tokens likewise. What loading models and libraries took "
        "counts for the run that needed them first: a few seconds that say nothing about its steps."
    )
    return Section(title="Cost", tables=[Table(columns=columns, rows=rows, caption=caption)])


def _training(point: Point) -> tuple[float, float]:
    """(seconds, trained parameters) of all steps that learned."""
    seconds = sum(row.get("training_seconds", 0) for row in point.training.values())
    return seconds, sum(row.get("trained_parameters", 0) for row in point.training.values())


def p_text(p: float) -> str:
    """A p value as papers print it."""
    return "< 0.001" if p < 0.001 else f"{p:z.3f}"


def _figure(found: Comparison, measure: str, run: str) -> str:
    """`0.340 [0.320, 0.361]`, with `, n 480` where it is not over all claims."""
    text = figure(found.values[measure].get(run))
    n = found.over(measure, run) if run in found.values[measure] else None
    return f"{text}, n {n}" if n else text


def agreeing(one: float, other: float) -> int:
    """Decimals with which two figures and their difference agree as printed: 3, else 4 or 5; 4
    where none do, as of thirds."""

    def agree(n: int) -> bool:
        return round(abs(one - other), n) == round(abs(round(one, n) - round(other, n)), n)

    return next(filter(agree, (3, 4, 5)), 4)


def _between(pair: Pair, digits: int = 3) -> str:
    return f"95 % interval {pair.low:z.{digits}f} to {pair.high:z.{digits}f}"


def _difference(pair: Pair) -> str:
    return f"{pair.value:z.3f} [{pair.low:z.3f}, {pair.high:z.3f}]"


def _percent(share: float) -> str:
    if 0 < share < 0.001 or 0.999 < share < 1:
        return "< 0.1 %" if share < 0.5 else "> 99.9 %"
    return f"{100 * share:.1f} %".replace(".0 %", " %")
