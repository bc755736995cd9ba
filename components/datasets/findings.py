"""Predictions with document evidence: the forms of FEVER, SciFact and SciFact-Open."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from components.datasets import fever, scifact
from components.errors import ClaimflowError, nearest
from components.records import AVERITEC_LABELS, BadLine, Prediction


def form_of(raw: dict[str, Any]) -> str | None:
    """ "SciFact" or "FEVER", told apart by the fields of a JSON record; None for another form."""
    if isinstance(raw.get("evidence"), dict) and "pred_label" not in raw:  # that is AVeriTeC's
        return "SciFact"
    if not {"predicted_label", "predicted_evidence"} & raw.keys():
        return None
    items = raw.get("predicted_evidence")
    kinds = {type(item) for item in items} if isinstance(items, list) else set()
    averitec = str in kinds or raw.get("predicted_label") in AVERITEC_LABELS  # its first page
    return None if averitec and list not in kinds else "FEVER"


def prediction_from(raw: dict[str, Any]) -> Prediction | None:
    """The prediction in a JSON record of FEVER or SciFact; None for a record of another form.

    Raises ValidationError or ClaimflowError for a bad one.
    """
    form = form_of(raw)
    if form is None:
        return None
    return fever.prediction_from(raw) if form == "FEVER" else scifact.prediction_from(raw)


def read_table(
    path: Path,
    system: str | None,
    on_error: str = "stop",
    bad: list[BadLine] | None = None,
    warnings: list[str] | None = None,
) -> list[Prediction]:
    """Predictions of one system of SciFact-Open's Parquet table; `system` may be None if it holds
    one only. Those in WITHOUT_CONFIDENCE lose their probabilities, which `warnings` says."""
    systems = scifact.read_systems(path, on_error, bad)
    if not systems:
        raise ClaimflowError(f"{path} has no row that can be read.")
    if system is None and len(systems) == 1:
        system = next(iter(systems))
    if system is None or system not in systems:
        wrong = f"has no system '{system}'.{nearest(system, systems)}" if system else ""
        raise ClaimflowError(
            f"{path} {wrong or f'holds {len(systems)} systems.'} Name one behind the file, "
            f"{path.name}:{min(systems)} (in Python, system=), of {', '.join(sorted(systems))}."
        )
    found = systems[system]
    if system in scifact.WITHOUT_CONFIDENCE:
        for finding in (finding for prediction in found for finding in prediction.findings):
            finding.probabilities = {}
        if warnings is not None:
            warnings.append(
                f"p_support and p_contradict of {system} are no confidences (Wadden et al. 2022), "
                "so it has no average precision. Give another system another name."
            )
    return found
