"""Replies as records: a schema that is kept to, replies asked for again, memory known before."""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import msgspec
import pytest

from components.cache import Cache
from components.engines.base import Engine, Message, Reply, Request
from components.engines.memory import GIB, check, need
from components.engines.structured import _closed, read, structured
from components.engines.transformers import TransformersEngine
from components.errors import ClaimflowError
from components.files import home
from components.records import Record
from components.step import Context

SMOLLM2 = Path("SmolLM2-135M-Instruct")


class Answer(Record):
    label: Literal["Supported", "Refuted"]
    score: int = 0


@pytest.mark.parametrize(
    "text",
    [
        '{"label": "Refuted", "score": 2}',
        'Sure!\n```json\n{"label": "Refuted",\n "score": 2}\n```\nAnything else?',
        'By {rule} 3: {"label": "Refuted", "score": 2}',
        '{"label": "Maybe"} no, rather {"label": "Refuted", "score": 2}',
        '{"label": "Refuted", "score": 2, "why": "a } in a text"}',
    ],
)
def test_an_object_is_found_in_what_stands_around_it(text: str) -> None:
    assert read(text, Answer) == Answer(label="Refuted", score=2)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("I can't say.", "no JSON object in the reply"),
        ('{"label": "Refuted", "sco', "no JSON"),
        ('{"label": "Maybe"}', "Invalid enum value 'Maybe' - at `$.label`"),
        ('{"score": 3}', "missing required field `label`"),
        ('{"label": "Refuted", "score": "high"}', "Expected `int`, got `str`"),
    ],
)
def test_what_does_not_fit_says_why(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason.replace("$", r"\$").replace(".", r"\.")):
        read(text, Answer)


