"""Retrieval measures, TREC files, and rankings of documents out of cases."""

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from components.datasets.gold import read_gold
from components.errors import ClaimflowError
from components.records import Case, Claim, Document, Hit, Query
from components.score.base import Rankings, Scores
from components.score.retrieval import (
    Qrels,
    Retrieval,
    document_ranking,
    paired,
    read_qrels,
    read_run,
    retrieval,
    same_url,
    write_qrels,
    write_run,
)


def values(scores: Scores) -> dict[str, float]:
    return {name: measure.value for name, measure in scores.measures.items()}


def ranked(*docs: str) -> list[tuple[str, float]]:
    return [(doc, 1.0) for doc in docs]  # equal scores: the order alone counts


def test_worked() -> None:
    scores = retrieval({"1": ranked("a", "x", "b")}, {"1": {"a": 1, "b": 1, "c": 1, "x": 0}})
    assert list(scores.measures) == Retrieval().names()
    ideal = 1 + 1 / math.log2(3) + 1 / math.log2(4)
    assert values(scores) == pytest.approx(
        {
            "ndcg_at_10": (1 + 1 / math.log2(4)) / ideal,
            "recall_at_10": 2 / 3,
            "recall_at_100": 2 / 3,
            "mrr": 1.0,
            "ap": (1 + 2 / 3) / 3,
        }
    )
    late = retrieval({"1": ranked(*map(str, range(50)))}, {"1": {"20": 1}})
    assert values(late) == pytest.approx(
        {"ndcg_at_10": 0, "recall_at_10": 0, "recall_at_100": 1, "mrr": 1 / 21, "ap": 1 / 21}
    )


docs = st.sampled_from("abcdefghijklmnopqrst")
rankings = st.dictionaries(
    st.sampled_from("123456"), st.lists(docs, unique=True, max_size=20).map(lambda d: ranked(*d))
)
qrels = st.dictionaries(
    st.sampled_from("123456"), st.dictionaries(docs, st.integers(0, 3)), min_size=1
).filter(lambda q: any(grade for grades in q.values() for grade in grades.values()))


@given(rankings, qrels)
@settings(deadline=None)
def test_equals_trec_eval(run: Rankings, gold: Qrels) -> None:
    ir_measures = pytest.importorskip("ir_measures")
    names = {"nDCG@10": "ndcg_at_10", "R@10": "recall_at_10", "R@100": "recall_at_100"}
    names |= {"RR": "mrr", "AP": "ap"}
    judged = {claim: grades for claim, grades in gold.items() if any(grades.values())}
    theirs = ir_measures.calc_aggregate(
        [ir_measures.parse_measure(name) for name in names],
        judged,
        {c: {doc: -float(rank) for rank, (doc, _) in enumerate(r)} for c, r in run.items()},
    )
    ours = values(retrieval(run, gold, draws=2))
    assert ours == pytest.approx({names[str(m)]: value for m, value in theirs.items()})


@given(
    st.lists(
        st.tuples(docs, st.sampled_from([0, 1, 2, 2 + 1e-9, 2 + 1e-6])),
        unique_by=lambda hit: hit[0],
        min_size=1,
    ),
    st.dictionaries(docs, st.integers(1, 3), min_size=1),
)
@settings(max_examples=50, deadline=None)
def test_official_orders_documents_of_one_score_by_id_as_trec_does(
    hits: list[tuple[str, float]], grades: dict[str, int]
) -> None:
    ir_measures = pytest.importorskip("ir_measures")
    ranking = sorted(((doc, float(score)) for doc, score in hits), key=lambda hit: -hit[1])
    claim = Claim(id="1", text="", relevant=list(grades), grades=grades)
    ours = Retrieval(official=True, draws=10).score([claim], rankings={"1": ranking})
    theirs = ir_measures.calc_aggregate(
        [ir_measures.nDCG @ 10, ir_measures.RR, ir_measures.AP],
        [ir_measures.Qrel("1", doc, grade) for doc, grade in grades.items()],
        [ir_measures.ScoredDoc("1", doc, score) for doc, score in ranking],
    )
    theirs = {str(measure): value for measure, value in theirs.items()}
    for name, known in (("ndcg_at_10", "nDCG@10"), ("mrr", "RR"), ("ap", "AP")):
        assert values(ours)[name] == pytest.approx(theirs[known])
    tied = len({np.float32(score) for _, score in ranking}) < len(ranking)
    assert tied == any("as trec_eval does" in note for note in ours.notes)


def test_what_is_missing_double_or_extra_is_counted_and_said() -> None:
    gold = {"1": {"a": 1}, "2": {"a": 1}, "3": {}, "4": {"a": 0}}
    run = {"1": ranked("x", "x", "a", "a"), "3": ranked("a"), "9": ranked("a")}
    scores = retrieval(run, gold)
    assert values(scores)["mrr"] == pytest.approx((1 / 2 + 0) / 2)
    assert values(scores)["recall_at_10"] == 0.5
    assert [row["id"] for row in scores.per_claim] == ["1", "2"]
    assert scores.notes == [
        "Claims left out, without relevant documents (2): 3, 4.",
        "Claims without ranking, counted 0 (1): 2.",
        "Rankings passed over, for no gold claim (1): 9.",
        "Claims with documents ranked twice (2 places removed) (1): 1.",
    ]
    with pytest.raises(ClaimflowError, match="None of the 1 claims has a relevant document"):
        retrieval(run, {"3": {}})


