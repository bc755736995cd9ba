"""A label out of a model's reply, and the label that a wrong one stands for."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

# Other names of the same verdict in FEVER, SciFact and AVeriTeC.
_FAMILIES = (
    {"supported", "supports", "support"},
    {"refuted", "refutes", "refute", "contradict", "contradicts", "contradicted"},
    {"not enough evidence", "not enough info", "not enough information", "nei", "nee"},
    {
        "conflicting evidence cherrypicking",
        "conflicting evidence cherry picking",
        "conflicting evidence",
        "cherrypicking",
        "cherry picking",
    },
)
# What others say for them: no label of a task, so that only a hint rests on it. A verdict on a part
# of a claim is not one on the claim.
_HINTS = {
    "supported": "true, mostly true, correct, accurate, verified, confirmed, proven, entailment, "
    "entailed, entails, agree, agrees",
    "refuted": "false, mostly false, incorrect, inaccurate, wrong, fake, untrue, not true, pants "
    "on fire, pants fire, disproved, disproven, debunked, contradiction, contradictory, disagree, "
    "disagrees, contradicting evidence",
    "nei": "not enough, no evidence, insufficient evidence, insufficient information, "
    "insufficient, lack of evidence, unproven, unverified, unverifiable, not verifiable, "
    "inconclusive, unknown, unsure, neutral, unrelated, cannot be determined",
    "conflicting evidence": "conflicting, conflict, conflicted, mixed, mixture, half true, partly "
    "true, partially true, partly false, partially false, partly supported, partially supported, "
    "partially refuted, misleading, disputed, cherry picked, cherrypicked, cherry pick",
}
_HEDGE = re.compile(r"(?:no[tnr]?|never|un|dis|non|in|mis|ir|semi|half|part\w*|barely)\b|"
                    r"(?:un|dis|non|mis|in|ir)(?=[a-z]{4})")  # fmt: skip
_FIELD = re.compile(r"(?i)\b(?:label|verdict|veracity)\W*?[:=]\W*([^\n\"`*.;,}]+)")
_SENTENCE = re.compile(r"[.!?]+[\"')\]]*\s+|\n+|, but\b")  # what stands before "but" is overruled
_UNSURE = re.compile(
    r"(?i:\b(?:not|no|nor|neither|never|none|nothing|cannot|without|hardly|barely|scarcely|\w+n['’]t|"
    r"lacks?|fails?|doubt\w*|could|might|perhaps|maybe|possibl[ey]|whether|if|unless|between|either|"
    r"unsure|uncertain|unclear|unable|unlikely)\b)|\bmay\b"  # May is a month
)


def exact_label(text: str, labels: Iterable[str]) -> str | None:
    """The one of `labels` that a whole text is; case, punctuation and the names that other data
    sets have for the same verdict (REFUTES, NEI) don't count. None for any other text."""
    return _names(list(labels)).get(_plain(text))


def parse_label(text: str, labels: Iterable[str]) -> str | None:
    """The one of `labels` that a reply gives as its verdict, or None when it gives none.

    The first of these that holds decides:
    1. the whole reply is a label;
    2. the last field `label: …` or `verdict: …` (also in JSON or Markdown) holds a label;
    3. the last line is a label, or else the first line is;
    4. the reply closes with a label spelt exactly as given, in a sentence without another label, a
       negation or a doubt.
    In 1 to 3 case and punctuation don't count, and names that other data sets have for the same
    verdict do (REFUTES, NEI). A label anywhere else in prose is never taken: "not enough evidence
    for X, but Refuted" is Refuted, "not supported" is none.
    """
    labels = list(labels)
    if label := exact_label(text, labels):
        return label
    names = _names(labels)
    fields = [names.get(_plain(value)) for value in _FIELD.findall(text)]
    if any(fields):
        return [label for label in fields if label][-1]
    lines = [line for line in text.splitlines() if line.strip()]
    for line in lines[-1:] + lines[:1]:
        if label := names.get(_plain(line)):
            return label
    closing = text.rstrip(" \t\r\n.!*\"'`)]}")
    for label in sorted(labels, key=len, reverse=True):
        if re.search(rf"(?<!\w){re.escape(label)}$", closing):
            sentence = _SENTENCE.split(closing.removesuffix(label))[-1]
            others = [rf"(?<!\w){re.escape(other)}(?!\w)" for other in labels if other != label]
            unsure = _UNSURE.search(sentence) or any(re.search(x, sentence) for x in others)
            return None if unsure else label
    return None


def nearest_label(text: str, labels: Iterable[str]) -> str:
    """` Did you mean 'x'?` with the one of `labels` that a wrong label stands for by its meaning or
    but for its spelling, else nothing: "not supported" is no misspelt Supported."""
    labels = list(labels)
    names = _names(labels)
    plain = _plain(text)
    meant = names.get(plain)
    for family, others in _HINTS.items():
        if plain in others.split(", "):
            meant = meant or names.get(family)
            break
    else:
        if not meant:
            alike = [name for name in names if _hedges(name) == _hedges(plain)]
            joined = {name.replace(" ", ""): name for name in names}
            close = difflib.get_close_matches(plain, alike, n=1, cutoff=0.75)
            meant = names.get(joined.get(plain) or (close[0] if close else ""))
    return f" Did you mean '{meant}'?" if meant else ""


def _hedges(name: str) -> int:
    return sum(bool(_HEDGE.match(word)) for word in name.split())


def _names(labels: list[str]) -> dict[str, str]:
    """{plain name: label}; an alias stands for a label if only one of its family is there."""
    plain = {_plain(label): label for label in labels}
    names = {}
    for family in _FAMILIES:
        present = [label for name, label in plain.items() if name in family]
        if len(present) == 1:
            names.update(dict.fromkeys(family, present[0]))
    return names | plain


def _plain(text: str) -> str:
    return " ".join(re.findall(r"\w+", text.casefold().replace("_", " ")))
