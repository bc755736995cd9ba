"""The report of a comparison: one content, as Markdown, as one HTML file, and as CSV tables."""

from __future__ import annotations

import csv
import functools
import html
import io
import re
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from components.cache import Cache, key_of
from components.files import write_whole
from components.records import Claim, Evidence, Record
from components.report import curve, plot
from components.report.claims import Differing, confusions, majority, reliabilities, texts_of
from components.report.compare import Comparison, Pair, Point
from components.report.groups import groups_in
from components.report.sections import Section, sections, two_of
from components.report.table import heading, markdown, short
from components.step import code_version

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LINES = 8  # claims of a kind in Markdown; the page and claims.csv have more
FIRST = 10  # QAs of a prediction that are shown, as many as count


class Picture(Record):
    """A figure, for the page and as a file."""

    svg: str
    png: bytes


def write(
    folder: Path,
    found: Comparison,
    pair: tuple[str, str] | None,
    claims: int,
    cache: Cache | None = None,
) -> None:
    """Write report.md, report.html (one file, plots inside), comparison.csv, pairs.csv, ranks.csv,
    claims.csv, groups.csv (where groups are known) and plots/*.png.

    pair: the two runs whose claims are shown, by default the best two; claims: how many of each
    kind the report shows. cache: of the plots, which take seconds.
    """
    pair = two_of(found, pair)
    drawn = _kept(found, pair, cache) if cache else _drawn(found, pair)
    parts = sections(found, pair, claims, set(drawn))
    if "curve" in drawn and (along := curve.section(found)):
        parts.insert(1, along)
    write_whole(folder / "report.md", as_markdown(found.title, parts).encode())
    pictures = {name: picture.svg for name, picture in drawn.items()}
    write_whole(folder / "report.html", as_html(found, parts, pair, pictures).encode())
    for name, picture in drawn.items():
        write_whole(folder / "plots" / f"{name}.png", picture.png)
    for name, rows in csv_tables(found, pair).items():
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows(rows)
        write_whole(folder / f"{name}.csv", text.getvalue().encode())


def _drawn(found: Comparison, pair: tuple[str, str] | None) -> dict[str, Picture]:
    figures: dict[str, Figure | None] = {
        "measures": plot.measures_plot(found),
        "differences": plot.differences_plot(found, *pair) if pair else None,
        "confusion": plot.confusion_plot(found, found.few(pair)),
        "curve": curve.curve_plot(found),
        "calibration": plot.calibration_plot(found, found.few(pair)),
    }
    return {
        name: Picture(svg=plot.svg(picture), png=plot.png(picture))
        for name, picture in figures.items()
        if picture
    }


def _kept(found: Comparison, pair: tuple[str, str] | None, cache: Cache) -> dict[str, Picture]:
    """The plots from the cache, where it has those of the same results."""
    code = [code_version(module.__name__) for module in (plot, curve)]
    same = msgspec.structs.replace(found, runs=[point.lasting() for point in found.runs], failed=[])
    kept: dict[str, Picture] = cache.value(
        key_of("plots", code, same, pair), lambda: _drawn(found, pair), dict[str, Picture]
    )
    return kept


# Markdown


def as_markdown(title: str, parts: Iterable[Section]) -> str:
    """The report as Markdown; plots stand in plots/."""
    out = [f"# {title}"]
    for part in parts:
        out += [f"## {part.title}", *part.text]
        for table in part.tables:
            out += [f"*{table.caption}*"] if table.caption else []
            out.append(markdown(*_untagged(table.columns, table.rows)))
        if part.plot:
            out.append(f"![{part.caption}](plots/{part.plot}.png)")
        for kind, claims in part.claims:
            out += [f"### {kind}", "\n".join(map(_line, claims[:LINES]))]
    return "\n\n".join(out) + "\n"


def _untagged(columns: list[str], rows: list[list[str]]) -> tuple[list[str], list[list[str]]]:
    """The cells without what Markdown would take for tags: names come from files."""

    def safe(cells: list[str]) -> list[str]:
        return [re.sub(r"<(?=[\w/!?])", "&lt;", cell) for cell in cells]

    return safe(columns), [safe(row) for row in rows]


def _line(claim: Differing) -> str:
    text = html.escape(" ".join(claim.text.split()), quote=False)
    scores = "; ".join(f"{heading(m)} {a:z.3f} – {b:z.3f}" for m, (a, b) in claim.scores.items())
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
        title=found.title, parts=parts, pair=pair, label=found.label, pictures=pictures,
        evidence=evidence, gold=found.gold,
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
    there.filters |= {
        "bold": bold,
        "heading": heading,
        "short": short,
        "said": _said,
        "asked": _asked,
        "breakable": _breakable,
    }
    return there.get_template("page.html")


