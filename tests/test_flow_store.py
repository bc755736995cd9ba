"""flows.store: stores built from documents and from a web site, and used by experiments."""

from __future__ import annotations

import collections
import html
import json
import random
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from components.datasets.averitec import Averitec, Demo
from components.errors import ClaimflowError
from components.files import ROOT
from components.records import Claim
from tests.conftest import Ran, command
from tests.searching import Answer, reply, service, serving

pytestmark = pytest.mark.skipif(
    not (ROOT / "data" / "demo").is_dir(), reason="needs data/demo (dvc pull)"
)
FREE = "[claim,named_entity,background]"


@pytest.fixture
def store(tmp_path: Path) -> Callable[..., dict[str, Any]]:
    """Run flows.store in this process into tmp_path/to; what `out=` holds."""
    import hydra

    from flows.cli import CONF
    from flows.resolvers import register
    from flows.store import main

    def go(*overrides: str) -> dict[str, Any]:
        register()
        (tmp_path / "out.json").unlink(missing_ok=True)
        places = [f"to={tmp_path}/to", f"cache={tmp_path}/cache", f"out={tmp_path}/out.json"]
        quick = ["runner.workers=1"]
        with hydra.initialize_config_dir(version_base="1.3", config_dir=str(CONF)):
            config = hydra.compose("store", overrides=[*places, *quick, *overrides])
        main(config)
        (record,) = json.loads((tmp_path / "out.json").read_text())
        return dict(record)

    return go


Store = Callable[..., dict[str, Any]]


def own(folder: Path, claims: list[dict[str, Any]], split: str = "dev") -> list[str]:
    """Settings for claims of one's own, with two pages to be found for them."""
    folder.mkdir(exist_ok=True)
    (folder / f"{split}.json").write_text(json.dumps(claims))
    pages = [
        {"url": "https://a.example/x", "url2text": ["The lake of Morrin was full in June."]},
        {"url": "https://a.example/2021/06/01/y", "url2text": ["Bread is sold on Sundays again."]},
    ]
    (folder / "pages.jsonl").write_text("\n".join(map(json.dumps, pages)))
    return [
        "dataset=averitec", f"path={folder}", f"split={split}", "dataset.train_split=null",
        f"provider.documents={folder}/pages.jsonl",
    ]  # fmt: skip


def test_claims_of_your_own_need_no_training_split(store: Store, tmp_path: Path) -> None:
    record = {"claim": "The lake of Morrin is dry.", "claim_date": "1-2-2021", "questions": []}
    settings = own(tmp_path, [record])
    with pytest.raises(
        ClaimflowError, match=r"split train\).*dataset\.train_split=null goes without"
    ):
        store(*(word for word in settings if "train_split" not in word))
    assert store(*settings)["counts"]["kept"] == 1


def test_pages_kept_undecided_are_none_of_those_dropped(store: Store, tmp_path: Path) -> None:
    """A claim without a date: nothing is later, and what has a date is said aside."""
    record = store(*own(tmp_path, [{"claim": "Bread is sold on Sundays in Morrin."}]))
    counts = record["counts"]
    assert counts["found"] == counts["kept"] == 2
    assert counts["kept undecided by the guard: they have dates, the claim has none"] == 1
    assert not [name for name in counts if name.startswith("dropped")]
    (made,) = lines(tmp_path / "to" / "built_dev.jsonl")
    assert made["counts"] == {name: count for name, count in counts.items() if name != "claims"}


