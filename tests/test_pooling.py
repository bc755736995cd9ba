"""Pools of evidence: the tables on a collection small enough to count by hand, and judging."""

from __future__ import annotations

import csv
import json
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from pyarrow import parquet

from components.datasets.gold import read_gold
from components.datasets.scifact import read_systems
from components.errors import ClaimflowError
from components.pooling.annotate import (
    Judgement,
    agreement,
    merged,
    pool,
    read_pool,
    read_sheet,
    read_sheets,
    settle,
    write_sheets,
)
from components.pooling.study import Study
from components.records import BadLine, Claim, Document, Prediction
from flows import pool as pool_flow
from tests.conftest import command

S, C, NEI = "SUPPORT", "CONTRADICT", "NEI"
EVIDENCE: dict[int, dict[str, tuple[str, dict[str, int] | None]]] = {
    1: {
        "10": (S, None),
        "11": (C, {"alpha": 1, "beta": 7}),
        "12": (S, {"alpha": 5, "beta": 2}),
    },
    2: {"20": (S, None), "21": (S, {"alpha": 3, "beta": 3})},
    3: {},
}
RANKED: dict[str, list[tuple[int, int, str]]] = {  # best first: claim, document, label
    "alpha": [(1, 11, C), (1, 10, S), (2, 21, S), (3, 30, S), (1, 12, NEI), (2, 20, NEI)],
    "beta": [
        (2, 20, S),
        (1, 12, S),
        (2, 21, C),
        (1, 10, NEI),
        (3, 30, NEI),
        (2, 22, S),
        (1, 11, NEI),
    ],
    "gamma": [(1, 10, S), (2, 22, S)],
}
TEXTS = {1: "Moss cures colds.", 2: "Ferns sing at night.", 3: "Lichen is old."}


def write_files(folder: Path, pooled: bool = True) -> None:
    """claims.jsonl, predictions.parquet and corpus.jsonl in the released form."""
    claims = [
        {
            "id": id,
            "claim": TEXTS[id],
            "evidence": {
                doc: {
                    "provenance": "pooling" if ranks else "citation",
                    "label": label,
                    "sentences": [0],
                    "model_ranks": ranks,
                }
                for doc, (label, ranks) in found.items()
                if pooled or not ranks
            },
        }
        for id, found in EVIDENCE.items()
    ]
    (folder / "claims.jsonl").write_text("".join(json.dumps(c) + "\n" for c in claims))
    rows = []
    for model, ranked in RANKED.items():
        for rank, (claim, doc, label) in enumerate(ranked, 1):
            better, worse = 1 - rank / 100, 0.01
            contradict = label == C
            rows.append(
                {
                    "model": model,
                    "claim_id": claim,
                    "doc_id": doc,
                    "predicted_label": label,
                    "rank": rank,
                    "p_support": worse if contradict else better,
                    "p_contradict": better if contradict else worse,
                }
            )
    parquet.write_table(pa.Table.from_pylist(rows), folder / "predictions.parquet")
    corpus = [
        {
            "doc_id": doc,
            "title": f"On {doc}",
            "abstract": ["It grows. ", f"See {doc}, “Ölte”."],
            "metadata": {},
            "scifact_orig": doc in (10, 20),
        }
        for doc in (10, 11, 12, 20, 21, 22, 30, 40)
    ]
    (folder / "corpus.jsonl").write_text("".join(json.dumps(d) + "\n" for d in corpus))


@pytest.fixture
def files(tmp_path: Path) -> Path:
    write_files(tmp_path)
    return tmp_path


@pytest.fixture
def study(files: Path) -> Study:
    original = {doc: doc in ("10", "20") for doc in ("10", "11", "12", "20", "21", "22", "30")}
    return Study(
        claims=read_gold(files / "claims.jsonl"),
        systems=read_systems(files / "predictions.parquet"),
        depth=4,
        step=2,
        original=original,
        well_studied=3,
        without_confidence=["gamma"],
        draws=200,
    )


def rows_of(rows: list[dict[str, Any]], system: str) -> list[dict[str, Any]]:
    return [row for row in rows if row["system"] == system]


