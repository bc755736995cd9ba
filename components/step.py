"""Steps: what a pipeline is made of, and what makes two of them the same.

A step is a dataclass whose fields are its parameters. `run` maps a batch of cases to the same
batch with the fields in `writes` filled in; it may look only at the fields in `reads`.
"""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import functools
import gc
import importlib
import importlib.metadata
import importlib.util
import math
import sys
import threading
import time
import uuid
from collections.abc import Callable, Collection, Mapping
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any, ClassVar, Protocol

import msgspec

from components.cache import Action, Artifact, Cache, key_of
from components.errors import ClaimflowError
from components.files import digest, file_digest, folder_digest, language_data, remembered
from components.records import Case, Claim, decode, encode


@dataclasses.dataclass(kw_only=True)
class Step:
    """Base of all steps. Subclasses add parameters as dataclass fields.

    Fields of type Path (models, prompts) enter the cache key by their content, not their name.
    """

    reads: ClassVar[tuple[str, ...]] = ()
    writes: ClassVar[tuple[str, ...]] = ()
    needs_train: ClassVar[bool] = False  # does `run` use ctx.train? Then it is in the key
    seeded: ClassVar[bool] = False  # does `run` use ctx.seed_for? Then the seed is in the key
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

    def learned(self, folder: Path) -> dict[str, float]:
        """What a reader of the run should know of the model in `folder`: numbers by name."""
        return {}

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

    _held: Step | None = None  # the step that it is for

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
        self._train = train or []
        self.seed = seed
        self.tokens = {"prompt": 0, "completion": 0}
        self.uncounted = 0  # replies whose server does not say their tokens
        self.silent = ""  # why the judge of this scoring is not asked any more, if so
        self.train_digest = key_of(self._train)
        self.learned = learned

    @property
    def train(self) -> list[Claim]:
        """The training claims. Raises ClaimflowError for a step that does not say it needs them."""
        if (step := self._held) and not keyed_by_train(step):
            raise ClaimflowError(_undeclared(step, "ctx.train", "needs_train"))
        return self._train

    def held(self, step: Step | None) -> Context:
        """The same context for `step` alone, which it holds to what the step says that it uses, in
        whatever thread; None: for all uses."""
        same = _Held.__new__(_Held)
        same.__dict__ = self.__dict__
        same._held = step
        return same

    def check_inside(self, step: Step) -> None:
        """Raise ClaimflowError when the step that this context is held for runs `step`, and its
        cache key lacks the training claims or the seed that `step` uses."""
        outer = self._held
        if outer is None or outer is step:
            return
        learns = keyed_by_train(step)
        seeded = step.seeded or (learns and isinstance(step, TrainedStep))
        if learns > keyed_by_train(outer) or seeded > outer.seeded:
            what = "training claims" if learns else "the seed"
            raise ClaimflowError(
                f"{type(outer).__name__} runs {type(step).__name__}, which uses {what}, not in the "
                "cache key of the former: derive that from `components.reason.nested.Nested`, "
                "which takes over what the steps inside need, by its __post_init__."
            )

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
        """A seed below 2**32 for a named use, so that uses don't disturb one another.

        Raises ClaimflowError for a step that does not say that it is seeded.
        """
        if (step := self._held) and not step.seeded:
            raise ClaimflowError(_undeclared(step, "ctx.seed_for", "seeded"))
        return int(key_of(self.seed, *what)[:8], 16)

    def model(self, step: TrainedStep) -> Artifact:
        """The folder that `step.fit` filled; fits it now when that has not happened.

        Raises ClaimflowError inside another step whose key lacks what this one learns from."""
        if folder := step.given():
            return Artifact(path=str(folder), digest=folder_digest(folder))
        self.check_inside(step)
        step.check_train(self._train)
        key = self.fit_key(step)

        def fit(folder: Path) -> None:
            _make_room(self.stage)
            start = time.perf_counter()
            step.fit(self._train, folder, self.held(None))  # all that it may use is in its key
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


class _Held(Context):
    __slots__ = ("_held",)  # all else it shares


def keyed_by_train(step: Step) -> bool:
    """Whether the training claims are in the key of what `run` gives."""
    return step.needs_train and not (isinstance(step, TrainedStep) and step.given())


def _undeclared(step: Step, what: str, flag: str) -> str:
    remedy = f"say `{flag}: ClassVar = True` in the class"
    if isinstance(step, TrainedStep) and what == "ctx.train":
        remedy = "in `run`, take what `fit` learned"
    return f"{type(step).__name__} uses {what}, which is not in its cache key: {remedy}."


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

    Dataclasses (steps, encoders, engines) and records give their class, the version of the code
    behind it and their fields; a Path gives the digest of the file or folder; the rest stands for
    itself. Raises ClaimflowError for an object that no key can hold.
    """
    if isinstance(value, msgspec.Struct):
        names = value.__struct_fields__
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = tuple(field.name for field in dataclasses.fields(value))
    else:
        names = None
    if names is not None:
        skip = {*getattr(value, "unkeyed", ()), *unkeyed}
        return {
            "class": f"{type(value).__module__}.{type(value).__qualname__}",
            "code": code_version(type(value).__module__),
            "fields": {name: identity(getattr(value, name)) for name in names if name not in skip},
        }
    if isinstance(value, Path):
        if not value.exists():
            raise ClaimflowError(f"{value} is not there.")
        return folder_digest(value) if value.is_dir() else file_digest(value)
    if isinstance(value, dict):  # in its order: that of members, or of steps in a loop, counts
        return [[key, identity(item)] for key, item in value.items()]
    if isinstance(value, (list, tuple)):
        return [identity(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):  # JSON has none of them
        return ["float", repr(value)]
    try:
        encode(value)
    except TypeError:
        kind = type(value)
        raise ClaimflowError(
            f"A parameter is a {kind.__qualname__} ({kind.__module__}), whose content no cache key "
            "can hold: make that class a dataclass."
        ) from None
    return value


_DISTRIBUTIONS = {
    "faiss": "faiss-cpu",
    "rank_bm25": "rank-bm25",
    "sklearn": "scikit-learn",
    "Stemmer": "PyStemmer",
}


@functools.cache
def code_version(module: str) -> str:
    """Digest of the code behind `module`: its own, that of the modules it imports (however deep)
    which no package brought, and the versions of the packages they use.

    Comments, layout and docstrings don't count: rewording one recomputes nothing. All these modules
    are imported now, so that code which is edited later in a run is neither read nor run by it.
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
            parts["language data"] = folder_digest(language_data())
        for other in imported:
            top = other.partition(".")[0]
            if _is_own(top):
                waiting.append(other)
            elif top not in sys.stdlib_module_names:
                packages.add(top)
    for package in sorted(packages):
        parts[f"package {package}"] = _package_version(package)
    return key_of(sorted(parts.items()))


