"""Check a submission before an evaluator does, and mend what can be mended.

    python -m flows.lint predictions=FILE [gold=FILE] [out=FILE.json] [sarif=FILE.sarif]
    python -m flows.lint predictions=FILE fix=true      writes FILE.fixed beside it, with its ending

Takes every submission form, recognised by content. gold: claims, which say the ids that are due,
texts, dates and fact-checks; labels and evidence in it tell only whether the file is the gold file
itself. A repair leaves out what is said twice, and says so; a record that alone says something is
left out only if no claim asks for it, or it can't be read. The exit code is 1 when errors are left,
or a repaired file lacks what could not be read.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from flows.cli import entry


def main(config: Any) -> None:
    """Lint, print and write."""
    from components.datasets.gold import read_gold
    from components.datasets.submission import whole_file
    from components.errors import ClaimflowError
    from components.files import write_whole
    from components.lint.check import lint
    from components.lint.report import sarif
    from components.records import encode

    if not config.predictions:
        raise ClaimflowError("Which submission? Say predictions=FILE.")
    path = whole_file(config.predictions, "submission")
    repaired = path.with_name(f"{path.stem}.fixed{path.suffix}") if config.fix else None
    claims = read_gold(Path(config.gold)) if config.gold else None
    report = lint(path, claims, config.guard.get("sites", []), config.longest, repaired)
    if config.out:
        write_whole(Path(config.out), encode(report))
    if config.sarif:
        write_whole(Path(config.sarif), encode(sarif(report)))
    show(report, stale=repaired)
    if report.errors or report.lost or report.unread:
        sys.exit(1)


def show(report: Any, most: int = 3, stale: Path | None = None) -> None:
    """Print the first findings of each rule. stale: where a repaired file of an earlier run may
    stand, though none is written now."""
    from rich.console import Console

    from components.errors import listed
    from components.lint.rules import RULES, about
    from flows.log import number

    console = Console(soft_wrap=True, highlight=False)

    def say(line: str) -> None:
        console.print(line, markup=False)

    say(f"{report.file}: form {report.form}, {number(report.records, 'record')}")
    for rule in RULES:
        found = [f for f in report.findings if f.rule == rule]
        if not found:
            continue
        level = "error" if any(f.level == "error" for f in found) else "warning"
        fixed = [f for f in found if f.fixed]
        deleted = sum(f.done.startswith("Deleted") for f in fixed)
        counts = {"mended": len(fixed) - deleted, "deleted": deleted}
        shown = "".join(f", {n} {what}" for what, n in counts.items() if n)
        say(f"{level} {rule} ({len(found)}{shown}): {about(rule, report.form)}")
        for finding in sorted(found, key=lambda f: f.fixed)[:most]:  # what is left, first
            say(f"    {finding}")
        if len(found) > most:
            say(f"    and {len(found) - most} more (out=FILE.json has all)")
    for rule in report.unchecked:
        say(f"not checked: {rule}, for want of gold=FILE")
    if report.repaired:
        left = [number(report.left_out, "record")] if report.left_out else []
        if report.lost:
            left[0] += f" ({report.lost} of them can't be read)"
        if report.unread:
            left.append(f"what could not be read ({listed(report.unread, 3)})")
        say(f"repaired: {report.repaired}{', without ' if left else ''}{' and '.join(left)}")
        for finding in report.new[:most]:
            say(f"    {finding.level} {finding.rule} in it: {finding}")
        if len(report.new) > most:
            say(f"    and {len(report.new) - most} more in it (out=FILE.json has all)")
    if report.unrepaired:
        say(f"no repaired file is written: {report.unrepaired}")
        if stale is not None and stale.exists():
            say(f"{stale} is of an earlier run: delete it")
    errors, warnings = len(report.errors), len(report.warnings)
    left = " left" if report.repaired else ""
    say(f"{number(errors, 'error')}, {number(warnings, 'warning')}{left}")


if __name__ == "__main__":
    entry(main, "lint")
