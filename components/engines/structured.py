"""Replies as records: asked for, checked, and asked for again with the reason."""

from __future__ import annotations

import dataclasses
import json
import re
from typing import Any, Generic, TypeVar

import msgspec

from components.engines.base import Engine, Message, Request
from components.step import Context

T = TypeVar("T")
_FENCE = re.compile(r"```(?:json)?\s*(.*?)```", re.DOTALL)


@dataclasses.dataclass
class Structured(Generic[T]):
    """What a model said: `value`, or why there is none in `failed`. attempts: how often asked."""

    value: T | None
    failed: str | None
    attempts: int


def structured(
    engine: Engine,
    chats: list[Request],
    kind: type[T],
    ctx: Context,
    attempts: int = 3,
    asked_for: type | None = None,
) -> list[Structured[T]]:
    """Ask for a JSON object of type `kind`, in the order of `chats`.

    Each request is a chat; the schema of `kind` goes with it, and an engine that can holds the
    reply to it. A reply that does not fit is shown to the model with the reason, and asked for
    again, `attempts` times in all. A request that the engine refuses is not asked again.

    asked_for: a narrower type whose schema is sent, where replies beyond it still count: limits
    of length, say, without which a small model never ends.
    """
    schema = _closed(msgspec.json.schema(asked_for or kind))
    asked = [msgspec.structs.replace(chat, json_schema=schema) for chat in chats]
    results: list[Structured[T]] = [Structured(None, "not asked", 0) for _ in chats]
    open_ = list(range(len(chats)))
    for attempt in range(1, attempts + 1):
        again = []
        replies = engine.generate([asked[i] for i in open_], ctx)
        for i, reply in zip(open_, replies, strict=True):
            if reply.error:
                results[i] = Structured(None, reply.error, attempt)
                continue
            try:
                results[i] = Structured(read(reply.text, kind), None, attempt)
            except ValueError as error:
                reason = str(error)
                if reply.finish_reason == "length":
                    reason += f"; the reply was cut off at {asked[i].max_tokens} tokens"
                results[i] = Structured(None, f"{reason}: {_short(reply.text)}", attempt)
                asked[i] = _corrected(asked[i], reply.text, reason)
                again.append(i)
        open_ = again
        if not open_:
            break
    return results


def read(text: str, kind: type[T]) -> T:
    """The first JSON object of type `kind` in a reply, also inside prose or a Markdown fence.

    Raises ValueError with the reason that the first object does not fit.
    """
    reason: ValueError | None = None
    for part in [text, *_FENCE.findall(text)]:
        at = part.find("{")
        while at >= 0:
            try:
                value, end = json.JSONDecoder(strict=False).raw_decode(part, at)
            except (ValueError, RecursionError) as error:
                reason = reason or ValueError(f"no JSON: {error}")
                end = at + 1
            else:
                try:
                    return msgspec.convert(value, kind)
                except msgspec.ValidationError as error:
                    reason = ValueError(str(error))
            at = part.find("{", end)
    raise reason or ValueError("no JSON object in the reply")


def _closed(schema: Any) -> Any:
    """The schema without room for other fields: a model held to it would go on inventing some."""
    if isinstance(schema, list):
        return [_closed(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    more = {"additionalProperties": False} if "properties" in schema else {}
    return {key: _closed(value) for key, value in schema.items()} | more


def _corrected(request: Request, said: str, reason: str) -> Request:
    """The chat with the reply and what is wrong with it."""
    prompt: Any = request.prompt
    turns = [Message(role="user", content=prompt)] if isinstance(prompt, str) else prompt
    ask = f"This does not fit: {reason}. Reply again, with one JSON object that fits and no more."
    more = [Message(role="assistant", content=said), Message(role="user", content=ask)]
    return msgspec.structs.replace(request, prompt=[*turns, *more])


def _short(text: str) -> str:
    return repr(text if len(text) <= 80 else f"{text[:77]}...")
