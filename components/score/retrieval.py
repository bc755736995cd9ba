"""Retrieval measures on document rankings, and the TREC files that hold them."""

from __future__ import annotations

import dataclasses
import itertools
import math
import struct
import urllib.parse
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar, TypeAlias

from components.errors import ClaimflowError, listed
from components.files import check_text, open_text, write_whole
from components.records import Case, Claim, Prediction
from components.score.base import Rankings, Scorer, Scores
from components.score.formula import measured
from components.step import Context
from components.urls import same_url

Qrels: TypeAlias = dict[str, dict[str, int]]
"""{claim id: {document id: grade}}; a grade above 0 is relevant."""

FLOAT_MAX = 3.4028234663852886e38  # of single precision
MEASURES = ("ndcg_at_10", "recall_at_10", "recall_at_100", "mrr", "ap")


@dataclasses.dataclass(kw_only=True)
class Retrieval(Scorer):
    """Scorer of document rankings against `Claim.relevant`; see `retrieval` for the measures.

    Documents are told apart by id, or by URL where the id is one (`same_url` decides). A claim's
    own fact-checking article is neither relevant nor a mistake: it is taken out of both sides.

    official: order documents of one score, in single precision, by id, from the last, as trec_eval
    does; else they stand as the ranking has them, in a TREC run by its column of ranks.
    """

    official: bool = False

    reads: ClassVar = ("rankings",)

    def names(self) -> list[str]:
        return list(MEASURES)

    def measure(
        self,
        gold: list[Claim],
        predictions: list[Prediction],
        rankings: Rankings,
        ctx: Context | None = None,
    ) -> Scores:
        if self.official:
            rankings = {claim: _by_id(ranking) for claim, ranking in rankings.items()}
        kept, qrels, dropped = paired(gold, rankings)
        scores = retrieval(kept, qrels, self.draws, self.seed)
        if dropped:
            scores.notes.append(
                "Claims whose own fact-checking article was retrieved, and taken out "
                f"({len(dropped)}): {listed(dropped)}."
            )
        if self.official and (note := ties(rankings)):
            scores.notes.append(f"Official quirk: {note} by id, from the last, as trec_eval does.")
        return scores


def _single(score: float) -> bytes:
    """The score as trec_eval holds it, in single precision."""
    return struct.pack("f", max(-FLOAT_MAX, min(score, FLOAT_MAX)) + 0.0)


def ties(rankings: Rankings) -> str:
    """The beginning of a note on claims whose ranking has documents of one score, if there are."""
    tied = [
        claim
        for claim, ranking in rankings.items()
        if len({_single(score) for _, score in ranking}) < len(ranking)
    ]
    where = f"({len(tied)} claims: {listed(tied)})"
    return f"documents of one score {where} are ordered" if tied else ""


def _by_id(ranking: Sequence[tuple[str, float]]) -> list[tuple[str, float]]:
    """The ranking with neighbours of one score by id, from the last."""
    groups = itertools.groupby(ranking, key=lambda hit: _single(hit[1]))
    return [
        hit for _, group in groups for hit in sorted(group, key=lambda hit: hit[0], reverse=True)
    ]


def paired(gold: list[Claim], rankings: Rankings) -> tuple[Rankings, Qrels, list[str]]:
    """Rankings and relevant documents with names that can be compared (`same_url`), without each
    claim's own fact-checking article; and the claims of which it was ranked."""
    own = {c.id: same_url(c.fact_check_url) if c.fact_check_url else "" for c in gold}
    qrels: Qrels = {claim.id: {} for claim in gold}
    for claim in gold:
        grades = qrels[claim.id]
        for doc in claim.relevant:
            if (name := same_url(doc)) != own[claim.id]:
                grades[name] = max(grades.get(name, 0), claim.grades.get(doc, 1))
    kept: Rankings = {}
    dropped = []
    for claim_id, ranking in rankings.items():
        named = [(same_url(doc), score) for doc, score in ranking]
        kept[claim_id] = [hit for hit in named if hit[0] != own.get(claim_id, "")]
        if len(kept[claim_id]) < len(named):
            dropped.append(claim_id)
    return kept, qrels, dropped


