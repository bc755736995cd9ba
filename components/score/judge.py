"""Language models as judges: asked in batches, read with care, asked again where they fail."""

from __future__ import annotations

import dataclasses
import json
import math
import os
import re
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import msgspec

from components.cache import open_cache
from components.engines.base import Engine, Message, Reply, Request, count
from components.errors import ClaimflowError, listed
from components.files import beginning, home, open_utf8, write_whole
from components.records import BadLine, Claim, Prediction, Record, encode, read_lines
from components.score.base import Rankings, Scorer, Scores
from components.score.numerals import VALUES
from components.step import Context

T = TypeVar("T")


MODES = ("evidence", "questions", "proxy", "proxy_probability", "reference_less")


class Asked(Record):
    """What a judge is asked about one claim. mode: one of MODES. choices: answers of which it is
    asked how likely each is."""

    id: str
    mode: str
    prompt: str
    choices: list[str] = []


class ReplyError(Exception):
    """Why a reply can't be read; the judge is asked again."""


class SilentError(ClaimflowError):
    """Nothing came from a judge that has tried again itself: there is no use in asking more."""


@dataclasses.dataclass(kw_only=True)
class Judge:
    """What answers prompts about claims.

    repeats: times that all is asked, each with a seed of its own. attempts: how often one reply is
    asked for before it is reported as failed. on_error: where no question gets a reply, stop, or
    skip the measures that need one.
    """

    controlled: ClassVar[bool] = True  # can it be asked about control items?
    unkeyed: ClassVar[tuple[str, ...]] = ("on_error",)

    repeats: int = 1
    attempts: int = 3
    on_error: str = "stop"

    def __post_init__(self) -> None:
        if self.repeats < 1 or self.attempts < 1:
            raise ClaimflowError(
                f"judge.repeats is {self.repeats} and judge.attempts {self.attempts}: "
                "give 1 or more of each."
            )

    def replies(self, asked: list[Asked], run: int, again: list[int], ctx: Context) -> list[Reply]:
        """One reply each. again: how many replies to the same question could not be read so far."""
        raise NotImplementedError(type(self).__name__)

    def pause(self, attempt: int) -> None:
        """Wait before asking once more what could not be answered at all."""

    def check_several(self) -> None:
        """Raise ClaimflowError when a reply could be given to other evidence than it is about, for
        those who have several predictions judged."""

    def remarks(self, ids: Collection[str], modes: Collection[str]) -> list[str]:
        """What a reader should know of the replies, when the claims `ids` were asked about."""
        return []

    @property
    def remedy(self) -> str:
        """What to do where no question gets a reply; empty: nothing stops there."""
        if self.on_error == "skip":
            return ""
        return "Score again to ask again, or get what needs no judge with on_error=skip."

    def asides(self) -> list[str]:
        """What a reader should know of files that it was to write."""
        return []

    def ask(
        self, asked: list[Asked], read: Callable[[str], T], ctx: Context, problems: list[str]
    ) -> list[list[T | None]]:
        """For each question what `read` makes of its replies, one a run; None where all attempts
        failed, and then why in `problems`. `read` raises ReplyError.

        Raises ClaimflowError when no question got a reply at all, unless on_error is "skip".
        """
        return self._runs(asked, lambda reply: read(reply.text), ctx, problems)

    def likely(
        self, asked: list[Asked], ctx: Context, problems: list[str]
    ) -> list[list[list[float] | None]]:
        """`ask` for the probability of each of the choices, which sum to 1: those that the model
        gives their first tokens, as shares of their sum."""
        return self._runs(asked, _probabilities, ctx, problems)

    def _runs(
        self, asked: list[Asked], read: Callable[[Reply], T], ctx: Context, problems: list[str]
    ) -> list[list[T | None]]:
        return [list(runs) for runs in zip(*(
            self._ask(asked, read, run, ctx, problems) for run in range(self.repeats)
        ), strict=True)]  # fmt: skip

    def _ask(
        self,
        asked: list[Asked],
        read: Callable[[Reply], T],
        run: int,
        ctx: Context,
        problems: list[str],
    ) -> list[T | None]:
        found: list[T | None] = [None] * len(asked)
        unread = [0] * len(asked)
        reasons: dict[int, str] = dict.fromkeys(range(len(asked)), "")  # of those still open
        for attempt in range(self.attempts):
            open_ = list(reasons)
            if not open_:
                break
            if attempt and any(not unread[i] for i in open_):
                self.pause(attempt)
            some = [asked[i] for i in open_]
            try:
                replies = self.replies(some, run, [unread[i] for i in open_], ctx)
            except SilentError as error:
                reasons = dict.fromkeys(open_, str(error))
                if not attempt:
                    ctx.silent = str(error)  # the other modes need not try
                break
            for i, reply in zip(open_, replies, strict=True):
                if reply.error:
                    reasons[i] = reply.error
                    continue
                try:
                    found[i] = read(reply)
                    del reasons[i]
                except ReplyError as error:
                    cut = "; it was cut off" if reply.finish_reason == "length" else ""
                    reasons[i] = f"{error}{cut}"
                    unread[i] += 1
        which = f", run {run + 1}" if self.repeats > 1 else ""
        if asked and len(reasons) == len(asked) and not any(unread) and self.remedy:
            raise ClaimflowError(
                f"The judge replied to none of {len(asked)} questions ({asked[0].mode}{which}): "
                f"{reasons[0].rstrip('.')}. {self.remedy}"
            )
        said = ""
        for i, why in reasons.items():
            shown, said = "likewise" if why == said else why, why
            problems.append(f"{asked[i].id} ({asked[i].mode}{which}: {shown})")
        return found


