"""Reading JSON lists piece by piece gives what reading them whole does."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from components import records
from components.errors import ClaimflowError
from components.records import BadLine, read_lines

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(st.lists(JSON, max_size=5), st.integers(1, 90), st.sampled_from([None, 1]), st.booleans())
@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_window_gives_the_same(
    tmp_path: Path, items: list[Any], window: int, indent: int | None, plain: bool
) -> None:
    path = tmp_path / "list.json"
    text = json.dumps(items, ensure_ascii=plain, indent=indent)
    path.write_bytes(b"\xef\xbb\xbf" + text.encode("utf-8", "replace"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(records, "WINDOW", window)
        found = [item for _, item in read_lines(path, Any)]
    whole = json.loads(text.encode("utf-8", "replace"))
    assert json.dumps(found) == json.dumps(records._whole(whole))


@given(st.lists(JSON, min_size=1, max_size=4), st.integers(1, 90), st.data())
@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_list_that_breaks_off_gives_what_stands_before(
    tmp_path: Path, items: list[Any], window: int, data: st.DataObject
) -> None:
    path = tmp_path / "list.json"
    text = json.dumps(items)
    path.write_text(text[: data.draw(st.integers(1, len(text) - 1))])
    bad: list[BadLine] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(records, "WINDOW", window)
        found = [item for _, item in read_lines(path, Any, "skip", bad)]
        with pytest.raises(ClaimflowError):
            list(read_lines(path, Any))
    assert len(bad) == 1
    # A number cut short is a number.
    assert json.dumps(found[:-1]) == json.dumps(records._whole(items[: len(found)][:-1]))


def test_a_skip_is_proposed_where_it_leaves_something(tmp_path: Path) -> None:
    path = tmp_path / "list.json"
    for text, proposed in (('[{"a": 1}, {"a": "b', True), ('[{"a": "b', False), ("[", False)):
        path.write_text(text)
        with pytest.raises(ClaimflowError) as caught:
            list(read_lines(path, Any, "stop"))
        assert ("on_error=skip" in str(caught.value)) == proposed


def test_lines_are_counted_over_windows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "list.json"
    path.write_text('[\n{"a": 1},\n\n{"a":\n 2}\n, {"a": oh}]')
    monkeypatch.setattr(records, "WINDOW", 3)
    bad: list[BadLine] = []
    assert list(read_lines(path, Any, "skip", bad)) == [(2, {"a": 1}), (4, {"a": 2})]
    assert [(b.line, b.reason) for b in bad] == [
        (6, "record 3: Expecting value; the list can't be read on from here")
    ]


def test_a_number_too_long_is_a_bad_line_as_any_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "list.json"
    lines = ['{"a": 1}', '{"a": ' + "9" * 5000 + "}", '{"a": 3}']
    for window in (records.WINDOW, 50):
        monkeypatch.setattr(records, "WINDOW", window)
        for text in ("[" + ",\n".join(lines) + "]", "\n".join(lines)):
            path.write_text(text)
            bad: list[BadLine] = []
            assert list(read_lines(path, Any, "skip", bad)) == [(1, {"a": 1}), (3, {"a": 3})]
            assert [b.line for b in bad] == [2]
    path.write_text('{"a":\n' + "9" * 5000 + ",\n")
    with pytest.raises(ClaimflowError, match="line 1: "):
        list(read_lines(path, Any))


@pytest.mark.parametrize("as_list", [True, False])
def test_keys_that_stand_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, as_list: bool
) -> None:
    lines = [
        '{"a": 1, "b": {"a": "\\"a\\": 1", "c\\\\": 2}}',
        '{"a": 1, "b": [{"c" : 2, "d": 3, "c": 2}], "a":4, "a": NaN}',
        '{"b": 1}',
    ]
    path = tmp_path / "list.json"
    path.write_text("[" + ",\n".join(lines) + "]" if as_list else "\n".join(lines))
    for window in (records.WINDOW, 7):
        monkeypatch.setattr(records, "WINDOW", window)
        twice: dict[str, list[Any]] = {}
        found = [list(twice) for _ in read_lines(path, Any, twice=twice)]
        assert found == [[], ["c", "a"], []]
