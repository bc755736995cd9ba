"""Which form a JSON record of a submission has: AVeriTeC's (2024, first script, first EvalAI, run),
FEVER's or SciFact's.

Labels may be wrong, so that evidence tells. A record without any, or with texts and a label of
FEVER, may have several forms: the others of its file tell, and the gold file where these don't.
"""

from __future__ import annotations

import collections
import functools
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from components.datasets import fever, scifact
from components.datasets.label_keys import (
    Labels,
    SeveralLabelsError,
    calls_gold,
    gold_keys,
    holds_label,
    is_label,
    label_key,
)
from components.errors import ClaimflowError
from components.records import AVERITEC_LABELS, Claim, layout_of, outline, read_lines

FACTS = ("FEVER", "SciFact")  # whose evidence is documents
# Keys that say of a label that it is the prediction, in the forms whose evaluators read them
_PREDICTED = {"2024": "pred_label", "FEVER": "predicted_label"}


class Forms:
    """The forms of the records of a file. It is read another time if some record needs that."""

    def __init__(self, path: Path, claims: Iterable[Claim] | None = None) -> None:
        self._path = path
        self._claims = list(claims or ())
        self._of_fever = any(claim.label in fever.LABELS for claim in self._claims)
        self._usual: list[str] | None = None
        self._rivals: dict[str, list[str]] = {}  # by form

    def of(self, raw: dict[str, Any]) -> str:
        """The form of a record. Raises ClaimflowError for none."""
        raw = _spelt(raw)
        if self._of_fever and _is_text(raw):
            return "FEVER"
        if _tells(raw):
            return form_of(raw)
        if self._usual is None:
            self._usual = list(self._count())
        possible = _possible(raw)
        usual = next((form for form in self._usual if form in possible), None)
        return usual or form_of(raw)

    def check(self, raw: dict[str, Any], form: str) -> None:
        """Raise SeveralLabelsError for a record with a label, where those of its file hold labels
        under several keys and none of its own says that it is the prediction. It is the file that
        decides: where a system has no label for a claim, the gold one may stand there alone."""
        due = _PREDICTED.get(form, "label")
        if form in _PREDICTED and due in raw:
            return
        holders = _labelled(raw, form)
        keys = {k for holder in holders for k, v in holder.items() if holds_label(k, v)}
        keys.discard("justification")
        if keys <= {due}:
            return
        if form not in self._rivals:
            labels = Labels()
            for _, other in read_lines(self._path, Any, "mend", []):
                for holder in _labelled(other, form) if isinstance(other, dict) else ():
                    labels.add(holder)
            self._rivals[form] = labels.rivals()
        if keys & set(self._rivals[form]):
            raise SeveralLabelsError(self._path, self._rivals[form], due, form)

    def _count(self) -> Iterator[str]:
        """The forms of the file, by how many records tell that they have it, the most first. If
        none does: what suits the gold file, then what most records have by their labels."""
        told: collections.Counter[str] = collections.Counter()
        guessed: collections.Counter[str] = collections.Counter()
        for _, raw in read_lines(self._path, Any, "mend", []):
            try:
                if isinstance(raw, dict):
                    raw = _spelt(raw)
                    (told if _tells(raw) else guessed)[form_of(raw)] += 1
            except ClaimflowError:
                continue
        yield from (form for form, _ in told.most_common())
        if told:
            return
        forms = [form for form, _ in guessed.most_common()]
        labels = {claim.label for claim in self._claims}
        if labels & set(fever.LABELS):
            yield "FEVER"
        elif labels & set(AVERITEC_LABELS):
            yield from (form for form in forms if form not in FACTS)
            yield "first EvalAI"
        elif any(found.label in scifact.LABELS for c in self._claims for found in c.gold):
            yield "SciFact"
        yield from forms


