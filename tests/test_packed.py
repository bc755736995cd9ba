"""Packed stores: what was packed is given back to the byte, and read as the official files are."""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from components.cache import Cache
from components.datasets.averitec import Averitec
from components.datasets.base import case_refs
from components.errors import ClaimflowError
from components.files import ROOT
from components.records import Claim, encode, read_lines
from components.store import official, part
from components.store.pack import Packer
from components.store.packed import Packed, open_packed, unpack
from tests.conftest import DATA, Ran, command
from tests.test_docs import blocks

PAGE = {"claim_id": 0, "type": "claim", "query": "q", "url": "u", "url2text": ["Één.", "Two."]}
LINE = json.dumps(PAGE, ensure_ascii=False)


def packed(folder: Path, files: dict[str, bytes], **options: int) -> tuple[Packer, Packed]:
    """Files packed into folder/packed."""
    (folder / "official").mkdir(exist_ok=True)
    for name, data in files.items():
        (folder / "official" / name).write_bytes(data)
    packer = Packer(folder / "official", folder / "packed", **options)
    assert sorted(source.claim for source in packer) == sorted(s.claim for s in packer.sources)
    return packer, Packed(folder / "packed")


def written(store: Packed) -> dict[str, bytes]:
    """What a packed store writes back."""
    with tempfile.TemporaryDirectory() as folder:
        assert list(unpack(store, Path(folder))) == list(store.claims.values())
        return {path.name: path.read_bytes() for path in Path(folder).iterdir()}


def raw(store: Packed) -> int:
    """How many lines the columns don't give back."""
    return sum(line.raw is not None for claim in store.claims for line in store.lines(claim))


# The identity

texts = st.text(max_size=12) | st.sampled_from(['"', '",', "\\", "\x00\x1f\x7f\u2028", "😀", "/"])
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
usual = {
    "claim_id": st.integers(-(2**63), 2**63 - 1) | st.none(),
    "type": texts | st.none(),
    "query": texts | st.none(),
    "url": texts | st.none(),
    "url2text": st.lists(texts, max_size=4) | st.none(),
}
keys = st.sampled_from([*usual, "title", "date", "file", "form", "raw", "line", "claim"]) | texts
odd = st.dictionaries(keys, values, max_size=5).map(lambda found: {"url": "u", **found})
pages = st.lists(st.sampled_from(list(usual)), unique=True).flatmap(  # in any order, some absent
    lambda order: st.fixed_dictionaries({key: usual[key] for key in [*order, "url"]})
)
styles = st.fixed_dictionaries(
    {
        "ensure_ascii": st.booleans(),
        "separators": st.sampled_from([(", ", ": "), (",", ":")]),
    }
)


@settings(deadline=None, max_examples=40)
@given(st.lists(pages, min_size=1, max_size=5), styles, st.sampled_from(["\n", "\r\n"]))
def test_usual_records_stand_in_columns_alone(records: Any, style: Any, end: str) -> None:
    lines = [json.dumps(record, **style) for record in records]
    data = "".join(line + end for line in lines).encode()
    with tempfile.TemporaryDirectory() as folder:
        _, store = packed(Path(folder), {"7.json": data})
        assert written(store) == {"7.json": data}
        assert raw(store) == 0
        found = [line.record for line in store.lines("7")]
        assert found == records
        assert [list(record) for record in found] == [list(record) for record in records]


@settings(deadline=None, max_examples=40)
@given(st.lists(odd, min_size=1, max_size=4), st.sampled_from([None, 1]), st.booleans())
def test_any_records_are_given_back(records: Any, indent: int | None, ascii: bool) -> None:
    lines = "\n".join(json.dumps(record, ensure_ascii=ascii) for record in records)
    whole = json.dumps(records, ensure_ascii=ascii, indent=indent)
    files = {"a.json": lines.encode(), "b.jsonl": whole.encode()}
    with tempfile.TemporaryDirectory() as folder:
        packer, store = packed(Path(folder), files)
        assert packer.bad == []
        assert written(store) == files
        for claim in "ab":
            assert encode([line.read(dict[str, Any]) for line in store.lines(claim)]) == (
                encode([json.loads(json.dumps(record)) for record in records])
            )