def test_evidence_tables(study: Study) -> None:
    assert study.pool == ["alpha", "beta"]
    assert {row["figure"]: row["number"] for row in study.properties()} == {
        "claims": 3,
        "original evidence": 2,
        "pooled evidence": 3,
        "evidence": 5,
        "claims that hold half of all evidence": 1,
        "claims that hold half of the pooled evidence": 1,
        "claims with two documents or more": 2,
        "of these, with conflicting evidence": 1,
    }
    assert study.by_systems() == [
        {"systems": "1", "annotated": 3, "evidence": 2, "percent": pytest.approx(200 / 3)},
        {"systems": "2", "annotated": 1, "evidence": 1, "percent": 100},
        {"systems": "all", "annotated": 4, "evidence": 3, "percent": 75},
    ]
    assert [row["documents"] for row in study.original_found()] == [2, 2, 2]
    assert study.allocation() == [
        {"documents": 0, "claims": 1, "claims_original": 1, "claims_pooled": 1},
        {"documents": 1, "claims": 0, "claims_original": 2, "claims_pooled": 1},
        {"documents": 2, "claims": 1, "claims_original": 0, "claims_pooled": 1},
        {"documents": 3, "claims": 1, "claims_original": 0, "claims_pooled": 0},
    ]
    assert [row["claims"] for row in study.studied()] == [1, 2, 0]
    assert study.studied()[0]["tokens"] == 4  # Lichen is old .


def test_scores_and_confusion(study: Study) -> None:
    alpha, beta, gamma = study.scores()
    assert [alpha[m] for m in ("precision", "recall", "f1")] == pytest.approx([3 / 4, 3 / 5, 2 / 3])
    assert alpha["ap"] == pytest.approx((1 + 1 + 1 + 4 / 5 + 5 / 6) / 5)
    assert [beta[m] for m in ("precision", "recall", "f1")] == pytest.approx([2 / 4, 2 / 5, 4 / 9])
    assert "ap" not in gamma
    assert 0 < alpha["f1_sd"] < 0.5
    first = rows_of(study.confusions(), "alpha")
    assert [[row[label] for label in (S, C, NEI)] for row in first] == [
        [2, 0, 2],
        [0, 1, 0],
        [1, 0, 0],
    ]


def test_pool_depth(study: Study) -> None:
    rows = rows_of(study.pool_depth(), "alpha")
    assert [(row["depth"], row["pooled_evidence"]) for row in rows] == [(0, 0), (2, 2), (4, 3)]
    assert [row["f1"] for row in rows] == pytest.approx([1 / 3, 1 / 2, 2 / 3])
    assert rows[0]["f1_change"] is None
    assert rows[1]["f1_change"] == pytest.approx(50)
    assert rows[0]["ap"] == pytest.approx((1 / 2 + 2 / 6) / 2)  # 10 at rank 2, 20 at rank 6


def test_number_of_systems(study: Study) -> None:
    rows = rows_of(study.system_count(), "alpha")
    assert [(row["systems"], row["choices"]) for row in rows] == [(0, 1), (1, 2), (2, 1)]
    assert [row["pooled_evidence"] for row in rows] == [0, 2, 3]
    assert [row["f1"] for row in rows] == pytest.approx([1 / 3, 0.625, 2 / 3])
    assert [row["f1_sd"] for row in rows] == pytest.approx([0, 0.125, 0])


def test_excluded_systems(study: Study) -> None:
    alpha, beta, gamma = study.exclusion()
    assert alpha["own_evidence"] == beta["own_evidence"] == 1
    assert alpha["f1_included"] == pytest.approx(2 / 3)
    assert alpha["f1_excluded"] == pytest.approx(1 / 2)
    assert alpha["f1_change"] == pytest.approx(-25)
    assert (gamma["f1_included"], gamma["f1_change"], gamma["own_evidence"]) == (None, None, 0)
    assert gamma["f1_excluded"] == pytest.approx(2 / 7)


