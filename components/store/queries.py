"""Search queries for a claim's knowledge store: the kinds of AVeriTeC 2024 (table 11).

The names below stand with every page that a query found (`type` in a store). Kinds marked gold
are made of the annotators' questions, answers and sources: good for stores to train with, a leak
on a split that is evaluated.
"""

from __future__ import annotations

import calendar
import dataclasses
import random
import re
import urllib.parse
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import ClassVar

from components.cache import key_of
from components.engines.base import Engine, Request
from components.errors import ClaimflowError, nearest
from components.reason.examples import examples
from components.reason.prompt import filled, prompt_file
from components.reason.questions import LlmQuestions, lines, names, parsed, rules, unique
from components.records import Answer, Case, Claim, Document, Query
from components.retrieve.bm25 import Bm25s
from components.step import Context, Step
from components.text import terms
from components.urls import split

PROMPTS = Path(__file__).parent / "prompts"
GOLD_PAGE = "gold"  # a page that the annotators answered from; no query found it
PARAGRAPH = 3  # sentences: documents are kept as sentences, not as paragraphs


@dataclasses.dataclass(kw_only=True)
class StoreQueries(Step):
    """The queries that a claim's store is searched with, kind after kind, without repetitions.

    kinds: names of KINDS, in the order that counts where two queries find one page. engine: writes
    those that AVeriTeC generated; None: plain rules do. n: queries of a generated kind for each
    claim, question, answer or source. examples: training claims shown for generated questions.
    max_tokens: of a reply. A reply without a query is replaced by the rules', with a remark.

    `documents`, where a case has them, are its gold pages, for similar_gold_paragraph.
    """

    reads: ClassVar = ("claim", "documents")
    writes: ClassVar = ("queries", "remarks")
    needs_train: ClassVar = True
    seeded: ClassVar = True

    kinds: list[str]
    engine: Engine | None = None
    n: int = 3
    examples: int = 3
    max_tokens: int = 96

    def __post_init__(self) -> None:
        self.outside = bool(self.engine and self.engine.outside)  # type: ignore[misc]
        for kind in self.kinds:
            if kind not in KINDS:
                raise ClaimflowError(
                    f"No kind of query '{kind}'.{nearest(kind, KINDS)} Kinds: {', '.join(KINDS)}."
                )
        if not self.kinds or len(set(self.kinds)) < len(self.kinds):
            raise ClaimflowError(f"queries.kinds={self.kinds} must name kinds, each once.")
        if self.n < 1:
            raise ClaimflowError(f"queries.n is {self.n}: give 1 or more.")

    def run(self, cases: list[Case], ctx: Context) -> list[Case]:
        made: dict[tuple[int, str], list[str]] = {}
        for number, case in enumerate(cases):
            for kind in self.kinds:
                made[number, kind] = KINDS[kind].rules(Source(case, ctx, self.n))
        if self.engine:
            self._generate(self.engine, cases, made, ctx)
        for number, case in enumerate(cases):
            seen: set[str] = set()
            case.queries = []
            for kind in self.kinds:
                for text in (" ".join(text.split()) for text in made[number, kind]):
                    if text and text.casefold() not in seen:
                        seen.add(text.casefold())
                        case.queries.append(Query(text=text, kind=kind))
        return cases

    def _generate(
        self,
        engine: Engine,
        cases: list[Case],
        made: dict[tuple[int, str], list[str]],
        ctx: Context,
    ) -> None:
        """Put what the model writes in place of the rules' queries."""
        asked: list[tuple[int, str, Request]] = []
        near = self._near(cases, ctx)
        for number, case in enumerate(cases):
            for kind in self.kinds:
                asked += [(number, kind, request) for request in self.requests(case, kind, near)]
        written: dict[tuple[int, str], list[str]] = {}
        replies = engine.generate([request for _, _, request in asked], ctx)
        for (number, kind, _), reply in zip(asked, replies, strict=True):
            if reply.error:
                cases[number].failed = f"{kind}: {reply.error}"
            if kind in _ASKING:
                found = parsed(reply.text, self.n)
            else:
                found = unique(lines(reply.text))[: self.n]
            written.setdefault((number, kind), []).extend(found)
        for (number, kind), texts in written.items():
            if texts:
                made[number, kind] = texts
            else:
                remark = f"queries of kind {kind} by rules, as the model's reply had none"
                cases[number].remarks = [*cases[number].remarks, remark]

    def requests(self, case: Case, kind: str, near: dict[str, list[Claim]]) -> list[Request]:
        """What the model is asked for one kind: once a claim, question, answer or source."""
        if kind == "generated_question":
            assert self.engine
            asking = LlmQuestions(
                engine=self.engine, n=self.n, examples=self.examples, max_tokens=self.max_tokens
            )
            return [asking.request(case.claim, near[case.claim.id])]
        template = KINDS[kind].prompt
        if not template:
            return []
        claim = case.claim
        found = []
        for item in KINDS[kind].items(claim):
            prompt = filled(
                prompt_file(template, PROMPTS),
                claim=claim.text.strip(),
                item=item,
                n=str(self.n),
                names=", ".join(entities(claim.text)) or "none",
                speaker=claim.speaker or "unknown",
                source=claim.reporting_source or "unknown",
                date=str(claim.date or "unknown"),
            )
            stop = ["\n\n", "\nClaim:"]
            found.append(Request(prompt=prompt, max_tokens=self.max_tokens, stop=stop))
        return found

    def _near(self, cases: list[Case], ctx: Context) -> dict[str, list[Claim]]:
        if "generated_question" not in self.kinds:
            return {}
        if self.examples and not ctx.train:
            raise ClaimflowError(
                "Questions are generated with training claims as examples, and this data set gives "
                "none: set queries.examples=0, or dataset.train_split=NAME."
            )
        claims = [case.claim for case in cases]
        shown = examples(claims, self.examples, ctx, self.n)
        return {claim.id: found for claim, found in zip(claims, shown, strict=True)}