def test_the_stores_of_other_claims_are_refused(store: Store, tmp_path: Path) -> None:
    store("limit=1", "queries.kinds=[claim]")
    claims = [{"claim": f"Bread is sold {day}."} for day in ("today", "on Sundays")]
    first, second = own(tmp_path / "own", claims), own(tmp_path / "second", claims[::-1])
    kept = (tmp_path / "to" / "knowledge_store_dev" / "0.json").read_bytes()
    with pytest.raises(
        ClaimflowError,
        match=r"to/knowledge_store_dev holds stores of the data set demo: .* to=FOLD",
    ):
        store(*first)
    assert (tmp_path / "to" / "knowledge_store_dev" / "0.json").read_bytes() == kept
    elsewhere = f"to={tmp_path}/elsewhere"
    store(*first, "ids=[0]", elsewhere)
    assert len(store(*first, elsewhere)["stores"]) == 2  # more of the same claims
    with pytest.raises(ClaimflowError, match=r"of other claims \(claim 0: 'Bread is sold today\.'"):
        store(*second, elsewhere)
    with pytest.raises(ClaimflowError, match=r"of other claims \(claim 1"):
        store(*own(tmp_path / "own", claims[:1]), elsewhere)


def test_stores_of_other_settings_are_named(store: Store) -> None:
    assert store("limit=3", "queries.kinds=[claim]")["notes"] == []
    assert store("limit=3", "queries.kinds=[claim]")["notes"] == []
    notes = store("limit=1", f"queries.kinds={FREE}")["notes"]
    assert [re.sub(r"in .*, or of another version of the code", "…", note) for note in notes] == [
        "Stores …, which these replace: 0.",
        "Stores …, which stay beside these: 1, 2.",
    ]


def test_the_demos_pages_are_for_the_demos_claims(store: Store, tmp_path: Path) -> None:
    settings = own(tmp_path, [{"claim": "Bread is sold on Sundays."}])
    with pytest.raises(ClaimflowError, match=r"demo's invented pages .*provider\.documents=FOLDER"):
        store(*settings[:-1])
    assert not (tmp_path / "to").exists()


def test_a_service_that_answers_nothing_ends_the_run_and_costs_no_store(
    store: Store, tmp_path: Path
) -> None:
    """It was well once: what was built then stays, whatever is asked for now."""
    asked: collections.Counter[str] = collections.Counter()

    def ill(path: str, params: dict[str, str], headers: dict[str, str]) -> Answer:
        asked[params["q"]] += 1
        return reply(503, b"busy")

    store("limit=3", "queries.kinds=[claim]")
    folder = tmp_path / "to" / "knowledge_store_dev"
    good = {path.name: path.read_bytes() for path in folder.iterdir()}
    with serving(ill) as address:
        web = [
            "provider=searxng", f"provider.url={address}/search", "provider.attempts=2",
            "provider.backoff=0.01", "provider.per_second=1000", "fetcher=web", "parallel=1",
        ]  # fmt: skip
        with pytest.raises(ClaimflowError, match=r"503: busy\. So it went with 5 queries in a row"):
            store(*web)
        assert list(asked.values()) == [2] * 5
        # Too few queries to say that of the service: the stores stay all the same, and are no
        # success.
        with pytest.raises(ClaimflowError, match="Without a store: 3 of 3"):
            store(*web, "limit=3", "queries.kinds=[claim]")
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == good
    (record,) = json.loads((tmp_path / "out.json").read_text())
    assert "a reply: 1; the one of an earlier run stays (remove " in record["stores"][0]["error"]
    again = store("limit=3", "queries.kinds=[claim]")
    assert [made["error"] for made in again["stores"]] == [None] * 3


def test_a_store_is_not_replaced_by_one_that_some_queries_failed_for(
    store: Store, tmp_path: Path
) -> None:
    settings = own(tmp_path, [{"claim": "Bread is sold on Sundays in the market of Morrin."}])
    store(*settings)
    path = tmp_path / "to" / "knowledge_store_dev" / "0.json"
    good = path.read_bytes()
    with serving(_any_page) as site:
        known = {"shape": "results", "query": "Bread is sold on Sundays in the market of Morrin.",
                 "body": [{"url": f"{site}/x"}]}  # fmt: skip
        (tmp_path / "r.jsonl").write_text(json.dumps(known))
        host = site.removeprefix("http://")
        recorded = [
            *settings[:-1], "provider=recorded", f"provider.file={tmp_path}/r.jsonl", "fetcher=web",
            f"fetcher.allow=['{host}']",
        ]  # fmt: skip
        for _ in range(2):
            (made,) = store(*recorded, f"queries.kinds={FREE}", "on_error=skip")["stores"]
            assert re.match(r"queries without a reply: \d+; the one of an earlier", made["error"])
            assert path.read_bytes() == good
        (made,) = store(*recorded, "queries.kinds=[claim]")["stores"]
    assert not made["error"]
    assert path.read_bytes() != good


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def done(record: dict[str, Any]) -> dict[str, int]:
    return {stage["name"]: stage["cases"] - stage["cached"] for stage in record["stages"]}


