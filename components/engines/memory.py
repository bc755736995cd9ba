"""What a language model needs in memory, known from its files before it is loaded."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from components.errors import ClaimflowError
from components.records import Record
from components.weights import files

GIB = 1024**3
LARGE = 16 * GIB
_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}
LOADING = {"fp8": 1.0, "bitsandbytes": 0.5}  # bytes of a weight that is quantised as it is loaded


class Need(Record):
    """Bytes: of the weights, and of the keys and values of one token."""

    weights: int
    per_token: int

    def total(self, context: int) -> int:
        """Bytes for the weights and one sequence of `context` tokens."""
        return self.weights + context * self.per_token


def need(folder: Path, dtype: str, quantization: str | None = None) -> Need:
    """What the model in `folder` takes when it is loaded as `dtype`.

    Weights count as they lie on disk; those that are not quantised there are converted to `dtype`,
    or to the bits of `quantization`, but for the embeddings of tokens, which stay as they are. Keys
    and values: two a layer, of the key heads' size, in `dtype`. Sliding windows and a cache of
    fewer bits take less than is said here.

    Raises ClaimflowError when the folder has no config.json, or one without layers and heads, and
    when its weights are not, and can't be, quantised by `quantization`.
    """
    file = folder / "config.json"
    try:
        config: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        config = config.get("text_config", config) | {
            key: config[key] for key in ("quantization_config", "dtype", "torch_dtype")
            if key in config
        }  # fmt: skip
        heads = config["num_attention_heads"]
        size = config.get("head_dim") or config["hidden_size"] // heads
        key_heads = config.get("num_key_value_heads") or heads
        per_token = 2 * config["num_hidden_layers"] * key_heads * size * _BYTES[dtype]
        tables = 1 if config.get("tie_word_embeddings") else 2
        embeddings = tables * config.get("vocab_size", 0) * config["hidden_size"] * _BYTES[dtype]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ClaimflowError(
            f"{file} does not describe a language model ({type(error).__name__}: {error})."
        ) from error
    weights = size_of(folder)
    if not weights:
        raise ClaimflowError(
            f"{folder} holds no weights (*.safetensors): give a folder that does. One GGUF file is "
            "served by llama.cpp, for llm=openai."
        )
    method = str(config.get("quantization_config", {}).get("quant_method", ""))
    if quantization:
        _check_quantization(folder, method, quantization)
    if not method:
        stored = str(config.get("dtype") or config.get("torch_dtype") or dtype)
        weights = weights * _BYTES[dtype] // _BYTES.get(stored, _BYTES[dtype])
        if quantization:
            inner = max(0, weights - embeddings)
            weights = weights - inner + int(inner * LOADING[quantization] / _BYTES[dtype])
    return Need(weights=weights, per_token=per_token)


def size_of(folder: Path) -> int:
    """Bytes of a model's weights on disk."""
    return sum(path.stat().st_size for path in files(folder))


def _check_quantization(folder: Path, method: str, wanted: str) -> None:
    """method: by which the weights in the folder are quantised; empty: they are not."""
    if wanted in LOADING if not method else wanted.startswith(method):
        return
    if method:
        state, remedy = f"quantised by {method}", f"set it to {method}, or leave it null"
    else:
        state = "not quantised"
        remedy = (
            f"name a model that is, or set it to one of {', '.join(LOADING)}, which quantise a "
            "model while it is loaded"
        )
    raise ClaimflowError(f"{folder} is {state}, and llm.quantization={wanted}: {remedy}.")


def check(
    folder: Path, dtype: str, context: int, free: int, place: str, quantization: str | None = None
) -> None:
    """Raise ClaimflowError when the model and one sequence of `context` tokens need more than
    `free` bytes; `place` says whose bytes these are, and how to have more of them."""
    known = need(folder, dtype, quantization)
    total = known.total(context)
    if total <= free:
        return
    left = max(0, free - known.weights) // known.per_token
    if context and left:
        remedy = f"Set llm.context to {left} or less"
    else:
        remedy = "Choose a smaller or quantised model"
    tokens = (
        f" and {context * known.per_token / GIB:.2f} for the keys and values of {context} tokens"
    )
    raise ClaimflowError(
        f"{folder.name} needs {total / GIB:.1f} GiB: {known.weights / GIB:.1f} for its weights in "
        f"{quantization or dtype}{tokens if context else ''}. There are {free / GIB:.1f} GiB "
        f"{place}. {remedy}, or run it where there is more memory."
    )


def check_weights(folder: Path) -> None:
    """Raise ClaimflowError for a model to be trained, or to judge, that nothing here can hold in
    float32; of large ones alone, before their digest takes minutes."""
    if size_of(folder) >= LARGE // 2:  # bfloat16, as most are kept
        check_large(folder, "float32", 0)


def check_large(folder: Path, dtype: str, context: int, quantization: str | None = None) -> None:
    """Raise ClaimflowError for a model that nothing here can hold, were all of it free.

    For large ones alone, and before anything else: their digest takes minutes, and a small one is
    not worth importing torch where the cache has its replies.
    """
    if need(folder, dtype, quantization).weights < LARGE:
        return
    import psutil
    import torch

    if torch.cuda.is_available():
        there, place = torch.cuda.mem_get_info()[1], "on the card"
    else:
        there, place = psutil.virtual_memory().total, "of memory"
    check(folder, dtype, context, there, place, quantization)
