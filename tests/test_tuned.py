"""Fine-tuned verdicts: same seed, same weights; killed and resumed; used elsewhere; real models."""

from __future__ import annotations

import json
import math
import shutil
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from components.cache import Cache
from components.errors import ClaimflowError
from components.files import ROOT, home
from components.reason.tuned import (
    Judge,
    TunedVerdict,
    gold_pairs,
    softmax,
    temperature,
)
from components.records import AVERITEC_LABELS, Answer, Case, Claim, Evidence, Question, encode
from components.step import Context
from components.train.trainer import Lora, Training, balanced
from tests.test_verdict import REFUTED, SUPPORTED, case_of, toys

pytestmark = [
    pytest.mark.skipif(not (home() / "models").is_dir(), reason="no models laid out"),
    pytest.mark.filterwarnings("ignore:No training claim is"),
    pytest.mark.filterwarnings("ignore:The temperature stays 1"),
]
WORDS = dict(zip(AVERITEC_LABELS, ("True", "False", "Unknown", "Both"), strict=True))
TOWNS = ("Vell", "Orrin", "Tarn", "Lisk", "Moor", "Pell", "Dunn", "Harr")
TINY: dict[str, Any] = {
    "packing": False,
    "batch": 4,
    "evaluations": 2,
    "held_out": 0.25,
    "threads": 1,
}


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small language model and two small encoders of random weights, real tokenisers."""
    import torch
    from transformers import (
        AutoTokenizer,
        BertConfig,
        BertModel,
        LlamaConfig,
        LlamaForCausalLM,
    )

    folder = tmp_path_factory.mktemp("models")
    size = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2,
            "num_attention_heads": 4, "max_position_embeddings": 256}  # fmt: skip
    for name, tokenizer, build in (
        ("llama", "SmolLM2-135M-Instruct",
         lambda: LlamaForCausalLM(LlamaConfig(vocab_size=49152, num_key_value_heads=2, **size))),
        ("bert", "all-MiniLM-L6-v2",
         lambda: BertModel(BertConfig(vocab_size=30522, **size))),
    ):  # fmt: skip
        torch.manual_seed(0)
        build().save_pretrained(folder / name)
        AutoTokenizer.from_pretrained(home() / "models" / tokenizer).save_pretrained(folder / name)
    shutil.copytree(folder / "bert", folder / "other")
    torch.manual_seed(1)
    BertModel(BertConfig(vocab_size=30522, **size)).save_pretrained(folder / "other")
    return folder


def llm(models: Path, **more: Any) -> TunedVerdict:
    settings = {
        "lora": Lora(r=4),
        "rate": 0.01,
        "epochs": 2,
        "words": WORDS,
        "trainer": Training(**TINY),
    }
    return TunedVerdict(**({"model": models / "llama"} | settings | more))


def encoder(models: Path, **more: Any) -> TunedVerdict:
    settings = {"lora": Lora(r=4), "rate": 0.01, "epochs": 2, "trainer": Training(**TINY)}
    return TunedVerdict(**({"model": models / "bert"} | settings | more))


def files(folder: str | Path) -> dict[str, bytes]:
    return {p.name: p.read_bytes() for p in Path(folder).iterdir() if p.is_file()}


# Training


@pytest.mark.parametrize("make", [llm, encoder, lambda m: encoder(m, lora=None)])
def test_the_same_seed_gives_the_same_files(make: Any, models: Path, tmp_path: Path) -> None:
    step = make(models)
    seeds = (13, 13, 14) if step.words else (13, 13)
    every = [Context(Cache(tmp_path / "abc"[n]), toys(TOWNS), s) for n, s in enumerate(seeds)]
    first = every[0]
    found = [files(ctx.model(step).path) for ctx in every]
    assert found[0] == found[1]
    weights = "adapter_model.safetensors" if step.lora else "model.safetensors"
    assert all(found[0][weights] != other[weights] for other in found[2:])
    assert not [name for name in found[0] if name.endswith((".bin", ".pt", ".pth"))]
    assert not list((tmp_path / "a" / "aside").iterdir())  # no checkpoint stays behind
    curve = json.loads(found[0]["curve.json"])
    assert {"loss", "learning_rate"} <= curve[0].keys()
    assert sum("eval_loss" in entry for entry in curve) == 3  # after every second of 6 updates
    assert len({entry["step"] for entry in curve}) == 6  # 12 of 16 claims, by 4, twice
    card = found[0]["README.md"].decode()
    assert step.model.name in card
    assert first.train_digest in card
    assert str(models) not in "".join(
        found[0][n].decode() for n in ("README.md", "verdict.json", "curve.json")
    )


SCRIPT = """
import sys
from pathlib import Path
from components.cache import Cache
from components.step import Context
from tests.test_tuned import TOWNS, llm, toys
models, cache = sys.argv[1:]
Context(Cache(cache), toys(TOWNS)).model(llm(Path(models)))
"""


@pytest.mark.slow
def test_killed_and_resumed_gives_the_same_weights(
    models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from transformers import Trainer

    whole = Context(Cache(tmp_path / "whole"), toys(TOWNS)).model(llm(models))
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT, models, tmp_path / "killed"], cwd=ROOT
    )
    deadline = time.monotonic() + 300
    while not list((tmp_path / "killed" / "aside").glob("*.unfinished/checkpoint-*/whole")):
        assert process.poll() is None, "it was over before it could be killed"
        assert time.monotonic() < deadline
        time.sleep(0.002)
    process.send_signal(signal.SIGKILL)
    process.wait()
    left = sorted((tmp_path / "killed" / "aside").glob("*.unfinished/checkpoint-*"))
    assert left
    assert not (left[0].parent / "checkpoint-6").exists(), "it was killed too late"
    (left[-1].parent / "checkpoint-99").mkdir()  # as if killed while it was written
    steps, plain = [], Trainer.training_step

    def counted(*given: Any, **more: Any) -> Any:
        steps.append(1)
        return plain(*given, **more)

    monkeypatch.setattr(Trainer, "training_step", counted)
    resumed = Context(Cache(tmp_path / "killed"), toys(TOWNS)).model(llm(models))
    assert len(steps) < 6  # it went on; it did not begin anew
    assert files(resumed.path) == files(whole.path)


@pytest.mark.parametrize("more", [{"updates": 4}, {"patience": 1, "evaluations": 3}])
def test_killed_after_its_last_checkpoint_it_makes_no_further_update(
    more: dict[str, int], models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from transformers import Trainer

    step = llm(models, rate=0.5, epochs=4, trainer=Training(**(TINY | more)))
    whole = Context(Cache(tmp_path / "whole"), toys(TOWNS)).model(step)

    def killed(*given: Any) -> None:
        raise EOFError

    # The Trainer deletes a last checkpoint that is not the best one just before it ends.
    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "_finalize_training", killed)
        with pytest.raises(EOFError):
            Context(Cache(tmp_path / "killed"), toys(TOWNS)).model(step)
    monkeypatch.setattr(Trainer, "training_step", killed)
    resumed = Context(Cache(tmp_path / "killed"), toys(TOWNS)).model(step)
    assert files(resumed.path) == files(whole.path)


@pytest.mark.parametrize(
    ("lora", "said"),
    [
        (Lora(r=4, alpha=8, dropout=0.2, targets=["q_proj", "v_proj"]),
         {"r": 4, "lora_alpha": 8, "lora_dropout": 0.2, "target_modules": ["q_proj", "v_proj"]}),
        (Lora(r=4, rslora=True), {"use_rslora": True, "use_dora": False}),
        (Lora(r=4, dora=True), {"use_dora": True, "use_rslora": False}),
        (None, {}),
    ],
)  # fmt: skip
def test_kinds_of_training_are_what_they_say_and_are_used_as_trained(
    lora: Lora | None, said: dict[str, Any], models: Path, tmp_path: Path
) -> None:
    from components.train.merge import merge

    step = llm(models, lora=lora, trainer=Training(**TINY, updates=3))
    ctx = Context(Cache(tmp_path), toys(TOWNS))
    folder = Path(ctx.model(step).path)
    case = case_of(toys(("Esk",))[0])
    [judged] = step.run([case], ctx)
    assert judged.verdict
    expected = judged.verdict.probabilities
    if not lora:
        assert step.trained(folder) > 100_000  # all of it
        assert (folder / "model.safetensors").is_file()
        [zero_shot] = llm(models, lora=None, epochs=0).run([case], ctx)
        assert zero_shot.verdict
        assert zero_shot.verdict.probabilities != expected
        alone = Case(claim=case.claim)  # nothing is learned, so no training claims are needed
        [none] = llm(models, lora=None, epochs=0).run([alone], Context(Cache(tmp_path)))
        assert none.verdict
        assert none.verdict.label == "Not Enough Evidence"
        with pytest.raises(ClaimflowError, match="no adapter to merge"):
            merge(folder, step.model, None, tmp_path / "merged")
        return
    config = json.loads((folder / "adapter_config.json").read_text())
    assert {name: config[name] for name in said} == said
    merge(folder, step.model, step.head, tmp_path / "merged")
    (tmp_path / "new").touch()
    for file in (folder / "adapter_model.safetensors", tmp_path / "merged/model.safetensors"):
        assert file.stat().st_mode == (tmp_path / "new").stat().st_mode
    [merged] = llm(models, adapter=tmp_path / "merged").run([case], ctx)
    assert merged.verdict
    assert merged.verdict.probabilities == pytest.approx(expected, abs=2e-6)


def test_training_stops_early(models: Path, tmp_path: Path) -> None:
    """Learning too fast gets no better: one evaluation without a better state is enough."""
    made = []
    for patience in (1, 100):
        settings = Training(**(TINY | {"patience": patience, "evaluations": 3}))
        step = llm(models, rate=0.5, epochs=4, trainer=settings)
        folder = Path(Context(Cache(tmp_path / str(patience)), toys(TOWNS)).model(step).path)
        curve = json.loads((folder / "curve.json").read_bytes())
        made.append(max(entry["step"] for entry in curve))
    assert made[0] < made[1] == 12


def test_accumulated_and_recomputed_gradients_train_alike(models: Path, tmp_path: Path) -> None:
    from safetensors.numpy import load_file

    found = []
    for n, more in enumerate(({}, {"batch": 2, "accumulate": 2}, {"checkpointing": True})):
        # Without dropout, which draws batch by batch.
        settings = Training(**(TINY | {"weight_decay": 0.0, "updates": 3} | more))
        step = llm(models, lora=Lora(r=4, dropout=0.0), rate=1e-4, trainer=settings)
        folder = Context(Cache(tmp_path / str(n)), toys(TOWNS)).model(step).path
        found.append(load_file(Path(folder) / "adapter_model.safetensors"))
    plain, *others = found
    for other in others:
        assert plain.keys() == other.keys()
        for name, weights in plain.items():
            assert weights == pytest.approx(other[name], abs=1e-5), name


def test_packed_training_takes_fewer_steps_and_its_seed_decides(
    models: Path, tmp_path: Path
) -> None:
    settings = Training(**(TINY | {"packing": True, "tokens": 2000}))
    found = [
        files(
            Context(Cache(tmp_path / name), toys(TOWNS)).model(llm(models, trainer=settings)).path
        )
        for name in "ab"
    ]
    assert found[0] == found[1]
    curve = json.loads(found[0]["curve.json"])
    assert 2 <= len({entry["step"] for entry in curve}) < 6
    assert curve[-1]["epoch"] == 2


def test_the_split_is_by_label_and_seed() -> None:
    labels = ["a"] * 40 + ["b"] * 20
    settings = Training(held_out=0.1)
    train, held = settings.split(labels, 1)
    assert sorted(train + held) == list(range(60))
    assert [labels[i] for i in held] == ["a"] * 4 + ["b"] * 2
    assert settings.split(labels, 1) == (train, held) != settings.split(labels, 2)
    some = Training(held_out=0.1, limit=10).split(labels, 1)
    assert len(some[0]) + len(some[1]) == 10
    assert len(Training(held_out=0.1).split(["a"] * 3, 1)[1]) == 1
    with pytest.raises(ClaimflowError, match="share between 0 and 1, not 1"):
        Training(held_out=1)


def test_class_weights() -> None:
    labels = [0] * 6 + [1] * 2
    assert balanced(labels, 0, 4) == [1, 1, 0, 0]
    assert balanced(labels, 1, 4) == pytest.approx([2 / 3, 2, 0, 0])  # 6 × 2/3 = 2 × 2
    half = balanced(labels, 0.5, 4)
    assert half[1] / half[0] == pytest.approx(math.sqrt(3))
    assert (6 * half[0] + 2 * half[1]) / 8 == pytest.approx(1)


def test_temperature_finds_how_sure_a_model_should_be() -> None:
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(4000, 4))
    gold = [int(rng.choice(4, p=p)) for p in softmax(logits, 1.0)]
    assert temperature(logits, gold) == pytest.approx(1, abs=0.1)
    assert temperature(logits * 3, gold) == pytest.approx(3, abs=0.3)
    assert softmax(np.zeros((0, 4)), 1.0).shape == (0, 4)


@pytest.mark.parametrize("towns", [TOWNS, TOWNS * 5])
def test_a_temperature_is_fitted_on_twenty_claims_or_more(
    towns: tuple[str, ...], models: Path, tmp_path: Path
) -> None:
    """Of 4 held-out claims, and of 20."""
    few = len(towns) == len(TOWNS)
    step = encoder(models, epochs=1)
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        folder = Path(Context(Cache(tmp_path), toys(towns)).model(step).path)
    fitted = json.loads((folder / "verdict.json").read_bytes()).get("temperature", 1.0)
    assert (fitted == 1) == few
    told = "The temperature stays 1, as it is fitted on 20 held-out claims or more and here are 4"
    assert any(told in str(one.message) for one in warned) == few
    how = "as fewer than 20 claims are in" if few else "fitted on"
    assert f"temperature: {fitted}, {how} the held-out part" in (folder / "README.md").read_text()


# Use


@pytest.fixture(scope="module")
def trained(models: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Folders that training wrote, copied to another place."""
    to = tmp_path_factory.mktemp("trained")
    ctx = Context(Cache(tmp_path_factory.mktemp("cache")), toys(TOWNS))
    made = {
        "llm": llm(models), "encoder": encoder(models), "whole": encoder(models, lora=None)
    }  # fmt: skip
    return {name: shutil.copytree(ctx.model(x).path, to / name) for name, x in made.items()}


