"""Text generation with Hugging Face transformers, on the CPU or whatever torch finds."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from components import assets
from components.cache import key_of
from components.engines import adapter as adapters
from components.engines.base import Engine, Reply, Request, cut
from components.engines.memory import check, check_large
from components.engines.schema import Grammars
from components.engines.tokens import Tokens, refused
from components.errors import ClaimflowError
from components.numbers import check_number
from components.step import Context, identity

if TYPE_CHECKING:
    import torch


@dataclasses.dataclass(kw_only=True)
class TransformersEngine(Engine):
    """A causal language model in this process.

    model: a folder, or the name of one below `home()/models`. dtype: float32 or bfloat16.
    bfloat16 needs half the memory and, where the CPU has AMX, less than half the time, but then
    a reply depends on what else is in its batch; in float32 we have not seen it do so. batch:
    prompts at once; those of like length go together. threads: of the CPU; one is steady where
    other work shares the cores. adapter: a LoRA folder for the model; engines that differ in it
    alone share one copy of the model, and take turns on it.
    """

    unkeyed: ClassVar[tuple[str, ...]] = ("threads",)

    model: Path
    dtype: str = "float32"
    batch: int = 12
    threads: int = 1
    adapter: Path | None = None

    def __post_init__(self) -> None:
        self.model = assets.model(self.model)
        if self.dtype not in ("float32", "bfloat16"):
            raise ClaimflowError(f"llm.dtype is {self.dtype}: choose float32 or bfloat16.")
        check_number(self, "batch", 1)
        check_number(self, "threads", 1)
        check_large(self.model, self.dtype, 0)
        if self.adapter is not None:
            self.adapter = Path(self.adapter).absolute()
            adapters.check(self.adapter, self.model)

    def replies(self, requests: list[Request], ctx: Context) -> Iterator[tuple[int, Reply]]:
        import torch

        tokens = self._tokens(ctx)
        key = key_of("transformers", identity(self.model), self.dtype, bool(self.adapter))
        loaded: _Loaded = ctx.loaded(
            key, lambda: _Loaded(self.model, self.dtype, tokens.tokenizer), large=True
        )
        torch.set_num_threads(self.threads)  # counts for the calling thread alone
        prompts = [tokens.ids(request) for request in requests]
        fits = []
        for i, (ids, request) in enumerate(zip(prompts, requests, strict=True)):
            if reply := refused(ids, request, tokens.context) or loaded.refused(request):
                yield i, reply
            else:
                fits.append(i)
        choices = [tokens.choices(request) for request in requests]
        fits.sort(key=lambda i: (requests[i].max_tokens, len(prompts[i]), i))
        for at in range(0, len(fits), self.batch):
            some = fits[at : at + self.batch]
            with loaded.using(self.adapter):
                replies = loaded.forward(
                    [prompts[i] for i in some],
                    [requests[i] for i in some],
                    [choices[i] for i in some],
                )
            yield from zip(some, replies, strict=True)

    def fits(self, request: Request, ctx: Context) -> bool:
        tokens = self._tokens(ctx)
        return not refused(tokens.ids(request), request, tokens.context)

    def _tokens(self, ctx: Context) -> Tokens:
        found: Tokens = ctx.loaded(
            key_of("tokens", identity(self.model)), lambda: Tokens(self.model)
        )
        return found


class _Loaded:
    """A model in memory. Threads may share it."""

    def __init__(self, folder: Path, dtype: str, tokenizer: Any) -> None:
        import psutil
        import torch
        from transformers import AutoModelForCausalLM
        from transformers.utils import logging

        logging.disable_progress_bar()  # type: ignore[no-untyped-call]
        if torch.cuda.is_available():
            check(folder, dtype, 0, torch.cuda.mem_get_info()[0], "free on the card")
        else:
            check(folder, dtype, 0, psutil.virtual_memory().available, "of memory")
        try:
            model: Any = AutoModelForCausalLM.from_pretrained(
                folder, dtype=getattr(torch, dtype), local_files_only=True
            )
        except (OSError, ValueError) as error:
            raise ClaimflowError(
                f"Can't load a language model from {folder}: {str(error).splitlines()[0]}"
            ) from error
        self.model: Any = model.to("cuda" if torch.cuda.is_available() else "cpu")
        self.tokenizer = tokenizer
        self.pad = self.tokenizer.pad_token_id
        if self.pad is None:
            self.pad = self.tokenizer.eos_token_id
        ends = self.model.generation_config.eos_token_id
        self.ends = {self.tokenizer.eos_token_id, *(ends if isinstance(ends, list) else [ends])}
        self._lock = threading.Lock()
        self._turn = threading.Lock()

    @contextlib.contextmanager
    def using(self, adapter: Path | None) -> Iterator[None]:
        """Let the model run with an adapter; those before stay beside it. Without one any number
        of threads run at once."""
        if adapter is None:
            yield
            return
        from peft import PeftModel

        name = adapters.name(adapter)
        with self._turn:
            if not isinstance(self.model, PeftModel):
                self.model = PeftModel.from_pretrained(self.model, adapter, adapter_name=name)
            elif name not in self.model.peft_config:
                self.model.load_adapter(adapter, adapter_name=name)
            self.model.set_adapter(name)
            yield

    def refused(self, request: Request) -> Reply | None:
        """The reply to a request whose schema can't be followed, or None."""
        if request.json_schema is None:
            return None
        with self._lock:
            problem = self.grammars.problem(json.dumps(request.json_schema))
        return Reply(error=problem) if problem else None

    @functools.cached_property
    def grammars(self) -> Grammars:
        return Grammars(self.tokenizer, self.model.config.vocab_size, self.ends)

    def forward(
        self, prompts: list[list[int]], requests: list[Request], choices: list[list[int]]
    ) -> list[Reply]:
        """Generate for one batch, padded on the left."""
        import torch

        width = max(map(len, prompts))
        ids = torch.full((len(prompts), width), self.pad)
        mask = torch.zeros_like(ids)
        for row, prompt in enumerate(prompts):
            ids[row, width - len(prompt) :] = torch.tensor(prompt)
            mask[row, width - len(prompt) :] = 1
        stopping = _Stopping(self, requests, width)
        processors: list[Any] = [_Sampling(requests)]
        if any(request.json_schema is not None for request in requests):
            with self._lock:
                processors.insert(0, self.grammars.batch(requests, width))
        with torch.inference_mode():
            out = self.model.generate(
                input_ids=ids.to(self.model.device),
                attention_mask=mask.to(self.model.device),
                max_new_tokens=max(request.max_tokens for request in requests),
                do_sample=False,  # _Sampling's noise makes the largest score a sample
                logits_processor=processors,
                stopping_criteria=[stopping],
                pad_token_id=self.pad,
                return_dict_in_generate=True,
                output_logits=any(request.logprobs or request.choices for request in requests),
            )
        replies = []
        for row, request in enumerate(requests):
            size = stopping.sizes[row]
            made = out.sequences[row, width : width + size].tolist()
            replies.append(
                Reply(
                    text=cut(self.decode(made), request.stop),
                    prompt_tokens=len(prompts[row]),
                    completion_tokens=size,
                    finish_reason=stopping.reasons[row],
                    logprobs=[
                        float(out.logits[at][row].float().log_softmax(-1)[token])
                        for at, token in enumerate(made)
                    ]
                    if request.logprobs
                    else None,
                    scores=out.logits[0][row].float().log_softmax(-1)[choices[row]].tolist()
                    if choices[row]
                    else [],
                )
            )
        return replies

    def decode(self, ids: list[int]) -> str:
        text: str = self.tokenizer.decode(ids, skip_special_tokens=True)
        return text


