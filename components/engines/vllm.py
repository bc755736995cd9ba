"""Text generation with vLLM in this process."""

from __future__ import annotations

import dataclasses
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

from components import assets
from components.cache import key_of
from components.engines.base import Engine, Reply, Request
from components.errors import ClaimflowError
from components.step import Context, identity


@dataclasses.dataclass(kw_only=True)
class VllmEngine(Engine):
    """A causal language model in vLLM (Kwon et al. 2023), on a CPU or a CUDA device.

    model: a folder, or the name of one below `home()/models`. dtype: bfloat16, float32 or
    float16. context: tokens of prompt and reply. memory: GiB for the keys and values of attention
    on a CPU. gpu_share: part of a device's memory to use. A reply may depend on what else is in
    its batch. What vLLM can't take as a request (too long a prompt) becomes a reply with `error`.
    """

    unkeyed: ClassVar[tuple[str, ...]] = ("memory", "gpu_share")

    model: Path
    dtype: str = "bfloat16"
    context: int = 4096
    memory: int = 1
    gpu_share: float = 0.9

    def __post_init__(self) -> None:
        self.model = assets.model(self.model)

    def replies(self, requests: list[Request], ctx: Context) -> Iterator[tuple[int, Reply]]:
        loaded: _Loaded = ctx.loaded(key_of("vllm", identity(self)), lambda: _Loaded(self))
        prompts = [loaded.ids(request) for request in requests]
        fits = []
        for i, (ids, request) in enumerate(zip(prompts, requests, strict=True)):
            if not ids:
                yield i, Reply(error="empty prompt")
            elif len(ids) + request.max_tokens <= self.context:
                fits.append(i)
            else:
                yield (
                    i,
                    Reply(
                        error=f"prompt of {len(ids)} tokens and max_tokens {request.max_tokens} "
                        f"exceed the context of {self.context} tokens (llm.context)"
                    ),
                )
        replies = loaded.generate([prompts[i] for i in fits], [requests[i] for i in fits])
        yield from zip(fits, replies, strict=True)


class _Loaded:
    """A model in memory. Threads take turns: an engine of vLLM serves one call at a time."""

    def __init__(self, engine: VllmEngine) -> None:
        os.environ.setdefault("VLLM_ENABLE_V1_MULTIPROCESSING", "0")
        os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", str(engine.memory))
        os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")
        try:
            import vllm
        except ImportError as error:
            raise ClaimflowError(
                f"llm=vllm needs the package vllm ({error}): `pip install 'claimflow[vllm]'` on "
                "a CPU, `pip install 'claimflow[gpu]'` for a CUDA device; or choose llm=smollm2."
            ) from error
        try:
            self.llm: Any = vllm.LLM(
                model=str(engine.model),
                dtype=engine.dtype,
                max_model_len=engine.context,
                gpu_memory_utilization=engine.gpu_share,
                enforce_eager=True,
                disable_log_stats=True,
            )
        except (OSError, ValueError, RuntimeError) as error:
            raise ClaimflowError(
                f"vLLM can't load {engine.model}: {str(error).splitlines()[0]}"
            ) from error
        self.tokenizer: Any = self.llm.get_tokenizer()
        self._lock = threading.Lock()

    def ids(self, request: Request) -> list[int]:
        prompt = request.prompt
        plain = isinstance(prompt, str)
        with self._lock:
            text = (
                prompt
                if isinstance(prompt, str)
                else self.tokenizer.apply_chat_template(
                    [{"role": m.role, "content": m.content} for m in prompt],
                    tokenize=False,
                    add_generation_prompt=True,
                )
            )
            ids: list[int] = self.tokenizer(text, add_special_tokens=plain)["input_ids"]
            return ids

    def generate(self, prompts: list[list[int]], requests: list[Request]) -> list[Reply]:
        from vllm import SamplingParams
        from vllm.sampling_params import StructuredOutputsParams

        sampling = [
            SamplingParams(
                max_tokens=request.max_tokens,
                temperature=request.temperature,
                top_p=request.top_p,
                seed=request.seed,
                stop=request.stop or None,
                logprobs=0 if request.logprobs else None,
                structured_outputs=StructuredOutputsParams(json=request.json_schema)
                if request.json_schema is not None
                else None,
            )
            for request in requests
        ]
        with self._lock:
            outputs = self.llm.generate(
                [{"prompt_token_ids": ids} for ids in prompts], sampling, use_tqdm=False
            )
        return [_reply(output) for output in outputs]


def _reply(output: Any) -> Reply:
    made = output.outputs[0]
    return Reply(
        text=made.text,
        prompt_tokens=len(output.prompt_token_ids),
        completion_tokens=len(made.token_ids),
        finish_reason=made.finish_reason or "stop",
        logprobs=[
            float(step[token].logprob)
            for token, step in zip(made.token_ids, made.logprobs, strict=True)
        ]
        if made.logprobs
        else None,
    )
