"""Human ratings and scores by claim, from CSV files and from what the score flow writes."""

from __future__ import annotations

import csv
import json
import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from components.errors import ClaimflowError, listed, nearest, plain
from components.files import beginning, check_text, open_text
from components.records import outline

MISSING = ("", "n/a", "na", "nan", "-", "–")  # cells that are no rating, whatever their case


Cell = tuple[int, str]  # line and text


def read_ratings(
    path: Path, notes: list[str] | None = None, nominal: Sequence[str] = ()
) -> dict[str, dict[str, dict[str, Any]]]:
    """{dimension: {claim id: {rater: rating}}} of a CSV with the columns id, rater and one a
    dimension.

    A dimension is ordinal, its ratings numbers, when at least half of its ratings are; a cell that
    is none is missing then. The others, and those of `nominal`, are of labels. Cells of MISSING are
    no ratings, and rows without id or rater are left out. `notes` name each such cell and row.
    Raises ClaimflowError for a column that lacks and for a rater that rates a claim twice.
    """
    notes = [] if notes is None else notes
    rows = _rows(path, ("id", "rater"), notes)
    names = [name for name in rows[0][1] if name not in ("id", "rater")]
    for name in nominal:
        if name not in names:
            raise ClaimflowError(
                f"nominal: {path} has no column {name}.{nearest(name, names)} "
                f"It has {', '.join(names) or 'none'}."
            )
    found: dict[str, dict[str, dict[str, Any]]] = {}
    for name in names:
        cells = [(line, row, row[name].strip()) for line, row in rows]
        given = [(line, text) for line, _, text in cells if text.casefold() not in MISSING]
        ordinal = name not in nominal and _numeric(given)
        _note(notes, path, name, [(line, text) for line, _, text in cells], ordinal)
        units: dict[str, dict[str, Any]] = {}
        first: dict[tuple[str, str], int] = {}
        for line, row, text in cells:
            value = _number(text) if ordinal else text
            if value is None or text.casefold() in MISSING:
                continue
            claim, rater = row["id"].strip(), row["rater"].strip()
            if (before := first.setdefault((claim, rater), line)) != line:
                raise ClaimflowError(
                    f"{path}, line {line}: rater {rater} rates claim {claim} again, after line "
                    f"{before} ({name}: '{text}' now, '{units[claim][rater]}' before). Keep one "
                    "row for each claim and rater."
                )
            units.setdefault(claim, {})[rater] = value
        found[name] = units
    return found


def _numeric(cells: Sequence[Cell]) -> bool:
    """Whether a column is one of numbers: at least half of what stands in it."""
    return 2 * sum(_number(text) is not None for _, text in cells) >= len(cells)


def _note(notes: list[str], path: Path, name: str, cells: list[Cell], ordinal: bool) -> None:
    """What does not count in a column, or may not be meant as it stands, cell by cell."""

    def say(what: str, some: list[Cell]) -> None:
        if some:
            every = listed(f"line {line} '{text}'" for line, text in some)
            notes.append(f"{path.name}, column {name}: {what} ({len(some)}): {every}.")

    given = [cell for cell in cells if cell[1].casefold() not in MISSING]
    say("cells that are no ratings", [c for c in cells if c[1].casefold() in MISSING])
    numbers = [cell for cell in given if _number(cell[1]) is not None]
    if ordinal:
        say("not numbers, so they count as missing", [c for c in given if c not in numbers])
        return
    if len(numbers) < len(given):
        say("numbers among labels, which count as labels", numbers)
    spelt: dict[str, dict[str, None]] = {}
    for _, text in given:
        spelt.setdefault(" ".join(text.casefold().split()), {})[text] = None
    forms = [list(texts) for texts in spelt.values() if len(texts) > 1]
    alike = [" and ".join(f"'{text}'" for text in some) for some in forms]
    if alike:
        notes.append(
            f"{path.name}, column {name}: labels that differ in case or space alone count as "
            f"different: {', '.join(alike)}."
        )


