"""Figures from rows of which some lack a value."""

from __future__ import annotations

import collections
from collections.abc import Callable, Sequence
from typing import Any

from components.records import Claim


def mean(values: Sequence[float | None]) -> float | None:
    """The mean of the values that are there."""
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def groups_of(claim: Claim) -> dict[str, list[str]]:
    """What figures of a claim are broken down by, as far as it is known: {kind: groups}."""
    kinds = {"claim type": claim.types, "fact-checking strategy": claim.strategies}
    return {kind: groups for kind, groups in kinds.items() if groups}


def breakdown(
    claims: Sequence[Claim],
    rows: Sequence[dict[str, Any]],
    names: Sequence[str],
    groups: Callable[[Claim], list[str]],
) -> list[dict[str, Any]]:
    """Number of claims and means within each group, large ones first; a claim may be in several."""
    members: dict[str, list[dict[str, Any]]] = collections.defaultdict(list)
    for claim, row in zip(claims, rows, strict=True):
        for group in groups(claim):
            members[group].append(row)
    return [
        {"group": group, "claims": len(inside)}
        | {name: mean([row.get(name) for row in inside]) for name in names}
        for group, inside in sorted(members.items(), key=lambda item: -len(item[1]))
    ]
