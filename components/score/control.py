"""Does a judge tell the same evidence from other evidence? Items whose right scores are known."""

from __future__ import annotations

from pathlib import Path

from components.reason.prompt import filled
from components.score.judge import Asked, Judge, read_facts
from components.step import Context

_TOWN = (
    "When was the town hall of Vell built? It was built in 1904.\n"
    "Who paid for the town hall of Vell? A brewer paid for it."
)
_FERRY = (
    "How many people took the Orrin ferry in 2018? In all 52,000 people took it.\n"
    "Did the Orrin ferry make a loss in 2018? Yes, it lost 3 million crowns."
)
# Claim, reference evidence, predicted evidence, right precision and recall.
ITEMS = (
    ("The town hall of Vell is over a hundred years old.", _TOWN, _TOWN, 1.0),
    ("The Orrin ferry made a loss in 2018.", _FERRY, _FERRY, 1.0),
    ("The town hall of Vell is over a hundred years old.", _TOWN, _FERRY, 0.0),
    ("The Orrin ferry made a loss in 2018.", _FERRY, _TOWN, 0.0),
)


def control(judge: Judge, prompt: Path, ctx: Context) -> str | None:
    """A note on a judge that gets an item wrong; None for one that gets all right.

    Equal evidence must have precision and recall 1, evidence about something else 0.
    """
    if not judge.controlled:
        return None
    if ctx.silent:
        return None
    asked = [
        Asked(
            id=f"control {i}",
            mode="evidence",
            prompt=filled(prompt, claim=claim, reference=reference, predicted=predicted),
        )
        for i, (claim, reference, predicted, _) in enumerate(ITEMS)
    ]
    found = judge.ask(asked, read_facts, ctx, [])
    right = sum(
        all(facts and facts.precision == facts.recall == value for facts in runs)
        for runs, (*_, value) in zip(found, ITEMS, strict=True)
    )
    if right == len(ITEMS):
        return None
    verdict = "is too weak to judge, and its figures mean nothing" if right < 3 else "may err"
    return (
        f"The judge {verdict}: it gets {right} of {len(ITEMS)} control items right (equal evidence "
        "must score 1, evidence about something else 0)."
    )