def test_the_demo_over_its_own_pages(store: Store, tmp_path: Path) -> None:
    first = store("limit=2")
    folder = tmp_path / "to" / "knowledge_store_dev"
    assert [path.name for path in sorted(folder.iterdir())] == ["0.json", "1.json"]
    pages = lines(folder / "0.json")
    for page in pages:
        assert list(page)[:5] == ["claim_id", "type", "query", "url", "url2text"]
        assert page["claim_id"] == 0
        assert page["url2text"]
    assert len({page["type"] for page in pages}) >= 3
    claim = Demo(split="dev").claims()[0]
    assert all(page.get("date", "") <= str(claim.date) for page in pages)
    assert any(page["query"] == claim.text and page["type"] == "claim" for page in pages)
    counts = first["counts"]
    dropped = sum(count for name, count in counts.items() if name.startswith("dropped"))
    assert counts["found"] == counts["kept"] + dropped
    assert counts["kept"] == len(pages) + len(lines(folder / "1.json"))
    assert {s["id"]: s["counts"]["kept"] for s in first["stores"]}["0"] == len(pages)

    # Again: all is there. A store that was changed by hand is made again, and no other.
    stamp = (folder / "0.json").stat().st_mtime_ns
    again = store("limit=2")
    assert done(again) == {"queries": 0, "search": 0, "stores": 0}
    assert again["counts"] == counts
    (folder / "1.json").write_text("{}")
    with open(tmp_path / "to" / "built_dev.jsonl", "a") as known:
        known.write("{torn")
    assert done(store("limit=2"))["stores"] == 1
    assert (folder / "0.json").stat().st_mtime_ns == stamp
    assert lines(folder / "1.json") != [{}]

    # Another seed: the same pages found by the claim, in another order.
    store("limit=1", "seed=14", f"queries.kinds={FREE}")
    other = lines(folder / "0.json")
    store("limit=1", "seed=13", f"queries.kinds={FREE}")
    same = lines(folder / "0.json")
    assert other != same
    assert sorted(map(str, other)) == sorted(map(str, same))


def test_a_raw_page_that_was_edited_is_read_again(store: Store, tmp_path: Path) -> None:
    """A line of the given documents names its page as a file, whose text is in no line."""
    (tmp_path / "dev.json").write_text(json.dumps([{"claim": "The lake of Morrin was full."}]))
    line = {"url": "https://a.example/x", "file": "pages/x.html"}
    for folder in ("knowledge_store", "pages"):
        (tmp_path / folder).mkdir()
    (tmp_path / "knowledge_store" / "0.json").write_text(json.dumps(line))
    data = ("dataset=averitec", f"path={tmp_path}", "dataset.train_split=null")
    given = f"provider.documents={tmp_path}/knowledge_store"

    def text(month: str) -> str:
        page = f"<p>The lake of Morrin was full in {month}, as its keeper told us then.</p>"
        (tmp_path / "pages" / "x.html").write_text(f"<html><body>{page}</body></html>")
        stores.append(done(store(*data, given))["stores"])
        [kept] = lines(tmp_path / "to" / "knowledge_store_dev" / "0.json")
        return " ".join(kept["url2text"])

    stores: list[int] = []
    assert "June" in text("June")
    assert "July" in text("July")
    assert "July" in text("July")
    assert stores == [1, 1, 0]


