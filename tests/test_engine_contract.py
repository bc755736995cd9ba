"""What all engines have in common, by a small model with random weights: transformers in this
process and, where vLLM is installed, vLLM in this process and `vllm serve` behind llm=openai.

The right replies come from the model itself, one argmax after the other.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest

from components.cache import Cache
from components.engines.adapter import name
from components.engines.base import Engine, Message, Reply, Request
from components.engines.openai import OpenAiEngine
from components.engines.transformers import TransformersEngine
from components.engines.vllm import VllmEngine
from components.errors import ClaimflowError
from components.files import home
from components.reason.prompt import filled
from components.reason.tuned import Judge, gold_pairs
from components.records import AVERITEC_LABELS
from components.step import Context, release_models
from tests.conftest import free_port, serving
from tests.test_tuned import llm as tuned
from tests.test_tuned import toys

SMOLLM2 = home() / "models" / "SmolLM2-135M-Instruct"
VLLM = importlib.util.find_spec("vllm") is not None
pytestmark = [
    pytest.mark.skipif(not SMOLLM2.is_dir(), reason="no model laid out"),
    pytest.mark.filterwarnings("ignore:No training claim is"),
]
CONTEXT = 256
JSON = {"backend": "guidance", "disable_any_whitespace": True}
Make = Callable[..., Engine]


class Toys(NamedTuple):
    """A base model, two adapters for it, and a folder that training a verdict wrote."""

    base: Path
    adapters: list[Path]
    verdict: Path


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Toys:
    import torch
    from peft import LoraConfig, get_peft_model
    from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM

    folder = tmp_path_factory.mktemp("models")
    base = folder / "llama"
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=49152, hidden_size=64, intermediate_size=128, num_hidden_layers=2,
        num_attention_heads=2, num_key_value_heads=1, max_position_embeddings=CONTEXT,
        bos_token_id=1, eos_token_id=2, pad_token_id=0, initializer_range=0.2,
    )  # fmt: skip
    LlamaForCausalLM(config).save_pretrained(base)
    AutoTokenizer.from_pretrained(SMOLLM2).save_pretrained(base)
    adapters = [folder / f"adapter-{n}" for n in range(2)]
    for seed, to in enumerate(adapters):
        torch.manual_seed(seed)
        lora = LoraConfig(
            task_type="CAUSAL_LM", r=8, target_modules="all-linear", init_lora_weights=False
        )
        get_peft_model(LlamaForCausalLM.from_pretrained(base), lora).save_pretrained(to)
    ctx = Context(Cache(folder / "cache"), toys(("Vell", "Orrin", "Tarn", "Lisk")))
    step = tuned(folder, model=base, epochs=1)
    return Toys(base, adapters, Path(ctx.model(step).path))


@pytest.fixture(
    scope="module",
    params=[
        "transformers",
        pytest.param(
            "vllm",
            marks=[pytest.mark.slow, pytest.mark.serverless,
                   pytest.mark.skipif(not VLLM, reason="no vLLM")],
        ),
        pytest.param(
            "openai",
            marks=[pytest.mark.slow, pytest.mark.serverless,
                   pytest.mark.skipif(not VLLM, reason="no vLLM")],
        ),
    ],
)  # fmt: skip
def make(request: pytest.FixtureRequest, models: Toys) -> Iterator[Make]:
    """Gives an engine of one kind on the base model; adapter: a folder."""
    kind = request.param
    with contextlib.ExitStack() as stack:
        if kind == "openai":
            port = free_port()
            folders = [*models.adapters, models.verdict]
            stack.enter_context(pytest.MonkeyPatch.context()).setenv("VLLM_CPU_KVCACHE_SPACE", "1")
            url = stack.enter_context(
                serving(
                    ["vllm.entrypoints.openai.api_server", f"--model={models.base}",
                     "--served-model-name=llama", "--dtype=float32", "--enforce-eager",
                     f"--port={port}", f"--max-model-len={CONTEXT}", "--enable-lora",
                     "--max-loras=4",  # with one slot, replies of mixed batches were wrong
                     f"--structured-outputs-config={json.dumps(JSON)}",
                     "--lora-modules", *(f"{name(folder)}={folder}" for folder in folders)],
                    port,
                )
            )  # fmt: skip

        def of(adapter: Path | None = None) -> Engine:
            if kind == "openai":
                return OpenAiEngine(url=f"{url}/v1", model="llama", adapter=adapter)
            if kind == "vllm":
                return VllmEngine(
                    model=models.base, dtype="float32", context=CONTEXT, adapter=adapter
                )
            return TransformersEngine(model=models.base, batch=3, adapter=adapter)

        yield of
        release_models()


@pytest.fixture
def ctx(tmp_path: Path) -> Context:
    return Context(Cache(tmp_path))


class Model:
    """The model itself, with or without an adapter."""

    def __init__(self, base: Path, adapter: Path | None = None) -> None:
        import torch
        from peft import PeftModel
        from transformers import AutoModelForCausalLM, AutoTokenizer

        self.tokenizer = AutoTokenizer.from_pretrained(base)
        self.model = AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32)
        if adapter:
            self.model = PeftModel.from_pretrained(self.model, adapter)

    def ids(self, prompt: str | list[Message]) -> list[int]:
        if isinstance(prompt, str):
            return list(self.tokenizer(prompt)["input_ids"])
        chat = [{"role": turn.role, "content": turn.content} for turn in prompt]
        text = self.tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True)
        return list(self.tokenizer(text, add_special_tokens=False)["input_ids"])

    def likely(self, ids: list[int]) -> Any:
        """Log-probabilities of the next token."""
        import torch

        with torch.inference_mode():
            return self.model(torch.tensor([ids])).logits[0, -1].log_softmax(-1)

    def greedy(self, prompt: str | list[Message], size: int) -> Reply:
        ids, values = self.ids(prompt), []
        start = len(ids)
        for _ in range(size):
            found = self.likely(ids)
            ids.append(int(found.argmax()))
            values.append(float(found.max()))
        return Reply(
            text=self.tokenizer.decode(ids[start:]), prompt_tokens=start, completion_tokens=size,
            finish_reason="length", logprobs=values,
        )  # fmt: skip


def same(found: Reply, expected: Reply) -> None:
    """Equal, log-probabilities within 1e-4."""
    assert found.logprobs == pytest.approx(expected.logprobs, abs=1e-4)
    assert msgspec.structs.replace(found, logprobs=None) == msgspec.structs.replace(
        expected, logprobs=None
    )


def chat(text: str) -> list[Message]:
    return [Message(role="system", content="Be brief."), Message(role="user", content=text)]


def test_replies_of_prompts_and_chats(make: Make, models: Toys, ctx: Context) -> None:
    """In order, each by its own length; what can't be answered costs itself alone."""
    prompts = ["one two three", chat("What is a town?"), "Once upon", chat("Why?"), "x"]
    requests = [Request(prompt=p, max_tokens=3 + n, logprobs=True) for n, p in enumerate(prompts)]
    requests.insert(2, Request(prompt="word " * 300, max_tokens=4))
    replies = make().generate(requests, ctx)
    assert replies.pop(2).error
    model = Model(models.base)
    for n, (prompt, reply) in enumerate(zip(prompts, replies, strict=True)):
        same(reply, model.greedy(prompt, 3 + n))
    assert ctx.tokens == {
        "prompt": sum(r.prompt_tokens for r in replies), "completion": 3 + 4 + 5 + 6 + 7
    }  # fmt: skip


