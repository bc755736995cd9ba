"""What the linter says of a file, also as SARIF."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import quote

from components.lint.rules import RULES, about
from components.records import Record


class Finding(Record):
    """One thing that is wrong. line: where the record begins (JSON) or ends (CSV), from 1.
    record: the claim id. fixable: a repair is clear. fixed: the repaired file does not have it;
    done: what was done for that."""

    rule: str
    level: str  # error, warning
    message: str
    remedy: str
    line: int | None = None
    record: str | None = None
    fixable: bool = False
    fixed: bool = False
    done: str = "Mended"

    def __str__(self) -> str:
        where = "" if self.record is None else f"claim {cut(self.record)}: "
        at = "" if self.line is None else f"line {self.line}: "
        return f"{at}{where}{self.text}"

    @property
    def text(self) -> str:
        """Message and remedy as sentences."""
        end = "" if self.message.endswith((".", "?")) else "."
        return f"{self.message}{end} {self.done if self.fixed else self.remedy}."


class Report(Record):
    """What `lint` found in a file. left: what it finds in the repaired file."""

    file: str
    form: str
    records: int
    findings: list[Finding] = []
    unchecked: list[str] = []  # rules that lacked the gold claims
    repaired: str | None = None
    left: list[Finding] = []
    left_out: int = 0  # records that the repaired file does not have
    lost: int = 0  # of these, such as can't be read
    unread: list[str] = []  # lines of the file that may hold records which it does not have
    unrepaired: str | None = None  # why no repaired file was written, where one was asked for

    @property
    def errors(self) -> list[Finding]:
        """Errors: of the repaired file, if there is one."""
        return self._of("error")

    @property
    def warnings(self) -> list[Finding]:
        """Warnings, likewise."""
        return self._of("warning")

    @property
    def new(self) -> list[Finding]:
        """What is found in the repaired file alone."""
        known = {(f.rule, f.message) for f in self.findings if not f.fixed}
        return [f for f in self.left if (f.rule, f.message) not in known]

    def _of(self, level: str) -> list[Finding]:
        found = self.findings if self.repaired is None else self.left
        return [finding for finding in found if finding.level == level]


def sarif(report: Report) -> dict[str, Any]:
    """The report as SARIF 2.1.0, which code hosts and editors show. The file's URI is relative to
    the working directory where it lies below it, which is what these look it up by."""
    left = [(report.file, f) for f in report.findings if not f.fixed]
    results = []
    for file, finding in left + [(report.repaired or "", f) for f in report.new]:
        where: dict[str, Any] = {"artifactLocation": {"uri": _uri(file)}}
        if finding.line is not None:
            where["region"] = {"startLine": finding.line}
        results.append(
            {
                "ruleId": finding.rule,
                "level": finding.level,
                "message": {"text": finding.text},
                "locations": [{"physicalLocation": where}],
                "properties": {"claim": finding.record},
            }
        )
    rules = [{"id": name, "shortDescription": {"text": about(name, report.form)}} for name in RULES]
    return {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [
            {"tool": {"driver": {"name": "claimflow lint", "rules": rules}}, "results": results}
        ],
    }


def _uri(file: str) -> str:
    path, here = Path(file).absolute(), Path.cwd()
    return quote(path.relative_to(here).as_posix()) if path.is_relative_to(here) else path.as_uri()


def cut(text: str) -> str:
    """The text in at most 60 characters, for a message."""
    return text if len(text) <= 60 else f"{text[:57]}…"
