"""Numbers that parts refuse: each parameter that takes a number, in every choice of the groups that
find evidence."""

from __future__ import annotations

import math
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from components.errors import ClaimflowError
from components.files import ROOT
from components.retrieve.bm25 import Bm25s
from components.retrieve.encoder import Encoder
from components.retrieve.fuse import Rrf, Weighted
from components.retrieve.okapi import LowerBounded, Okapi
from components.retrieve.rank import RankBm25
from components.store.budget import Paragraphs
from components.store.semantic import Semantic
from flows.build import _class, build, step_configs
from tests.conftest import compose

ENCODER = Encoder(model=Path("all-MiniLM-L6-v2"))
OF = ["rankings.a", "rankings.b"]
ANY = {"ScoreFloor.floor"}  # scores may be below 0


def numeric(node: Any) -> Iterator[tuple[dict[str, Any], str, bool]]:
    """(config of a part, its parameter that takes a number, whether it is a list of them)."""
    if not isinstance(node, dict):
        return
    for value in node.values():
        yield from numeric(value)
    hints = _class(node["_target_"])[1] if "_target_" in node else {}
    for name, hint in hints.items():
        own = typing.get_origin(hint) is not typing.ClassVar
        if own and {int, float} & {hint, *typing.get_args(hint)}:
            yield node, name, hint == list[float]


def refusal(step: dict[str, Any]) -> str | None:
    """Why a step can't be built; None where it can."""
    try:
        build(step)
    except ClaimflowError as error:
        return str(error)
    return None


@pytest.mark.slow
@pytest.mark.parametrize(
    "group", ["retriever", "chunker", "reranker", "evidence", "cutoff", "query"]
)
def test_no_part_takes_what_is_no_number_or_below_all_ranges(
    group: str, cross_encoder: Path
) -> None:
    seen = set()
    for path in sorted((ROOT / "conf" / group).glob("[!_]*.yaml")):
        own = [f"reranker.model={cross_encoder}"] if path.stem == "cross_encoder" else []
        config = compose(f"{group}={path.stem}", f"pipeline=[{group}]", *own)
        for step in step_configs(config).values():
            for node, name, several in numeric(step):
                called = f"{node['_target_'].rpartition('.')[2]}.{name}"
                if called in seen:
                    continue
                seen.add(called)
                given = dict(node)
                for wrong in (math.nan, math.inf, -math.inf, *([] if called in ANY else [-2])):
                    node[name] = [wrong] * len(given[name]) if several else wrong
                    refused = refusal(step)
                    assert refused, f"{called}={wrong} is taken"
                    assert "can't be set up" not in refused
                node.clear()
                node.update(given)
                build(step)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Bm25s(k1=math.nan), "k1=nan of Bm25s is wrong: give 0 or more"),
        (lambda: Bm25s(k1=math.inf), "k1=inf of Bm25s is wrong: give 0 or more"),
        (lambda: Bm25s(b=math.nan), "b=nan of Bm25s is wrong: give 0 to 1"),
        (lambda: LowerBounded(method="bm25l", delta=-1), "delta=-1 of LowerBounded is wrong"),
        (lambda: Okapi(epsilon=math.nan), "epsilon=nan of Okapi is wrong: give 0 or more"),
        (lambda: RankBm25(k1=-1), "k1=-1 of RankBm25 is wrong: give 0 or more"),
        (lambda: RankBm25(k1=0), "k1=0 of RankBm25 is wrong: give more, or take retriever=okapi"),
        (lambda: RankBm25(b=7), "b=7 of RankBm25 is wrong: give 0 to 1"),
        (lambda: Rrf(of=OF, constant=-1), "constant=-1 of Rrf is wrong: give 0 or more"),
        (
            lambda: Weighted(of=OF, weights=[-1, math.nan]),
            r"weights=\[-1, nan\] of Weighted is wrong: give 0 or more for each",
        ),
        (lambda: Weighted(of=OF, weights=[0, 0]), r"weights=\[0, 0\] .* one of them more than 0"),
        (lambda: Semantic(encoder=ENCODER, threshold=5), "threshold=5 of .* give -1 to 1"),
        (lambda: Paragraphs(slack=math.inf), "slack=inf of Paragraphs is wrong: give 1 or more"),
        (lambda: Encoder(model=ENCODER.model, max_length=0), "max_length=0 of .* give 3 or more"),
    ],
)
def test_out_of_range(make: Any, message: str) -> None:
    with pytest.raises(ClaimflowError, match=message):
        make()
