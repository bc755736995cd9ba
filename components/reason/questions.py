"""Questions about a claim, to search its evidence with."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable
from pathlib import Path
from typing import ClassVar

from components.engines.base import Engine, Request
from components.errors import ClaimflowError
from components.reason.examples import examples
from components.reason.prompt import filled, prompt_file
from components.records import Case, Claim
from components.step import Context, Step


@dataclasses.dataclass(kw_only=True)
class LlmQuestions(Step):
    """Questions by a language model, shown those that annotators asked of like claims.

    The few-shot scheme of the AVeriTeC baseline (Schlichtkrull et al. 2023, section 5), with
    claims as neighbours. The reply is greedy.

    prompt: a file with {claim} and, if wanted, {examples}, {n}, {speaker} and {date}; or the name
    of one in components/reason/prompts. n: questions at most. examples: training claims in the
    prompt. max_tokens: of a reply. on_empty: what a claim gets when the reply has no question in
    it: "rules" (those of `RuleQuestions`, with a remark) or "fail" (the claim fails).
    """

    reads: ClassVar = ("claim",)
    writes: ClassVar = ("questions", "remarks")
    needs_train: ClassVar = True

    engine: Engine
    prompt: Path = Path("questions.txt")
    n: int = 3
    examples: int = 4
    max_tokens: int = 64
    on_empty: str = "rules"

    def __post_init__(self) -> None:
        self.outside = self.engine.outside  # type: ignore[misc]
        self.prompt = prompt_file(self.prompt)
        check_n(self.n)
        if self.examples < 0:
            raise ClaimflowError(f"questioner.examples is {self.examples}: give 0 or more.")
        if self.on_empty not in ("rules", "fail"):
            raise ClaimflowError(f"questioner.on_empty is {self.on_empty}: choose rules or fail.")

    def run(self, cases: list[Case], ctx: Context) -> list[Case]:
        shown = examples([case.claim for case in cases], self.examples, ctx, self.n)
        requests = [self.request(case.claim, near) for case, near in zip(cases, shown, strict=True)]
        for case, reply in zip(cases, self.engine.generate(requests, ctx), strict=True):
            case.questions = parsed(reply.text, self.n)
            if reply.error:
                case.failed = reply.error
            elif not case.questions and self.on_empty == "fail":
                case.failed = f"no question in the model's reply {reply.text[:80]!r}"
            elif not case.questions:
                case.questions = rules(case.claim)[: self.n]
                case.remarks = ["questions by rules, as the model's reply had none"]
        return cases

    def request(self, claim: Claim, near: list[Claim]) -> Request:
        """What the model is asked about `claim`, with `near` as examples."""
        prompt = filled(
            self.prompt,
            claim=claim.text.strip(),
            examples="\n\n".join(_example(example, self.n) for example in near),
            n=str(self.n),
            speaker=claim.speaker or "unknown",
            date=str(claim.date or "unknown"),
        )
        stop = ["\n\n", "\nClaim:", f"\n{self.n + 1}."]
        return Request(prompt=prompt, max_tokens=self.max_tokens, stop=stop)


@dataclasses.dataclass(kw_only=True)
class RuleQuestions(Step):
    """Questions by rules, without a model: see `rules`. n: questions at most."""

    reads: ClassVar = ("claim",)
    writes: ClassVar = ("questions",)

    n: int = 3

    def __post_init__(self) -> None:
        check_n(self.n)

    def run(self, cases: list[Case], ctx: Context) -> list[Case]:
        for case in cases:
            case.questions = rules(case.claim)[: self.n]
        return cases


def check_n(n: int) -> None:
    """Raise ClaimflowError for a number of questions below 1."""
    if n < 1:
        raise ClaimflowError(f"questioner.n is {n}: give 1 or more, or set questioner=none.")


def _example(claim: Claim, n: int) -> str:
    asked = unique(" ".join(question.question.split()) for question in claim.questions)[:n]
    lines = [f"{i}. {question}" for i, question in enumerate(asked, 1)]
    return "\n".join([f"Claim: {claim.text.strip()}", "Questions:", *lines])


MARKER = re.compile(r"^(?:[-*•–—>#]+|\(?\d+[.):]|[Qq](?:uestion)?\s*\d*[.:)])\s*")


def parsed(reply: str, n: int) -> list[str]:
    """The questions in a reply, at most `n`: one a line, up to its last question mark.

    Bullets, numbers and quotes around them are taken off; lines without a question mark, such as
    the one where a reply was cut off, and repetitions are left out.
    """
    found = []
    for line in reply.splitlines():
        text, mark, _ = " ".join(line.split()).rpartition("?")
        while marker := MARKER.match(text):
            text = text[marker.end() :]
        text = text.strip(" \"'“”*_")
        if mark and any(char.isalpha() for char in text):
            found.append(text + mark)
    return unique(found)[:n]


def unique(texts: Iterable[str]) -> list[str]:
    """`texts` without repetitions; case doesn't count."""
    return list({text.casefold(): text for text in reversed(list(texts))}.values())[::-1]


