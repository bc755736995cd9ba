"""What a step computes again, and what it does not."""

from __future__ import annotations

import dataclasses
import math
import sys
import threading
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, ClassVar

import msgspec
import pytest

from components import step as step_module
from components.cache import Cache, key_of
from components.errors import ClaimflowError
from components.pipeline import CaseRef, from_cache, load, run_step, store
from components.reason.nested import Nested
from components.records import Answer, Case, Claim, Document, Query
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
        calls.append(("count", [case.queries[0].text for case in cases]))
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


@dataclasses.dataclass(kw_only=True)
class Edits(Ask):
    """Its prompt is edited while it runs."""

    def run(self, cases: list[Case], ctx: Context) -> list[Case]:
        assert self.prompt
        self.prompt.write_text("Ask otherwise.")
        return super().run(cases, ctx)


def test_a_prompt_edited_while_a_step_runs_leaves_nothing_behind(
    ctx: Context, tmp_path: Path
) -> None:
    given, prompt = refs(ctx, "A"), tmp_path / "prompt.txt"
    prompt.write_text("Ask well.")
    with pytest.raises(ClaimflowError, match=r"step ask reads .* was edited while it ran"):
        run_step(Edits(prompt=prompt), "ask", given, ctx)
    prompt.write_text("Ask well.")
    assert from_cache(Edits(prompt=prompt), "ask", given, ctx) == [None]


@pytest.mark.parametrize(
    ("uses", "flag"),
    [(lambda ctx: ctx.seed_for("draw"), "seeded"), (lambda ctx: ctx.train, "needs_train")],
)
def test_a_step_says_what_else_is_in_its_key(ctx: Context, uses: Any, flag: str) -> None:
    class Uses(Ask):
        def run(self, cases: list[Case], ctx: Context) -> list[Case]:
            with ThreadPoolExecutor(1) as pool:
                pool.submit(uses, ctx).result()
            return super().run(cases, ctx)

    with pytest.raises(ClaimflowError, match=rf"^Uses uses ctx\..* say `{flag}: ClassVar = True`"):
        run_step(Uses(), "ask", refs(ctx, "A"), ctx)
    setattr(Uses, flag, True)
    run_step(Uses(), "ask", refs(ctx, "A"), ctx)


def test_training_claims_are_in_the_key_of_a_trained_step_or_refused(tmp_path: Path) -> None:
    class Looks(Learn):
        folder: Path | None = None

        def given(self) -> Path | None:
            return self.folder

        def run(self, cases: list[Case], ctx: Context) -> list[Case]:
            return [msgspec.structs.replace(c, dropped={"n": len(ctx.train)}) for c in cases]

        def fit(self, train: list[Claim], folder: Path, ctx: Context) -> None:
            (folder / "n").write_text("the same")

    step, found = Looks(), []
    for n in (1, 2):
        ctx = Context(Cache(tmp_path / "cache"), [Claim(id=str(i), text="t") for i in range(n)])
        [ref] = run_step(step, "looks", refs(ctx, "A"), ctx)
        found.append(load(ref, ("dropped",), ctx.cache).dropped)
    assert found == [{"n": 1}, {"n": 2}]
    step.folder = tmp_path / "given"
    step.folder.mkdir()
    with pytest.raises(ClaimflowError, match=r"Looks uses ctx.train, .* take what `fit` learned"):
        run_step(step, "looks", refs(ctx, "A"), ctx)


def test_a_step_that_runs_one_that_learns_is_keyed_by_the_training_claims_or_refused(
    tmp_path: Path,
) -> None:
    @dataclasses.dataclass(kw_only=True)
    class Around(Step):
        reads: ClassVar = ("claim",)
        writes: ClassVar = ("questions",)
        by: Learn = dataclasses.field(default_factory=Learn)

        def run(self, cases: list[Case], ctx: Context) -> list[Case]:
            ctx.model(self.by)
            return cases

    @dataclasses.dataclass(kw_only=True)
    class Declared(Nested):
        reads: ClassVar = ("claim",)
        writes: ClassVar = ("dropped",)
        by: Learn = dataclasses.field(default_factory=Learn)

        def inner(self) -> dict[str, Step]:
            return {"by": self.by}

        def run(self, cases: list[Case], ctx: Context) -> list[Case]:
            n = len(Path(ctx.model(self.by).path).joinpath("n").read_text())
            return [msgspec.structs.replace(c, dropped={"n": n}) for c in cases]

    told, found = "Around runs Learn, which uses training claims, .* `.*Nested`", []
    for n in (1, 10):
        ctx = Context(Cache(tmp_path / "cache"), [Claim(id=str(i), text="t") for i in range(n)])
        with pytest.raises(ClaimflowError, match=told):
            run_step(Around(), "around", refs(ctx, "A"), ctx)
        [ref] = run_step(Declared(), "declared", refs(ctx, "A"), ctx)
        found.append(load(ref, ("dropped",), ctx.cache).dropped)
    assert found == [{"n": 1}, {"n": 2}]


