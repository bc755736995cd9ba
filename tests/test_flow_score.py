"""`python -m flows.score` as a user calls it."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

GOLD = [
    {
        "claim": "The city banned cars.",
        "label": "Refuted",
        "claim_types": ["Event/Property Claim"],
        "questions": [
            {
                "question": "Did the city ban the cars?",
                "answers": [
                    {
                        "answer": "Yes",
                        "answer_type": "Boolean",
                        "boolean_explanation": "The city introduced the ban in May.",
                    }
                ],
            },
            {
                "question": "How much is the fine?",
                "answers": [
                    {"answer": "The fine is 40 crowns.", "answer_type": "Extractive"},
                    {"answer": "It is 80 crowns.", "answer_type": "Abstractive"},
                ],
            },
            {"question": "Who proposed the ban?", "answers": []},
        ],
    }
]
QAS = [("Did the city ban the cars?", "Yes"), ("How much is the fine?", "The fine is 40 crowns.")]


def flow(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "flows.score", *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, "CLAIMFLOW_CACHE": str(folder / "cache")},
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "gold.json").write_text(json.dumps(GOLD))
    evidence = [{"question": q, "answer": a, "url": ""} for q, a in QAS]
    record = {"claim_id": 0, "claim": "", "evidence": evidence, "pred_label": "Refuted"}
    (tmp_path / "team.json").write_text(json.dumps([record]))
    return tmp_path


def test_2024_json_is_scored_once(folder: Path) -> None:
    arguments = [f"predictions={folder}/team.json", f"gold={folder}/gold.json"]
    done = flow(folder, *arguments, f"out={folder}/out.json")
    assert done.returncode == 0, done.stderr
    (run,) = json.loads((folder / "out.json").read_text())
    assert run["name"] == "team"
    assert run["measures"]["qa"]["value"] == pytest.approx(0.358987, abs=5e-7)
    assert run["measures"]["q"]["value"] == pytest.approx(0.665409, abs=5e-7)
    assert set(run["measures"]["qa"]) == {"value", "low", "high"}
    assert run["cache"] == {"hits": 0, "misses": 1}
    assert "0.3590" in done.stdout
    again = flow(folder, *arguments, f"out={folder}/again.json")
    assert again.stdout == done.stdout
    (second,) = json.loads((folder / "again.json").read_text())
    assert second["cache"] == {"hits": 1, "misses": 0}
    assert second["measures"] == run["measures"]


def test_2025_csv(folder: Path) -> None:
    cell = "".join(f"{q}\t\t\n{a}\t\t\n\n" for q, a in QAS)
    (folder / "team.csv").write_text(f'id,claim,evi,label,split\n0,c,"{cell}",Refuted,pred\n')
    done = flow(
        folder,
        f"predictions={folder}/team.csv",
        f"gold={folder}/gold.json",
        f"out={folder}/out.json",
    )
    assert done.returncode == 0, done.stderr
    (run,) = json.loads((folder / "out.json").read_text())
    assert run["measures"]["qa"]["value"] == pytest.approx(0.358987, abs=5e-7)


def test_trec_run_against_qrels(folder: Path) -> None:
    (folder / "bm25.run").write_text("1 Q0 a 1 3.0 x\n1 Q0 b 2 2.0 x\n")
    (folder / "gold.qrels").write_text("1 0 b 1\n2 0 a 1\n")
    done = flow(
        folder,
        f"rankings={folder}/bm25.run",
        f"gold={folder}/gold.qrels",
        "scorer=retrieval",
        f"out={folder}/out.json",
    )
    assert done.returncode == 0, done.stderr
    (run,) = json.loads((folder / "out.json").read_text())
    assert run["measures"]["mrr"]["value"] == 0.25
    assert "Claims without ranking, counted 0 (1): 2." in done.stdout


def test_mistakes_are_one_line(folder: Path) -> None:
    gold = f"gold={folder}/gold.json"
    for arguments, message in {
        (): "error: Which file of predictions? Say predictions=FILE.",
        ("predictions=none.json", gold): "there is no such file",
        (f"predictions={folder}/team.json",): "error: Which file of gold? Say gold=FILE.",
        ("scorer=retrieval", gold): "error: Which file of rankings? Say rankings=FILE.",
        ("scorer=averitec2024", gold): "Did you mean 'averitec_2024'?",
    }.items():
        done = flow(folder, *arguments)
        assert done.returncode == 1
        assert message in done.stderr
        assert "Traceback" not in done.stderr


def test_help_is_quick(folder: Path) -> None:
    start = time.perf_counter()
    done = flow(folder, "--help")
    assert time.perf_counter() - start < 2
    assert "averitec_2024" in done.stdout
    assert "predictions: null" in done.stdout
