"""Human ratings and scores by claim, from CSV files and from what the score flow writes."""

from __future__ import annotations

import csv
import json
import math
from pathlib import Path
from typing import Any

from components.errors import ClaimflowError
from components.files import beginning, check_text, open_text

MISSING = ("", "n/a", "na", "nan", "-", "–")  # cells that are no rating, whatever their case


def read_ratings(
    path: Path, notes: list[str] | None = None
) -> dict[str, dict[str, dict[str, Any]]]:
    """{dimension: {claim id: {rater: rating}}} of a CSV with the columns id, rater and one a
    dimension.

    A dimension is numeric when every rating is a number; cells of MISSING are no ratings, and
    are counted in `notes`. Raises ClaimflowError for a column that lacks and for a rater that
    rates a claim twice.
    """
    rows = _rows(path, ("id", "rater"))
    found: dict[str, dict[str, dict[str, Any]]] = {}
    for name in rows[0][1]:
        if name in ("id", "rater"):
            continue
        every = [(line, row, row[name].strip()) for line, row in rows]
        cells = [cell for cell in every if cell[2].casefold() not in MISSING]
        if notes is not None and len(cells) < len(every):
            marks = dict.fromkeys(f"'{c}'" for _, _, c in every if c.casefold() in MISSING)
            notes.append(
                f"{name}: {len(every) - len(cells)} of {len(every)} cells are no ratings "
                f"({', '.join(marks)})."
            )
        numeric = all(_number(cell) is not None for _, _, cell in cells)
        units: dict[str, dict[str, Any]] = {}
        for line, row, cell in cells:
            unit = units.setdefault(row["id"].strip(), {})
            if row["rater"].strip() in unit:
                raise ClaimflowError(
                    f"{path}, line {line}: {row['rater']} rates {row['id']} again."
                )
            unit[row["rater"].strip()] = _number(cell) if numeric else cell
        found[name] = units
    return found


def read_scores(path: Path) -> dict[str, dict[str, float]]:
    """{measure: {claim id: value}} of a CSV with a column id, or of the JSON that the score flow
    writes with out=; what is no number is left out."""
    if not path.is_file():
        raise ClaimflowError(f"No file of scores {path.absolute()}.")
    check_text(path)
    if beginning(path)[:1] in ("[", "{"):
        try:
            with open_text(path) as file:
                runs = json.load(file)
            rows = [row for run in runs for row in run["per_claim"]]
        except (ValueError, KeyError, TypeError) as error:
            raise ClaimflowError(
                f"{path} is not what flows.score writes with out=: {error!r}."
            ) from None
    else:
        rows = [row for _, row in _rows(path, ("id",))]
    found: dict[str, dict[str, float]] = {}
    for row in rows:
        for name, cell in row.items():
            value = _number(cell)
            if name != "id" and value is not None:
                found.setdefault(name, {})[str(row["id"]).strip()] = value
    return found


def _rows(path: Path, needed: tuple[str, ...]) -> list[tuple[int, dict[str, str]]]:
    """(line, row) of a CSV whose header has the needed columns."""
    if not path.is_file():
        raise ClaimflowError(f"No file {path.absolute()}.")
    check_text(path)
    rows = []
    limit = csv.field_size_limit(2**31 - 1)
    try:
        with open_text(path) as lines:
            reader = csv.DictReader(lines)
            for name in needed:
                if name not in (reader.fieldnames or []):
                    raise ClaimflowError(
                        f"{path} has no column {name}: it needs {', '.join(needed)}."
                    )
            for row in reader:
                if None in row or None in row.values():
                    raise ClaimflowError(
                        f"{path}, line {reader.line_num}: not as many cells as columns. Quote "
                        "cells that hold commas."
                    )
                rows.append((reader.line_num, row))
    except csv.Error as error:
        raise ClaimflowError(f"{path} is no CSV file: {error}.") from None
    finally:
        csv.field_size_limit(limit)
    if not rows:
        raise ClaimflowError(f"{path} has no rows.")
    return rows


def _number(cell: Any) -> float | None:
    try:
        value = float(cell)
    except (TypeError, ValueError):
        return None
    return value if math.isfinite(value) else None
