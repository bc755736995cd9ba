"""Model cards: README.md in the folder of a trained model."""

from __future__ import annotations

import dataclasses
from typing import Any, Protocol

from components.score.base import Measure

CARD = "README.md"
LICENCES = {  # of data sets, by name, and of the models that come with the install
    "averitec": "CC BY-NC 4.0, not for commercial use",
    "scifact": "claims and evidence CC BY 4.0, abstracts ODC-By 1.0",
    "fever": "CC BY-SA 3.0",
    "demo": "CC0 1.0",
    "SmolLM2-135M-Instruct": "Apache-2.0",
    "all-MiniLM-L6-v2": "Apache-2.0",
}


def licence(name: str) -> str:
    """Of a data set or a base model, as far as it is known here."""
    return LICENCES.get(name, "not known here: see where it is from")


PIPELINES = {
    "verdict": "text-classification",
    "nli": "text-classification",
    "rationale": "text-classification",
    "reranker": "text-ranking",
    "best_pairs": "text-ranking",
    "question": "text-generation",
    "answer": "text-generation",
}


class About(Protocol):
    """What stands beside trained weights, as far as a card says it.

    trained, total: numbers of parameters. held_out: measures on the held-out part.
    """

    base: str
    base_digest: str
    trained: int
    total: int
    held_out: dict[str, Measure]


def card(task: str, does: str, step: Any, about: About, data: dict[str, object]) -> str:
    """What was trained from what, how and how well; nothing that differs between equal runs.

    does: what the model does, in a sentence. step: the step with its settings. data: facts on the
    training data by name.
    """
    settings: dict[str, object] = {"lora": None}
    for field in dataclasses.fields(step):
        value = getattr(step, field.name)
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            settings |= {f"{field.name}.{k}": v for k, v in dataclasses.asdict(value).items()}
            settings.pop(field.name, None)
        elif isinstance(value, (int, float, str, bool, dict, list, type(None))):
            settings[field.name] = value
    settings.pop("adapter", None)
    lines = [
        "---",
        f"base_model: {about.base}",
        f"library_name: {'peft' if step.lora else 'transformers'}",
        f"pipeline_tag: {PIPELINES[task]}",
        f"tags: [claimflow, fact-checking, {task}]",
        "---",
        f"# {task.capitalize()} by {about.base}{', LoRA' if step.lora else ''}",
        "",
        f"{does} Use: `adapter=FOLDER` on the step that trained it.",
        "",
        f"- Base model: {about.base}, digest of its files {about.base_digest}",
        f"- Parameters: {about.trained:,} trained of {about.total:,}",
        *(f"- Training data, {name}: {value}" for name, value in data.items()),
        f"- Licence of the base model: {licence(about.base)}",
        "",
        "## On the held-out part of the training split",
        "",
        "It chose the state that was kept, and thresholds or temperature where there are any, so "
        "these measures flatter.",
        "",
        "| measure | value | 95 % interval |",
        "|---|---|---|",
        *(f"| {name} | {m.value:.3f} | {_interval(m)} |" for name, m in about.held_out.items()),
        "",
        "## Settings",
        "",
        *(f"- {name}: {value}" for name, value in settings.items()),
    ]
    return "\n".join(lines) + "\n"


def of_merged(text: str) -> str:
    """The card of an adapter as that of the whole model that it was merged into."""
    text = text.replace("library_name: peft\n", "library_name: transformers\n", 1)
    head, title, rest = text.partition(", LoRA\n")
    if not title:
        return text
    return (
        f"{head}, LoRA, merged\n\nA whole model in float32: the base model with the adapter, whose "
        f"measures these are, merged into its weights.\n{rest}"
    )


def _interval(measure: Measure) -> str:
    if measure.low is None or measure.high is None:
        return ""
    return f"{measure.low:.3f} to {measure.high:.3f}"
