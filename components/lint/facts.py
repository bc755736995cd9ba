"""The forms of FEVER and SciFact: document evidence."""

from __future__ import annotations

import json
from typing import Any

from components.datasets.fever import FIRST as FEVER_FIRST
from components.datasets.fever import LABELS as FEVER_LABELS
from components.datasets.fever import escaped
from components.datasets.forms import is_sentence
from components.datasets.scifact import LABELS as SCIFACT_LABELS
from components.datasets.scifact import LISTED, is_listed, lacking, means_nei, misplaced
from components.datasets.submission import said_elsewhere, unread, whole_number
from components.lint.linter import GOLD_SCIFACT, Linter, kind_of
from components.lint.report import cut
from components.score.scifact import FIRST as SCIFACT_FIRST


def fever(linter: Linter, raw: dict[str, Any], position: int) -> None:
    """A record of FEVER: a label and lists of [page, line]."""
    linter.numbered = False
    raw["id"] = linter.name(raw["id"], texts=True)
    own = [key for key in ("label", "evidence", "verifiable") if key in raw]
    # Without predicted_… it may be all that the system says: only its writer knows. So may
    # sentences, which the gold file does not have in this form, where it predicts none.
    clear = all(key == "verifiable" or raw.get(f"predicted_{key}") is not None for key in own)
    said = None if raw.get("predicted_evidence") else raw.get("evidence")
    clear = clear and not (isinstance(said, list) and said and all(map(is_sentence, said)))
    for key in own:
        message = f"its own '{key}', by which the official scorer goes if it gets no gold file"
        remedy = "Leave it out" if clear else "Leave it out, or call it predicted_…"
        linter.find("gold", message, remedy, clear, "warning" if clear else "error", "Deleted")
        if clear:
            del raw[key]
    label = raw.get("predicted_label")
    if isinstance(label, str) and label.upper() in FEVER_LABELS:  # as the scorer compares
        label = label.upper()
        linter.label(label, FEVER_LABELS)  # counts it where it is right
    else:
        label = linter.label(label, FEVER_LABELS)
        if "predicted_label" in raw:
            raw["predicted_label"] = label
    items = raw.get("predicted_evidence")
    if keys := unread(raw, "predicted_evidence"):
        remedy = "Write it under predicted_evidence, as lists of [page, line], or there [] for none"
        linter.find("schema", said_elsewhere("predicted_evidence", keys), remedy)
        return
    if items is None:
        linter.find("schema", "predicted_evidence is no list", "Write [] for none", True)
        items = raw["predicted_evidence"] = []
    elif not isinstance(items, list):  # what it was meant to say, nobody knows
        linter.find("schema", "predicted_evidence is no list", "Write lists of [page, line]")
        return
    # Each of the first ones keeps its place, repeats and what is no sentence too: one from
    # behind would count that did not, and a miss less raises precision.
    first = items[:FEVER_FIRST]
    claim = (linter.claims or {}).get(linter.record or "")
    gold_sets = claim.gold if claim else []
    gold_pages = {page for known in gold_sets for page, _ in known.items}
    gold_pages |= {name for known in gold_sets for name in known.spelt.values()}
    for n, item in enumerate(items):
        line = whole_number(item[1]) if _is_pair(item) else None
        if line is not None and type(item[1]) is not int:
            message = f"{cut(json.dumps(item))} has its line as {_WRITTEN[type(item[1])]}"
            linter.find("schema", message, "Write a whole number", True)
            item[1] = line
        if line is None:
            message = f"{cut(json.dumps(item))} is no [page, line]"
            behind = n >= FEVER_FIRST
            linter.find("schema", message, 'Write it as ["Page_title", 0]', behind, done="Deleted")
            continue
        page = escaped(item[0])
        if page != item[0] and item[0] not in gold_pages:
            message = f"page '{cut(item[0])}' is '{cut(page)}' in FEVER, and else is missed"
            linter.find("schema", message, f"Write {cut(page)}", True, "warning")
            item[0] = page
        if n < FEVER_FIRST and item in first[:n]:
            linter.find("repeated-qa", f"{item} again, which counts again", "Name it once")
    if len(items) > FEVER_FIRST:
        message = f"{len(items)} sentences, of which {FEVER_FIRST} count"
        done = f"Deleted behind the first {FEVER_FIRST}"
        linter.find("many-qas", message, f"Keep the best {FEVER_FIRST}", True, done=done)
    if not items and label != "NOT ENOUGH INFO":
        linter.find("no-evidence", "no evidence", "Give a sentence")
    raw["predicted_evidence"] = first


