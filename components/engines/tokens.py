"""Requests as the token ids of a model."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

from components.engines.base import Reply, Request
from components.errors import ClaimflowError


class Tokens:
    """The tokeniser of the model in `folder`. Threads may share it.

    context: tokens of prompt and reply that the model was made for.
    """

    def __init__(self, folder: Path) -> None:
        from transformers import AutoConfig, AutoTokenizer

        try:
            self.tokenizer: Any = AutoTokenizer.from_pretrained(folder, local_files_only=True)
            config = AutoConfig.from_pretrained(folder, local_files_only=True)
        except (OSError, ValueError) as error:
            raise ClaimflowError(
                f"Can't load a tokeniser from {folder}: {str(error).splitlines()[0]}"
            ) from error
        self.context: int = config.get_text_config().max_position_embeddings
        self._lock = threading.Lock()  # a tokeniser keeps state while it works

    def ids(self, request: Request) -> list[int]:
        """The prompt as it stands, or the chat by the model's template, which writes special
        tokens itself."""
        with self._lock:
            if isinstance(request.prompt, str):
                return list(self.tokenizer(request.prompt)["input_ids"])
            text = self.tokenizer.apply_chat_template(
                [{"role": turn.role, "content": turn.content} for turn in request.prompt],
                tokenize=False,
                add_generation_prompt=True,
            )
            return list(self.tokenizer(text, add_special_tokens=False)["input_ids"])

    def choices(self, request: Request) -> list[int]:
        """The tokens of the request's choices. Raises ClaimflowError for one of several tokens."""
        found = []
        for choice in request.choices:
            with self._lock:
                ids = self.tokenizer(choice, add_special_tokens=False)["input_ids"]
            if len(ids) != 1:
                raise ClaimflowError(
                    f"'{choice}' is {len(ids)} tokens of this model: choose a word that is one."
                )
            found.append(int(ids[0]))
        return found


def refused(ids: list[int], request: Request, context: int) -> Reply | None:
    """The reply to a request that can't be answered: an empty prompt, or one that leaves no room
    for `max_tokens`; None where it can."""
    if not ids:
        return Reply(error="empty prompt")
    if len(ids) + request.max_tokens > context:
        return Reply(
            error=f"prompt of {len(ids)} tokens and max_tokens {request.max_tokens} exceed the "
            f"context of {context} tokens"
        )
    return None
