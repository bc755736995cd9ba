"""Steps: what a pipeline is made of, and what makes two of them the same.

A step is a dataclass whose fields are its parameters. `run` maps a batch of cases to the same
batch with the fields in `writes` filled in; it may look only at the fields in `reads`.
"""

from __future__ import annotations

import ast
import dataclasses
import functools
import gc
import importlib.metadata
import importlib.util
import sys
import threading
import time
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any, ClassVar, Protocol

from components.cache import Action, Artifact, Cache, key_of
from components.errors import ClaimflowError
from components.files import ROOT, digest, file_digest, folder_digest, home
from components.records import Case, Claim


@dataclasses.dataclass(kw_only=True)
class Step:
    """Base of all steps. Subclasses add parameters as dataclass fields.

    Fields of type Path (models, prompts) enter the cache key by their content, not their name.
    """

    reads: ClassVar[tuple[str, ...]] = ()
    writes: ClassVar[tuple[str, ...]] = ()
    needs_train: ClassVar[bool] = False  # does `run` or `fit` use ctx.train?
    seeded: ClassVar[bool] = False  # does `run` use ctx.seed_for?
    unkeyed: ClassVar[tuple[str, ...]] = ()  # parameters that cannot change the output
    outside: ClassVar[bool] = False  # does it call something that may fail for a while?

    def run(self, cases: list[Case], ctx: Context) -> list[Case]:
        """Fill in `writes` of each case, in place or in a copy; same cases, same order."""
        raise NotImplementedError(type(self).__name__)


@dataclasses.dataclass(kw_only=True)
class TrainedStep(Step):
    """A step with parameters to learn from the training split before it can run.

    learns: fields of the training claims' cases that `fit` reads besides the claims, as the steps
    before this one write them for training claims; it gets them by `ctx.cases(self)`. unlearned:
    parameters that `fit` does not read: steps that differ in these alone share a model.
    """

    needs_train: ClassVar[bool] = True
    learns: ClassVar[tuple[str, ...]] = ()
    unlearned: ClassVar[tuple[str, ...]] = ()

    def fit(self, train: list[Claim], folder: Path, ctx: Context) -> None:
        """Learn from `train` and write the model into `folder`."""
        raise NotImplementedError(type(self).__name__)

    def check_train(self, train: list[Claim]) -> None:
        """Raise ClaimflowError when there is nothing to learn from, but something to learn."""
        if self.needs_train and not train and not self.given():
            raise ClaimflowError(
                f"{type(self).__name__} learns from a training split, and this data set gives "
                "none that is free of the evaluated claims. Name one with dataset.train_split=…, "
                "or choose a step that needs no training."
            )

    def trained(self, folder: Path) -> int | None:
        """How many parameters were trained for the model in `folder`; None: it doesn't say."""
        return None

    def given(self) -> Path | None:
        """A folder that `fit` filled before, elsewhere, to use as it is; None: fit."""
        return None


class Cases(Protocol):
    """Cases of the training claims, which lie in the cache (see `components.pipeline.Stored`)."""

    def digest(self, fields: tuple[str, ...]) -> str:
        """Of the content of these fields."""

    def load(self, fields: tuple[str, ...]) -> list[Case]:
        """Those that no step failed on, with these fields."""


class Context:
    """What steps may use besides their cases: cache, training claims, loaded models, seed.

    train: claims of the training split, overlaps with the evaluated split already dropped.
    seed: the one seed of a run; steps derive theirs with `seed_for`. stage: what models are loaded
    for, see `loaded`. learned: the training claims as cases, for steps that learn from those.
    """

    def __init__(
        self,
        cache: Cache,
        train: list[Claim] | None = None,
        seed: int = 0,
        stage: str = "",
        learned: Cases | None = None,
    ) -> None:
        self.cache = cache
        self.stage = stage
        self.train = train or []
        self.seed = seed
        self.tokens = {"prompt": 0, "completion": 0}
        self.uncounted = 0  # replies whose server does not say their tokens
        self.silent = ""  # why the judge of this scoring is not asked any more, if so
        self.train_digest = key_of(self.train)
        self.learned = learned

    def cases(self, step: TrainedStep) -> list[Case]:
        """The training claims as cases, with the fields that `step` learns from."""
        return self._learned(step).load(step.learns)

    def _learned(self, step: TrainedStep) -> Cases:
        if self.learned is None:
            raise ClaimflowError(
                f"{type(step).__name__} learns from {', '.join(step.learns)} of the training "
                "claims, which only a flow prepares: run it in `python -m flows.train`."
            )
        return self.learned

    def seed_for(self, *what: str) -> int:
        """A seed below 2**32 for a named use, so that uses don't disturb one another."""
        return int(key_of(self.seed, *what)[:8], 16)

    def model(self, step: TrainedStep) -> Artifact:
        """The folder that `step.fit` filled; fits it now when that has not happened."""
        if folder := step.given():
            return Artifact(path=str(folder), digest=folder_digest(folder))
        step.check_train(self.train)
        key = self.fit_key(step)

        def fit(folder: Path) -> None:
            _make_room(self.stage)
            start = time.perf_counter()
            step.fit(self.train, folder, self)
            cost = {"seconds": round(time.perf_counter() - start, 3)}
            self.cache.record(key_of("cost", key), Action(outputs=[], cost=cost))

        return self.cache.artifact(key, fit)

    def fit_seconds(self, step: TrainedStep) -> float | None:
        """What it took to fit `step`, whenever that was; None where this cache doesn't know."""
        action = None if step.given() else self.cache.lookup(key_of("cost", self.fit_key(step)))
        return action.cost.get("seconds") if action else None

    def fit_key(self, step: TrainedStep) -> str:
        """What the model of `step` is kept under: its settings, the training claims, the seed."""
        more = [self._learned(step).digest(step.learns)] if step.learns else []
        known = identity(step)
        for name in step.unlearned:
            del known["fields"][name]
        return key_of("fit", known, self.train_digest, self.seed, *more)

    def loaded(self, key: str, load: Callable[[], Any], large: bool = False) -> Any:
        """What `load()` gives, kept in this process: models and indexes are opened once.

        large: it takes turns with others on one device. Before another large one is loaded, those
        that only earlier stages used are released; one that the next stage uses too stays.
        """
        with _models_lock:
            if key not in _models:
                if large:
                    _make_room(self.stage)
                _models[key] = load()
            if large:
                _last_used[key] = self.stage
            return _models[key]


