"""Whether predictions are of the form that a scorer reads, and for the claims of the gold file."""

from __future__ import annotations

import collections
import dataclasses
import itertools
from collections.abc import Iterable, Sequence

import msgspec

from components.datasets import fever
from components.datasets.base import normalised
from components.datasets.submission import FIRST
from components.errors import ClaimflowError, listed
from components.records import AVERITEC_LABELS, Answer, Claim, Prediction, Question
from components.score.pairing import first_of_each, note

MOST = 0.8  # share of claims with another text from which on predictions are refused
FEWEST = 5  # texts that tell; of fewer, another one is only noted
MOVED = 0.02  # share of claims with the text of another gold claim, from which on they are too
FEWEST_MOVED = 4  # such texts; fewer are only noted
PART = 20  # letters of a claim that tell it, as the beginning of a longer one
NO_TEXT = {"", "na", "nan", "none", "null", "claim"}  # letters of what stands for an unknown text
ALL_RIGHT = 30  # claims from which on a system that is right in all labels is too good to be true
SHOWN = 60  # characters of a text in a message
SCORERS = {
    "AVeriTeC": "scorer=averitec_2024",
    "FEVER": "scorer=fever",
    "SciFact": "scorer=scifact or scifact_open",
}


def form_of(prediction: Prediction) -> str | None:
    """AVeriTeC, FEVER or SciFact; None where a prediction could be of any."""
    if prediction.label in AVERITEC_LABELS:
        return "AVeriTeC"
    if prediction.label.upper() in fever.LABELS:
        return "FEVER"
    if not prediction.label and prediction.findings:
        return "SciFact"
    return None


def check_form(predictions: Sequence[Prediction], form: str) -> None:
    """Raise ClaimflowError when predictions are of other forms than the one that a scorer reads."""
    found = collections.Counter(filter(None, map(form_of, predictions)))
    if found and form not in found:
        other, count = found.most_common(1)[0]
        if form == "AVeriTeC" and other == "FEVER" and any(p.evidence for p in predictions):
            raise ClaimflowError(
                "The evidence of these predictions is of AVeriTeC, and their labels are of FEVER "
                f"({count} of {len(predictions)}): `python -m flows.lint predictions=FILE fix=true`"
                " writes a file with the labels of AVeriTeC."
            )
        raise ClaimflowError(
            f"This scorer reads predictions of {form}, and these are of {other} "
            f"({count} of {len(predictions)}): choose {SCORERS[other]}, or give those of a system "
            f"with labels of {form}."
        )


def check_ids(ids: Iterable[str], gold: Sequence[Claim], what: str) -> None:
    """Raise ClaimflowError when none of the ids of predictions or rankings is that of a claim, or
    when all of them, as numbers, are those of the claims and the same number more."""
    given, known = list(dict.fromkeys(ids)), [claim.id for claim in gold]
    if (by := _shift(given, known)) and set(known) & set(given):
        raise ClaimflowError(
            f"The ids of the {what} are those of the gold claims {by:+d}: theirs begin with "
            f"{min(given, key=int)}, those of the gold claims with {min(known, key=int)}. Renumber "
            "them."
        )
    if given and known and not set(known) & set(given):
        raise ClaimflowError(
            f"None of the {len(given)} {what} has the id of a gold claim: theirs are "
            f"{listed(given, 3)}, those of the gold claims {listed(known, 3)}. Give the gold file "
            "that they were made for, or its ids to them."
        )


def _shift(given: Sequence[str], known: Sequence[str]) -> int:
    """What is added to each of three or more gold ids; 0 where the ids are no such."""
    if len(given) != len(known) or len(known) < 3:
        return 0
    if not all(id.isascii() and id.isdecimal() for id in (*given, *known)):
        return 0
    first, second = sorted(map(int, given)), sorted(map(int, known))
    apart = {a - b for a, b in zip(first, second, strict=True)}
    return apart.pop() if len(apart) == 1 else 0


@dataclasses.dataclass
class Apart:
    """Predictions with another claim than the gold file has under their id.

    known: how many texts are known on both sides. other: the (id, text) that differ. moved: those
    of other gold claims, with the id of that claim (the nearest of several). message, remedy:
    where so many differ that ids or files must be wrong.
    """

    known: int
    other: list[tuple[str, str]]
    moved: dict[tuple[str, str], str]
    message: str = ""
    remedy: str = ""


