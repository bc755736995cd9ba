"""Log run folders that no tracker has yet: runs made while it was down, or killed.

python -m flows.track                        everything below outputs/
python -m flows.track tracking.uri=http://…  into that server
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
    from flows.tracking import track, unlogged

    if not config.tracking.uri:
        raise ClaimflowError("No tracker to log to: give tracking=mlflow or tracking.uri=…")
    waiting = unlogged(Path(config.outputs))
    for folder in waiting:
        run_id = track(folder, config)
        print(f"{folder}  {'logged as ' + run_id if run_id else 'not logged'}")
    print(f"{len(waiting)} runs were waiting.")


if __name__ == "__main__":
    entry(main)
