"""Systems in little: a language model that answers in milliseconds, and nothing that makes sense,
and the steps of a run alone. For tests of what is the same with any words."""

from __future__ import annotations

import functools
import tempfile
from pathlib import Path
from typing import Any

from components.assets import SMOLLM2
from components.files import home
from components.pipeline import load, run_step
from components.records import FIELD_TYPES, Case
from components.step import Context


@functools.cache
def llama() -> Path:
    """The folder of a Llama with random weights: one small layer over SmolLM2's words."""
    import torch
    from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM

    folder = Path(_folder().name)
    words = AutoTokenizer.from_pretrained(home() / "models" / SMOLLM2)
    torch.manual_seed(13)
    config = LlamaConfig(
        vocab_size=len(words), hidden_size=16, intermediate_size=16, num_hidden_layers=1,
        num_attention_heads=2, max_position_embeddings=8192, eos_token_id=words.eos_token_id,
        pad_token_id=words.pad_token_id,
    )  # fmt: skip
    LlamaForCausalLM(config).save_pretrained(folder)
    words.save_pretrained(folder)
    return folder


@functools.cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="llama-")


def through(config: Any, folder: Path) -> list[Case]:
    """The claims of a run behind its last step: the steps alone, without flow, scores and files."""
    from components.cache import open_cache
    from components.datasets.base import case_refs
    from flows.build import build, build_steps

    dataset, cache = build(config.dataset), open_cache(str(folder))
    claims = dataset.claims()
    ctx = Context(cache, dataset.train(claims)[0], config.seed)
    refs = case_refs(dataset, claims, cache)
    for name, step in build_steps(config).items():
        refs = run_step(step, name, refs, ctx)
    assert [ref.error for ref in refs] == [None] * len(refs)
    return [load(ref, list(FIELD_TYPES), cache) for ref in refs]