@pytest.mark.parametrize("name", ["llm", "encoder", "whole"])
def test_an_adapter_is_used_without_training(
    name: str, models: Path, trained: dict[str, Path], tmp_path: Path
) -> None:
    make = llm if name == "llm" else encoder
    cases = [case_of(claim) for claim in toys(("Esk", "Wick"))]
    lora = {"lora": None} if name == "whole" else {}
    fitted = make(models, **lora).run(cases, Context(Cache(tmp_path / "a"), toys(TOWNS)))
    there = [encode(case.verdict) for case in fitted]
    # No training claims, other settings, each claim alone, another order.
    step = make(models, adapter=trained[name], rate=1.0)
    ctx = Context(Cache(tmp_path / "b"))
    here = [encode(step.run([case], ctx)[0].verdict) for case in reversed(cases)][::-1]
    assert there == here
    for case in fitted:
        assert case.verdict
        assert math.fsum(case.verdict.probabilities.values()) == pytest.approx(1, abs=1e-12)


def test_an_adapter_for_another_base_is_refused(
    models: Path, trained: dict[str, Path], tmp_path: Path
) -> None:
    ctx = Context(Cache(tmp_path))
    case = case_of(toys(TOWNS)[0])
    with pytest.raises(ClaimflowError, match=r"trained on bert .*verdict\.model is other"):
        encoder(models, model=models / "other", adapter=trained["encoder"]).run([case], ctx)
    with pytest.raises(ClaimflowError, match=r"no verdict\.json: give a folder that"):
        encoder(models, adapter=tmp_path).run([case], ctx)


