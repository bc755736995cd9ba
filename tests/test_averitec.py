"""AVeriTeC's layout: claims, stores, dates, and what goes wrong in them."""

from __future__ import annotations

import dataclasses
import datetime
import gzip
import json
import string
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.cache import Cache
from components.datasets.averitec import Averitec, Demo, claim_from, claim_to, write_claims
from components.datasets.base import case_refs
from components.datasets.dates import format_date, parse_date
from components.errors import ClaimflowError
from components.pipeline import load
from components.records import (
    AVERITEC_LABELS,
    Answer,
    Claim,
    Document,
    Question,
    decode,
    encode,
    read_lines,
)
from components.store.pack import Packer


def official(text: str = "The bridge at Ostrel is closed.", **fields: Any) -> dict[str, Any]:
    return {
        "claim": text,
        "required_reannotation": False,
        "label": "Refuted",
        "justification": "It is open.",
        "claim_date": "2-11-2020",
        "speaker": None,
        "original_claim_url": None,
        "cached_original_claim_url": None,
        "fact_checking_article": "https://checkdesk.example/ostrel-bridge",
        "reporting_source": "Ostrel Post",
        "location_ISO_code": None,
        "claim_types": ["Event/Property Claim"],
        "fact_checking_strategies": ["Written Evidence"],
        "questions": [
            {
                "question": "Is the bridge\topen?",
                "answers": [
                    {
                        "answer": "Yes",
                        "answer_type": "Boolean",
                        "source_url": "https://post.example/bridge",
                        "source_medium": "Web text",
                        "boolean_explanation": "Carts cross it.",
                    }
                ],
            }
        ],
    } | fields


def page(url: str | None, *sentences: str, **fields: Any) -> dict[str, Any]:
    return {"url": url, "url2text": [*sentences]} | fields


def data(
    folder: Path,
    claims: list[dict[str, Any]],
    stores: dict[str, list[dict[str, Any]]] | None = None,
) -> Averitec:
    folder.mkdir(exist_ok=True)
    (folder / "dev.json").write_text(json.dumps(claims, indent=2))
    for name, pages in (stores or {}).items():
        store = folder / "knowledge_store_dev" / f"{name}.json"
        store.parent.mkdir(exist_ok=True)
        store.write_text("".join(json.dumps(p) + "\n" for p in pages))
    return Averitec(path=folder)


def error_of(dataset: Averitec, claim: Claim | None = None) -> str:
    with pytest.raises(ClaimflowError) as caught:
        dataset.claims() if claim is None else dataset.read_documents(claim)
    assert "\n" not in str(caught.value)
    return str(caught.value)


# Dates


def test_dates_are_day_month_year() -> None:
    assert parse_date("31-10-2020") == datetime.date(2020, 10, 31)
    assert parse_date("2-11-2020") == datetime.date(2020, 11, 2)
    assert parse_date("02-01-2020") == datetime.date(2020, 1, 2)
    assert parse_date("2020-11-02") == datetime.date(2020, 11, 2)
    assert parse_date("2020-11-02T08:00:00Z") == datetime.date(2020, 11, 2)
    assert parse_date(None) is parse_date(" ") is None


@pytest.mark.parametrize("text", ["11/25/2020", "10-31-2020", "31-2-2020", "2-11-20", "1 May 2020"])
def test_what_is_no_date_is_named_never_guessed(text: str) -> None:
    with pytest.raises(ClaimflowError, match=f"'{text}' is not a date: day-month-year"):
        parse_date(text)


@given(st.dates())
def test_dates_round_trip(date: datetime.date) -> None:
    assert parse_date(format_date(date)) == date == parse_date(date.isoformat())


# Claims


def test_claim_fields(tmp_path: Path) -> None:
    (claim,) = data(tmp_path, [official()]).claims()
    assert (claim.id, claim.date, claim.label) == ("0", datetime.date(2020, 11, 2), "Refuted")
    assert claim.fact_check_url == "https://checkdesk.example/ostrel-bridge"
    assert claim.questions[0].question == "Is the bridge\topen?"
    assert claim.questions[0].answers[0].boolean_explanation == "Carts cross it."
    assert claim.relevant == ["https://post.example/bridge"]
    assert claim.extra == {"required_reannotation": False, "cached_original_claim_url": None}


