"""What every data set gives: claims of a split, training claims, and documents for a claim."""

from __future__ import annotations

import dataclasses
import os
import shlex
import unicodedata
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, ClassVar

from components.cache import Action, Cache, key_of
from components.errors import ClaimflowError, MissingFileError, nearest, plain
from components.files import ROOT, file_digest
from components.labels import nearest_label
from components.pipeline import CaseRef
from components.records import BadLine, Claim, Document, encode, read_lines, report, skipped
from components.step import identity

SHOWN = 8  # names of files in a message


@dataclasses.dataclass(kw_only=True)
class Dataset:
    """A data set on disk. Subclasses read one family of file formats.

    path: folder of the files; None: the folder `name` below CLAIMFLOW_DATA, or below data/ beside
    the code when that is not set. split: the evaluated split. train_split: where training claims
    and few-shot examples come from (None: no training claims). limit: only the first N claims of
    the split. ids: only these claim ids. on_error: "stop" at a bad line, or "skip" it and go on.
    bad: the lines that were skipped, and the pages that could not be read.
    """

    unkeyed: ClassVar[tuple[str, ...]] = ()  # parameters that say where files are
    name: ClassVar[str] = ""
    published: ClassVar[str] = ""  # where the official files are; empty: with the project
    splits: ClassVar[tuple[str, ...]] = ()  # the published ones; others may lie in `path`
    shared: ClassVar[bool] = False  # are the documents of all claims and splits the same?

    path: Path | None = None
    split: str = "dev"
    train_split: str | None = "train"
    limit: int | None = None
    ids: list[str | int] | None = None
    on_error: str = "stop"
    bad: list[BadLine] = dataclasses.field(default_factory=list)

    def __post_init__(self) -> None:
        if isinstance(self.ids, (str, int)):  # ids=3
            self.ids = [self.ids]
        if self.on_error not in ("stop", "skip"):
            raise ClaimflowError(f"on_error is stop or skip, not '{self.on_error}'.")
        if self.limit is not None and self.limit < 1:
            raise ClaimflowError(f"limit={self.limit} leaves no claim: give 1 or more.")

    @property
    def folder(self) -> Path:
        """Where the files are."""
        if self.path is not None:
            return Path(self.path)
        return Path(os.environ.get("CLAIMFLOW_DATA") or ROOT / "data") / self.name

    # What subclasses write

    def read_claims(self, split: str) -> list[Claim]:
        """All claims of a split, in file order."""
        raise NotImplementedError

    def sources(self, claim: Claim) -> list[Path]:
        """The files that the documents for `claim` come from."""
        raise NotImplementedError

    def versions(self, claim: Claim) -> list[str]:
        """Names and digests of what the documents for `claim` come from: where all claims share
        them, they are read once for each list."""
        return [self._version(path) for path in self.sources(claim)]

    def _version(self, path: Path) -> str:
        """A file by its place below the folder (elsewhere by its name) and its content."""
        below = path.is_relative_to(self.folder)
        return f"{path.relative_to(self.folder) if below else path.name} {file_digest(path)}"

    def read_documents(self, claim: Claim) -> list[Document]:
        """The documents that evidence for `claim` is sought in."""
        raise NotImplementedError

    # What subclasses use

    def claim_file(self, split: str, names: Iterable[str]) -> Path:
        """The first of `names` that is there, else an error for a missing or unknown split."""
        names = list(names)
        if split in self.splits or any((self.folder / name).exists() for name in names):
            return self.find(names, f"the claims of split {split}")
        raise MissingFileError(
            f"{self.name} has no split '{split}'.{nearest(split, self.splits)} "
            f"Published splits: {', '.join(self.splits)}. Own ones are files {' or '.join(names)} "
            f"in {self.folder.absolute()}{self._holds()}."
        )

    def find(self, names: Iterable[str], what: str) -> Path:
        """The first of `names` below the folder that is there, or an error that says all."""
        names = list(names)
        for name in names:
            if (self.folder / name).exists():
                return self.folder / name
        remedy = (
            ". Set path=FOLDER, or CLAIMFLOW_DATA to the folder that holds all data sets."
            if self.path is None
            else f"{self._holds()}. Put it there, or name another folder with path=FOLDER."
        )
        raise MissingFileError(
            f"No {' or '.join(names)} ({what}): looked for in {self.folder.absolute()}{remedy}"
            f"{self._source()}"
        )

    def _source(self) -> str:
        """Where the files come from, a sentence; of a folder of one's own, only the official."""
        if self.published:
            place = f" path={shlex.quote(str(self.path))}" if self.path else ""
            return (
                f" `python -m flows.fetch dataset={self.name}{place}` gets the official files "
                f"(split=NAME: those of one split), which are published at {self.published}."
            )
        return "" if self.path else f" `dvc pull` lays out the files of {self.name}."

    def _holds(self) -> str:
        """What stands in the folder of the files, in words."""
        if not self.folder.is_dir():
            return ", which is no folder"
        found = sorted(p.name + "/" * p.is_dir() for p in self.folder.glob("[!.]*"))
        more = ", …" if len(found) > SHOWN else ""
        return f", which holds {', '.join(found[:SHOWN])}{more}" if found else ", which is empty"

    def records(
        self, path: Path, type: Any, lines: Iterator[tuple[int, Any]] | None = None
    ) -> Iterator[tuple[int, Any]]:
        """(line number, record) of a file, which must hold one at least; lines: where they come
        from, if not from `path` itself."""
        known, empty = len(self.bad), True
        for number, record in lines or read_lines(path, type, self.on_error, self.bad):
            empty = False
            yield number, record
        if empty:
            bad = len(self.bad) - known
            reason = f"has nothing that can be read, bad lines: {bad}" if bad else "is empty"
            again = f" Get it again.{self._source()}" if self.path is None else " Write it anew."
            raise ClaimflowError(f"{path} {reason}.{again}")

    def bad_line(self, path: Path, line: int, error: Exception) -> None:
        """Stop at, or note, a record that reads well and says something impossible."""
        report(
            BadLine(file=str(path), line=line, reason=plain(error)),
            self.on_error,
            self.bad,
        )

    # What flows call

    def claims(self) -> list[Claim]:
        """The claims of the evaluated split that `ids` and `limit` leave."""
        if self.limit is not None and self.limit < 1:
            raise ClaimflowError(f"limit={self.limit} leaves no claim: give 1 or more, or null.")
        claims = self.read_claims(self.split)
        if self.ids is not None:
            wanted = [str(i) for i in self.ids]
            if not wanted or len(set(wanted)) < len(wanted):
                raise ClaimflowError(f"ids={wanted} must name claims, each once.")
            by_id = {claim.id: claim for claim in claims}
            missing = [i for i in wanted if i not in by_id]
            if missing:
                raise ClaimflowError(
                    f"{self.name} {self.split} has no claim {', '.join(missing[:5])}. "
                    f"Its {len(claims)} ids run from {claims[0].id} to {claims[-1].id}: "
                    f"give some of those. {' '.join(skipped(self.bad))}".rstrip()
                )
            claims = [by_id[i] for i in wanted]
        return claims[: self.limit]

    def train(self, evaluated: list[Claim]) -> tuple[list[Claim], list[Claim]]:
        """(training claims, those dropped because their text is also among `evaluated`)."""
        if self.train_split is None:
            return [], []
        seen = {normalised(claim.text) for claim in evaluated}
        kept: list[Claim] = []
        dropped: list[Claim] = []
        for claim in self.read_claims(self.train_split):
            (dropped if normalised(claim.text) in seen else kept).append(claim)
        return kept, dropped


