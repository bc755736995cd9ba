"""Few-shot examples: the training claims that are most like a claim."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from components.cache import key_of
from components.datasets.base import normalised
from components.errors import ClaimflowError
from components.records import Claim
from components.retrieve.bm25 import Bm25s
from components.step import Context


def examples(
    claims: list[Claim],
    k: int,
    ctx: Context,
    questions: int = 1,
    labels: Sequence[str] | None = None,
) -> list[list[Claim]]:
    """For each claim the `k` training claims with gold questions nearest by BM25, nearest last.

    Nearest last, as what stands next to its end counts most in a prompt. A claim is never its own
    example, and no text comes twice. Those with `questions` gold questions or more are preferred,
    as a model asks as many as it is shown. labels: only claims with one of these. Where too few
    share a word with the claim, the first training claims fill up. Raises ClaimflowError when there
    are no training claims.
    """
    import numpy as np

    if not k:
        return [[] for _ in claims]
    pool: dict[str, Claim] = ctx.loaded(
        key_of(__name__, "pool", ctx.train_digest, labels),
        lambda: {
            normalised(claim.text): claim
            for claim in reversed(ctx.train)
            if claim.questions and (labels is None or claim.label in labels)
        },
    )
    if not pool:
        raise ClaimflowError(
            "Few-shot examples are training claims with gold questions, and none of the "
            f"{len(ctx.train)} here has any. Set examples=0 of the step (questioner.examples=0, …) "
            "or choose what needs none (questioner=rules); or name a split whose claims have them "
            "with dataset.train_split=…"
        )
    names, search = list(pool), Bm25s()
    texts = [claim.text for claim in pool.values()]
    index: Any = ctx.loaded(
        key_of(__name__, "index", ctx.train_digest, labels),
        lambda: search.index(key_of(texts), texts, ctx),
    )
    short = np.array([len(claim.questions) < questions for claim in pool.values()])
    found = []
    for claim, scores in zip(
        claims, search.scores(index, [claim.text for claim in claims], ctx), strict=True
    ):
        order = np.lexsort((-scores, short))
        near = [names[i] for i in order[: k + 1] if names[i] != normalised(claim.text)][:k]
        found.append([pool[name] for name in reversed(near)])
    return found