def test_jaccard(study: Study) -> None:
    first, second, _ = study.jaccard()
    assert (first["first"], first["second"]) == ("alpha", "beta")
    assert [first[k] for k in ("all", "original", "added")] == pytest.approx([1 / 7, 0, 1 / 5])
    assert [second[k] for k in ("all", "original", "added")] == pytest.approx([1 / 5, 1, 0])
    study.same_label = True
    assert study.jaccard()[0]["all"] == 0


def test_well_and_less_studied(study: Study) -> None:
    well, less = rows_of(study.studied_scores(), "alpha")
    assert (well["claims"], less["claims"]) == (1, 2)
    assert (well["precision"], well["recall"]) == pytest.approx((1, 2 / 3))
    assert (less["precision"], less["recall"]) == pytest.approx((1 / 2, 1 / 2))


def test_a_group_without_claims_or_evidence_has_no_scores(study: Study) -> None:
    study.well_studied = 9
    well, less = rows_of(study.studied_scores(), "alpha")
    assert (well["claims"], less["claims"]) == (0, 3)
    assert [well[m] for m in ("precision", "recall", "f1", "ap")] == [None] * 4
    assert None not in less.values()
    study.well_studied = 0  # claim 3, without evidence, is studied too
    assert [row["claims"] for row in rows_of(study.studied_scores(), "alpha")] == [3, 0]
    study.old = {}  # all evidence is pooled: none at depth 0 and without systems
    first = rows_of(study.pool_depth(), "alpha")[0]
    assert (first["depth"], first["pooled_evidence"]) == (0, 0)
    assert [first[m] for m in ("precision", "recall", "f1", "ap")] == [0, None, None, None]
    none = rows_of(study.system_count(), "alpha")[0]
    assert (none["systems"], none["recall"], none["recall_sd"]) == (0, None, None)


def test_a_study_says_what_it_lacks(study: Study) -> None:
    with pytest.raises(
        ClaimflowError, match=r"has a rank by delta\. Systems with ranks: alpha, beta"
    ):
        Study(claims=study.claims, systems=study.systems, pooled=["delta"])
    with pytest.raises(ClaimflowError, match="None of the 1 claims has evidence"):
        Study(claims=[Claim(id="1", text="")], systems={})
    alone = Study(claims=study.claims, systems={"alpha": study.systems["alpha"]})
    assert alone.by_systems() == alone.original_found() == []
    assert "without the predictions of beta: tables 2b and 2c are left out" in alone.notes[-1]
    assert alone.pool_depth()
    odd = Study(claims=study.claims[:2], systems={"alpha": study.systems["alpha"]})
    assert odd.notes[0] == "alpha: Predictions passed over, for no gold claim (1): 3."


# Making a pool


@pytest.fixture
def begun(tmp_path: Path) -> Path:
    """The files before anything was pooled."""
    write_files(tmp_path, pooled=False)
    return tmp_path


def documents(folder: Path) -> list[Document]:
    lines = (folder / "corpus.jsonl").read_text().splitlines()
    return [
        Document(id=str(d["doc_id"]), title=d["title"], sentences=d["abstract"])
        for d in map(json.loads, lines)
    ]


def sheet_rows(path: Path) -> list[dict[str, str]]:
    with open(path, encoding="utf-8-sig", newline="") as file:
        return list(csv.DictReader(file))


def test_a_pool_is_the_union_of_what_systems_rank_high(begun: Path) -> None:
    claims = read_gold(begun / "claims.jsonl")
    systems = read_systems(begun / "predictions.parquet")
    first = {name: systems[name] for name in ("alpha", "beta")}
    found = {(p.claim, p.doc): p.ranks for p in pool(claims, first, depth=4)}
    assert found == {  # 10 and 20 are evidence already; ranks below the depth are kept
        ("1", "11"): {"alpha": 1, "beta": 7},
        ("1", "12"): {"alpha": 5, "beta": 2},
        ("2", "21"): {"alpha": 3, "beta": 3},
        ("3", "30"): {"alpha": 4, "beta": 5},
    }
    silent = {"mute": [Prediction(id="1", claim="", evidence=[], label="")]}
    with pytest.raises(ClaimflowError, match="mute has no confidences"):
        pool(claims, silent)


