"""What every engine does: a list of requests in, a list of replies out, each kept in the cache."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from typing import Any, ClassVar

from components.cache import Action, key_of
from components.records import Record, decode, encode
from components.step import Context, identity


class Message(Record):
    """One turn of a chat; role is system, user or assistant."""

    role: str
    content: str


class Request(Record):
    """What to generate from: a prompt as it stands, or a chat that the model's template renders.

    temperature: 0 is greedy. top_p: nucleus sampling (Holtzman et al. 2020, section 3.1). seed:
    of the sampling; equal requests give equal replies, so n samples are n requests with n seeds.
    stop: text that ends the reply and is not part of it. json_schema: what the reply must fit,
    where the engine can enforce it. choices: texts of one token each; the reply says how likely
    the model held each as its first token.
    """

    prompt: str | list[Message]
    max_tokens: int = 256
    temperature: float = 0.0
    top_p: float = 1.0
    seed: int = 0
    stop: list[str] = []
    logprobs: bool = False
    choices: list[str] = []
    json_schema: dict[str, Any] | None = None


class Reply(Record):
    """What came back.

    finish_reason: "stop" (the model ended, or a stop text came) or "length" (max_tokens reached).
    logprobs: natural log-probability of each generated token, when asked for. scores: that of each
    of the request's choices as the first token, over the whole vocabulary, before temperature,
    top_p and schema. uncounted: the server does not say how many tokens prompt and reply have, and
    both counts are 0. error: why this request could not be answered; such a reply is not kept, and
    the others are not affected.
    """

    text: str = ""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    finish_reason: str = "stop"
    logprobs: list[float] | None = None
    scores: list[float] = []
    uncounted: bool = False
    error: str | None = None


@dataclasses.dataclass(kw_only=True)
class Engine:
    """Base of all engines. Subclasses add parameters as dataclass fields; a model is a Path, so
    that its content is part of every key."""

    outside: ClassVar[bool] = False  # does it call something that may fail for a while?
    unkeyed: ClassVar[tuple[str, ...]] = ()  # parameters that can change neither reply nor `fits`
    unasked: ClassVar[tuple[str, ...]] = ()  # parameters that change `fits`, but no reply

    def replies(self, requests: list[Request], ctx: Context) -> Iterator[tuple[int, Reply]]:
        """Yield (position in `requests`, reply), in any order, each as soon as it is there."""
        raise NotImplementedError(type(self).__name__)

    def generate(self, requests: list[Request], ctx: Context) -> list[Reply]:
        """The replies, in the order of the requests.

        Each is looked up by engine (its class, code, parameters and model content) and request,
        and written down as soon as it is there: a crash loses no finished reply, and editing one
        prompt costs one reply. Without a missing reply no model is loaded. `ctx.tokens` counts
        what all replies cost, also those from the cache, so a resumed run reports the same.
        """
        from tqdm import tqdm

        keys = self._keys(requests)
        found: dict[str, Reply] = {}
        missing: dict[str, Request] = {}
        for key, request, reply in zip(keys, requests, self.kept(requests, ctx), strict=True):
            if reply:
                found[key] = reply
            else:
                missing[key] = request
        if missing:
            names = list(missing)
            bar = tqdm(total=len(names), desc="generate", delay=2, leave=False, disable=None)
            with bar:
                for at, reply in self.replies(list(missing.values()), ctx):
                    found[names[at]] = reply
                    if not reply.error:
                        output = ctx.cache.put(encode(reply))
                        ctx.cache.record(names[at], Action(outputs=[output]))
                    bar.update()
        result = [found[key] for key in keys]
        count(result, ctx)
        return result

    def away(self) -> str | None:
        """Why its server can't be asked now; None where nothing is known against it."""
        return None

    def fits(self, request: Request, ctx: Context) -> bool:
        """Whether prompt and reply fit into the context. True where only a server knows."""
        return True

    def kept(self, requests: list[Request], ctx: Context) -> list[Reply | None]:
        """The reply to each request that the cache has; asks and counts nothing."""
        replies: list[Reply | None] = []
        for key in self._keys(requests):
            action = ctx.cache.lookup(key)
            data = ctx.cache.get(action.outputs[0]) if action else None
            replies.append(decode(data, Reply) if data else None)
        return replies

    def _keys(self, requests: list[Request]) -> list[str]:
        engine = key_of("reply", identity(self, self.unasked))
        return [key_of(engine, request) for request in requests]


def engines_in(part: Any) -> Iterator[Engine]:
    """The engines of a step, a scorer or several, however deep inside."""
    if isinstance(part, Engine):
        yield part
    elif dataclasses.is_dataclass(part):
        for field in dataclasses.fields(part):
            yield from engines_in(getattr(part, field.name))
    elif isinstance(part, (dict, list, tuple)):
        for item in part.values() if isinstance(part, dict) else part:
            yield from engines_in(item)


def count(replies: Iterable[Reply], ctx: Context) -> None:
    """Add the tokens of `replies` to those of `ctx`."""
    for reply in replies:
        ctx.tokens["prompt"] += reply.prompt_tokens
        ctx.tokens["completion"] += reply.completion_tokens
        ctx.uncounted += reply.uncounted


def cut(text: str, stop: list[str]) -> str:
    """`text` before the first stop text in it."""
    ends = [text.find(mark) for mark in stop if mark in text]
    return text[: min(ends)] if ends else text