def normalised(text: str) -> str:
    """Claim text for comparison by content: case, white space and Unicode form don't count."""
    return " ".join(unicodedata.normalize("NFC", text.casefold()).split())


def checked_label(label: str | None, labels: Iterable[str]) -> str | None:
    """`label` if it is None or one of `labels`, else an error with the nearest one."""
    if label is None or label in labels:
        return label
    raise ClaimflowError(
        f"unknown label '{label}'.{nearest_label(label, labels)} Labels: {', '.join(labels)}"
    )


def _reader(dataset: Dataset) -> Any:
    """What makes documents of files: the code of a data set, and its parameters but for those that
    choose claims or files."""
    choice = {field.name for field in dataclasses.fields(Dataset)} - {"on_error"}
    return identity(dataset, choice)


def case_refs(dataset: Dataset, claims: list[Claim], cache: Cache) -> list[CaseRef]:
    """Cases to begin a pipeline with. Documents are parsed once for each state of their files.

    A claim whose documents can't be read stops the run, or with on_error="skip" is marked failed.
    """
    reader = _reader(dataset)
    known: dict[str, str] = {}
    refs = []
    for claim in claims:
        fields = {"claim": cache.put(encode(claim))}
        error = None
        try:
            own = () if dataset.shared else (claim, dataset.split)
            key = key_of("documents", reader, dataset.versions(claim), *own)
            if key not in known:
                action = cache.lookup(key)
                if action is None:
                    bad = len(dataset.bad)
                    action = Action(outputs=[cache.put(encode(dataset.read_documents(claim)))])
                    if len(dataset.bad) == bad:  # a skipped line is reported by every run
                        cache.record(key, action)
                known[key] = action.outputs[0]
            fields["documents"] = known[key]
        except ClaimflowError as problem:
            if dataset.on_error != "skip":
                raise
            error = f"documents: {problem}"
        refs.append(CaseRef(id=claim.id, fields=fields, error=error))
    return refs