junk = st.binary(max_size=30) | st.sampled_from(
    [
        LINE.encode(),
        b"[" + LINE.encode(),
        b", " + LINE.encode(),
        b", ]",
        b"[",
        b"]",
        b",",
        b"\n",
        b"\r\n",
        b"{}",
        b"\xef\xbb\xbf",
        b'{"url": "\xff"}',
    ]
)


@settings(deadline=None, max_examples=40)
@given(st.lists(junk, max_size=8).map(b"".join))
@example(b"[" + LINE.encode() + b"] x")
@example(b"[" + LINE.encode() + b", ]x")
@example(b"[" + LINE.encode() + b",\x0c" + LINE.encode() + b"]\xc2\xa0")
@example(b"\n\x0c\n" + LINE.encode() + b"\r\r\n" + LINE.encode())
def test_any_file_is_given_back_or_named_as_bad(data: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        packer, store = packed(Path(folder), {"0.json": data, "1.json": LINE.encode()})
        good = {"1.json": LINE.encode()}
        assert written(store) == (good if packer.bad else good | {"0.json": data})
        assert {problem.file for problem in packer.bad} <= {f"{folder}/official/0.json"}
        if "0" in store.claims:
            official = list(read_lines(Path(folder, "official", "0.json"), dict[str, Any]))
            found = [(line.number, line.read(dict[str, Any])) for line in store.lines("0")]
            assert encode(found) == encode(official)


def variants() -> dict[str, bytes]:
    """Ways to write a store, by name: each must read as it does from its own file."""
    long = json.dumps(PAGE | {"url": "v", "url2text": ["word " * 400_000]})
    records = {
        "a string for a list": {"url": "u", "url2text": "One."},
        "null and absent": {"type": None, "url": "u", "url2text": None},
        "mixed texts": {"url": "u", "url2text": ["One.", 2]},
        "claim id a text": PAGE | {"claim_id": "0"},
        "claim id true": PAGE | {"claim_id": True},
        "claim id with a point": PAGE | {"claim_id": 1.0},
        "claim id beyond 64 bits": PAGE | {"claim_id": 2**70},
        "not a number": PAGE | {"weight": float("nan")},
        "further keys": PAGE | {"form": 3, "raw": "x", "line": [1], "claim": {"b": 1, "a": None}},
        "title, date, file": PAGE | {"title": "T", "date": "2020-02-03", "lang": "en"},
        "right to left, composed or not": PAGE | {"url2text": ["مرحبا", "é", "e\u0301", "中文"]},
        "emoji escaped": {"url": "u", "url2text": ["😀"]},
    }
    lines = {name: json.dumps(record).encode() + b"\n" for name, record in records.items()}
    good = LINE.encode()
    return lines | {
        "lone surrogate": b'{"url": "u", "url2text": ["a\\ud800b", "c"]}\n' + good,
        "no UTF-8": b'{"url": "u", "url2text": ["a\xffb"]}\n' + good,
        "key twice": b'{"url": "u", "url": "v", "url2text": ["One."]}\n',
        "escaped slashes": b'{"url": "http:\\/\\/x", "url2text": ["One."]}\n',
        "other spaces": b' { "url" :"u","url2text":["One." ] } \n',
        "byte order mark": b"\xef\xbb\xbf" + good + b"\n",
        "blank lines": b"\n\n" + good + b"\n\n" + good + b"\n\n\n",
        "no last newline": good + b"\n" + good,
        "a line of 2 MB": long.encode() + b"\n" + good,
        "wrong type in a later line": good + b'\n{"url": 3, "url2text": []}\n' + good,
        "list": b"[" + good + b", " + good + b"]",
        "list on lines": b"\xef\xbb\xbf[\n" + good + b",\n" + good + b"\n]\n",
        "indented list": json.dumps([PAGE, PAGE], indent=2).encode(),
        "list with a lone surrogate": b'[{"url": "u", "url2text": ["a\\udfffb"]}, ' + good + b"]",
    }


@pytest.mark.parametrize("name", variants())
def test_pitfall_17_every_way_to_write_a_store(name: str, tmp_path: Path) -> None:
    data = variants()[name]
    packer, store = packed(tmp_path, {"0.json": data})
    assert packer.bad == []
    assert written(store) == {"0.json": data}
    claim = Claim(id="0", text="")
    found = []
    for folder in ("official", "packed"):
        dataset = Averitec(path=tmp_path, store=tmp_path / folder, on_error="skip")
        try:
            documents = encode(dataset.read_documents(claim))
        except ClaimflowError as error:  # the files stand in different folders
            documents = re.sub(r"/\S+", "FILE", str(error)).encode()
        found.append((documents, [bad.line for bad in dataset.bad]))
    assert found[0] == found[1]


def test_a_line_that_reads_badly_is_named_where_it_stood(tmp_path: Path) -> None:
    packed(tmp_path, {"0.json": variants()["wrong type in a later line"]})
    with pytest.raises(ClaimflowError, match=r"packed/0\.json, line 2: .* a text or null is due"):
        Averitec(path=tmp_path, store=tmp_path / "packed").read_documents(Claim(id="0", text=""))


# Bad files, zips, being stopped


def test_pitfall_4_a_bad_file_costs_itself_alone(tmp_path: Path) -> None:
    good = LINE.encode()
    bad = {
        "1.json": (b"", 1, "is empty"),
        "2.json": (good + b"\n" + good[:-20], 2, "truncated"),
        "3.json": (good + b"\n[1]\n", 2, "Expected `object`, got `array`"),
        "4.json": (b"[" + good + b",\n" + good[:-9], 2, "record 2: "),
        "5.json": (b"[" + good + b"\n" + good + b"]", 1, "record 1: the list breaks off"),
        "6.json": (b'[{"claim": "A.", "label": "Refuted"}]', 1, "neither url nor url2text"),
        "7.json": (b'{"url": ' + b"[" * 5000 + b"]" * 5000 + b"}", 1, "recursion"),
        "8.json": (b"\n \n", 1, "is empty"),
        "a.json": (b"\n[ ]\n", 1, "is empty"),
        "b.json": (b"[]\n" + good, 1, "something follows the list"),
    }
    files = {"0.json": good, "9.json": good} | {name: case[0] for name, case in bad.items()}
    packer, store = packed(tmp_path, files)
    assert list(store.claims) == ["0", "9"]
    plain = Averitec(path=tmp_path, store=tmp_path / "official")
    for problem in packer.bad:
        with pytest.raises(ClaimflowError):  # unpacked it is refused as well
            plain.read_documents(Claim(id=Path(problem.file).stem, text=""))
        _, line, reason = bad.pop(Path(problem.file).name)
        assert problem.line == line
        assert reason in problem.reason
    assert not bad
    with pytest.raises(ClaimflowError, match=r"has no claim 2\. It has 2 claims"):
        store.batches("2")
    # Mended, it joins the others; they stay.
    before = (tmp_path / "packed" / "documents" / "00000.arrow").stat().st_mtime_ns
    packer, store = packed(tmp_path, {"2.json": good + b"\n" + good})
    assert (packer.kept, len(packer.bad), list(store.claims)) == (2, 9, ["0", "2", "9"])
    assert (tmp_path / "packed" / "documents" / "00000.arrow").stat().st_mtime_ns == before


def zipped(path: Path, files: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return path


def test_zips_and_folders_of_them(tmp_path: Path) -> None:
    line = LINE.encode()
    source = tmp_path / "release"
    (source / "more").mkdir(parents=True)
    (source / "more" / "11.JSON").write_bytes(line)
    zipped(source / "dev_0.zip", {"output/2.json": line, "output/10.json": line * 1, "a.txt": b"x",
                                  "__MACOSX/output/._2.json": b"junk"})  # fmt: skip
    (source / "5.json").symlink_to("nothing")
    (source / "torn.zip").write_bytes((source / "dev_0.zip").read_bytes()[:150])
    broken = zipped(source / "dev_1.zip", {"3.json": line * 9, "4.json": line}).read_bytes()
    at = broken.index(b"3.json") + 6
    (source / "dev_1.zip").write_bytes(broken[:at] + b"\x07\x07" + broken[at + 2 :])
    packer = Packer(source, tmp_path / "packed")
    assert [s.claim for s in packer] == ["2", "3", "4", "10", "11"]
    store = Packed(tmp_path / "packed")
    assert written(store) == dict.fromkeys(("2.json", "4.json", "10.json", "11.JSON"), line)
    assert store.claims["10"].source == f"{source}/dev_0.zip/output/10.json"
    problems = {os.path.relpath(bad.file, source): bad.reason for bad in packer.bad}
    assert list(problems) == ["5.json", "torn.zip", "dev_1.zip/3.json"]
    assert all("can't be read" in reason for reason in problems.values())
    again = Packer(source / "dev_0.zip", tmp_path / "packed")
    assert len(list(again)) == again.kept == 2


def test_what_cannot_be_packed(tmp_path: Path) -> None:
    packed(tmp_path, {"0.json": LINE.encode()})
    for path, to, message in (
        ("none", "new", "No .*none: give the folder"),
        ("packed", "new", "is a packed store already"),
        ("packed/documents", "new", "has no official store files"),
        ("official", "official", "holds other files: give an empty folder"),
        (".", "new", None),
    ):
        if message is None:
            (tmp_path / "0.jsonl").write_bytes(LINE.encode())
            message = r"Two stores for claim 0: .*/0\.jsonl and .*/official/0\.json"
        with pytest.raises(ClaimflowError, match=message):
            Packer(tmp_path / path, tmp_path / to)
    assert not (tmp_path / "new").exists()


def test_a_file_that_changes_is_not_mixed_with_what_was_packed(tmp_path: Path) -> None:
    packed(tmp_path, {"0.json": LINE.encode()})
    os.utime(tmp_path / "official" / "0.json", (1, 1))  # copied, the same content
    packer, _ = packed(tmp_path, {})
    assert packer.kept == 1
    with pytest.raises(ClaimflowError, match=r"claim 0 as it stood before .*0\.json changed"):
        packed(tmp_path, {"0.json": LINE.encode() * 2})


def test_two_at_once(tmp_path: Path) -> None:
    packed(tmp_path, {"0.json": LINE.encode()})
    first = iter(Packer(tmp_path / "official", tmp_path / "packed"))
    next(first)
    with pytest.raises(ClaimflowError, match="Another process packs into"):
        list(Packer(tmp_path / "official", tmp_path / "packed"))
    assert list(first) == []
    assert len(list(Packer(tmp_path / "official", tmp_path / "packed"))) == 1


@pytest.mark.slow
@pytest.mark.serverless
def test_kill_and_start_again(tmp_path: Path) -> None:
    source, to = tmp_path / "official", tmp_path / "packed"
    source.mkdir()
    page = json.dumps(PAGE | {"url2text": ["A sentence of some length."] * 400}) + "\n"
    files = {f"{n}.json": (page * 50).encode() for n in range(60)}  # .6 MB each
    for name, data in files.items():
        (source / name).write_bytes(data)
    words = [sys.executable, "-m", "flows.pack", f"path={source}", f"to={to}", "part=6"]
    process = subprocess.Popen(words, cwd=ROOT, stderr=subprocess.DEVNULL)
    while process.poll() is None and not (to / "documents" / "00001.arrow").exists():
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    process.wait()
    begun = Packed(to)
    assert 2 <= len(begun.claims) < 60
    first = (to / "documents" / "00000.arrow").stat().st_mtime_ns
    # What a kill at a worse moment leaves: a file that nothing names, and one half-written.
    (to / "documents" / "00098.arrow").write_bytes(b"ARROW1")
    (to / "documents" / ".00099.abc_d1.part").write_bytes(b"ARROW1")
    assert written(begun) == {name: files[name] for name in written(begun)}
    done = command("flows.pack", f"path={source}", f"to={to}", "part=6", f"out={tmp_path}/out.json")
    assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "out.json").read_bytes())["kept"] == len(begun.claims)
    assert written(Packed(to)) == files
    assert (to / "documents" / "00000.arrow").stat().st_mtime_ns == first
    named = {Path(Packed(to).part(claim)).name for claim in Packed(to).claims}
    assert {path.name for path in (to / "documents").iterdir()} == named


