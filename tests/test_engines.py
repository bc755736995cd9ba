"""Engines: replies in order, from the cache, stopped where asked; a real model."""

from __future__ import annotations

import dataclasses
import gc
import importlib.util
import signal
import subprocess
import sys
import tracemalloc
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.cache import Cache
from components.engines.base import Engine, Message, Reply, Request, cut
from components.engines.threads import release_helpers
from components.engines.transformers import TransformersEngine
from components.engines.vllm import VllmEngine
from components.errors import ClaimflowError
from components.files import ROOT, home
from components.step import Context, _models, release_models

SMOLLM2 = Path("SmolLM2-135M-Instruct")
needs_model = pytest.mark.skipif(
    not (home() / "models" / SMOLLM2).is_dir(), reason="no model laid out"
)


@dataclasses.dataclass(kw_only=True)
class Echo(Engine):
    """Answers backwards in time; breaks on "crash", says an error on "bad"."""

    asked: ClassVar[list[str]] = []
    suffix: str = "!"

    def replies(self, requests: list[Request], ctx: Context) -> Iterator[tuple[int, Reply]]:
        for i in reversed(range(len(requests))):
            text = str(requests[i].prompt)
            self.asked.append(text)
            if text == "crash":
                raise RuntimeError(text)
            error = "refused" if text == "bad" else None
            yield i, Reply(text=text + self.suffix, completion_tokens=1, error=error)


@pytest.fixture
def ctx(tmp_path: Path) -> Context:
    Echo.asked.clear()
    return Context(Cache(tmp_path))


def texts(engine: Engine, ctx: Context, *prompts: str) -> list[str]:
    return [r.text for r in engine.generate([Request(prompt=p) for p in prompts], ctx)]


def test_replies_come_in_order_and_equal_requests_are_asked_once(ctx: Context) -> None:
    assert texts(Echo(), ctx, "a", "b", "a", "c") == ["a!", "b!", "a!", "c!"]
    assert sorted(Echo.asked) == ["a", "b", "c"]
    assert texts(Echo(), ctx, "c", "d") == ["c!", "d!"]
    assert Echo.asked[3:] == ["d"]
    assert texts(Echo(suffix="?"), ctx, "a") == ["a?"]  # another parameter, another reply
    assert ctx.tokens["completion"] == 7  # also for replies from the cache


def test_a_crash_loses_no_finished_reply_and_an_error_is_not_kept(ctx: Context) -> None:
    with pytest.raises(RuntimeError):
        texts(Echo(), ctx, "crash", "y", "z")
    Echo.asked.clear()
    assert texts(Echo(), ctx, "y", "z") == ["y!", "z!"]
    assert Echo.asked == []
    for _ in range(2):
        bad, good = Echo().generate([Request(prompt="bad"), Request(prompt="good")], ctx)
        assert (bad.error, good.error) == ("refused", None)
    assert sorted(Echo.asked) == ["bad", "bad", "good"]


SCRIPT = """
import sys, time
from pathlib import Path
from components.cache import Cache
from components.engines.base import Request
from components.step import Context
from tests.test_engines import Echo

class Slow(Echo):
    def replies(self, requests, ctx):
        for done in super().replies(requests, ctx):
            print(done[0], flush=True)
            yield done
            time.sleep(0.01)

Slow.__name__ = Slow.__qualname__ = "Echo"
Slow.__module__ = Echo.__module__
Slow().generate([Request(prompt=str(n)) for n in range(300)], Context(Cache(sys.argv[1])))
"""


def test_kill_9_loses_no_finished_reply(tmp_path: Path) -> None:
    """At most the reply that was on its way into the cache."""
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT, str(tmp_path)], stdout=subprocess.PIPE, text=True, cwd=ROOT
    )
    assert process.stdout
    given = [int(process.stdout.readline()) for _ in range(50)]
    process.send_signal(signal.SIGKILL)
    given += [int(line) for line in process.stdout]
    process.wait()
    process.stdout.close()
    assert len(given) < 300
    Echo.asked.clear()
    prompts = [str(n) for n in range(300)]
    assert texts(Echo(), Context(Cache(tmp_path)), *prompts) == [f"{p}!" for p in prompts]
    asked_again = {int(prompt) for prompt in Echo.asked} & set(given)
    assert asked_again <= {given[-1]}


def test_thousands_of_prompts(ctx: Context) -> None:
    """A repeated prompt costs one reply, and what is held beside the replies stays small."""
    prompts = [f"{n} {'word ' * 200}" for n in range(1500)]
    tracemalloc.start()
    found = texts(Echo(), ctx, *prompts, *prompts[:500])
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert found == [f"{prompt}!" for prompt in [*prompts, *prompts[:500]]]
    assert len(Echo.asked) == 1500
    assert peak < 8 * sum(map(len, prompts))