def gold_kinds(kinds: Iterable[str]) -> list[str]:
    """Those that are made of gold questions, answers or sources."""
    return [kind for kind in kinds if KINDS[kind].gold]


def check_gold(kinds: Iterable[str], claims: list[Claim], evaluated: bool, allow: bool) -> None:
    """Raise ClaimflowError where kinds that need gold have none, or would leak it.

    evaluated: systems are scored on these claims. allow: make them all the same.
    """
    gold = gold_kinds(kinds)
    if not gold:
        return
    if not any(claim.questions for claim in claims):
        raise ClaimflowError(
            f"queries.kinds {', '.join(gold)} are made of gold questions and answers, and these "
            "claims have none: leave the kinds out (queries=rules or queries=llm)."
        )
    if evaluated and not allow:
        raise ClaimflowError(
            f"queries.kinds {', '.join(gold)} put gold questions, answers or sources into stores "
            "of a split that systems are evaluated on, which tells them the answer. Leave the "
            "kinds out (queries=rules or queries=llm), choose split=train, or say allow_gold=true."
        )


# By rules


@dataclasses.dataclass
class Source:
    """What rules make queries of."""

    case: Case
    ctx: Context
    n: int

    @property
    def claim(self) -> Claim:
        return self.case.claim


_DAYS = {*calendar.month_name, *calendar.day_name} - {"", "May"}  # "May" is a name as well


def entities(text: str) -> list[str]:
    """Capitalised names in a text, without months, days of the week, and the mark of a genitive."""
    found = [re.sub(r"['’]s$", "", name) for name in names(text)]
    return list(dict.fromkeys(name for name in found if not set(name.split()) <= _DAYS))


def keywords(text: str) -> str:
    """The words of a text in lower case without stop-words, as one types them into a search box."""
    return " ".join(terms([text], stemmer=None)[0])


def _background(source: Source) -> list[str]:
    found = entities(source.claim.text)[: source.n]
    return [f"{name} background" for name in found] or [f"{keywords(source.claim.text)} background"]


def _provenance(source: Source) -> list[str]:
    """Who published the claim, whether that is satire, and where it comes from."""
    claim, found = source.claim, []
    host = split(claim.original_url or "").netloc.removeprefix("www.")
    if host:
        found.append(f"is {host} a satire site")
    for who in (claim.speaker, claim.reporting_source):
        if who:
            found.append(f"{who} {keywords(claim.text)}")
    return [*found, f"origin of {keywords(claim.text)}"][: source.n]


def _named_entities(source: Source) -> list[str]:
    found = entities(source.claim.text)
    return [*found, " ".join(found)] if len(found) > 1 else found


def _similar_gold_paragraph(source: Source) -> list[str]:
    """Of each gold page, the paragraph most similar to the claim by BM25."""
    found = []
    for document in source.case.documents:
        texts = paragraphs(document)
        index = Bm25s().index(key_of(texts), texts, source.ctx)
        for scores in Bm25s().scores(index, [source.claim.text], source.ctx):
            if scores.max() > 0:
                found.append(texts[int(scores.argmax())])
    return found


def paragraphs(document: Document) -> list[str]:
    """A document as pieces of PARAGRAPH sentences."""
    sentences = document.sentences
    return [" ".join(sentences[i : i + PARAGRAPH]) for i in range(0, len(sentences), PARAGRAPH)]


