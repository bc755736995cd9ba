"""Packed examples give the loss and the gradients that they give one by one."""

from __future__ import annotations

import itertools
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from components.errors import ClaimflowError
from components.files import home
from components.train.packing import MULTIPLE, attend_within_examples, joined, packs
from components.train.trainer import Lora, Training

lengths = st.lists(st.integers(1, 60), max_size=40)


@given(lengths, st.integers(1, 100), st.integers())
def test_packs_hold_each_example_once_and_no_more_than_they_may(
    sizes: list[int], tokens: int, seed: int
) -> None:
    found = packs(sizes, tokens, random.Random(seed))
    assert sorted(i for group in found for i in group) == list(range(len(sizes)))
    for group in found:
        assert len(group) == 1 or sum(sizes[i] for i in group) <= tokens
    assert found == packs(sizes, tokens, random.Random(seed))
    # First fit leaves at most one group half empty.
    assert sum(2 * sum(sizes[i] for i in group) <= tokens for group in found) <= 1


@settings(deadline=None)  # the first one imports torch
@given(
    st.lists(st.lists(st.integers(1, 9), min_size=1, max_size=30), min_size=1),
    st.booleans(),
    st.sampled_from((0, 100, 2000)),
)
def test_joined_says_where_each_example_is(rows: list[list[int]], padded: bool, least: int) -> None:
    batch = joined(rows, pad=0, longest=30, padded=padded, least=least)
    ids, starts = batch["input_ids"][0].tolist(), batch["cu_seq_lens_q"].tolist()
    assert len(ids) % MULTIPLE == 0 or len(ids) == least
    assert len(ids) == starts[-1] >= least
    assert all(0 < b - a <= batch["max_length_q"] for a, b in itertools.pairwise(starts))
    count = len(rows)
    for row, at, end, last in zip(
        rows, starts[:count], starts[1 : count + 1], batch["logits_to_keep"].tolist(), strict=True
    ):
        assert ids[at:end] == row + [0] * (end - at - len(row))
        assert last == at + len(row) - 1
        assert batch["position_ids"][0, at:end].tolist() == list(range(end - at))


def model(folder: Path | None = None) -> Any:
    """A small model with fewer keys than queries, or two layers like those of the one in a folder,
    with LoRA of some effect."""
    import torch
    from transformers import AutoConfig, LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    if folder:
        shape = AutoConfig.from_pretrained(folder, num_hidden_layers=2, dtype=torch.float32)
        base: Any = LlamaForCausalLM(shape)
    else:
        base = LlamaForCausalLM(
            LlamaConfig(
                vocab_size=50, hidden_size=32, intermediate_size=64, num_hidden_layers=3,
                num_attention_heads=4, num_key_value_heads=2,
            )
        )  # fmt: skip
    wrapped = Lora(r=4, dropout=0.0).wrap(base, "CAUSAL_LM")
    for name, weight in wrapped.named_parameters():
        if "lora_B" in name:  # 0 at first
            torch.nn.init.normal_(weight, std=0.02)
    return wrapped


def gradients(model: Any, loss: Any) -> dict[str, Any]:
    model.zero_grad()
    loss.backward()
    return {name: w.grad.clone() for name, w in model.named_parameters() if w.grad is not None}


def check(model: Any, rows: list[list[int]], labels: list[int]) -> None:
    import torch
    from torch.nn.functional import cross_entropy

    # One by one, by transformers' own attention.
    alone = [model(torch.tensor([row])).logits[0, -1] for row in rows]
    expected = torch.stack(alone)
    loss = cross_entropy(expected, torch.tensor(labels))
    slopes = gradients(model, loss)
    attend_within_examples(model.get_base_model())
    for padded in (False, True):
        logits = model(**joined(rows, 0, max(map(len, rows)), padded)).logits[0]
        assert logits.shape == expected.shape  # at the last tokens alone
        torch.testing.assert_close(logits, expected, atol=1e-4, rtol=1e-5)
        found = cross_entropy(logits, torch.tensor(labels))
        torch.testing.assert_close(found, loss, atol=1e-5, rtol=0)
        grads = gradients(model, found)
        assert grads.keys() == slopes.keys()
        for name, slope in slopes.items():
            assert slope.abs().max() > 0, name
            assert (grads[name] - slope).norm() < 1e-5 * (1 + slope.norm()), name


def examples(vocabulary: int, sizes: tuple[int, ...]) -> tuple[list[list[int]], list[int]]:
    rng = random.Random(1)
    rows = [[rng.randrange(1, vocabulary) for _ in range(size)] for size in sizes]
    return rows, [rng.randrange(vocabulary) for _ in sizes]


def test_packed_loss_and_gradients_are_those_of_the_examples_one_by_one() -> None:
    check(model(), *examples(50, (5, 1, 33, 17, 64, 2)))


@pytest.mark.skipif(not (home() / "models").is_dir(), reason="no models laid out")
def test_packed_layers_of_smollm2() -> None:
    check(model(home() / "models" / "SmolLM2-135M-Instruct"), *examples(49152, (40, 7, 90)))


def test_a_sliding_window_is_refused() -> None:
    from transformers import MistralConfig, MistralForCausalLM

    config = MistralConfig(
        vocab_size=9, hidden_size=8, intermediate_size=8, num_hidden_layers=1,
        num_attention_heads=2, num_key_value_heads=2, sliding_window=4,
    )  # fmt: skip
    with pytest.raises(ClaimflowError, match="mistral attends within a sliding window"):
        attend_within_examples(MistralForCausalLM(config))


def test_batches_cover_every_pass_in_an_order_of_its_own() -> None:
    rows = [{"input_ids": [0] * n, "labels": n} for n in range(1, 31)]
    for trainer in (Training(tokens=64), Training(packing=False, batch=4)):
        found = trainer.batches([rows, rows], 13, packed=True)
        assert found == trainer.batches([rows, rows], 13, packed=True)
        assert found != trainer.batches([rows, rows], 14, packed=True)
        half = len(trainer.batches([rows], 13, packed=True))
        for part in (found[:half], found[half:]):
            assert sorted(row["labels"] for batch in part for row in batch) == list(range(1, 31))
        assert found[:half] != found[half:]
    assert len(Training(tokens=64, batch=4).batches([rows], 13, packed=False)) == 8