def test_gold_is_refused_on_evaluated_splits_and_used_on_others(
    store: Store, tmp_path: Path
) -> None:
    by_rules = ["queries=averitec_2024", "queries.engine=null", "limit=2"]
    with pytest.raises(ClaimflowError, match=r"tells them the answer.*allow_gold=true"):
        store(*by_rules)
    assert not (tmp_path / "to").exists()
    record = store(*by_rules, "split=train")
    pages = lines(tmp_path / "to" / "knowledge_store_train" / "0.json")
    claim = Demo(split="train").claims()[0]
    gold = {page["url"] for page in pages if page["type"] == "gold"}
    assert gold
    assert gold <= set(claim.relevant)
    assert all("query" not in page for page in pages if page["type"] == "gold")
    assert len({page["type"] for page in pages}) >= 5
    out_loud = store(*by_rules, "allow_gold=true")
    for notes in (record["notes"], out_loud["notes"]):
        assert any("gold_question" in note and "for training" in note for note in notes)
    assert store("limit=2", f"to={tmp_path}/free")["notes"] == []


def test_hidden_gold_can_not_be_used(store: Store, tmp_path: Path) -> None:
    claims = [{"claim": "Bread is sold on Sundays.", "claim_id": 7, "claim_date": "1-1-2022"}]
    data = own(tmp_path, claims, "test")
    with pytest.raises(ClaimflowError, match="these claims have none"):
        store(*data, "queries=averitec_2024", "queries.engine=null", "allow_gold=true")
    assert store(*data)["counts"]["claims"] == 1
    assert lines(tmp_path / "to" / "knowledge_store_test" / "7.json")[0]["claim_id"] == 7


def test_an_id_that_can_not_name_a_file_costs_itself(store: Store, tmp_path: Path) -> None:
    claims = [{"claim": f"Bread is sold {n}.", "claim_id": n} for n in ("../../a", "b")]
    data = own(tmp_path, claims, "own")
    with pytest.raises(ClaimflowError, match=r"Without a store: 1 of 2 claims, see above\. Start"):
        store(*data)
    record = store(*data, "on_error=skip")
    assert [s["error"] for s in record["stores"]] == ["its id can't name a file", None]
    assert any("2 claims have no date" in note for note in record["notes"])
    assert lines(tmp_path / "to" / "knowledge_store_own" / "b.json")[0]["claim_id"] == "b"


def test_what_a_provider_can_not_answer_costs_itself_and_is_asked_again(
    store: Store, tmp_path: Path
) -> None:
    recorded = ["provider=recorded", f"provider.file={tmp_path}/r.jsonl", "limit=2"]
    claims = Demo(split="dev").claims()[:2]
    urls = [{"url": page} for page in claims[0].relevant]
    known = [{"shape": "results", "query": claims[0].text, "body": urls}]
    (tmp_path / "r.jsonl").write_text("\n".join(map(json.dumps, known)))
    with pytest.raises(ClaimflowError, match="fetcher=web"):
        store(*recorded)
    nowhere = ["fetcher=web", "fetcher.timeout=2", "fetcher.robots=false"]
    record = store(*recorded, *nowhere, f"queries.kinds={FREE}", "on_error=skip")
    first, second = record["stores"]
    assert first["error"] == f"none of {len(urls)} pages found is left"  # .example is nowhere
    assert first["counts"]["kept"] == 0
    assert all("no reply to" in problem for problem in second["problems"])
    failed = len(second["problems"])
    assert second["error"] == f"no page was found, queries without a reply: {failed}"


@pytest.fixture
def site() -> Iterator[tuple[str, collections.Counter[str], dict[str, Answer]]]:
    """The demo's pages as a web site of this machine; (address, requests by path, bad pages)."""
    asked: collections.Counter[str] = collections.Counter()
    bad: dict[str, Answer] = {}
    pages = {}
    for split in ("train", "dev"):
        dataset = Demo(split=split)
        for claim in dataset.claims():
            for page in dataset.read_documents(claim):
                if page.url and page.sentences:
                    pages.setdefault(moved("", page.url), page)

    def answer(path: str, params: dict[str, str], headers: dict[str, str]) -> Answer:
        asked[path] += 1
        if path in bad:
            return bad[path]
        if path not in pages:
            return reply(404, b"nothing here")
        page = pages[path]
        title = html.escape(page.title or "A page")
        meta = (
            f'<meta property="article:published_time" content="{page.date}">' if page.date else ""
        )
        text = "".join(f"<p>{html.escape(sentence)}</p>" for sentence in page.sentences)
        body = (
            f"<!DOCTYPE html><html><head><meta charset=utf-8><title>{title}</title>{meta}</head>"
            f"<body><article><h1>{title}</h1>{text}</article></body></html>"
        )
        return reply(200, body.encode(), Content_Type="text/html; charset=utf-8")

    with serving(answer) as address:
        yield address, asked, bad


