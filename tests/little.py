"""Systems in little: models that answer in milliseconds, and nothing that makes sense, and the
steps of a run alone. For tests of what is the same with any words."""

from __future__ import annotations

import functools
import tempfile
from pathlib import Path
from typing import Any

from components.assets import MINILM, SMOLLM2
from components.files import home
from components.pipeline import load, run_step
from components.records import FIELD_TYPES, Case
from components.step import Context


@functools.cache
def models() -> dict[str, Path]:
    """A Llama and a BERT of random weights, one small layer over the words of the real ones."""
    import torch
    from transformers import AutoTokenizer, BertConfig, BertModel, LlamaConfig, LlamaForCausalLM

    size = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1,
            "num_attention_heads": 2, "max_position_embeddings": 8192}  # fmt: skip
    built: dict[str, Any] = {
        SMOLLM2: lambda words: LlamaForCausalLM(
            LlamaConfig(
                vocab_size=len(words), eos_token_id=words.eos_token_id,
                pad_token_id=words.pad_token_id, **size,
            )
        ),
        MINILM: lambda words: BertModel(BertConfig(vocab_size=len(words), **size)),
    }  # fmt: skip
    found = {}
    for name, build in built.items():
        words = AutoTokenizer.from_pretrained(home() / "models" / name)
        torch.manual_seed(13)
        found[name] = Path(_folder().name) / name
        build(words).save_pretrained(found[name])
        words.save_pretrained(found[name])
    return found


@functools.cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="little-")


def in_little(config: Any) -> Any:
    """The config with little models in the place of those that write, and that are tuned."""
    from omegaconf import DictConfig, OmegaConf

    for key in list(config):
        if OmegaConf.is_interpolation(config, key) or OmegaConf.is_missing(config, key):
            continue
        if isinstance(config[key], DictConfig):
            in_little(config[key])
    target = str(config.get("_target_"))
    tuned = ("TransformersEngine", "TunedVerdict", "Entailment", "Rationale")
    if target.endswith(tuned) and config.model in models():
        config.model = str(models()[config.model])
    return config


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