def test_scorer_pairs_urls_and_takes_out_the_fact_checking_article() -> None:
    claim = Claim(
        id="1",
        text="",
        relevant=["https://www.Town.example/law/", "https://checker.example/article"],
        fact_check_url="http://checker.example/article",
    )
    run = {"1": ranked("https://checker.example/article", "http://town.example/law#s2")}
    scores = Retrieval().score([claim], rankings=run)
    assert values(scores)["mrr"] == 1
    assert values(scores)["recall_at_10"] == 1
    assert "own fact-checking article" in scores.notes[0]
    with pytest.raises(ClaimflowError, match="needs rankings, and got none"):
        Retrieval().score([claim])


def test_same_url() -> None:
    page = same_url("https://town.example/law?id=1")
    for other in (
        "http://www.town.example:80/law?id=1",
        "https://TOWN.example/law/?id=1#top",
        "https://web.archive.org/web/20201129141238/https://town.example/law?id=1",
        " https://town.example/l%61w?id=1 ",
    ):
        assert same_url(other) == page
    assert same_url("https://town.example/law?id=2") != page
    assert same_url("https://town.example/Law?id=1") != page
    assert same_url("4983") == "4983"
    assert same_url("https://[broken") == "https://[broken"
    assert same_url("https://ja.example/市") == same_url("https://ja.example/%E5%B8%82")


@given(st.text())
def test_same_url_takes_any_text(text: str) -> None:
    assert isinstance(same_url(f"https://{text}"), str)


def hit(doc: str, score: float, query: int = 0, sentence: int = 0) -> Hit:
    return Hit(passage=f"{doc}#{sentence}", doc=doc, score=score, query=query)


def test_documents_are_ranked_by_best_rank_then_score_then_query() -> None:
    case = Case(
        claim=Claim(id="1", text=""),
        queries=[Query(text="q0"), Query(text="q1")],
        hits=[
            hit("a", 0.5),
            hit("a", 0.4, sentence=1),  # the same document again takes no rank
            hit("b", 0.3),
            hit("c", 0.9, query=1),
            hit("d", 0.3, query=1),
            hit("a", 0.1, query=1),
        ],
    )
    assert document_ranking(case) == [("c", 0.9), ("a", 0.5), ("b", 0.3), ("d", 0.3)]
    assert document_ranking(Case(claim=Claim(id="1", text=""))) == []


def test_documents_are_named_by_a_relevant_url() -> None:
    case = Case(
        claim=Claim(id="1", text="", relevant=["https://town.example/law"]),
        documents=[
            Document(id="7", url="http://www.town.example/law/"),
            Document(id="8", url="http://town.example/other"),
        ],
        hits=[hit("8", 2), hit("7", 1)],
    )
    ranking = document_ranking(case)
    assert ranking == [("8", 2), ("http://www.town.example/law/", 1)]
    assert values(Retrieval().score([case.claim], rankings={"1": ranking}))["mrr"] == 0.5


def test_a_page_is_one_document_whatever_its_urls() -> None:
    """A URL that stands twice in a store, and another form of it: one rank, the best score."""
    page, other = "https://town.example/law", "https://town.example/other"
    case = Case(
        claim=Claim(id="1", text="", relevant=[other]),
        queries=[Query(text="q0"), Query(text="q1")],
        hits=[
            hit(f"{page}#@14", 3),
            hit(page, 2),
            hit("http://www.town.example/law/", 2),
            hit(other, 1),
            hit("https://town.example/last", 5, query=1),
            hit(page, 4, query=1),
        ],
    )
    ranking = document_ranking(case)
    assert ranking == [("https://town.example/last", 5), (f"{page}#@14", 3), (other, 1)]
    kept, _, _ = paired([case.claim], {"1": ranking})
    assert [doc for doc, _ in kept["1"]] == [
        "town.example/last", "town.example/law", "town.example/other",
    ]  # fmt: skip


# TREC files

ids = st.text(min_size=1, max_size=8)


@given(
    st.dictionaries(
        ids,
        st.lists(
            st.tuples(ids, st.floats(allow_nan=False, allow_infinity=False)),
            min_size=1,
            max_size=5,
            unique_by=lambda x: x[0],
        ),
    )
)
def test_runs_come_back_in_order(tmp_path_factory: pytest.TempPathFactory, run: Rankings) -> None:
    path = tmp_path_factory.mktemp("trec") / "run"
    write_run(path, run)
    back = read_run(path)
    assert {claim: [doc for doc, _ in r] for claim, r in back.items()} == {
        claim: [doc for doc, _ in r] for claim, r in run.items()
    }
    assert all(len(line.split()) == 6 for line in path.read_text().splitlines())


