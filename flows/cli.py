"""The command line of every flow: Hydra, a help page that is quick, and one-line errors."""

from __future__ import annotations

import contextlib
import errno
import functools
import os
import re
import signal
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from omegaconf import DictConfig

# Before any of these packages is imported: no telemetry, no look-ups on a hub, one BLAS thread a
# worker (two workers share the cores).
for _name, _value in {
    "DASK_LOGGING__DISTRIBUTED": "error",
    "DO_NOT_TRACK": "true",
    "DVC_NO_ANALYTICS": "1",
    "HF_HUB_OFFLINE": "1",
    "HYDRA_FULL_ERROR": "1",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
    "MLFLOW_LOGGING_LEVEL": "WARNING",
    "PREFECT_LOGGING_LEVEL": "CRITICAL",
    "PREFECT_SERVER_LOGGING_LEVEL": "CRITICAL",
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "180",  # a busy machine
    # Automations, which no flow has; beside sqlite this service makes runs wait for up to 15 s.
    "PREFECT_SERVER_SERVICES_TRIGGERS_ENABLED": "false",
    "TOKENIZERS_PARALLELISM": "false",
    "TORCH_CPP_LOG_LEVEL": "ERROR",  # several devices: it warns that all parameters are trained
    "TRANSFORMERS_VERBOSITY": "error",
}.items():
    os.environ.setdefault(_name, _value)

# A proxy is for other machines: Prefect's own server answers here, and so may a tracker or a model.
_direct = os.environ.get("no_proxy") or os.environ.get("NO_PROXY") or ""
if "127.0.0.1" not in _direct and _direct != "*":
    _direct = f"{_direct},127.0.0.1,localhost".lstrip(",")
    os.environ.update(no_proxy=_direct, NO_PROXY=_direct)

# Where things lie on a machine: not part of a config that is kept in a file.
PLACES = ("cache", "outputs", "out", "tracking")

CONF = Path(__file__).resolve().parent.parent / "conf"


def entry(main: Callable[..., object], config: str = "config") -> None:
    """Run `main(cfg)` as `python -m flows.NAME key=value …`, the config composed by Hydra.

    `params=FILE` takes the whole config from a file instead (params.yaml of DVC); then KEY=VALUE
    changes values in it. `--help` lists groups and choices.
    """

    def run(words: list[str]) -> None:
        from components.errors import ClaimflowError
        from flows.resolvers import register

        register()
        if file := next((w for w in words if w.startswith("params=")), None):
            words.remove(file)
            settings = from_file(Path(file.removeprefix("params=")), words)
            check_added([w for w in words if w.startswith("+")], settings, config)
            check_places(settings)
            check_values(settings, config)
            main(settings)
            return
        import hydra

        from flows.compose import compose_points

        compose_points()
        failed: list[Exception] = []

        @functools.wraps(main)
        def guarded(settings: DictConfig) -> object:
            # Hydra prints a line of its own about what escapes a job: keep ours from it.
            try:
                check_added([w for w in words if w.startswith("+")], settings, config)
                check_places(settings)
                check_values(settings, config)
                return main(settings)
            except (ClaimflowError, OSError) as error:
                failed.append(error)
                return None

        if "-m" in words:  # argparse takes it only before the settings
            words.remove("-m")
            words.insert(0, "-m")
        sys.argv[1:] = words
        try:
            hydra.main(version_base="1.3", config_path=str(CONF), config_name=config)(guarded)()
        except KeyboardInterrupt as error:  # Hydra tells no callback of it
            if sweep := sys.modules.get("flows.sweep"):
                sweep.interrupt(error)
            raise
        finally:
            if sweep := sys.modules.get("flows.sweep"):
                sweep.release()
        if sweep := sys.modules.get("flows.sweep"):
            failed += sweep.failures
        if failed:
            raise failed[0]

    plain(run, lambda: help_page(_doc(main), config), config)