def form_of(raw: dict[str, Any]) -> str:
    """The form that a record has by itself, under what names ever (see `misnamed`); by its label
    where it has no evidence. Raises ClaimflowError for none."""
    if _is_row(raw):
        raise ClaimflowError(
            "this is a row of a table of systems (SciFact-Open), which is read as Parquet: save it "
            "as that"
        )
    kinds, evidence = _kinds(raw), raw.get("evidence")
    if layout := layout_of(raw):
        raise ClaimflowError(f"one JSON object, where a list of records is due; {layout}")
    if isinstance(evidence, dict) and "pred_label" not in raw:  # that is AVeriTeC's
        return "SciFact"
    if label_key(raw) is None and scifact.is_listed(evidence):
        return "SciFact"
    if {"predicted_label", "predicted_evidence"} & raw.keys():
        averitec = kinds or raw.get("predicted_label") in AVERITEC_LABELS or "pred_label" in raw
        texts = _is_text(raw) and _is_fevers(raw.get("predicted_label"))
        if list in kinds or texts or not averitec:
            return "FEVER"
    if _is_fever(raw) or _has_sentences(raw):
        return "FEVER"
    if _is_2024(raw):
        return "2024"
    if "questions" in raw or "string_evidence" in raw:
        return "first script"
    if _lacks_label(raw):
        return "FEVER" if list in kinds else "2024"
    if _of(evidence, list):
        raise ClaimflowError(
            "its evidence is in lists of lists, as in FEVER's gold file; a prediction has "
            "predicted_label and predicted_evidence"
        )
    if _of(evidence, str) or {"predicted_label", "predicted_evidence"} & raw.keys():
        return "first EvalAI"
    if "label" in raw and "id" in raw:  # a run's record always has its claim
        return "run" if "claim" in raw or evidence != [] else "first EvalAI"
    if _is_bare(raw):
        raise ClaimflowError(
            f"its evidence is {scifact.lacking(raw)}: in SciFact that is an object of documents, "
            "{} for none; in AVeriTeC a label stands beside it, in pred_label (2024) or in label "
            "(before)"
        )
    if "label" in raw and _of(evidence, dict):
        raise ClaimflowError(
            "it has no id, which a record with a label and QAs in evidence has, as in a run's "
            "predictions.jsonl"
        )
    if gold := gold_keys(raw):
        raise ClaimflowError(
            f"its only label is '{gold[0]}', the gold one by that name: the prediction stands in "
            "pred_label"
        )
    raise ClaimflowError(
        "this is no prediction: its label must stand in pred_label (2024), or in label beside "
        f"questions, string_evidence or evidence (before); {outline(raw, alone=False)}"
    )


def several(found: dict[str, list[int]]) -> str | None:
    """What is to be said where records have several forms; found: the lines of each form."""
    if len(found) < 2:
        return None
    counts = [f"{form} ({len(at)}, first in line {at[0]})" for form, at in found.items()]
    return f"records of several forms: {', '.join(counts)}"


def misnamed(raw: dict[str, Any], form: str) -> dict[str, str]:
    """{key: the one that is due} for a record whose keys are spelt otherwise than in its form
    (claimId), or for one of 2024, FEVER or SciFact whose label, evidence or id is called otherwise
    there."""
    spelt = _spellings(raw)
    due = _called_otherwise(_spelt(raw), form)
    names = {key: due.pop(name, name) for key, name in spelt.items()}
    return {key: name for key, name in names.items() if name in _READ[form]} | due


def _spelt(raw: dict[str, Any]) -> dict[str, Any]:
    """The record with its keys as the forms spell them."""
    names = _spellings(raw)
    return {names.get(key, key): value for key, value in raw.items()} if names else raw


def _spellings(raw: dict[str, Any]) -> dict[str, str]:
    """{key: the name of which it is another spelling} for what a record has under no name that a
    form reads, where one key alone is such."""
    if raw.keys() <= _NAMES:
        return {}
    meant = {key: _meant(key) for key in raw if key not in _NAMES}
    counts = collections.Counter(meant.values())
    has = raw.keys() | (_IDS if _IDS & raw.keys() else set())
    return {
        key: name for key, name in meant.items() if name and counts[name] == 1 and name not in has
    }


@functools.lru_cache(1000)
def _meant(key: str) -> str | None:
    """The name of which a key is another spelling, such as claimId or Claim Id."""
    return _SPELLINGS.get(_letters(key))


def _letters(key: str) -> str:
    return re.sub(r"[\W_]", "", key).casefold()


