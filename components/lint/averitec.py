"""The forms of AVeriTeC: 2024, the first script's, the first portal's, a run's and the cell of
2025's CSV.

What can't be read stays as it is, with an error: what it was meant to say, only its writer knows.
"""

from __future__ import annotations

import ast
import json
import math
import re
from typing import Any

from components.datasets.label_keys import gold_keys
from components.datasets.submission import (
    INNER,
    NO_ANSWER,
    OUTER,
    line_feeds,
    said_elsewhere,
    unread,
)
from components.lint.linter import ANNOTATED, MISSING, Linter, Qa, kind_of
from components.lint.report import cut

# Fields of the data set that no submission has; the form of 2024 has neither label nor questions.
GOLD = {"fact_checking_article", "fact_checking_strategies", "claim_types"}
GOLD_2024 = GOLD | {"label", "questions"}


def task(linter: Linter, raw: dict[str, Any], position: int) -> None:
    """A record of 2024."""
    fields = GOLD_2024.union(gold_keys(raw))
    linter.count_gold(raw, fields.difference(unread(raw, "evidence")))
    if raw.get("claim_id") is None:
        linter.place(position)
        linter.find("id", "no claim_id", "Give the id of the claim")
    else:
        raw["claim_id"] = linter.name(raw["claim_id"], "warning")
    raw["pred_label"] = linter.label(raw.get("pred_label"))
    raw["claim"] = raw.get("claim") or ""
    linter.text_at(raw, "claim")
    if _elsewhere(linter, raw, "evidence"):
        return
    if _strange(linter, raw, "evidence", ("question", "answer")):
        return
    beside = _beside(linter, raw)
    evidence = _evidence(linter, raw.get("evidence"))
    strings = _strings(linter, raw["string_evidence"]) if "string_evidence" in raw else []
    linter.qas([qa for qa, _ in (*evidence, *strings)], beside)
    raw["evidence"] = _left(evidence)
    if "string_evidence" in raw:
        raw["string_evidence"] = _left(strings)


def _elsewhere(linter: Linter, holder: dict[str, Any], due: str) -> bool:
    """Whether what is due stands under a key that no evaluator reads, and stays there: only what is
    meant beyond doubt gets its own."""
    keys = unread(holder, due)
    if not keys:
        return False
    meant = _meant(due, keys[0], holder) if len(keys) == 1 else None
    remedy = f"Write it under {due}, {_DUE[due]}, or there that there is none"
    linter.find("schema", said_elsewhere(due, keys), remedy, meant is not None)
    if meant is not None:
        del holder[keys[0]]
        holder |= meant
    return meant is None


def _beside(linter: Linter, raw: dict[str, Any]) -> list[str]:
    """Note a record with [] for evidence, and its other keys with QAs, which it gives: one alone
    may well have no evidence, but not all."""
    if raw.get("evidence") != [] or raw.get("string_evidence"):
        return []
    linter.without += 1
    lists = {key: value for key, value in raw.items() if value and isinstance(value, list)}
    found = [key for key, value in lists.items() if all(map(_is_qa, value))]
    linter.beside.update(found)  # `questions` are the gold file's, and may be no predictions
    return [key for key in lists if key in found or key == "questions"]


_DUE = {
    "evidence": "as a list of objects with question, answer and url",
    "questions": "as a list of objects with question and answers",
    "answers": 'as a list of {"answer": …}',
    "question": "as one text",
    "answer": "as one text, in a QA for each",
}


def _meant(due: str, key: str, holder: dict[str, Any]) -> dict[str, Any] | None:
    """What to write for the value under another key, with what is due among it; None where that may
    be several things."""
    value = holder[key]
    if due == "evidence":
        return {due: value} if isinstance(value, list) and all(map(_is_qa, value)) else None
    if (due, key) == ("answers", "answer") and isinstance(value, str):
        return {due: [{"answer": value}]}
    if (due, key) == ("answer", "answers") and isinstance(value, list) and len(value) == 1:
        return _only(value[0], holder)
    return {due: value} if key.casefold() == due and isinstance(value, str) else None


def _only(answer: Any, holder: dict[str, Any]) -> dict[str, Any] | None:
    """The only answer of a QA as its own fields; of one as the data set has it, its source is the
    url. None where the QA says something else there, or the answer has an explanation, which no
    field of a QA is for."""
    given = answer if isinstance(answer, dict) else {"answer": answer}
    said = {"url" if key == "source_url" else key: value for key, value in given.items()}
    clear = isinstance(said.get("answer"), str) and not said.get("boolean_explanation")
    apart = all(not holder.get(key) or holder[key] == said[key] for key in said)
    return said if clear and apart else None


