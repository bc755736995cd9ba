"""Under which keys records hold labels, and which of them hold the prediction."""

from __future__ import annotations

import collections
import functools
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from components.errors import ClaimflowError
from components.labels import exact_label
from components.records import AVERITEC_LABELS

_GOLD = re.compile(r"(?i)(^|_)(gold|true|truth(?!f)|reference|actual)")

_NAMED = {"label", "pred_label", "predicted_label"}  # whatever stands there is one


class SeveralLabelsError(ClaimflowError):
    """Records hold labels under several keys, and nothing says which the prediction is."""

    def __init__(self, path: Path, keys: Iterable[str], due: str, form: str) -> None:
        *others, last = (f"'{key}'" for key in keys)
        names = f"{', '.join(others)} and {last}"
        self.cause = f"{path} has labels under {names}, and which is the prediction?"
        self.remedy = f"Leave only the prediction, under {due}"
        self.form = form
        super().__init__(f"{self.cause} {self.remedy}.")


class Labels:
    """Under which keys the records of a file, or the columns of a table, hold labels."""

    def __init__(self) -> None:
        self._texts: collections.Counter[str] = collections.Counter()
        self._labels: collections.Counter[str] = collections.Counter()
        self._groups: set[frozenset[str]] = set()

    def add(self, raw: dict[str, Any]) -> None:
        said = [key for key, value in raw.items() if isinstance(value, str) and value.strip()]
        texts = [key for key in said if key != "justification"]  # some models repeat the label
        self._texts.update(texts)
        self._labels.update(key for key in texts if is_label(raw[key]))
        self._groups.add(frozenset(texts))

    def rivals(self) -> list[str]:
        """The keys that hold labels in a record where another one does too. Half of a key's texts
        are labels, where its name does not call it one: other texts may say the same for once."""
        held = {
            key
            for key, count in self._texts.items()
            if key in _NAMED
            or (self._labels[key] and ("label" in key or 2 * self._labels[key] >= count))
        }
        several = [group & held for group in self._groups if len(group & held) > 1]
        return [key for key in self._texts if any(key in group for group in several)]


def label_key(raw: dict[str, Any]) -> str | None:
    """The key under which a predicted label seems to stand."""
    labels = (
        key
        for key, value in raw.items()
        if key in ("label", "predicted_label")
        or (isinstance(value, str) and value in AVERITEC_LABELS and not calls_gold(key))
    )
    return next(labels, None)


def gold_keys(raw: dict[str, Any]) -> list[str]:
    """The keys that hold a label and call it gold."""
    return [key for key, value in raw.items() if calls_gold(key) and is_label(value)]


def calls_gold(key: str) -> bool:
    """Whether a key calls what it holds gold: gold_label, true_label, label_gold."""
    return _GOLD.search(key) is not None


def holds_label(key: str, value: Any) -> bool:
    """Whether a key holds a label, by its name or by what stands there."""
    return key in _NAMED or is_label(value)


def is_label(value: Any) -> bool:
    """Whether it is a text that is a label of some task, and nothing else."""
    return isinstance(value, str) and len(value) < 60 and _means_label(value)


@functools.lru_cache(maxsize=4096)
def _means_label(text: str) -> bool:
    return exact_label(text, AVERITEC_LABELS) is not None  # it knows the others' names too