def test_odd_answers() -> None:
    def claim(answers: Any) -> Claim:
        return claim_from(official(questions=[{"question": "Why?", "answers": answers}]), 0)

    one = {"answer": "No", "answer_type": "Boolean", "source_url": "Metadata"}
    assert claim(one).questions[0].answers == [
        Answer(answer="No", answer_type="Boolean", source_url="Metadata")
    ]
    assert claim("No").questions[0].answers == [Answer(answer="No")]
    assert claim(None).questions[0].answers == claim([]).questions[0].answers == []
    for source in (None, "", "Metadata"):
        assert claim([{"answer": "No", "source_url": source}]).relevant == []


def test_hidden_test_split_with_claim_ids(tmp_path: Path) -> None:
    hidden = {"claim_id": 41, "claim": "Nobody lives in Ostrel.", "claim_date": None}
    (tmp_path / "test.json").write_text(json.dumps([hidden, {**hidden, "claim_id": "7"}]))
    claims = Averitec(path=tmp_path, split="test").claims()
    assert [c.id for c in claims] == ["41", "7"]
    assert claims[0].label is claims[0].date is None
    assert "label" not in claim_to(claims[0])
    assert claim_to(claims[0])["claim_id"] == 41


def test_json_lines_are_read_like_a_list(tmp_path: Path) -> None:
    records = [official("One."), official("Two.")]
    listed = data(tmp_path / "a", records).claims()
    (tmp_path / "dev.jsonl").write_text("\n\n".join(json.dumps(r) for r in records))
    assert Averitec(path=tmp_path).claims() == listed


TEXT = st.text(st.characters(codec="utf-8"), max_size=30)
ANSWERS = st.builds(
    Answer,
    answer=TEXT,
    answer_type=st.sampled_from(["Extractive", "Boolean", None]),
    source_url=st.none() | TEXT,
    cached_source_url=st.none() | TEXT,
    boolean_explanation=st.none() | TEXT,
)
CLAIMS = st.builds(
    Claim,
    id=st.integers(0, 10**6).map(str),
    text=TEXT,
    date=st.none() | st.dates(),
    speaker=st.none() | TEXT,
    label=st.none() | st.sampled_from(AVERITEC_LABELS),
    justification=st.none() | TEXT,
    types=st.lists(TEXT, max_size=2),
    strategies=st.lists(TEXT, max_size=2),
    questions=st.lists(
        st.builds(Question, question=TEXT, answers=st.lists(ANSWERS, max_size=3)), max_size=3
    ),
    original_url=st.none() | TEXT,
    location=st.none() | TEXT,
)


@given(st.lists(CLAIMS, min_size=1, max_size=4, unique_by=lambda claim: claim.id))
def test_claims_round_trip(tmp_path_factory: pytest.TempPathFactory, claims: list[Claim]) -> None:
    folder = tmp_path_factory.mktemp("claims")
    write_claims(folder / "dev.json", claims)
    again = Averitec(path=folder).claims()
    write_claims(folder / "again.json", again)
    assert (folder / "again.json").read_bytes() == (folder / "dev.json").read_bytes()
    assert [(c.id, c.text, c.date, c.label, c.questions) for c in again] == [
        (c.id, c.text, c.date, c.label, c.questions) for c in claims
    ]


# Which claims


def test_limit_and_ids(tmp_path: Path) -> None:
    data(tmp_path, [official(f"Claim {n}.") for n in range(12)])

    def ids(**choice: Any) -> list[str]:
        return [c.id for c in Averitec(path=tmp_path, **choice).claims()]

    assert ids(limit=3) == ["0", "1", "2"]
    assert ids(ids=[11, "3"]) == ["11", "3"]
    assert ids(ids=5) == ["5"]
    assert ids(limit=100) == ids() == [str(n) for n in range(12)]
    message = error_of(Averitec(path=tmp_path, ids=[12]))
    assert (
        message == "averitec dev has no claim 12. Its 12 ids run from 0 to 11: give some of those."
    )


def test_pitfall_2_the_last_claim_is_there_by_default(tmp_path: Path) -> None:
    assert [c.text for c in data(tmp_path, [official("Only one.")]).claims()] == ["Only one."]
    with pytest.raises(ClaimflowError, match="limit=-1 leaves no claim"):
        Averitec(path=tmp_path, limit=-1)


def test_pitfall_7_a_bad_record_does_not_shift_the_ids_of_others(tmp_path: Path) -> None:
    claims = [official("Zero."), official(None), official("Two.", label="Rfuted"), official("3.")]  # type: ignore[arg-type]
    dataset = data(tmp_path, claims)
    dataset.on_error = "skip"
    assert [(c.id, c.text) for c in dataset.claims()] == [("0", "Zero."), ("3", "3.")]
    assert len(dataset.bad) == 2
    again = data(tmp_path, [official(claim_id=1), official(claim_id="1")])
    assert "id 1 again, as in line 2" in error_of(again)