def _is_qa(item: Any) -> bool:
    return isinstance(item, dict) and all(
        isinstance(item.get(key), str) for key in ("question", "answer")
    )


def _unpacked(text: Any) -> Any:
    """The object, or the list of objects, that a text holds as JSON or as Python prints it; None
    for no such text."""
    for read in (json.loads, ast.literal_eval) if _is_packed(text) else ():
        try:
            found = read(text.strip())
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            continue
        if all(isinstance(item, dict) for item in (found if isinstance(found, list) else [found])):
            return found
    return None


def _is_packed(text: Any) -> bool:
    return isinstance(text, str) and _PACKED.match(text) is not None


_PACKED = re.compile(r"\s*(\[\s*)?\{|\s*\[\s*\]\s*$")


def _strange(linter: Linter, raw: dict[str, Any], what: str, keys: tuple[str, str]) -> bool:
    """Whether an object without the keys of a QA stands where a list of QAs should, and stays
    there: only what has texts for texts must be {question: answer}, and becomes a list."""
    found = raw.get(what)
    if not isinstance(found, dict) or not found or set(keys) & found.keys():
        return False
    question, answer = keys
    remedy = f"Write a list of objects, each with {question} and {answer}"
    clear = all(isinstance(value, str) for value in found.values())
    message = f"{what} is an object of questions and answers" if clear else f"{what} is an object"
    linter.find("schema", message, remedy, clear)
    if clear:
        raw[what] = [{question: key, answer: value} for key, value in found.items()]
    return not clear


def _evidence(linter: Linter, items: Any) -> list[tuple[Qa, Any]]:
    """`evidence` of 2024 and of a run: a list of question, answer, url."""
    qas: list[tuple[Qa, Any]] = []
    for item in _items(linter, items, "evidence"):
        if isinstance(found := _unpacked(item), dict):
            linter.find("schema", "evidence that is an object in a text", "Unpack it", True)
            item = found
        if item in (None, [], {}):
            linter.find("schema", "evidence that is empty", "Drop it", True, done="Deleted")
            qas.append((Qa("", "", drop=True), item))  # none from behind gets its place
            continue
        if isinstance(item, dict) and (
            _elsewhere(linter, item, "question") | _elsewhere(linter, item, "answer")
        ):
            qas.append((Qa(None, json.dumps(item, ensure_ascii=False)), item))
            continue
        if isinstance(item, list) or (
            isinstance(item, dict) and not {"question", "answer"} & item.keys()
        ):  # what it was meant to say, nobody knows
            message = f"evidence that is {kind_of(item)} without question and answer"
            linter.find("schema", message, "Write an object with question, answer and url")
            qas.append((Qa(None, json.dumps(item, ensure_ascii=False)), item))
            continue
        if _is_packed(item):
            message = "evidence that is a text of objects, which can't be read"
            linter.find("schema", message, "Write objects with question, answer and url")
            qas.append((Qa(None, item), item))
            continue
        if not isinstance(item, dict):
            linter.find("schema", "evidence that is a text alone", "Write it as answer", True)
            item = {"question": "", "answer": item, "url": ""}
        linter.scraped += len(str(item.pop("scraped_text", "")).encode("utf-8", "replace"))
        pair = linter.text_at(item, "question"), linter.text_at(item, "answer")
        urls = item.get("url")
        if isinstance(urls, float) and math.isnan(urls):
            linter.find("nan", "url is NaN", "Write null", True)
            item["url"] = urls = None
        urls = [u for u in (urls if isinstance(urls, list) else [urls]) if isinstance(u, str)]
        qas.append((Qa(*pair, urls), item))
    return qas


def _items(linter: Linter, value: Any, what: str) -> list[Any]:
    """What stands in a list, or should."""
    if (found := _unpacked(value)) is not None:
        linter.find("schema", f"{what} is a text that holds {kind_of(found)}", "Unpack it", True)
        value = found
    if isinstance(value, list):
        return value
    if value in (None, "", {}) or value != value:
        linter.find("schema", f"{what} is no list", "Write [] for none", True)
        return []
    linter.find("schema", f"{what} is one, in no list", "Put it into a list", True)
    return [value]


