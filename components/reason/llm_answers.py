"""Answers that a language model gives to questions, from the passages found for them."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar, NamedTuple

import msgspec

from components.datasets.submission import NO_ANSWER
from components.engines.base import Engine, Reply, Request
from components.errors import ClaimflowError
from components.reason.answers import passages_of, plain
from components.reason.fit import CUT, fitted
from components.reason.prompt import prompt_file
from components.reason.prompted import Prompted, chat
from components.records import Case, Evidence, Passage
from components.step import Context

UNANSWERED = "questions left out, as no passage answers them"
UNCHECKED = "answers left out, as their text does not entail them"
_VOTE = re.compile(
    r"""[\W_]*(yes|no)
    (?![\W_]*(?:and|or|[/|&])[\W_]*(?:yes|no)\b)  # the other beside it
    [*_"'”’»)\]]*+                                # the end of what is quoted or bold
    (?:\s*$ | [^\S\n]*\n | \s*(?!-\w)[^\w\s])    # nothing, another line, or punctuation""",
    re.VERBOSE,
)


class Asked(NamedTuple):
    """A question of a case, and the passages that are shown for it."""

    case: Case
    question: str
    passages: list[Passage]


class Said(NamedTuple):
    """The answer to a question, None where there is none, and the passages that it is from."""

    answer: str | None
    passages: list[Passage]
    error: str | None = None
    remark: str = UNANSWERED


@dataclasses.dataclass(kw_only=True)
class LlmAnswers(Prompted):
    """Each question answered in the model's words, from the best passages found for it.

    sources=1 is an answer from one document (InFact, AVeriTeC 2024); more is retrieval-augmented
    generation over k (FZI-WIM, OldJoe), with the best passage nearest to the question where
    `reverse` is set. The reply is greedy. The pair names the passages that were shown, and the
    URL of the best.

    prompt: with {question} and {sources}. limit: questions a claim. unanswered: a question for
    which nothing was found, or whose reply says that there is no answer, or says nothing, is
    "drop"ped with a remark, or kept as "No answer could be found." ("keep"). Passages too long for
    the model's context are all cut to the same length, with a remark.
    """

    reads: ClassVar = ("claim", "queries", "hits", "passages", "remarks")
    writes: ClassVar = ("evidence", "remarks")
    least: ClassVar = {"sources": 1, "limit": 1}
    choices: ClassVar = {"unanswered": ("drop", "keep")}

    prompt: Path = Path("answer.txt")
    max_tokens: int = 96
    sources: int = 3
    reverse: bool = False
    limit: int = 10
    unanswered: str = "drop"

    def run(self, cases: list[Case], ctx: Context) -> list[Case]:
        asked = []
        for case in cases:
            case.evidence, case.remarks = [], list(case.remarks)
            found = list(passages_of(case, self.sources).items())[: self.limit]
            asked += [Asked(case, *one) for one in found]
        given = iter(self.answers([one for one in asked if one.passages], ctx))
        for case, question, passages in asked:
            said = next(given) if passages else Said(None, [])
            if said.error:
                case.failed = said.error
            elif said.answer:
                case.evidence.append(
                    Evidence(question=question, answer=said.answer, url=said.passages[0].url,
                             passages=[passage.id for passage in said.passages])
                )  # fmt: skip
            elif self.unanswered == "keep":
                case.evidence.append(Evidence(question=question, answer=NO_ANSWER))
            elif said.remark not in case.remarks:
                case.remarks.append(said.remark)
        return cases

    def answers(self, asked: list[Asked], ctx: Context) -> list[Said]:
        """The answer to each question, in their order."""
        replies = self.engine.generate([self.request(one, ctx) for one in asked], ctx)
        return [read(one, reply) for one, reply in zip(asked, replies, strict=True)]

    def request(self, one: Asked, ctx: Context) -> Request:
        """What the model is asked; passages are cut to fit."""
        shown = one.passages[::-1] if self.reverse else one.passages

        def make(size: int | None) -> Request:
            sources = "\n\n".join(passage.text[:size] for passage in shown)
            return self.ask(one.case.claim, {"question": one.question, "sources": sources})

        return within(make, one, self.engine, ctx)


@dataclasses.dataclass(kw_only=True)
class VotedAnswers(LlmAnswers):
    """Yes or no, by the vote of the passages (KnowComp, AVeriTeC 2024): the model is asked of each
    alone, and a reply that is neither has no vote (see `yes_or_no`). tie: the answer where the two
    are level.

    prompt: asks for yes, no, or neither. The pair names the passages that voted for its answer.
    """

    choices: ClassVar = {**LlmAnswers.choices, "tie": ("yes", "no")}

    prompt: Path = Path("answer_yes_no.txt")
    max_tokens: int = 8
    tie: str = "yes"

    def answers(self, asked: list[Asked], ctx: Context) -> list[Said]:
        ballots = [Asked(one.case, one.question, [p]) for one in asked for p in one.passages]
        requests = [self.request(ballot, ctx) for ballot in ballots]
        replies = iter(self.engine.generate(requests, ctx))
        said = []
        for one in asked:
            votes: dict[str | None, list[Passage]] = {"yes": [], "no": [], None: []}
            error = None
            for passage in one.passages:
                reply = next(replies)
                error = error or reply.error
                votes[yes_or_no(reply.text)].append(passage)
            yes, no = len(votes["yes"]), len(votes["no"])
            won = self.tie if yes == no else "yes" if yes > no else "no"
            answer = won.capitalize() if yes or no else None
            said.append(Said(answer, votes[won], error))
        return said


