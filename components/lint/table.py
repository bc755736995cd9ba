"""SciFact-Open's Parquet table: a row a system, claim and document."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from components.datasets.submission import whole_number
from components.errors import ClaimflowError
from components.lint.linter import Linter
from components.lint.report import cut

TABLE = ("model", "claim_id", "doc_id", "predicted_label")  # columns that must be there
_UNRANKED = "Without it the document stands in no ranking"


def table(linter: Linter) -> str:
    """Check the table; its form."""
    from pyarrow import ArrowInvalid, parquet

    from components.datasets.scifact import LABELS, NEI

    try:
        read = parquet.read_table(linter.path)
    except (ArrowInvalid, OSError) as error:
        raise ClaimflowError(
            f"{linter.path} is no whole Parquet file: {str(error).rstrip('.')}. Write it anew."
        ) from None
    rows = read.to_pylist()
    if missing := [name for name in TABLE if name not in read.column_names]:
        linter.find("schema", f"no column {', '.join(missing)}", f"Write {', '.join(TABLE)}")
        linter.lost = len(rows)
        return "SciFact-Open"
    seen: dict[tuple[str, ...], dict[str, Any]] = {}
    texts: set[str] = set()  # columns of ids that are texts
    numeric: set[str] = set()  # columns of ids with a number
    words: list[tuple[int, str, str, str]] = []  # (line, claim, column, id that is no number)
    ranks: dict[str, list[float]] = {}
    given: set[tuple[str, str]] = set()  # systems and what they have numbers of
    gaps: dict[tuple[str, str], list[tuple[int, str, str]]] = {}  # (line, claim, message)
    for linter.line, row in enumerate(rows, 1):
        linter.record = str(row["claim_id"])  # as it stands, for what is found in it
        for name in ("claim_id", "doc_id"):
            if (meant := whole_number(row[name])) is not None:
                numeric.add(name)
                if row[name] == str(meant):
                    texts.add(name)
                elif isinstance(row[name], str):
                    message = f"{name} {cut(repr(row[name]))} means {meant}"
                    linter.find("id", message, f"Write {meant}", True)
                row[name] = meant
            elif isinstance(row[name], str):
                words.append((linter.line, str(row["claim_id"]), name, row[name]))
        linter.record = str(row["claim_id"])
        linter.order.append(linter.record)
        pair = (str(row["model"]), linter.record, str(row["doc_id"]))
        known = linter.claims is None or linter.record in linter.claims
        if absent := [name for name in TABLE[:3] if row[name] is None]:
            linter.find("schema", f"no {', '.join(absent)}", "Fill it in, or drop the row")
        elif not known:
            found = linter.find(
                "id", "no claim has this id", "Take the row out", True, done="Deleted"
            )
            linter.strangers.append((found, row))
            linter.kept.append((linter.record, row))
        if row["predicted_label"] not in NEI:
            row["predicted_label"] = linter.label(row["predicted_label"], (*LABELS, "NEI"))
        for name in ("rank", "p_support", "p_contradict"):
            value = row.get(name)
            if name not in row:
                continue
            message = f"{name} of {pair[2]} is {value}"
            if not isinstance(value, (int, float)) or not math.isfinite(value):
                gaps.setdefault((pair[0], name), []).append((linter.line, linter.record, message))
                continue
            given.add((pair[0], name))
            if name != "rank" and not 0 <= value <= 1:
                linter.find("schema", message, "Give a probability, 0 to 1", level="warning")
        if absent or not known:
            continue
        if pair in seen:
            same = _alike(row, seen[pair])
            message = f"document {pair[2]} of {pair[0]} again"
            message += "" if same else ", with other values"
            linter.find("id", message, "Keep one", same, done="Deleted")
            if same:
                continue
        seen[pair] = dict(row)
        linter.kept.append((linter.record, row))
        if type(row.get("rank")) in (int, float) and math.isfinite(row["rank"]):
            ranks.setdefault(pair[0], []).append(row["rank"])
    for key in sorted(given & gaps.keys()):  # who has none of a kind leaves it out
        for linter.line, linter.record, message in gaps[key]:
            linter.find("nan", message, _UNRANKED, level="warning")
    for linter.line, linter.record, name, word in words:
        stranger = name == "claim_id" and linter.claims and word not in linter.claims  # told above
        if name in numeric and not stranger:
            linter.find("id", f"{name} {cut(repr(word))} is no number", "Write a number")
    linter.line = linter.record = None
    for model, numbers in ranks.items():
        if again := len(numbers) - len(set(numbers)):
            message = f"{again} of {len(numbers)} ranks of {model} stand there again"
            linter.find("rank", message, "Count on over all claims, the surest document first")
        if min(numbers) < 1:
            message = f"the ranks of {model} begin with {min(numbers):g}, which is read as 1"
            linter.find("rank", message, "Count from 1")
    linter.settle_strangers(bool(set(linter.claims or ()) - set(linter.order)))
    for name in sorted(texts):
        message = f"{name} is a column of texts, and the official script joins it with numbers"
        whole = all(type(row[name]) is int for _, row in linter.kept)  # see `as_table`
        linter.find("id", message, "Write numbers", whole, "warning")
    return "SciFact-Open"


def _alike(row: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether two rows of a table say the same; NaN is like NaN."""
    return row.keys() == other.keys() and all(
        row[name] == other[name] or (row[name] != row[name] and other[name] != other[name])
        for name in row
    )


def as_table(path: Path, rows: list[Any]) -> bytes:
    """The rows as a table with the columns of `path`."""
    import pyarrow
    from pyarrow import parquet

    out, schema = pyarrow.BufferOutputStream(), parquet.read_schema(path).remove_metadata()
    for i, name in enumerate(schema.names):
        if rows and all(type(row[name]) is int for row in rows):  # maybe mended
            schema = schema.set(i, pyarrow.field(name, pyarrow.int64()))
        elif schema.types[i] in (pyarrow.string(), pyarrow.large_string()):  # some are numbers
            for row in rows:
                row[name] = None if row[name] is None else str(row[name])
    parquet.write_table(pyarrow.Table.from_pylist(rows, schema), out)
    return bytes(out.getvalue())