def plain(
    main: Callable[[list[str]], None],
    page: Callable[[], str] | None = None,
    config: str = "config",
) -> None:
    """Run `main(words)` of a flow: `--help` prints its page; a ClaimflowError, a file that can't be
    read or written, or a mistake in the config is one line on stderr and exit code 1; `-v` shows
    where it came from. config: the name of the flow's."""
    words = sys.argv[1:]
    if {"--help", "-h"} & set(words):
        with until_closed():
            print(page() if page else _doc(main))
        return
    verbose = "-v" in words
    words = [word for word in words if word != "-v"]
    from components.errors import ClaimflowError

    warnings.formatwarning = lambda message, *_, **__: f"warning: {message}\n"  # without our code
    for number in (signal.SIGINT, signal.SIGTERM):  # the second: a batch system's time is up
        signal.signal(number, _end)
    try:
        with until_closed():
            main(words)
    except ClaimflowError as error:
        _leave(str(error), verbose)
    except KeyboardInterrupt as error:
        said = "Interrupted. Finished work is in the cache: start again to go on."
        _leave(said, verbose, 128 + (error.args or [signal.SIGINT])[0])
    except Exception as error:
        message = config_mistake(error, config)  # some of Hydra's are OSErrors
        if message is None and isinstance(error, OSError):
            message = file_mistake(error)
        if message is None:
            raise
        _leave(message, verbose)


@contextlib.contextmanager
def until_closed() -> Iterator[None]:
    """End quietly when who reads our output has enough of it, as `| head`."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(128 + signal.SIGPIPE)


def _end(number: int, _: object) -> None:
    """End when the cases at work are through; asked again, at once, which loses but them."""
    for other in (signal.SIGINT, signal.SIGTERM):
        signal.signal(other, lambda again, _: os._exit(128 + again))
    print("Ending after the cases at work; once more ends it at once.", file=sys.stderr, flush=True)
    raise KeyboardInterrupt(number)


def _doc(main: Callable[..., object]) -> str:
    return (sys.modules[main.__module__].__doc__ or "").strip()


# What a + may add that stands in no file of conf/.
ADDED = ("until", "hydra")


def check_added(added: list[str], settings: DictConfig, config: str) -> None:
    """Raise for +KEY=VALUE that nothing reads: KEY is no group and no setting of any flow, is not
    in the pipeline, and no value names it. config: the name of the flow's."""
    from omegaconf import OmegaConf

    from components.errors import ClaimflowError

    if not added:
        return
    texts = [path.read_text(encoding="utf-8") for path in CONF.glob("*.yaml")]
    known = {*ADDED, *groups(), *re.findall(r"(?m)^(\w+):", "\n".join(texts))}
    for word in added:
        key = word.lstrip("+").partition("=")[0]
        top = re.split(r"[./@]", key)[0]
        if top in known or top in (settings.get("pipeline") or []):
            continue
        if not re.search(rf"\$\{{[^}}]*\b{re.escape(top)}\b", OmegaConf.to_yaml(settings)):
            raise ClaimflowError(f"Nothing reads '{key}', which {word} adds.{_hint(key, config)}")


def check_places(config: DictConfig) -> None:
    """Raise before any work when what it gives could not be written, or not be kept."""
    from omegaconf import OmegaConf

    from components.errors import ClaimflowError

    for key in ("cache", "outputs", "out", "sarif", "to"):
        if not config.get(key):
            continue
        several = key in ("out", "sarif", "to") and sweeping()
        if several and not OmegaConf.is_interpolation(config, key):
            raise ClaimflowError(
                f"{key}={config[key]}: each run of -m would write it anew. Name it by what "
                f"differs, as '{key}=scores-${{hydra:job.num}}'."
            )
        place = Path(str(config[key])).absolute()
        there = next(p for p in (place, *place.parents) if p.exists())
        file = key in ("out", "sarif") and there == place
        writable = os.access(there, os.W_OK) if there == place and file else _takes_files(there)
        if there.is_dir() == file or not writable:
            raise ClaimflowError(f"{key}={config[key]}: {there} can't be written to. Name another.")


def sweeping() -> bool:
    """Whether -m runs a flow several times, each for itself; a sweep of experiments is one."""
    from hydra.core.hydra_config import HydraConfig
    from hydra.types import RunMode

    if not HydraConfig.initialized():
        return False
    hydra = HydraConfig.get()
    return hydra.mode == RunMode.MULTIRUN and "sweep" not in (hydra.callbacks or {})


