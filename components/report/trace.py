"""What a run did for one claim, step by step, for a person to read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from components.records import Case, Evidence
from components.retrieve.search import by_question


def trace(case: Case, error: str | None = None) -> str:
    """The path of a claim as Markdown: questions, queries, the best hits, rounds of loops,
    evidence, verdict, remarks. Each part stands there if the run has it."""
    claim = case.claim
    about = [claim.speaker, str(claim.date) if claim.date else None, _gold(claim.label)]
    lines = [f"## {claim.id}: {_line(claim.text, 500)}", ""]
    lines += [f"{' · '.join(filter(None, about))}", ""] if any(about) else []
    parts = {
        "Questions": [_line(question, 700) for question in case.questions],
        "Queries": list(_queries(case)),
        "Rounds": [_line(told, 700) for told in case.rounds],
        "Evidence": [
            _line(text + (f" – {count} times" if count > 1 else ""), 700)
            for text, count in Counter(map(_pair, case.evidence)).items()
        ],
        "Remarks": [_line(remark, 700) for remark in case.remarks],
    }
    for title, items in parts.items():
        if items:
            lines += [f"{title}:", "", *(f"{i}. {item}" for i, item in enumerate(items, 1)), ""]
    if case.verdict:
        sure = ", ".join(f"{name} {p:.3f}" for name, p in case.verdict.probabilities.items())
        lines += [f"Verdict: **{case.verdict.label}**" + (f" ({sure})" if sure else ""), ""]
        if case.verdict.justification:
            lines += [*(f"> {line}" for line in case.verdict.justification.splitlines()), ""]
    if error:
        lines += [f"Failed: {error}", ""]
    return "\n".join(lines)


def _queries(case: Case) -> Iterator[str]:
    """Each query with its best hits. Those of one question stand side by side where all its hits
    are the first one's: so they are where queries are searched together (see `Search`)."""
    best: dict[int, list[str]] = {}
    for hit in case.hits:
        best.setdefault(hit.query, []).append(_line(f"{hit.score:g} {hit.url or hit.doc}"))
    for asked in by_question(case.queries):
        joint = [number for number in asked if number in best] == asked[:1]
        for numbers in [asked] if joint else [[number] for number in asked]:
            texts = " | ".join(_line(case.queries[number].text) for number in numbers)
            yield f"{texts} → {', '.join(best.get(numbers[0], [])[:3]) or 'nothing'}"


def _pair(pair: Evidence) -> str:
    source = f" ({pair.url})" if pair.url else ""
    return f"**{_line(pair.question)}** {_line(pair.answer, 400)}{source}"


def _gold(label: str | None) -> str | None:
    return f"gold: {label}" if label else None


def _line(text: str, most: int = 200) -> str:
    line = " ".join(text.split())
    return line if len(line) <= most else f"{line[: most - 1]}…"