def retrieval(rankings: Rankings, qrels: Qrels, draws: int = 1000, seed: int = 13) -> Scores:
    """Measures of rankings, as trec_eval defines them; R is the set of a claim's relevant
    documents, those of a grade above 0.

    All 0 to 1, higher is better, means over the claims that have a relevant document:
    ndcg_at_10: sum of grade / log2(rank + 1) over the first 10 places, by the largest that it can
    be (Järvelin and Kekäläinen 2002, section 2; discounted from the second place on, as trec_eval).
    recall_at_10, recall_at_100: share of R among the first 10 or 100 places (Manning et al. 2008,
    section 8.3).
    mrr: 1 by the rank of the first relevant document in the whole ranking, 0 where there is none
    (Voorhees 1999).
    ap: mean over R of the precision at the rank of each of them, 0 for one that is not ranked
    (Manning et al. 2008, section 8.4; its mean over claims is MAP); of the whole ranking.

    The order of a ranking counts, not its scores; trec_eval orders by score, and documents of one
    score by id, from the last. A claim without ranking counts 0; of a document
    that is ranked twice the first place counts; claims without relevant documents are left out.
    Each of these is said in the notes. Raises ClaimflowError when no claim has a relevant document.
    """
    judged = [claim for claim, grades in qrels.items() if any(g > 0 for g in grades.values())]
    if not judged:
        raise ClaimflowError(
            f"None of the {len(qrels)} claims has a relevant document, so there is nothing to "
            "score rankings against. Choose a data set with gold documents."
        )
    rows: dict[str, dict[str, Any]] = {}
    duplicates: dict[str, int] = {}
    for claim in judged:
        docs = [doc for doc, _ in rankings.get(claim, [])]
        unique = list(dict.fromkeys(docs))
        if len(unique) < len(docs):
            duplicates[claim] = len(docs) - len(unique)
        rows[claim] = {"id": claim, **_measures(unique, qrels[claim])}
    notes = []
    known = {doc for grades in qrels.values() for doc in grades}
    ranked = [doc for claim in judged for doc, _ in rankings.get(claim, [])]
    if ranked and known.isdisjoint(ranked):
        notes.append(
            f"No ranked document is one of the gold file: those of the rankings are "
            f"{listed(ranked, 3)}, those of the gold file {listed(sorted(known), 3)}. Are they the "
            "same ids?"
        )
    for what, found in {
        "Claims left out, without relevant documents": [c for c in qrels if c not in rows],
        "Claims without ranking, counted 0": [c for c in judged if not rankings.get(c)],
        "Rankings passed over, for no gold claim": [c for c in rankings if c not in qrels],
        f"Claims with documents ranked twice ({sum(duplicates.values())} places removed)": list(
            duplicates
        ),
    }.items():
        if found:
            notes.append(f"{what} ({len(found)}): {listed(found)}.")
    return Scores(
        measures=measured(dict.fromkeys(MEASURES, ()), list(rows.values()), draws, seed),
        per_claim=list(rows.values()),
        notes=notes,
    )


def _measures(docs: list[str], grades: dict[str, int]) -> dict[str, float]:
    """MEASURES of one ranking without repeats; at least one grade is above 0."""
    gains = [max(grades.get(doc, 0), 0) for doc in docs]
    ideal = sorted((grade for grade in grades.values() if grade > 0), reverse=True)
    found = [rank for rank, gain in enumerate(gains, 1) if gain]
    values = (
        _dcg(gains[:10]) / _dcg(ideal[:10]),
        sum(rank <= 10 for rank in found) / len(ideal),
        sum(rank <= 100 for rank in found) / len(ideal),
        1 / found[0] if found else 0.0,
        sum(count / rank for count, rank in enumerate(found, 1)) / len(ideal),
    )
    return dict(zip(MEASURES, values, strict=True))


def _dcg(gains: list[int]) -> float:
    return sum(gain / math.log2(rank + 1) for rank, gain in enumerate(gains, 1))


# Rankings of a pipeline


def document_ranking(case: Case) -> list[tuple[str, float]]:
    """Documents by the hits of a case, best first: by their best rank over the queries, then by
    score, then by the order of the queries.

    A document's rank for a query is that of its first passage, counted in documents. It is named
    by its URL where that is in `claim.relevant` or the claim's fact-checking article, else by its
    id; ids that are URLs of one page (`same_url`) are one document, called by the first that was
    found. Reads claim, hits and documents (for their URLs).
    """
    known = {same_url(name) for name in [*case.claim.relevant, case.claim.fact_check_url or ""]}
    urls = {document.id: document.url for document in case.documents}
    best: dict[str, tuple[int, float, int]] = {}
    seen: dict[int, set[str]] = {}
    called: dict[str, str] = {}  # by page
    names: dict[str, str] = {}  # by document
    for hit in case.hits:
        if hit.doc not in names:
            url = hit.url or urls.get(hit.doc)
            own = url if url and same_url(url) in known else hit.doc
            names[hit.doc] = called.setdefault(same_url(own), own)
        name = names[hit.doc]
        ranked = seen.setdefault(hit.query, set())
        if name in ranked:
            continue
        place = (len(ranked), -hit.score, hit.query)
        ranked.add(name)
        best[name] = min(best.get(name, place), place)
    return [(name, -score) for name, (_, score, _) in sorted(best.items(), key=lambda x: x[1])]