def scifact(linter: Linter, raw: dict[str, Any], position: int) -> None:
    """A record of SciFact: label and sentences by document."""
    linter.numbered = False
    raw["id"] = linter.name(raw["id"], "error")  # pairs only with numbers
    if is_listed(raw.get("evidence")):
        docs = [whole_number(item.get("doc_id")) for item in raw["evidence"]]
        clear = None not in docs and len(set(docs)) == len(docs)
        linter.find("schema", LISTED, "Write each document once, under its id", clear)
        if not clear:  # which document each is of, only its writer knows
            return
        raw["evidence"] = {
            str(doc): {key: item[key] for key in item if key != "doc_id"}
            for doc, item in zip(docs, raw["evidence"], strict=True)
        }
    if not isinstance(raw.get("evidence"), dict):  # that has nothing in it, see Forms
        message = f"its evidence is {lacking(raw)}, where an object of documents stands"
        linter.find("schema", message, "Write {} for none", True)
        raw["evidence"] = {}
    kept = {}
    in_gold: set[str] = set()
    for doc, item in raw["evidence"].items():
        if not isinstance(item, dict):  # left as it is: what it was meant to say, nobody knows
            message = f"document {doc} has {kind_of(item)}, where label and sentences stand"
            linter.find("schema", message, "Write one object for a document")
            kept[doc] = item
            if isinstance(item, list) and item and all(map(_is_rationale, item)):
                in_gold.add("evidence in lists")
            continue
        in_gold |= GOLD_SCIFACT & item.keys()
        if means_nei(str(item.get("label"))):
            linter.find(
                "schema",
                f"document {doc} without verdict",
                "Leave it out",
                True,
                done="Deleted",
            )
            continue
        elsewhere = misplaced(item)
        if item.get("sentences") is None and not elsewhere:
            message = f"document {doc} has no sentences, not even []"
            linter.find("schema", message, "Write [] for none", True)
            item["sentences"] = []
        sentences = item.get("sentences")
        written = sentences if isinstance(sentences, list) else [sentences]
        numbers = list(map(whole_number, written))
        if json.dumps(numbers) != json.dumps(sentences) and None not in numbers:
            message = f"document {doc} has sentences {cut(json.dumps(sentences))}"
            linter.find("schema", message, "Write a list of whole numbers", True)
            item["sentences"] = sentences = numbers
        if not doc.isdecimal():
            linter.find("schema", f"'{doc}' is no document id", "Use those of the corpus")
        if elsewhere:
            message = f"document {doc} has {elsewhere}"
            linter.find("schema", message, "Write them under sentences, numbers from 0")
        elif not isinstance(sentences, list) or not all(type(n) is int for n in sentences):
            message = f"document {doc} has {cut(json.dumps(sentences))} for sentences"
            linter.find("schema", message, "Write a list of their numbers, from 0; [] for none")
        elif min(sentences, default=0) < 0:
            message = f"document {doc} has no sentence {min(sentences)}"
            linter.find("schema", message, "Write numbers from 0")
        else:
            if len(sentences) > SCIFACT_FIRST:
                message = (
                    f"{len(sentences)} sentences of {doc}: abstract_rationalized looks at the "
                    f"first {SCIFACT_FIRST} (more where the shortest gold rationale has more), "
                    "sentence_selection and sentence_label at all"
                )
                linter.find("many-qas", message, "Put the best first")
            if len(sentences) > len(set(sentences)):
                message = f"a sentence of {doc} again, which counts again"
                linter.find("repeated-qa", message, "Name it once")
        kept[doc] = item | {"label": linter.label(item.get("label"), SCIFACT_LABELS)}
    raw["evidence"] = kept
    for name in sorted(in_gold):
        linter.gold_fields[name] = linter.gold_fields.get(name, 0) + 1


def _is_rationale(item: Any) -> bool:
    """Whether it is one of a document's rationales in SciFact's gold file."""
    return isinstance(item, dict) and {"sentences", "label"} <= item.keys()


def _is_pair(item: Any) -> bool:
    """Whether it is [page, something]."""
    return isinstance(item, list) and len(item) == 2 and isinstance(item[0], str)


_WRITTEN = {str: "a text", float: "a number with a point"}
