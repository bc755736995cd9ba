"""Examples of a causal language model one behind the other in one row, none looking at another.

transformers makes no block-diagonal mask of restarting position ids when it keeps a cache, which
is its default, and then lets examples look at those before them without a word. So the attention
here takes the ends of the examples instead. It needs no mask at all: padding, where there is any,
stands behind its example, where a causal model never looks.
"""

from __future__ import annotations

import random
from typing import Any

from components.errors import ClaimflowError

NAME = "claimflow_examples"  # of the attention, among those of transformers
MULTIPLE = 64  # a row is padded to one of so many tokens: few shapes for the compiler


def packs(lengths: list[int], tokens: int, rng: random.Random) -> list[list[int]]:
    """Positions in groups of at most `tokens` tokens in sum: first fit in random order.

    What is longer than `tokens` makes a group of its own. Every position is in one group.
    """
    order = list(range(len(lengths)))
    rng.shuffle(order)
    groups: list[list[int]] = []
    space: list[int] = []
    for i in order:
        at = next((n for n, room in enumerate(space) if room >= lengths[i]), len(groups))
        if at == len(groups):
            groups.append([])
            space.append(tokens)
        groups[at].append(i)
        space[at] -= lengths[i]
    rng.shuffle(groups)  # the first ones would have the short examples
    return groups


def joined(
    rows: list[list[int]],
    pad: int,
    longest: int,
    padded: bool = False,
    least: int = 0,
    keep: list[int] | None = None,
) -> dict[str, Any]:
    """Token ids of examples as one row, and what the model must know of their places.

    pad: id of the padding token. longest: no example may have more tokens; one number for all
    batches, as each other one would be compiled anew. padded: each example takes the room of the
    longest one, as in a batch that is padded. least: tokens that the row has at least, as one
    shape is compiled once. keep: how many of each example's last tokens logits are wanted at; by
    default the last one.

    input_ids and position_ids are (1, tokens) with positions from 0 in each example;
    cu_seq_lens_q where examples begin, and the end, with those of padding alone that fill the row;
    logits_to_keep the places of their last tokens: the model computes logits there alone.
    """
    import torch

    room = [max(map(len, rows))] * len(rows) if padded else [len(row) for row in rows]
    total = max(least, sum(room) + -sum(room) % MULTIPLE)
    while (missing := total - sum(room)) > 0:  # examples of padding alone
        rows, room = [*rows, []], [*room, min(missing, longest)]
    ids: list[int] = []
    positions: list[int] = []
    starts: list[int] = [0]
    last: list[int] = []
    counts = iter(keep or [1] * len(rows))
    for row, size in zip(rows, room, strict=True):
        if row:
            end = len(ids) + len(row)
            last += range(end - next(counts), end)
        ids += row + [pad] * (size - len(row))
        positions += range(size)
        starts.append(len(ids))
    return {
        "input_ids": torch.tensor([ids]),
        "position_ids": torch.tensor([positions]),
        "cu_seq_lens_q": torch.tensor(starts, dtype=torch.int32),
        "max_length_q": longest,
        "logits_to_keep": torch.tensor(last),
        "use_cache": False,
    }


def register() -> None:
    """Let models of transformers find the attention by its name in this process."""
    from transformers import AttentionInterface

    AttentionInterface.register(NAME, _attention)


def attend_within_examples(model: Any) -> None:
    """Give a model of transformers the attention that reads `joined` batches, and only those."""
    if getattr(model.config.get_text_config(), "sliding_window", None):
        raise ClaimflowError(
            f"{model.config.model_type} attends within a sliding window, which packed examples "
            "don't have here: choose a model with full attention."
        )
    register()
    model.set_attn_implementation(NAME)


def _attention(
    module: Any,
    query: Any,
    key: Any,
    value: Any,
    attention_mask: Any,
    *,
    scaling: float | None = None,
    cu_seq_lens_q: Any,
    max_length_q: int,
    **_: Any,
) -> tuple[Any, None]:
    """Causal attention within each example; query (1, heads, tokens, dimensions), keys and values
    with as many heads or a divisor of it. (1, tokens, heads, dimensions)."""
    import torch

    groups = query.shape[1] // key.shape[1]
    if query.is_cuda and query.dtype in (torch.bfloat16, torch.float16):
        from torch.nn.attention.varlen import varlen_attn

        q, k, v = (x[0].transpose(0, 1) for x in (query, key, value))
        if groups > 1:
            k, v = (x.repeat_interleave(groups, dim=1) for x in (k, v))
        ends, size = cu_seq_lens_q, max_length_q
        out: Any = varlen_attn(q, k, v, ends, ends, size, size, scale=scaling, window_size=(-1, 0))
        return out[None], None
    sizes = cu_seq_lens_q.diff().tolist()
    found = [
        torch.nn.functional.scaled_dot_product_attention(
            q, k, v, is_causal=True, scale=scaling, enable_gqa=groups > 1
        )
        for q, k, v in zip(*(x.split(sizes, dim=2) for x in (query, key, value)), strict=True)
    ]
    return torch.cat(found, dim=2).transpose(1, 2), None
