"""The report of a comparison: one content, as Markdown, as one HTML file, and as CSV tables."""

from __future__ import annotations

import csv
import functools
import io
import re
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from components.files import write_whole
from components.records import Claim, Evidence, Record
from components.report import compare
from components.report.compare import ALL_PAIRS, MOST, SWAPS, Comparison, Differing, Pair, Point
from components.report.table import figure, heading, markdown

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FIRST = 10  # QAs of a prediction that are shown, as many as count
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
    """A part of the report, in the order of its fields."""

    title: str
    text: list[str] = []
    tables: list[Table] = []
    plot: str = ""  # name of a figure
    caption: str = ""
    claims: list[tuple[str, list[Differing]]] = []  # kind, claims


def write(folder: Path, found: Comparison, pair: tuple[str, str] | None, claims: int) -> None:
    """Write report.md, report.html (one file, plots inside), comparison.csv, pairs.csv, ranks.csv,
    claims.csv and plots/*.png.

    pair: the two runs whose claims are shown, by default the best two; claims: how many of each
    kind the report shows.
    """
    from components.report import plot

    pair = pair or best_two(found)
    names = labels(found)
    figures: dict[str, Figure | None] = {
        "measures": plot.measures_plot(found, names),
        "differences": plot.differences_plot(found, *pair) if pair else None,
        "confusion": plot.confusion_plot(found, names),
        "calibration": plot.calibration_plot(found, names),
    }
    drawn = {name: picture for name, picture in figures.items() if picture}
    parts = sections(found, pair, claims, set(drawn))
    write_whole(folder / "report.md", as_markdown(found.title, parts).encode())
    pictures = {name: plot.svg(picture) for name, picture in drawn.items()}
    write_whole(folder / "report.html", as_html(found, parts, pair, pictures).encode())
    for name, picture in drawn.items():
        write_whole(folder / "plots" / f"{name}.png", plot.png(picture))
    for name, rows in csv_tables(found, pair).items():
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows(rows)
        write_whole(folder / f"{name}.csv", text.getvalue().encode())


def best_two(found: Comparison) -> tuple[str, str] | None:
    """The two runs that are best on the primary measure."""
    return (found.runs[0].name, found.runs[1].name) if len(found.runs) > 1 else None


def labels(found: Comparison) -> list[str]:
    """What the runs are called in plots: the values of their axes, where these tell them apart."""
    short = [", ".join(point.axes.values()) for point in found.runs]
    if all(short) and len(set(short)) == len(short):
        return short
    return [point.name for point in found.runs]


def sections(
    found: Comparison, pair: tuple[str, str] | None, claims: int, plots: set[str]
) -> list[Section]:
    """The content of the report."""
    parts = [
        Section(title="Finding", text=finding(found)),
        Section(
            title="Runs",
            tables=[leaderboard(found)],
            plot="measures",
            caption="Values with 95 % intervals; the best run of each measure in orange.",
        ),
    ]
    if pair and any(found.pair(m, *pair) for m in found.values):
        parts.append(_measures(found, *pair))
    if found.ranks.get(found.primary):
        parts.append(_ranks(found))
    if pair and (counts := compare.agreement(found, *pair)):
        parts.append(_labels(found, pair, counts))
    if rows := _calibration(found):
        parts.append(rows)
    if pair and (shown := _claims(found, pair, claims)):
        parts.append(shown)
    parts += [_cost(found), Section(title="How to read this", text=_reading(found))]
    for part in parts:
        if part.plot not in plots:
            part.plot = part.caption = ""
    return parts


# Words