def _strings(linter: Linter, items: Any) -> list[tuple[Qa, Any]]:
    """Evidence as texts, but for what is a list or an object."""
    qas: list[tuple[Qa, Any]] = []
    for item in _items(linter, items, "string evidence"):
        qa = Qa(None, linter.text(item, "evidence"))
        qas.append((qa, item if isinstance(item, (list, dict)) else qa.answer))
    return qas


def first_script(linter: Linter, raw: dict[str, Any], position: int) -> None:
    """A record of the first script: questions with answers, or string evidence."""
    linter.count_gold(raw, GOLD)
    linter.annotated += raw.keys() >= ANNOTATED
    key = next((key for key in ("claim_id", "id") if raw.get(key) is not None), None)
    if key:
        raw[key] = linter.name(raw[key], texts=True)
    else:
        linter.place(position)
    raw["label"] = linter.label(raw.get("label"))
    if _elsewhere(linter, raw, "questions"):
        return
    if _strange(linter, raw, "questions", ("question", "answers")):
        return
    qas: list[tuple[Any, list[tuple[Qa, Any]]]] = []
    questions = _items(linter, raw.get("questions", []), "questions")
    for asked in questions:
        if not isinstance(asked, dict):  # what it was meant to say, nobody knows
            remedy = 'Write {"question": …, "answers": […]}'
            linter.find("schema", "a question is no object", remedy)
            qas.append((asked, [(Qa(None, json.dumps(asked, ensure_ascii=False)), asked)]))
            continue
        if _elsewhere(linter, asked, "question") | _elsewhere(linter, asked, "answers"):
            qas.append((asked, [(Qa(None, json.dumps(asked, ensure_ascii=False)), asked)]))
            continue
        question = linter.text_at(asked, "question")
        answers = _items(linter, asked.get("answers"), "answers")
        if not all(isinstance(a, dict) for a in answers):
            remedy = 'Write {"answer": …} for each'
            linter.find("schema", "an answer is no object", remedy, True)
        answers = [a if isinstance(a, dict) else {"answer": a} for a in answers]
        said = [(_answer(linter, question, answer), answer) for answer in answers]
        # Scorers read a question without answers as one that has this.
        qas.append((asked, said or [(Qa(question, NO_ANSWER), None)]))
    strings = _strings(linter, raw["string_evidence"]) if "string_evidence" in raw else []
    linter.qas([qa for _, said in qas for qa, _ in said] + [qa for qa, _ in strings])
    kept = []
    for asked, said in qas:
        if all(qa.drop for qa, _ in said):
            continue
        if isinstance(asked, dict) and said[0][1] is not asked:
            asked["answers"] = [answer for answer in _left(said) if answer is not None]
        kept.append(asked)
    if "questions" in raw:
        raw["questions"] = kept
    if "string_evidence" in raw:
        raw["string_evidence"] = _left(strings)


def _answer(linter: Linter, question: str, answer: dict[str, Any]) -> Qa:
    """An answer of the first script, mended in its place."""
    if _elsewhere(linter, answer, "answer"):
        return Qa(None, json.dumps(answer, ensure_ascii=False))
    text = linter.text_at(answer, "answer")
    explanation = answer.get("boolean_explanation")
    if answer.get("answer_type") != "Boolean":
        explanation = None
    elif not isinstance(explanation, str):
        is_lost = explanation is not None and explanation == explanation
        linter.find(
            "boolean",
            "a Boolean answer without boolean_explanation, at which the script stops",
            "Explain it, or leave answer_type out",
            not is_lost,
        )
        if not is_lost:
            del answer["answer_type"]
            answer.pop("boolean_explanation", None)
        explanation = ""
    url = answer.get("source_url")
    return Qa(question, text, [url] if isinstance(url, str) else [], explanation)