def test_records_of_a_list_are_numbered_as_it_may_stand_on_one_line(tmp_path: Path) -> None:
    dataset = Averitec(path=tmp_path)
    claims = [official("Zero."), official("One.", label="Rfuted"), official("2.", claim_id=0)]
    file = tmp_path / "dev.json"
    file.write_text(json.dumps(claims))
    assert f"{file}, line 1: record 2: unknown label 'Rfuted'" in error_of(dataset)
    file.write_text(json.dumps([claims[0], claims[2]]))
    assert "line 1: record 2: id 0 again, as in line 1 (record 1)" in error_of(dataset)
    file.write_text(json.dumps(claims))
    message = error_of(Averitec(path=tmp_path, ids=[1], on_error="skip"))
    assert "has no claim 1." in message
    assert "Skipped, as they can't be read (2)" in message
    assert "record 2: unknown label" in message


def test_a_compressed_file_is_named_as_such(tmp_path: Path) -> None:
    (tmp_path / "dev.json").write_bytes(gzip.compress(json.dumps([official("One.")]).encode()))
    assert error_of(Averitec(path=tmp_path)).endswith("dev.json is compressed (gzip): unpack it.")


def test_pitfall_19_claims_under_test_never_stand_in_train(tmp_path: Path) -> None:
    (tmp_path / "train.json").write_text(
        json.dumps([official("Café  Ostrel burns."), official("Another.")])
    )
    dataset = data(tmp_path, [official("cafe\u0301 ostrel burns.")])
    kept, dropped = dataset.train(dataset.claims())
    assert [c.text for c in kept] == ["Another."]
    assert [c.id for c in dropped] == ["0"]
    assert Averitec(path=tmp_path, train_split=None).train([]) == ([], [])


# Errors in claims files


def test_a_store_that_is_not_there_is_named_by_its_setting(tmp_path: Path) -> None:
    for folder, what in (("none", "there is no such folder"), ("", "no 3.json in it")):
        store = tmp_path / folder
        with pytest.raises(ClaimflowError) as caught:
            Demo(store=store).read_documents(Claim(id="3", text="A claim."))
        assert str(caught.value) == (
            f"dataset.store={store}: {what}, the knowledge store of claim 3 (looked for "
            f"{store / '3.json'}). Name the folder that has the split's stores, or null for those "
            "of the data set."
        )