def test_sheets_are_blind_balanced_and_safe(begun: Path) -> None:
    claims = read_gold(begun / "claims.jsonl")
    pooled = pool(claims, read_systems(begun / "predictions.parquet"), depth=4)
    paths = write_sheets(begun / "a", pooled, claims, documents(begun), annotators=3)
    sheets = [sheet_rows(path) for path in paths]
    assert sorted(map(len, sheets)) == [3, 3, 4]  # 5 documents, twice
    pairs = [(row["claim_id"], row["doc_id"]) for sheet in sheets for row in sheet]
    assert all(pairs.count((p.claim, p.doc)) == 2 for p in pooled)
    for path, sheet in zip(paths, sheets, strict=True):
        assert len({(row["claim_id"], row["doc_id"]) for row in sheet}) == len(sheet)
        text = path.read_text("utf-8-sig")
        assert not any(word in text for word in ("alpha", "beta", "gamma", S, C, "rank"))
    row = next(row for row in sheets[0] if row["doc_id"])
    assert row["claim"] == TEXTS[int(row["claim_id"])]
    assert row["abstract"] == f"[0] It grows. [1] See {row['doc_id']}, “Ölte”."
    key = read_pool(begun / "a")
    assert [msgspec.structs.replace(p, sentences=None, judges=[]) for p in key] == pooled
    assert {p.sentences for p in key} == {2}
    for p in key:  # the key says who has which document
        names = [
            f.stem
            for f, sheet in zip(paths, sheets, strict=True)
            if (p.claim, p.doc) in {(row["claim_id"], row["doc_id"]) for row in sheet}
        ]
        assert p.judges == names  # fmt: skip
    again = write_sheets(begun / "b", pooled, claims, documents(begun), annotators=3)
    assert [path.read_bytes() for path in again] == [path.read_bytes() for path in paths]
    other = write_sheets(begun / "c", pooled, claims, documents(begun), annotators=3, seed=1)
    assert [path.read_bytes() for path in other] != [path.read_bytes() for path in paths]
    with pytest.raises(ClaimflowError, match="has sheets already"):
        write_sheets(begun / "a", pooled, claims, documents(begun))
    with pytest.raises(ClaimflowError, match="lacks 1 of 5 pooled documents, the first 11"):
        write_sheets(begun / "d", pooled, claims, [d for d in documents(begun) if d.id != "11"])
    with pytest.raises(ClaimflowError, match="judgements=4, annotators=3"):
        write_sheets(begun / "d", pooled, claims, documents(begun), judgements=4)
    with pytest.raises(ClaimflowError, match="Nothing is to be judged"):
        write_sheets(begun / "d", [], claims, documents(begun))
    assert not (begun / "d").exists()


# Judging


def judged(annotator: str, claim: str, doc: str, label: str | None, *numbers: int) -> Judgement:
    return Judgement(annotator=annotator, claim=claim, doc=doc, label=label, sentences=[*numbers])


def test_judgements_are_counted_settled_and_merged(begun: Path) -> None:
    claims = read_gold(begun / "claims.jsonl")
    systems = read_systems(begun / "predictions.parquet")
    pooled = pool(claims, systems, depth=4)
    given = [
        judged("x", "1", "11", C, 1),
        judged("y", "1", "11", C, 0),
        judged("x", "1", "12", S),
        judged("y", "1", "12", C),
        judged("x", "2", "21", S),
        judged("y", "2", "21", NEI),
        judged("x", "2", "22", NEI),
        judged("y", "2", "22", NEI),
        judged("x", "3", "30", S),
        judged("y", "3", "30", None),  # not yet
    ]
    outcomes = settle(pooled, given)
    labels = {o.pooled.doc: o.label for o in outcomes}
    assert labels == {"11": C, "12": None, "21": None, "22": NEI, "30": None}
    assert {row["documents"]: row["number"] for row in agreement(outcomes)} == {
        "pooled": 5,
        "judged": 5,
        "judged by two or more": 4,
        "same label": 2,
        "same whether it is evidence": 3,
        "open": 3,
        "evidence": 1,
    }
    first = merged(claims, outcomes)[0]
    assert [gold.provenance for gold in first.gold] == ["citation", "pooling"]
    assert first.gold[1].items == [("11", 0), ("11", 1)]
    assert first.gold[1].ranks == {"alpha": 1, "beta": 7}
    assert len(claims[0].gold) == 1
    after = settle(pooled, given, [judged("discuss", "1", "12", S, 1)])
    assert [o.label for o in after if o.pooled.doc == "12"] == [S]
    assert [o.sentences for o in after if o.pooled.doc == "12"] == [[1]]
    assert len(merged(claims, after)[0].gold) == 3