@dataclasses.dataclass(kw_only=True)
class LlmJudge(Judge):
    """A language model of any engine. Every reply is kept in the cache.

    temperature: of the first attempt; a reply that could not be read is asked for again at .7 or
    more with another seed, since an equal request gives an equal reply. max_tokens: of a reply.
    seed: of the first run, the others count up. wait: seconds before the second attempt when a
    server failed, four times as long before each further one.
    """

    engine: Engine
    temperature: float = 0.0
    max_tokens: int = 3000
    seed: int = 0
    wait: float = 2.0

    def replies(self, asked: list[Asked], run: int, again: list[int], ctx: Context) -> list[Reply]:
        requests = [
            Request(
                prompt=[Message(role="user", content=one.prompt)],
                max_tokens=1 if one.choices else self.max_tokens,
                choices=one.choices,
                temperature=max(self.temperature, 0.7) if unread else self.temperature,
                seed=self.seed + run + 1000 * unread,
            )
            for one, unread in zip(asked, again, strict=True)
        ]
        try:
            if ctx.silent:
                raise ClaimflowError(ctx.silent)
            return self.engine.generate(requests, ctx)
        except ClaimflowError as error:
            if not self.engine.outside:
                raise
            # The server gave up midway: what it replied before is in the cache.
            kept = self.engine.kept(requests, ctx)
            if not any(kept):
                raise SilentError(str(error)) from error
            lost = Reply(error=str(error))
            replies = [reply or lost for reply in kept]
            count(replies, ctx)
            return replies

    def pause(self, attempt: int) -> None:
        if self.engine.outside:
            time.sleep(self.wait * 4 ** (attempt - 1))


class _Recorded(Record):
    id: str | int
    mode: str
    reply: str | dict[str, Any] | None = None
    scores: list[float] | None = None
    error: str | None = None
    run: int | None = None
    prompt: str | None = None
    choices: list[str] = []  # only said to who replies

    @property
    def empty(self) -> bool:
        return self.reply is None and self.scores is None and self.error is None


_Lines = dict[tuple[str, str], list[tuple[int, _Recorded]]]
"""Lines with their numbers, by claim and mode, as the file has them."""


