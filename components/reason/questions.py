"""Questions about a claim, to search its evidence with."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable
from pathlib import Path
from typing import ClassVar

from components.engines.base import Reply, Request
from components.errors import ClaimflowError
from components.reason.examples import examples
from components.reason.prompted import Prompted
from components.records import Case, Claim
from components.step import Context, Step

BY_RULES = "questions by rules, as the model's reply had none"


@dataclasses.dataclass(kw_only=True)
class LlmQuestions(Prompted):
    """Questions by a language model, shown those that annotators asked of like claims.

    The few-shot scheme of the AVeriTeC baseline (Schlichtkrull et al. 2023, section 5), with
    claims as neighbours; or zero-shot (examples=0), as most systems of AVeriTeC 2024 and 2025
    ask. The replies are greedy.

    prompt: with {examples}, {n} and {style}, if wanted. n: questions of a style, at most. styles:
    a reply is asked for each, which {style} tells of what kind the questions are to be (SynApSe:
    single-hop, multi-hop, as a fact-checker asks); their questions stand behind one another. form:
    the lines of a reply are statements, each of which becomes a question as the {line} of this
    (sub-claims, key points); None: they are questions. examples: training claims in the prompt.
    on_empty: what a claim gets when the replies have no question in them: "rules" (those of
    `RuleQuestions`, with a remark) or "fail" (the claim fails).
    """

    reads: ClassVar = ("claim",)
    writes: ClassVar = ("questions", "remarks")

    slot: ClassVar = "questioner"
    least: ClassVar = {"examples": 0}
    choices: ClassVar = {"on_empty": ("rules", "fail")}

    prompt: Path = Path("questions.txt")
    chat: bool = False
    n: int = 3
    styles: dict[str, str] = dataclasses.field(default_factory=dict)
    form: str | None = None
    examples: int = 4
    on_empty: str = "rules"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_n(self.n)
        if self.form and "{line}" not in self.form:
            raise ClaimflowError(f"questioner.form is {self.form!r}: it needs a {{line}}.")
        if self.styles and "{style}" not in self.prompt.read_text(encoding="utf-8"):
            raise ClaimflowError(f"{self.prompt} has no {{style}}: all styles would be one.")

    def run(self, cases: list[Case], ctx: Context) -> list[Case]:
        shown = examples([case.claim for case in cases], self.examples, ctx, self.n)
        styles = list(self.styles.values()) or [""]
        requests = [
            self.request(case.claim, near, style)
            for case, near in zip(cases, shown, strict=True)
            for style in styles
        ]
        replies = iter(self.engine.generate(requests, ctx))
        for case in cases:
            mine = [next(replies) for _ in styles]
            case.questions = unique(q for reply in mine for q in self.questions(reply))
            if error := next((reply.error for reply in mine if reply.error), None):
                case.failed = error
            elif not case.questions and self.on_empty == "fail":
                case.failed = f"no question in the model's reply {mine[0].text[:80]!r}"
            elif not case.questions:
                case.questions = rules(case.claim)[: self.n]
                case.remarks = [BY_RULES]
        return cases

    def questions(self, reply: Reply) -> list[str]:
        """The questions in a reply."""
        if not self.form:
            return parsed(reply.text, self.n)
        said = unique(lines(reply.text))[: self.n]
        return [self.form.replace("{line}", _inner(line.rstrip(" ."))) for line in said]

    def request(self, claim: Claim, near: list[Claim], style: str = "") -> Request:
        """What the model is asked about `claim`, with `near` as examples."""
        shown = "\n\n".join(_example(example, self.n) for example in near)
        values = {"examples": shown, "n": str(self.n), "style": style}
        # A chat may say something before its list, behind which a text to go on with ends.
        stop = [] if self.chat else ["\n\n", "\nClaim:", f"\n{self.n + 1}."]
        return self.ask(claim, values, stop=stop)


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


def parsed(reply: str, n: int | None = None) -> list[str]:
    """The questions in a reply, at most `n` (None: all): one a line, up to its last question mark.

    Bullets, numbers and quotes around them are taken off; lines without a question mark, such as
    the one where a reply was cut off, and repetitions are left out.
    """
    found = []
    for line in reply.splitlines():
        text, mark, _ = " ".join(line.split()).rpartition("?")
        text = _bare(text)
        if mark and any(char.isalpha() for char in text):
            found.append(text + mark)
    return unique(found)[:n]


def lines(reply: str) -> list[str]:
    """The lines of a reply that hold a letter, without bullets, numbers and quotes around."""
    found = (_bare(" ".join(line.split())) for line in reply.splitlines())
    return [text for text in found if any(char.isalpha() for char in text)]


def _bare(text: str) -> str:
    while marker := MARKER.match(text):
        text = text[marker.end() :]
    return text.strip(" \"'“”*_")


def unique(texts: Iterable[str]) -> list[str]:
    """The first of equal texts, in their order; case doesn't count."""
    found: dict[str, str] = {}
    for text in texts:
        found.setdefault(text.casefold(), text)
    return list(found.values())


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
