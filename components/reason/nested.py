"""Steps that run other steps inside. Each of those is in the cache by itself."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Iterator

from components.errors import ClaimflowError
from components.pipeline import CaseRef, load, run_step, store
from components.records import Case, Claim, Evidence
from components.step import Context, Step, TrainedStep


@dataclasses.dataclass(kw_only=True)
class Nested(Step):
    """Base of steps that run others inside: what those need, it needs."""

    def inner(self) -> dict[str, Step]:
        """The steps inside, by name."""
        raise NotImplementedError(type(self).__name__)

    def __post_init__(self) -> None:
        inner = self.inner().values()
        trained = learns(self)
        self.needs_train = trained or any(step.needs_train for step in inner)  # type: ignore[misc]
        self.seeded = trained or any(step.seeded for step in inner)  # type: ignore[misc]
        self.outside = any(step.outside for step in inner)  # type: ignore[misc]


def learns(step: Step) -> bool:
    """Whether a step, or one inside it, learns from the training claims."""
    if isinstance(step, TrainedStep):
        return step.needs_train
    return isinstance(step, Nested) and any(map(learns, step.inner().values()))


def spent(ref: CaseRef, ctx: Context) -> None:
    """Count what the steps inside cost a run that was killed, and so cost this one."""
    for cost in ref.trace:
        if cost.cached:
            ctx.tokens["prompt"] += round(cost.prompt_tokens)
            ctx.tokens["completion"] += round(cost.completion_tokens)


def judged(step: Step, name: str, cases: list[Case], ctx: Context) -> list[Case]:
    """Claims with evidence, with the verdict of `step` and its remarks, or `failed`."""
    refs = [store(case, ("claim", "evidence"), ctx.cache) for case in cases]
    found = []
    for ref in run_step(step, name, refs, ctx):
        spent(ref, ctx)
        done = load(ref, ("claim", "evidence", "verdict", "remarks"), ctx.cache)
        done.failed = ref.error
        found.append(done)
    return found


def each_pair(step: Step, name: str, cases: list[Case], ctx: Context) -> list[list[Case]]:
    """For each case its pairs of question and answer, each judged alone."""
    alone = [Case(claim=c.claim, evidence=[pair]) for c in cases for pair in c.evidence]
    done = iter(judged(step, name, alone, ctx))
    return [[next(done) for _ in case.evidence] for case in cases]


def gold_folds(
    step: Step, train: list[Claim], ctx: Context, folds: int, most: int | None
) -> Iterator[tuple[list[Case], Context]]:
    """Training claims with a label and their gold evidence, for `step` to judge.

    For a step that learns these come in folds, each with a context whose training claims are the
    other folds, so that no claim is judged by a model that knows it (stacked generalisation,
    Wolpert 1992). most: of the claims, chosen by seed, as a language model takes long for
    thousands; None: all.
    """
    usable = [claim for claim in train if claim.label and gold_pairs(claim)]
    if not usable:
        raise ClaimflowError(
            f"None of the {len(train)} training claims has a label and gold questions with answers "
            "to learn from. Name a split that has them with dataset.train_split=…, or choose "
            "another verdict, as llm."
        )
    if most is not None and len(usable) > most:
        rng = random.Random(ctx.seed_for("claims to judge"))
        usable = [usable[i] for i in sorted(rng.sample(range(len(usable)), most))]
    cases = [Case(claim=claim, evidence=gold_pairs(claim)) for claim in usable]
    if not learns(step):
        yield cases, ctx
        return
    for fold in range(folds):
        others = [claim for i, claim in enumerate(usable) if i % folds != fold]
        context = Context(ctx.cache, others, ctx.seed)
        yield cases[fold::folds], context
        for kind, count in context.tokens.items():
            ctx.tokens[kind] += count


def gold_pairs(claim: Claim) -> list[Evidence]:
    """The gold evidence of a claim: one pair an answer, with its explanation."""
    return [
        Evidence(
            question=question.question,
            answer=" ".join(filter(None, (answer.answer, answer.boolean_explanation))),
        )
        for question in claim.questions
        for answer in question.answers
    ]


def remarks_of(case: Case, inner: list[Case]) -> list[str]:
    """The remarks of a case with those of the steps inside, each once."""
    return list(dict.fromkeys([*case.remarks, *(r for one in inner for r in one.remarks)]))
