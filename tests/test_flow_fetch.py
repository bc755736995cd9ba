"""Official files by HTTP: resume, checks, archives, and the readers that find them."""

from __future__ import annotations

import hashlib
import http.server
import io
import json
import os
import re
import signal
import subprocess
import sys
import tarfile
import time
import urllib.parse
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from components.datasets.averitec import Averitec
from components.datasets.fever import Fever
from components.datasets.official import Got, OfficialFile, fetch_files
from components.datasets.scifact import SciFact
from components.errors import ClaimflowError
from components.files import ROOT
from tests.conftest import command
from tests.site import Answer, Site, serve

LISTED = yaml.safe_load((ROOT / "conf" / "fetch.yaml").read_text(encoding="utf-8"))


class Files:
    """Routes of files with ranges. `breaks`: bytes after which an answer breaks off."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.data: dict[str, bytes] = {}
        self.version = '"1"'
        self.breaks: int | None = None
        self.delay = 0.0
        self.ranges: list[str | None] = []

    def add(self, path: str, data: bytes) -> None:
        self.data[path] = data
        self.site.routes[path] = self.answer

    def answer(self, handler: http.server.BaseHTTPRequestHandler) -> None:
        data = self.data[handler.path.partition("?")[0]]
        wanted = handler.headers.get("Range")
        self.ranges.append(wanted)
        start = 0
        if wanted and handler.headers.get("If-Range") in (None, self.version):
            start = int(re.findall(r"bytes=(\d+)-", wanted)[0])
        if start >= len(data) > 0:
            handler.send_response(416)
            handler.send_header("Content-Range", f"bytes */{len(data)}")
            handler.send_header("Content-Length", "0")
            handler.end_headers()
            return
        handler.send_response(206 if start else 200)
        if start:
            handler.send_header("Content-Range", f"bytes {start}-{len(data) - 1}/{len(data)}")
        handler.send_header("Content-Length", str(len(data) - start))
        handler.send_header("ETag", self.version)
        handler.end_headers()
        rest = data[start:][: self.breaks]
        for at in range(0, len(rest), 2**16):
            time.sleep(self.delay)
            handler.wfile.write(rest[at : at + 2**16])


@pytest.fixture
def files() -> Iterator[Files]:
    with serve(Site()) as site:
        yield Files(site)


def zipped(members: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as pack:
        for name, data in members.items():
            pack.writestr(name, data)
    return out.getvalue()


def tarred(members: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as tar:
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return out.getvalue()


def lines(*records: Any) -> bytes:
    return "".join(json.dumps(record) + "\n" for record in records).encode()


STORE = lines({"url": "http://a.b/1", "url2text": ["The ferry is back."]})
CLAIMS = json.dumps([{"claim": "The ferry is back."}, {"claim": "It is not."}]).encode()
FEVER = lines({"id": 1, "claim": "The ferry is back.", "label": "NOT ENOUGH INFO", "evidence": []})
SCIFACT = {
    "data/corpus.jsonl": lines({"doc_id": 4, "title": "Ferries", "abstract": ["They float."]}),
    "data/claims_train.jsonl": lines({"id": 1, "claim": "Ferries float.", "cited_doc_ids": [4]}),
    "data/claims_dev.jsonl": lines({"id": 2, "claim": "Ferries sink.", "cited_doc_ids": [4]}),
    "data/claims_test.jsonl": lines({"id": 3, "claim": "Ferries swim."}),
    "data/cross_validation/fold_1/claims_dev_1.jsonl": lines({"id": 2, "claim": "x"}),
}


def official(files: Files) -> None:
    """All that conf/fetch.yaml lists, small, at the official paths."""
    for name, entries in LISTED.items():
        for entry in entries:
            path = urllib.parse.urlsplit(entry["url"]).path
            if name == "scifact":
                data = tarred(SCIFACT)
            elif name == "scifact_open":
                data = tarred({f"scifact_open/{k}": v for k, v in SCIFACT.items() if "_" not in k})
            elif name == "fever" and "members" in entry:
                page = lines({"id": "Ferry", "text": "x", "lines": "0\tA ferry floats."})
                data = zipped(
                    {
                        "wiki-pages/wiki-001.jsonl": page,
                        "__MACOSX/wiki-pages/._wiki-001.jsonl": b"x",
                    }
                )
            elif name == "fever":
                data = FEVER
            elif "members" in entry:
                first = int((re.findall(r"_(\d+)_\d+\.zip", path) or ["0"])[0])
                data = zipped({f"output_dev/{first}.json": STORE, f"{first + 1}.json": STORE})
            else:
                data = CLAIMS
            files.add(path, data)


def test_each_data_set_is_read_after_it_was_fetched(files: Files, tmp_path: Path) -> None:
    official(files)
    entries = {name: [OfficialFile(**entry) for entry in LISTED[name]] for name in LISTED}
    for name, listed in entries.items():
        got = list(fetch_files(listed, tmp_path / name, files.site.url))
        assert [g.file for g in got] == listed
        assert all(g.new for g in got)
    for split in ("train", "dev", "test"):
        averitec = Averitec(path=tmp_path / "averitec", split=split)
        assert [c.text for c in averitec.claims()] == ["The ferry is back.", "It is not."]
        for claim in averitec.claims():
            assert averitec.read_documents(claim)[0].sentences == ("The ferry is back.",)
        fever = Fever(path=tmp_path / "fever", split=split)
        assert fever.claims()[0].text == "The ferry is back."
        assert fever.read_documents(fever.claims()[0])[0].sentences == ("A ferry floats.",)
        scifact = SciFact(path=tmp_path / "scifact", split=split)
        assert scifact.read_documents(scifact.claims()[0])[0].sentences == ("They float.",)
    assert (tmp_path / "scifact_open" / "corpus.jsonl").read_bytes() == SCIFACT["data/corpus.jsonl"]
    assert not list(tmp_path.rglob("*.zip"))
    # The next time nothing is asked for, and what stands there is checked.
    asked = len(files.site.log)
    for name, listed in entries.items():
        assert not any(g.new for g in fetch_files(listed, tmp_path / name, files.site.url))
    assert len(files.site.log) == asked


DATA = os.urandom(300_000)


def fetch(files: Files, folder: Path, **fields: Any) -> list[Got]:
    files.site.routes.setdefault("/d.bin", files.answer)
    files.data.setdefault("/d.bin", DATA)
    entry = OfficialFile(**{"url": "https://official.test/d.bin", "to": "d.bin", **fields})
    return list(fetch_files([entry], folder, files.site.url, wait=0.01))


def test_a_transfer_that_breaks_off_goes_on(files: Files, tmp_path: Path) -> None:
    files.breaks = 100_000
    (got,) = fetch(files, tmp_path)
    assert (tmp_path / "d.bin").read_bytes() == DATA
    assert files.ranges == [None, "bytes=100000-", "bytes=200000-"]
    assert (got.size, got.sha256) == (len(DATA), hashlib.sha256(DATA).hexdigest())


def test_no_old_part_goes_into_a_new_file(files: Files, tmp_path: Path) -> None:
    files.breaks = 0
    with pytest.raises(ClaimflowError, match="0 bytes are here; start again to go on"):
        fetch(files, tmp_path)
    files.breaks, files.version = 1000, '"old"'
    hidden = tmp_path / ".fetch"
    (hidden / "d.bin.part").write_bytes(b"x" * 1000)
    (hidden / "d.bin.part.version").write_text('"old"')
    files.breaks, files.version = None, '"new"'
    fetch(files, tmp_path)
    assert (tmp_path / "d.bin").read_bytes() == DATA
    # A part of which nobody knows what it is of is not used either.
    (tmp_path / "d.bin").unlink()
    (hidden / "d.bin.part").write_bytes(b"x" * 1000)
    fetch(files, tmp_path)
    assert files.ranges[-1] is None
    assert (tmp_path / "d.bin").read_bytes() == DATA


def test_a_part_that_is_all_there_already(files: Files, tmp_path: Path) -> None:
    hidden = tmp_path / ".fetch"
    hidden.mkdir()
    (hidden / "d.bin.part").write_bytes(DATA)
    (hidden / "d.bin.part.version").write_text(files.version)
    fetch(files, tmp_path)
    assert (tmp_path / "d.bin").read_bytes() == DATA
    (tmp_path / "d.bin").unlink()
    (hidden / "d.bin.part").write_bytes(DATA + b"too long")
    (hidden / "d.bin.part.version").write_text(files.version)
    fetch(files, tmp_path)
    assert (tmp_path / "d.bin").read_bytes() == DATA


def test_killed_in_the_middle_it_goes_on(files: Files, tmp_path: Path) -> None:
    files.add("/release/latest/data.tar.gz", tarred({"data/corpus.jsonl": os.urandom(2**21)}))
    files.delay = 0.05
    words = ["flows.fetch", "dataset=scifact", f"path={tmp_path}", f"base={files.site.url}"]
    process = subprocess.Popen([sys.executable, "-m", *words], cwd=ROOT, stdout=subprocess.DEVNULL)
    part = tmp_path / ".fetch" / "data.tar.gz.part"
    while not (part.exists() and part.stat().st_size):
        assert process.poll() is None
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    size = part.stat().st_size
    assert 0 < size < 2**21
    files.delay = 0.0
    done = command(*words)
    assert done.returncode == 0, done.stderr
    assert "data.tar.gz -> ." in done.stdout
    assert files.ranges == [None, f"bytes={size}-"]
    assert (tmp_path / "corpus.jsonl").stat().st_size == 2**21


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"size": 5}, "is not the official file: its size is 300000, not 5"),
        ({"sha256": "0" * 64}, "is not the official file: its SHA-256 is"),
    ],
)
def test_what_is_not_the_official_file(
    files: Files, tmp_path: Path, fields: dict[str, Any], message: str
) -> None:
    with pytest.raises(ClaimflowError, match=message):
        fetch(files, tmp_path, **fields)
    assert not (tmp_path / "d.bin").exists()
    right = {"size": len(DATA), "sha256": hashlib.sha256(DATA).hexdigest()}
    assert fetch(files, tmp_path, **right)[0].new


def test_what_was_changed_after_it_was_fetched(files: Files, tmp_path: Path) -> None:
    fetch(files, tmp_path)
    (tmp_path / "d.bin").write_bytes(b"x" + DATA[1:])
    with pytest.raises(ClaimflowError, match=r"d\.bin is not as it was fetched from .* Delete it"):
        fetch(files, tmp_path)
    (tmp_path / "d.bin").unlink()
    assert fetch(files, tmp_path)[0].new
    (tmp_path / "d.bin").unlink()
    files.data["/d.bin"] = DATA[1:]
    now, then = (hashlib.sha256(data).hexdigest() for data in (DATA[1:], DATA))
    with pytest.raises(ClaimflowError, match=f"its SHA-256 is {now}, and was {then}. Delete"):
        fetch(files, tmp_path)
    (tmp_path / ".fetch" / "files.json").unlink()
    assert fetch(files, tmp_path)[0].sha256 == now


def test_a_redirect_longer_than_it_says_is_not_read_as_the_file(
    files: Files, tmp_path: Path
) -> None:
    files.add("/d.bin", DATA)
    files.site.routes["/moved.bin"] = Answer(
        b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil",
        status=302,
        headers={"Location": "/d.bin", "Content-Length": "0"},
    )
    moved = OfficialFile(url=f"{files.site.url}/moved.bin", to="d.bin")
    assert [got.size for got in fetch_files([moved], tmp_path)] == [len(DATA)]


@pytest.mark.parametrize("status", [404, 403, 410])
def test_a_file_that_is_not_there(files: Files, tmp_path: Path, status: int) -> None:
    files.site.routes["/d.bin"] = Answer(status=status)
    with pytest.raises(ClaimflowError, match=rf"/d\.bin answered {status} .*base=URL names"):
        fetch(files, tmp_path)
    assert files.site.log == ["/d.bin"]


def test_a_busy_server_is_asked_again(files: Files, tmp_path: Path) -> None:
    files.site.routes["/d.bin"] = Answer(status=503)
    with pytest.raises(ClaimflowError, match=r"Can't fetch .*: it answered 503\. 0 bytes"):
        fetch(files, tmp_path)
    assert len(files.site.log) == 5


EVIL = [
    "../../escaped.json", "/tmp/escaped.json", "a/../../escaped.json", "..\\..\\escaped.json",
]  # fmt: skip


@pytest.mark.parametrize("pack", [zipped, tarred])
def test_members_stay_in_their_folder(files: Files, tmp_path: Path, pack: Any) -> None:
    folder = tmp_path / "deep" / "er"
    for number, name in enumerate(EVIL):
        files.data["/d.bin"] = pack({name: b"evil", "no.txt": b"x"})
        place = folder / str(number)
        fetch(files, place, to="store", members="*.json")
        written = [p for p in tmp_path.rglob("*.json") if ".fetch" not in p.parts]
        assert written[-1].name == "escaped.json"
        assert {p.parent.name for p in written} == {"store"}
        assert not (place / "store" / "no.txt").exists()
    assert not Path("/tmp/escaped.json").exists()


def test_links_in_archives_are_no_files(files: Files, tmp_path: Path) -> None:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as tar:
        for name, kind in [("a.json", tarfile.SYMTYPE), ("b.json", tarfile.LNKTYPE)]:
            link = tarfile.TarInfo(name)
            link.type, link.linkname = kind, "/etc/passwd"
            tar.addfile(link)
    files.data["/d.bin"] = out.getvalue()
    with pytest.raises(ClaimflowError, match=r"has no member \*\.json"):
        fetch(files, tmp_path, to="store", members="*.json")


@pytest.mark.parametrize(
    ("archive", "message"),
    [
        (zipped({"a.json": b"0" * 150_000_000}), "unpacks to far more than such a file can hold"),
        (zipped({"a/1.json": b"x", "b/1.json": b"y"}), "has two members 1.json"),
        (tarred({"a.json": os.urandom(5000)})[:-2000], "can't be unpacked"),
        (b"no archive", "can't be unpacked"),
    ],
    ids=["bomb", "twice", "torn", "none"],
)
def test_archives_that_are_none(files: Files, tmp_path: Path, archive: bytes, message: str) -> None:
    files.data["/d.bin"] = archive
    with pytest.raises(ClaimflowError, match=message):
        fetch(files, tmp_path, to="store", members="*.json")
    assert not [p for p in (tmp_path / "store").iterdir() if p.suffix == ".part"]


def test_the_command(files: Files, tmp_path: Path) -> None:
    official(files)
    words = ["flows.fetch", "dataset=averitec", "split=dev", f"base={files.site.url}"]
    done = command(*words, CLAIMFLOW_DATA=str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert re.search(
        r"dev_knowledge_store\.zip -> knowledge_store/dev .* 2 files  fetched", done.stdout
    )
    assert sorted(p.name for p in (tmp_path / "averitec").iterdir() if p.name[0] != ".") == [
        "dev.json", "knowledge_store", "train.json",
    ]  # fmt: skip
    again = command(*words, CLAIMFLOW_DATA=str(tmp_path))
    assert again.stdout.count("was there") == 3


def fetched(files: Files, folder: Path, capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """What flows.fetch prints, in this process."""
    from flows.fetch import main

    main([*words, f"path={folder}", f"base={files.site.url}"])
    return capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "names"),
    [
        (["dataset=averitec", "split=dev", "stores=false"], ["dev.json", "train.json"]),
        (["dataset=averitec", "split=train", "stores=false"], ["train.json"]),
        (["dataset=fever", "split=paper_dev"], ["paper_dev.jsonl", "train.jsonl", "wiki-pages"]),
    ],
    ids=["dev", "train", "fever"],
)
def test_training_claims_come_with_every_split(
    files: Files,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    names: list[str],
) -> None:
    official(files)
    fetched(files, tmp_path, capsys, *words)
    assert sorted(path.name for path in tmp_path.glob("[!.]*")) == names


def test_what_lies_there_already_is_not_called_fetched(
    files: Files, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("dataset=averitec", "split=dev", "stores=false")
    official(files)
    (tmp_path / "dev.json").write_text("[]")
    with pytest.raises(
        ClaimflowError, match=r"dev\.json was not fetched by .* its size is 2, not \d+\. Move it"
    ):
        fetched(files, tmp_path, capsys, *words)
    assert (tmp_path / "dev.json").read_text() == "[]"
    assert "dev.json" not in (tmp_path / ".fetch" / "files.json").read_text()
    (tmp_path / "dev.json").write_bytes(CLAIMS)  # the same, brought by something else
    assert fetched(files, tmp_path, capsys, *words).count("was there\n") == 2
    # A server that is silent on it: then nobody knows.
    files.site.routes["/chenxwh/AVeriTeC/resolve/main/data/dev.json"] = Answer(status=404)
    said = fetched(files, tmp_path, capsys, *words)
    assert re.search(r"dev\.json .* was there, not fetched by this command and not checked", said)


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"size": 5}, "its size is 300000, not 5"),
        ({"sha256": "0" * 64, "size": len(DATA)}, "its SHA-256 is .*, not 0000"),
    ],
    ids=["size", "digest"],
)
def test_what_lies_there_is_compared_with_what_is_published(
    files: Files, tmp_path: Path, fields: dict[str, Any], problem: str
) -> None:
    (tmp_path / "d.bin").write_bytes(DATA)
    with pytest.raises(ClaimflowError, match=f"d.bin was not fetched by .*: {problem}"):
        fetch(files, tmp_path, **fields)
    assert (tmp_path / "d.bin").read_bytes() == DATA
    right = {"size": len(DATA), "sha256": hashlib.sha256(DATA).hexdigest()}
    assert not fetch(files, tmp_path, **right)[0].new
    assert files.site.log == []


def test_a_missing_file_names_the_command_that_gets_it(tmp_path: Path) -> None:
    for kind in (Averitec, Fever, SciFact):
        with pytest.raises(ClaimflowError) as caught:
            kind(path=tmp_path / "no such").claims()
        assert f"`python -m flows.fetch dataset={kind.name} path='{tmp_path}/no such'` gets" in str(
            caught.value
        )
        assert kind.name in LISTED


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["dataset=scifct"], "There are no files of 'scifct' to fetch. Did you mean 'scifact'?"),
        (["split=dev"], "Which data set?"),
        (["dataset=fever", "split=dev"], "no files of split 'dev'. Did you mean 'paper_dev'?"),
        (["dataset=scifact", "split=dev"], "Its files are for all splits."),
        (["dataset=averitec", "stores=no"], "stores=no: give true, or false"),
        (["datset=fever"], "Unknown word 'datset=fever'. Did you mean 'dataset'?"),
        (["dataset=scifact", "path=/proc/no"], "Can't write to /proc/no"),
    ],
)
def test_mistakes(words: list[str], message: str) -> None:
    done = command("flows.fetch", *words)
    assert done.returncode == 1
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_the_example_of_the_docs(files: Files, tmp_path: Path) -> None:
    """docs/fetching.md, with this machine for example.org."""
    text = (ROOT / "docs" / "fetching.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"(?ms)^```python\n(.*?)^```", text)
    code = code.replace("https://example.org", files.site.url)
    code = code.replace('Path("pages")', f'Path("pages"), allow=["{files.site.host}"]')
    (tmp_path / "example.py").write_text(code)
    done = subprocess.run(
        [sys.executable, "example.py"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == [
        f"{files.site.url}/a None None 5",
        f"{files.site.url}/b None None 5",
    ]