@pytest.fixture
def sent(begun: Path) -> Path:
    """A folder of which every sheet is filled in with SUPPORT."""
    claims = read_gold(begun / "claims.jsonl")
    pooled = pool(claims, read_systems(begun / "predictions.parquet"), depth=4)
    for path in write_sheets(begun / "p", pooled, claims, documents(begun)):
        fill(path, [row | {"label": S} for row in sheet_rows(path)])
    return begun / "p"


def fill(path: Path, rows: list[dict[str, str]]) -> None:
    with open(path, "w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def open_of(folder: Path) -> tuple[set[str], list[str]]:
    """(documents that are open, notes)."""
    pooled = read_pool(folder)
    judgements, notes = read_sheets(folder, pooled)
    return {o.pooled.doc for o in settle(pooled, judgements) if o.label is None}, notes


def test_nothing_is_settled_without_all_who_are_due(sent: Path) -> None:
    assert open_of(sent) == (set(), [])
    path = sent / "sheets" / "annotator_2.csv"
    rows = sheet_rows(path)
    path.unlink()
    missing, notes = open_of(sent)
    assert missing == {row["doc_id"] for row in rows}
    assert notes == [
        f"annotator_2.csv is missing from {sent / 'sheets'}: the documents that it judges "
        f"({len(rows)}) stay open."
    ]
    fill(path, rows[1:])
    missing, notes = open_of(sent)
    assert missing == {rows[0]["doc_id"]}
    assert notes == [
        f"{path} has no row that counts for documents that it judges (1), which stay open; "
        f"the first: claim {rows[0]['claim_id']}, document {rows[0]['doc_id']}."
    ]
    fill(path, [rows[0] | {"label": ""}, *rows[1:]])  # not yet
    note = (
        f"{path} has no label yet in 1 of {len(rows)} rows; the first: claim "
        f"{rows[0]['claim_id']}, document {rows[0]['doc_id']}."
    )
    assert open_of(sent) == ({rows[0]["doc_id"]}, [note])
    assert note in merge(sent.parent)[0]


def test_a_sheet_counts_once_and_for_whom_it_was_made(sent: Path) -> None:
    first, second = (sent / "sheets" / f"annotator_{n}.csv" for n in (1, 2))
    copy = first.with_name("annotator_1 (copy).csv")
    copy.write_bytes(first.read_bytes())
    with pytest.raises(
        ClaimflowError, match=r"\(copy\)\.csv is nobody's: the sheets are annotator_1"
    ):
        open_of(sent)
    copy.unlink()
    strange = [row for row in sheet_rows(first)
               if row["doc_id"] not in {r["doc_id"] for r in sheet_rows(second)}]  # fmt: skip
    fill(second, [*sheet_rows(second), strange[0]])
    with pytest.raises(ClaimflowError, match="is for annotator_1 and annotator_3 to judge"):
        open_of(sent)


def test_a_sentence_that_the_abstract_does_not_have(sent: Path) -> None:
    path = sent / "sheets" / "annotator_1.csv"
    rows = sheet_rows(path)
    fill(path, [rows[0] | {"sentences": "[0] 1"}, rows[1] | {"sentences": "[0], 2"}, *rows[2:]])
    with pytest.raises(
        ClaimflowError, match=r"annotator_1\.csv, line 3: .* has no sentence 2: its"
    ):
        open_of(sent)


def test_a_key_of_before_says_what_is_not_seen(sent: Path) -> None:
    path = sent / "pool.jsonl"
    old = [json.loads(line) for line in path.read_text().splitlines()]
    path.write_text("".join(json.dumps({k: r[k] for k in ("claim", "doc", "ranks")}) + "\n"
                            for r in old))  # fmt: skip
    (sent / "sheets" / "annotator_2.csv").unlink()
    (note,) = open_of(sent)[1]
    assert "does not say who is due to judge what" in note


def test_a_sheet_in_another_encoding_is_refused(sent: Path) -> None:
    path = sent / "sheets" / "annotator_1.csv"
    path.write_bytes(
        path.read_text().replace("\u201c", '""').replace("\u201d", '""').encode("latin-1")
    )
    with pytest.raises(ClaimflowError, match=r"annotator_1\.csv, line 2: byte 0xd6 is no UTF-8"):
        open_of(sent)


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ("1,11,SUPPORTS,", "unknown label 'SUPPORTS'. Did you mean 'SUPPORT'"),
        ("1,99,SUPPORT,", "claim 1, document 99 is not in the pool"),
        ("1,12,SUPPORT,", "claim 1, document 12 again"),
        ("1,11,SUPPORT,first", "'first' is not the number of a sentence"),
        pytest.param(f"1,11,SUPPORT,{'9' * 5000}", "9' is not the number of a sentence", id="long"),
        ("1", "claim 1, document  is not in the pool"),
    ],
)
def test_a_bad_row_of_a_sheet_costs_itself_alone(begun: Path, row: str, reason: str) -> None:
    pooled = pool(
        read_gold(begun / "claims.jsonl"), read_systems(begun / "predictions.parquet"), depth=4
    )
    path = begun / "x.csv"
    path.write_text(f'claim_id,doc_id,label,sentences\n1,12, support ,"[0], 1"\n{row}\n')
    with pytest.raises(ClaimflowError, match=r"x\.csv, line 3: ") as stopped:
        read_sheet(path, pooled)
    assert reason in str(stopped.value)
    bad: list[BadLine] = []
    assert read_sheet(path, pooled, "skip", bad) == [judged("x", "1", "12", S, 0, 1)]
    assert [b.line for b in bad] == [3]
    path.write_text(f'claim_id,doc_id,label\n1,12,"{"x" * 200_000}\n')
    with pytest.raises(
        ClaimflowError, match=r"x\.csv, line 2: no CSV .* a quote that is not closed"
    ):
        read_sheet(path, pooled)
    path.write_text("claim_id,label\n")
    with pytest.raises(ClaimflowError, match="has no column doc_id"):
        read_sheet(path, pooled)
    path.write_text("claim_id;doc_id;title;label;sentences;comment\n1;12;;SUPPORT;0;\n")
    with pytest.raises(ClaimflowError, match="parted by ';', save it with commas"):
        read_sheet(path, pooled)


