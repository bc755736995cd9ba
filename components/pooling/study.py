"""How far scores on a pooled collection can be trusted: the tables of SciFact-Open (Wadden et al.
2022, sections 3 to 5, appendices B to D) from its released claims and predictions.

Evidence is *original* (by citation) or *pooled*: found by annotating what systems ranked highest.
Asking what a smaller pool would have found needs only the rank that each system gave a pooled
document, which the claims have.
"""

from __future__ import annotations

import collections
import dataclasses
import itertools
import statistics as plain
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

import numpy as np

from components.datasets.scifact import LABELS
from components.errors import ClaimflowError
from components.records import Claim, GoldSet, Prediction
from components.score import bootstrap
from components.score.bootstrap import Floats
from components.score.pairing import confusion, paired
from components.score.scifact_open import (
    NOT_ENOUGH,
    Pair,
    Retrieved,
    gold_documents,
    statistics,
)
from components.text import nltk_words

Row: TypeAlias = dict[str, Any]


@dataclasses.dataclass(kw_only=True)
class Study:
    """A pooled collection and the predictions of systems on it; each method is a table.

    claims: gold, pooled evidence with its ranks. systems: predictions by system, those that the
    pool was made of and others. pooled: the former; None: all that some claim has a rank of.
    depth: how many of a system's highest ranks were annotated. step: between pool depths.
    original: by document, whether it is of the smaller corpus that the original evidence is from.
    well_studied: documents from which a claim counts as well-studied. same_label: do two
    systems agree on a document only if they give it the same label? without_confidence: systems
    whose scores are no confidences, so that they have no average precision. notes: what is odd.
    """

    claims: list[Claim]
    systems: dict[str, list[Prediction]]
    pooled: list[str] | None = None
    depth: int = 250
    step: int = 25
    original: dict[str, bool] = dataclasses.field(default_factory=dict)
    well_studied: int = 4
    same_label: bool = False
    without_confidence: list[str] = dataclasses.field(default_factory=list)
    draws: int = 1000
    seed: int = 13

    def __post_init__(self) -> None:
        self.evidence = gold_documents(self.claims)
        if not self.evidence:
            raise ClaimflowError(
                f"None of the {len(self.claims)} claims has evidence: give the claims file of "
                "SciFact-Open."
            )
        ranked = {name for found in self.evidence.values() for name in found.ranks}
        if self.pooled is None:
            self.pooled = sorted(ranked)
        if unknown := sorted(set(self.pooled) - ranked):
            raise ClaimflowError(
                f"No pooled evidence has a rank by {', '.join(unknown)}. Systems with ranks: "
                f"{', '.join(sorted(ranked)) or 'none'}."
            )
        if self.depth < 1 or self.step < 1:
            raise ClaimflowError(f"depth={self.depth}, step={self.step}: give 1 or more.")
        self.notes: list[str] = []
        self.retrieved: dict[str, Retrieved] = {}
        for name, predictions in sorted(self.systems.items()):
            notes: list[str] = []
            found = paired(predictions, self.claims, "with nothing retrieved", notes)
            self.retrieved[name] = Retrieved(self.claims, list(found.values()))
            self.notes += [f"{name}: {n}" for n in notes + self.retrieved[name].notes]
        if absent := sorted(set(self.pooled) - set(self.retrieved)):
            self.notes.append(
                f"What the pool was made of is not known without the predictions of "
                f"{', '.join(absent)}: tables 2b and 2c are left out."
            )
        self.new = {pair: g for pair, g in self.evidence.items() if g.provenance == "pooling"}
        self.old = {pair: g for pair, g in self.evidence.items() if pair not in self.new}

    # Evidence

    def properties(self) -> list[Row]:
        """Sizes of the collection (table 2a), and how evidence is spread (section 3.3)."""
        old, new, both = map(self._sizes, (self.old, self.new, self.evidence))
        labels: dict[int, set[str | None]] = collections.defaultdict(set)
        for (claim, _), gold in self.evidence.items():
            labels[claim].add(gold.label)
        several = [claim for claim, size in enumerate(both) if size >= 2]
        figures = {
            "claims": len(self.claims),
            "original evidence": sum(old),
            "pooled evidence": sum(new),
            "evidence": sum(both),
            "claims that hold half of all evidence": _half(both),
            "claims that hold half of the pooled evidence": _half(new),
            "claims with two documents or more": len(several),
            "of these, with conflicting evidence": sum(len(labels[c]) > 1 for c in several),
        }
        return [{"figure": name, "number": number} for name, number in figures.items()]

    def allocation(self) -> list[Row]:
        """Number of claims by number of documents that are evidence (figures 3 and 8a)."""
        sizes = {
            "claims": self._sizes(self.evidence),
            "claims_original": self._sizes(self.old),
            "claims_pooled": self._sizes(self.new),
        }
        largest = max(sizes["claims"])
        return [
            {"documents": n, **{name: column.count(n) for name, column in sizes.items()}}
            for n in range(largest + 1)
        ]

    def by_systems(self) -> list[Row]:
        """Pooled documents by how many systems ranked them within the depth, and how many of them
        are evidence (table 2b). Needs the predictions of the pooled systems."""
        if not set(self.pool) <= set(self.retrieved):
            return []
        ranks = self._ranks()
        annotated = collections.Counter(
            n for pair in ranks if pair not in self.old and (n := self._within(ranks[pair]))
        )
        evidence = collections.Counter(
            n for gold in self.new.values() if (n := self._within(gold.ranks))
        )
        rows: list[Row] = [
            {"systems": str(n), "annotated": annotated[n], "evidence": evidence[n]}
            for n in range(1, len(self.pool) + 1)
        ]
        total = {"annotated": annotated.total(), "evidence": evidence.total()}
        rows.append({"systems": "all", **total})
        for row in rows:
            row["percent"] = _percent(row["evidence"], row["annotated"])
        return rows

    def original_found(self) -> list[Row]:
        """How much of the original evidence pooling would have found (table 2c)."""
        if not set(self.pool) <= set(self.retrieved):
            return []
        ranks = self._ranks()
        counts = {
            "all": len(self.old),
            "retrieved": sum(pair in ranks for pair in self.old),
            "annotated": sum(self._within(ranks.get(pair, {})) > 0 for pair in self.old),
        }
        return [
            {"original evidence": name, "documents": n, "percent": _percent(n, len(self.old))}
            for name, n in counts.items()
        ]

    # Scores

    def scores(self) -> list[Row]:
        """Scores of each system (table 5): value, and mean and standard deviation over resamples
        of the claims (appendix C)."""
        weights = bootstrap.resamples(len(self.claims), self.draws, self.seed)
        rows = []
        for name, system in self.retrieved.items():
            row: Row = {"system": name}
            labels = _labels(self.evidence.items())
            for measure, statistic in self._statistics(name, labels).items():
                drawn = statistic(weights)
                row[measure] = float(statistic(np.ones((1, system.size)))[0])
                row |= {f"{measure}_mean": float(drawn.mean()), f"{measure}_sd": float(drawn.std())}
            rows.append(row)
        return rows

    def confusions(self) -> list[Row]:
        """Gold by predicted label for each system, over documents that are gold or predicted
        (figure 9)."""
        rows = []
        for name, system in self.retrieved.items():
            pairs = [
                (
                    self.evidence[pair].label if pair in self.evidence else NOT_ENOUGH,
                    system.predicted.get(pair, NOT_ENOUGH),
                )
                for pair in {**self.evidence, **system.predicted}
            ]
            rows += [{"system": name, **row} for row in confusion(pairs, (*LABELS, NOT_ENOUGH))]
        return rows

    def pool_depth(self) -> list[Row]:
        """Pooled evidence found, and scores, had fewer ranks been annotated (figures 5, 10, 12).

        Kept are the original evidence and pooled documents that some system ranks within the depth.
        f1_change, ap_change: percent of the score at the depth before.
        """
        rows: list[Row] = []
        before: dict[str, dict[str, float | None]] = {}
        for depth in [*range(0, self.depth, self.step), self.depth]:
            kept = {
                p: g for p, g in self.new.items() if min(self._of_pool(g), default=9**9) <= depth
            }
            for name in self.retrieved:
                found = self._point(name, self.old | kept)
                last = before.get(name, {})
                change = {
                    f"{m}_change": _change(last.get(m), found[m])
                    for m in ("f1", "ap")
                    if m in found
                }
                rows.append(
                    {
                        "depth": depth,
                        "pooled_evidence": len(kept),
                        "system": name,
                        **found,
                        **change,
                    }
                )
                before[name] = found
        return rows

    def system_count(self) -> list[Row]:
        """Pooled evidence found, and scores, had fewer systems been pooled (figures 6, 11, 13).

        Mean and standard deviation over all choices of that many systems, which are those over all
        orders of adding one after the other.
        """
        rows = []
        for count in range(len(self.pool) + 1):
            sizes: list[float | None] = []
            found: dict[str, dict[str, list[float | None]]] = {}
            for chosen in itertools.combinations(self.pool, count):
                kept = {
                    pair: gold
                    for pair, gold in self.new.items()
                    if any(gold.ranks.get(name, self.depth + 1) <= self.depth for name in chosen)
                }
                sizes.append(len(kept))
                for name in self.retrieved:
                    for measure, value in self._point(name, self.old | kept).items():
                        found.setdefault(name, {}).setdefault(measure, []).append(value)
            spread = {"choices": len(sizes), **_spread("pooled_evidence", sizes)}
            for name, measures in found.items():
                row: Row = {"systems": count, **spread, "system": name}
                for measure, values in measures.items():
                    row |= _spread(measure, values)
                rows.append(row)
        return rows

    def exclusion(self) -> list[Row]:
        """Scores with and without the evidence that only the scored system brought (table 6).

        A system that was not pooled stands under `excluded` alone: compare new systems with that.
        """
        rows = []
        for name in self.retrieved:
            own = {
                pair
                for pair, gold in self.new.items()
                if name in self.pool
                and [s for s in self.pool if gold.ranks.get(s, self.depth + 1) <= self.depth]
                == [name]
            }
            with_own = self._point(name, self.evidence)
            without = self._point(
                name, {pair: gold for pair, gold in self.evidence.items() if pair not in own}
            )
            row: Row = {"system": name, "own_evidence": len(own)}
            for measure in with_own:
                included = with_own[measure] if name in self.pool else None
                row[f"{measure}_included"] = included
                row[f"{measure}_excluded"] = without[measure]
                row[f"{measure}_change"] = _change(included, without[measure])
            rows.append(row)
        return rows

    def jaccard(self) -> list[Row]:
        """Overlap of what two systems predict to be evidence (figure 4): documents that both name,
        of those that one names; for the original corpus and for what was added to it."""
        parts: dict[str, Callable[[Pair], bool]] = {"all": lambda pair: True}
        if self.original:
            parts["original"] = lambda pair: self.original.get(pair[1], False)
            parts["added"] = lambda pair: not self.original.get(pair[1], False)
        rows = []
        for first, second in itertools.combinations(self.retrieved, 2):
            one, other = self.retrieved[first].predicted, self.retrieved[second].predicted
            row: Row = {"first": first, "second": second}
            for part, inside in parts.items():
                union = {pair for pair in one.keys() | other.keys() if inside(pair)}
                shared = [
                    pair
                    for pair in union
                    if pair in one
                    and pair in other
                    and (not self.same_label or one[pair] == other[pair])
                ]
                row[part] = len(shared) / len(union) if union else None
            rows.append(row)
        return rows

    # Claims

    def studied(self) -> list[Row]:
        """Claims by how much evidence pooling found (table 7): none, some, well-studied; tokens as
        NLTK counts them. (The paper's entities and PubMed results need services.)"""
        sizes = self._sizes(self.new)
        lengths = [len(words) for words in nltk_words(claim.text for claim in self.claims)]
        groups: dict[str, Callable[[int], bool]] = {
            "0": lambda size: size == 0,
            f"1 to {self.well_studied - 1}": lambda size: 0 < size < self.well_studied,
            f"{self.well_studied} or more": lambda size: size >= self.well_studied,
        }
        rows = []
        for group, inside in groups.items():
            chosen = [i for i, size in enumerate(sizes) if inside(size)]
            rows.append(
                {
                    "pooled_evidence": group,
                    "claims": len(chosen),
                    "documents": sum(sizes[i] for i in chosen),
                    "tokens": plain.fmean(lengths[i] for i in chosen) if chosen else None,
                }
            )
        return rows

    def studied_scores(self) -> list[Row]:
        """Scores on well-studied and on all other claims (table 11); none of a group without any.

        The paper does not say where it cuts. Its recalls in tables 5 and 11 put some 227 of the 460
        documents on the well-studied side, which is about what claims with four documents or more
        hold (230 on 34 claims, section 3.3): so the cut is at `well_studied` documents in all.
        """
        well = np.array(self._sizes(self.evidence)) >= self.well_studied
        rows = []
        for name in self.retrieved:
            for group, inside in (("well-studied", well), ("less-studied", ~well)):
                weights = inside.astype(np.float64)[None]
                found = self._point(name, self.evidence, weights)
                rows.append({"system": name, "group": group, "claims": int(inside.sum()), **found})
        return rows

    # What they share

    @property
    def pool(self) -> list[str]:
        """The pooled systems."""
        return self.pooled or []

    def _statistics(
        self, name: str, labels: dict[Pair, str | None]
    ) -> dict[str, bootstrap.Statistic]:
        found = statistics(self.retrieved[name], labels)
        if name in self.without_confidence:
            found.pop("abstract_ap", None)
        return {measure.removeprefix("abstract_"): s for measure, s in found.items()}

    def _point(
        self, name: str, evidence: dict[Pair, GoldSet], weights: Floats | None = None
    ) -> dict[str, float | None]:
        """precision, recall, f1 and ap of one system against `evidence`; None without claims, and
        without evidence in them, of which nothing can be found or missed, for all but precision."""
        if weights is None:
            weights = np.ones((1, len(self.claims)))
        found = self._statistics(name, _labels(evidence.items()))
        some = any(weights[0, claim] for claim, _ in evidence)
        return {
            measure: float(statistic(weights)[0])
            if some or (measure == "precision" and weights.any())
            else None
            for measure, statistic in found.items()
        }

    def _sizes(self, evidence: Iterable[Pair]) -> list[int]:
        """Number of documents of each claim."""
        counts = collections.Counter(claim for claim, _ in evidence)
        return [counts[i] for i in range(len(self.claims))]

    def _of_pool(self, gold: GoldSet) -> list[int]:
        return [gold.ranks[name] for name in self.pool if name in gold.ranks]

    def _within(self, ranks: dict[str, int]) -> int:
        """How many pooled systems rank a document within the depth."""
        return sum(ranks.get(name, self.depth + 1) <= self.depth for name in self.pool)

    def _ranks(self) -> dict[Pair, dict[str, int]]:
        """Rank by system of every document that a pooled system retrieved."""
        found: dict[Pair, dict[str, int]] = {}
        for name in self.pool:
            for pair, rank in self.retrieved[name].rank.items():
                found.setdefault(pair, {})[name] = rank
        return found


def _labels(evidence: Iterable[tuple[Pair, GoldSet]]) -> dict[Pair, str | None]:
    return {pair: gold.label for pair, gold in evidence}


def _half(sizes: list[int]) -> int:
    """Fewest claims that hold half of the documents."""
    held = itertools.accumulate(sorted(sizes, reverse=True))
    return next((n for n, total in enumerate(held, 1) if 2 * total >= sum(sizes) > 0), 0)


def _percent(part: int, whole: int) -> float | None:
    return 100 * part / whole if whole else None


def _change(before: float | None, after: float | None) -> float | None:
    """Percent of the value before; None where there is none, or it is 0."""
    return 100 * (after - before) / before if before and after is not None else None


def _spread(name: str, values: list[float | None]) -> Row:
    """Mean and standard deviation of the values that are there."""
    known = [value for value in values if value is not None]
    if not known:
        return {name: None, f"{name}_sd": None}
    return {name: plain.fmean(known), f"{name}_sd": plain.pstdev(known)}