def moved(address: str, url: str) -> str:
    """The place of a demo page on the site."""
    return f"{address}/{re.sub(r'[^a-z0-9./-]', '-', url.removeprefix('https://').lower())}"


def claims_of_site(address: str, folder: Path) -> list[Claim]:
    """A data set of the demo's training claims and two of its claims, whose URLs are the site's."""
    demo = ROOT / "data" / "demo"
    claims = json.loads((demo / "dev.json").read_text())[:2]
    for claim in claims:
        claim["fact_checking_article"] = moved(address, claim["fact_checking_article"])
        for question in claim["questions"]:
            for answer in question["answers"]:
                if (answer["source_url"] or "").startswith("https"):
                    answer["source_url"] = moved(address, answer["source_url"])
    folder.mkdir()
    (folder / "dev.json").write_text(json.dumps(claims))
    (folder / "train.json").symlink_to(demo / "train.json")
    # What the search engine has indexed of the site.
    stores = folder / "index"
    stores.mkdir()
    for n in (0, 1):
        documents = Demo(split="dev").read_documents(Demo(split="dev").claims()[n])
        indexed = [
            {"url": moved(address, d.url), "title": d.title, "url2text": d.sentences}
            for d in documents
            if d.url
        ]
        (stores / f"{n}.json").write_text("\n".join(map(json.dumps, indexed)))
    return Averitec(path=folder, split="dev").claims()


def test_a_site_searched_fetched_and_used_by_an_experiment(
    store: Store,
    site: tuple[str, collections.Counter[str], dict[str, Answer]],
    tmp_path: Path,
    experiment: Callable[..., Ran],
) -> None:
    address, asked, bad = site
    data = tmp_path / "data"
    claims = claims_of_site(address, data)
    host = address.removeprefix("http://")
    settings = [
        "dataset=averitec",
        f"path={data}",
        f"provider.documents={data}/index",
        "fetcher=web",
        "fetcher.per_host=4",
    ]
    gold = claims[0].relevant[0].removeprefix(address)
    bad[gold] = reply(500, b"oops")

    # Loopback addresses are refused unless config allows the host; then they are asked.
    refused = store(*settings, "on_error=skip")
    assert refused["counts"]["kept"] == 0
    assert not asked

    allow = f"fetcher.allow=['{host}']"
    first = store(*settings, allow)
    assert set(asked.values()) == {1}  # each page once, of two claims
    counts = first["counts"]
    unread = counts["unread: answered 500 Internal Server Error"]
    assert unread >= 1
    assert counts["dropped: later than the claim"] >= 2
    assert counts["kept"] >= 10
    folder = tmp_path / "to" / "knowledge_store_dev"
    for claim in claims:
        pages = {page["url"]: page for page in lines(folder / f"{claim.id}.json")}
        assert claim.fact_check_url not in pages
        assert all(page.get("date", "") <= str(claim.date) for page in pages.values())
        assert set(claim.relevant) - {address + gold} <= pages.keys()
        assert address + gold not in pages

    # Nothing is asked for twice; what failed is, when it is wanted.
    again = store(*settings, allow)
    assert done(again)["stores"] == 0
    assert set(asked.values()) == {1}
    bad.clear()
    mended = store(*settings, allow, "fetcher.retry_failed=true")
    assert mended["counts"]["kept"] == counts["kept"] + unread
    assert asked[gold] == 2

    # The stores are a knowledge store like any other.
    ran = experiment(
        "dataset=averitec",
        f"path={data}",
        f"dataset.store={tmp_path}/to/knowledge_store_dev",
        "questioner=rules",
        "retriever=bm25s",
        "verdict=majority",
        "scorer=retrieval",
        "primary=ndcg_at_10",
        "shown=[ndcg_at_10]",
    )
    assert ran.record.status == "finished"
    assert ran.record.measures["ndcg_at_10"].value > 0.2
    urls = {e["url"] for line in lines(ran.folder / "predictions.jsonl") for e in line["evidence"]}
    assert urls
    assert all(url.startswith(address) for url in urls)


