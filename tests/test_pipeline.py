"""What a step computes again, and what it does not."""

from __future__ import annotations

import dataclasses
import threading
import uuid
from pathlib import Path
from typing import Any, ClassVar

import pytest

from components import step as step_module
from components.cache import Cache
from components.errors import ClaimflowError
from components.pipeline import CaseRef, from_cache, load, run_step, store
from components.records import Case, Claim, Document, Query
from components.step import Context, Step, TrainedStep, _parse, code_version, identity

calls: list[tuple[str, list[str]]] = []


@dataclasses.dataclass(kw_only=True)
class Ask(Step):
    """A query of each claim's text and a suffix."""

    reads: ClassVar = ("claim",)
    writes: ClassVar = ("queries",)
    suffix: str = "?"
    prompt: Path | None = None

    def run(self, cases: list[Case], ctx: Context) -> list[Case]:
        calls.append(("ask", [case.claim.id for case in cases]))
        for case in cases:
            case.queries = [Query(text=case.claim.text.lower() + self.suffix)]
        return cases


@dataclasses.dataclass(kw_only=True)
class Count(Step):
    """Reads queries alone."""

    reads: ClassVar = ("queries",)
    writes: ClassVar = ("dropped",)
    fail_on: str | None = None

    def run(self, cases: list[Case], ctx: Context) -> list[Case]:
        calls.append(("count", [case.claim.id for case in cases]))
        for case in cases:
            assert case.claim.text == ""  # not in reads, so it can't be used by mistake
            if case.queries[0].text == self.fail_on:
                case.failed = "no luck"
            case.dropped = {"length": len(case.queries[0].text)}
        return cases


@dataclasses.dataclass(kw_only=True)
class Learn(TrainedStep):
    """Learns the number of training claims."""

    reads: ClassVar = ("claim",)
    writes: ClassVar = ("dropped",)

    def fit(self, train: list[Claim], folder: Path, ctx: Context) -> None:
        calls.append(("fit", [claim.id for claim in train]))
        (folder / "n").write_text(str(len(train)))

    def run(self, cases: list[Case], ctx: Context) -> list[Case]:
        n = int((Path(ctx.model(self).path) / "n").read_text())
        for case in cases:
            case.dropped = {"n": n}
        return cases


@pytest.fixture(autouse=True)
def forget() -> None:
    calls.clear()


@pytest.fixture
def ctx(tmp_path: Path) -> Context:
    return Context(Cache(tmp_path / "cache"))


def refs(ctx: Context, *texts: str) -> list[CaseRef]:
    cases = [Case(claim=Claim(id=str(i), text=text)) for i, text in enumerate(texts)]
    return [store(case, ("claim",), ctx.cache) for case in cases]


def test_nothing_is_computed_again(ctx: Context) -> None:
    given = refs(ctx, "A", "B")
    first = run_step(Ask(), "ask", given, ctx)
    again = run_step(Ask(), "ask", given, Context(Cache(ctx.cache.folder)))
    assert calls == [("ask", ["0", "1"])]
    assert [r.fields for r in first] == [r.fields for r in again]
    assert [r.trace[0].cached for r in again] == [True, True]
    assert all(from_cache(Ask(), "ask", given, ctx))


def test_a_changed_claim_alone_is_computed_again(ctx: Context) -> None:
    run_step(Ask(), "ask", refs(ctx, "A", "B", "C"), ctx)
    run_step(Ask(), "ask", refs(ctx, "A", "changed", "C"), ctx)
    assert calls[1:] == [("ask", ["1"])]


def test_a_change_that_leaves_a_field_as_it_was_stops_there(ctx: Context) -> None:
    run_step(Count(), "count", run_step(Ask(), "ask", refs(ctx, "A claim"), ctx), ctx)
    run_step(Count(), "count", run_step(Ask(), "ask", refs(ctx, "a CLAIM"), ctx), ctx)
    assert [name for name, _ in calls] == ["ask", "count", "ask"]


def test_a_config_number_changes_the_key(ctx: Context) -> None:
    given = refs(ctx, "A")
    run_step(Ask(suffix="?"), "ask", given, ctx)
    run_step(Ask(suffix="!"), "ask", given, ctx)
    assert len(calls) == 2


def test_editing_a_prompt_in_place_changes_the_key(ctx: Context, tmp_path: Path) -> None:
    given, prompt = refs(ctx, "A"), tmp_path / "prompt.txt"
    prompt.write_text("Ask well.")
    run_step(Ask(prompt=prompt), "ask", given, ctx)
    moved = prompt.rename(tmp_path / "moved.txt")  # the name is not the content
    run_step(Ask(prompt=moved), "ask", given, ctx)
    assert len(calls) == 1
    moved.write_text("Ask best.")  # as long as before
    run_step(Ask(prompt=moved), "ask", given, ctx)
    assert len(calls) == 2


