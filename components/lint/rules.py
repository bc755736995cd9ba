"""The rules of the linter, and the limits that they name."""

from __future__ import annotations

from components.datasets.fever import FIRST as FEVER_FIRST
from components.datasets.submission import FIRST
from components.score.scifact import FIRST as SCIFACT_FIRST

LARGEST = 250 * 2**20  # bytes; portals refused 270 MB

RULES = {
    "gold": "Nothing of the gold file stands in it, and it is not the gold file.",
    "json": "The file is one JSON list, or JSON lines, to its end; no object has a key twice.",
    "encoding": "The file is UTF-8 without byte order mark, lone surrogates or NUL characters.",
    "size": f"The file has at most {LARGEST // 2**20} MB; portals refused 270 MB.",
    "scraped-text": "No page texts: nothing scores them, and they make the file large.",
    "claim": "Claims stand under their own ids.",
    "schema": "Records have the keys, cells and types that the evaluator reads.",
    "nan": "No NaN, and no cell that pandas reads as missing (empty, NA, None).",
    "id": "Each claim stands once, in order; ids run from 0 without gap.",
    "label": "Labels are spelt as in the data set.",
    "delimiter": "In a CSV, TAB TAB NEWLINE parts question and answer; texts have neither.",
    "no-evidence": "Each claim has evidence; without, it scores 0.",
    "empty-qa": "Questions and answers have text.",
    "long-evidence": "Answers are no longer than a passage.",
    "many-qas": f"At most {FIRST} QAs; the others don't count.",
    "repeated-qa": "No QA stands twice: repeats raise Hungarian METEOR, a known flaw.",
    "repeated-question": "No question stands twice, with another answer.",
    "boolean": "A yes or no comes with its explanation, as in gold answers.",
    "late-evidence": "No page dated after the claim.",
    "fact-check": "No fact-checking site, and not the claim's own fact-check.",
    "rank": "Ranks run from 1 over all claims of a system; average precision goes down them.",
}
_FACTS = {
    "json": "The file is JSON lines, without blank ones, to its end; no object has a key twice.",
    "nan": "No NaN, and no label that is read as missing (NA, None).",
    "id": "Each claim of the gold file stands once, in its order, under its id.",
    "repeated-qa": "No sentence stands twice: each time it counts again.",
}
_TEXTS = {
    "many-qas": f"At most {FIRST} texts; the others don't count.",
    "repeated-qa": "No text stands twice: repeats raise Hungarian METEOR, a known flaw.",
    "empty-qa": "Evidence has text.",
}
FORM_RULES = {  # where a rule means something else in a form
    "FEVER": _FACTS
    | {
        "no-evidence": "A claim that is not NOT ENOUGH INFO has evidence; without, it scores 0.",
        "many-qas": f"At most {FEVER_FIRST} sentences; the others don't count.",
    },
    "SciFact": _FACTS
    | {
        "many-qas": f"The best sentences of a document stand first: abstract_rationalized looks at "
        f"the first {SCIFACT_FIRST}, or more where the shortest gold rationale has more; "
        "sentence_selection and sentence_label count all.",
    },
    "SciFact-Open": {
        "nan": "No label is read as missing; a system's documents all have a rank and "
        "probabilities, or none has.",
        "id": "Each document of a claim stands once for a system; ids are numbers.",
    },
    "first EvalAI": _TEXTS,
}
WARNINGS = {"scraped-text", "no-evidence", "empty-qa", "long-evidence", "many-qas", "repeated-qa"}
WARNINGS |= {"repeated-question", "late-evidence", "fact-check", "gold", "rank"}


def about(rule: str, form: str) -> str:
    """The rule in words, as it is in a form; in all, where records have several."""
    forms = form.split(" and ")
    said = {one: FORM_RULES.get(one, {}).get(rule, RULES[rule]) for one in forms}
    if len(set(said.values())) == 1:
        return said[forms[0]]
    return " ".join(f"{one}: {text}" for one, text in said.items())
