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


def nltk_ready() -> None:
    """Let NLTK find the language data below `home()/nltk_data`."""
    import nltk

    folder = home() / "nltk_data"
    if str(folder) not in nltk.data.path:
        nltk.data.path.insert(0, str(folder))
    for kind in ("tokenizers/punkt_tab", "corpora/wordnet"):
        if not (folder / kind).is_dir():
            raise ClaimflowError(f"No language data at {folder / kind}: run `make setup`.")
