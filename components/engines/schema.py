"""Replies held to a JSON schema while they are written, token by token (llguidance)."""

from __future__ import annotations

import functools
import json
from typing import TYPE_CHECKING, Any

from components.engines.base import Request

if TYPE_CHECKING:
    import torch
    from llguidance._lib import JsonCompileOptions

# No free white space: small models otherwise write line breaks until max_tokens are used up.
_JSON: JsonCompileOptions = {
    "whitespace_flexible": False,
    "item_separator": ", ",
    "key_separator": ": ",
}


class Grammars:
    """What a tokeniser's tokens may be under a schema. Made once a model; takes about a second."""

    def __init__(self, tokenizer: Any, vocabulary: int, ends: set[int]) -> None:
        """vocabulary: columns of the logits, at least as many as the tokeniser has tokens."""
        from llguidance.hf import from_tokenizer

        self.ends = sorted(ends)
        self.tokenizer = from_tokenizer(tokenizer, n_vocab=vocabulary, eos_token=self.ends)
        self.vocabulary = vocabulary

    @functools.cache  # noqa: B019 - lives as long as the model
    def problem(self, schema: str) -> str | None:
        """Why a JSON schema can't be followed; None where it can."""
        from llguidance import LLMatcher

        matcher = LLMatcher(self.tokenizer, _grammar(schema), log_level=0)
        if not matcher.is_error():
            return None
        return f"this JSON schema can't be followed: {matcher.get_error().splitlines()[0]}"

    def batch(self, requests: list[Request], width: int) -> Mask:
        """The mask for a batch whose prompts are `width` tokens wide."""
        from llguidance import LLMatcher

        matchers: dict[int, Any] = {}
        for row, request in enumerate(requests):
            if request.json_schema is None:
                continue
            grammar = _grammar(json.dumps(request.json_schema))
            matchers[row] = LLMatcher(self.tokenizer, grammar, log_level=0)
        return Mask(matchers, width, self.vocabulary, self.ends)


def _grammar(schema: str) -> str:
    from llguidance import LLMatcher

    return LLMatcher.grammar_from_json_schema(schema, defaults=_JSON)


class Mask:
    """A logits processor that leaves each row only tokens that go on to a valid reply."""

    def __init__(
        self, matchers: dict[int, Any], width: int, vocabulary: int, ends: list[int]
    ) -> None:
        self.matchers, self.width, self.vocabulary, self.ends = matchers, width, vocabulary, ends

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        import numpy as np
        import torch
        from llguidance.numpy import allocate_token_bitmask, fill_next_token_bitmask

        scores = scores.clone()  # the model's own are asked for their log-probabilities
        bits = allocate_token_bitmask(1, self.vocabulary)
        for row, matcher in self.matchers.items():
            if input_ids.shape[1] > self.width and not matcher.is_stopped():
                matcher.consume_token(int(input_ids[row, -1]))
            if matcher.is_stopped():  # the reply is whole
                allowed = np.zeros(self.vocabulary, np.uint8)
                allowed[self.ends] = 1
            else:
                fill_next_token_bitmask(matcher, bits)
                allowed = np.unpackbits(bits.view(np.uint8), bitorder="little")[: self.vocabulary]
            mask = torch.from_numpy(allowed == 0).to(scores.device)
            scores[row].masked_fill_(mask, float("-inf"))
        return scores