def finding(found: Comparison) -> list[str]:
    """What the comparison says on the primary measure, in a few sentences."""
    runs = [point for point in found.runs if point.name in found.values.get(found.primary, {})]
    if len(runs) < 2:
        return ["There are no two runs with a measure in common: nothing is compared."]
    name, best, second = heading(found.primary), runs[0].name, runs[1].name
    values = found.values[found.primary]
    pair = found.pair(found.primary, best, second)
    if not pair:
        return [
            f"**{best}** has the best {name}, {values[best].value:.3f} against "
            f"{values[second].value:.3f} of **{second}**; whether that could be chance was not "
            "tested (see the notes)."
        ]
    n = found.claims[found.primary]
    start = f"{values[best].value:.3f} against {values[second].value:.3f}, a difference of"
    tests = (
        f"p {p_text(pair.p_bootstrap)} by paired bootstrap, {p_text(pair.p_randomisation)} by "
        "randomisation" + (f", {p_text(pair.p)} after Holm's correction" if found.tests > 1 else "")
    )
    lines = [
        f"**{best} is ahead of {second}** on {name}: {start} {_difference(pair)} over {n} claims. "
        f"The difference is **{'significant' if pair.significant else 'not significant'}** "
        f"({tests}); {best} is ahead in {_percent(pair.ahead)} of resamples."
    ]
    power = (
        f"On these {n} claims, a true difference of {pair.detectable:.3f} between the two would be "
        "found four times out of five."
    )
    if not pair.significant and pair.value:
        needed = n * (pair.detectable / pair.value) ** 2
        power += f" To find one as small as that seen here takes about {needed:,.0f} claims."
    lines.append(power)
    if len(runs) == 2:
        others = [p for p in found.pairs if p.measure != found.primary]
        won = [heading(p.measure) for p in others if p.significant and p.better]
        lost = [heading(p.measure) for p in others if p.significant and not p.better]
        even = len(others) - len(won) - len(lost)
        if others:
            lines.append(
                f"Of the {len(others)} other measures, {best} is significantly better on "
                f"{len(won)}, worse on {len(lost)}{_names(lost)}; on {even} the two can't be told "
                "apart."
            )
    else:
        tested = [p for p in found.of(found.primary) if p.first == best]
        even_with = [p.second for p in tested if not p.significant]
        lines.append(
            f"{best} is significantly better than {len(tested) - len(even_with)} of the other "
            f"{len(tested)} runs"
            + (f"; not told apart from it: {', '.join(even_with)}." if even_with else ".")
        )
    return lines


def _names(names: list[str]) -> str:
    return f" ({', '.join(names)})" if names else ""


def _reading(found: Comparison) -> list[str]:
    tests = max(found.tests, 1)
    every = len(found.runs) <= ALL_PAIRS
    return [
        f"**Intervals** are 95 % percentile bootstrap intervals: the claims are drawn again with "
        f"replacement, {found.draws:,} times. All runs share the draws. **Differences** are paired "
        f"(same claims), with {max(SWAPS, found.draws):,} draws.",
        f"**p** is two-sided, of the paired bootstrap and of a randomisation test ({SWAPS:,} "
        "random swaps of the two outcomes of each claim; all of them where there are no more). Both are "
        f"corrected after Holm for {tests} {'pair' if tests == 1 else 'pairs'} of runs"
        f"{'' if every else ' (the best against each)'}; **significant** means that both are below "
        ".05. They are not corrected for the number of measures: choose the one that decides "
        "before looking.",
        "**Detectable** is the minimal detectable difference: the smallest true difference that a "
        "two-sided test at .05 finds with power .8 on this many claims, 2.80 standard errors of "
        "the paired difference (its standard deviation over claims by the root of their number; "
        "for figures that are no mean, such as F1, its standard deviation over resamples). **Ahead "
        "in**: share of resamples in which the first run is ahead; ties count half.",
        *found.notes,
    ]


# Tables


def leaderboard(found: Comparison) -> Table:
    """The runs, best first, with the shown measures, and how far each is behind the best; failed
    ones stand last with their error."""
    axes = _axes(found)
    best = found.runs[0].name if found.runs else ""
    columns = [
        *(axes or ["run"]),
        *map(heading, found.shown),
        "behind the best",
        "p (Holm)",
        "significant",
        "seconds",
        "from cache",
    ]
    rows = []
    for point in [*found.runs, *found.failed]:
        start = [point.axes.get(axis, "") for axis in axes] or [point.name]
        pair = found.pair(found.primary, best, point.name)
        if point.error:
            figures = ["failed", *["–"] * len(found.shown)][: len(found.shown)]
            apart = [point.error, "–", "–"]
        else:
            figures = [figure(found.values[m].get(point.name)) for m in found.shown]
            apart = ["best" if point.name == best else "–", "–", "–"]
        if pair:
            sign = "yes" if pair.significant else "no"
            apart = [_difference(pair), p_text(pair.p), sign]
        seconds, hits, all_ = (
            sum(point.seconds.values()),
            point.cache.get("hits", 0),
            sum(point.cache.values()),
        )
        rows.append([*start, *figures, *apart, f"{seconds:.1f}", f"{hits}/{all_}"])
    return Table(columns=columns, rows=rows, words=len(axes) or 1)