def apart(given: Iterable[tuple[str, str]], claims: dict[str, str]) -> Apart:
    """How the claims of predictions, as (id, text), differ from the gold ones, {id: text}.

    Case, white space and punctuation don't count, nor what stands round the claim, or that it is
    cut off. Texts that are empty, or stand for one ("N/A", "Claim 7"), are not known.
    """
    names = {id: letters(text) for id, text in claims.items()}
    known = [(id, text) for id, text in given if names.get(id) and _tells(id, text)]
    other = [(id, text) for id, text in known if not _alike(letters(text), names[id])]
    found = Apart(len(known), other, _moved(other, names))
    # A text may be told anew, but that of another claim has a wrong id.
    wrong = len(found.moved) >= max(FEWEST_MOVED, MOVED * len(known))
    if wrong or (len(known) >= FEWEST and len(other) > MOST * len(known)):
        id, text = next(iter(found.moved)) if wrong else other[0]
        mine, theirs = differing(text, claims[id])
        found.message = (
            f"{len(other)} of {len(known)} predictions have another claim than the gold file has "
            f"under the same id, first id {id}: '{mine}' in the predictions, '{theirs}' in the "
            "gold file"
        )
        found.remedy = _remedy(found, [id for id, _ in known], list(claims), wrong)
    return found


def _tells(id: str, text: str) -> bool:
    """Whether a text is a claim's, and nothing that a table or a program writes for none."""
    return letters(text).removesuffix(letters(id)) not in NO_TEXT


def _alike(text: str, claim: str) -> bool:
    """Whether the letters of a text are those of a claim, its beginning, or have it inside."""
    if text == claim:
        return True
    return (len(claim) >= PART and claim in text) or (len(text) >= PART and claim.startswith(text))


def check_texts(predictions: Sequence[Prediction], gold: Sequence[Claim]) -> list[str]:
    """Notes on predictions that give another text for a claim than the gold file has under the
    same id; none where texts are alike or are not known on both sides.

    Raises ClaimflowError when nearly all of them differ, or some are those of other claims.
    """
    found = apart(((p.id, p.claim) for p in predictions), {c.id: c.text for c in gold})
    if found.message:
        raise ClaimflowError(f"{found.message}. {found.remedy}.")
    notes: list[str] = []
    told = [id for id, text in found.other if (id, text) not in found.moved]
    for what, ids in [
        ("is that of another gold claim, so that their id is wrong", [id for id, _ in found.moved]),
        ("has another text than the gold claim of the same id", told),
    ]:
        if ids:
            notes.append(
                f"Predictions whose claim {what} ({len(ids)} of {found.known}): {listed(ids)}."
            )
    return notes


def remarks(predictions: Sequence[Prediction], gold: Sequence[Claim], form: str) -> list[str]:
    """Notes on evidence that is not there, or can't be right, of the predictions that count."""
    first, _, _ = first_of_each(predictions, gold)
    predictions = [first[claim.id] for claim in gold if claim.id in first]
    if not predictions:
        return []
    notes: list[str] = []
    documents = {doc for claim in gold for known in claim.gold for doc, _ in known.items}
    if form == "SciFact" and all(map(str.isdecimal, documents)):
        note(
            notes,
            "Documents that can't be found, as their ids are no numbers",
            (
                f"claim {p.id}, '{f.doc}'"
                for p in predictions
                for f in p.findings
                if f.label and not f.doc.isdecimal()
            ),
        )
    if form == "SciFact" and not any(f.label for p in predictions for f in p.findings):
        notes.append("No prediction labels a document: all are without evidence (NEI).")
    if form == "FEVER":
        labels = [label for label in fever.LABELS if label != "NOT ENOUGH INFO"]
        found = [p for p in predictions if p.label in labels and not fever.sentences_of(p)]
        _count(notes, f"Predictions of {' or '.join(labels)} without evidence", found, predictions)
    if form == "AVeriTeC":
        found = [p for p in predictions if not any(e.question or e.answer for e in p.evidence)]
        _count(notes, "Predictions without evidence, which scores 0", found, predictions)
        if _copies_gold(predictions, gold, labels=False) and not _copies_gold(predictions, gold):
            notes.append(
                "The evidence is the gold evidence word for word, though labels are not: what is "
                "measured is how a system judges gold evidence."
            )
    return notes


