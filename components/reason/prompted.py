"""What the steps that ask a language model have in common."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any, ClassVar

from components.engines.base import Engine, Message, Request
from components.errors import ClaimflowError
from components.reason.prompt import filled, prompt_file
from components.records import Claim
from components.step import Step


@dataclasses.dataclass(kw_only=True)
class Prompted(Step):
    """Base of steps that ask a language model, by a prompt from a file.

    prompt: a file with {claim} and, if wanted, other names of the step in it, {speaker} and
    {date}; or the name of one in components/reason/prompts. chat: the prompt is a user's turn,
    which the model's template renders, and not a text to go on with. max_tokens: of a reply.
    """

    slot: ClassVar[str] = "answerer"  # where the parameters stand in the config
    least: ClassVar[dict[str, int]] = {}  # of each number
    choices: ClassVar[dict[str, tuple[str, ...]]] = {}

    engine: Engine
    prompt: Path
    chat: bool = True
    max_tokens: int = 64

    def __post_init__(self) -> None:
        self.outside = self.engine.outside  # type: ignore[misc]
        self.needs_train = getattr(self, "examples", 0) > 0  # type: ignore[misc]
        self.prompt = prompt_file(self.prompt)
        for name, least in {"max_tokens": 1, **self.least}.items():
            if getattr(self, name) < least:
                raise ClaimflowError(
                    f"{self.slot}.{name} is {getattr(self, name)}: give {least} or more."
                )
        for name, choices in self.choices.items():
            if getattr(self, name) not in choices:
                raise ClaimflowError(
                    f"{self.slot}.{name} is {getattr(self, name)}: choose {' or '.join(choices)}."
                )

    def ask(self, claim: Claim, values: dict[str, str], **more: Any) -> Request:
        """The request for a claim: the prompt with `values`; `more`: of the request."""
        if self.chat:
            return chat(self.prompt, self.max_tokens, claim, values, **more)
        text = filled(self.prompt, **about(claim), **values)
        return Request(prompt=text, max_tokens=self.max_tokens, **more)


def chat(
    prompt: Path, max_tokens: int, claim: Claim, values: dict[str, str], **more: Any
) -> Request:
    """A prompt as the turn of a user."""
    text = filled(prompt, **about(claim), **values)
    return Request(prompt=[Message(role="user", content=text)], max_tokens=max_tokens, **more)


def about(claim: Claim) -> dict[str, str]:
    """What every prompt may say of a claim."""
    return {
        "claim": claim.text.strip(),
        "speaker": claim.speaker or "unknown",
        "date": str(claim.date or "unknown"),
    }
