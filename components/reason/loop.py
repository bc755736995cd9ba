"""A pipeline that is run again on the cases that are still open."""

from __future__ import annotations

import dataclasses

import msgspec

from components.errors import ClaimflowError
from components.pipeline import CaseRef, load, run_step
from components.reason.nested import Nested, spent
from components.reason.next_question import new
from components.reason.questions import unique
from components.records import AVERITEC_LABELS, Case, Evidence, encode
from components.step import Context, Step

NEEDED = ("evidence", "verdict")  # of a claim that was never asked about there are no queries


@dataclasses.dataclass(kw_only=True)
class Loop(Nested):
    """Runs `steps` in order, round after round, on the claims that are not settled.

    A claim is settled when a step gives it a verdict with a label in `until`, when a step that
    writes questions has none left to ask, or after `rounds`. Evidence grows: what a round finds
    stands behind that of the rounds before, and later rounds see all of it. So do the questions in
    `asked`, with an answer or without, so that no round asks them again. With
    until=[Supported, Refuted] this is the multi-hop loop of Papelo (AVeriTeC 2024); with all but
    Not Enough Evidence that of FZIGOT (2025).

    Each round of each step is in the cache by itself, as the steps of a pipeline are. A remark
    says which round settled each claim, by its label or for want of a further question, or that
    none did, where `until` names a label; `rounds` says what each round asked, found and thought.
    A claim that has evidence from before the loop and no question in it goes on as it came.
    """

    steps: dict[str, Step]
    until: list[str]
    rounds: int = 5

    def inner(self) -> dict[str, Step]:
        return self.steps

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.rounds < 1:
            raise ClaimflowError(f"A loop needs rounds of 1 or more, not {self.rounds}.")
        if not self.steps:
            raise ClaimflowError("A loop needs steps.")
        if unknown := set(self.until) - set(AVERITEC_LABELS):
            raise ClaimflowError(
                f"until: unknown label '{min(unknown)}'. Labels: {', '.join(AVERITEC_LABELS)}"
            )

    @property
    def reads(self) -> tuple[str, ...]:  # type: ignore[override]
        """What its steps read, and what they write, which stays where they have no question."""
        read = dict.fromkeys(field for step in self.steps.values() for field in step.reads)
        return tuple(read | dict.fromkeys((*self.writes, "evidence")))

    @property
    def writes(self) -> tuple[str, ...]:  # type: ignore[override]
        fields = dict.fromkeys(field for step in self.steps.values() for field in step.writes)
        asked = ("asked",) if "questions" in fields else ()
        return tuple(dict.fromkeys((*fields, *asked, "remarks", "rounds")))

    def run(self, cases: list[Case], ctx: Context) -> list[Case]:
        refs = {
            case.claim.id: CaseRef(
                id=case.claim.id,
                fields={f: case.digests[f] for f in self.reads if f in case.digests},
            )
            for case in cases
        }
        settled: dict[str, str] = {}
        told: dict[str, list[str]] = {case.claim.id: list(case.rounds) for case in cases}
        for number in range(1, self.rounds + 1):
            for name, step in self.steps.items():
                open_ = [ref for ref in refs.values() if ref.id not in settled and not ref.error]
                if not open_:
                    break
                for before, after in zip(
                    open_, run_step(step, f"{name}, round {number}", open_, ctx), strict=True
                ):
                    if not after.error and (how := self._settles(step, after, ctx)):
                        settled[after.id] = f"{how} in round {number} of {self.rounds}"
                    refs[after.id] = self._grown(step, before, after, ctx)
                    told[after.id] += [
                        f"round {number}, {name}: {line}" for line in self._told(step, after, ctx)
                    ]
            refs = {name: self._remembered(ref, ctx) for name, ref in refs.items()}
        for case in cases:
            ref = refs[case.claim.id]
            spent(ref, ctx)
            self._finish(case, ref, settled.get(case.claim.id), ctx)
            case.rounds = told[case.claim.id]
        return cases

    def _settles(self, step: Step, ref: CaseRef, ctx: Context) -> str | None:
        """What settles a claim after a step, in words; None: nothing."""
        case = load(ref, step.writes, ctx.cache)
        if "questions" in step.writes and not case.questions:
            return "no further question"
        if "verdict" in step.writes and case.verdict and case.verdict.label in self.until:
            return "settled"
        return None

    def _grown(self, step: Step, before: CaseRef, after: CaseRef, ctx: Context) -> CaseRef:
        """`after`, with the evidence of earlier rounds in front of what this one found."""
        if "evidence" not in step.writes or "evidence" not in before.fields or after.error:
            return after
        old: list[Evidence] = load(before, ("evidence",), ctx.cache).evidence
        more = [e for e in load(after, ("evidence",), ctx.cache).evidence if e not in old]
        digest = ctx.cache.put(encode([*old, *more]))
        return msgspec.structs.replace(after, fields={**after.fields, "evidence": digest})

    def _remembered(self, ref: CaseRef, ctx: Context) -> CaseRef:
        """`ref`, behind a round, with its questions among those that were asked."""
        if ref.error or "asked" not in self.writes:
            return ref
        case = load(ref, ("asked", "questions"), ctx.cache)
        digest = ctx.cache.put(encode(unique([*case.asked, *case.questions])))
        return msgspec.structs.replace(ref, fields={**ref.fields, "asked": digest})

    def _told(self, step: Step, after: CaseRef, ctx: Context) -> list[str]:
        """What a step gave to a claim, in words."""
        if after.error:
            return [f"failed: {after.error}"]
        case = load(after, step.writes, ctx.cache)
        lines = [short(question) for question in case.questions]
        lines += [f"{short(pair.question)} – {short(pair.answer)}" for pair in case.evidence]
        if "evidence" in step.writes:
            asked = load(after, ("questions",), ctx.cache).questions
            dropped = new(asked, (pair.question for pair in case.evidence))
            lines += [f"{short(question)} – without an answer" for question in dropped]
        if case.hits:
            lines.append(f"{len(case.hits)} passages, the first of {case.hits[0].doc}")
        if case.verdict:
            reply = case.verdict.justification
            lines.append(case.verdict.label + (f" – {short(reply)}" if reply else ""))
        if not lines and "queries" not in step.writes:
            lines.append("nothing")
        return lines

    def _finish(self, case: Case, ref: CaseRef, settled: str | None, ctx: Context) -> None:
        if ref.error:
            case.failed = ref.error
            return
        done = load(ref, self.writes, ctx.cache)
        if missing := [f for f in self.writes if f in NEEDED and f not in ref.fields]:
            case.failed = f"the loop ended before it had {', '.join(missing)}"
            return
        for field in self.writes:
            setattr(case, field, getattr(done, field))
        if self.until:
            case.remarks = [*done.remarks, settled or f"not settled in {self.rounds} rounds"]


def short(text: str) -> str:
    """A text on one line, 160 characters of it at most."""
    line = " ".join(text.split())
    return line if len(line) <= 160 else f"{line[:159]}…"