def _takes_files(folder: Path) -> bool:
    """Can a file be made there? Rights alone don't say it: no file can be made in /proc."""
    try:
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


def check_values(settings: DictConfig, config: str) -> None:
    """Raise for a setting that is not of the kind that conf/`config`.yaml has it: true or false;
    stop or skip; a whole number from 1 on, from 0 where that means something, and null where the
    line says so."""
    from components.errors import ClaimflowError

    text = (CONF / f"{config}.yaml").read_text(encoding="utf-8")
    if re.search(r"(?m)^  - config$", text):
        check_values(settings, "config")
    for key, given, about in re.findall(r"(?m)^(\w+): *(\d+|true|false|stop)\b *(#.*)?$", text):
        if key not in settings:  # params=FILE is of an experiment
            continue
        value, none = settings[key], "null:" in about
        if given.isdecimal():
            least = int(key != "seed" and (key != "claims" or none))
            right = (value is None and none) or (type(value) is int and value >= least)
            due = f"a whole number from {least} on{', or null' if none else ''}"
        else:
            right = type(value) is bool if given != "stop" else value in ("stop", "skip")
            due = "true or false" if given != "stop" else "stop or skip"
        if not right:
            raise ClaimflowError(f"{key}={value} is wrong: give {due}.")


def composed(overrides: list[str]) -> DictConfig:
    """The config that a command line would give."""
    from hydra import compose, initialize_config_dir

    from flows.resolvers import register

    register()
    with initialize_config_dir(version_base="1.3", config_dir=str(CONF)):
        return compose("config", overrides=overrides)


def from_file(path: Path, changes: list[str]) -> DictConfig:
    """The config in a file, with KEY=VALUE changes to values that it has."""
    import yaml
    from omegaconf import DictConfig, OmegaConf

    from components.errors import ClaimflowError
    from components.files import check_text
    from flows.params import interpolated

    if not path.is_file():
        raise ClaimflowError(f"No {path}: `python -m flows.params` writes params.yaml.")
    check_text(path)
    here = composed([])
    try:
        config = OmegaConf.create(interpolated(path.read_text(encoding="utf-8")))
    except yaml.YAMLError as error:
        raise ClaimflowError(yaml_mistake(error, str(path))) from error
    if not isinstance(config, DictConfig):
        raise ClaimflowError(
            f"{path} holds no mapping of settings: `python -m flows.params` writes params.yaml."
        )
    for key in groups().keys() & config.keys():
        if isinstance(name := config._get_node(key)._value(), str) and "${" not in name:
            raise ClaimflowError(
                f"{path} says {key}: {name}, but holds settings, not names of choices: "
                f"`python -m flows.params {key}={name}` writes those of a choice into params.yaml."
            )
    for key in PLACES:
        if key not in config:
            config[key] = here[key]
    for change in changes:
        key, _, value = change.partition("=")
        OmegaConf.set_struct(config, not key.startswith("+"))  # a + adds a key, as in Hydra
        try:
            OmegaConf.update(config, key.lstrip("+"), yaml_value(value))
        except yaml.YAMLError as error:
            raise ClaimflowError(_UNREADABLE.format(change)) from error
    OmegaConf.set_struct(config, True)
    return config


def yaml_value(text: str) -> object:
    """`5` as a number, `null` as None, `[a, b]` as a list: how Hydra reads values."""
    import yaml

    return yaml.safe_load(text)


def _leave(message: str, verbose: bool, code: int = 1) -> None:
    if verbose:
        traceback.print_exc()
    print(f"error: {' '.join(message.split())}", file=sys.stderr)
    sys.exit(code)


# Help


def groups() -> dict[str, dict[str, str]]:
    """{group: {choice: its line}} of conf/, the line being the first comment of the file."""
    found: dict[str, dict[str, str]] = {}
    for folder in sorted(p for p in CONF.iterdir() if p.is_dir()):
        choices = {}
        for path in sorted(folder.glob("[!_]*.yaml")):  # with a _: a part of other choices
            lines = path.read_text(encoding="utf-8").splitlines()
            comments = [x[1:].strip() for x in lines if x.startswith("# ") and "@package" not in x]
            choices[path.stem] = comments[0] if comments else ""
        if choices:
            found[folder.name] = choices
    return found