def _url_words(source: Source) -> list[str]:
    """The words in the address of each gold page, with the name of its site."""
    found = []
    for url in source.claim.relevant:
        parts = split(url)
        path = re.sub(r"\.\w{2,5}$", "", urllib.parse.unquote(parts.path))
        words = re.findall(r"[^\W\d_]{2,}|\b(?:19|20)\d\d\b", path)
        site = parts.netloc.removeprefix("www.").rpartition(".")[0]
        if words or site:
            found.append(" ".join([*words, site.replace(".", " ")]).strip())
    return found


def _other_events(source: Source) -> list[str]:
    """The claim's names in the years before it."""
    claim = source.claim
    if not claim.date:
        return [f"{name} earlier events" for name in entities(claim.text)[: source.n]]
    years = range(claim.date.year - 1, claim.date.year - 1 - source.n, -1)
    return [f"{name} {year}" for year in years for name in entities(claim.text)][: source.n]


def _similar_entities(source: Source) -> list[str]:
    """The claim with each name replaced by one from a training claim, of as many words if any."""
    claim, ctx = source.claim, source.ctx
    mine = entities(claim.text)
    others = unique(
        name for other in ctx.train for name in entities(other.text) if name not in claim.text
    )
    if not mine or not others:
        return []
    rng = random.Random(ctx.seed_for("similar_entities", claim.id))
    found = []
    for _ in range(source.n):
        text = claim.text
        for name in mine:
            alike = [x for x in others if len(x.split()) == len(name.split())] or others
            other = rng.choice(alike).replace("\\", "")
            text = re.sub(rf"(?<!\w){re.escape(name)}(?!\w)", other, text)
        found.append(text)
    return found


def _questions(claim: Claim) -> list[str]:
    return unique(question.question.strip() for question in claim.questions)


def _answers(claim: Claim) -> list[str]:
    """Gold answers that say something: the reason of a yes or no, and nothing for "no answer"."""
    said = (_said(answer) for question in claim.questions for answer in question.answers)
    return unique(text for text in said if text)


def _said(answer: Answer) -> str:
    if answer.answer_type == "Unanswerable":
        return ""
    if answer.answer_type == "Boolean":
        return (answer.boolean_explanation or "").strip()
    return answer.answer.strip()


def _one(claim: Claim) -> list[str]:
    return [claim.text.strip()]


@dataclasses.dataclass(frozen=True)
class Kind:
    """A kind of query.

    rules: makes it without a model. prompt: file of the prompt, where AVeriTeC asked a model.
    items: what the model is asked about, one request each. gold: is it made of gold annotation?
    """

    about: str
    rules: Callable[[Source], list[str]]
    prompt: str | None = None
    items: Callable[[Claim], list[str]] = _one
    gold: bool = False


KINDS: dict[str, Kind] = {
    "claim": Kind("the claim", lambda s: _one(s.claim)),
    "generated_question": Kind(
        "questions about the claim", lambda s: rules(s.claim)[: s.n], prompt="questions.txt"
    ),
    "background": Kind(
        "background of the claim and its entities", _background, prompt="background.txt"
    ),
    "provenance": Kind("where the claim comes from", _provenance, prompt="provenance.txt"),
    "named_entity": Kind("each named entity, and all together", _named_entities),
    "similar_gold_paragraph": Kind(
        "the paragraph of each gold page that is most similar to the claim",
        _similar_gold_paragraph,
        gold=True,
    ),
    "gold_url_question": Kind(
        "questions that would find the gold pages, from their addresses",
        _url_words,
        prompt="gold_url_question.txt",
        items=lambda claim: claim.relevant,
        gold=True,
    ),
    "same_entity_other_event": Kind(
        "other events with the claim's entities (distractors)",
        _other_events,
        prompt="same_entity_other_event.txt",
    ),
    "similar_entities": Kind(
        "the claim with similar entities (distractors)",
        _similar_entities,
        prompt="similar_entities.txt",
    ),
    "gold_question": Kind("gold questions", lambda s: _questions(s.claim), gold=True),
    "claim_gold_question": Kind(
        "the claim's keywords and a gold question",
        lambda s: [f"{keywords(s.claim.text)} {q}" for q in _questions(s.claim)],
        gold=True,
    ),
    "rephrased_question": Kind(
        "gold questions in other words (by rules: their keywords)",
        lambda s: [keywords(q) for q in _questions(s.claim)],
        prompt="rephrased_question.txt",
        items=_questions,
        gold=True,
    ),
    "gold_answer": Kind("gold answers", lambda s: _answers(s.claim), gold=True),
    "rephrased_answer": Kind(
        "gold answers in other words (by rules: their keywords)",
        lambda s: [keywords(a) for a in _answers(s.claim)],
        prompt="rephrased_answer.txt",
        items=_answers,
        gold=True,
    ),
    GOLD_PAGE: Kind("the gold pages themselves, without a query", lambda s: [], gold=True),
}
_ASKING = ("generated_question", "gold_url_question")  # kinds that are questions