@dataclasses.dataclass(kw_only=True)
class Drawn(Ask):
    seeded: ClassVar = True

    def run(self, cases: list[Case], ctx: Context) -> list[Case]:
        for case in cases:
            case.queries = [Query(text=str(ctx.seed_for("draw")))]
        return cases


def test_a_step_that_runs_a_seeded_one_is_seeded_or_refused(ctx: Context) -> None:
    @dataclasses.dataclass(kw_only=True)
    class Around(Ask):
        by: Drawn = dataclasses.field(default_factory=Drawn)

        def run(self, cases: list[Case], ctx: Context) -> list[Case]:
            refs = [store(case, ("claim",), ctx.cache) for case in cases]
            done = run_step(self.by, "by", refs, ctx)
            return [load(ref, ("claim", "queries"), ctx.cache) for ref in done]

    with pytest.raises(ClaimflowError, match="Around runs Drawn, which uses the seed"):
        run_step(Around(), "around", refs(ctx, "A"), ctx)
    Around.seeded = True  # type: ignore[misc]
    run_step(Around(), "around", refs(ctx, "A"), ctx)


def test_what_a_step_does_not_read_it_can_not_use(tmp_path: Path) -> None:
    """Not even which claim it is: another with the same queries has the same result."""

    @dataclasses.dataclass(kw_only=True)
    class Peeks(Step):
        reads: ClassVar = ("queries",)
        writes: ClassVar = ("remarks",)

        def run(self, cases: list[Case], ctx: Context) -> list[Case]:
            for case in cases:
                case.remarks = [case.claim.id, *sorted(case.digests)]
            return cases

    found = []
    for n, text in enumerate(("A", "a")):
        ctx = Context(Cache(tmp_path / str(n)))
        ref = run_step(Ask(), "ask", refs(ctx, *["x"] * n, text), ctx)[n]
        [done] = run_step(Peeks(), "peeks", [ref], ctx)
        found.append(load(done, ("remarks",), ctx.cache).remarks)
    assert found[0] == found[1]
    assert found[0][1:] == ["queries"]


def test_numbers_that_json_lacks_have_keys_of_their_own() -> None:
    values = (None, math.inf, -math.inf, math.nan)
    assert len({key_of(identity({"floor": value})) for value in values}) == 4


def test_packages_have_their_versions_however_they_are_called() -> None:
    from components.step import _package_version

    assert _package_version("yaml").startswith("PyYAML ")
    assert _package_version("not_installed") == "?"


class Plain:
    """No dataclass."""


def test_objects_are_in_the_key_by_class_and_content_or_refused() -> None:
    assert identity(Answer(answer="A", answer_type="B")) != identity(
        Document(id="A", sentences=("B",))
    )
    assert identity(Claim(id="1", text="A")) != identity(Claim(id="1", text="B"))
    with pytest.raises(ClaimflowError, match=r"A parameter is a Plain \(.*test_pipeline\), whose"):
        identity({"part": Plain()})


def test_the_order_of_parts_is_in_the_key() -> None:
    parts = {"first": Ask(), "second": Count()}
    assert identity(parts) != identity(dict(reversed(parts.items())))


@pytest.mark.parametrize("linked", [False, True])
def test_editing_a_model_folder_changes_the_key(tmp_path: Path, linked: bool) -> None:
    model, below = tmp_path / "model", tmp_path / "model" / "pooling"
    model.mkdir()
    if linked:
        (tmp_path / "elsewhere").mkdir()
        below.symlink_to(tmp_path / "elsewhere")
    else:
        below.mkdir()
    (below / "weights").write_bytes(b"1")
    before = identity({"model": model})
    (below / "weights").write_bytes(b"2")
    assert identity({"model": model}) != before
    (model / "again").symlink_to(model)
    with pytest.raises(ClaimflowError, match="again is a link to a folder that it stands in"):
        identity({"model": model})


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

    def version() -> str:  # of a process that begins
        monkeypatch.setattr(step_module, "_BEGAN", time.time_ns())
        code_version.cache_clear()
        _parse.cache_clear()
        for module in [module for module in sys.modules if module.startswith(name)]:
            del sys.modules[module]
        return code_version(name)

    before = version()
    edited = package / f"{where}.py"
    edited.write_text(edit + edited.read_text())
    assert (version() == before) is same


