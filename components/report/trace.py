"""What a run did for one claim, step by step, for a person to read."""

from __future__ import annotations

from collections import Counter

from components.records import Case, Evidence


def trace(case: Case, error: str | None = None) -> str:
    """The path of a claim as Markdown: questions, queries, the best hits, rounds of loops,
    evidence, verdict, remarks. Each part stands there if the run has it."""
    claim = case.claim
    about = [claim.speaker, str(claim.date) if claim.date else None, _gold(claim.label)]
    lines = [f"## {claim.id}: {_line(claim.text, 500)}", ""]
    lines += [f"{' · '.join(filter(None, about))}", ""] if any(about) else []
    best: dict[int, list[str]] = {}
    for hit in case.hits:
        best.setdefault(hit.query, []).append(f"{hit.score:g} {hit.url or hit.doc}")
    parts = {
        "Questions": case.questions,
        "Queries": [
            f"{_line(query.text)} → {', '.join(best.get(number, [])[:3]) or 'nothing'}"
            for number, query in enumerate(case.queries)
        ],
        "Rounds": case.rounds,
        "Evidence": [
            text + (f" – {count} times" if count > 1 else "")
            for text, count in Counter(map(_pair, case.evidence)).items()
        ],
        "Remarks": case.remarks,
    }
    for title, items in parts.items():
        if items:
            numbered = (f"{i}. {_line(item, 700)}" for i, item in enumerate(items, 1))
            lines += [f"{title}:", "", *numbered, ""]
    if case.verdict:
        sure = ", ".join(f"{name} {p:.3f}" for name, p in case.verdict.probabilities.items())
        lines += [f"Verdict: **{case.verdict.label}**" + (f" ({sure})" if sure else ""), ""]
        if case.verdict.justification:
            lines += [*(f"> {line}" for line in case.verdict.justification.splitlines()), ""]
    if error:
        lines += [f"Failed: {error}", ""]
    return "\n".join(lines)


def _pair(pair: Evidence) -> str:
    source = f" ({pair.url})" if pair.url else ""
    return f"**{_line(pair.question)}** {_line(pair.answer, 400)}{source}"


def _gold(label: str | None) -> str | None:
    return f"gold: {label}" if label else None


def _line(text: str, most: int = 200) -> str:
    line = " ".join(text.split())
    return line if len(line) <= most else f"{line[: most - 1]}…"
