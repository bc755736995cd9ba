"""Predictions in SciFact-Open's table."""

from __future__ import annotations

from pathlib import Path

from components.datasets import scifact
from components.errors import ClaimflowError, nearest
from components.records import BadLine, Prediction


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
