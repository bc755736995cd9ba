"""Search queries by rules: the words and phrases of a claim that are worth a search.

Parts of speech are those of the Penn Treebank, given by TextBlob's lexicon and rules (Brill's
method), which need no language data besides the package.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable
from typing import ClassVar

from components.errors import ClaimflowError
from components.reason.questions import names, unique
from components.records import Case, Claim, Query
from components.step import Context, Step

Tagged = list[tuple[str, str]]
"""Words with their parts of speech; signs are left out, but `.` stands where one is."""


@dataclasses.dataclass(kw_only=True)
class RuleQueries(Step):
    """Base of queries by rules: one for each phrase, without repetitions.

    joined: all phrases as one query. with_claim: the claim comes first, as a query of its own. A
    claim without such a phrase is itself the query, with a remark.
    """

    reads: ClassVar = ("claim", "remarks")
    writes: ClassVar = ("queries", "remarks")
    kind: ClassVar[str]  # of the queries
    joined: bool = False
    with_claim: bool = False

    def phrases(self, claim: Claim) -> Iterable[str]:
        """What is searched for."""
        raise NotImplementedError

    def run(self, cases: list[Case], ctx: Context) -> list[Case]:
        for case in cases:
            found = unique(phrase for phrase in self.phrases(case.claim) if phrase)
            texts = [" ".join(found)] if self.joined and found else found
            case.queries = [Query(text=case.claim.text)] if self.with_claim or not texts else []
            case.queries += [Query(text=text, kind=self.kind) for text in texts]
            if not texts:
                case.remarks = [*case.remarks, f"searched by the claim, as it gives no {self.kind}"]
        return cases


@dataclasses.dataclass(kw_only=True)
class Capitalised(RuleQueries):
    """Runs of capitalised words, without those that only begin the sentence (Papelo, FEVER
    2018)."""

    kind: ClassVar = "capitalised"

    def phrases(self, claim: Claim) -> Iterable[str]:
        return names(claim.text)


@dataclasses.dataclass(kw_only=True)
class Entities(RuleQueries):
    """Runs of proper nouns, numbers beside them included (Columbia NLP, Papelo and others, FEVER
    2018, with a named-entity recogniser)."""

    kind: ClassVar = "entity"

    def phrases(self, claim: Claim) -> Iterable[str]:
        return _runs(tagged(claim.text), r"(?:CD )?(?:NNPS? )+(?:CD )?")


@dataclasses.dataclass(kw_only=True)
class NounPhrases(RuleQueries):
    """Noun phrases without their article, then what stands before the first verb (Athene, FEVER
    2018, with a constituency parser)."""

    kind: ClassVar = "noun_phrase"
    with_claim: bool = True

    def phrases(self, claim: Claim) -> Iterable[str]:
        words = tagged(claim.text)
        return [*_runs(words, r"(?:JJ[RS]? |CD |VBN |VBG )*(?:NNP?S? )+(?:CD )?"), _subject(words)]


@dataclasses.dataclass(kw_only=True)
class VerbPrefix(RuleQueries):
    """What stands before the first verb in lower case (Columbia NLP, FEVER 2018)."""

    kind: ClassVar = "verb_prefix"

    def phrases(self, claim: Claim) -> Iterable[str]:
        return [_subject(tagged(claim.text))]


@dataclasses.dataclass(kw_only=True)
class PosFilter(RuleQueries):
    """The speaker, and the words of these parts of speech, as one query (AVeriTeC baseline 2023:
    numbers, adjectives, nouns and verbs).

    tags: beginnings of Penn Treebank tags.
    """

    kind: ClassVar = "pos_filter"
    joined: bool = True
    tags: list[str] = dataclasses.field(default_factory=lambda: ["CD", "JJ", "NN", "VB"])
    speaker: bool = True

    def __post_init__(self) -> None:
        if not self.tags:
            raise ClaimflowError("query.tags is empty: name parts of speech, such as NN.")

    def phrases(self, claim: Claim) -> Iterable[str]:
        words = [word for word, tag in tagged(claim.text) if tag.startswith(tuple(self.tags))]
        # A word may come twice: one phrase, so that it is kept.
        return [claim.speaker or "" if self.speaker else "", " ".join(words)]


def tagged(text: str) -> Tagged:
    """The words of `text` with their parts of speech."""
    from textblob.en.taggers import PatternTagger

    found = PatternTagger().tag(" ".join(text.split()))
    return [(word, tag if re.match(r"\w", word) else ".") for word, tag in found]


def _subject(words: Tagged) -> str:
    verb = next(
        (i for i, (word, tag) in enumerate(words) if tag[:2] in ("VB", "MD") and word.islower()), 0
    )
    return " ".join(word for word, tag in words[:verb] if tag != ".")


def _runs(words: Tagged, pattern: str) -> list[str]:
    """Runs of words whose tags, each with a space behind, fit the pattern."""
    tags = "".join(f"{tag} " for _, tag in words)
    found = []
    for match in re.finditer(rf"(?<!\S)(?:{pattern})", tags):
        start = tags[: match.start()].count(" ")
        end = start + match.group().count(" ")
        found.append(" ".join(word for word, _ in words[start:end]))
    return found