def _breakable(text: str) -> Any:
    """`text` with places to break long words at: names of runs would make columns wide."""
    import markupsafe

    def broken(word: str) -> Any:
        parts = re.findall(r".{1,16}?[_/=-]+|.{1,16}", word) if len(word) > 20 else [word]
        return markupsafe.Markup("<wbr>").join(parts)

    return markupsafe.Markup("").join(map(broken, re.split(r"(\s+)", text)))


def _said(evidence: list[Evidence]) -> list[tuple[str, str]]:
    return [(e.question, e.answer) for e in evidence[:FIRST]]


def _asked(claim: Claim) -> list[tuple[str, str]]:
    return [(q.question, " / ".join(a.answer for a in q.answers)) for q in claim.questions]


# CSV


def csv_tables(
    found: Comparison, pair: tuple[str, str] | None = None
) -> dict[str, list[list[Any]]]:
    """The comparison as tables: runs by measure, tested pairs, ranks, every claim, and, of a pair
    first, runs within groups of claims."""
    axes = list(dict.fromkeys(axis for p in found.runs for axis in p.axes))
    measures = list(found.values)
    head = ["run", *axes, *(f"{m}{end}" for m in measures for end in ("", "_low", "_high"))]
    cost = ["seconds", "compute_seconds", "prompt_tokens", "completion_tokens"]
    runs: list[list[Any]] = [[*head, *cost, "cache_hits", "cache_misses", "error"]]
    for point in [*found.runs, *found.failed]:
        figures: list[Any] = []
        for name in measures:
            m = found.values[name].get(point.name)
            figures += [m.value, m.low, m.high] if m else [None] * 3
        runs.append([
            point.name, *(point.axes.get(axis) for axis in axes), *figures,
            round(sum(point.seconds.values()), 3) if point.seconds else None,
            round(sum(point.compute.values()), 3) if point.compute else None,
            point.tokens.get("prompt_tokens"), point.tokens.get("completion_tokens"),
            point.cache.get("hits"), point.cache.get("misses"), point.error,
        ])  # fmt: skip
    fields = list(Pair.__struct_fields__)
    pairs = [fields, *([getattr(p, field) for field in fields] for p in found.pairs)]
    ranks: list[list[Any]] = [["measure", "run", "rank", "probability"]]
    for measure, found_ranks in found.ranks.items():
        for run, chances in zip(found_ranks.systems, found_ranks.chances, strict=True):
            ranks += [[measure, run, rank, chance] for rank, chance in enumerate(chances, 1)]
    tables = {"comparison": runs, "pairs": pairs, "ranks": ranks, "claims": _claims_csv(found)}
    return tables | ({"groups": _groups_csv(found, pair)} if pair and found.groups() else {})


def _groups_csv(found: Comparison, pair: tuple[str, str]) -> list[list[Any]]:
    groups = groups_in(found, pair)
    names = list(dict.fromkeys(name for row in groups for name in row.values))
    head = ["kind", "group", "measure", "claims", *names, "difference", "low", "high"]
    return [head, *(
        [row.kind, row.group, row.measure, row.claims, *map(row.values.get, names),
         row.difference.value, row.difference.low, row.difference.high]
        for row in groups
    )]  # fmt: skip


def _claims_csv(found: Comparison) -> list[list[Any]]:
    rows: dict[str, dict[str, dict[str, Any]]] = {}
    texts = texts_of(found)
    for point in found.runs:
        for row in point.per_claim:
            rows.setdefault(str(row["id"]), {})[point.name] = row
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


def public(found: Comparison, pair: tuple[str, str] | None = None) -> dict[str, Any]:
    """What `out=FILE.json` holds for a comparison."""
    labels, bins = confusions(found), reliabilities(found)

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
            "notes": point.notes,
            "warnings": point.warnings,
            "confusion": labels.get(point.name),
            "calibration": bins.get(point.name, []),
        }

    return {
        "name": found.title,
        "primary": found.primary,
        "runs": [run(point) for point in [*found.runs, *found.failed]],
        "differs": found.contrasts,
        "claims": found.claims,
        "baseline": majority(found),
        "pairs": found.pairs,
        "ranks": found.ranks,
        "groups": groups_in(found, pair) if pair else [],
        "notes": found.notes,
    }