def _axes(found: Comparison) -> list[str]:
    points = [*found.runs, *found.failed]
    axes = list(dict.fromkeys(axis for point in points for axis in point.axes))
    values = [tuple(point.axes.get(axis) for axis in axes) for point in points]
    whole = all(point.axes for point in points) and len(set(values)) == len(points)
    return axes if whole else []


def _measures(found: Comparison, first: str, second: str) -> Section:
    columns = [
        *("measure", first, second, "difference", "p bootstrap", "p randomisation"),
        *("significant", "detectable", "ahead in"),
    ]
    rows = [
        [
            heading(name),
            figure(found.values[name][first]),
            figure(found.values[name][second]),
            _difference(pair),
            p_text(pair.holm_bootstrap),
            p_text(pair.holm_randomisation),
            "yes" if pair.significant else "no",
            f"{pair.detectable:.3f}",
            _percent(pair.ahead),
        ]
        for name in found.values
        if (pair := found.pair(name, first, second))
    ]
    tables = [Table(columns=columns, rows=rows)]
    if 2 < len(found.runs) <= MATRIX:
        tables.append(_matrix(found))
    return Section(
        title=f"{first} against {second}",
        tables=tables,
        plot="differences",
        caption=f"{first} less {second}, with 95 % intervals. Filled: significant; orange where "
        f"{first} is better, blue where {second} is. Bars: differences too small to be detected "
        "reliably on these claims.",
    )


def _matrix(found: Comparison) -> Table:
    names, short = [point.name for point in found.runs], labels(found)
    rows, marks = [], []
    for one, label in zip(names, short, strict=True):
        cells, shade = [label], [0.0]
        for other in names:
            pair = found.pair(found.primary, one, other)
            value = (pair.value if pair.first == one else -pair.value) if pair else 0
            cells.append(f"{value:+.3f} (p {p_text(pair.p)})" if pair else "–")
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
    short = dict(zip([point.name for point in found.runs], labels(found), strict=True))
    count = len(ranks.systems)
    shown = min(count, MATRIX)
    columns = ["run", *(f"rank {n}" for n in range(1, shown + 1)), "overtaken by the next in"]
    rows, marks = [], []
    for i, (name, chances) in enumerate(zip(ranks.systems, ranks.chances, strict=True)):
        swap = _percent(ranks.swaps[i]) if i < count - 1 else "–"
        rows.append([short[name], *map(_percent, chances[:shown]), swap])
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
                "ahead instead.",
            )
        ],
    )