def warnings(predictions: Sequence[Prediction], gold: Sequence[Claim], form: str) -> list[str]:
    """What makes every figure mean something else: that the predictions, or their labels, are those
    of the gold file."""
    said = {
        "SciFact": "name the gold documents with their gold labels and sentences and no others",
        "FEVER": "have the gold labels, and sentences of the gold sets and no others",
        "AVeriTeC": "have the gold label and the gold evidence word for word",
    }
    if is_gold(predictions, gold, form):
        return [f"The predictions {said[form]}: this is the gold file, or made from it."]
    known = {claim.id: claim.label.upper() for claim in gold if claim.label}
    right = [known[p.id] == p.label.upper() for p in predictions if p.id in known]
    if len(right) >= ALL_RIGHT and all(right):
        return [f"Every label is the gold label ({len(right)} claims): is it the gold file's?"]
    told = {claim.id: letters(claim.justification or "") for claim in gold}
    copied = [told.get(p.id) == letters(p.justification) for p in predictions if p.justification]
    if len(copied) >= ALL_RIGHT and _nearly_all(copied, len(copied)):
        return ["The justifications are the gold ones word for word: are they the gold file's?"]
    return []


def is_gold(predictions: Sequence[Prediction], gold: Sequence[Claim], form: str) -> bool:
    """Whether predictions are the gold claims, or made from them, but for one in twenty."""
    known = {"AVeriTeC": _copies_gold, "FEVER": _proves_gold, "SciFact": _names_gold}
    return known[form](predictions, gold)


def _copies_gold(
    predictions: Sequence[Prediction], gold: Sequence[Claim], labels: bool = True
) -> bool:
    """Whether predictions (AVeriTeC) have label and evidence of the gold claims; without `labels`,
    evidence alone. White space, case and punctuation don't count, nor repeats, what stands behind
    the first QAs and explanations of a yes or no: a repair or a conversion may have changed these.
    """
    from components.score.averitec import gold_strings, predicted_strings

    claims = {claim.id: claim for claim in gold if claim.label and claim.questions}

    def copied(prediction: Prediction) -> bool:
        claim = claims.get(prediction.id)
        if claim is None or (labels and prediction.label != claim.label):
            return False
        alone = [
            Question(question=q.question, answers=[Answer(answer=a.answer) for a in q.answers])
            for q in claim.questions
        ]
        bare = gold_strings(msgspec.structs.replace(claim, questions=alone))
        known = [{letters(a), letters(b)} for a, b in zip(gold_strings(claim), bare, strict=True)]
        said = set(map(letters, predicted_strings(prediction))) - {""}
        return said <= set().union(*known) and all(said & names for names in known[:FIRST])

    return _nearly_all(map(copied, predictions), len(predictions))


def _nearly_all(alike: Iterable[bool], of: int) -> bool:
    """Whether all but one in twenty are; asks no more than it takes to say no."""
    others = 0
    for same in alike:
        others += not same
        if others * 20 > of:
            return False
    return of > 0


FEW = 10  # claims of which a system may be right in everything


def _names_gold(predictions: Sequence[Prediction], gold: Sequence[Claim]) -> bool:
    """Whether predictions (SciFact) have documents, labels and sentences of the gold claims: of a
    document all that are gold, or those of one rationale."""
    claims: dict[str, dict[tuple[str, str], list[set[int | None]]]] = {}
    for claim in gold:
        known = claims.setdefault(claim.id, {})
        for rationale in claim.gold:
            for doc in {doc for doc, _ in rationale.items}:
                sentences = {n for of, n in rationale.items if of == doc}
                known.setdefault((doc, str(rationale.label)), []).append(sentences)

    def copied(prediction: Prediction) -> bool:
        known = claims[prediction.id]
        said = {(f.doc, f.label): set(f.sentences) for f in prediction.findings}
        return known.keys() == said.keys() and all(
            said[pair] in (*rationales, set().union(*rationales))
            for pair, rationales in known.items()
        )

    asked = [p for p in predictions if p.id in claims and (p.findings or claims[p.id])]
    return len(asked) >= FEW and _nearly_all(map(copied, asked), len(asked))