_models: dict[str, Any] = {}
_last_used: dict[str, str] = {}  # the stage that used a large one last
_models_lock = threading.RLock()


def _make_room(stage: str) -> None:
    """Release the large models that other stages used last."""
    with _models_lock:
        others = [key for key, used in _last_used.items() if used != stage]
        for key in others:
            del _last_used[key]
            _models.pop(key, None)
    if others:
        _give_back()


def release_models() -> None:
    """Forget every model and index that this process holds."""
    with _models_lock:
        _models.clear()
        _last_used.clear()
    _give_back()


def _give_back() -> None:
    """Let what nobody refers to any more go back to the system and the device."""
    gc.collect()
    torch = sys.modules.get("torch")  # who has not imported it has nothing on a device
    if torch and torch.cuda.is_initialized():
        torch.cuda.empty_cache()


def identity(value: Any, unkeyed: Collection[str] = ()) -> Any:
    """What enters a cache key for `value`: parameters (but `unkeyed`), code version, content of
    files.

    Dataclasses (steps, encoders, engines) give their class, the version of the code behind it
    and their fields; a Path gives the digest of the file or folder; the rest stands for itself.
    """
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        skip = {*getattr(value, "unkeyed", ()), *unkeyed}
        return {
            "class": f"{type(value).__module__}.{type(value).__qualname__}",
            "code": code_version(type(value).__module__),
            "fields": {
                field.name: identity(getattr(value, field.name))
                for field in dataclasses.fields(value)
                if field.name not in skip
            },
        }
    if isinstance(value, Path):
        if not value.exists():
            raise ClaimflowError(f"{value} is not there.")
        return folder_digest(value) if value.is_dir() else file_digest(value)
    if isinstance(value, dict):
        return {key: identity(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [identity(item) for item in value]
    return value


_DISTRIBUTIONS = {
    "faiss": "faiss-cpu",
    "rank_bm25": "rank-bm25",
    "sklearn": "scikit-learn",
    "Stemmer": "PyStemmer",
}


@functools.cache
def code_version(module: str) -> str:
    """Digest of the code behind `module`: its own, that of the components it imports (however
    deep), and the versions of the packages they use.

    Comments, layout and docstrings don't count: rewording one recomputes nothing.
    """
    parts: dict[str, str] = {}
    packages: set[str] = set()
    waiting = [module]
    while waiting:
        name = waiting.pop()
        if name in parts:
            continue
        code, imported = _parse(name)
        parts[name] = code
        if name == "components.assets":  # WordNet, punkt and stop-words, which code below it reads
            parts["language data"] = folder_digest(home() / "nltk_data")
        for other in imported:
            if other.partition(".")[0] == name.partition(".")[0]:
                waiting.append(other)
            else:
                packages.add(other.partition(".")[0])
    for package in sorted(packages - set(sys.stdlib_module_names)):
        try:
            version = importlib.metadata.version(_DISTRIBUTIONS.get(package, package))
        except importlib.metadata.PackageNotFoundError:
            version = "?"
        parts[f"package {package}"] = version
    return key_of(sorted(parts.items()))


_parse_lock = threading.Lock()  # CPython 3.11 counts the depth of all threads' parsing as one's


@functools.cache  # most components import the same few: a sweep would parse them hundreds of times
def _parse(module: str) -> tuple[str, set[str]]:
    """(digest of the code without docstrings, modules that it imports) of one module."""
    spec = importlib.util.find_spec(module)
    if not spec or not spec.origin or not spec.origin.endswith(".py"):
        return "", set()
    source = Path(spec.origin).read_text(encoding="utf-8")
    with _parse_lock:
        tree = ast.parse(source)
    imported: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            imported.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            imported.add(node.module)
            if node.module.partition(".")[0] == module.partition(".")[0]:
                for alias in node.names:  # `from components.x import module`
                    path = ROOT.joinpath(*node.module.split("."), f"{alias.name}.py")
                    if path.exists():
                        imported.add(f"{node.module}.{alias.name}")
        body = getattr(node, "body", None)
        if (
            isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef))
            and body
            and isinstance(body[0], ast.Expr)
            and isinstance(body[0].value, ast.Constant)
            and isinstance(body[0].value.value, str)
        ):
            node.body = body[1:]
    return digest(ast.dump(tree).encode()), imported