def _labels(found: Comparison, pair: tuple[str, str], counts: dict[str, int]) -> Section:
    first, second = pair
    total = sum(counts.values())
    tables = []
    for point in found.runs[:MOST]:
        made = compare.confusion(point)
        if not made:
            continue
        names, table = made
        rows = [
            [gold, *map(str, row), str(sum(row))] for gold, row in zip(names, table, strict=False)
        ]
        marks = [[0.0, *(c / max(sum(row), 1) for c in row), 0.0] for row in table]
        tables.append(
            Table(
                columns=["gold \\ predicted", *names, "claims"],
                rows=rows,
                marks=marks,
                caption=point.name,
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
        caption="Claims by gold label (row) and predicted label (column); shade: share of the row.",
    )


def _calibration(found: Comparison) -> Section | None:
    rows = [
        [
            point.name,
            bin_["bin"],
            str(bin_["claims"]),
            f"{bin_['confidence']:.3f}",
            f"{bin_['accuracy']:.3f}",
        ]
        for point in found.runs[:MOST]
        for bin_ in compare.reliability_of(point)
    ]
    if not rows:
        return None
    return Section(
        title="Calibration",
        tables=[
            Table(columns=["run", "bin", "claims", "confidence", "accuracy"], rows=rows, words=2)
        ],
        plot="calibration",
        caption="On the dashed line a run is right as often as its probabilities say; above it is "
        "too careful, below too sure. Dots grow with the number of claims.",
    )


def _claims(found: Comparison, pair: tuple[str, str], most: int) -> Section | None:
    claims = compare.differing(found, *pair)
    if not claims:
        return None
    groups = []
    for kind, title in KINDS.items():
        inside = [claim for claim in claims if claim.right == kind]
        if inside:
            cut = f", the {most} furthest apart" if len(inside) > most else ""
            groups.append((f"{title.format(*pair)} ({len(inside)}{cut})", inside[:most]))
    what = "give different labels" if claims[0].labels != (None, None) else "are not equally good"
    return Section(
        title="Claim by claim",
        text=[f"The two {what} on {len(claims)} claims. All claims of all runs: claims.csv."],
        claims=groups,
    )


def _cost(found: Comparison) -> Section:
    columns = [
        *("run", "seconds of this run", "from cache", "seconds to compute"),
        *("prompt tokens", "completion tokens"),
    ]
    rows = []
    for point in found.runs:
        claims = max(len(point.per_claim), 1)
        compute = sum(point.compute.values())
        tokens = [point.tokens.get(f"{kind}_tokens", 0) for kind in ("prompt", "completion")]
        rows.append(
            [
                point.name,
                f"{sum(point.seconds.values()):.1f}",
                f"{point.cache.get('hits', 0)}/{sum(point.cache.values())}",
                f"{compute:.1f} ({compute / claims:.3f} a claim)" if compute else "–",
                *(f"{n:,.0f}" if n else "–" for n in tokens),
            ]
        )
    text = (
        "Seconds to compute are those of the pipeline's steps when they were computed, whether or "
        "not the cache had them; tokens likewise."
    )
    known = any(point.compute for point in found.runs)
    return Section(
        title="Cost",
        text=[text if known else "Files of predictions say nothing of what they cost to make."],
        tables=[Table(columns=columns, rows=rows)],
    )


def p_text(p: float) -> str:
    """A p value as papers print it."""
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def _difference(pair: Pair) -> str:
    return f"{pair.value:.3f} [{pair.low:.3f}, {pair.high:.3f}]"


def _percent(share: float) -> str:
    if 0 < share < 0.001 or 0.999 < share < 1:
        return "< 0.1 %" if share < 0.5 else "> 99.9 %"
    return f"{100 * share:.1f} %".replace(".0 %", " %")


# Markdown


def as_markdown(title: str, parts: Iterable[Section]) -> str:
    """The report as Markdown; plots stand in plots/."""
    out = [f"# {title}"]
    for part in parts:
        out += [f"## {part.title}", *part.text]
        for table in part.tables:
            out += [f"*{table.caption}*"] if table.caption else []
            out.append(markdown(table.columns, table.rows))
        if part.plot:
            out.append(f"![{part.caption}](plots/{part.plot}.png)")
        for kind, claims in part.claims:
            out += [f"### {kind}", "\n".join(map(_line, claims[:10]))]
    return "\n\n".join(out) + "\n"


def _line(claim: Differing) -> str:
    text = " ".join(claim.text.split())
    scores = "; ".join(f"{heading(m)} {a:.3f} – {b:.3f}" for m, (a, b) in claim.scores.items())
    labels = f"gold {claim.gold}: {claim.labels[0]} – {claim.labels[1]}; " if claim.gold else ""
    return f"- **{claim.id}** {text} ({labels}{scores})"


# HTML


def as_html(
    found: Comparison,
    parts: list[Section],
    pair: tuple[str, str] | None,
    pictures: dict[str, str],
) -> str:
    """The report as one HTML file with all that it shows inside."""
    evidence = {}
    for name in pair or ():
        point = next(p for p in found.runs if p.name == name)
        evidence[name] = point.evidence
    return _template().render(
        title=found.title, parts=parts, pair=pair, pictures=pictures, evidence=evidence,
        gold=found.gold,
    )  # fmt: skip


@functools.cache
def _template() -> Any:
    import jinja2
    import markupsafe

    def bold(text: str) -> Any:
        escaped = str(markupsafe.escape(text))
        return markupsafe.Markup(re.sub(r"\*\*(.+?)\*\*", r"<strong>\1</strong>", escaped))

    there = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    there.filters |= {"bold": bold, "heading": heading, "said": _said, "asked": _asked}
    return there.get_template("page.html")


def _said(evidence: list[Evidence]) -> list[tuple[str, str]]:
    return [(e.question, e.answer) for e in evidence[:FIRST]]


def _asked(claim: Claim) -> list[tuple[str, str]]:
    return [(q.question, " / ".join(a.answer for a in q.answers)) for q in claim.questions]


# CSV


def csv_tables(found: Comparison, pair: tuple[str, str] | None) -> dict[str, list[list[Any]]]:
    """The comparison as tables: runs by measure, tested pairs, ranks, and every claim."""
    axes = list(dict.fromkeys(axis for p in found.runs for axis in p.axes))
    measures = list(found.values)
    head = ["run", *axes, *(f"{m}{end}" for m in measures for end in ("", "_low", "_high"))]
    runs: list[list[Any]] = [[*head, "seconds", "compute_seconds", "prompt_tokens", "completion_tokens",
             "cache_hits", "cache_misses", "error"]]  # fmt: skip
    for point in [*found.runs, *found.failed]:
        figures: list[Any] = []
        for name in measures:
            m = found.values[name].get(point.name)
            figures += [m.value, m.low, m.high] if m else [None] * 3
        runs.append([
            point.name, *(point.axes.get(axis) for axis in axes), *figures,
            round(sum(point.seconds.values()), 3), round(sum(point.compute.values()), 3),
            point.tokens.get("prompt_tokens"), point.tokens.get("completion_tokens"),
            point.cache.get("hits"), point.cache.get("misses"), point.error,
        ])  # fmt: skip
    fields = list(Pair.__struct_fields__)
    pairs = [fields, *([getattr(p, field) for field in fields] for p in found.pairs)]
    ranks: list[list[Any]] = [["measure", "run", "rank", "probability"]]
    for measure, found_ranks in found.ranks.items():
        for run, chances in zip(found_ranks.systems, found_ranks.chances, strict=True):
            ranks += [[measure, run, rank, chance] for rank, chance in enumerate(chances, 1)]
    return {"comparison": runs, "pairs": pairs, "ranks": ranks, "claims": _claims_csv(found)}


def _claims_csv(found: Comparison) -> list[list[Any]]:
    rows: dict[str, dict[str, dict[str, Any]]] = {}
    texts: dict[str, str] = {}
    for point in found.runs:
        for row in point.per_claim:
            rows.setdefault(str(row["id"]), {})[point.name] = row
        texts = {**point.texts, **{i: t for i, t in texts.items() if t}}
    texts |= {i: claim.text for i, claim in found.gold.items() if claim.text}
    columns = [
        (point.name, column)
        for point in found.runs
        for column in dict.fromkeys(c for row in point.per_claim for c in row)
        if column not in ("id", "gold")
    ]
    table: list[list[Any]] = [["id", "claim", "gold", *(f"{run}: {c}" for run, c in columns)]]
    for i, by_run in rows.items():
        gold = next((row["gold"] for row in by_run.values() if row.get("gold")), None)
        cells = [by_run.get(run, {}).get(column) for run, column in columns]
        table.append([i, texts.get(i, ""), gold, *cells])
    return table


# JSON


def public(found: Comparison) -> dict[str, Any]:
    """What `out=FILE.json` holds for a comparison."""

    def run(point: Point) -> dict[str, Any]:
        return {
            "name": point.name,
            "axes": point.axes,
            "source": point.source,
            "error": point.error,
            "measures": {m: v[point.name] for m, v in found.values.items() if point.name in v},
            "seconds": point.seconds,
            "compute": point.compute,
            "tokens": point.tokens,
            "cache": point.cache,
            "confusion": compare.confusion(point),
            "calibration": compare.reliability_of(point),
        }

    return {
        "name": found.title,
        "primary": found.primary,
        "runs": [run(point) for point in [*found.runs, *found.failed]],
        "claims": found.claims,
        "pairs": [msgspec.to_builtins(pair) for pair in found.pairs],
        "ranks": found.ranks,
        "notes": found.notes,
    }
