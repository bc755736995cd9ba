"""Model cards: README.md in the folder of a trained model."""

from __future__ import annotations

import dataclasses
from typing import Any

LICENCE = (
    "those of the base model and of the training claims hold together (AVeriTeC's are CC BY-NC "
    "4.0: what is trained on them is not for commercial use)"
)


def card(step: Any, tuned: Any, data: dict[str, str]) -> str:
    """What was trained from what, how and how well; nothing that differs between equal runs.

    step: the step with its settings. tuned: base model, sizes and measures. data: facts on the
    training data by name.
    """
    names = ("rate", "epochs", "class_weight", "words")
    settings = {name: getattr(step, name) for name in names}
    for part in (step.lora, step.trainer):
        settings |= dataclasses.asdict(part) if part else {"lora": None}
    lines = [
        "---",
        f"base_model: {tuned.base}",
        f"library_name: {'peft' if step.lora else 'transformers'}",
        f"pipeline_tag: {'text-generation' if step.words else 'text-classification'}",
        "tags: [claimflow, fact-checking, verdict]",
        "---",
        f"# Verdicts by {tuned.base}{', LoRA' if step.lora else ''}",
        "",
        "Judges a claim with questions and answers as "
        + ", ".join(tuned.frequencies)
        + ". Use: `adapter=FOLDER` on the verdict step that trained it.",
        "",
        f"- Base model: {tuned.base}, digest {tuned.base_digest}",
        f"- Parameters: {tuned.trained:,} trained of {tuned.total:,}",
        f"- Temperature: {tuned.temperature}",
        *(f"- Training data, {name}: {value}" for name, value in data.items()),
        f"- Licences: {LICENCE}",
        "",
        "## On the held-out part of the training split",
        "",
        "It chose the state that was kept and the temperature, so these measures flatter.",
        "",
        "| measure | value | 95 % interval |",
        "|---|---|---|",
        *(
            f"| {name} | {m.value:.3f} | {m.low:.3f} to {m.high:.3f} |"
            for name, m in tuned.held_out.items()
        ),
        "",
        "## Settings",
        "",
        *(f"- {name}: {value}" for name, value in settings.items()),
    ]
    return "\n".join(lines) + "\n"