def help_page(about: str, config: str) -> str:
    """What `--help` prints."""
    out = [about.strip()]
    defaults = _defaults(config)
    if config == "config" or defaults:
        out += ["", "Groups (GROUP=CHOICE; +sweep=CHOICE for sweeps):", ""]
    for group, choices in groups().items():
        if group not in defaults and (config != "config" or group == "task"):
            continue
        out.append(f"  {group}")
        for choice, line in choices.items():
            mark = "*" if defaults.get(group) == choice else " "
            out.append(f"   {mark} {choice:<18} {line}")
    out += ["", "Settings (KEY=VALUE), with their defaults:", ""]
    text = (CONF / f"{config}.yaml").read_text(encoding="utf-8")
    settings = re.sub(r"(?ms)^(defaults|hydra):.*?(?=^\S|\Z)", "", text)
    out += [f"    {line}" for line in settings.splitlines() if line and not line.startswith("#")]
    if re.search(r"(?m)^  - config$", text):
        out += ["", "And all of `python -m flows.experiment --help`: outputs=, tracking.uri= …"]
    out += [
        "",
        "  -m sweeps over comma-separated values, --cfg job prints the config, -v tracebacks.",
    ]
    return "\n".join(out)


def _defaults(config: str) -> dict[str, str]:
    text = (CONF / f"{config}.yaml").read_text(encoding="utf-8")
    return dict(re.findall(r"(?m)^  - (?:override )?(\w+): (\w+)", text))


# Mistakes in the config

_UNREADABLE = (
    "The setting {} can't be read. A value with spaces, letters beyond ASCII or other marks wants "
    "quotes inside the shell's: 'path=\"my data\"'."
)
_NO_CHOICE = "A group takes the name of a choice, not null: give none, as in answerer=none."


def file_mistake(error: OSError) -> str:
    """One line for what the system says of a file, a folder or a connection."""
    reason = error.strerror or str(error) or type(error).__name__
    names = [Path(os.fsdecode(n)) for n in (error.filename, error.filename2) if n]
    # Files are written beside their place first, under a hidden name that says nothing.
    shown = [n.parent if n.name.startswith(".") and n.suffix == ".part" else n for n in names]
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOENT) and shown:
        return f"{shown[-1]} can't be read or written to: {reason}. Name another."
    return f"{shown[-1]}: {reason}." if shown else f"{reason}."


def yaml_mistake(error: Exception, file: str | None = None) -> str:
    """One line for what is no YAML: where, and what is wrong there."""
    mark = getattr(error, "problem_mark", None)
    where = f"{file or mark.name}, line {mark.line + 1}" if mark else file or "A file of settings"
    return f"{where}: no YAML ({getattr(error, 'problem', None) or error}). Mend it there."


def config_mistake(error: BaseException, config: str = "config") -> str | None:
    """One line for an error of Hydra or OmegaConf that a user made, else None. config: the name of
    the flow's, whose keys are proposed for a wrong one."""
    if "hydra" not in sys.modules:
        return None
    import yaml

    if isinstance(error, yaml.YAMLError):  # in a file of conf/
        return yaml_mistake(error)
    if "Config group override must be a string" in str(error):
        return _NO_CHOICE
    from hydra.errors import HydraException
    from omegaconf.errors import OmegaConfBaseException

    from components.errors import nearest

    if not isinstance(error, (HydraException, OmegaConfBaseException)):
        return None
    text = "\n".join(filter(None, (str(error), str(error.__cause__ or ""))))
    if "Ambiguous value" in text:
        return f"{text.splitlines()[0]}: give -m to sweep over it, or quotes inside the shell's."
    if type(error).__name__ == "OverrideParseException":
        return _UNREADABLE.format(getattr(error, "override", ""))
    if found := re.search(r"Could not (?:find|load) '(\w+)/([^']*)'", text):
        group, choice = found.groups()
        if not choice:
            return _NO_CHOICE
        known = list(groups().get(group, {}))
        hint = nearest(choice, known)
        return f"No choice '{choice}' in group {group}.{hint} Choices: {', '.join(known)}."
    if found := re.search(r"Could not override '?([\w.@/]+)'?", text):
        key = found.group(1)
        if key in groups():  # the data sets of one corpus set the groups of an experiment
            corpus = re.search(r"In 'dataset/(\w+)'", text)
            if config == "store" and corpus:
                return (
                    f"dataset={corpus.group(1)} has no stores to build: its claims share a corpus. "
                    "Stores are for dataset=averitec, demo, or claims of your own in that layout."
                )
            own = config in ("config", "experiment")
            slot = f"; a new slot of yours is +{key}=CHOICE, and a name in pipeline=[…]"
            return (
                f"This flow does not take the group '{key}': leave it out, or choose another where "
                f"a choice sets it{slot if own else ''}."
            )
        cause = error.__cause__
        hint = _unlisted(key, cause) or _steps_with(key, cause) or _hint(key, config)
        return f"No setting '{key}'.{hint} `--help` lists them."
    if found := re.search(r"Key '([\w.]+)' is not in struct", text):
        key = str(getattr(error, "full_key", None) or found.group(1))
        hint = _unlisted(key, error) or _steps_with(key, error) or _hint(key, config)
        return f"No setting '{key}'.{hint}"
    return str(error).splitlines()[0]