def test_scores_are_the_log_probabilities_of_the_words(
    models: Path, trained: dict[str, Path]
) -> None:
    """By transformers and PEFT alone, from the prompt as it stands."""
    import torch
    from peft import PeftModel
    from transformers import AutoModelForCausalLM, AutoTokenizer

    claim = toys(("Esk",))[0]
    judge = Judge.of(trained["llm"], models / "llama")
    row = judge.row(claim, gold_pairs(claim))
    assert row
    tokenizer = AutoTokenizer.from_pretrained(models / "llama")
    prompt = tokenizer.decode(row["input_ids"])
    for part in (claim.text, claim.questions[0].question, "Speaker: unknown", "Date: unknown"):
        assert part in prompt
    assert prompt.endswith("<|im_start|>assistant\n")
    base = AutoModelForCausalLM.from_pretrained(models / "llama", dtype=torch.float32)
    model = PeftModel.from_pretrained(base, trained["llm"]).eval()
    with torch.no_grad():
        logits = model(torch.tensor([row["input_ids"]])).logits[0, -1]
    ids = [tokenizer(word, add_special_tokens=False)["input_ids"][0] for word in WORDS.values()]
    expected = logits.log_softmax(-1)[ids].numpy()
    assert judge.scores([row])[0] == pytest.approx(expected, abs=1e-5)
    longer = judge.row(claim, gold_pairs(claim) * 2)
    assert longer
    with torch.no_grad():  # padding changes nothing but the last bits
        batch = judge.model(**judge.batch([row, longer], padded=True))
    assert judge.log_probabilities(batch)[0].numpy() == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("name", ["llm", "encoder"])