_IDS = {"id", "claim_id"}
_READ = {
    "2024": {"claim_id", "claim", "pred_label", "evidence", "string_evidence"},
    "first script": {"claim_id", "id", "claim", "label", "questions", "string_evidence"},
    "first EvalAI": {"claim_id", "id", "claim", "label", "evidence"},
    "run": {"id", "claim", "label", "evidence"},
    "FEVER": {"id", "predicted_label", "predicted_evidence"},
    "SciFact": {"id", "evidence"},
}
_READ["first EvalAI"] |= _READ["FEVER"]
_NAMES: set[str] = set().union(*_READ.values())
_SPELLINGS = {_letters(name): name for name in sorted(_NAMES)}


def _called_otherwise(raw: dict[str, Any], form: str) -> dict[str, str]:
    due: dict[str, str] = {}
    if form == "2024" and not {"questions", "string_evidence"} & raw.keys():
        if _of(raw.get("evidence"), str):
            return {}
        label = label_key(raw)
        if "pred_label" not in raw and label is not None:
            due[label] = "pred_label"
        if "predicted_evidence" in raw and "evidence" not in raw:
            due["predicted_evidence"] = "evidence"
        if "claim_id" not in raw and raw.get("id") is not None:
            due["id"] = "claim_id"
    elif form == "FEVER":
        named = next((key for key in ("pred_evidence", "evidence") if key in raw), "evidence")
        items = raw.get(named)
        said = items if isinstance(items, list) else []
        renamed = named in raw and "predicted_evidence" not in raw
        renamed = renamed and all(is_sentence(x) or isinstance(x, str) for x in said)
        given = [key for key in _VERDICTS if isinstance(raw.get(key), str)]
        others = (key for key, value in raw.items() if is_label(value) and not calls_gold(key))
        given += [key for key in others if key not in given]
        # Beside other fields of the gold file, its label is that of the gold file too.
        own = "evidence" in raw and not (renamed and named == "evidence")
        golds = "verifiable" in raw or own
        if given and "predicted_label" not in raw and not (given == ["label"] and golds):
            due[given[0]] = "predicted_label"
        if renamed:
            due[named] = "predicted_evidence"
    if form in FACTS and raw.get("claim_id") is not None and raw.get("id") is None:
        due["claim_id"] = "id"
    return due


_VERDICTS = ("pred_label", "prediction", "verdict", "label")  # of FEVER under other names


def _tells(raw: dict[str, Any]) -> bool:
    """Whether a record alone tells its form: by its evidence, or by keys that only one has."""
    if layout_of(raw):
        return True
    if _is_bare(raw):
        return False
    if _is_text(raw) and _is_fevers(raw.get("predicted_label", raw.get("label"))):
        return False
    if _is_row(raw):
        return True
    if _lacks_label(raw) and dict in _kinds(raw):
        return False
    if _kinds(raw) or {"questions", "string_evidence", "findings"} & raw.keys():
        return True
    if isinstance(raw.get("evidence"), dict) and raw["evidence"]:
        return True
    if "pred_label" in raw and "predicted_evidence" not in raw:
        return not _is_fevers(raw["pred_label"])
    if any(map(_is_fevers, raw.values())):
        return False
    return raw.keys().isdisjoint(("label", "predicted_label", "predicted_evidence"))


def _possible(raw: dict[str, Any]) -> set[str]:
    """The forms that a record which does not tell may have, under what names ever."""
    if _is_bare(raw):
        return {"SciFact"}
    if _is_text(raw):
        return {"first EvalAI", "FEVER"}
    if _lacks_label(raw):
        return {"2024", "run"} if {"id", "claim"} <= raw.keys() else {"2024"}
    forms = {"first EvalAI"}
    if not {"pred_label", "label", "predicted_label"}.isdisjoint(raw):
        forms.add("2024")
    if {"id", "claim_id"} & raw.keys():
        forms.add("FEVER")
        forms |= {"SciFact"} if isinstance(raw.get("evidence"), dict) else set()
    if "label" in raw and not {"predicted_label", "predicted_evidence"} & raw.keys():
        forms |= {"first script", "run"} if "id" in raw and "claim" in raw else {"first script"}
    return forms


def _is_bare(raw: dict[str, Any]) -> bool:
    """Whether it has neither a label nor evidence: only SciFact has such records, and there an
    object stands for none."""
    if label_key(raw) is not None or isinstance(raw.get("evidence"), dict):
        return False
    if any(map(is_label, raw.values())):
        return False
    if {"pred_label", "predicted_evidence", "questions", "string_evidence"} & raw.keys():
        return False
    said = "evidence" in raw or raw.keys() <= {"id", "claim"}
    return bool(raw) and said and not raw.get("evidence")


