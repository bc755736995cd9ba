"""Sweeps: a Hydra callback that makes one parent run of the points, and a table of them.

Hydra goes through the points one after another in this process, so models stay loaded and the
cache shares what the points have in common. A point that fails is kept as failed; the rest go on.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.experimental.callback import Callback
from omegaconf import OmegaConf

from components.errors import ClaimflowError
from flows.compose import composed_ahead
from flows.log import Log, say, since_start
from flows.record import RunRecord, save, write_out

if TYPE_CHECKING:
    from omegaconf import DictConfig

_current: Sweep | None = None
failures: list[Exception] = []  # of finished sweeps, for the command line to end with


def current() -> Sweep | None:
    """The sweep that this process is going through, if it is."""
    return _current


def interrupt(error: KeyboardInterrupt) -> None:
    """Close the parent of the sweep that Ctrl-C broke off."""
    if _current and _current.log:
        _current.log.__exit__(type(error), error, None)


def release() -> None:
    """End what was started for a sweep that never came to its end: a point can't be composed."""
    if _current:
        _current.api.close()


class Sweep:
    """The points of a sweep and the parent record that binds them."""

    def __init__(self, config: DictConfig) -> None:
        self.axes = axes_of(config)
        self.records: list[RunRecord] = []
        self.log: Log | None = None
        self.config: DictConfig | None = None
        self.refused: ClaimflowError | None = None
        self.api = contextlib.ExitStack()  # one for all points; its server starts meanwhile

    def prepare(self, config: DictConfig) -> None:
        """Start Prefect's server and the tracker while Hydra composes the points."""
        from flows.runners import prefect_api
        from flows.tracker import start

        try:
            self.api.enter_context(prefect_api())
        except ClaimflowError as error:  # Hydra would only warn of it
            self.refused = error
        start(config)

    def point(self, config: DictConfig) -> RunRecord:
        """Run one point; what goes wrong in it is its own affair."""
        from flows.experiment import run

        overrides = dict(_split(text) for text in HydraConfig.get().overrides.task)
        axes = {axis: overrides[axis] for axis in self.axes if axis in overrides}
        if self.log is None:
            self._check(config)
            self._begin(config)
        config.name = ",".join(f"{axis}={value}" for axis, value in axes.items())
        say(f"[{len(self.records) + 1}] {config.name}")
        log = Log(config, axes, self.log.record.id)
        self._share(config, log.record)
        try:
            record = run(config, log)
        except Exception as error:  # recorded by the log; the other points go on
            say(f"  failed: {' '.join(str(error).split())}")
            record = log.record
        self.records.append(record)
        return record

    def _check(self, config: DictConfig) -> None:
        """Refuse a measure that no point has before any of them does its work."""
        from flows.experiment import check_primary

        if not self.refused:
            try:
                check_primary([config, *composed_ahead.values()])
            except ClaimflowError as error:
                self.refused = error
        if self.refused:  # Hydra goes on to the next point
            raise self.refused

    def _begin(self, config: DictConfig) -> None:
        from flows.tracker import ask

        parent = config.copy()
        parent.name = _sweep_name(config, list(self.axes))
        self.config, self.log = parent, Log(parent, self.axes, None)
        self.shared: Any = OmegaConf.to_container(parent, resolve=True)
        ask("begin", self.log.folder, parent)

    def _share(self, config: DictConfig, point: RunRecord) -> None:
        """The parent keeps what all points agree on, so that it claims nothing of one point."""
        log = self.log
        assert log
        other: Any = OmegaConf.to_container(config, resolve=True)
        self.shared = common(self.shared, {**other, "name": log.record.name})
        log.keep_config(self.shared)
        log.record.choices = common(log.record.choices, point.choices)
        log.record.children.append(point.id)
        save(log.record, log.folder)

    def finish(self) -> None:
        """Close the parent, print the table, write `out=`."""
        from components.report.brief import brief
        from flows.publish import publish_sweep
        from flows.tracking import tracked

        self.api.close()
        if self.log is None or self.config is None:
            return
        same = [record.datasets for record in self.records if record.datasets]
        if same and all(datasets == same[0] for datasets in same):
            self.log.record.datasets = same[0]
        with self.log:
            found = publish_sweep(self.config, self.records, self.log)
        for record in self.records:  # the sweep is logged after its points
            state = tracked(self.log.folder.parent / record.id)
            record.mlflow_run_id = state.run_id if state and state.whole else None
        print(brief(found))
        hits = sum(record.cache.get("hits", 0) for record in self.records)
        misses = sum(record.cache.get("misses", 0) for record in self.records)
        say(
            f"{len(self.records)} points in {since_start():.1f} s in all, "
            f"{sum(self.log.record.seconds.values()):.1f} s of them in stages; "
            f"{hits} results from cache, {misses} computed."
        )
        say(
            f"Full report: {self.log.folder / 'report.html'} (report.md, comparison.csv, pairs.csv "
            "and plots/ beside it)"
        )
        if self.log.record.mlflow_run_id:
            say(
                f"MLflow parent run {self.log.record.mlflow_run_id} in "
                f"{self.config.tracking.uri} (`make dashboard`)"
            )
        write_out(self.config, self.records)
        failed = [record for record in self.records if record.status == "failed"]
        if failed:
            raise ClaimflowError(
                f"{len(failed)} of {len(self.records)} points failed, first {failed[0].name}: "
                f"{failed[0].error} Start the sweep again to do only what is missing."
            )


class SweepCallback(Callback):
    """Hydra tells it when a sweep begins and ends."""

    def on_multirun_start(self, config: DictConfig, **_: Any) -> None:
        global _current
        _current = Sweep(config) if axes_of(config) else None
        if _current:
            _current.prepare(config)

    def on_multirun_end(self, config: DictConfig, **_: Any) -> None:
        global _current
        sweep, _current = _current, None
        if sweep:
            try:
                sweep.finish()
            except Exception as error:  # Hydra would only warn of it
                failures.append(error)


def axes_of(config: DictConfig) -> dict[str, str]:
    """What a sweep varies and over which values: of the sweep file and of the command line."""
    axes = {str(k): str(v) for k, v in (config.hydra.sweeper.params or {}).items()}
    for override in OverridesParser.create().parse_overrides(list(config.hydra.overrides.task)):
        key = override.key_or_group
        if override.is_sweep_override():
            axes[key] = _split(override.input_line)[1]
        else:
            axes.pop(key, None)  # the command line holds it at one value
    return axes


def common(one: Any, other: Any) -> Any:
    """What two mappings agree on, at every depth; a mapping of which nothing is left goes too."""
    found = {
        key: common(value, other[key]) if isinstance(value, dict) else value
        for key, value in one.items()
        if key in other
        and type(value) is type(other[key])
        and (isinstance(value, dict) or value == other[key])
    }
    return {key: value for key, value in found.items() if value != {} or one[key] == other[key]}


def _split(text: str) -> tuple[str, str]:
    key, _, value = text.partition("=")
    return key.lstrip("+~"), value.strip("'\"")


def _sweep_name(config: DictConfig, axes: list[str]) -> str:
    choice = HydraConfig.get().runtime.choices.get("sweep")
    dataset = HydraConfig.get().runtime.choices.get("dataset")
    return f"sweep of {choice or ' x '.join(axes)} on {dataset}"