# Rules

_QUOTE = re.compile(r"[\"“”]([^\"“”]{3,})[\"“”]")
# A day or a year is no figure that needs a source.
_MONTHS = "January|February|March|April|May|June|July|August|September|October|November|December"
_DAY = re.compile(
    rf"\b\d{{1,2}}(?:st|nd|rd|th)?\s(?:of\s)?(?:{_MONTHS})\b|\b(?:{_MONTHS})\s\d{{1,2}}\b(?!\s?%)|"
    r"(?<![$€£₹\d.,])\b(?:1[89]|20)\d\d\b(?![.,]?\d|\s?%)"
)
# A figure, its unit, and up to two words that say what it counts.
_FIGURE = re.compile(
    r"[$€£₹]?\d[\d,.]*(?:\s?%|\s(?:percent|per cent|hundred|thousand|million|billion|trillion|"
    r"crore|lakh))?(?:\s(?!since|than|from|with|after|before|during|over|when|that)[^\W\d_]{4,}\b){0,2}"
)
_NAME = re.compile(r"\b[A-Z][\w'’-]*(?:\s+(?:(?:of|the|for|and|de|al)\s+)*[A-Z][\w'’-]*)*")
# Words that begin a sentence without being a name.
_OPENER = re.compile(
    r"(?:A|An|And|As|At|But|By|During|For|From|He|Her|His|How|I|If|In|It|Its|More|Most|My|No|Not|"
    r"Of|On|One|Only|Our|She|Since|Some|That|The|Their|There|These|They|This|Those|To|Under|We|"
    r"What|When|Where|Who|Why|With|You|Your)"
)


def rules(claim: Claim) -> list[str]:
    """Questions that can be asked of any claim, the more telling ones first.

    Whether it is true; its quotation; the source of its first figure; who said it; what is known
    of its names; what its speaker said; what evidence there is. Two or more for any text.
    """
    whole = " ".join(claim.text.split())
    text = whole.rstrip(" .!?") or "this"
    speaker = " ".join((claim.speaker or "").split())
    when = f"{claim.date:%B %Y}" if claim.date else None
    named = names(text)
    asked = [f"Is it true that {_inner(text)}?"]
    if quote := _QUOTE.search(whole):
        asked.append(f'Who said "{quote.group(1).strip()}", and in what context?')
    if figures := [found.group().rstrip(".,") for found in _FIGURE.finditer(_DAY.sub(";", text))]:
        asked.append(f"What is the source for the figure of {figures[0]}?")
    asked.append(f"Who said that {_inner(text)}, and when?")
    if named:
        asked.append(
            f"What is known about {' and '.join(named[:2])}{f' in {when}' if when else ''}?"
        )
    if speaker:
        asked.append(f"What did {speaker} say about {named[0] if named else 'it'}?")
    asked.append(f"What evidence is there that {_inner(text)}?")
    return unique(asked)


def names(text: str) -> list[str]:
    """Capitalised names in order, without what only begins the sentence."""
    found = []
    for match in _NAME.finditer(text):
        words = match.group().split()
        while words and _OPENER.fullmatch(words[0]):
            words = words[1:]
        if words:
            found.append(" ".join(words))
    return unique(found)


def _inner(text: str) -> str:
    """`text` as it stands inside a sentence: a first word that is no name in lower case."""
    first = text.split(" ", 1)[0]
    return text[0].lower() + text[1:] if first != "I" and _OPENER.fullmatch(first) else text