@dataclasses.dataclass(kw_only=True)
class RecordedJudge(Judge):
    """Replies from a file of JSON lines: id, mode, reply (text or JSON), scores (log-probabilities
    of the choices) or error, prompt, and run (from 0) where it matters.

    For replies that were made elsewhere, and to check the arithmetic. A line with a prompt replies
    to that one alone; without, to whatever is asked about the claim. Of lines that reply to the
    same the first counts. A question that the file has no line for counts as failed, and is
    written to the file `asks`, if there is to be one, as a line that wants its reply: all of them,
    also where none has one. on_error: also, stop at a line that can't be read, or skip it, which is
    to have no line.
    """

    controlled: ClassVar[bool] = False
    unkeyed: ClassVar[tuple[str, ...]] = ("on_error", "asks")

    file: Path | None = None
    asks: Path | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.file is None and self.asks is None:
            raise ClaimflowError(
                "Which recorded replies? Say judge.file=FILE, or judge.asks=FILE to have the "
                "questions written."
            )
        self.asks = Path(self.asks) if self.asks else None
        if self.file is not None:
            self.file = Path(self.file).absolute()
            if not self.file.is_file():
                raise ClaimflowError(f"No file of recorded replies {self.file}.")

    def replies(self, asked: list[Asked], run: int, again: list[int], ctx: Context) -> list[Reply]:
        bad: list[BadLine] = []
        known = self._lines(bad)
        why = f"no reply in {self._name}" if known or bad or not self.file else self._nothing
        if bad:
            why += f" (lines that can't be read: {listed((str(b.line) for b in bad), 5)})"
        if strange := sorted({mode for _, mode in known} - set(MODES)):
            why += f", which has mode {listed(strange, 3)} (modes are {', '.join(MODES)})"
        found = []
        open_ = []
        for one in asked:
            lines = [line for _, line in known.get((one.id, one.mode), []) if not line.empty]
            lines = [x for x in lines if x.run == run] + [x for x in lines if x.run is None]
            own = [line for line in lines if line.prompt in (None, one.prompt)]
            if own:
                text = own[0].reply if isinstance(own[0].reply, str) else json.dumps(own[0].reply)
                found.append(Reply(text=text, scores=own[0].scores or [], error=own[0].error))
                continue
            other = (
                f"the reply in {self._name} is to another prompt, of other evidence or by another "
                "official="
            )
            found.append(Reply(error=other if lines else why))
            open_.append(one)
        if self.asks is not None:
            self._write(self.asks, open_, run if self.repeats > 1 else None)
        return found

    @property
    def remedy(self) -> str:
        if self.asks is not None or not super().remedy:
            return ""
        return "judge.asks=FILE writes the questions out; on_error=skip gives what needs no judge."

    def asides(self) -> list[str]:
        if self.asks is None or self.asks.is_file():
            return []
        return [f"No question was left without a reply, so {self.asks} was not written."]

    def check_several(self) -> None:
        for lines in self._lines([]).values():
            for number, line in lines:
                if line.prompt is None:
                    raise ClaimflowError(
                        f"{self.file}, line {number}: the reply has no prompt, so it would be "
                        "taken for one to any evidence, and several are judged here. Give each "
                        "line its prompt: judge.asks=FILE writes the questions with theirs."
                    )

    def remarks(self, ids: Collection[str], modes: Collection[str]) -> list[str]:
        strange: dict[int, str] = {}  # by line
        again: dict[int, str] = {}
        loose = 0
        for (id, mode), lines in self._lines([]).items():
            seen = set()
            for number, line in lines:
                run = "" if line.run is None else f", run {line.run}"
                said = f"line {number} ({id}, {mode}{run})"
                if id not in ids or mode not in modes or (line.run or 0) >= self.repeats:
                    strange[number] = said
                elif (line.run, line.prompt) in seen:
                    again[number] = said
                else:
                    loose += line.prompt is None
                seen.add((line.run, line.prompt))
        notes = [
            f"Recorded replies of {self._name} {what} ({len(lines)}): "
            f"{listed((lines[n] for n in sorted(lines)), 10)}."
            for what, lines in (
                ("passed over, to nothing that was asked", strange),
                ("passed over, to a question that a line before has", again),
            )
            if lines
        ]
        if loose:
            notes.append(
                f"Recorded replies of {self._name} without a prompt ({loose}): whether the judge "
                "saw this evidence is not known."
            )
        return notes

    @property
    def _name(self) -> str:
        return self.file.name if self.file else "any file"

    @property
    def _nothing(self) -> str:
        return f"{self._name} is empty: write a line with id, mode and reply for each question"

    def _lines(self, bad: list[BadLine]) -> _Lines:
        found: _Lines = {}
        if self.file is not None:
            for number, line in read_lines(self.file, _Recorded, self.on_error, bad):
                found.setdefault((str(line.id), line.mode), []).append((number, line))
        return found

    @staticmethod
    def _write(file: Path, open_: list[Asked], run: int | None) -> None:
        """Add questions to those that the file has, whose lines stay as they are."""
        there = set()
        before = b""
        if file.is_file():
            there = {(str(x.id), x.mode, x.prompt, x.run) for _, x in read_lines(file, _Recorded)}
            with open_utf8(file) as old:
                before = old.read()
        new = [_Recorded(**msgspec.structs.asdict(one), run=run) for one in open_]
        new = [x for x in new if (str(x.id), x.mode, x.prompt, x.run) not in there]
        if not new:
            return
        if before and beginning(file, 1) == "[":
            raise ClaimflowError(
                f"judge.asks={file} holds a JSON list, and questions are written as JSON lines: "
                "name another file."
            )
        if before and not before.endswith((b"\n", b"\r")):
            before += b"\n"
        write_whole(file, before + b"".join(encode(line) + b"\n" for line in new))


