"""Whether predictions are of the form that a scorer reads, and for the claims of the gold file."""

from __future__ import annotations

import collections
from collections.abc import Sequence

from components.datasets import fever
from components.datasets.base import normalised
from components.errors import ClaimflowError
from components.records import AVERITEC_LABELS, Claim, Prediction
from components.score.base import listed

MOST = 0.8  # share of claims with another text from which on predictions are refused
FEWEST = 5  # texts that tell; of fewer, another one is only noted
SHOWN = 60  # characters of a text in a message


def form_of(prediction: Prediction) -> str | None:
    """AVeriTeC, FEVER or SciFact; None where a prediction could be of any."""
    if prediction.label in AVERITEC_LABELS:
        return "AVeriTeC"
    if prediction.label.upper() in fever.LABELS:
        return "FEVER"
    if not prediction.label and prediction.findings:
        return "SciFact"
    return None


def check_form(predictions: Sequence[Prediction], scorer: str, form: str) -> None:
    """Raise ClaimflowError when predictions are of other forms than the one that a scorer reads."""
    found = collections.Counter(filter(None, map(form_of, predictions)))
    if found and form not in found:
        other, count = found.most_common(1)[0]
        raise ClaimflowError(
            f"The scorer {scorer} reads predictions of {form}, and these are of {other} "
            f"({count} of {len(predictions)}): choose the scorer of {other}, or another file."
        )


def check_texts(predictions: Sequence[Prediction], gold: Sequence[Claim]) -> list[str]:
    """A note on predictions that give another text for a claim than the gold file has under the
    same id; none where texts are alike or are not known on both sides.

    Case, white space and punctuation don't count. Raises ClaimflowError when nearly all of
    them differ.
    """
    claims = {claim.id: claim.text for claim in gold}
    known = [p for p in predictions if _plain(p.claim) and _plain(claims.get(p.id, ""))]
    other = [p for p in known if _plain(p.claim) != _plain(claims[p.id])]
    if not other:
        return []
    if len(known) < FEWEST or len(other) <= MOST * len(known):
        return [
            "Predictions whose claim has another text than the gold claim of the same id "
            f"({len(other)} of {len(known)}): {listed(p.id for p in other)}."
        ]
    first = other[0]
    raise ClaimflowError(
        f"{len(other)} of {len(known)} predictions have another claim than the gold file has under "
        f"the same id, first id {first.id}: '{_short(first.claim)}' in the predictions, "
        f"'{_short(claims[first.id])}' in the gold file.{_remedy(other, claims)}"
    )


def _remedy(other: Sequence[Prediction], claims: dict[str, str]) -> str:
    """What to do: renumber where ids are shifted, else give the right gold file."""
    place = {_plain(text): id for id, text in claims.items()}
    apart: collections.Counter[int] = collections.Counter()
    found = 0
    for prediction in other:
        id = place.get(_plain(prediction.claim))
        found += id is not None
        if id is not None and id.isdecimal() and prediction.id.isdecimal():
            apart[int(id) - int(prediction.id)] += 1
    shift, count = apart.most_common(1)[0] if apart else (0, 0)
    if count > MOST * len(other):
        more = f"{abs(shift)} {'more' if shift > 0 else 'less'}"
        return f" The ids are shifted: of {count} of them the gold id is {more}. Renumber them."
    if found > MOST * len(other):
        return " The claims are there under other ids: give each prediction the id of its claim."
    return " Give the gold file that these predictions were made for."


def _plain(text: str) -> str:
    return "".join(c for c in normalised(text) if c.isalnum())


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}…"