def test_editing_a_model_folder_changes_the_key(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "weights").write_bytes(b"1")
    before = identity({"model": tmp_path / "model"})
    (tmp_path / "model" / "weights").write_bytes(b"2")
    assert identity({"model": tmp_path / "model"}) != before


@pytest.mark.parametrize(
    ("edit", "same"),
    [
        ("# a comment\n", True),
        ('"""A docstring."""\n', True),
        ("LIMIT = 3\n", False),
    ],
)
@pytest.mark.parametrize("where", ["__init__", "helper"])
def test_editing_code_changes_the_key_but_comments_do_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, edit: str, same: bool, where: str
) -> None:
    name = f"package_{uuid.uuid4().hex}"
    package = tmp_path / name
    package.mkdir()
    (package / "__init__.py").write_text(f"from {name}.helper import x\n")
    (package / "helper.py").write_text("x = 1\n")
    monkeypatch.syspath_prepend(tmp_path)

    def version() -> str:
        code_version.cache_clear()
        _parse.cache_clear()
        return code_version(name)

    before = version()
    edited = package / f"{where}.py"
    edited.write_text(edit + edited.read_text())
    assert (version() == before) is same


def test_a_package_upgrade_changes_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    code_version.cache_clear()
    before = code_version("components.records")  # uses msgspec
    monkeypatch.setattr(step_module.importlib.metadata, "version", lambda name: "999")
    code_version.cache_clear()
    assert code_version("components.records") != before
    code_version.cache_clear()


def test_language_data_is_in_the_key_of_what_reads_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wordnet = tmp_path / "nltk_data" / "corpora" / "wordnet"
    wordnet.mkdir(parents=True)
    monkeypatch.setenv("CLAIMFLOW_HOME", str(tmp_path))

    def versions(text: str) -> list[str]:
        (wordnet / "index.noun").write_text(text)
        code_version.cache_clear()
        return [code_version(f"components.{name}") for name in ("score.averitec", "cache")]

    before, after = versions("ferry"), versions("boats")
    code_version.cache_clear()
    assert before[0] != after[0]
    assert before[1] == after[1]


def test_cases_that_agree_on_what_is_read_are_computed_once(ctx: Context) -> None:
    out = run_step(Ask(), "ask", refs(ctx, "A", "B"), ctx)
    for ref in out:
        ref.fields["queries"] = out[0].fields["queries"]
    counted = run_step(Count(), "count", out, ctx)
    assert calls[-1] == ("count", ["0"])
    assert counted[0].fields["dropped"] == counted[1].fields["dropped"]


def test_a_failed_case_costs_itself_alone_and_is_tried_again(ctx: Context) -> None:
    asked = run_step(Ask(), "ask", refs(ctx, "A", "B"), ctx)
    out = run_step(Count(fail_on="b?"), "count", asked, ctx)
    assert out[0].error is None
    assert out[1].error == "count: no luck"
    assert run_step(Ask(suffix="x"), "ask", out, ctx)[1].error  # later steps leave it alone
    calls.clear()
    run_step(Count(fail_on="b?"), "count", asked, ctx)
    assert calls == [("count", ["1"])]


def test_two_threads_with_the_same_batch_compute_it_once(ctx: Context) -> None:
    given = refs(ctx, *"ABCDEFGH")
    threads = [
        threading.Thread(
            target=run_step, args=(Ask(), "ask", given, Context(Cache(ctx.cache.folder)))
        )
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(calls) == 1


def test_a_trained_step_is_fitted_once_for_each_training_set(ctx: Context) -> None:
    given = refs(ctx, "A")
    train = [Claim(id="t", text="T")]
    for claims in (train, train, [*train, Claim(id="u", text="U")]):
        out = run_step(Learn(), "learn", given, Context(ctx.cache, claims))
    assert calls == [("fit", ["t"]), ("fit", ["t", "u"])]
    assert load(out[0], ("dropped",), ctx.cache).dropped == {"n": 2}


def test_a_trained_step_without_training_claims_says_what_to_do(ctx: Context) -> None:
    with pytest.raises(ClaimflowError, match="train_split"):
        run_step(Learn(), "learn", refs(ctx, "A"), ctx)


def test_a_step_must_return_the_cases_it_was_given(ctx: Context) -> None:
    class Loses(Ask):
        def run(self, cases: list[Case], ctx: Context) -> list[Case]:
            return super().run(cases, ctx)[:-1]

    with pytest.raises(ClaimflowError, match="must return the cases"):
        run_step(Loses(), "loses", refs(ctx, "A", "B"), ctx)


def test_a_large_field_is_decoded_once(ctx: Context) -> None:
    shared = [Document(id="d", sentences=["One."])]
    cases = [Case(claim=Claim(id=i, text=i), documents=shared) for i in "ab"]
    loaded: list[Any] = [
        load(store(case, ("claim", "documents"), ctx.cache), ("documents",), ctx.cache).documents
        for case in cases
    ]
    assert loaded[0] is loaded[1]