def _proves_gold(predictions: Sequence[Prediction], gold: Sequence[Claim]) -> bool:
    """Whether predictions (FEVER) have the labels of the gold claims, a whole gold set where these
    have evidence, and no sentence of none."""
    claims = {claim.id: claim for claim in gold if claim.label}

    def copied(prediction: Prediction) -> bool:
        claim = claims[prediction.id]
        sets = [set(known.items) for known in claim.gold]
        said = set(fever.sentences_of(prediction))
        whole = any(known <= said for known in sets) or not sets
        return prediction.label == claim.label and whole and said <= set().union(*sets)

    asked = [p for p in predictions if p.id in claims and (p.findings or claims[p.id].gold)]
    return len(asked) >= FEW and _nearly_all(map(copied, asked), len(asked))


def _count(
    notes: list[str], what: str, found: Sequence[Prediction], all: Sequence[Prediction]
) -> None:
    if found:
        notes.append(f"{what} ({len(found)} of {len(all)}): {listed(p.id for p in found)}.")


def _moved(other: Sequence[tuple[str, str]], names: dict[str, str]) -> dict[tuple[str, str], str]:
    """See `Apart`; names: the letters of each gold claim. Some claims stand there twice."""
    place = {id: n for n, id in enumerate(names)}
    homes: dict[str, list[str]] = {}
    for id, name in names.items():
        homes.setdefault(name, []).append(id)
    return {
        (given, text): min(homes[letters(text)], key=lambda id: abs(place[id] - place[given]))
        for given, text in other
        if letters(text) in homes
    }


def _remedy(found: Apart, known: Sequence[str], ids: Sequence[str], wrong: bool) -> str:
    """What to do: renumber where ids are shifted, else give the right gold file. known: ids whose
    texts are known; ids: of the gold claims; wrong: it is for their ids that they are refused."""
    if since := _moved_since(found.moved, known, ids):
        return since
    shifts = collections.Counter(
        int(id) - int(given)
        for (given, _), id in found.moved.items()
        if id.isdecimal() and given.isdecimal()
    )
    shift, count = shifts.most_common(1)[0] if shifts else (0, 0)
    if count > MOST * len(found.other):
        more = f"{abs(shift)} {'more' if shift > 0 else 'less'}"
        return f"The ids are shifted: of {count} of them the gold id is {more}. Renumber them"
    if wrong:
        some = "" if len(found.moved) > MOST * len(found.other) else f"{len(found.moved)} of "
        who = f"{some}the claims".capitalize()
        return f"{who} are there under other ids: give each prediction the id of its claim"
    return (
        "Give the gold file that these predictions were made for. If it is this one, and they tell "
        "the claims in other words, leave their texts out: claims are told by their ids"
    )


def _moved_since(
    moved: dict[tuple[str, str], str], known: Sequence[str], ids: Sequence[str]
) -> str | None:
    """What happened where all is right up to some claim, and from there on moved."""
    place = {id: n for n, id in enumerate(ids)}
    by = {place[given]: place[id] - place[given] for (given, _), id in moved.items()}
    first = min(by, default=0)
    behind = [id for id in known if place[id] >= first]
    if len(by) <= MOST * len(behind) or len(behind) == len(known):
        return None
    far = list(by.values())
    ways = {
        "the next claim: one is missing, and those behind it moved up": [n == 1 for n in far],
        "a later claim: some are missing, and those behind them moved up": [n > 0 for n in far],
        "the claim before: one is too many, and those behind it moved down": [n == -1 for n in far],
        "an earlier claim: some are too many, and those behind moved down": [n < 0 for n in far],
    }
    for what, fits in ways.items():
        if sum(fits) > MOST * len(far):
            return (
                f"From claim {ids[first]} on, predictions carry the text of {what}. Write the ids "
                "of the data set"
            )
    return None


def letters(text: str) -> str:
    """The letters and figures of a text, by which claims are compared."""
    return "".join(c for c in normalised(text) if c.isalnum())


def differing(one: str, other: str) -> tuple[str, str]:
    """Two texts for a message, cut so that the first word in which they differ is seen."""
    words = one.split(), other.split()
    pairs = zip(*words, strict=False)
    alike = list(itertools.takewhile(lambda pair: letters(pair[0]) == letters(pair[1]), pairs))
    far = len(" ".join(word for word, _ in alike)) > SHOWN // 2
    start = max(0, len(alike) - 3) if far else 0
    return _short(words[0], start), _short(words[1], start)


def _short(words: list[str], start: int) -> str:
    text = "… " * bool(start) + " ".join(words[start:])
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}…"