def test_missing_file_says_name_place_and_source(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert error_of(Averitec(path=tmp_path)) == (
        f"No dev.json or dev.jsonl (the claims of split dev): looked for in {tmp_path}, "
        "which is empty. Put it there, or name another folder with path=FOLDER. "
        f"`python -m flows.fetch dataset=averitec path={tmp_path}` gets the official files "
        "(split=NAME: those of one split), which are published at "
        "https://fever.ai/dataset/averitec.html (AVeriTeC, knowledge stores)."
    )
    monkeypatch.setenv("CLAIMFLOW_DATA", str(tmp_path / "all"))
    assert f"looked for in {tmp_path / 'all' / 'averitec'}." in error_of(Averitec())
    monkeypatch.delenv("CLAIMFLOW_DATA")
    assert "/data/averitec. Set path=FOLDER, or CLAIMFLOW_DATA" in error_of(Averitec())
    assert "`dvc pull`" not in error_of(Demo(path=tmp_path))
    monkeypatch.setattr(Demo, "folder", tmp_path)
    assert "`dvc pull`" in error_of(Demo())


def test_unknown_split_names_the_nearest(tmp_path: Path) -> None:
    message = error_of(Averitec(path=tmp_path, split="trian"))
    assert message.startswith("averitec has no split 'trian'. Did you mean 'train'? Published")


def test_no_training_split(tmp_path: Path) -> None:
    dataset = data(tmp_path, [official()])
    with pytest.raises(ClaimflowError, match=r"No train\.json .* split train"):
        dataset.train(dataset.claims())


def test_empty_file(tmp_path: Path) -> None:
    for content in ("", "\n\n", "[]", " [ ]\n"):
        (tmp_path / "dev.json").write_text(content)
        assert error_of(Averitec(path=tmp_path)).startswith(f"{tmp_path / 'dev.json'} is empty.")


def test_truncated_list(tmp_path: Path) -> None:
    whole = json.dumps([official("One."), official("Two.")], indent=2)
    cut = whole[: whole.index("Two.")]
    (tmp_path / "dev.json").write_text(cut)
    line = cut.count("\n") + 1
    assert f"dev.json, line {line}: " in error_of(Averitec(path=tmp_path))
    rest = Averitec(path=tmp_path, on_error="skip")
    assert [c.text for c in rest.claims()] == ["One."]
    assert [b.line for b in rest.bad] == [line]
    (tmp_path / "dev.json").write_text(whole.rstrip("]\n "))
    assert "ends without its ]" in error_of(Averitec(path=tmp_path))


def test_unknown_label_names_record_and_nearest(tmp_path: Path) -> None:
    dataset = data(tmp_path, [official(), official(label="Suported")])
    message = error_of(dataset)
    assert "dev.json, line " in message
    assert "unknown label 'Suported'. Did you mean 'Supported'?" in message


def test_bad_date_names_the_line(tmp_path: Path) -> None:
    (tmp_path / "dev.jsonl").write_text(
        json.dumps(official()) + "\n" + json.dumps(official(claim_date="11/25/2020")) + "\n"
    )
    assert "dev.jsonl, line 2: '11/25/2020' is not a date" in error_of(Averitec(path=tmp_path))


# Stores


def test_store_quirks(tmp_path: Path) -> None:
    dataset = data(
        tmp_path,
        [official()],
        {
            "0": [
                page("https://a.example/x", "One.", "Two.", type="claim", query="ostrel bridge"),
                page("https://a.example/x", "Again."),
                page(None, "No URL."),
                page("https://a.example/empty"),
                {"claim_id": 0, "url": "https://a.example/missing"},
                page("https://a.example/str", url2text="All in one."),
                page("https://a.example/d", "Dated.", date="2020-11-01", title="T", lang="de"),
            ]
        },
    )
    (claim,) = dataset.claims()
    documents = dataset.read_documents(claim)
    assert [d.id for d in documents] == [
        "https://a.example/x",
        "https://a.example/x#@1",
        "@2",
        "https://a.example/empty",
        "https://a.example/missing",
        "https://a.example/str",
        "https://a.example/d",
    ]
    assert documents[1].url == "https://a.example/x"
    assert (documents[0].kind, documents[0].query) == ("claim", "ostrel bridge")
    assert documents[0].sentences == ("One.", "Two.")
    assert documents[3].sentences == documents[4].sentences == ()
    assert documents[5].sentences == ("All in one.",)
    assert (documents[6].date, documents[6].title, documents[6].lang) == (
        datetime.date(2020, 11, 1),
        "T",
        "de",
    )


@given(
    st.lists(st.none() | st.sampled_from(["", "@0", "@1", "@2", "@@1", "u", "u#@1"]), min_size=1)
)
def test_document_ids_are_unique_and_stable(
    tmp_path_factory: pytest.TempPathFactory, urls: list[str | None]
) -> None:
    dataset = data(
        tmp_path_factory.mktemp("ids"), [official()], {"0": [page(url, "Text.") for url in urls]}
    )
    (claim,) = dataset.claims()
    ids = [d.id for d in dataset.read_documents(claim)]
    assert len(set(ids)) == len(urls)
    assert ids == [d.id for d in dataset.read_documents(claim)]


def test_other_store_layout_and_list_form(tmp_path: Path) -> None:
    dataset = data(tmp_path, [official()])
    (claim,) = dataset.claims()
    store = tmp_path / "knowledge_store" / "dev" / "0.json"
    store.parent.mkdir(parents=True)
    store.write_text(json.dumps([page("u", "One."), page("v", "Two.")]))
    assert dataset.sources(claim) == [store]
    assert [d.sentences for d in dataset.read_documents(claim)] == [("One.",), ("Two.",)]


def test_missing_store(tmp_path: Path) -> None:
    dataset = data(tmp_path, [official()])
    message = error_of(dataset, dataset.claims()[0])
    assert "knowledge_store_dev/0.json or knowledge_store/dev/0.json" in message
    assert "the knowledge store of claim 0" in message


def test_store_without_text_names_the_claim(tmp_path: Path) -> None:
    dataset = data(tmp_path, [official()], {"0": [page("u"), page("v", " ")]})
    message = error_of(dataset, dataset.claims()[0])
    assert message.startswith("The knowledge store of claim 0 (")
    assert "no text in any of its 2 documents" in message


def test_a_line_that_is_no_page_is_named(tmp_path: Path) -> None:
    dataset = data(tmp_path, [official("Zero.")], {"0": [page("u", "Zero."), {"oops": 1}]})
    said = error_of(dataset, dataset.claims()[0])
    assert "0.json, line 2: no page of a store: it has neither url nor url2text" in said


def test_pitfall_4_one_bad_store_costs_itself_alone(tmp_path: Path) -> None:
    texts = ["Zero.", "One.", "Two.", "Three."]
    claims = [official(text) for text in texts]
    dataset = data(tmp_path, claims, {str(n): [page("u", t)] * 2 for n, t in enumerate(texts)})
    stores = tmp_path / "knowledge_store_dev"
    (stores / "0.json").write_bytes(b"")
    whole = (stores / "1.json").read_bytes()
    (stores / "1.json").write_bytes(whole[:-20])  # the second line breaks off
    (stores / "2.json").unlink()
    cache = Cache(tmp_path / "cache")
    with pytest.raises(ClaimflowError, match=r"0\.json is empty"):
        case_refs(dataset, dataset.claims(), cache)

    dataset = Averitec(path=tmp_path, on_error="skip")
    refs = case_refs(dataset, dataset.claims(), cache)
    assert [ref.id for ref in refs] == ["0", "1", "2", "3"]
    assert [bool(ref.error) for ref in refs] == [True, False, True, False]
    assert "0.json is empty" in (refs[0].error or "")
    assert [len(load(refs[n], ["documents"], cache).documents) for n in (1, 3)] == [1, 2]
    assert [(Path(b.file).name, b.line) for b in dataset.bad] == [("1.json", 2)]
    # The torn line is reported again by the next run, not hidden by the cache.
    later = Averitec(path=tmp_path, on_error="skip")
    case_refs(later, later.claims(), cache)
    assert [b.line for b in later.bad] == [2]
    # A start in the middle of the split is as good as any.
    last = Averitec(path=tmp_path, ids=[3])
    assert [ref.error for ref in case_refs(last, last.claims(), cache)] == [None]


def test_pitfall_7_stores_of_other_claims_are_no_evidence(tmp_path: Path) -> None:
    """As files have it that were renamed, or numbered again after one was lost."""
    stores = {"0": [page("u", "Zero.", claim_id=1)], "1": [page("u", "One.", claim_id="1")]}
    dataset = data(tmp_path, [official("Zero."), official("One.")], stores)
    zero, one = dataset.claims()
    assert "0.json, line 1: a page of claim 1, in the store of claim 0" in error_of(dataset, zero)
    assert dataset.read_documents(one)[0].sentences == ("One.",)
    cache = Cache(tmp_path / "cache")
    dataset = Averitec(path=tmp_path, on_error="skip")
    refs = case_refs(dataset, dataset.claims(), cache)
    assert [bool(ref.error) for ref in refs] == [True, False]
    list(Packer(tmp_path / "knowledge_store_dev", tmp_path / "packed"))
    packed = Averitec(path=tmp_path, store=tmp_path / "packed")
    assert "a page of claim 1, in the store of claim 0" in error_of(packed, zero)
    assert packed.read_documents(one)[0].sentences == ("One.",)


def test_an_edited_store_is_parsed_again(tmp_path: Path) -> None:
    dataset = data(tmp_path, [official(), official("B.")], {"0": [page("u", "Old.")]})
    claims = dataset.claims()[:1]
    cache = Cache(tmp_path / "cache")
    before = case_refs(dataset, claims, cache)[0]
    assert case_refs(dataset, claims, cache)[0] == before
    data(tmp_path, [official(), official("B.")], {"0": [page("u", "New.")]})
    after = case_refs(dataset, claims, cache)[0]
    assert load(after, ["documents"], cache).documents[0].sentences == ("New.",)


def test_a_renamed_page_is_looked_for_again(tmp_path: Path) -> None:
    stores = {"0": [page("u", file="pages/dev/0/a.html"), page("v", "Text.")]}
    dataset = data(tmp_path, [official()], stores)
    dataset.on_error = "skip"
    pages = tmp_path / "pages" / "dev" / "0"
    pages.mkdir(parents=True)
    (pages / "a.html").write_text("<html><body><p>The ferry runs again, says the harbour office.")
    cache = Cache(tmp_path / "cache")
    claims = dataset.claims()
    (ref,) = case_refs(dataset, claims, cache)
    assert load(ref, ["documents"], cache).documents[0].sentences
    (pages / "a.html").rename(pages / "b.html")
    (ref,) = case_refs(dataset, claims, cache)
    assert load(ref, ["documents"], cache).documents[0].sentences == ()
    assert "page 'pages/dev/0/a.html' left empty" in dataset.bad[-1].reason


def test_claims_and_splits_have_their_own_documents_of_one_file(tmp_path: Path) -> None:
    class OneFile(Demo):
        def sources(self, claim: Claim) -> list[Path]:
            return [tmp_path / "all.json"]

        def read_documents(self, claim: Claim) -> list[Document]:
            return [Document(id=f"{self.split} {claim.id}", sentences=("A.",))]

    (tmp_path / "all.json").write_text("{}")
    cache = Cache(tmp_path / "cache")
    claims = [Claim(id=id, text="A.") for id in "12"]
    found = []
    for split in ("dev", "test"):
        refs = case_refs(OneFile(path=tmp_path, split=split), claims, cache)
        found += [load(ref, ("documents",), cache).documents[0].id for ref in refs]
    assert found == ["dev 1", "dev 2", "test 1", "test 2"]


def test_a_parameter_of_a_data_set_reads_its_documents_again(tmp_path: Path) -> None:
    @dataclasses.dataclass(kw_only=True)
    class Loud(Averitec):
        loud: bool = False

        def read_documents(self, claim: Claim) -> list[Document]:
            documents = super().read_documents(claim)
            if not self.loud:
                return documents
            return [
                msgspec.structs.replace(d, sentences=tuple(map(str.upper, d.sentences)))
                for d in documents
            ]

    data(tmp_path, [official()], {"0": [page("u", "Text.")]})
    cache = Cache(tmp_path / "cache")
    for loud, text in ((False, "Text."), (True, "TEXT."), (False, "Text.")):
        dataset = Loud(path=tmp_path, loud=loud)
        (ref,) = case_refs(dataset, dataset.claims(), cache)
        assert load(ref, ["documents"], cache).documents[0].sentences == (text,)


def test_pitfall_17_text_of_every_kind_survives(tmp_path: Path) -> None:
    texts = ["الجسر مفتوح للعربات.", "橋は開いている。", "e\u0301 é", "tab\there", "x" * 2_000_000]
    urls = ["https://a.example/köln/橋", "https://a.example/مرحبا"]
    dataset = data(tmp_path, [official("Ünïcode")], {"0": [page(urls[0], *texts)]})
    store = tmp_path / "knowledge_store_dev" / "0.json"
    with open(store, "ab") as file:
        file.write(
            b'{"url": "%s", "url2text": ["lone \\ud800 half \\udc00."]}\n' % urls[1].encode()
        )
        file.write(
            b'{"url": "v", "url2text": ["pair \\ud83d\\ude00, raw \xed\xa0\x80 and \xff."]}\n'
        )
    (claim,) = dataset.claims()
    documents = dataset.read_documents(claim)
    assert [d.url for d in documents] == [*urls, "v"]
    assert documents[0].sentences == tuple(texts)
    assert documents[1].sentences == ("lone \ufffd half \ufffd.",)
    assert documents[2].sentences[0].startswith("pair \N{GRINNING FACE}, raw \ufffd")
    assert decode(encode(documents), list[Any])  # and it can be written
    (tmp_path / "dev.json").write_bytes(b'[{"claim": "lone \\udfff"}]')
    assert dataset.claims()[0].text == "lone \ufffd"


@given(
    st.lists(
        st.dictionaries(
            st.text(string.ascii_letters, min_size=1, max_size=3),
            st.text(st.characters(codec="utf-8"), max_size=9),
            max_size=3,
        ),
        max_size=6,
    ),
    st.sampled_from([None, 0, 2]),
    st.booleans(),
)
def test_lists_and_lines_hold_the_same_records(
    tmp_path_factory: pytest.TempPathFactory,
    records: list[dict[str, str]],
    indent: int | None,
    ascii_only: bool,
) -> None:
    path = tmp_path_factory.mktemp("lines") / "x.json"
    path.write_text(json.dumps(records, indent=indent, ensure_ascii=ascii_only), encoding="utf-8")
    assert [r for _, r in read_lines(path, dict[str, str])] == records
    path.write_text(
        "".join(json.dumps(r, ensure_ascii=ascii_only) + "\n" for r in records), "utf-8"
    )
    assert [r for _, r in read_lines(path, dict[str, str])] == records