@dataclasses.dataclass(kw_only=True)
class JudgedScorer(Scorer):
    """A scorer that asks or trains a model: written as `score_with`, and called by `score` with
    the cache of CLAIMFLOW_CACHE or else of `home()`."""

    reads: ClassVar = ("predictions",)

    def score(
        self,
        gold: list[Claim],
        predictions: list[Prediction] | None = None,
        rankings: Rankings | None = None,
    ) -> Scores:
        cache = open_cache(os.environ.get("CLAIMFLOW_CACHE") or str(home() / "cache"))
        return self.score_with(Context(cache, seed=self.seed), gold, predictions, rankings)


def cost(ctx: Context) -> list[str]:
    """The note on what a language model as judge cost; none for recorded replies."""
    read, wrote = ctx.tokens["prompt"], ctx.tokens["completion"]
    notes = [f"The judge read {read:,} tokens and wrote {wrote:,}."] if read else []
    if ctx.uncounted:
        notes.append(
            f"The server did not say the tokens of {ctx.uncounted:,} of the judge's replies, so "
            "they are not counted."
        )
    return notes


# How the notes on failed replies begin.
FAILED = ("No score from the judge", "Judge calls that count 0")


def failures(problems: list[str], nought: bool = False) -> list[str]:
    """The note for replies that failed; none when none did. nought: they count 0, as officially."""
    if not problems:
        return []
    left, counted = FAILED
    number, first = f"({len(problems)})", listed(problems, 10)
    if nought:
        return [f"{counted} {number}: {first}."]
    return [
        f"{left}, so left out of the judged measures {number}: {first}. Score again to ask again."
    ]


def unjudged(
    names: Iterable[str],
    rows: list[dict[str, Any]],
    asked: Collection[str],
    problems: list[str],
) -> dict[str, str]:
    """Why measures have no value: those of `names` that no claim of `asked` (ids) has, as all
    replies failed. Claims that nothing had to be asked about, and that score 0, make no value."""
    rows = [row for row in rows if row["id"] in asked]
    why = f"0 of {len(rows)} claims judged; first {problems[0]}" if problems else ""
    return {
        name: why
        for name in names
        if problems and all(name in row and row[name] is None for row in rows)
    }


# Reading replies


def _probabilities(reply: Reply) -> list[float]:
    """Those of the choices by their log-probabilities."""
    if not reply.scores:
        raise ReplyError("no log-probabilities in the reply")
    top = max(reply.scores)
    if not math.isfinite(top):
        raise ReplyError("no choice is possible")
    shares = [math.exp(score - top) for score in reply.scores]
    return [share / sum(shares) for share in shares]


class Facts(Record):
    """Shares of facts that the other side supports; None where the reply does not say."""

    precision: float | None
    recall: float


def read_facts(reply: str) -> Facts:
    """Precision and recall by the counts in a reply (Akhtar et al. 2024, section 3.1), 0 to 1.

    A count above the total counts as the total. Without predicted facts precision is 0; without
    reference facts there is nothing to score. Raises ReplyError for a reply without the counts of
    the reference side.
    """
    supported, total = _counts(reply, "reference")
    if not total:
        raise ReplyError("no reference facts in the reply")
    recall = min(1.0, supported / total)
    try:
        hits, predicted = _counts(reply, "predicted")
    except ReplyError:
        return Facts(precision=None, recall=recall)
    return Facts(precision=min(1.0, hits / predicted) if predicted else 0.0, recall=recall)


def official_facts(reply: str) -> Facts:
    """Precision and recall as the scorer of 2025 reads them, with all its quirks.

    The first shortest {…} is decoded, so a nested object or a } in a fact breaks it; counts as
    text, a total of 0 on either side or a missing key give nothing. Nothing is clipped.
    """
    try:
        body = json.loads("{" + re.findall(r"\{(.*?)\}", reply, re.DOTALL)[0] + "}")
        what = "questions" if "support predicted questions" in body else "evidence"
        precision, recall = (
            body[f"support {side} {what}"] / body[f"facts count {side} {what}"]
            for side in ("predicted", "reference")
        )
        return Facts(precision=float(precision), recall=float(recall))
    except (IndexError, KeyError, TypeError, ValueError, ZeroDivisionError) as error:
        raise ReplyError(f"not read by the official rule: {type(error).__name__}") from None


