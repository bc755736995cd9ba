"""What a pipeline says of a claim in the terms of FEVER: one of its labels, and sentences."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from components.datasets.fever import LABELS
from components.errors import ClaimflowError
from components.labels import exact_label
from components.reason.verdict import verdict
from components.records import Case, Document, Finding, Passage, Verdict
from components.step import Context, Step


@dataclasses.dataclass(kw_only=True)
class FeverFindings(Step):
    """The sentences that the verdict was given as evidence, best first, each once, and the verdict
    by the name that FEVER has for it (Supported: SUPPORTS).

    limit: sentences at most; FEVER counts 5. They stand there whatever the label, as those of the
    shared task's systems do: its scorer asks for none where NOT ENOUGH INFO is right. A passage of
    several sentences gives all of them; one that is no run of whole sentences is an error.
    FEVER has no Conflicting Evidence/Cherrypicking: in its place stands the most probable of the
    other labels, or without probabilities NOT ENOUGH INFO, and a remark says so.
    """

    reads: ClassVar = ("documents", "passages", "evidence", "verdict", "remarks")
    writes: ClassVar = ("findings", "verdict", "remarks")
    limit: int = 5

    def __post_init__(self) -> None:
        if self.limit < 1:
            raise ClaimflowError(f"findings.limit is {self.limit}: give 1 or more sentences.")

    def run(self, cases: list[Case], ctx: Context) -> list[Case]:
        for case in cases:
            if case.verdict is None:
                raise ClaimflowError(
                    "findings=fever says a verdict in FEVER's terms, and no step gives one: choose "
                    "a verdict, or findings=none."
                )
            case.findings = self.findings(case)
            said = case.verdict.label
            case.verdict = in_fevers_terms(case.verdict)
            if exact_label(said, LABELS) is None:
                remark = f"{said}, which FEVER does not have, became {case.verdict.label}"
                case.remarks = [*case.remarks, remark]
        return cases

    def findings(self, case: Case) -> list[Finding]:
        """A finding for each of the first `limit` sentences."""
        documents = {document.id: document for document in case.documents}
        passages = {passage.id: passage for passage in case.passages}
        found = {
            (passages[name].doc, number): None
            for pair in case.evidence
            for name in pair.passages
            for number in sentences(passages[name], documents[passages[name].doc])
        }
        return [Finding(doc=doc, sentences=[n]) for doc, n in list(found)[: self.limit]]


def in_fevers_terms(said: Verdict) -> Verdict:
    """A verdict with FEVER's labels, and their probabilities if it has some."""
    named = {exact_label(label, LABELS): p for label, p in said.probabilities.items()}
    chances = {label: p for label, p in named.items() if label}
    total = sum(chances.values())
    label = exact_label(said.label, LABELS)
    if not total:
        return Verdict(label=label or LABELS[-1], justification=said.justification)
    found = verdict({x: p / total for x, p in chances.items()}, said.justification, LABELS)
    found.label = label or found.label
    return found


def sentences(passage: Passage, document: Document) -> list[int]:
    """The numbers of a passage's sentences in its document, empty ones left out.

    Raises ClaimflowError where it is no run of whole sentences.
    """
    start = int(passage.id.rpartition("#")[2].partition(".")[0])
    for end in range(start + 1, len(document.sentences) + 1):
        text = " ".join(document.sentences[start:end]).strip()
        if text == passage.text:
            return [n for n in range(start, end) if document.sentences[n].strip()]
        if len(text) > len(passage.text):
            break
    raise ClaimflowError(
        f"Passage {passage.id} is no run of whole sentences, and FEVER's evidence are sentences: "
        "choose chunker=each_sentence, or findings=none."
    )