def test_a_full_disk(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", disk]
    if subprocess.run(mount, stderr=subprocess.DEVNULL, check=False).returncode:
        pytest.skip("may not mount")
    try:
        (tmp_path / "official").mkdir()
        for n in range(9):
            data = json.dumps(PAGE | {"url2text": ["A sentence."] * 20_000})
            (tmp_path / "official" / f"{n}.json").write_text(data)
        with pytest.raises(ClaimflowError, match=r"No space left to write .*\.arrow"):
            list(Packer(tmp_path / "official", disk / "packed", part=1))
        store = Packed(disk / "packed")
        assert 1 <= len(store.claims) < 9
        assert len(list((disk / "packed" / "documents").iterdir())) == len(store.claims)
        assert set(written(store).values()) == {data.encode()}
    finally:
        subprocess.run(["umount", "-l", disk], check=True)  # the store stays mapped


@pytest.mark.parametrize("claim", ["1", "2"])
def test_a_torn_file_of_documents_is_packed_again(claim: str, tmp_path: Path) -> None:
    files = {f"{n}.json": LINE.encode() for n in range(3)}
    _, store = packed(tmp_path, files, part=1)
    torn = Path(store.part(claim))
    torn.write_bytes(torn.read_bytes()[:-30])
    with pytest.raises(ClaimflowError, match=r"damaged: .*0000[12]\.arrow"):
        store.batches(claim)
    # A kill right after the start leaves no claim that stands for something else.
    begun = iter(Packer(tmp_path / "official", tmp_path / "packed", part=1))
    next(begun)
    del begun
    assert claim not in Packed(tmp_path / "packed").claims
    packer, store = packed(tmp_path, {}, part=1)
    assert packer.kept == 2
    assert written(store) == files


def test_large_files_are_never_held_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(part, "BATCH", 1000)
    monkeypatch.setattr(part, "LARGE", 5000)
    lines = [json.dumps(PAGE | {"url": f"u{n}"}) + "\n" for n in range(100)]
    whole = "".join(lines).encode()
    packer, store = packed(tmp_path, {"0.json": whole + b"x", "1.json": whole, "2.json": b"{}"})
    assert [(Path(bad.file).name, bad.line) for bad in packer.bad] == [
        ("0.json", 101),
        ("2.json", 1),
    ]
    assert store.claims["1"].batches > 5
    assert store.claims["1"].first == 0  # nothing was written of the first
    assert written(store) == {"1.json": whole}
    monkeypatch.setattr(official, "LARGE", 50)
    packer, _ = packed(tmp_path, {"3.json": b"[" + LINE.encode() + b"]", "4.json": LINE.encode()})
    reasons = {Path(bad.file).name: bad.reason for bad in packer.bad}
    assert reasons["3.json"].startswith("a list of more than")
    assert reasons["4.json"].startswith("a line of more than")


def test_write_back_into_a_folder(tmp_path: Path) -> None:
    _, store = packed(tmp_path, {"0.json": LINE.encode(), "1.jsonl": LINE.encode()})
    (tmp_path / "back").mkdir()
    (tmp_path / "back" / "0.json").write_bytes(LINE.encode())
    assert [entry.file for entry in unpack(store, tmp_path / "back")] == ["0.json", "1.jsonl"]
    (tmp_path / "back" / "1.jsonl").write_bytes(b"mine")
    with pytest.raises(ClaimflowError, match=r"1\.jsonl is there with other content"):
        list(unpack(store, tmp_path / "back"))
    # A byte that was changed in place is noticed, and nothing is written.
    documents = Path(store.part("0"))
    documents.write_bytes(documents.read_bytes().replace("Één".encode(), b"Eenen"))
    with pytest.raises(ClaimflowError, match=r"damaged: .*claim 0 is not as it was packed"):
        list(unpack(Packed(tmp_path / "packed"), tmp_path / "other"))
    documents.write_bytes(documents.read_bytes().replace(b"Eenen", b"E\xff\xff\xff\xff"))
    with pytest.raises(ClaimflowError, match=r"damaged: .*can't decode byte 0xff"):
        list(unpack(Packed(tmp_path / "packed"), tmp_path / "other"))
    assert list((tmp_path / "other").iterdir()) == []


def test_other_versions_and_damage(tmp_path: Path) -> None:
    packed(tmp_path, {"0.json": LINE.encode()})
    claims = tmp_path / "packed" / "claims.arrow"
    assert open_packed(tmp_path) is None
    data = claims.read_bytes()
    claims.write_bytes(data.replace(b"claimflow", b"claimflux"))
    with pytest.raises(
        ClaimflowError, match=r"claims\.arrow can't be used \(it has another version"
    ):
        open_packed(tmp_path / "packed")
    claims.write_bytes(data[:-40])
    with pytest.raises(ClaimflowError, match=r"claims\.arrow can't be used"):
        open_packed(tmp_path / "packed")


# As a data set


def test_the_cache_follows_a_packed_store(tmp_path: Path) -> None:
    (tmp_path / "dev.json").write_text(json.dumps([{"claim": "A."}]))
    cache = Cache(tmp_path / "cache")

    def documents(text: str) -> str:
        shutil.rmtree(tmp_path / "knowledge_store_dev", ignore_errors=True)
        (tmp_path / "official").mkdir(exist_ok=True)
        data = json.dumps(PAGE | {"url2text": [text]})
        (tmp_path / "official" / "0.json").write_text(data)
        assert list(Packer(tmp_path / "official", tmp_path / "knowledge_store_dev"))
        dataset = Averitec(path=tmp_path)
        (ref,) = case_refs(dataset, dataset.claims(), cache)
        assert [p.name for p in dataset.sources(dataset.claims()[0])] == ["00000.arrow"]
        return ref.fields["documents"]

    first = documents("Old.")
    assert documents("New.") != first
    assert documents("Old.") == first


def test_either_folder_of_a_split_may_be_packed(tmp_path: Path) -> None:
    (tmp_path / "dev.json").write_text(json.dumps([{"claim": "A."}, {"claim": "B."}]))
    _, store = packed(tmp_path, {"0.json": LINE.encode()})
    (tmp_path / "knowledge_store").mkdir()
    store.folder.rename(tmp_path / "knowledge_store" / "dev")
    dataset = Averitec(path=tmp_path, on_error="skip")
    refs = case_refs(dataset, dataset.claims(), Cache(tmp_path / "cache"))
    assert refs[0].error is None
    assert "knowledge_store/dev has no claim 1" in (refs[1].error or "")


@pytest.mark.slow
def test_a_run_is_the_same_on_both(experiment: Any, tmp_path: Path) -> None:
    stores = ROOT / "data" / "demo" / "knowledge_store" / "dev"
    assert len(list(Packer(stores, tmp_path / "packed"))) == 24
    choices = ["limit=4", "questioner=rules", "retriever=bm25s", "scorer=retrieval"]
    runs: list[Ran] = [
        experiment(*choices, *own, f"cache={tmp_path}/cache{n}")
        for n, own in enumerate([[], [f"dataset.store={tmp_path}/packed"]])
    ]
    assert runs[0].predictions() == runs[1].predictions()
    digests = [[d["digest"] for d in run.record.datasets] for run in runs]
    assert digests[0] == digests[1]
    assert runs[0].record.predictions_digest == runs[1].record.predictions_digest


@pytest.mark.skipif(not DATA.is_dir(), reason="needs the published data")
def test_the_500_stores_of_averitec_dev(tmp_path: Path) -> None:
    source = DATA / "averitec" / "knowledge_store_dev"
    packer = Packer(source, tmp_path / "packed")
    assert sum(1 for _ in packer) == 500
    assert (packer.bad, packer.kept) == ([], 0)
    store = Packed(tmp_path / "packed")
    assert sum(entry.documents for entry in store.claims.values()) == 31231
    assert raw(store) == 0
    assert written(store) == {path.name: path.read_bytes() for path in source.iterdir()}
    folder = Averitec(path=DATA / "averitec")
    other = Averitec(path=DATA / "averitec", store=tmp_path / "packed")
    claims = folder.claims()
    refs = [
        case_refs(dataset, claims, Cache(tmp_path / name))
        for dataset, name in ((folder, "a"), (other, "b"))
    ]
    assert refs[0] == refs[1]


# The command, and other tools


def test_the_command(tmp_path: Path) -> None:
    source = tmp_path / "official"
    source.mkdir()
    (source / "0.json").write_text(LINE)
    (source / "1.json").write_text(LINE + "\n{")
    out = tmp_path / "out.json"
    done = command("flows.pack", f"path={source}", f"to={tmp_path}/packed", f"out={out}")
    assert done.returncode == 1
    assert f"bad file: {source}/1.json, line 2: " in done.stdout
    assert "1 claims, 1 documents, 2 sentences" in done.stdout
    assert "error: 1 files are not packed" in done.stderr
    assert re.search(r"pack +2 files", done.stderr)
    result = json.loads(out.read_bytes())
    assert result["bytes"] == len(LINE.encode())
    assert [bad["line"] for bad in result["bad"]] == [2]
    assert result["peak_mb"] > 10
    done = command("flows.pack", f"unpack={tmp_path}/packed", f"to={tmp_path}/back")
    assert done.returncode == 0, done.stderr
    assert [path.name for path in (tmp_path / "back").iterdir()] == ["0.json"]
    assert (tmp_path / "back" / "0.json").read_text() == LINE
    for words in (["path=x", "unpack=y", "to=z"], ["path=x", "to=z", "part=0"]):
        done = command("flows.pack", *words)
        assert done.returncode == 1
        assert len(done.stderr.splitlines()) == 1


def test_pandas_polars_and_duckdb_read_it(tmp_path: Path, monkeypatch: Any) -> None:
    pytest.importorskip("polars")
    pytest.importorskip("duckdb")
    stores = ROOT / "data" / "demo" / "knowledge_store" / "dev"
    lines = {
        path.stem: [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        for path in stores.iterdir()
    }
    texts = {claim: [page.get("url2text") for page in pages] for claim, pages in lines.items()}
    sentences = {claim: sum(map(len, filter(None, found))) for claim, found in texts.items()}
    list(Packer(stores, tmp_path / "dev.pack"))
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    shown = []
    for statement in ast.parse(blocks(ROOT / "docs" / "packed.md", "python")[0]).body:
        if isinstance(statement, ast.Expr):
            shown.append(eval(ast.unparse(statement), names))
        else:
            exec(ast.unparse(statement), names)
    urls, sums, claim, claims = shown
    assert dict(zip(claims["claim"], claims["sentences"], strict=True)) == sentences
    assert claim["url2text"].to_list() == texts["3"]
    assert urls["url"].tolist() == [page["url"] for n in claims["claim"] for page in lines[n]]
    assert dict(sums.fetchall()) == sentences


def test_what_is_compressed_otherwise_is_told(tmp_path: Path) -> None:
    folder = tmp_path / "official"
    folder.mkdir()
    (folder / "0.json").write_text('{"url": "u", "url2text": ["One."]}\n')
    (folder / "1.json.gz").write_bytes(b"x")
    with zipfile.ZipFile(folder / "more.zip", "w") as file:
        file.writestr("2.json", '{"url": "u", "url2text": ["Two."]}\n')
        file.writestr("inner.zip", "x")
    packer = Packer(folder, tmp_path / "packed")
    assert [source.claim for source in packer] == ["0", "2"]
    assert [(Path(bad.file).name, "unpack it first" in bad.reason) for bad in packer.bad] == [
        ("1.json.gz", True),
        ("inner.zip", True),
    ]


def test_what_a_killed_write_back_left_is_removed(tmp_path: Path) -> None:
    folder = tmp_path / "official"
    folder.mkdir()
    (folder / "5.json").write_text('{"url": "u", "url2text": ["One."]}\n')
    list(Packer(folder, tmp_path / "packed"))
    to = tmp_path / "to"
    to.mkdir()
    (to / ".5.json.f0ar2uu0.part").write_text("half")
    (to / ".other.part").write_text("whole")
    list(unpack(Packed(tmp_path / "packed"), to))
    assert sorted(p.name for p in to.iterdir()) == [".other.part", "5.json"]
