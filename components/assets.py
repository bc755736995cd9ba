"""Models and language data that lie on this machine: `make setup` lays them out, nothing is
fetched when an experiment runs."""

from __future__ import annotations

from pathlib import Path

from components.errors import ClaimflowError, nearest
from components.files import home


def model(name: str | Path) -> Path:
    """The folder of a model: a path, or the name of one below `home()/models`."""
    for folder in (Path(name), home() / "models" / str(name)):
        if folder.is_dir():
            return folder.absolute()
    known = sorted(p.name for p in (home() / "models").glob("*")) if home().exists() else []
    raise ClaimflowError(
        f"No model folder '{name}': looked for {Path(name).absolute()} and "
        f"{home() / 'models' / str(name)}, and nothing is downloaded while an experiment runs. "
        "`make setup` lays out the embedded models; for others give a folder."
        + nearest(str(name), known)
    )