class _Stopping:
    """Ends each row of a batch by its own request, and remembers where and why."""

    def __init__(self, loaded: _Loaded, requests: list[Request], width: int) -> None:
        self.loaded, self.requests, self.width = loaded, requests, width
        self.sizes = [0] * len(requests)
        self.reasons = [""] * len(requests)

    def __call__(self, input_ids: torch.Tensor, scores: Any, **_: Any) -> torch.Tensor:
        import torch

        for row, ids in enumerate(input_ids[:, self.width :].tolist()):
            if self.reasons[row]:
                continue
            request = self.requests[row]
            ended = ids[-1] in self.loaded.ends
            if not ended and request.stop:
                text = self.loaded.decode(ids)
                ended = any(mark in text for mark in request.stop)
            if ended or len(ids) == request.max_tokens:
                self.sizes[row] = len(ids)
                self.reasons[row] = "stop" if ended else "length"
        return torch.tensor([bool(reason) for reason in self.reasons], device=input_ids.device)


class _Sampling:
    """Samples each row by its own temperature, top_p and seed, whatever else is in the batch.

    The largest of the logits with Gumbel noise added is a sample of their softmax (Gumbel 1954).
    """

    def __init__(self, requests: list[Request]) -> None:
        import torch

        self.requests = requests
        self.generators = [torch.Generator().manual_seed(request.seed) for request in requests]

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        import torch
        from transformers import TemperatureLogitsWarper, TopPLogitsWarper

        scores = scores.clone()  # the model's own are asked for their log-probabilities
        for row, request in enumerate(self.requests):
            if request.temperature == 0:
                continue
            logits = TemperatureLogitsWarper(float(request.temperature))(
                None, scores[row : row + 1]
            )
            if request.top_p < 1:
                logits = TopPLogitsWarper(request.top_p)(None, logits)
            uniform = torch.rand(logits.shape[-1], generator=self.generators[row])
            scores[row] = logits[0] - (-uniform.log()).log().to(logits.device)
        return scores
