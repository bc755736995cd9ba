"""Keeps a run's record while it runs: times, peak memory, one line a stage."""

from __future__ import annotations

import contextlib
import datetime
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import filelock

from components.errors import ClaimflowError
from components.files import write_whole
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
            self.keep_config(OmegaConf.to_container(config, resolve=True))
            save(self.record, self.folder)

    def __getstate__(self) -> dict[str, Any]:
        """Prefect pickles a flow with all that it closes over for its worker processes; the lock
        stays with the process that holds it."""
        return {key: value for key, value in self.__dict__.items() if key != "_alive"}

    def keep_config(self, config: Any) -> None:
        """Write the resolved config into the run's folder."""
        from omegaconf import OmegaConf

        text = OmegaConf.to_yaml(OmegaConf.create(config))
        write_whole(self.folder / "config.yaml", text.encode())

    def __enter__(self) -> Log:
        if self.keep:
            say(f"run {self.record.id}  {self.record.name}")
        return self

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        self.record.ended = datetime.datetime.now(datetime.UTC).isoformat()
        self.record.status = "finished"
        if not self.keep:
            return
        if error:
            self.record.status = "failed"
            self.record.error = " ".join(str(error).split())
            if isinstance(error, KeyboardInterrupt):  # with the number of the signal
                self.record.status = "killed"
                self.record.error = f"Ended by {signal.Signals(int(str(error) or 2)).name}."
            elif not isinstance(error, ClaimflowError):
                self.record.error = f"{type(error).__name__}: {self.record.error}"
        save(self.record, self.folder)
        from flows.tracker import ask

        if self.record.status == "killed":  # who presses Ctrl-C doesn't want to wait
            ask("end", self.folder, self.config).result()
            if self.config.tracking.uri:
                say(f"  {self.folder} was ended: `python -m flows.track` logs what it left.")
        elif self.record.parent:  # the other points go on meanwhile
            logged = ask("track", self.folder, self.config)
            logged.add_done_callback(lambda _: self._alive.release())
            return
        else:
            self.record.mlflow_run_id = ask("track", self.folder, self.config).result()
        self._alive.release()

    @contextlib.contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Time a stage and take its peak memory, also when it fails."""
        reset_peak()
        start = time.perf_counter()
        try:
            yield
        finally:
            self.record.seconds[name] = round(time.perf_counter() - start, 3)
            self.record.peak_mb[name] = peak_mb()

    def line(self, report: StageReport, unit: str = "cases") -> None:
        """One line for a stage: what, how many (of `unit`), how long, how many from cache."""
        self.record.stages.append(report)
        for kind, count in (("hits", report.cached), ("misses", report.cases - report.cached)):
            self.record.cache[kind] = self.record.cache.get(kind, 0) + count
        failed = f", {report.failed} failed" if report.failed else ""
        say(
            f"  {report.name:<22} {report.cases:>5} {unit}  {report.seconds:>7.1f} s  "
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


def number(n: int, what: str) -> str:
    """`no errors`, `1 error`, `2 errors`."""
    return f"{n or 'no'} {what}{'' if n == 1 else 's'}"


def since_start() -> float:
    """Seconds since this process began, its imports among them."""
    import psutil

    return time.time() - psutil.Process().create_time()


def reset_peak() -> None:
    """Begin a new measurement of peak memory, where the system can (Linux)."""
    for pid in _processes():
        with contextlib.suppress(OSError):
            Path(f"/proc/{pid}/clear_refs").write_text("5")


def peak_mb() -> float:
    """Peak resident memory since `reset_peak`, in MiB: the sum of the peaks of this process and
    of its worker processes on this machine (runner=processes, a local Dask cluster).

    Pages that processes share count for each. Elsewhere than on Linux: of this process alone,
    since it started. Workers of a Dask cluster given by address are not counted.
    """
    peaks = [_peak_kb(pid) for pid in _processes()]
    if any(peaks):
        return round(sum(peaks) / 1024, 1)
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return round(peak / (1024**2 if sys.platform == "darwin" else 1024), 1)


def _processes() -> list[int]:
    """This process and those that work for it, where the system lists them (Linux); Prefect's
    server and the tracker do no work of its stages."""
    pids = [os.getpid()]
    for pid in pids:  # which grows meanwhile
        for listed in Path(f"/proc/{pid}/task").glob("*/children"):
            with contextlib.suppress(OSError):  # it has ended
                pids += [int(child) for child in listed.read_text().split() if _works(child)]
    return pids


def _works(pid: str) -> bool:
    with contextlib.suppress(OSError):
        said = Path(f"/proc/{pid}/cmdline").read_bytes()
        return b"prefect.server" not in said and b"flows.tracker" not in said
    return False


def _peak_kb(pid: int) -> int:
    with contextlib.suppress(OSError):  # it has ended
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1])
    return 0
