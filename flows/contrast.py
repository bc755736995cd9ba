"""What runs that are compared were set to, where they differ: of different sweeps, say."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from flows.cli import PLACES

if TYPE_CHECKING:
    from components.report.compare import Contrast, Point

# Of a config, what has no part in what a run finds.
ASIDE = {*PLACES, "name", "primary", "shown", "runner"}
LONGEST = 60  # characters of a value


def fill(points: list[Point]) -> None:
    """Give the points of several sweeps the same axes: what a sweep did not vary has the value that
    its points were run with. Where points are still alike, what they differ in becomes an axis."""
    swept = [point for point in points if point.axes and point.config]
    runs = [point for point in swept if not point.error]
    if _one_sweep(swept):
        return

    def add(axis: str) -> None:
        for point in swept:
            point.axes = {**point.axes, axis: point.axes.get(axis) or _value(point, axis)}

    def distinct(*more: str) -> int:
        return len({(*p.axes.values(), *(_value(p, axis) for axis in more)) for p in runs})

    axes = dict.fromkeys(axis for point in swept for axis in point.axes)
    for axis in axes:
        add(axis)
    for point in swept:
        point.axes = {axis: point.axes[axis] for axis in axes}
    for setting, _ in _apart(runs):
        if setting not in axes and distinct(setting) > distinct():
            add(setting)


def differing(points: list[Point]) -> list[Contrast]:
    """The choices and settings in which the runs differ, in the order of the config; none where
    the axes say them all, as within one sweep. Runs without config, such as files of predictions,
    have no part in it.

    Left out: the settings of a choice that differs, models that no step of a run uses, and what a
    step takes from a setting that several share.
    """
    from components.report.compare import Contrast

    runs = [point for point in points if not point.error]
    found = _apart(runs)
    by_axes = all(point.axes and not point.named for point in runs)
    more = [setting for setting, _ in found if setting not in runs[0].axes]
    if by_axes and (_one_sweep(runs) or not more):
        return []
    if by_axes and len(runs) > 2:  # the tables have their axes anyway
        found = [row for row in found if row[0] in more]
    return [
        Contrast(setting=setting, values={runs[i].name: value for i, value in values.items()})
        for setting, values in found
    ]


def _one_sweep(points: list[Point]) -> bool:
    sweeps = {point.sweep for point in points}
    return len(sweeps) == 1 and "" not in sweeps


def _apart(points: list[Point]) -> list[tuple[str, dict[int, str]]]:
    """What `differing` says, with the values by the place of a point."""
    used = {i: _used(point.config) for i, point in enumerate(points) if point.config}
    flat = {i: dict(_flat("", config)) for i, config in used.items()}
    known = all(points[i].choices for i in used)  # a run by params=FILE has settings alone
    found = []
    for group in dict.fromkeys(key for config in used.values() for key in config):
        chosen = {i: points[i].choices.get(group, "") if known else ""
                  for i in used if group in used[i]}  # fmt: skip
        values = {i: choice for i, choice in chosen.items() if choice}
        if len(set(values.values())) > 1:
            found.append((group, values))
        below = (key for i in chosen for key in flat[i] if key.partition(".")[0] == group)
        for key in dict.fromkeys(below):
            alike: dict[str, set[str | None]] = {}  # the values of runs with the same choice
            for i, choice in chosen.items():
                alike.setdefault(choice, set()).add(flat[i].get(key))
            values = {i: flat[i][key] for i in chosen if key in flat[i]}
            if max(map(len, alike.values())) > 1 and not _elsewhere(key, values, used, flat):
                found.append((key, _cut(values)))
    return sorted(found, key=lambda row: "." in row[0])  # choices first


def _elsewhere(
    key: str, values: dict[int, str], used: dict[int, dict[str, Any]], flat: dict[int, Any]
) -> bool:
    """Whether a setting of a step has, in all runs, the value of one that steps share: that of a
    model, or one of the whole run."""
    last = key.rpartition(".")[2]
    shared = {f"{part}.{last}" for config in used.values() for part in config
              if part not in _slots(config)}  # fmt: skip
    return any(
        other.count(".") < key.count(".")
        and all(flat[i].get(other) == value for i, value in values.items())
        for other in (last, *shared)
    )


def _slots(config: dict[str, Any]) -> list[str]:
    """The groups that do a run's work, which others only serve."""
    return [*config.get("pipeline", []), "scorer", "dataset"]


def _used(config: dict[str, Any]) -> dict[str, Any]:
    """The config without what has no part in what the run finds: places, and models and the like
    that none of its steps and scorers takes."""
    slots = _slots(config)
    parts = [key for key, value in config.items() if isinstance(value, dict) and key not in slots]
    taken = [config[slot] for slot in slots if slot in config]
    kept: set[str] = set()
    while more := [p for p in parts if p not in kept and any(_holds(t, config[p]) for t in taken)]:
        kept |= {*more}
        taken = [config[part] for part in more]
    return {key: value for key, value in config.items()
            if key not in ASIDE and (key not in parts or key in kept)}  # fmt: skip


def _holds(tree: Any, part: Any) -> bool:
    """Whether `part` stands somewhere within `tree`."""
    inside = list(tree.values()) if isinstance(tree, dict) else []
    return bool(part) and any(item == part or _holds(item, part) for item in inside)


def _flat(prefix: str, value: Any) -> Iterator[tuple[str, str]]:
    """Settings by dotted key; the class of a part by the key of the part. How many threads compute
    is none."""
    if not isinstance(value, dict):
        yield prefix, _text(value)
        return
    for key, item in value.items():
        if key == "_target_":
            yield prefix, str(item).rpartition(".")[2]
        elif key != "threads":
            yield from _flat(f"{prefix}.{key}" if prefix else str(key), item)


def _text(value: Any) -> str:
    """A value as the command line takes it."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return f"[{','.join(map(_text, value))}]" if isinstance(value, list) else str(value)


def _cut(values: dict[int, str]) -> dict[int, str]:
    """Values, long ones from a little before where they part."""
    first, last = min(values.values()), max(values.values())  # between them the others lie
    same = next((n for n, pair in enumerate(zip(first, last, strict=False)) if len({*pair}) > 1), 0)
    start = max(same - 15, 0) if len(last) > LONGEST or len(first) > LONGEST else 0
    cut = {i: ("…" if start else "") + value[start:] for i, value in values.items()}
    return {i: f"{text[:LONGEST]}…" if len(text) > LONGEST else text for i, text in cut.items()}


def _value(point: Point, setting: str) -> str:
    """What a run was set to, whether its own sweep varied it or not; "none" for nothing."""
    return {**dict(_flat("", point.config)), **point.choices}.get(setting, "none")
