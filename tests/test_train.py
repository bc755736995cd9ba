"""flows.train: each task trained, tracked, registered and used; adapters by every name; merging."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from components.assets import MINILM, SMOLLM2
from components.errors import ClaimflowError
from components.files import folder_digest, home
from components.step import release_models
from components.train.card import licence
from flows.adapters import resolve
from tests.conftest import Ran, swept
from tests.scifact_demo import write
from tests.test_tuned import models

__all__ = ["models"]  # a fixture
pytestmark = [
    pytest.mark.xdist_group("train"),  # one worker trains what several tests use
    pytest.mark.skipif(not (home() / "models").is_dir(), reason="no models laid out"),
    pytest.mark.filterwarnings("ignore:No training claim is"),
]
TINY = ["trainer=tiny", "trainer.updates=2", "trainer.limit=16", "trainer.max_length=256"]
TASKS = {  # what to change of each, so that it is quick
    "verdict": ["verdict.model={llama}"],
    "question": ["question.model={llama}"],
    "answer": ["answer.model={llama}", "answer.characters=150"],
    "best_pairs": ["answerer.best.model={bert}", "answerer.best.corruptions.ratio=3",
                   "answerer.best.epochs=1"],
    "nli": ["verdict.model={bert}", "dataset=scifact", "path={scifact}", "retriever=bm25s",
            "verdict.negatives.ratio=1", "verdict.epochs=1"],
    "rationale": ["verdict.rationale.model={bert}", "dataset=scifact", "path={scifact}"],
    "reranker": ["reranker.model={bert}", "dataset=scifact", "path={scifact}", "retriever=bm25s",
                 "reranker.negatives.ratio=2", "reranker.warm=0", "reranker.epochs=1"],
}  # fmt: skip
LORA = ("verdict", "question", "answer")


class Place:
    """Where the tasks of this file are trained: one cache, one tracker."""

    def __init__(self, folder: Path, models: Path) -> None:
        self.folder, self.models = folder, models
        self.uri = f"sqlite:///{folder}/mlflow.db"
        (folder / "scifact").mkdir()
        self.scifact = write(folder / "scifact")

    @property
    def tracking(self) -> list[str]:
        return [f"tracking.uri={self.uri}", f"tracking.artifacts={self.folder}/artifacts"]

    def train(self, *words: str) -> None:
        from flows.train import main

        filled = [
            word.format(llama=self.models / "llama", bert=self.models / "bert",
                        other=self.models / "other", scifact=self.scifact)
            for word in words
        ]  # fmt: skip
        places = [f"cache={self.folder}/cache", f"to={self.folder}/to", *self.tracking]
        main(compose("train", *TINY, *places, *filled))


def compose(config: str, *overrides: str) -> Any:
    import hydra

    from flows.cli import CONF
    from flows.resolvers import register

    register()
    with hydra.initialize_config_dir(version_base="1.3", config_dir=str(CONF)):
        return hydra.compose(config, overrides=list(overrides))


@pytest.fixture(scope="module")
def place(models: Path, tmp_path_factory: pytest.TempPathFactory) -> Place:
    return Place(tmp_path_factory.mktemp("train"), models)


@pytest.mark.slow
@pytest.mark.parametrize("task", TASKS)
def test_a_task(task: str, place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    from mlflow import MlflowClient

    place.train(f"task={task}", *TASKS[task])
    folder = place.folder / "to" / task
    said = capsys.readouterr()
    assert f"registered as models:/{task}/1" in said.err
    assert folder_digest(folder) in said.out
    weights = "adapter_model" if task in LORA else "model"
    assert (folder / f"{weights}.safetensors").is_file()
    assert not [p for p in folder.rglob("*") if p.suffix in (".bin", ".pt", ".pth", ".pkl")]

    card = (folder / "README.md").read_text("utf-8")
    data = "demo" if task in (*LORA, "best_pairs") else "scifact"
    base = "llama" if task in LORA else "bert"
    for part in (
        f"base_model: {base}", "digest of its files", f"- Data: {data} train, digest",
        "- Licence of the base model: ",
        f"- Licence of the data: {licence(data)}; ", "| 95 % interval |",
        "- Command: `python -m flows.train",
        "- Training data, held out: ", "- Commit: ", "- Parameters: ",
    ):  # fmt: skip
        assert part in card, part

    client = MlflowClient(place.uri)
    version = client.get_model_version(task, "1")
    assert version.tags["claimflow.digest"] == folder_digest(folder)
    run = client.get_run(version.run_id)
    losses = client.get_metric_history(version.run_id, "loss")
    assert [metric.step for metric in losses] == [1, 2]
    assert client.get_metric_history(version.run_id, "eval_loss")
    assert len(run.inputs.dataset_inputs) == 3  # training claims among them, by digest
    kept = {Path(file.path).name for file in client.list_artifacts(version.run_id, "model")}
    assert {p.name for p in folder.iterdir()} == kept


VERDICT = ["verdict=lora_llm", "questioner=rules", "retriever=bm25s", "limit=4"]


@pytest.fixture(scope="module")
def verdict(place: Place) -> Path:
    """A trained verdict, version 1 of `judge`, and merged."""
    place.train("task=verdict", *TASKS["verdict"], "registry=judge", "name=judge", "merge=true")
    return place.folder / "to" / "judge"


@pytest.mark.slow
def test_an_adapter_by_each_of_its_names_and_where_it_is_from(
    place: Place, verdict: Path, experiment: Callable[..., Ran], monkeypatch: pytest.MonkeyPatch
) -> None:
    from mlflow import MlflowClient

    model = f"verdict.model={place.models / 'llama'}"
    used = [*VERDICT, model, "dataset.train_split=null", *place.tracking]
    by_path = experiment(*used, f"verdict.adapter={verdict}")
    assert by_path.record.counts["train_claims"] == 0
    client = MlflowClient(place.uri)
    client.set_registered_model_alias("judge", "best", "1")
    for name in ("models:/judge/1", "models:/judge@best", folder_digest(verdict)[:12]):
        found = experiment(*used, f"verdict.adapter={name}")
        assert found.predictions() == by_path.predictions(), name
        run = client.get_run(found.record.mlflow_run_id)
        assert run.data.tags["verdict.adapter.reference"] == name
        assert run.data.tags["verdict.adapter.version"] == "models:/judge/1"
        trained = client.get_model_version("judge", "1").run_id
        assert run.data.tags["verdict.adapter.run_id"] == trained
    # The same as an experiment that trains it.
    fitted = experiment(*VERDICT, model, *TINY, f"cache={place.folder}/cache")
    assert fitted.predictions() == by_path.predictions()
    assert fitted.record.training["verdict"]["trained_parameters"] > 0
    # By digest without a tracker: below ./models.
    (place.folder / "models").mkdir()
    verdict.rename(place.folder / "models" / "judge")
    monkeypatch.chdir(place.folder)
    config = compose("config", "tracking=none")
    digest = folder_digest(place.folder / "models" / "judge")
    assert resolve(digest[:8], config) == place.folder / "models" / "judge"
    (place.folder / "models" / "judge").rename(verdict)


@pytest.mark.parametrize("name", ["models:/judge/1", "deadbeef00"])
def test_a_registry_that_is_none_is_one_line(name: str) -> None:
    with pytest.raises(ClaimflowError, match=r"^Tracker foo://x: "):
        resolve(name, compose("config", "tracking.uri=foo://x"))


@pytest.mark.slow
def test_what_is_no_adapter(place: Place, verdict: Path) -> None:
    config = compose("config", *place.tracking)
    for name, words in {
        "models:/nobody/1": "nobody",
        "models:/judge": r"names no version\. There are: models:/judge/1",
        "deadbeef00": "has a digest that begins with deadbeef00",
        "no/such/folder": "no folder .*no/such/folder",
    }.items():
        with pytest.raises(ClaimflowError, match=words):
            resolve(name, config)
    with pytest.raises(ClaimflowError, match="tracking=none names none"):
        resolve("models:/judge/1", compose("config", "tracking=none"))


@pytest.mark.slow
def test_a_merged_model_says_the_same(
    place: Place, verdict: Path, experiment: Callable[..., Ran]
) -> None:
    merged = verdict.with_name("judge-merged")
    assert (merged / "model.safetensors").is_file()
    assert not (merged / "adapter_config.json").exists()
    cards = [(f / "README.md").read_text("utf-8") for f in (verdict, merged)]
    for card, library, title in zip(cards, ("peft", "transformers"), ("", ", merged"), strict=True):
        assert f"\nlibrary_name: {library}\n" in card
        assert f"\n# Verdict by llama, LoRA{title}\n" in card
    assert "A whole model in float32" in cards[1]
    assert cards[0].partition("## On the")[2] == cards[1].partition("## On the")[2]
    used = [*VERDICT, f"verdict.model={place.models / 'llama'}"]
    apart, whole = (
        [json.loads(line)["probabilities"]
         for line in experiment(*used, f"verdict.adapter={f}").predictions().splitlines()]
        for f in (verdict, merged)
    )  # fmt: skip
    assert len(apart) == 4
    for one, other in zip(apart, whole, strict=True):
        assert one == pytest.approx(other, abs=2e-6)  # they have six decimals


@pytest.mark.slow
def test_scifact_by_three_trained_steps(place: Place, experiment: Callable[..., Ran]) -> None:
    """Reranker, labels and rationales in one experiment, each learned from the one before."""
    folder = place.folder / "to"
    if not all((folder / task).exists() for task in ("nli", "rationale", "reranker")):
        for task in ("nli", "rationale", "reranker"):
            place.train(f"task={task}", *TASKS[task])
    bert = place.models / "bert"
    ran = experiment(
        "dataset=scifact", f"path={place.scifact}", "retriever=bm25s", "limit=5",
        "scorer=scifact_labels", "reranker=tuned", f"reranker.model={bert}",
        f"reranker.adapter={folder}/reranker", "reranker.fetch=20", "reranker.k=12",
        "verdict=nli_rationale", "verdict.nli.threshold=0.1", "verdict.nli.depth=10",
        f"verdict.nli.model={bert}", f"verdict.nli.adapter={folder}/nli",
        f"verdict.rationale.model={bert}", f"verdict.rationale.adapter={folder}/rationale",
    )  # fmt: skip
    measures = ran.record.measures
    assert {"abstract_ap", "abstract_f1", "sentence_selection_f1"} <= measures.keys()
    assert measures["abstract_f1"].value == measures["abstract_label_only_f1"].value
    predictions = [json.loads(line) for line in ran.predictions().splitlines()]
    assert len(predictions) == 5
    for prediction in predictions:
        assert len(prediction["findings"]) == 10
        for finding in prediction["findings"]:
            assert finding["probabilities"].keys() == {"SUPPORT", "CONTRADICT"}
            assert 1 <= len(finding["sentences"]) <= 3
    assert any(finding.get("label") for p in predictions for finding in p["findings"])


# Sweeps


@pytest.fixture
def sweep(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., list[dict[str, Any]]]:
    """A sweep as from the command line, in this process, with small models of random weights under
    the names of the real ones; what `out=` holds."""
    small = tmp_path / "home"
    shutil.copytree(place.models / "llama", small / "models" / SMOLLM2)
    config = small / "models" / SMOLLM2 / "config.json"
    longer = json.loads(config.read_text()) | {"max_position_embeddings": 4096}
    config.write_text(json.dumps(longer))
    shutil.copytree(place.models / "bert", small / "models" / MINILM)
    (small / "nltk_data").symlink_to(home() / "nltk_data")
    monkeypatch.setenv("CLAIMFLOW_HOME", str(small))

    def go(*words: str) -> list[dict[str, Any]]:
        places = [f"cache={tmp_path}/cache", f"outputs={tmp_path}/outputs", "tracking=none"]
        found = swept(*words, *TINY, *places, out=tmp_path / "out.json")
        release_models()
        assert all(point["status"] == "finished" for point in found)
        return found

    return go


def check_again(sweep: Callable[..., list[dict[str, Any]]], *words: str) -> list[dict[str, Any]]:
    """The points of a sweep, which computes nothing the second time."""
    first, again = sweep(*words), sweep(*words)
    assert all(point["cache"].get("misses", 0) == 0 for point in again)
    assert [p["measures"] for p in again] == [p["measures"] for p in first]
    return first


@pytest.mark.slow
def test_a_sweep_over_negatives(place: Place, tmp_path: Path, sweep: Any) -> None:
    points = check_again(
        sweep, "+sweep=negative_sampling", f"path={place.scifact}", "limit=8", "retriever=bm25s",
        "verdict.epochs=1", "verdict.negatives.ratio=0,2", "seed=0,1",
    )  # fmt: skip
    assert len(points) == 4
    for point in points:
        assert point["measures"].keys() >= {"abstract_precision", "abstract_recall", "abstract_ap"}
        assert point["training"]["verdict"]["trained_parameters"] > 0
    plot = next((tmp_path / "outputs").glob("*/plots/curve.png"))
    text = (plot.parent.parent / "report.md").read_text("utf-8")
    assert "From ratio 0 to 2 precision changes by " in text
    assert "**The trade-off of precision against recall is " in text


@pytest.mark.slow
def test_a_sweep_over_verdict_models(tmp_path: Path, sweep: Any) -> None:
    points = check_again(sweep, "+sweep=verdict_models", "limit=6")
    by_model = {point["axes"]["verdict"]: point for point in points}
    assert list(by_model) == [
        "majority", "rules", "head", "encoder", "lora_encoder", "lora_llm", "zero_shot", "llm",
    ]  # fmt: skip
    for name, point in by_model.items():
        assert point["measures"].keys() >= {"accuracy", "f1_macro"}
        assert ("ece" in point["measures"]) == (name != "llm")  # which says a label alone
    sizes = {
        name: point["training"]["verdict"].get("trained_parameters")
        for name, point in by_model.items()
        if point["training"]
    }
    assert sizes["encoder"] > sizes["lora_encoder"] > sizes["zero_shot"] == 0
    report = next((tmp_path / "outputs").glob("*/plots/measures.png")).parent.parent / "report.md"
    assert "| trained parameters |" in report.read_text("utf-8")


@pytest.mark.slow
def test_a_sweep_over_engines_and_models(sweep: Any) -> None:
    points = check_again(sweep, "+sweep=models", "limit=2", "questioner.max_tokens=8",
                         "answerer.max_tokens=8", "verdict.max_tokens=4")  # fmt: skip
    assert len({json.dumps(point["axes"]) for point in points}) == 4
    guards = [s for p in points for s in p["stages"] if s["name"] == "guard"]
    assert [stage["cases"] - stage["cached"] for stage in guards] == [2, 0, 0, 0]