def test_what_is_too_long_keeps_every_question(
    name: str, models: Path, trained: dict[str, Path], tmp_path: Path
) -> None:
    make = llm if name == "llm" else encoder
    step = make(models, adapter=trained[name])
    judge = Judge.of(trained[name], step.model)
    limit = judge.tuned.max_length
    assert limit == 256  # the model's
    claim = Claim(id="0", text="Esk has a bridge.")
    pairs = [(f"Question {n}?", f"Answer {n}: {'very ' * 400}\udc80 long.") for n in range(5)]
    row = judge.row(claim, pairs)
    assert row
    assert limit - 20 < len(row["input_ids"]) <= limit
    text = judge.tokenizer.decode(row["input_ids"]).casefold()
    assert claim.text[:-1].casefold() in text
    assert all(f"question {n}?" in text and f"answer {n}" in text for n in range(5))
    evidence = [Evidence(question=f"Why {n}?", answer="Because.") for n in range(300)]
    many, none = step.run(
        [Case(claim=claim, evidence=evidence), Case(claim=claim)], Context(Cache(tmp_path))
    )
    assert many.failed == "300 questions and answers don't fit into 256 tokens"
    assert none.verdict
    assert none.verdict.probabilities == {SUPPORTED: 0.5, REFUTED: 0.5}