def _package_version(package: str) -> str:
    """The version of what brings a package, "?" for one that is not installed."""
    try:
        return importlib.metadata.version(_DISTRIBUTIONS.get(package, package))
    except importlib.metadata.PackageNotFoundError:
        names = _distributions().get(package, [])
        return ", ".join(f"{n} {importlib.metadata.version(n)}" for n in sorted(set(names))) or "?"


@functools.cache
def _distributions() -> Mapping[str, list[str]]:
    return importlib.metadata.packages_distributions()


@functools.cache
def _is_own(package: str) -> bool:
    """Whether a package or module is code of this project or of its user: not Python's, and not in
    a folder of installed packages, which says of each what it is."""
    if package in sys.stdlib_module_names or not (spec := _spec(package)):
        return False
    places = [*(spec.submodule_search_locations or []), spec.origin or ""]
    folders = {Path(place).parent for place in places if place}
    return bool(folders) and not any(_holds_packages(folder) for folder in folders)


@functools.cache
def _holds_packages(folder: Path) -> bool:
    return any(folder.glob("*.dist-info")) or bool(
        {"site-packages", "dist-packages"} & {*folder.parts}
    )


def _spec(module: str) -> ModuleSpec | None:
    """Where a module lies, None if nowhere: it may stand in an import that is tried."""
    try:
        return importlib.util.find_spec(module)
    except (ImportError, ValueError):  # without its package; one that some module only pretends
        return None


_BEGAN = time.time_ns()  # this process, nearly
_parse_lock = threading.Lock()  # CPython 3.11 counts the depth of all threads' parsing as one's


@functools.cache  # most components import the same few: a sweep would read them hundreds of times
def _parse(module: str) -> tuple[str, set[str]]:
    """(digest of the code without docstrings, modules that it imports) of one module."""
    spec = _spec(module)
    if not spec or not spec.origin or not spec.origin.endswith(".py"):
        return "", set()
    before = module in sys.modules
    with contextlib.suppress(Exception):  # what can't be imported is not run: an optional part
        importlib.import_module(module)
    source = Path(spec.origin).read_text(encoding="utf-8")
    # Edited since it was imported: what it makes is kept under a key that nobody finds.
    edited = before and _BEGAN < Path(spec.origin).stat().st_mtime_ns <= time.time_ns()
    # Parsing takes most of the start of a flow, and gives what the source says.
    reader = key_of(file_digest(Path(__file__)), sys.version, source)
    code, statements = decode(remembered(reader, lambda: _read(source)).encode(), _READ)
    package = module if spec.submodule_search_locations else module.rpartition(".")[0]
    imported = {package, module.rpartition(".")[0]} - {"", module}  # their code is run, too
    for name, names in statements:
        name = importlib.util.resolve_name(name, package)
        imported.add(name)
        if names and _is_own(name.partition(".")[0]):
            imported |= _modules(name, names)
    return code + f" {uuid.uuid4()}" * edited, imported


_READ: Any = tuple[str, list[tuple[str, list[str]]]]


def _read(source: str) -> str:
    """As JSON: (digest of the code without docstrings, its imports), an import as the module, with
    dots in front of a relative one, and the names that are taken from it."""
    with _parse_lock:
        tree = ast.parse(source)
    imports: list[tuple[str, list[str]]] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            imports += [(alias.name, []) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            name = "." * node.level + (node.module or "")
            imports.append((name, [alias.name for alias in node.names]))
        elif isinstance(node, ast.Call) and node.args:
            called = getattr(node.func, "attr", getattr(node.func, "id", ""))
            given = getattr(node.args[0], "value", None)
            if called in ("import_module", "__import__") and isinstance(given, str):
                imports.append((given, []))
        body = getattr(node, "body", None)
        if (
            isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef))
            and body
            and isinstance(body[0], ast.Expr)
            and isinstance(body[0].value, ast.Constant)
            and isinstance(body[0].value.value, str)
        ):
            node.body = body[1:]
    return encode((digest(ast.dump(tree).encode()), imports)).decode()


def _modules(package: str, names: list[str]) -> set[str]:
    """Which of the names in `from package import names` are modules."""
    spec = _spec(package)
    folders = [Path(folder) for folder in (spec and spec.submodule_search_locations) or []]
    return {
        f"{package}.{name}"
        for name in names
        if any((f / f"{name}.py").exists() or (f / name).is_dir() for f in folders)
    }