def test_a_stop_text_ends_a_reply(make: Make, models: Toys, ctx: Context) -> None:
    whole = Model(models.base).greedy("one two three", 8).text
    stop = whole[len(whole) // 2 :][:3]
    stopped, other = make().generate(
        [
            Request(prompt="one two three", max_tokens=8, stop=["no such text", stop]),
            Request(prompt="one two three", max_tokens=8),
        ],
        ctx,
    )
    assert stopped.text == whole[: whole.index(stop)]
    assert stopped.finish_reason == "stop"
    assert 0 < stopped.completion_tokens < 8
    assert (other.text, other.finish_reason) == (whole, "length")


def test_samples_by_seed(make: Make, models: Toys, ctx: Context, tmp_path: Path) -> None:
    """n samples are n seeds; a seed gives the same reply whatever else is asked for."""
    samples = [
        Request(prompt="Once upon", max_tokens=4, temperature=1.0, top_p=0.9, seed=seed,
                logprobs=True)
        for seed in range(6)
    ]  # fmt: skip
    replies = make().generate(samples, ctx)
    assert len({reply.text for reply in replies}) == 6
    again = make().generate(samples[4:], Context(Cache(tmp_path / "other")))
    assert [reply.text for reply in again] == [reply.text for reply in replies[4:]]
    # Log-probabilities are the model's own, before temperature and top_p.
    found = Model(models.base).likely(Model(models.base).ids("Once upon"))
    for reply in replies:
        assert reply.logprobs
        assert float((found - reply.logprobs[0]).abs().min()) < 1e-4
    narrow = [msgspec.structs.replace(r, top_p=1e-6) for r in samples[:2]]
    texts = {reply.text for reply in make().generate(narrow, ctx)}
    assert texts == {Model(models.base).greedy("Once upon", 4).text}


def test_a_schema_is_kept_to(make: Make, ctx: Context) -> None:
    schema = {
        "type": "object",
        "properties": {"label": {"enum": ["yes", "no"]}, "n": {"enum": [1, 2, 3]}},
        "required": ["label", "n"],
        "additionalProperties": False,
    }
    asked = [Request(prompt=chat(f"Town {n}?"), max_tokens=40, json_schema=schema)
             for n in range(3)]  # fmt: skip
    bad = Request(prompt=chat("Town?"), max_tokens=4, json_schema={"type": "no such type"})
    *replies, refused, free = make().generate(
        [*asked, bad, Request(prompt=chat("Town?"), max_tokens=4)], ctx
    )
    for reply in replies:
        said = json.loads(reply.text)
        assert said["label"] in ("yes", "no")
        assert said["n"] in (1, 2, 3)
        assert reply.finish_reason == "stop"
    assert refused.error
    assert not free.error
    assert "{" not in free.text


def test_choices_are_scored(make: Make, models: Toys, ctx: Context) -> None:
    model = Model(models.base)
    found = model.likely(model.ids(chat("Is it?")))
    words = [model.tokenizer.decode([int(i)]) for i in found.topk(12).indices]
    words = [w for w in words if len(model.ids(w)) == 1 and "\ufffd" not in w][:3]
    expected = [float(found[model.ids(word)[0]]) for word in words]
    asked = Request(prompt=chat("Is it?"), max_tokens=1, choices=words)
    sampled = msgspec.structs.replace(asked, temperature=2.0, seed=5)
    first, second = make().generate([asked, sampled], ctx)
    assert first.scores == pytest.approx(expected, abs=1e-4)
    assert second.scores == pytest.approx(expected, abs=1e-4)


def test_adapters_side_by_side(make: Make, models: Toys, ctx: Context) -> None:
    """Asked at the same time, of one base model; each by its own weights."""
    prompts = ["one two three", "Once upon", chat("Why?")]
    requests = [Request(prompt=p, max_tokens=4, logprobs=True) for p in prompts]
    folders = [None, *models.adapters]
    engines = [make(folder) for folder in folders for _ in range(2)]
    contexts = [Context(Cache(ctx.cache.folder / str(n))) for n in range(len(engines))]
    with ThreadPoolExecutor(len(engines)) as pool:
        replies = list(pool.map(lambda e, c: e.generate(requests, c), engines, contexts))
    for n, folder in enumerate(folders):
        model = Model(models.base, folder)
        for found in replies[2 * n : 2 * n + 2]:
            for prompt, reply in zip(prompts, found, strict=True):
                same(reply, model.greedy(prompt, 4))
    assert len({reply.text for some in replies for reply in some}) == 9


def test_a_trained_verdict_has_the_same_label_probabilities(
    make: Make, models: Toys, ctx: Context
) -> None:
    """As the step that trained it, within 1e-4 of log-probability."""
    judge = Judge.of(models.verdict, models.base)
    claims = toys(("Esk", "Wick"))
    rows = [row for c in claims if (row := judge.row(c, gold_pairs(c)))]
    assert judge.tuned.words
    words = [judge.tuned.words[label] for label in AVERITEC_LABELS]
    requests = []
    for claim in claims:
        evidence = "\n".join(f"Question: {q}\nAnswer: {a}" for q, a in gold_pairs(claim))
        values = {"claim": claim.text, "speaker": "unknown", "date": "unknown"}
        prompt = filled(models.verdict / "prompt.txt", **values, evidence=evidence)
        turn = [Message(role="user", content=prompt)]
        requests.append(Request(prompt=turn, max_tokens=1, choices=words))
    replies = make(models.verdict).generate(requests, ctx)
    for reply, expected in zip(replies, judge.scores(rows).tolist(), strict=True):
        if reply.error:  # a server tells of 20 tokens, and so small a model holds others likelier
            assert isinstance(make(), OpenAiEngine)
            assert "likeliest tokens" in reply.error
            continue
        assert reply.scores == pytest.approx(expected, abs=1e-4)


def test_an_adapter_of_another_base_is_refused(models: Toys, tmp_path: Path) -> None:
    import shutil

    other = shutil.copytree(models.base, tmp_path / "another")
    for folder in (models.adapters[0], models.verdict):
        TransformersEngine(model=models.base, adapter=folder)
        (other / "more.txt").write_text("other content")
        with pytest.raises(ClaimflowError, match=r"trained on llama.* llm\.model is another"):
            TransformersEngine(model=other, adapter=folder)
    with pytest.raises(ClaimflowError, match="describes no adapter"):
        TransformersEngine(model=models.base, adapter=tmp_path)
