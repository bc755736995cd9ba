"""What stages make of claims that failed on the way."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from components.cache import Cache
from components.errors import ClaimflowError
from components.pipeline import CaseRef, Cost, store
from components.records import Case, Claim, Hit
from flows.stages import check_through, rankings_of
from tests.conftest import compose


def test_a_ranking_counts_though_a_later_step_failed(tmp_path: Path) -> None:
    case = Case(claim=Claim(id="1", text="A."), hits=[Hit(passage="d#0", doc="d", score=2.0)])
    fields = ("claim", "hits", "queries")
    first = store(case, fields, Cache(tmp_path))
    whole = msgspec.structs.replace(first, trace=[Cost(step="retriever.bm25", seconds=0)])
    late = msgspec.structs.replace(whole, id="2", error="answerer: no luck")
    refs = [whole, late, CaseRef(id="3", fields={}, error="retriever: no luck")]
    plain = compose("retriever=bm25s", "questioner=rules", "verdict=majority")
    found = {"1": [("d", 2.0)], "2": [("d", 2.0)]}
    assert rankings_of(refs, str(tmp_path), plain) == found
    # What it was to be ranked by again is a part of it.
    reranked = compose("retriever=bm25s", "questioner=rules", "verdict=majority", "reranker=mmr")
    assert rankings_of(refs, str(tmp_path), reranked) == {"1": found["1"]}


def test_that_no_claim_came_through_is_an_error_with_the_first_reason() -> None:
    failed = [CaseRef(id=n, fields={}, error=f"verdict: no luck with {n}") for n in ("7", "8")]
    check_through([])
    check_through([*failed, CaseRef(id="9", fields={})])
    said = "No claim came through: all 2 failed, claim 7 as verdict: no luck with 7"
    with pytest.raises(ClaimflowError, match=said):
        check_through(failed)