@pytest.mark.parametrize(
    ("line", "edited"),
    [
        ("from .helper import x\n", "helper"),
        ("from . import helper\n", "helper"),
        ("from ..other import x\n", "../other"),
        ("import {second}\n", "../../{second}"),
        ("from {second} import x\n", "../../{second}"),
        ("def late():\n    from .helper import x\n", "helper"),
        ("import importlib\nx = importlib.import_module('{second}').x\n", "../../{second}"),
        (
            "from importlib import import_module\nx = import_module('.helper', __package__)\n",
            "helper",
        ),
    ],
)
def test_code_is_followed_however_it_is_imported_and_is_imported_with_its_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str, edited: str
) -> None:
    name, second = f"package_{uuid.uuid4().hex}", f"module_{uuid.uuid4().hex}"
    steps = tmp_path / name / "steps"
    steps.mkdir(parents=True)
    line, file = line.format(second=second), steps / f"{edited.format(second=second)}.py"
    for path in (steps / "helper.py", steps / "../other.py", tmp_path / f"{second}.py"):
        path.write_text("x = 1\n")
    (steps / "step.py").write_text(line)
    monkeypatch.syspath_prepend(tmp_path)
    before = code_version(f"{name}.steps.step")
    named = [module for module in sys.modules if name in module or second in module]
    assert any(module.endswith(file.stem) for module in named)  # an edit from here on is not run
    file.write_text("x = 2\n")
    assert code_version(f"{name}.steps.step") == before
    found = set()
    for _ in range(2):  # read anew, but imported before: a key that nobody finds again
        code_version.cache_clear()
        _parse.cache_clear()
        found.add(code_version(f"{name}.steps.step"))
    assert len(found - {before}) == 2


def package(folder: Path, monkeypatch: pytest.MonkeyPatch, step: str) -> str:
    """The name of a package whose module `step` has these lines; NAME in them is the name."""
    name = f"package_{uuid.uuid4().hex}"
    (folder / name).mkdir()
    (folder / name / "__init__.py").write_text("")
    (folder / name / "step.py").write_text(step.replace("NAME", name))
    monkeypatch.syspath_prepend(folder)
    return name


def test_an_optional_import_that_fails_is_in_the_key_and_harms_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = "try:\n    from NAME import extra\nexcept ImportError:\n    extra = None\n"
    name = package(tmp_path, monkeypatch, lines)
    (tmp_path / name / "extra.py").write_text("import not_installed\n")
    before = code_version(f"{name}.step")
    (tmp_path / name / "extra.py").write_text("import not_installed_either\n")
    code_version.cache_clear()
    _parse.cache_clear()
    assert code_version(f"{name}.step") != before


def test_an_import_below_a_module_that_is_not_there_harms_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = "try:\n    from NAME.gone.deep import x\nexcept ImportError:\n    x = None\n"
    name = package(tmp_path, monkeypatch, lines)
    assert code_version(f"{name}.step")


@pytest.mark.parametrize("folder", ["given", "dist-packages"])
def test_installed_anywhere_a_package_counts_by_its_version(
    folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`pip install --target`, a distribution's own folder: its code is not read, as it would be
    for torch otherwise."""
    top = f"package_{uuid.uuid4().hex}"
    installed = tmp_path / folder
    (installed / top).mkdir(parents=True)
    (installed / top / "__init__.py").write_text("import nothing_there\n")
    if folder == "given":
        (installed / "other-1.0.dist-info").mkdir()
    own = tmp_path / "own"
    own.mkdir()
    (own / f"{top}_step.py").write_text(f"import {top}\n")
    monkeypatch.syspath_prepend(installed)
    monkeypatch.syspath_prepend(own)
    before = code_version(f"{top}_step")
    (installed / top / "__init__.py").write_text("import nothing_here\n")
    code_version.cache_clear()
    _parse.cache_clear()
    assert code_version(f"{top}_step") == before


def test_a_package_of_ones_own_is_keyed_by_the_components_that_it_uses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"module_{uuid.uuid4().hex}"
    (tmp_path / f"{name}.py").write_text("from components.records import Case\n")
    monkeypatch.syspath_prepend(tmp_path)
    before = code_version(name)
    parsed = step_module._parse
    other = {"components.records": ("edited", set())}
    monkeypatch.setattr(step_module, "_parse", lambda module: other.get(module) or parsed(module))
    code_version.cache_clear()
    assert code_version(name) != before
    code_version.cache_clear()


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
    assert calls[-1] == ("count", ["a?"])
    assert counted[0].fields["dropped"] == counted[1].fields["dropped"]


def test_a_failed_case_costs_itself_alone_and_is_tried_again(ctx: Context) -> None:
    asked = run_step(Ask(), "ask", refs(ctx, "A", "B"), ctx)
    out = run_step(Count(fail_on="b?"), "count", asked, ctx)
    assert out[0].error is None
    assert out[1].error == "count: no luck"
    assert run_step(Ask(suffix="x"), "ask", out, ctx)[1].error  # later steps leave it alone
    calls.clear()
    run_step(Count(fail_on="b?"), "count", asked, ctx)
    assert calls == [("count", ["b?"])]


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
    assert loaded[0][0] is loaded[1][0]


def test_a_step_changes_no_document_of_others(ctx: Context) -> None:
    ref = store(
        Case(claim=Claim(id="a", text="a"), documents=[Document(id="d")]), ("documents",), ctx.cache
    )
    case = load(ref, ("documents",), ctx.cache)
    with pytest.raises(AttributeError, match="immutable"):
        case.documents[0].title = "Another"  # type: ignore[misc]
    assert isinstance(case.documents[0].sentences, tuple)
    case.documents.clear()
    assert len(load(ref, ("documents",), ctx.cache).documents) == 1
