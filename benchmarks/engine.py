"""SmolLM2 in vLLM beside transformers, on the same chats; both greedy and in one precision:
bfloat16, or what `dtype=` says (float32 on a processor that does not multiply bfloat16).

On the CPU vLLM answers 16 at once, transformers one by one and 16 at once; with device=cuda both
answer 1, 16 and 128 at once. The chats ask for a question about a claim of AVeriTeC's dev split.
Before, in float32, the replies of both are compared; where two differ, the gap says how much more
likely one engine's token is than the other's, by transformers. Then the same again from the cache,
and four adapters (random weights, rank 16) at once beside one; `adapters=no` leaves these out: on a
CPU they take many minutes. `prompts=32` says how many chats a line takes at least, `tokens=48` how
long a reply is at most, `threads=1` of the CPU, for both (all its cores; where other work shares
them one is steadier). Needs vLLM.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from benchmarks.common import argument, data, finish, row, timed
from components import assets
from components.cache import Cache
from components.engines.base import Engine, Message, Reply, Request
from components.engines.transformers import TransformersEngine
from components.engines.vllm import VllmEngine
from components.errors import ClaimflowError
from components.step import Context

MODEL = Path(assets.SMOLLM2)
ASK = "Write one question that helps to check this claim: "
WARM = 16  # chats before anything is timed
DTYPE = argument("dtype") or "bfloat16"
NEAR = 0.05  # a gap of log-probability below it is a tie that rounding decides


def chats(count: int, split: str = "dev") -> list[Request]:
    claims = json.loads(data("averitec", f"{split}.json").read_text())
    size = int(argument("tokens") or 48)
    return [
        Request(prompt=[Message(role="user", content=ASK + claim["claim"])], max_tokens=size)
        for claim in claims[:count]
    ]


class Bench:
    """Runs engines, each time with an empty cache, and keeps the rows."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.rows: list[dict[str, Any]] = []

    def ctx(self, stage: str) -> Context:
        return Context(Cache(tempfile.mkdtemp(dir=self.folder)), stage=stage)

    def run(self, engine: Engine, requests: list[Request]) -> tuple[list[Reply], float]:
        """(replies, seconds) without the load and the first replies."""
        ctx = self.ctx(f"{type(engine).__name__} {engine.dtype}")  # type: ignore[attr-defined]
        engine.generate(chats(WARM, "train"), ctx)  # kernels are built with the first replies
        cpu = time.process_time()
        replies, seconds = timed(lambda: engine.generate(requests, ctx))
        cpu = time.process_time() - cpu
        assert not [reply.error for reply in replies if reply.error]
        made = sum(reply.completion_tokens for reply in replies)
        print(
            f"# {type(engine).__name__}: {made} tokens in {seconds:.2f} s, CPU {cpu:.2f} s",
            flush=True,
        )
        return replies, seconds

    def rate(self, engine: Engine, requests: list[Request]) -> float:
        """Tokens a second."""
        replies, seconds = self.run(engine, requests)
        return sum(reply.completion_tokens for reply in replies) / seconds

    def compare(self, requests: list[Request], threads: int) -> None:
        """Rows: the share of equal replies, and the largest gap where they differ."""
        ours, _ = self.run(VllmEngine(model=MODEL, dtype="float32", gpu_memory=0.5), requests)
        theirs, _ = self.run(TransformersEngine(model=MODEL, threads=threads), requests)
        differ = [i for i, a in enumerate(ours) if a.text != theirs[i].text]
        equal = 1 - len(differ) / len(requests)
        self.rows.append(row("float32: share of equal replies", equal, ""))
        found = [gap(requests[i], ours[i].text, theirs[i].text) for i in differ]
        ties = sum(value < NEAR for value in found)
        self.rows.append(row("float32: replies that differ", len(found), "replies"))
        self.rows.append(row(f"float32: of these by a gap below {NEAR}", ties, "replies"))
        self.rows.append(row("float32: largest gap", max(found, default=0.0), "nats"))

    def speed(self, requests: list[Request], most: int, rates: dict[int, float]) -> float:
        """A row: vLLM's tokens a second at `most` at once; ratio: to transformers'."""
        ours = self.rate(VllmEngine(model=MODEL, dtype=DTYPE, queue=most, gpu_memory=0.5), requests)
        for batch, theirs in rates.items():
            name = f"vLLM {most} at once, transformers {batch}"
            self.rows.append(row(name, ours, "tokens/s") | {
                "against": theirs, "ratio": round(ours / theirs, 2)
            })  # fmt: skip
        return ours

    def cached(self, requests: list[Request]) -> None:
        engine = VllmEngine(model=MODEL, dtype=DTYPE, queue=16, gpu_memory=0.5)
        ctx = self.ctx(f"VllmEngine {DTYPE}")
        first, slow = timed(lambda: engine.generate(requests, ctx))
        again = Context(Cache(ctx.cache.folder))
        second, fast = timed(lambda: engine.generate(requests, again))
        assert first == second
        self.rows.append(row(f"{len(requests)} replies from the cache", fast, "s", slow))

    def adapters(self, requests: list[Request], most: int, count: int = 4) -> None:
        """Rows: one adapter for all requests, and `count` with their share of them each."""
        folders = [adapter(self.folder / f"adapter-{n}", n) for n in range(count)]
        engines = [
            VllmEngine(
                model=MODEL, dtype=DTYPE, adapter=folder, queue=most // count, gpu_memory=0.5
            )
            for folder in folders
        ]
        ctx = self.ctx("adapters")
        for engine in engines:
            engine.generate([Request(prompt="Hello", max_tokens=2)], ctx)

        def share(n: int) -> int:
            replies = engines[n].generate(requests[n::count], ctx)
            return sum(reply.completion_tokens for reply in replies)

        with ThreadPoolExecutor(count) as pool:
            made, seconds = timed(lambda: sum(pool.map(share, range(count))))
        one = VllmEngine(model=MODEL, dtype=DTYPE, adapter=folders[0], queue=most, gpu_memory=0.5)
        replies, alone = timed(lambda: one.generate(requests, self.ctx("adapters")))
        rate = sum(reply.completion_tokens for reply in replies) / alone
        self.rows.append(row(f"one adapter, {most} at once", rate, "tokens/s"))
        self.rows.append(row(f"{count} adapters, {most} at once", made / seconds, "tokens/s"))