def test_scores_that_are_no_numbers_are_an_error() -> None:
    with pytest.raises(ClaimflowError, match="no numbers"):
        softmax(np.array([[0.0, -1.0], [np.nan, -1.0]]), 1.0)


def test_settings_that_cannot_be(models: Path, tmp_path: Path) -> None:
    with pytest.raises(ClaimflowError, match="a word for each of"):
        llm(models, words={SUPPORTED: "True"})
    ctx = Context(Cache(tmp_path), toys(TOWNS))
    with pytest.raises(ClaimflowError, match="'Refuted' is 2 tokens of llama: choose a word"):
        llm(models, words=WORDS | {REFUTED: "Refuted"}).fit(ctx.train, tmp_path, ctx)
    short = Training(**TINY, max_length=8)
    with pytest.raises(ClaimflowError, match="0 training claims and 0 held-out ones are too few"):
        encoder(models, trainer=short).fit(ctx.train, tmp_path, ctx)
    with pytest.raises(ClaimflowError, match=r"targets \['none_such'\]: No modules"):
        encoder(models, lora=Lora(targets=["none_such"])).fit(ctx.train, tmp_path, ctx)


def test_gold_pairs() -> None:
    answers = [Answer(answer="Ann"), Answer(answer="No", boolean_explanation="She left")]
    claim = Claim(id="0", text="x", questions=[Question(question="Who?", answers=answers)])
    assert gold_pairs(claim) == [("Who?", "Ann"), ("Who?", "No She left")]
    bare = Claim(id="0", text="x", questions=[Question(question="When?")])
    assert gold_pairs(bare) == [("When?", "No answer could be found.")]


@pytest.mark.slow
def test_real_smollm2_on_2_claims(tmp_path: Path) -> None:
    """LoRA on the real model: the loss of one batch falls, and two claims are judged."""
    from components.datasets.averitec import Demo

    train, dev = Demo(split="train").claims(), Demo(split="dev").claims()
    settings = Training(
        limit=3, updates=2, batch=2, max_length=160, schedule="constant", warmup=0.0, threads=1
    )
    step = TunedVerdict(
        model=Path("SmolLM2-135M-Instruct"), lora=Lora(), rate=2e-3, epochs=3, words=WORDS,
        trainer=settings,
    )  # fmt: skip
    ctx = Context(Cache(tmp_path), train)
    cases = step.run([case_of(claim) for claim in dev[:2]], ctx)
    assert len(cases) == 2
    for case in cases:
        assert case.verdict
        assert 0.25 < case.verdict.probabilities[case.verdict.label] < 1
    curve = json.loads((Path(ctx.model(step).path) / "curve.json").read_bytes())
    losses = [entry["loss"] for entry in curve if "loss" in entry]
    assert losses[-1] < losses[0]
