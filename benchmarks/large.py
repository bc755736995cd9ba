"""Submissions with page texts in them: what reading and linting take, in a process of its own.

The pages of 1,000 claims made submissions of 2.3 GB. A file of a quarter of the size stands beside,
so that the growth of memory shows. `megabytes=300` says how large the larger one is.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.common import argument, finish, row


def write(path: Path, megabytes: float) -> None:
    """A submission of 1,000 claims, as the systems of 2024 wrote it."""
    claims = 1000
    text = "Die Straße wurde im März gesperrt, sagte die Stadt – so the report. "
    page = text * round(megabytes * 2**20 / claims / 2 / len(json.dumps(text)))
    with open(path, "w") as file:
        for n in range(claims):
            evidence = [
                {"question": f"Which {q}?", "answer": f"The {q}.", "url": "", "scraped_text": page}
                for q in ("first", "second")
            ]
            record = {"claim_id": n, "claim": "A.", "evidence": evidence, "pred_label": "Refuted"}
            file.write(("[" if n == 0 else ",\n") + json.dumps(record))
        file.write("]")


def work(path: Path, what: str) -> None:
    """In the process that is measured."""
    from components.datasets.submission import read_submission
    from components.lint.check import lint

    start = time.perf_counter()
    if what == "read":
        assert len(read_submission(path)) == 1000
    else:
        found: Any = lint(path)
        assert {f.rule for f in found.findings} <= {"scraped-text", "size"}
    seconds = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps([seconds, peak]))


def main() -> None:
    if what := argument("work"):
        return work(Path(argument("file")), what)
    megabytes = float(argument("megabytes") or 300)
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for size in (megabytes / 4, megabytes):
            path = Path(folder) / "pred.json"
            write(path, size)
            for what in ("read", "lint"):
                words = [sys.executable, "-m", "benchmarks.large", f"work={what}", f"file={path}"]
                done = subprocess.run(words, capture_output=True, text=True, check=True)
                seconds, peak = json.loads(done.stdout)
                name = f"{what} {path.stat().st_size / 1e6:.0f} MB"
                rows += [row(name, seconds, "s"), row(f"{name}, peak memory", peak, "MiB")]
    return finish(rows, "megabytes")


if __name__ == "__main__":
    main()