def test_grades_of_qrels_count_in_ndcg(tmp_path: Path) -> None:
    import ir_measures

    grades = {"1": {"a": 3, "b": 1, "c": 0}, "2": {"x": 1, "y": 2, "z": -1}}
    run = {"1": [("b", 3.0), ("c", 2.0), ("a", 1.0)], "2": [("y", 3.0), ("z", 2.0), ("x", 1.0)]}
    write_qrels(tmp_path / "qrels", grades)
    scores = Retrieval().score(read_gold(tmp_path / "qrels"), rankings=run)
    first = (1 + 3 / 2) / (3 + 1 / math.log2(3))
    second = (2 + 1 / 2) / (2 + 1 / math.log2(3))
    assert values(scores)["ndcg_at_10"] == pytest.approx((first + second) / 2)
    known = ir_measures.calc_aggregate(
        [ir_measures.nDCG @ 10, ir_measures.AP],
        grades,
        {claim: dict(ranking) for claim, ranking in run.items()},
    )
    assert values(scores)["ndcg_at_10"] == pytest.approx(known[ir_measures.nDCG @ 10])
    assert values(scores)["ap"] == pytest.approx(known[ir_measures.AP])


@given(st.dictionaries(ids, st.dictionaries(ids, st.integers(-1, 3), min_size=1)))
def test_qrels_come_back(tmp_path_factory: pytest.TempPathFactory, gold: Qrels) -> None:
    path = tmp_path_factory.mktemp("trec") / "qrels"
    write_qrels(path, gold)
    assert read_qrels(path) == gold


def test_scores_that_fall_are_kept_and_others_replaced(tmp_path: Path) -> None:
    write_run(tmp_path / "run", {"1": [("a b", 2.5), ("https://x.example/?q=1", 0.5)]})
    assert (tmp_path / "run").read_text() == (
        "1 Q0 a%20b 1 2.5 claimflow\n1 Q0 https%3A%2F%2Fx.example%2F%3Fq%3D1 2 0.5 claimflow\n"
    )
    write_run(tmp_path / "run", {"1": [("a", 1.0), ("b", 3.0)]})
    assert read_run(tmp_path / "run") == {"1": [("a", 1.0), ("b", 0.5)]}


def test_bad_trec_lines_are_named(tmp_path: Path) -> None:
    for line, remedy in {
        "1 Q0 a b 1 2.5 x": "7 columns where 6 are due, .* Ids with white space must be percent",
        "1 Q0 a 1 2.5": "5 columns where 6 are due, `qid Q0 docid rank score tag`. Write all of",
        "1,Q0,a,1,2.5,x": "1 columns .* Part them by white space, not by commas",
        "1 Q0 a 1 2,5 x": "'2,5' is not a number. Give a finite one, such as 1.5",
    }.items():
        (tmp_path / "run").write_text(f"1 Q0 a 1 2.5 x\n{line}\n")
        with pytest.raises(ClaimflowError, match=f"run, line 2: {remedy}"):
            read_run(tmp_path / "run")
    (tmp_path / "qrels").write_text("1 0 a high\n")
    with pytest.raises(ClaimflowError, match="line 1: 'high' is not a number"):
        read_qrels(tmp_path / "qrels")
    for line, reason in {
        "1 0 a nan": "'nan' is not a number",
        "1 0 a 0.5": "a has the grade 0.5, no whole number",
        "1 0 a 1\n1 0 a 2": "line 2: a has the grade 2, again, graded 1 before",
    }.items():
        (tmp_path / "qrels").write_text(f"{line}\n")
        with pytest.raises(ClaimflowError, match=reason):
            read_qrels(tmp_path / "qrels")
    with pytest.raises(ClaimflowError, match=r"No .*none: a file of"):
        read_run(tmp_path / "none")
    with pytest.raises(ClaimflowError, match="empty id"):
        write_run(tmp_path / "run", {"": [("a", 1.0)]})


def test_scores_that_rise_with_the_rank_are_noted(tmp_path: Path) -> None:
    def noted(*scores: float) -> list[str]:
        lines = [
            f"{claim} Q0 d{n} {n} {score} x\n"
            for claim in (1, 2)
            for n, score in enumerate(scores, 1)
        ]
        (tmp_path / "a.run").write_text("".join(lines))
        notes: list[str] = []
        read_run(tmp_path / "a.run", notes)
        return notes

    (note,) = noted(0.1, 0.1, 0.5)
    assert note.startswith("In every ranking (2) the score rises with the rank")
    for scores in ((3, 2, 1), (1, 1, 1), (2, 3, 1), (1,)):
        assert not noted(*scores)


def test_documents_that_no_gold_file_knows_are_noted() -> None:
    gold = {"1": {"20310709": 1}, "2": {"7": 0}}
    (note,) = retrieval({"1": ranked("20310709.0")}, gold).notes[:1]
    assert note.startswith("No ranked document is one of the gold file: those of the rankings are")
    assert "20310709.0, those of the gold file 20310709" in note
    for docs in (ranked("20310709", "1.0"), ranked("7")):
        assert not any("No ranked" in note for note in retrieval({"1": docs}, gold).notes)