def write_run(path: Path, rankings: Rankings, tag: str = "claimflow") -> None:
    """Write `qid Q0 docid rank score tag` lines; ids are percent-encoded.

    Scores that don't fall from line to line are replaced by reciprocal ranks, because TREC tools
    sort by score and would change the order.
    """
    lines = []
    for claim, ranking in rankings.items():
        scores = [score for _, score in ranking]
        if any(a <= b for a, b in itertools.pairwise(scores)):
            scores = [1 / rank for rank in range(1, len(ranking) + 1)]
        for rank, ((doc, _), score) in enumerate(zip(ranking, scores, strict=True), 1):
            lines.append(f"{_escape(claim)} Q0 {_escape(doc)} {rank} {score!r} {_escape(tag)}\n")
    write_whole(path, "".join(lines).encode())


def read_run(path: Path, notes: list[str] | None = None) -> Rankings:
    """Read a TREC run: documents by falling score, equal ones by rank.

    notes: takes one where in every ranking the scores rise with the ranks, as distances do.
    """
    found: dict[str, list[tuple[float, float, str]]] = {}
    for number, (claim, _, doc, rank, score, _) in _columns(path, "qid Q0 docid rank score tag"):
        place = (-_number(score, path, number), _number(rank, path, number), _unescape(doc))
        found.setdefault(_unescape(claim), []).append(place)
    several = [ranks for places in found.values() if len(ranks := _ranks(places)) > 1]
    if notes is not None and several and all(r == sorted(r, reverse=True) for r in several):
        notes.append(
            f"In every ranking ({len(several)}) the score rises with the rank, and it is scores "
            "that order a TREC run: where they are distances, write them with a minus."
        )
    return {
        claim: [(doc, -score) for score, _, doc in sorted(places, key=lambda place: place[:2])]
        for claim, places in found.items()
    }


def _ranks(places: list[tuple[float, float, str]]) -> list[float]:
    """The ranks of a ranking by falling score; none where all scores or all ranks are alike."""
    if len({score for score, _, _ in places}) < 2 or len({rank for _, rank, _ in places}) < 2:
        return []
    return [rank for _, rank, _ in sorted(places, key=lambda place: (place[0], -place[1]))]


def write_qrels(path: Path, qrels: Qrels) -> None:
    """Write `qid 0 docid grade` lines; ids are percent-encoded."""
    lines = (
        f"{_escape(claim)} 0 {_escape(doc)} {grade}\n"
        for claim, grades in qrels.items()
        for doc, grade in grades.items()
    )
    write_whole(path, "".join(lines).encode())


def read_qrels(path: Path) -> Qrels:
    """Read TREC relevance judgements. Raises ClaimflowError for a document with two grades."""
    qrels: Qrels = {}
    for number, (claim, _, doc, grade) in _columns(path, "qid iter docid rel"):
        grades, name = qrels.setdefault(_unescape(claim), {}), _unescape(doc)
        value = _number(grade, path, number)
        if value != int(value) or grades.get(name, value) != value:
            said = f"again, graded {grades[name]} before" if name in grades else "no whole number"
            raise ClaimflowError(f"{path}, line {number}: {name} has the grade {grade}, {said}.")
        grades[name] = int(value)
    return qrels


def _columns(path: Path, names: str) -> Iterator[tuple[int, list[str]]]:
    if not path.is_file():
        raise ClaimflowError(f"No {path.absolute()}: a file of `{names}` lines was looked for.")
    expected = len(names.split())
    check_text(path)
    with open_text(path) as lines:
        for number, line in enumerate(lines, 1):
            columns = line.split()
            if columns and len(columns) != expected:
                remedy = "Write all of them."
                if line.count(",") >= expected - 1:
                    remedy = "Part them by white space, not by commas."
                elif len(columns) > expected:
                    remedy = "Ids with white space must be percent-encoded."
                raise ClaimflowError(
                    f"{path}, line {number}: {len(columns)} columns where {expected} are due, "
                    f"`{names}`. {remedy}"
                )
            if columns:
                yield number, columns


def _number(text: str, path: Path, line: int) -> float:
    try:
        if math.isfinite(value := float(text)):
            return value
    except ValueError:
        pass
    raise ClaimflowError(
        f"{path}, line {line}: '{text}' is not a number. Give a finite one, such as 1.5."
    )


def _escape(name: str) -> str:
    if not name:
        raise ClaimflowError("A TREC file can't hold an empty id; give each document an id.")
    return urllib.parse.quote(name, safe="", errors="surrogatepass")


def _unescape(name: str) -> str:
    return urllib.parse.unquote(name, errors="surrogatepass")