@needs_model
def test_models_take_turns(tmp_path: Path) -> None:
    """The model of one stage leaves memory before that of the next is loaded; one that both use
    stays."""
    import torch
    from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=49152, hidden_size=256, intermediate_size=64, num_hidden_layers=1,
        num_attention_heads=2, num_key_value_heads=1, max_position_embeddings=64,
    )  # fmt: skip
    LlamaForCausalLM(config).save_pretrained(tmp_path / "a")
    AutoTokenizer.from_pretrained(home() / "models" / SMOLLM2).save_pretrained(tmp_path / "a")
    cache = Cache(tmp_path / "cache")
    engine = TransformersEngine(model=tmp_path / "a")

    def held() -> int:
        """Bytes of all tensors."""
        gc.collect()
        return sum(
            x.untyped_storage().nbytes() for x in gc.get_objects() if type(x) is torch.nn.Parameter
        )

    def ask(stage: str, prompt: str) -> None:
        engine.generate([Request(prompt=prompt, max_tokens=2)], Context(cache, stage=stage))

    release_models()
    before = held()
    size = 2 * 49152 * 256 * 4
    ask("questioner", "a")
    assert held() - before >= size
    kept = list(_models.values())
    ask("answerer", "b")  # uses the same
    assert [id(x) for x in kept] == [id(x) for x in _models.values()]
    kept.clear()
    seen = []
    Context(cache, stage="answerer").loaded("beside", lambda: seen.append(held()), large=True)
    assert seen[0] - before >= size  # within a stage nothing goes
    Context(cache, stage="reranker").loaded("next", lambda: seen.append(held()), large=True)
    assert seen[1] - before < size / 10
    release_models()


@given(st.text(), st.lists(st.text(min_size=1), max_size=3))
def test_cut_leaves_no_stop_text(text: str, stop: list[str]) -> None:
    short = cut(text, stop)
    assert text.startswith(short)
    assert not any(mark in short for mark in stop)
    assert short == text or any(text.startswith(mark, len(short)) for mark in stop)


def test_what_cannot_be_is_said_before_a_model_is_loaded() -> None:
    with pytest.raises(ClaimflowError, match="No model folder 'none-such'") as error:
        TransformersEngine(model=Path("none-such"))
    assert "\n" not in str(error.value)


@needs_model
def test_parameters_are_checked() -> None:
    with pytest.raises(ClaimflowError, match="float32 or bfloat16"):
        TransformersEngine(model=SMOLLM2, dtype="int4")


@needs_model
@pytest.mark.skipif(importlib.util.find_spec("vllm") is not None, reason="vllm is installed")
def test_vllm_names_its_extra(ctx: Context) -> None:
    with pytest.raises(ClaimflowError, match=r"pip install 'claimflow\[vllm\]'"):
        VllmEngine(model=SMOLLM2).generate([Request(prompt="a")], ctx)


@needs_model
@pytest.mark.slow
def test_smollm2(ctx: Context, tmp_path: Path) -> None:
    engine = TransformersEngine(model=SMOLLM2, batch=3)
    capital = [Message(role="user", content="What is the capital of France? One word.")]
    requests = [
        Request(prompt="1, 2, 3, 4, 5, 6,", max_tokens=6),
        Request(prompt=capital, max_tokens=12),
        Request(prompt="one two three. one two three. one two", max_tokens=12, stop=["."]),
        Request(prompt="word " * 9000, max_tokens=6),
        Request(prompt="Once upon a time", max_tokens=6, temperature=1.0, seed=1, logprobs=True),
        Request(prompt="Once upon a time", max_tokens=6, temperature=1.0, seed=2),
        Request(prompt=""),
    ]
    replies = engine.generate(requests, ctx)
    assert replies[0].text.startswith(" 7, 8")
    assert replies[0].finish_reason == "length"
    assert replies[0].completion_tokens == 6
    assert "Paris" in replies[1].text
    assert replies[1].finish_reason == "stop"
    assert replies[2].text == " three"
    assert replies[2].finish_reason == "stop"
    assert "context of 8192 tokens" in (replies[3].error or "")
    assert replies[4].text != replies[5].text
    assert replies[6].error == "empty prompt"
    logprobs = replies[4].logprobs or []
    assert len(logprobs) == 6
    assert max(logprobs) <= 0
    # The same from another cache, alone in its batch.
    alone = TransformersEngine(model=SMOLLM2, batch=1)
    other = Context(Cache(tmp_path / "other"))
    again = alone.generate(requests[:3], other)
    assert [r.text for r in again] == [r.text for r in replies[:3]]
    # From the cache, without a model.
    release_models()
    loads: list[str] = []
    ctx.loaded = lambda key, load: loads.append(key)  # type: ignore[method-assign]
    kept = [i for i, reply in enumerate(replies) if not reply.error]
    again = engine.generate([requests[i] for i in kept], ctx)
    assert again == [replies[i] for i in kept]
    assert loads == []


def test_threads_of_torch_are_given_back() -> None:
    """In a thread that goes on: it is what a worker of a run is."""
    import psutil
    import torch

    def work() -> list[int]:
        counts = []
        torch.set_num_threads(3)
        for _ in range(2):
            torch.randn(500, 500) @ torch.randn(500, 500)
            counts.append(psutil.Process().num_threads())
            release_helpers()
            counts.append(psutil.Process().num_threads())
        return counts

    with ThreadPoolExecutor(1) as pool:
        [busy, idle, again, at_last] = pool.submit(work).result()
    assert busy == again == idle + 2
    assert at_last == idle
