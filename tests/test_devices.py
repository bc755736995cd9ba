"""Training on several devices: the same updates and weights as on one; nothing hangs or is left."""

from __future__ import annotations

import functools
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from components.cache import Cache
from components.errors import ClaimflowError
from components.files import ROOT, home
from components.reason.tuned import TunedVerdict
from components.step import Context
from components.train.devices import AFTER, on_devices
from components.train.trainer import Lora, Training, shared, tune
from tests.test_tuned import TINY, TOWNS, llm, models, toys

__all__ = ["models"]  # a fixture
pytestmark = [
    pytest.mark.skipif(not (home() / "models").is_dir(), reason="no models laid out"),
    pytest.mark.filterwarnings("ignore:No training claim is"),
]


@given(st.integers(1, 40), st.integers(1, 4), st.integers(1, 4))
def test_an_update_is_the_mean_of_its_batches_on_any_number_of_devices(
    count: int, steps: int, devices: int
) -> None:
    accumulate = steps * devices
    batches: list[Any] = [[{"n": n}] for n in range(count)]
    found = shared(batches, accumulate, devices)
    assert len(found) % devices == 0
    for at in range(0, len(found), accumulate):
        update = batches[at : at + accumulate]
        parts = [found[at : at + accumulate][rank::devices] for rank in range(devices)]
        gradient = dict.fromkeys(range(len(batches)), 0.0)
        for part in parts:  # the mean on each device, and of all devices
            for [row], share in part:
                gradient[row["n"]] += share / len(part) / devices
        expected = {row["n"]: 1 / len(update) for [row] in update}
        assert {n: x for n, x in gradient.items() if x} == pytest.approx(expected)


def verdict(models: Path, devices: int) -> TunedVerdict:
    """Without dropout, which differs by device. 12 claims by 4, three times: nine batches, which
    are four updates and the half of one."""
    settings = Training(**(TINY | {"accumulate": 2, "devices": devices}))
    return llm(models, lora=Lora(r=4, dropout=0.0), epochs=3, trainer=settings)


SCRIPT = """
import sys
from pathlib import Path
from components.cache import Cache
from components.step import Context
from tests.test_devices import TOWNS, toys, verdict
models, cache = sys.argv[1:]
Context(Cache(cache), toys(TOWNS)).model(verdict(Path(models), 2))
"""


@pytest.mark.slow
def test_two_devices_killed_and_resumed_give_the_weights_of_one(
    models: Path, tmp_path: Path
) -> None:
    import psutil
    from safetensors.numpy import load_file

    process = subprocess.Popen([sys.executable, "-c", SCRIPT, models, tmp_path / "2"], cwd=ROOT)
    deadline = time.monotonic() + 300
    while not list((tmp_path / "2" / "aside").glob("*.unfinished/checkpoint-*/whole")):
        assert process.poll() is None, "it was over before it could be killed"
        assert time.monotonic() < deadline
        time.sleep(0.002)
    children = psutil.Process(process.pid).children()
    workers = [child for child in children if "spawn_main" in " ".join(child.cmdline())]
    assert len(workers) == 2
    process.kill()
    process.wait()
    _, alive = psutil.wait_procs(workers, timeout=30)
    assert not alive
    [left] = (tmp_path / "2" / "aside").glob("*.unfinished")
    assert not (left / AFTER).exists(), "it was killed too late"
    for state in left.glob("checkpoint-*/trainer_state.json"):  # a mark: it went on from here
        known = json.loads(state.read_text())
        known["log_history"][0]["loss"] = 123.0
        state.write_text(json.dumps(known))

    one, two = (
        Path(Context(Cache(tmp_path / str(n)), toys(TOWNS)).model(verdict(models, n)).path)
        for n in (1, 2)
    )
    assert not left.exists()
    plain, other = (load_file(folder / "adapter_model.safetensors") for folder in (one, two))
    assert plain.keys() == other.keys()
    for name, weights in plain.items():
        assert weights == pytest.approx(other[name], abs=1e-6), name
    curves = [json.loads((folder / "curve.json").read_bytes()) for folder in (one, two)]
    assert len({entry["step"] for entry in curves[0]}) == 5
    assert curves[1][0].pop("loss") == 123.0
    assert curves[0][0].pop("loss") < 20
    for mine, its in zip(*curves, strict=True):
        assert mine == pytest.approx(its, abs=1e-5)


def in_second(what: Callable[[], None], rows: list[Any]) -> dict[str, Any]:
    """The input of a batch; in the second process something else happens."""
    if os.environ["RANK"] == "1":
        what()
    return {"input_ids": torch.ones(len(rows), 3, dtype=torch.long)}


def scores(out: Any) -> Any:
    return out.logits.float().log_softmax(-1)


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def fail() -> None:
    raise ClaimflowError("The loss is no number.")


def tuned(folder: Path, model: Any, what: Callable[[], None]) -> None:
    one = [{"input_ids": [1], "labels": 0}]
    tune(
        model,
        [one] * 4,
        [one],
        collate=functools.partial(in_second, what),
        log_probabilities=scores,
        weights=[1.0, 1.0],
        settings=Training(accumulate=2, devices=2),
        rate=1e-3,
        epochs=1,
        seed=0,
        folder=folder,
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("what", "said"),
    [(die, "One of the 2 processes that train was ended by SIGKILL"), (fail, "^The loss is no")],
)
def test_a_process_that_ends_ends_the_training_with_one_error(
    what: Callable[[], None], said: str, tmp_path: Path
) -> None:
    from transformers import BertConfig, BertForSequenceClassification

    model = BertForSequenceClassification(
        BertConfig(hidden_size=12, num_hidden_layers=1, vocab_size=8)
    )
    with pytest.raises(ClaimflowError, match=said):
        tuned(tmp_path, model, what)
    assert all(weight.numel() for weight in model.parameters())


def test_devices_that_cannot_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ClaimflowError, match=r"devices=2 share .*accumulate=3: .* multiple"):
        Training(devices=2, accumulate=3)
    with pytest.raises(ClaimflowError, match=r"accumulate, devices, .* are 1 or more"):
        Training(devices=0)
    with pytest.raises(ClaimflowError, match="devices=4000 is more than this machine has"):
        on_devices(tune, {}, 4000, tmp_path)
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(ClaimflowError, match=r"start it alone, with trainer\.devices=N"):
        tuned(tmp_path, None, fail)
