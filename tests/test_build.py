"""Parts from configs."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path

from components.step import identity
from flows.build import build


@dataclasses.dataclass(kw_only=True)
class Part:
    words: Path
    more: Path | None = None
    several: list[Path] | None = None
    named: dict[str, Path] = dataclasses.field(default_factory=dict)
    texts: list[str] | None = None
    mapping: Mapping[str, Path] = dataclasses.field(default_factory=dict)
    pair: tuple[str, Path] | None = None
    files: Sequence[Path] = ()
    name: str | None = None


def test_a_path_of_a_config_is_keyed_by_content(tmp_path: Path) -> None:
    file = tmp_path / "words.txt"
    file.write_text("one")
    node = {"_target_": "tests.test_build.Part", "words": str(file), "name": "notes/a.txt"}
    part = build(node)
    assert (part.words, part.more, part.name) == (file, None, "notes/a.txt")
    assert build(node | {"more": str(file)}).more == file
    many = build(node | {"several": [str(file)], "named": {"a": str(file)}, "texts": ["a"]})
    assert (many.several, many.named, many.texts) == ([file], {"a": file}, ["a"])
    name = str(file)
    more = build(node | {"mapping": {"a": name}, "pair": [name, name], "files": [name]})
    assert (more.mapping, more.pair, more.files) == ({"a": file}, [name, file], [file])
    before = identity(part)
    file.write_text("two")
    assert identity(build(node)) != before