def flat(linter: Linter, raw: dict[str, Any], position: int) -> None:
    """A record of the first portal: evidence as texts."""
    if raw.get("id") is None and raw.get("claim_id") is not None:
        linter.find("schema", "'claim_id', where this form has 'id'", "Call it id", True)
        raw["id"] = raw.pop("claim_id")
    if raw.get("id") is None:
        linter.place(position)
    else:
        raw["id"] = linter.name(raw["id"], texts=True)
    for key in ("evidence", "predicted_evidence"):
        if isinstance(raw.get(key), list) and any(map(_is_qa, raw[key])):
            message = f"{key} with QAs, which no evaluator of this form reads"
            linter.find("schema", message, "Write claim_id, pred_label and evidence, as in 2024")
            return
    if raw.get("predicted_evidence") is None and (keys := unread(raw, "evidence")):
        remedy = "Write it under evidence, as a list of texts, or there that there is none"
        linter.find("schema", said_elsewhere("evidence", keys), remedy)
        return
    for key in ("label", "evidence"):
        if f"predicted_{key}" in raw:
            linter.find(
                "schema",
                f"predicted_{key}, which the evaluator does not read",
                f"Call it {key}",
                key not in raw,
            )
            if key not in raw:
                raw[key] = raw.pop(f"predicted_{key}")
    raw["label"] = linter.label(raw.get("label"))
    strings = _strings(linter, raw.get("evidence"))
    linter.qas([qa for qa, _ in strings])
    raw["evidence"] = _left(strings)


def run(linter: Linter, raw: dict[str, Any], position: int) -> None:
    """A record of a run of ours."""
    if raw["id"] is None:
        linter.place(position)
        linter.find("id", "no id", "Give the id of the claim")
    else:
        raw["id"] = str(linter.name(raw["id"], texts=True))
    raw["label"] = linter.label(raw.get("label"))
    linter.text_at(raw, "claim")
    if _elsewhere(linter, raw, "evidence"):
        return
    if _strange(linter, raw, "evidence", ("question", "answer")):
        return
    beside = _beside(linter, raw)
    evidence = _evidence(linter, raw.get("evidence"))
    linter.qas([qa for qa, _ in evidence], beside)
    raw["evidence"] = _left(evidence)


def cell(linter: Linter, cell: str) -> str:
    """The `evi` cell, mended. It stays as it is where delimiters are wrong so that nobody can tell
    which text is of which QA."""
    if cell.strip(" ") in MISSING:
        linter.find("nan", "the evidence is read as missing", "Write TAB TAB NEWLINE NEWLINE", True)
        cell = OUTER
    if "\r" in cell:
        ends = next(end for end in ("\r\r\n", "\r\n", "\r") if end in cell)
        ends = " ".join({"\r": "CR", "\n": "LF"}[letter] for letter in ends)
        message = f"lines of the cell end in {ends}, so that the evaluator finds no delimiter"
        linter.find("delimiter", message, "End them in LF", True)
        cell = line_feeds(cell)
    cell = _exchanged(linter, cell)
    pairs = []
    unclear = False
    for part in cell.split(OUTER):
        if not part:
            continue
        question, *answers = part.split(INNER)
        if len(answers) != 1:
            blank = not part.strip()
            clear = blank or 0 < len(list(filter(str.strip, answers))) < 2
            unclear = unclear or not clear
            shown = cut(part.strip())
            linter.find(
                "delimiter",
                f"a QA with {len(answers)} delimiters, at which the evaluator stops: '{shown}'",
                "Put TAB TAB NEWLINE between question and answer, and the same with one more "
                "NEWLINE behind the answer",
                clear,
                done="Deleted" if blank else "Mended",
            )
            if blank:
                continue
        pairs.append((question, " ".join(filter(None, answers))))
    if unclear:
        return cell
    qas = [Qa(linter.text(q, "question"), linter.text(a, "answer")) for q, a in pairs]
    kept = linter.qas(qas)
    return "".join(f"{qa.question}{INNER}{qa.answer}{OUTER}" for qa in kept) or OUTER


def _exchanged(linter: Linter, cell: str) -> str:
    """The cell with its own delimiters, where others stand in the place of all of them in turn."""
    ends = [len(feeds) for feeds in _DELIMITER.findall(cell)]
    for others, what in (((2, 4), "all newlines are doubled"), ((2, 1), "both are exchanged")):
        number = len(ends) // 2
        if ends and ends == [*others] * number:
            message = f"delimiters at which the evaluator stops: {what}"
            linter.find("delimiter", message, "Write TAB TAB NEWLINE behind a question", True)
            own = [*(INNER, OUTER) * number, ""]
            return "".join(map(str.__add__, _DELIMITER.split(cell)[::2], own))
    return cell


_DELIMITER = re.compile(r"\t\t(\n+)")


def _left(qas: list[tuple[Qa, Any]]) -> list[Any]:
    """What stands in the file for the QAs that are kept."""
    return [item for qa, item in qas if not qa.drop]
