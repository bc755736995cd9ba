"""Encoders in other precisions, and the best sentence of a passage."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from components.cache import Cache
from components.errors import ClaimflowError
from components.records import Case, Claim, Passage, Query
from components.retrieve.encoder import Encoder
from components.retrieve.sentences import SentenceMax
from components.step import Context
from components.text import sentences

MODEL = Path("all-MiniLM-L6-v2")
TEXTS = [
    "The central bank raised its rate. A bridge was closed for repairs!",
    "Hospitals reported fewer patients.",
    "",
]


@pytest.fixture(scope="module")
def ctx(tmp_path_factory: pytest.TempPathFactory) -> Context:
    return Context(Cache(tmp_path_factory.mktemp("cache")))


def test_half_precision_is_the_same_but_for_rounding(ctx: Context) -> None:
    exact = Encoder(model=MODEL).encode(TEXTS, ctx)
    fast = Encoder(model=MODEL, dtype="bfloat16").encode(TEXTS, ctx)
    assert fast.dtype == np.float32
    assert not np.array_equal(fast, exact)
    assert (fast * exact).sum(axis=1) == pytest.approx(1, abs=1e-3)


def test_precisions_have_embeddings_of_their_own(ctx: Context) -> None:
    exact = Encoder(model=MODEL).passages("texts", TEXTS, ctx)
    fast = Encoder(model=MODEL, dtype="bfloat16").passages("texts", TEXTS, ctx)
    assert not np.array_equal(fast, exact)


def test_encoding_goes_on_where_it_was_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("components.retrieve.encoder._PART", {"cpu": 2})
    ctx, encoder = Context(Cache(tmp_path)), Encoder(model=MODEL)
    texts = [f"Bridge {n} was closed." for n in (0, 1, 2, 0, 3, 4)]
    encode, given = Encoder.encode, []

    def kill(encoder: Encoder, texts: list[str], *rest: Any, **more: Any) -> np.ndarray:
        if len(given) == 2:
            raise KeyboardInterrupt
        given.append(texts)
        return encode(encoder, texts, *rest, **more)

    monkeypatch.setattr(Encoder, "encode", kill)
    with pytest.raises(KeyboardInterrupt):
        encoder.passages("bridges", texts, ctx)
    first, second = sorted((tmp_path / "aside").glob("*.unfinished/*"))
    second.write_bytes(first.read_bytes())  # damaged, so made anew
    given.clear()

    def note(encoder: Encoder, texts: list[str], *rest: Any, **more: Any) -> np.ndarray:
        given.append(texts)
        return encode(encoder, texts, *rest, **more)

    monkeypatch.setattr(Encoder, "encode", note)
    vectors = encoder.passages("bridges", texts, Context(Cache(tmp_path)))
    assert given == [texts[2:3] + texts[4:5], texts[5:]]
    assert not list((tmp_path / "aside").iterdir())
    assert np.array_equal(vectors[0], vectors[3])
    assert vectors == pytest.approx(encode(encoder, texts, ctx), abs=1e-6)


def test_no_passages_have_no_vectors(ctx: Context) -> None:
    assert Encoder(model=MODEL).passages("none", [], ctx).shape == (0, 384)


def test_what_is_no_device_or_precision() -> None:
    with pytest.raises(ClaimflowError, match="No dtype 'int8': choose float32 or bfloat16"):
        Encoder(model=MODEL, dtype="int8")
    with pytest.raises(ClaimflowError, match="No device 'gpu': choose cpu or cuda"):
        Encoder(model=MODEL, device="gpu")


def test_no_cuda_device(ctx: Context) -> None:
    import torch

    if torch.cuda.is_available():
        pytest.skip("there is one")
    with pytest.raises(ClaimflowError, match="No CUDA device is here"):
        Encoder(model=MODEL, device="cuda").encode(["a"], ctx)


def test_a_passage_scores_as_its_best_sentence(ctx: Context) -> None:
    encoder = Encoder(model=MODEL)
    case = Case(
        claim=Claim(id="1", text=""),
        passages=[Passage(id=str(i), doc=str(i), text=text) for i, text in enumerate(TEXTS)],
        queries=[Query(text="Is the bridge closed?")],
    )
    [done] = SentenceMax(encoder=encoder).run([case], ctx)
    query = encoder.queries(["Is the bridge closed?"], ctx)[0]
    parts = [encoder.encode(part, ctx) @ query for part in sentences(TEXTS)]
    assert [len(part) for part in parts] == [2, 1, 1]
    assert done.hits[0].passage == "0"
    assert {hit.passage: hit.score for hit in done.hits} == pytest.approx(
        {str(i): max(part) for i, part in enumerate(parts)}, abs=1e-5
    )


def test_more_tokens_than_the_model_has_places_for(ctx: Context) -> None:
    with pytest.raises(ClaimflowError, match=r"max_length=513 of the encoder .* 512 tokens"):
        Encoder(model=MODEL, max_length=513).encode(["bridge"], ctx)