# As a command


def flow(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return command("flows.pool", *words, CLAIMFLOW_CACHE=str(folder / "cache"))


def test_tables_as_a_command(files: Path) -> None:
    done = flow(
        files,
        f"claims={files}/claims.jsonl",
        f"predictions={files}/predictions.parquet",
        f"corpus={files}/corpus.jsonl",
        "depth=4",
        "step=2",
        f"to={files}/tables",
        f"out={files}/out.json",
    )
    assert done.returncode == 0, done.stderr
    assert "## Pool depth (figures 5, 10, 12)" in done.stdout
    found = json.loads((files / "out.json").read_text())["tables"]
    assert found["exclusion"][0]["f1_change"] == pytest.approx(-25)
    with open(files / "tables" / "scores.csv", newline="") as file:
        assert [row["system"] for row in csv.DictReader(file)] == ["alpha", "beta", "gamma"]


def test_a_pool_from_sheets_to_a_gold_file(begun: Path) -> None:
    claims, predictions = f"claims={begun}/claims.jsonl", f"predictions={begun}/predictions.parquet"
    words = [claims, f"to={begun}/p"]
    more = [predictions, f"corpus={begun}/corpus.jsonl", "depth=4", "pooled=[alpha,beta]"]
    done = flow(begun, "do=sheets", *words, *more)
    assert done.returncode == 0, done.stderr
    assert "4 documents of 2 systems are to be judged." in done.stdout
    truth = {"11": C, "12": S, "21": S, "30": NEI}
    for number, path in enumerate(sorted((begun / "p" / "sheets").glob("*.csv"))):
        rows = sheet_rows(path)
        for row in rows:
            row["label"] = truth[row["doc_id"]]
            if row["doc_id"] == "12":
                row["label"] = (S, C, NEI)[number]  # all differ
        with open(path, "w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
    merging = ["do=merge", *words, f"gold={begun}/gold.jsonl"]
    done = flow(begun, *merging)
    assert done.returncode == 0, done.stderr
    assert "Open documents: fill in" in done.stdout
    assert sum(len(c.gold) for c in read_gold(begun / "gold.jsonl")) == 2 + 2
    (row,) = sheet_rows(begun / "p" / "discuss.csv")
    assert (row["doc_id"], row["label"]) == ("12", "")
    text = (begun / "p" / "discuss.csv").read_text("utf-8-sig")
    filled = text.replace(row["judgements"] + ",,,", row["judgements"] + ",support,0,we agree")
    assert filled != text
    (begun / "p" / "discuss.csv").write_text(filled)
    done = flow(begun, *merging)
    assert done.returncode == 0, done.stderr
    assert "Open documents" not in done.stdout
    assert sheet_rows(begun / "p" / "discuss.csv")[0]["comment"] == "we agree"
    path = begun / "p" / "sheets" / "annotator_2.csv"
    whole = path.read_bytes()
    path.unlink()
    done = flow(begun, *merging)
    assert "- annotator_2.csv is missing from " in done.stdout
    assert "Open documents" not in done.stdout  # to be discussed
    path.write_bytes(whole)
    assert flow(begun, *merging).returncode == 0
    # What was made is what the tables were tested with.
    write_files(begun)
    final, released = read_gold(begun / "gold.jsonl"), read_gold(begun / "claims.jsonl")
    for ours, theirs in zip(final, released, strict=True):
        assert [(g.label, g.provenance, g.ranks) for g in ours.gold] == [
            (g.label, g.provenance, g.ranks) for g in theirs.gold
        ]


def test_predictions_of_other_forms_are_no_pool(tmp_path: Path) -> None:
    path = tmp_path / "team.json"
    config = SimpleNamespace(predictions=str(path), on_error="stop")
    qa = {"question": "Who?", "answer": "Her."}
    path.write_text(json.dumps([{"claim_id": 1, "pred_label": "Refuted", "evidence": [qa]}]))
    with pytest.raises(ClaimflowError, match=r"team\.json has predictions of AVeriTeC, and a pool"):
        pool_flow.systems_of(config, [])
    path.write_text(json.dumps({"id": 1, "evidence": {"7": {"label": S, "sentences": [0]}}}))
    assert list(pool_flow.systems_of(config, [])) == ["team"]


def merge(folder: Path, **more: str) -> tuple[list[str], list[Claim]]:
    """(notes, claims) of merging what is in p, without a new process."""
    words = {"claims": f"{folder}/claims.jsonl", "to": f"{folder}/p", "gold": f"{folder}/gold"}
    config = SimpleNamespace(**words | {"on_error": "skip"} | more)
    return pool_flow.merge(config, [])[1], read_gold(folder / "gold")


def test_a_corpus_that_says_nothing_of_its_documents_is_told(files: Path) -> None:
    texts = [json.loads(line) for line in (files / "corpus.jsonl").read_text().splitlines()]
    plain = "".join(
        json.dumps({k: t[k] for k in ("doc_id", "title", "abstract")}) + "\n" for t in texts
    )
    (files / "plain.jsonl").write_text(plain)
    done = flow(
        files,
        f"claims={files}/claims.jsonl",
        f"predictions={files}/predictions.parquet",
        f"corpus={files}/plain.jsonl",
        "depth=4",
        "step=2",
        "draws=2",
    )
    assert done.returncode == 0, done.stderr
    assert "plain.jsonl does not say which documents are of SciFact (scifact_orig)" in done.stdout


def test_sheets_say_what_is_in_no_ranking(begun: Path) -> None:
    rows = parquet.read_table(begun / "predictions.parquet").to_pylist()
    rows[0]["rank"] = None
    parquet.write_table(pa.Table.from_pylist(rows), begun / "predictions.parquet")
    words = {name: str(begun / name) for name in ("claims.jsonl", "corpus.jsonl")}
    config = SimpleNamespace(
        claims=words["claims.jsonl"],
        corpus=words["corpus.jsonl"],
        predictions=str(begun / "predictions.parquet"),
        pooled=None,
        on_error="stop",
        to=str(begun / "p"),
        depth=4,
        annotators=2,
        judgements=1,
        seed=1,
    )
    _, notes = pool_flow.sheets(config, [])
    assert notes[1].startswith("alpha: 1 of 6 retrieved documents have no rank, and stand in no")


def test_what_was_written_for_a_discussion_is_not_erased(sent: Path) -> None:
    begun = sent.parent
    path = sorted((sent / "sheets").glob("*.csv"))[0]
    fill(path, [row | {"label": C} for row in sheet_rows(path)])
    merge(begun)
    rows = sheet_rows(sent / "discuss.csv")
    assert len(rows) > 1
    rows[0] |= {"label": "SUPORT", "sentences": "0 2", "comment": "we agree"}
    rows[1] |= {"label": S, "sentences": "0"}
    fill(sent / "discuss.csv", rows)
    before = (sent / "discuss.csv").read_bytes()
    notes, claims = merge(begun)
    assert (sent / "discuss.csv").read_bytes() == before
    assert any("is left as it is, as 1 of its rows can't be read" in note for note in notes)
    by_doc = {g.items[0][0]: g.label for c in claims for g in c.gold}
    assert by_doc[rows[1]["doc_id"]] == S
    rows[0] |= {"label": S}
    rows[0] |= {"sentences": "0"}
    fill(sent / "discuss.csv", rows)
    assert not any("is left as it is" in note for note in merge(begun)[0])
    assert sheet_rows(sent / "discuss.csv")[0]["comment"] == "we agree"


def test_a_merge_says_what_it_adds_and_what_it_leaves_out(sent: Path) -> None:
    begun = sent.parent
    pooled = read_pool(sent)
    text = (begun / "claims.jsonl").read_text().splitlines(True)
    gone = json.loads(text[-1])["id"]
    lost = sum(item.claim == str(gone) for item in pooled)
    assert lost
    (begun / "claims.jsonl").write_text("".join(text[:-1]))
    notes, _ = merge(begun)
    assert f"{len(text) - 1} claims, to which {len(pooled) - lost} of {len(pooled)} " in notes[0]
    assert notes[0].endswith("; 0 stay open.")
    assert any(f"what was judged for them is left out (1): {gone}." in note for note in notes)
    two = [{"label": S, "sentences": [n]} for n in (0, 1)]
    claim = {"id": 1, "claim": "A.", "evidence": {"10": two}, "cited_doc_ids": [10, 12]}
    (begun / "claims.jsonl").write_text(json.dumps(claim) + "\n" + "".join(text[1:]))
    notes, claims = merge(begun)
    assert any("in which the rationales of a document are one" in note for note in notes)
    assert claims[0].relevant == ["10", "12"]
    assert claims[0].gold[0].items == [("10", 0), ("10", 1)]


def test_mistakes_are_one_line(files: Path) -> None:
    claims, predictions = f"claims={files}/claims.jsonl", f"predictions={files}/predictions.parquet"
    for words, message in {
        ("do=sheet",): "No way to pool 'sheet'. Did you mean 'sheets'?",
        (): "do=tables needs claims: say claims=…",
        (claims, predictions, "do=merge", f"to={files}", "gold=x"): "No pool.jsonl in ",
    }.items():
        done = flow(files, *words)
        assert done.returncode == 1
        assert message in done.stderr
        assert "Traceback" not in done.stderr
