"""What every data set gives: claims of a split, training claims, and documents for a claim."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import ClassVar

from components.cache import Action, Cache, key_of
from components.errors import ClaimflowError
from components.files import file_digest
from components.pipeline import CaseRef
from components.records import BadLine, Claim, Document, encode
from components.step import code_version


@dataclasses.dataclass(kw_only=True)
class Dataset:
    """A data set on disk. Subclasses read one family of file formats.

    path: folder of the files. split: the evaluated split. train_split: where training claims and
    few-shot examples come from (None: no training claims). limit: only the first N claims of the
    split. ids: only these claim ids. on_error: "stop" at a bad line, or "skip" it and go on.
    """

    name: ClassVar[str] = ""

    path: Path
    split: str = "dev"
    train_split: str | None = "train"
    limit: int | None = None
    ids: list[str] | None = None
    on_error: str = "stop"
    bad: list[BadLine] = dataclasses.field(default_factory=list)

    def __post_init__(self) -> None:
        self.path = Path(self.path)

    # What subclasses write

    def read_claims(self, split: str) -> list[Claim]:
        """All claims of a split, in file order."""
        raise NotImplementedError

    def sources(self, claim: Claim) -> list[Path]:
        """The files that the documents for `claim` come from; equal lists share one corpus."""
        raise NotImplementedError

    def read_documents(self, claim: Claim) -> list[Document]:
        """The documents that evidence for `claim` is sought in."""
        raise NotImplementedError

    # What flows call

    def claims(self) -> list[Claim]:
        """The claims of the evaluated split that `ids` and `limit` leave."""
        claims = self.read_claims(self.split)
        if self.ids is not None:
            wanted = [str(i) for i in self.ids]
            by_id = {claim.id: claim for claim in claims}
            missing = [i for i in wanted if i not in by_id]
            if missing:
                raise ClaimflowError(
                    f"{self.name} {self.split} has no claim {', '.join(missing[:5])}. "
                    f"Its {len(claims)} ids run from {claims[0].id} to {claims[-1].id}."
                )
            claims = [by_id[i] for i in wanted]
        return claims[: self.limit] if self.limit is not None else claims

    def train(self, evaluated: list[Claim]) -> tuple[list[Claim], list[Claim]]:
        """(training claims, those dropped because their text is also among `evaluated`)."""
        if self.train_split is None:
            return [], []
        seen = {normalised(claim.text) for claim in evaluated}
        kept, dropped = [], []
        for claim in self.read_claims(self.train_split):
            (dropped if normalised(claim.text) in seen else kept).append(claim)
        return kept, dropped


def normalised(text: str) -> str:
    """Claim text for comparison by content: case and white space don't count."""
    return " ".join(text.casefold().split())


def case_refs(dataset: Dataset, claims: list[Claim], cache: Cache) -> list[CaseRef]:
    """Cases to begin a pipeline with. Documents are parsed once for each state of their files."""
    code = code_version(type(dataset).__module__)
    known: dict[str, str] = {}
    refs = []
    for claim in claims:
        sources = dataset.sources(claim)
        key = key_of("documents", code, dataset.on_error, [file_digest(p) for p in sources])
        if key not in known:
            action = cache.lookup(key)
            if action is None:
                action = Action(outputs=[cache.put(encode(dataset.read_documents(claim)))])
                if not dataset.bad:  # a skipped line is reported by every run
                    cache.record(key, action)
            known[key] = action.outputs[0]
        refs.append(
            CaseRef(
                id=claim.id,
                fields={"claim": cache.put(encode(claim)), "documents": known[key]},
            )
        )
    return refs
