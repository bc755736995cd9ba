"""The laws of the cache, on real files, threads, processes and signals."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from components import files
from components.cache import Action, Cache, key_of
from components.errors import ClaimflowError
from components.files import ROOT, digest, file_digest, remembered, write_whole


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    return Cache(tmp_path / "cache")


def python(code: str, *args: object) -> subprocess.Popen[str]:
    """A real second process that has the project on its path."""
    return subprocess.Popen(
        [sys.executable, "-c", code, *map(str, args)],
        cwd=ROOT,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


@given(st.binary(max_size=300))
def test_a_blob_comes_back_as_it_was(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    cache = Cache(tmp_path_factory.mktemp("cache"))
    assert cache.get(cache.put(data)) == data


def test_an_action_is_known_to_another_process(cache: Cache) -> None:
    name = cache.put(b"value")
    cache.record("k" * 32, Action(outputs=[name], cost={"seconds": 1.5}))
    code = (
        "import sys; from components.cache import Cache; c = Cache(sys.argv[1]);"
        "a = c.lookup('k' * 32); print(c.get(a.outputs[0]).decode(), a.cost['seconds'])"
    )
    out, err = python(code, cache.folder).communicate(timeout=60)
    assert out.split() == ["value", "1.5"], err


@pytest.mark.parametrize("kind", ["blobs", "actions"])
@pytest.mark.parametrize("damage", ["cut", "emptied", "changed"])
def test_a_damaged_file_is_a_miss(cache: Cache, kind: str, damage: str) -> None:
    cache.record("k" * 32, Action(outputs=[cache.put(b"a value of some length")]))
    (path,) = (cache.folder / kind).glob("*/*")
    data = path.read_bytes()
    path.write_bytes({"cut": data[:-3], "emptied": b"", "changed": data[:-1] + b"?"}[damage])
    assert Cache(cache.folder).lookup("k" * 32) is None


def test_an_artifact_is_built_once_by_many_threads(cache: Cache) -> None:
    built = []

    def build(folder: Path) -> None:
        time.sleep(0.1)
        built.append(folder)
        (folder / "model.bin").write_bytes(b"weights")

    threads = [threading.Thread(target=cache.artifact, args=("a" * 32, build)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(built) == 1


def test_an_artifact_is_built_once_by_two_processes(cache: Cache, tmp_path: Path) -> None:
    code = (
        "import sys, time, pathlib; from components.cache import Cache\n"
        "def build(folder):\n"
        "    open(sys.argv[2], 'a').write('built\\n'); time.sleep(0.5)\n"
        "    (folder / 'x').write_text('x')\n"
        "print(Cache(sys.argv[1]).artifact('a' * 32, build).digest)"
    )
    both = [python(code, cache.folder, tmp_path / "count") for _ in range(2)]
    outs = [p.communicate(timeout=60) for p in both]
    assert outs[0][0] == outs[1][0] != "", outs
    assert (tmp_path / "count").read_text() == "built\n"


@pytest.mark.parametrize("damage", ["file lost", "file cut", "manifest lost"])
def test_a_damaged_artifact_is_built_again(cache: Cache, damage: str) -> None:
    def build(folder: Path) -> None:
        (folder / "index").write_bytes(b"0123456789")

    path = Path(cache.artifact("a" * 32, build).path)
    if damage == "file lost":
        (path / "index").unlink()
    elif damage == "file cut":
        (path / "index").write_bytes(b"01234")
    else:
        (path / "manifest.json").unlink()
    other = Cache(cache.folder)
    assert other.find_artifact("a" * 32) is None
    assert (Path(other.artifact("a" * 32, build).path) / "index").read_bytes() == b"0123456789"


WRITER = """
import sys, os
from pathlib import Path
from components.cache import Action, Cache, key_of
cache = Cache(sys.argv[1])
def build(folder):
    for part in range(20):
        (folder / f"part{part}").write_bytes(str(part).encode() * 50_000)
print("go", flush=True)
number = 0
while True:
    key = key_of(number)
    names = [cache.put(f"{number} {i} ".encode() * 2_000) for i in range(5)]
    cache.record(key, Action(outputs=names))
    cache.artifact(key_of("artifact", number), build)
    number += 1
