"""Predictions with document evidence: the forms of FEVER, SciFact and SciFact-Open."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from components.datasets import fever, scifact
from components.errors import ClaimflowError, nearest
from components.records import AVERITEC_LABELS, BadLine, Prediction


def prediction_from(raw: dict[str, Any]) -> Prediction | None:
    """The prediction in a JSON record of FEVER or SciFact, told apart by its fields; None for a
    record of another form.

    Raises ValidationError or ClaimflowError for a bad one.
    """
    if isinstance(raw.get("evidence"), dict):
        return scifact.prediction_from(raw)
    if {"predicted_label", "predicted_evidence"} & raw.keys():
        if raw.get("predicted_label") in AVERITEC_LABELS:
            return None
        return fever.prediction_from(raw)
    return None


def read_table(
    path: Path, system: str | None, on_error: str = "stop", bad: list[BadLine] | None = None
) -> list[Prediction]:
    """Predictions of one system of SciFact-Open's Parquet table; `system` may be None if it holds
    one only."""
    systems = scifact.read_systems(path, on_error, bad)
    if not systems:
        raise ClaimflowError(f"{path} has no row that can be read.")
    if system is None and len(systems) == 1:
        return next(iter(systems.values()))
    if system not in systems:
        wrong = f"has no system '{system}'.{nearest(system, systems)}" if system else ""
        raise ClaimflowError(
            f"{path} {wrong or f'holds {len(systems)} systems.'} Say system=NAME, one of "
            f"{', '.join(sorted(systems))}."
        )
    return systems[system]
