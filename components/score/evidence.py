"""Evidence as the texts that judges and word-overlap measures compare."""

from __future__ import annotations

from components.datasets.submission import FIRST, INNER, OUTER
from components.records import Claim, Evidence


def gold_pairs(claim: Claim, explained: bool = True) -> list[tuple[str, str]]:
    """(question, answer) for each gold answer, as in a solution file of 2025.

    A question without answers has none. explained: a Boolean answer has its explanation after it.
    """
    pairs = []
    for question in claim.questions:
        for answer in question.answers:
            text = answer.answer
            if explained and answer.answer_type == "Boolean" and answer.boolean_explanation:
                text = f"{text}. {answer.boolean_explanation}"
            pairs.append((question.question, text))
    return pairs


def pairs_of(evidence: list[Evidence], first: int | None = FIRST) -> list[tuple[str, str]]:
    """(question, answer) of submitted evidence; only the `first` count."""
    return [(e.question, e.answer) for e in evidence[:first]]


def cell(pairs: list[tuple[str, str]]) -> str:
    """The evidence cell of a file of 2025, which the official judge is shown as it is."""
    return "".join(f"{question}{INNER}{answer}{OUTER}" for question, answer in pairs)


def lines(pairs: list[tuple[str, str]]) -> str:
    """One line a pair."""
    return "\n".join(" ".join(f"{question} {answer}".split()) for question, answer in pairs)


def questions(pairs: list[tuple[str, str]]) -> str:
    """The questions of all pairs, joined by spaces."""
    return " ".join(question for question, _ in pairs if question)