def _unlisted(key: str, error: BaseException | None) -> str:
    """How to set a parameter that the class has and its file of conf/ doesn't list; else nothing.
    error: of OmegaConf, which knows where the key was sought."""
    import pydoc

    node = getattr(error, "parent_node", None)
    found = pydoc.locate(str(node["_target_"])) if node and "_target_" in node else None
    if key.rpartition(".")[2] not in getattr(found, "__dataclass_fields__", {}):
        return ""
    return f" {getattr(found, '__name__', '')} has it, though no file lists it: +{key}=… sets it."


def _steps_with(key: str, error: BaseException | None) -> str:
    """The steps of the choice that have the setting sought in their group; else nothing. error: of
    OmegaConf, as for `_unlisted`."""
    from omegaconf import DictConfig, OmegaConf

    from components.errors import listed

    node = getattr(error, "parent_node", None)
    if not isinstance(node, DictConfig) or getattr(error, "full_key", "") != key:
        return ""
    steps = OmegaConf.to_container(node)
    assert isinstance(steps, dict)
    group, _, last = key.rpartition(".")
    below = [
        f"{group}.{name}.{last}"
        for name, step in steps.items()
        if group and isinstance(step, dict) and last in step
    ]
    return f" Steps have it: {listed(below, 8)}." if below else ""


def _hint(key: str, config: str) -> str:
    """The choices that have a key which the chosen one lacks; else the setting meant by a wrong
    key: the nearest."""
    from components.errors import listed, nearest

    keys = _keys(config)
    if key not in keys:
        return nearest(key, keys)
    group = key.partition(".")[0]
    having = [p.stem for p in sorted((CONF / group).glob("[!_]*.yaml")) if key in _keys_of(p)]
    named = listed([f"{group}={name}" for name in having], 4)
    return f" Choices that have it: {named}." if having else ""


def _keys(config: str) -> list[str]:
    """Every key that the command line of a flow may set: settings, its groups, and the parameters
    of their choices."""
    files = [config]
    if re.search(r"(?m)^  - config$", (CONF / f"{config}.yaml").read_text(encoding="utf-8")):
        files.append("config")
    own = groups() if "config" in files else _defaults(config)
    keys = list(own)
    paths = [CONF / f"{name}.yaml" for name in files]
    for path in [*paths, *(path for group in own for path in (CONF / group).glob("*.yaml"))]:
        keys += _keys_of(path)
    return keys


def _keys_of(path: Path) -> list[str]:
    """Every setting in a file of conf/."""
    prefix = [] if path.parent == CONF else [path.parent.name]
    stack: list[tuple[int, str]] = []
    keys = []
    for line in path.read_text(encoding="utf-8").splitlines():
        if found := re.match(r"( *)([a-z_]\w*):", line):
            depth = len(found.group(1))
            stack = [(d, k) for d, k in stack if d < depth] + [(depth, found.group(2))]
            keys.append(".".join(prefix + [k for _, k in stack]))
    return [key for key in keys if not {"_target_", "defaults", "hydra"} & set(key.split("."))]
