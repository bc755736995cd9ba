"""Agreement of human raters, and correlation of scores with their ratings.

    python -m flows.agreement ratings=FILE.csv                      agreement alone
    python -m flows.agreement ratings=FILE.csv scores=[A.json,B.csv] to=FOLDER

Ratings: a CSV with columns id, rater and one a dimension, a row for each claim and rater. Nominal
dimensions (labels) give Krippendorff's alpha, Fleiss' and Cohen's kappa, ordinal ones (numbers)
ordinal and interval alpha, weighted kappa and the standard deviation; the output says which is
which, and names each cell that does not count. nominal=[NAME] is for labels coded as numbers.

Scores (out= of flows.score, or a CSV with a column id) are correlated with the mean rating of each
claim: Spearman, Pearson, Kendall. All with 95 % bootstrap intervals.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from flows.cli import entry

Rows = list[dict[str, Any]]


def main(config: Any) -> None:
    """Read, compute, print and write."""
    from components.datasets.ratings import read_ratings
    from components.errors import ClaimflowError
    from components.files import write_whole
    from components.records import encode
    from components.report.table import csv_bytes
    from components.score.agreement import level

    if not config.ratings:
        raise ClaimflowError("Which file of ratings? Say ratings=FILE.csv.")
    if config.missing not in ("skip", "zero"):
        raise ClaimflowError(f"missing={config.missing}: choose skip or zero.")
    notes: list[str] = []
    ratings = read_ratings(Path(config.ratings), notes, list(config.nominal or []))
    scores = wanted_scores(config, notes)
    agreed, correlated = (
        agreement(ratings, config, notes),
        correlation(ratings, scores, config, notes),
    )
    levels = {name: level(units.values()) for name, units in ratings.items()}
    text = report(levels, agreed, correlated, notes)
    if config.out:
        found = {"levels": levels, "agreement": agreed, "correlations": correlated, "notes": notes}
        write_whole(Path(config.out), encode(found))
    if config.to:
        folder = Path(config.to)
        write_whole(folder / "agreement.md", text.encode() + b"\n")
        write_whole(folder / "agreement.csv", csv_bytes(agreed))
        write_whole(folder / "correlations.csv", csv_bytes(correlated))
    print(text)


def wanted_scores(config: Any, notes: list[str]) -> dict[str, dict[str, float]]:
    """{measure: {claim id: value}}; of several files, each name begins with that of its file."""
    from components.datasets.ratings import read_scores
    from components.errors import ClaimflowError, nearest

    paths = [config.scores] if isinstance(config.scores, str) else list(config.scores or [])
    scores: dict[str, dict[str, float]] = {}
    for path in map(Path, paths):
        for name, values in read_scores(path, notes).items():
            scores[f"{path.stem}.{name}" if len(paths) > 1 else name] = values
    for name in config.measures or []:
        if name not in scores:
            raise ClaimflowError(f"No measure '{name}' in the scores.{nearest(name, scores)}")
    return {name: scores[name] for name in config.measures or scores}


def agreement(ratings: dict[str, Any], config: Any, notes: list[str]) -> Rows:
    """A row for each dimension and coefficient."""
    import msgspec

    from components.errors import listed
    from components.score.agreement import agreements, level

    rows = []
    for dimension, units in ratings.items():
        single = [id for id, unit in units.items() if len(unit) == 1]
        if single:
            notes.append(
                f"{dimension}: claims with one rating, left out of agreement ({len(single)}): "
                f"{listed(single)}."
            )
        for found in agreements(list(units.values()), config.draws, config.seed):
            if math.isnan(found.value):
                notes.append(f"{dimension}: no {found.name}, as all ratings are the same.")
            row = {"dimension": dimension, "level": level(units.values())}
            rows.append(row | msgspec.structs.asdict(found))
    return rows


def correlation(
    ratings: dict[str, Any], scores: dict[str, dict[str, float]], config: Any, notes: list[str]
) -> Rows:
    """A row for each numeric dimension, measure and coefficient."""
    import msgspec

    from components.errors import listed
    from components.score.agreement import correlations, mean_ratings

    rows = []
    for dimension, units in ratings.items():
        means = mean_ratings(units)
        for name, values in scores.items() if means else ():
            absent = [id for id in means if id not in values]
            if absent:
                what = "count 0" if config.missing == "zero" else "are left out"
                notes.append(
                    f"{dimension}, {name}: rated claims without a score, which {what} "
                    f"({len(absent)}): {listed(absent)}."
                )
            ids = [id for id in means if id in values or config.missing == "zero"]
            given, rated = [values.get(id, 0.0) for id in ids], [means[id] for id in ids]
            results = correlations(given, rated, config.draws, config.seed)
            if not results:
                notes.append(
                    f"{dimension}, {name}: no correlation, as there are fewer than three claims "
                    "or all values of one side are the same."
                )
            for found in results:
                row = {"dimension": dimension, "measure": name}
                rows.append(row | msgspec.structs.asdict(found))
    return rows


def report(levels: dict[str, str], agreed: Rows, correlated: Rows, notes: list[str]) -> str:
    """The level of each dimension, both tables and the notes, as Markdown."""
    from components.report.table import heading, markdown

    def cells(row: dict[str, Any]) -> list[str]:
        known = row["low"] is not None
        interval = f"[{row['low']:z.3f}, {row['high']:z.3f}]" if known else "–"
        value = "–" if math.isnan(row["value"]) else f"{row['value']:z.3f}"
        return [row["name"], value, interval]

    columns = ["coefficient", "value", "95 % interval"]
    by_level = {kind: [n for n, k in levels.items() if k == kind] for kind in levels.values()}
    said = [f"{kind.capitalize()}: {', '.join(names)}." for kind, names in by_level.items()]
    agreement_rows = [[row["dimension"], *cells(row), row["units"]] for row in agreed]
    parts = ["# Agreement", "", " ".join(said), ""]
    parts += [markdown(["dimension", *columns, "claims"], agreement_rows), ""]
    if correlated:
        correlation_rows = [
            [row["dimension"], heading(row["measure"]), *cells(row), f"{row['p']:.3g}", row["n"]]
            for row in correlated
        ]
        parts += ["# Correlation with the mean rating", ""]
        parts += [markdown(["dimension", "measure", *columns, "p", "n"], correlation_rows), ""]
    return "\n".join([*parts, *(f"- {note}" for note in notes)])


if __name__ == "__main__":
    entry(main, "agreement")