def read_coverage(reply: str) -> float:
    """Share of the claim's facts that the evidence supports or contradicts, 0 to 1.

    The reference-less score (Akhtar et al. 2024, section 4.4). Raises ReplyError without counts.
    """
    for fields in _objects(reply):
        values = {
            name: next((number(v) for k, v in fields.items() if k == name), None)
            for name in ("support", "contradict", "facts count")
        }
        if None not in values.values():
            support, contradict, total = (float(v) for v in values.values() if v is not None)
            if not total:
                raise ReplyError("no facts in the reply")
            return min(1.0, (support + contradict) / total)
    raise ReplyError("no counts 'support', 'contradict' and 'facts count' in the reply")


def read_label(reply: str, labels: tuple[str, ...]) -> str:
    """The label that a reply gives. Raises ReplyError when it gives none."""
    from components.labels import parse_label

    for fields in _objects(reply):
        if label := parse_label(str(fields.get("label", "")), labels):
            return label
    if label := parse_label(reply, labels):
        return label
    raise ReplyError("no label in the reply")


def _counts(reply: str, side: str) -> tuple[float, float]:
    """(supported, total) of the predicted or the reference side, by the keys that name it first
    and hold a number."""
    for fields in _objects(reply):
        own = {key: number(value) for key, value in fields.items() if _side(key) == side}
        known = {k: v for k, v in own.items() if v is not None and not _OPPOSED.search(k)}
        likely = {k: v for k, v in known.items() if "support" in k}
        others = {k: v for k, v in known.items() if {"count", "total", "number"} & set(k.split())}
        supported = _one(likely, f"support {side}")
        total = _one({k: v for k, v in others.items() if k not in likely}, f"facts count {side}")
        if supported is not None and total is not None:
            return supported, total
    raise ReplyError(f"no counts of {side} facts in the reply")


# Of facts that the other side does not state, or denies.
_OPPOSED = re.compile(
    r"\b(not?|non|un|t|without|never)\b|\b(un|non)(support|verif|confirm)|"
    r"\b(refut|contradict|oppos|disput)"
)


def _one(counts: dict[str, float], asked: str) -> float | None:
    """The count whose key is that of the prompt, `asked` and what is compared, else the only one;
    None without any. Raises ReplyError where several differ."""
    for key, value in counts.items():
        if re.search(rf"\b{asked} (evidence|questions)$", key):
            return value
    if len(set(counts.values())) > 1:
        raise ReplyError(f"several counts in the reply: {', '.join(counts)}")
    return next(iter(counts.values()), None)


def _side(key: str) -> str | None:
    return next((word for word in key.split() if word in ("predicted", "reference")), None)


def number(value: Any) -> float | None:
    """A count of 0 or more: a number, or a text with one in digits or as a word; else None."""
    if isinstance(value, bool):
        return None
    if isinstance(value, (int, float)):
        return float(value) if math.isfinite(value) and value >= 0 else None
    if not isinstance(value, str):
        return None
    if found := re.search(r"-?\d+(?:\.\d+)?", value):
        return float(found.group()) if not found.group().startswith("-") else None
    return next((float(VALUES[word]) for word in value.lower().split() if word in VALUES), None)


_PAIR = re.compile(r'"([^"\n]{3,60})"\s*:\s*("[^"\n]{0,40}"|-?\d+(?:\.\d+)?)')


def _objects(reply: str) -> Iterator[dict[str, Any]]:
    """The JSON objects in a reply, flat, outer ones instead of those in them, the last one first,
    since models think first and answer last; then what looks like `"key": value` anywhere in it,
    for replies that are almost JSON."""
    decoder = json.JSONDecoder(strict=False)
    found = []
    at = reply.find("{")
    while at >= 0:
        try:
            value, end = decoder.raw_decode(reply, at)
        except (ValueError, RecursionError):
            end = at + 1
        else:
            found.append(dict(_flat(value)))
        at = reply.find("{", end)
    yield from reversed(found)
    yield {_plain(key): value.strip('"') for key, value in _PAIR.findall(reply)}


def _flat(value: dict[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    for key, item in value.items():
        name = f"{path} {_plain(key)}".strip()
        if isinstance(item, dict):
            yield from _flat(item, name)
        else:
            yield name, item


def _plain(key: str) -> str:
    return " ".join(re.findall(r"\w+", key.lower().replace("_", " ")))
