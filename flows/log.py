"""Keeps a run's record while it runs: times, peak memory, one line a stage."""

from __future__ import annotations

import contextlib
import datetime
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import filelock

from components.errors import ClaimflowError
from flows.record import RunRecord, StageReport, new_record, save

if TYPE_CHECKING:
    from omegaconf import DictConfig


class Log:
    """A run from start to end. As a context manager it closes the record and keeps its folder,
    also when the run fails; the error passes through after that.

    keep=False: print the stages, but make no run folder and track nothing.
    """

    def __init__(
        self,
        config: DictConfig,
        axes: dict[str, str] | None = None,
        parent: str | None = None,
        keep: bool = True,
    ) -> None:
        from omegaconf import OmegaConf

        self.config = config
        self.keep = keep
        self.record: RunRecord = new_record(str(config.name), axes or {}, parent)
        self.folder = Path(config.outputs) / self.record.id
        if keep:
            self.folder.mkdir(parents=True)
            self._alive = alive(self.folder)
            text = OmegaConf.to_yaml(config, resolve=True)
            (self.folder / "config.yaml").write_text(text, encoding="utf-8")
            save(self.record, self.folder)

    def __getstate__(self) -> dict[str, Any]:
        # Prefect pickles a flow with its tasks for other processes; no task uses the log.
        return {}

    def __enter__(self) -> Log:
        if self.keep:
            say(f"run {self.record.id}  {self.record.name}")
        return self

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if not self.keep:
            return
        self.record.ended = datetime.datetime.now(datetime.UTC).isoformat()
        self.record.status = "failed" if error else "finished"
        if error:
            text = " ".join(str(error).split())
            self.record.error = (
                text if isinstance(error, ClaimflowError) else f"{type(error).__name__}: {text}"
            )
        save(self.record, self.folder)
        self._alive.release()
        if not isinstance(error, KeyboardInterrupt):
            from flows.tracking import track

            self.record.mlflow_run_id = track(self.folder, self.config)

    @contextlib.contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Time a stage and take its peak memory."""
        reset_peak()
        start = time.perf_counter()
        yield
        self.record.seconds[name] = round(time.perf_counter() - start, 3)
        self.record.peak_mb[name] = peak_mb()

    def line(self, report: StageReport) -> None:
        """One line for a stage: what, how many, how long, how many from cache."""
        self.record.stages.append(report)
        for kind, count in (("hits", report.cached), ("misses", report.cases - report.cached)):
            self.record.cache[kind] = self.record.cache.get(kind, 0) + count
        failed = f", {report.failed} failed" if report.failed else ""
        say(
            f"  {report.name:<22} {report.cases:>5} cases  {report.seconds:>7.1f} s  "
            f"{report.cached} from cache{failed}"
        )

    def note(self, text: str) -> None:
        """Something that a reader of the run should know; also printed."""
        self.record.notes.append(text)
        say(f"  note: {text}")


def alive(folder: Path) -> filelock.FileLock:
    """Held while the run in `folder` goes on; a killed process lets go of it."""
    lock = filelock.FileLock(folder / ".alive", thread_local=False)
    lock.acquire(timeout=0)
    return lock


def say(text: str) -> None:
    """A line of progress, on stderr: stdout is for results."""
    print(text, file=sys.stderr, flush=True)


def reset_peak() -> None:
    """Begin a new measurement of peak memory, where the system can (Linux)."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def peak_mb() -> float:
    """Peak resident memory of this process since `reset_peak`, in MiB."""
    try:
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return round(int(line.split()[1]) / 1024, 1)
    except OSError:
        pass
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return round(peak / (1024**2 if sys.platform == "darwin" else 1024), 1)
