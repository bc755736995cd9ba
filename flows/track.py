"""Log run folders that no tracker has yet: runs made while it was down, or killed.

    python -m flows.track                                 what waits below outputs/
    python -m flows.track tracking.uri=http://host:5000   … into that server
    python -m flows.track tracking.uri=… all=true         also runs that another tracker has

A run whose process was killed is logged as KILLED; one that still works is left alone.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from flows.cli import entry

if TYPE_CHECKING:
    from omegaconf import DictConfig


def main(config: DictConfig) -> None:
    """Log what waits, sweeps before their points; say of each what became of it."""
    import filelock

    from components.errors import ClaimflowError
    from flows.log import alive
    from flows.record import save, write_out
    from flows.tracking import connect, read_record, track, waiting

    if not config.tracking.uri:
        raise ClaimflowError("No tracker to log to: give tracking=mlflow or tracking.uri=…")
    folders = waiting(Path(config.outputs), str(config.tracking.uri) if config.all else None)
    if folders:
        connect(config)
    failed, records = 0, []
    for folder in folders:
        try:
            held = alive(folder)
        except filelock.Timeout:
            print(f"{folder}  still at work")
            continue
        try:
            record = read_record(folder)
            if record.status == "running":  # its process is gone
                record.status, record.error = "killed", "The process ended before the run did."
                save(record, folder)
            run_id = track(folder, config)
        finally:
            held.release()
        record.mlflow_run_id = run_id
        records.append(record)
        failed += run_id is None
        print(f"{folder}  {record.status}, {f'logged as {run_id}' if run_id else 'not logged'}")
    write_out(config, records)
    print(f"{len(folders)} {'run was' if len(folders) == 1 else 'runs were'} waiting.")
    if failed:
        raise ClaimflowError(
            f"{failed} of them could not be logged: the lines above say why. Start again then."
        )


if __name__ == "__main__":
    entry(main, "track")
