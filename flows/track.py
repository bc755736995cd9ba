"""Log run folders that no tracker has yet: of runs made while it was down, and of killed ones.

    python -m flows.track                        everything below outputs/
    python -m flows.track tracking.uri=http://…  into that server

Runs that are still going on are left alone.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from flows.cli import entry

if TYPE_CHECKING:
    from omegaconf import DictConfig


def main(config: DictConfig) -> None:
    """Log what waits, parents first; say of each what became of it."""
    from components.errors import ClaimflowError
    from flows.tracking import connection, track, unlogged

    if not config.tracking.uri:
        raise ClaimflowError("No tracker to log to: give tracking=mlflow or tracking.uri=…")
    with connection(config):
        pass  # a tracker that is down is said once, not for each run
    waiting = unlogged(Path(config.outputs))
    logged = 0
    for folder in waiting:
        if run_id := track(folder, config):
            logged += 1
            print(f"{folder}  logged as {run_id}")
    print(f"{len(waiting)} runs were waiting, {logged} are logged in {config.tracking.uri}.")
    if logged < len(waiting):
        raise ClaimflowError(f"{len(waiting) - logged} runs could not be logged: see above.")


if __name__ == "__main__":
    entry(main, "track")