def gap(request: Request, one: str, other: str) -> float:
    """How much likelier (natural log) the likelier of the first tokens that differ is."""
    import torch
    from transformers import AutoModelForCausalLM

    from components.engines.tokens import Tokens

    folder = assets.model(MODEL)
    tokens = Tokens(folder)
    a, b = (
        tokens.tokenizer(text + "<|im_end|>", add_special_tokens=False)["input_ids"]
        for text in (one, other)
    )
    same = next(n for n, (x, y) in enumerate(zip(a, b, strict=False)) if x != y)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    with torch.inference_mode():
        logits = model(torch.tensor([tokens.ids(request) + a[:same]])).logits[0, -1]
    return float((logits[a[same]] - logits[b[same]]).abs())


def adapter(folder: Path, seed: int) -> Path:
    """A LoRA folder for the model, with small random weights."""
    import torch
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM

    torch.manual_seed(seed)
    model = AutoModelForCausalLM.from_pretrained(assets.model(MODEL), dtype=torch.bfloat16)
    config = LoraConfig(task_type="CAUSAL_LM", r=16, target_modules="all-linear")
    model = get_peft_model(model, config)
    for name, weight in model.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(weight, std=1e-3)
    model.save_pretrained(folder)
    return folder


def main() -> None:
    threads = int(argument("threads") or os.cpu_count() or 1)
    cuda = argument("device") == "cuda"
    if not cuda:
        os.environ |= {"OMP_NUM_THREADS": str(threads), "VLLM_CPU_OMP_THREADS_BIND": "nobind"}
    import torch

    if cuda != torch.cuda.is_available():
        sys.exit("error: device=cuda goes with a CUDA device, and only with one.")
    least = int(argument("prompts") or 32)
    print(f"# load {os.getloadavg()[0]:.1f}, {threads} threads", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Path(folder))
        sizes = (1, 16, 128) if cuda else (16,)
        rates = {}
        for batch in (1, 16, 128) if cuda else (1, 16):
            engine = TransformersEngine(model=MODEL, dtype=DTYPE, batch=batch, threads=threads)
            rates[batch] = bench.rate(engine, chats(max(least, batch)))
        for most in sizes:
            against = {most: rates[most]} if cuda else rates
            bench.speed(chats(max(least, 2 * most)), most, against)
        bench.cached(chats(least))
        if argument("adapters") != "no":
            bench.adapters(chats(max(least, 2 * sizes[-1])), sizes[-1])
        bench.compare(chats(least), threads)
        print(f"# load {os.getloadavg()[0]:.1f}", flush=True)
    finish(bench.rows, "device", "dtype", "prompts", "tokens", "threads", "adapters")


if __name__ == "__main__":
    try:
        main()
    except ClaimflowError as error:
        sys.exit(f"error: {error}")