def test_what_redirects_lead_to_and_hosts_that_are_none(store: Store, tmp_path: Path) -> None:
    """Found by short links: a later page, the claim's fact-check, one that stays. robots.txt is
    settings, not failure: without it what it forbids is asked for."""
    asked: collections.Counter[str] = collections.Counter()
    to = {"/s/later": "/2020/12/24/x", "/s/check": "/own-check", "/s/fine": "/2020/10/01/fine"}

    def answer(path: str, params: dict[str, str], headers: dict[str, str]) -> Answer:
        asked[path] += 1
        if path == "/robots.txt":
            return reply(200, b"User-agent: *\nDisallow: /private\n", Content_Type="text/plain")
        if path in to:
            return reply(302, b"", Location=f"http://{host}{to[path]}")
        text = f"<p>{path}: the lake of Morrin was full in June, and so it was in the year before."
        return reply(
            200, f"<html><body><article>{text}</article>".encode(), Content_Type="text/html"
        )

    with serving(answer) as address:
        host = address.removeprefix("http://")
        claim = {
            "claim": "The lake of Morrin is dry.",
            "claim_date": "2-11-2020",
            "fact_checking_article": f"https://{host}/own-check?utm_source=x",
        }
        (tmp_path / "dev.json").write_text(json.dumps([claim]))
        found = [f"{address}{path}" for path in (*to, "/private")]
        body = [{"url": url} for url in [*found, "https://xn--ls8h.la/about", "http://xn--/x"]]
        known = {"shape": "results", "query": claim["claim"], "body": body}
        (tmp_path / "r.jsonl").write_text(json.dumps(known))
        settings = [
            "dataset=averitec", f"path={tmp_path}", "dataset.train_split=null", "fetcher=web",
            f"fetcher.allow=['{host}']", "provider=recorded", f"provider.file={tmp_path}/r.jsonl",
            "queries.kinds=[claim]", "fetcher.timeout=2",
        ]  # fmt: skip
        counts = store(*settings)["counts"]
        assert counts["dropped: later than the claim"] == 1
        assert counts["dropped: fact-checking article of the claim"] == 1
        assert counts["unread: robots.txt forbids it"] == 1
        assert counts["unread: no URL"] == 2
        (page,) = lines(tmp_path / "to" / "knowledge_store_dev" / "0.json")
        assert page["url"] == f"{address}/s/fine"
        assert page["final_url"] == f"{address}/2020/10/01/fine"
        (document,) = Averitec(
            path=tmp_path, store=tmp_path / "to" / "knowledge_store_dev"
        ).read_documents(Averitec(path=tmp_path, train_split=None).claims()[0])
        assert document.final_url == page["final_url"]

        assert store(*settings, "fetcher.robots=false")["counts"]["kept"] == 2
        assert asked["/s/fine"] == asked["/private"] == 1