@dataclasses.dataclass(kw_only=True)
class CheckedAnswers(LlmAnswers):
    """Answers that their text entails (FZI-WIM, AVeriTeC 2024): question and answer are made one
    statement, and the model is asked whether the passages shown entail it. An answer that they
    don't is given again, at `temperature` and with another seed, `attempts` times in all; after
    the last the question has no answer, and a remark says so.

    statement: a prompt with {question} and {answer}. entailment: one with {sources} and
    {statement}, answered by yes or no.
    """

    least: ClassVar = {**LlmAnswers.least, "attempts": 1}
    seeded: ClassVar = True

    statement: Path = Path("statement.txt")
    entailment: Path = Path("entailment.txt")
    attempts: int = 3
    temperature: float = 0.7

    def __post_init__(self) -> None:
        super().__post_init__()
        self.statement = prompt_file(self.statement)
        self.entailment = prompt_file(self.entailment)
        if self.temperature <= 0:
            raise ClaimflowError("answerer.temperature is 0: the same answer would come again.")

    def answers(self, asked: list[Asked], ctx: Context) -> list[Said]:
        requests = {i: self.request(one, ctx) for i, one in enumerate(asked)}
        said = [Said(None, one.passages, None, UNCHECKED) for one in asked]
        for attempt in range(self.attempts):
            replies = self.engine.generate(list(requests.values()), ctx)
            given = {i: read(asked[i], r) for i, r in zip(requests, replies, strict=True)}
            # That there is no answer is nothing to check.
            done = {i: one for i, one in given.items() if one.error or not one.answer}
            done |= self._entailed(asked, {i: given[i] for i in given if i not in done}, ctx)
            for i, one in done.items():
                said[i] = one
                del requests[i]
            if not requests:
                break
            for i, request in requests.items():
                seed = ctx.seed_for("answers", str(attempt))
                requests[i] = msgspec.structs.replace(
                    request, temperature=self.temperature, seed=seed
                )
        return said

    def _entailed(
        self, asked: list[Asked], given: dict[int, Said], ctx: Context
    ) -> dict[int, Said]:
        """Those of the answers that their passages entail, or that can't be checked."""
        stated = self.engine.generate(
            [
                chat(
                    self.statement,
                    self.max_tokens,
                    asked[i].case.claim,
                    {"question": asked[i].question, "answer": str(one.answer)},
                )
                for i, one in given.items()
            ],
            ctx,
        )
        checks = []
        for (i, one), reply in zip(given.items(), stated, strict=True):
            # Without a statement the pair itself is checked.
            statement = " ".join(reply.text.split()) or f"{asked[i].question} {one.answer}"

            def make(size: int | None, i: int = i, statement: str = statement) -> Request:
                sources = "\n\n".join(passage.text[:size] for passage in asked[i].passages)
                values = {"sources": sources, "statement": statement}
                return chat(self.entailment, 8, asked[i].case.claim, values)

            checks.append(within(make, asked[i], self.engine, ctx))
        found = {}
        replies = self.engine.generate(checks, ctx)
        for (i, one), first, reply in zip(given.items(), stated, replies, strict=True):
            if error := first.error or reply.error:
                found[i] = one._replace(error=error)
            elif yes_or_no(reply.text) == "yes":
                found[i] = one
        return found


def read(one: Asked, reply: Reply) -> Said:
    """The answer that a reply gives."""
    answer = " ".join(reply.text.split())
    none = not plain(answer) or plain(NO_ANSWER) in plain(answer)
    return Said(None if none else answer, one.passages, reply.error)


def yes_or_no(reply: str) -> str | None:
    """What a reply is, "yes" or "no": the word alone, or with punctuation behind it, as in "No, it
    is …". None where it is neither: "No evidence is given", "Yes and no"."""
    found = _VOTE.match(reply.casefold())
    return found.group(1) if found else None


def within(
    make: Callable[[int | None], Request], one: Asked, engine: Engine, ctx: Context
) -> Request:
    """The request, with its passages cut to fit, and a remark where they were."""
    longest = max((len(passage.text) for passage in one.passages), default=0)
    request, cut = fitted(engine, make, longest, ctx)
    if cut and CUT not in one.case.remarks:
        one.case.remarks.append(CUT)
    return request
