"""What the scorers of predictions share: pairing by id, notes, confusion tables."""

from __future__ import annotations

import collections
from collections.abc import Iterable, Sequence
from typing import Any

from components.errors import listed
from components.labels import nearest_label
from components.records import Claim, Prediction


def by_number(id: str) -> tuple[int, int, str]:
    """A key that sorts ids: numbers by their value, before all others."""
    return (0, int(id), id) if id.isdecimal() else (1, 0, id)


def note(notes: list[str], what: str, ids: Iterable[str]) -> None:
    """Add `what (number): ids.` to `notes`, if there are any ids."""
    found = list(ids)
    if found:
        notes.append(f"{what} ({len(found)}): {listed(found)}.")


def first_of_each(
    predictions: Iterable[Prediction], claims: Iterable[Claim]
) -> tuple[dict[str, Prediction], list[str], list[str]]:
    """(first prediction by claim id, ids of predictions for no claim, ids that came again)."""
    ids = {claim.id for claim in claims}
    found: dict[str, Prediction] = {}
    extra, repeated = [], []
    for prediction in predictions:
        if prediction.id not in ids:
            extra.append(prediction.id)
        elif prediction.id in found:
            repeated.append(prediction.id)
        else:
            found[prediction.id] = prediction
    return found, extra, repeated


def paired(
    predictions: list[Prediction],
    claims: list[Claim],
    missing: str,
    notes: list[str],
    aside: Iterable[Claim] = (),
) -> dict[str, Prediction]:
    """The prediction for each claim id that has one; of a repeated id the first counts.

    Missing, extra and repeated ids are listed in `notes`; `missing` says what the first count as.
    aside: claims that there may be predictions for, but need not.
    """
    found, extra, repeated = first_of_each(predictions, [*claims, *aside])
    note(
        notes, f"Claims without prediction, {missing}", (c.id for c in claims if c.id not in found)
    )
    note(notes, "Predictions passed over, for no gold claim", extra)
    note(notes, "Predictions passed over, repeating an id", repeated)
    return found


def note_labels(notes: list[str], predictions: Iterable[Prediction], labels: Sequence[str]) -> None:
    """Note documents that are predicted with a label that is none of `labels`."""
    note(
        notes,
        "Documents counted as wrong, with a label that the task does not have",
        (
            f"claim {p.id}, {f.doc} '{f.label}'" + nearest_label(f.label, labels)
            for p in predictions
            for f in p.findings
            if f.label is not None and f.label not in labels
        ),
    )


def confusion(
    pairs: Iterable[tuple[str | None, str | None]], labels: Sequence[str]
) -> list[dict[str, Any]]:
    """One row a gold label: how often each label was predicted; `other`: none of them.

    pairs: (gold label, predicted label).
    """
    counts = collections.Counter(
        (gold, predicted if predicted in labels else "other") for gold, predicted in pairs
    )
    return [
        {"gold": gold, **{guess: counts[gold, guess] for guess in (*labels, "other")}}
        for gold in labels
    ]