def read_scores(path: Path, notes: list[str] | None = None) -> dict[str, dict[str, float]]:
    """{measure: {claim id: value}} of a CSV with a column id, or of the JSON that the score flow
    writes with out=; of several runs in it each name begins with that of its run.

    Columns of words are left out, and so are rows without an id and cells that are no number in a
    column of numbers, which `notes` name. Raises ClaimflowError for a claim that stands there
    twice.
    """
    notes = [] if notes is None else notes
    if not path.is_file():
        raise ClaimflowError(f"No file of scores {path.absolute()}.")
    check_text(path)
    if beginning(path)[:1] in ("[", "{"):
        return _run_scores(path)
    rows = _rows(path, ("id",), notes)
    lines: dict[str, int] = {}
    for line, row in rows:
        first = lines.setdefault(row["id"].strip(), line)
        if first != line:
            raise ClaimflowError(
                f"{path}, line {line}: claim {row['id'].strip()} again, after line {first}."
            )
    found: dict[str, dict[str, float]] = {}
    for name in (name for name in rows[0][1] if name != "id"):
        cells = [(line, row[name].strip()) for line, row in rows]
        given = [cell for cell in cells if cell[1].casefold() not in MISSING]
        if given and _numeric(given):
            _note(notes, path, name, cells, ordinal=True)
            values = {row["id"].strip(): _number(row[name]) for _, row in rows}
            found[name] = {id: value for id, value in values.items() if value is not None}
    return found


def _run_scores(path: Path) -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, float]] = {}
    try:
        with open_text(path) as file:
            runs = json.load(file)
        if not isinstance(runs, list) or not all(isinstance(run, dict) for run in runs):
            kind = f"an object ({outline(runs)})" if isinstance(runs, dict) else "something else"
            raise ClaimflowError(
                f"{path} is not what flows.score writes with out=, a list of runs with name and "
                f"per_claim: it holds {kind}."
            )
        for run in runs:
            start = f"{run['name']}." if len(runs) > 1 else ""
            for row in run["per_claim"]:
                for name, value in row.items():
                    if name != "id" and isinstance(value, (int, float)):
                        found.setdefault(start + name, {})[str(row["id"])] = float(value)
    except KeyError as error:
        raise ClaimflowError(
            f"{path} is not what flows.score writes with out=: {error} is missing in it."
        ) from None
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise ClaimflowError(
            f"{path} is not what flows.score writes with out=, a list of runs with name and "
            f"per_claim: {plain(error)}."
        ) from None
    return found


def _rows(
    path: Path, needed: tuple[str, ...], notes: list[str]
) -> list[tuple[int, dict[str, str]]]:
    """(line, row) of a CSV whose header has the needed columns; rows with nothing in one of these
    are left out."""
    if not path.is_file():
        raise ClaimflowError(f"No file {path.absolute()}.")
    check_text(path)
    rows = []
    limit = csv.field_size_limit(2**31 - 1)
    try:
        with open_text(path) as lines:
            reader = csv.DictReader(lines)
            names = list(reader.fieldnames or [])
            if twice := [name for name in dict.fromkeys(names) if names.count(name) > 1]:
                raise ClaimflowError(
                    f"{path}, line 1: the column {twice[0]} stands there {names.count(twice[0])} "
                    "times: give each a name of its own."
                )
            for name in needed:
                if name not in names:
                    other = next((c for c in ";\t|" if c in ",".join(names)), None)
                    hint = f" Its cells are parted by {other!r}: save it with commas."
                    raise ClaimflowError(
                        f"{path} has no column {name}: it needs {', '.join(needed)}."
                        f"{hint if other else ''}"
                    )
            for row in reader:
                if None in row or None in row.values():
                    raise ClaimflowError(
                        f"{path}, line {reader.line_num}: not as many cells as columns. Quote "
                        "cells that hold commas."
                    )
                if "id" in row:  # as pandas writes numbers beside an empty cell
                    row["id"] = re.sub(r"^(\d+)\.0$", r"\1", row["id"].strip())
                rows.append((reader.line_num, row))
    except csv.Error as error:
        raise ClaimflowError(f"{path} is no CSV file: {error}.") from None
    finally:
        csv.field_size_limit(limit)
    whole = [(line, row) for line, row in rows if all(row[name].strip() for name in needed)]
    kept = {line for line, _ in whole}
    lost = [f"line {line}" for line, _ in rows if line not in kept]
    if not whole:
        what = f" with {' and '.join(needed)}" if lost else ""
        raise ClaimflowError(f"{path} has no rows{what}.")
    if lost:
        what = " or ".join(needed)
        notes.append(f"{path.name}: rows without {what}, left out ({len(lost)}): {listed(lost)}.")
    return whole


def _number(cell: Any) -> float | None:
    try:
        value = float(cell)
    except (TypeError, ValueError):
        return None
    return value if math.isfinite(value) else None