@pytest.mark.slow
def test_killed_again_and_again_nothing_is_asked_or_fetched_twice(
    store: Store,
    site: tuple[str, collections.Counter[str], dict[str, Answer]],
    tmp_path: Path,
) -> None:
    """kill -9 while it searches, fetches and reads: what stands on the disk counts."""
    address, fetched, _ = site
    data, to = tmp_path / "data", tmp_path / "killed"
    claims_of_site(address, data)
    indexed = [page for n in (0, 1) for page in lines(data / "index" / f"{n}.json")]
    pages = [(page["url"], page["title"] or "", None) for page in indexed]
    settings = [
        "dataset=averitec", f"path={data}", f"queries.kinds={FREE}", "provider=searxng",
        "provider.n=40", "provider.per_second=20", "parallel=1", "fetcher=web",
        f"fetcher.allow=['{address.removeprefix('http://')}']", "fetcher.at_once=2",
    ]  # fmt: skip
    rng = random.Random()
    known: list[collections.Counter[str]] = []  # how often what is on the disk had been asked for
    with service("searxng", pages) as search:

        def queries() -> collections.Counter[str]:
            return collections.Counter(
                f"{params['q']} {params['pageno']}" for params, _ in list(search.asked)
            )

        def paths() -> collections.Counter[str]:
            return fetched.copy()

        reached: list[Callable[[], bool]] = [
            lambda: len(search.asked) > 2,
            lambda: fetched.total() > 3,
            lambda: (to / "pages" / "pages.jsonl").read_bytes().count(b"\n") >= len(set(pages)),
        ]
        words = [*settings, f"provider.url={search.url}", "runner.workers=1"]
        places = [f"to={to}", f"cache={tmp_path}/killed_cache"]
        for there in reached:
            process = subprocess.Popen(
                [sys.executable, "-m", "flows.store", *words, *places],
                cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            )  # fmt: skip
            while process.poll() is None and not there():
                time.sleep(0.005)
            time.sleep(rng.uniform(0, 0.2))
            assert process.poll() is None, "it was done before it could be killed"
            process.kill()
            process.wait()
            time.sleep(0.2)  # what was under way arrives
            kept = (to / "replies.jsonl").read_text().rpartition("\n")[0].splitlines()
            told = [json.loads(line) for line in kept]
            asked = {f"{line['query']} {line.get('page', 1)}" for line in told}
            known.append(collections.Counter({q: n for q, n in queries().items() if q in asked}))
            if (to / "pages" / "pages.jsonl").exists():
                done = (to / "pages" / "pages.jsonl").read_text().rpartition("\n")[0].splitlines()
                there_now = {json.loads(line)["url"].removeprefix(address) for line in done}
                known.append(
                    collections.Counter({p: n for p, n in paths().items() if p in there_now})
                )
        store(*words, *places)
        now = queries() + paths()
        assert len(known[-1]) > 10
        for before in known:
            assert all(now[name] == times for name, times in before.items()), before
        # In all, what was under way at a kill is asked for again: a query, two pages.
        assert sum(n - 1 for n in queries().values()) <= len(reached)
        assert sum(n - 1 for n in paths().values()) <= 2 * len(reached)
        store(*words)
    made = tmp_path / "to" / "knowledge_store_dev"
    assert sorted(p.name for p in made.iterdir()) == ["0.json", "1.json"]
    for path in made.iterdir():
        assert (to / "knowledge_store_dev" / path.name).read_bytes() == path.read_bytes()


def test_a_quota_ends_a_run_and_the_next_goes_on(store: Store, tmp_path: Path) -> None:
    pages: list[tuple[str, str, str | None]] = [
        (page["url"], page.get("title", ""), page.get("date"))
        for n in (0, 1, 2)
        for page in lines(ROOT / "data" / "demo" / "knowledge_store" / "dev" / f"{n}.json")
    ]
    with service("searxng", pages) as served, serving(_any_page) as site:
        host = site.removeprefix("http://")
        served.pages = [(f"{site}/{n}", title, date) for n, (_, title, date) in enumerate(pages)]
        web = ["provider=searxng", f"provider.url={served.url}", "provider.per_second=1000"]
        settings = [
            "provider.n=5",
            "fetcher=web",
            f"fetcher.allow=['{host}']",
            "limit=3",
            f"queries.kinds={FREE}",
            "parallel=1",
        ]
        with pytest.raises(ClaimflowError, match="quota=9 requests are made"):
            store(*web, *settings, "provider.quota=9")
        (record,) = json.loads((tmp_path / "out.json").read_text())
        assert 0 < len(record["stores"]) < 3  # whole ones
        assert len(served.asked) == 9
        record = store(*web, *settings)
        assert len(record["stores"]) == 3
        texts = [params["q"] for params, _ in served.asked]
        assert len(texts) == len(set(texts))  # nothing was asked twice

        # All of it again, elsewhere, from the kept replies and pages alone.
        count = len(served.asked)
        before = (tmp_path / "to" / "knowledge_store_dev" / "0.json").read_bytes()
        (tmp_path / "to" / "knowledge_store_dev" / "0.json").unlink()
        again = store("provider=recorded", *settings)
        assert again["counts"]["kept"] == record["counts"]["kept"]
        assert (tmp_path / "to" / "knowledge_store_dev" / "0.json").read_bytes() == before
        assert len(served.asked) == count