@dataclasses.dataclass(kw_only=True)
class Scripted(Engine):
    """Replies with what stands for the number of turns so far."""

    script: dict[str, list[str]]
    seen: ClassVar[list[Request]] = []

    def replies(self, requests: list[Request], ctx: Context) -> Iterator[tuple[int, Reply]]:
        for i, request in enumerate(requests):
            self.seen.append(request)
            assert not isinstance(request.prompt, str)
            text = self.script[request.prompt[0].content][len(request.prompt) // 2]
            yield (
                i,
                Reply(error="refused")
                if text == "refused"
                else Reply(text=text, finish_reason="length" if text.endswith("…") else "stop"),
            )


def test_asked_again_with_the_reason_and_then_failed(tmp_path: Path) -> None:
    good = '{"label": "Supported"}'
    engine = Scripted(
        script={
            "at once": [good],
            "second": ['{"label": "supported"}', good],
            "never": ["no", "{", '{"score": 1, …'],
            "error": ["refused"],
        }
    )
    Scripted.seen.clear()
    chats = [Request(prompt=[Message(role="user", content=name)]) for name in engine.script]
    ctx = Context(Cache(tmp_path))
    at_once, second, never, error = structured(engine, chats, Answer, ctx)
    assert (at_once.value, at_once.attempts) == (Answer(label="Supported"), 1)
    assert (second.value, second.attempts) == (Answer(label="Supported"), 2)
    assert never.value is None
    assert never.attempts == 3
    assert "cut off at 256 tokens" in str(never.failed)
    assert (error.value, error.failed, error.attempts) == (None, "refused", 1)
    assert len(Scripted.seen) == 4 + 2 + 1  # only what didn't fit is asked again
    again = next(r for r in Scripted.seen if len(r.prompt) == 3 and r.prompt[0].content == "second")  # type: ignore[union-attr]
    assert again.json_schema == _closed(msgspec.json.schema(Answer))
    assert isinstance(again.prompt, list)
    assert again.prompt[1] == Message(role="assistant", content='{"label": "supported"}')
    assert "Invalid enum value 'supported'" in again.prompt[2].content
    Scripted.seen.clear()
    structured(engine, chats, Answer, ctx)
    assert [r.prompt[0].content for r in Scripted.seen] == ["error"]  # type: ignore[union-attr]


def model(folder: Path, size: int, **more: Any) -> Path:
    """A folder that says it is a model of `size` bytes; its weights are a hole in the disk."""
    config = {
        "num_hidden_layers": 80, "num_attention_heads": 64, "num_key_value_heads": 8,
        "hidden_size": 8192, "torch_dtype": "bfloat16", **more,
    }  # fmt: skip
    (folder / "config.json").write_text(json.dumps(config))
    with (folder / "model.safetensors").open("wb") as file:
        file.truncate(size)
    return folder


def test_need_of_a_70b_model(tmp_path: Path) -> None:
    """Llama-3-70B: 80 layers, 8 key heads of 128: 320 KiB a token in 16 bits."""
    folder = model(tmp_path, 141_107_412_992)
    known = need(folder, "bfloat16")
    assert known.per_token == 2 * 80 * 8 * 128 * 2 == 327_680
    assert known.weights == 141_107_412_992
    assert need(folder, "float32").weights == 2 * known.weights
    with pytest.raises(ClaimflowError) as error:
        check(folder, "bfloat16", 8192, 72 * GIB, "on the card")
    assert "needs 133.9 GiB: 131.4 for its weights in bfloat16 and 2.50" in str(error.value)
    assert "smaller or quantised model" in str(error.value)
    start = time.monotonic()
    with pytest.raises(ClaimflowError, match=r"needs 131\.4 GiB: .* smaller or quantised model"):
        TransformersEngine(model=model(tmp_path, 141_107_412_992), dtype="bfloat16")
    assert time.monotonic() - start < 20  # its digest alone would take minutes
    quantised = model(tmp_path, 39_800_000_000, quantization_config={"quant_method": "awq"})
    check(quantised, "float16", 8192, 72 * GIB, "on the card")
    with pytest.raises(ClaimflowError, match=r"Set llm\.context to 9(\d+) or less"):
        check(quantised, "float16", 131_072, 40 * GIB, "on the card")


def test_need_of_a_model_that_is_quantised_while_it_is_loaded(tmp_path: Path) -> None:
    folder = model(tmp_path, 141_107_412_992, vocab_size=128_256, tie_word_embeddings=False)
    tables = 2 * 128_256 * 8192 * 2
    inner = 141_107_412_992 - tables
    assert need(folder, "bfloat16", "fp8").weights == tables + inner // 2
    assert need(folder, "bfloat16", "bitsandbytes").weights == tables + inner // 4
    check(folder, "bfloat16", 8192, 72 * GIB, "on the card", "fp8")
    with pytest.raises(ClaimflowError, match=r"67\.7 for its weights in fp8 and 2\.50"):
        check(folder, "bfloat16", 8192, 60 * GIB, "on the card", "fp8")
    with pytest.raises(ClaimflowError, match=r"is not quantised, and llm\.quantization=awq: name"):
        need(folder, "bfloat16", "awq")
    quantised = model(tmp_path, 39_800_000_000, quantization_config={"quant_method": "awq"})
    for name in ("awq", "awq_marlin"):
        assert need(quantised, "float16", name).weights == 39_800_000_000
    with pytest.raises(ClaimflowError, match=r"quantised by awq, and .*=fp8: set it to awq, or"):
        need(quantised, "float16", "fp8")


def test_no_language_model(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "vit"}')
    with pytest.raises(ClaimflowError, match="does not describe a language model"):
        need(tmp_path, "float32")


@pytest.mark.slow
@pytest.mark.skipif(not (home() / "models" / SMOLLM2).is_dir(), reason="no model laid out")
def test_smollm2_is_held_to_a_schema(tmp_path: Path) -> None:
    class Said(Record):
        question: Annotated[str, msgspec.Meta(max_length=60)]
        label: Literal["Supported", "Refuted"]
        score: Annotated[int, msgspec.Meta(ge=1, le=5)]

    engine = TransformersEngine(model=SMOLLM2)
    chats = [
        Request(
            prompt=[Message(role="user", content=f"{claim} Say something of it.")], max_tokens=60
        )
        for claim in ("The capital of Spain is Madrid.", "Bees are mammals.")
    ]
    plain = Request(prompt="Once upon a time", max_tokens=4)
    ctx = Context(Cache(tmp_path))
    found = structured(engine, chats, Said, ctx, attempts=1)
    assert [said.failed for said in found] == [None, None]
    with_schema = msgspec.structs.replace(chats[0], json_schema=_closed(msgspec.json.schema(Said)))
    mixed = engine.generate([plain, with_schema], Context(Cache(tmp_path / "other")))
    alone = engine.generate([plain], Context(Cache(tmp_path / "alone")))
    assert mixed[0] == alone[0]  # a row without a schema is as free as before
    assert read(mixed[1].text, Said) == found[0].value
    bad = msgspec.structs.replace(plain, json_schema={"type": "no such type"})
    assert "JSON schema can't be followed" in str(engine.generate([bad], ctx)[0].error)
