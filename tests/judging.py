"""Judges for tests: replies by hand, and an engine that fails on cue."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

from components.engines.base import Engine, Reply, Request
from components.errors import ClaimflowError
from components.score.judge import RecordedJudge
from components.step import Context


def counts(
    predicted: tuple[Any, Any], reference: tuple[Any, Any], what: str = "evidence"
) -> dict[str, Any]:
    """A reply with (supported, total) of both sides."""
    sides = {"predicted": predicted, "reference": reference}
    reply: dict[str, Any] = {}
    for side, (supported, total) in sides.items():
        reply[f"facts in {side} {what}"] = "1. A fact."
        reply[f"facts count {side} {what}"] = total
        reply[f"support {side} {what}"] = supported
    return reply


def recorded(folder: Path, *lines: dict[str, Any], **more: Any) -> RecordedJudge:
    """A judge that replies what stands in `lines`."""
    file = folder / "replies.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return RecordedJudge(file=file, **more)


@dataclasses.dataclass(kw_only=True)
class Flaky(Engine):
    """Answers each request from `says` in turn, one a call; "!" is an error of the server."""

    asked: ClassVar[list[Request]] = []
    says: list[str]

    def replies(self, requests: list[Request], ctx: Context) -> Iterator[tuple[int, Reply]]:
        for i, request in enumerate(requests):
            text = self.says[min(len(self.asked), len(self.says) - 1)]
            self.asked.append(request)
            yield i, Reply(error="HTTP 429") if text == "!" else Reply(text=text)


@dataclasses.dataclass(kw_only=True)
class Overloaded(Engine):
    """A server that replies to one request a call and then breaks off, `breaks` times."""

    outside: ClassVar[bool] = True
    calls: ClassVar[list[int]] = []
    says: str
    breaks: int

    def replies(self, requests: list[Request], ctx: Context) -> Iterator[tuple[int, Reply]]:
        self.calls.append(len(requests))
        breaks = len(self.calls) <= self.breaks
        for i, _ in enumerate(requests):
            if breaks and (i or self.says == "!"):
                raise ClaimflowError("overloaded (429)")
            yield i, Reply(text=self.says, prompt_tokens=10, completion_tokens=2)