def _any_page(path: str, params: dict[str, str], headers: dict[str, str]) -> Answer:
    if path == "/robots.txt":
        return reply(404, b"")
    rng = random.Random(path)
    text = " ".join(f"The word {rng.randrange(10**9)} is {rng.random()} long." for _ in range(20))
    body = f"<!DOCTYPE html><html><body><article><p>{text}</p></article></body></html>"
    return reply(200, body.encode(), Content_Type="text/html")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["provider=google"], "fetcher=web"),
        (["provider=google", "fetcher=web"], "environment variable GOOGLE_API_KEY"),
        (["provider=brave", "fetcher=web"], "environment variable BRAVE_API_KEY"),
        (["provider=recorded", "fetcher=web"], "no such file"),
        (["provider.documents=none"], "no such thing"),
        (["provider.n=0"], "n is 0"),
        (["queries.kinds=[backgrund]"], "Did you mean 'background'"),
        (["duplicates.threshold=2"], "threshold=2"),
        (["guard.claim_share=0"], "claim_share"),
        (["split=tain"], "Did you mean 'train'"),
    ],
)
def test_mistakes_are_told_before_any_work(
    store: Store,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    words: list[str],
    message: str,
) -> None:
    monkeypatch.delenv("GOOGLE_API_KEY", raising=False)
    monkeypatch.delenv("BRAVE_API_KEY", raising=False)
    with pytest.raises(ClaimflowError, match=message):
        store(*words)
    assert not (tmp_path / "to").exists()


@pytest.mark.slow
def test_a_run_that_builds_nothing_fails(tmp_path: Path) -> None:
    """The search service is ill: exit code 1, one line, and on_error=skip for who knows."""
    with serving(lambda path, params, headers: reply(503, b"")) as address:
        words = [
            "provider=searxng", f"provider.url={address}/search", "provider.backoff=0.01",
            "provider.per_second=1000", "fetcher=web", "queries.kinds=[claim]", "limit=1",
            f"to={tmp_path}/to", f"cache={tmp_path}/cache",
        ]  # fmt: skip
        ended = command("flows.store", *words)
        assert ended.returncode == 1
        [error] = [line for line in ended.stderr.splitlines() if line.startswith("error: ")]
        assert error.startswith("error: Without a store: 1 of 1 claim, see above.")
        assert "0 of 1 store in" in ended.stdout
        assert "no store: no page was found, queries without a reply: 1" in ended.stdout
        assert command("flows.store", *words, "on_error=skip").returncode == 0


@pytest.mark.slow
def test_the_command_line() -> None:
    page = command("flows.store", "--help").stdout
    for text in ("averitec_2024", "provider", "google", "dataset.store=FOLDER", "allow_gold"):
        assert text in page
    for word, message in (
        ("provider=bing", "error: No choice 'bing' in group provider."),
        ("dataset=scifact", "error: dataset=scifact has no stores to build: its claims share a"),
        ("dataset=fever", "error: dataset=fever has no stores to build: its claims share a"),
        ("chunker=document", "error: This flow does not take the group 'chunker': leave it out"),
    ):
        ended = command("flows.store", word)
        assert ended.returncode == 1
        assert ended.stderr.startswith(message)
        assert len(ended.stderr.splitlines()) == 1