"""


def test_kill_9_twenty_times_leaves_nothing_wrong(cache: Cache) -> None:
    chance = random.Random(5)
    seen = 0
    for _ in range(20):
        writer = python(WRITER, cache.folder)
        assert writer.stdout
        assert writer.stdout.readline() == "go\n"
        time.sleep(chance.uniform(0, 0.25))
        writer.send_signal(signal.SIGKILL)
        writer.wait()
        after = Cache(cache.folder)
        number = 0
        while (action := after.lookup(key_of(number))) is not None:
            for i, name in enumerate(action.outputs):
                assert after.get(name) == f"{number} {i} ".encode() * 2_000
            number += 1
        for i in range(number + 1):
            found = after.find_artifact(key_of("artifact", i))
            for part in range(20) if found else []:
                data = (Path(found.path) / f"part{part}").read_bytes()  # type: ignore[union-attr]
                assert data == str(part).encode() * 50_000
        with after.lock("k" * 32):  # the killed holder let go
            seen = max(seen, number)
        after.close()
    assert seen > 0
    cache.close()
    Cache(cache.folder).clean(older_than=0)
    assert not list((cache.folder / "aside").iterdir())


@pytest.fixture
def small_disk(tmp_path: Path) -> Path:
    """A real file system of 256 KiB."""
    where = tmp_path / "disk"
    where.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", where], capture_output=True
    )
    if made.returncode:
        pytest.skip("mounting needs root")
    yield where  # type: ignore[misc]
    subprocess.run(["umount", "-l", where], check=True)


def test_a_full_disk_is_an_error_and_leaves_no_broken_file(small_disk: Path) -> None:
    cache = Cache(small_disk / "cache")
    kept = cache.put(b"k" * 10_000)
    fill = (cache.put(os.urandom(20_000)) for _ in range(100))
    with pytest.raises(ClaimflowError, match="No space left"):
        list(fill)
    with pytest.raises(ClaimflowError, match=r"flows\.cache clean age=7d cache="):
        write_whole(small_disk / "file.json", os.urandom(300_000))

    def too_large(folder: Path) -> None:
        (folder / "x").write_bytes(os.urandom(300_000))

    with pytest.raises(ClaimflowError, match="No space left"):
        cache.artifact("a" * 32, too_large)
    with pytest.raises(ClaimflowError, match="No space left"):  # numpy has words of its own for it
        cache.artifact("b" * 32, lambda folder: np.save(folder / "x.npy", np.ones(60_000)))
    assert not (small_disk / "file.json").exists()
    assert not list((small_disk / "cache" / "aside").iterdir())
    for path in (small_disk / "cache" / "blobs").glob("*/*"):
        assert digest(path.read_bytes()) == path.name
    assert Cache(cache.folder).get(kept) == b"k" * 10_000


def age(cache: Cache, seconds: float) -> None:
    """Make all entries look as if last used that long ago."""
    then = time.time() - seconds
    for path in cache.folder.glob("*/*/*"):
        os.utime(path, (then, then))
    for path in cache.folder.glob("artifacts/*/*/manifest.json"):
        os.utime(path, (then, then))


def test_clean_by_age_keeps_what_is_younger(cache: Cache) -> None:
    old = cache.put(b"old")
    age(cache, 1000)
    new = cache.put(b"new")
    freed = Cache(cache.folder).clean(older_than=500)
    assert (freed.removed, freed.freed) == (1, 3)
    assert cache.get(old) is None
    assert cache.get(new) == b"new"


def test_clean_by_size_takes_the_least_recently_used(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    names = [cache.put(bytes([i]) * 100) for i in range(4)]
    now = time.time()
    for i, name in enumerate(names):
        os.utime(cache._path("blobs", name), (now - 100 + i, now - 100 + i))
    cache.close()
    freed = Cache(tmp_path).clean(keep_bytes=250)
    assert freed.removed == 2
    assert freed.left == 200
    assert [cache.get(name) is not None for name in names] == [False, False, True, True]


def test_clean_never_takes_what_a_running_process_used(cache: Cache) -> None:
    used, unused = cache.put(b"used"), cache.put(b"unused")
    cache.record("u" * 32, Action(outputs=[used]))

    def build(folder: Path) -> None:
        (folder / "model").write_bytes(b"m" * 10)

    cache.artifact("a" * 32, build)
    age(cache, 1000)
    code = (
        "import sys; from components.cache import Cache; c = Cache(sys.argv[1]);"
        "c.lookup('u' * 32); c.find_artifact('a' * 32); print('ready', flush=True);"
        "sys.stdin.read()"
    )
    cache.close()
    user = subprocess.Popen(
        [sys.executable, "-c", code, str(cache.folder)],
        cwd=ROOT,
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        assert user.stdout
        assert user.stdout.readline() == "ready\n"
        freed = Cache(cache.folder).clean(older_than=0, keep_bytes=0)
        fresh = Cache(cache.folder)
        assert fresh.lookup("u" * 32)
        assert fresh.find_artifact("a" * 32)
        assert fresh.get(unused) is None
        assert freed.removed == 1
        fresh.close()
    finally:
        user.communicate("")
    Cache(cache.folder).clean(older_than=0)  # the user has ended; `fresh` touched, but is closed
    assert Cache(cache.folder).lookup("u" * 32) is None


# What every process would compute anew


@pytest.fixture
def new_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home, and files that count as written long ago."""
    monkeypatch.setenv("CLAIMFLOW_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(files, "SETTLED", -1)
    files._digest_at.cache_clear()
    return tmp_path / "home"


def another_process() -> None:
    files._digest_at.cache_clear()


def test_the_digest_of_a_large_file_is_found_once_on_this_machine(
    new_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = new_home.parent / "model"
    data = bytearray(files.LARGE)
    path.write_bytes(data)
    assert file_digest(path) == digest(bytes(data))
    another_process()
    with monkeypatch.context() as patch:
        patch.setattr(files.hashlib, "file_digest", None)  # what would read it
        assert file_digest(path) == digest(bytes(data))

    before = path.stat()
    data[-1] = 1
    path.write_bytes(data)  # as large, and as old by its date
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert file_digest(path) == digest(bytes(data))

    for kept in new_home.rglob("memo/*/*"):  # damaged
        kept.write_text(kept.read_text()[:-1] + "x")
    another_process()
    assert file_digest(path) == digest(bytes(data))


def test_a_file_that_may_still_be_written_is_read_again(
    new_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "SETTLED", 2.0)
    path = new_home.parent / "model"
    path.write_bytes(bytes(files.LARGE))
    file_digest(path)
    assert not new_home.exists()


def test_a_home_that_cannot_be_written_to_costs_time_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "home").write_text("a file stands where the folder would")
    monkeypatch.setenv("CLAIMFLOW_HOME", str(tmp_path / "home"))
    assert [remembered("ab12", lambda: "text") for _ in range(2)] == ["text", "text"]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["home"]