def _lacks_label(raw: dict[str, Any]) -> bool:
    """Whether it has an id and evidence, QAs or [page, line], and no label under any name."""
    items = raw.get("evidence")
    if not isinstance(items, list) or not items or raw.keys().isdisjoint(("id", "claim_id")):
        return False
    if label_key(raw) is not None or "pred_label" in raw or gold_keys(raw):
        return False
    return all(map(is_sentence, items)) or all(map(_is_qa, items))


def _is_qa(item: Any) -> bool:
    return isinstance(item, dict) and not item.keys().isdisjoint(("question", "answer"))


def _is_2024(raw: dict[str, Any]) -> bool:
    """Whether it is a record of 2024, but for what its label and its id may be called."""
    if "pred_label" in raw:
        return True
    if {"questions", "string_evidence"} & raw.keys() or _of(raw.get("evidence"), str):
        return False
    own = "claim_id" in raw or _of(raw.get("predicted_evidence"), dict)
    own = own or ("label" not in raw and _of(raw.get("evidence"), dict))
    return own and label_key(raw) is not None


def _labelled(raw: dict[str, Any], form: str) -> list[dict[str, Any]]:
    """What has a label in a record: itself, but in SciFact its documents."""
    if form != "SciFact":
        return [raw]
    found = raw.get("evidence")
    items = found.values() if isinstance(found, dict) else found if isinstance(found, list) else ()
    return [item for item in items if isinstance(item, dict)]


def _is_row(raw: dict[str, Any]) -> bool:
    """Whether it is a row of the table of SciFact-Open."""
    return {"model", "doc_id"} <= raw.keys()


def _has_sentences(raw: dict[str, Any]) -> bool:
    """Whether it has a label, and lists of [page, line], which only FEVER has."""
    lists = (raw.get(key) for key in ("pred_evidence", "evidence"))
    found = (items for items in lists if isinstance(items, list) and items)
    if not any(all(map(is_sentence, items)) for items in found):
        return False
    return any(holds_label(key, v) and not calls_gold(key) for key, v in raw.items())


def _is_fever(raw: dict[str, Any]) -> bool:
    """Whether it is a prediction of FEVER but for the names of its label and evidence."""
    items = raw.get("evidence")
    if "label" not in raw or "id" not in raw or not isinstance(items, list):
        return False
    if {"predicted_label", "predicted_evidence", "pred_label"} & raw.keys():
        return False
    if not items:  # a run's record always has its claim
        return raw["label"] in fever.LABELS and "claim" not in raw
    return all(map(is_sentence, items))


def _is_text(raw: dict[str, Any]) -> bool:
    """Whether its evidence is texts: AVeriTeC's of the first EvalAI, or FEVER's gone wrong."""
    others = {"pred_label", "questions", "string_evidence"}
    named = bool({"id", "claim_id"} & raw.keys())
    return named and others.isdisjoint(raw) and _kinds(raw) == {str}


def _is_fevers(label: Any) -> bool:
    return isinstance(label, str) and len(label) < 20 and label.upper() in fever.LABELS


def is_sentence(item: Any) -> bool:
    """Whether it is [page, line], the line as a number or as a text of one."""
    if not isinstance(item, list) or len(item) != 2 or not isinstance(item[0], str):
        return False
    line = item[1]
    if isinstance(line, float):
        return line.is_integer()
    return type(line) is int or (isinstance(line, str) and line.strip().isdecimal())


def _kinds(raw: dict[str, Any]) -> set[type]:
    """What evidence consists of, where that tells forms apart; nothing for none."""
    for key, telling in (
        ("predicted_evidence", {list, str}),
        ("pred_evidence", {list}),
        ("evidence", {list, str, dict}),
    ):
        items = raw.get(key)
        if isinstance(items, list) and (kinds := set(map(type, items)) & telling):
            return kinds
    return set()


def _of(items: Any, kind: type) -> bool:
    """Whether there is a list with something of a kind in it."""
    return isinstance(items, list) and any(isinstance(item, kind) for item in items)
