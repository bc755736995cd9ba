"""How far raters agree, and how far scores go with ratings.

Coefficients are over all units (claims) together, not means over them, except where said; higher
is better but for `deviation`. Intervals resample units.
"""

from __future__ import annotations

import collections
import math
import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal

from components.errors import ClaimflowError
from components.records import Record

if TYPE_CHECKING:
    import numpy as np

Ratings = list[dict[str, Any]]
"""One unit (a claim) each: {rater: rating}; a rater may lack."""


class Agreement(Record):
    """A coefficient with its 95 % bootstrap interval over units. units: how many it rests on."""

    name: str
    value: float
    low: float | None
    high: float | None
    units: int


class Correlation(Record):
    """A correlation, −1 to 1, of n pairs: two-sided p, and 95 % bootstrap interval over pairs."""

    name: str
    value: float
    p: float
    low: float | None
    high: float | None
    n: int


# Agreement


def fleiss_kappa(ratings: Ratings) -> float:
    """Fleiss' kappa of nominal ratings, -1 to 1, higher is better, 0: as by chance (Fleiss 1971;
    of verdicts in Akhtar et al. 2024, section 4.2). Agreement is the mean over units of the share
    of equal pairs of ratings.

    All units must have the same number of ratings, 2 or more. NaN when only one category occurs.
    """
    sizes = {len(unit) for unit in ratings}
    if len(sizes) != 1 or min(sizes) < 2:
        raise ClaimflowError(
            "Fleiss' kappa needs the same number of ratings for each unit, 2 or more; here are "
            f"units with {', '.join(map(str, sorted(sizes)))}."
        )
    (raters,) = sizes
    totals: collections.Counter[Any] = collections.Counter()
    agreed = 0.0
    for unit in ratings:
        counts = collections.Counter(unit.values())
        totals.update(counts)
        agreed += sum(n * (n - 1) for n in counts.values()) / (raters * (raters - 1))
    observed = agreed / len(ratings)
    expected = sum((n / totals.total()) ** 2 for n in totals.values())
    return (observed - expected) / (1 - expected) if expected < 1 else float("nan")


def cohen_kappa(ratings: Ratings, weights: str | None = None) -> float:
    """Cohen's kappa of the two raters of all units, -1 to 1, higher is better, 0: as by chance, by
    scikit-learn (Cohen 1960; weighted: Cohen 1968). Agreement is the share of units rated alike.

    weights: None, "linear" or "quadratic", for ordered ratings.
    """
    from sklearn.metrics import cohen_kappa_score

    raters = sorted({rater for unit in ratings for rater in unit})
    if len(raters) != 2 or any(len(unit) != 2 for unit in ratings):
        raise ClaimflowError(f"Cohen's kappa is of two raters; here are {len(raters)}.")
    first, second = ([unit[rater] for unit in ratings] for rater in raters)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a single category: NaN
        return float(cohen_kappa_score(first, second, weights=weights))


def krippendorff_alpha(
    ratings: Ratings, level: Literal["nominal", "ordinal", "interval"] = "nominal"
) -> float:
    """Krippendorff's alpha, -1 to 1, higher is better, 0: as by chance, by the package krippendorff
    (Krippendorff 2004, chapter 11; of verdicts in Akhtar et al. 2024, section 4.2). Disagreement is
    over pairs of ratings within units, each rating weighing the same; units with one don't count.

    level: of measurement. Raters may lack anywhere. NaN when only one value occurs or no unit has
    two ratings.
    """
    import krippendorff
    import numpy as np

    values = sorted({value for unit in ratings for value in unit.values()})
    counts = np.array([[list(unit.values()).count(v) for v in values] for unit in ratings])
    if len(values) < 2 or counts.sum(axis=1).max() < 2:
        return float("nan")
    domain = np.arange(len(values)) if level == "nominal" else np.array(values)
    return float(
        krippendorff.alpha(value_counts=counts, value_domain=domain, level_of_measurement=level)
    )


def level(ratings: Iterable[dict[str, Any]]) -> str:
    """What kind of ratings these are: ordinal (numbers), nominal (labels), or none at all."""
    values = [value for unit in ratings for value in unit.values()]
    if not values:
        return "without ratings"
    return "nominal" if any(isinstance(value, str) for value in values) else "ordinal"


def agreements(ratings: Ratings, draws: int = 1000, seed: int = 13) -> list[Agreement]:
    """Every coefficient that fits: those of nominal ratings for texts, those of ordered ones for
    numbers, where the mean standard deviation within a unit stands too.

    Units with one rating are left out. Fleiss' kappa is over the units that have the most common
    number of ratings, Cohen's kappa is given for two raters.
    """
    units = [unit for unit in ratings if len(unit) > 1]
    if not units:
        return []
    common = collections.Counter(len(unit) for unit in units).most_common(1)[0][0]
    even = [unit for unit in units if len(unit) == common]
    two = len({rater for unit in units for rater in unit}) == 2
    wanted: list[tuple[str, Ratings, Callable[[Ratings], float]]] = []
    if level(units) == "ordinal":
        wanted.append(
            ("Krippendorff's alpha, ordinal", units, lambda u: krippendorff_alpha(u, "ordinal"))
        )
        wanted.append(
            ("Krippendorff's alpha, interval", units, lambda u: krippendorff_alpha(u, "interval"))
        )
        if two:
            wanted.append(
                ("Cohen's kappa, quadratic", units, lambda u: cohen_kappa(u, "quadratic"))
            )
        wanted.append(("standard deviation", units, deviation))
    else:
        wanted.append(("Krippendorff's alpha, nominal", units, krippendorff_alpha))
        wanted.append(("Fleiss' kappa", even, fleiss_kappa))
        if two:
            wanted.append(("Cohen's kappa", units, cohen_kappa))
    return [_with_interval(name, some, value, draws, seed) for name, some, value in wanted]


def deviation(ratings: Ratings) -> float:
    """Mean over units of the sample standard deviation (n - 1) of their ratings, in rating points:
    0 or more, lower is better, as the Ev2R study shows the spread of its raters (Akhtar et al.
    2024, table 1)."""
    total = 0.0
    for unit in ratings:
        mean = sum(unit.values()) / len(unit)
        total += math.sqrt(sum((v - mean) ** 2 for v in unit.values()) / (len(unit) - 1))
    return total / len(ratings)


def _with_interval(
    name: str, units: Ratings, value: Callable[[Ratings], float], draws: int, seed: int
) -> Agreement:
    import numpy as np

    rng = np.random.default_rng(seed)
    drawn = [
        value([units[i] for i in rng.integers(0, len(units), len(units))]) for _ in range(draws)
    ]
    low, high = _percentiles(np.array(drawn))
    return Agreement(name=name, value=value(units), low=low, high=high, units=len(units))


# Correlation


def mean_ratings(units: dict[str, dict[str, Any]]) -> dict[str, float]:
    """The mean rating of each claim; empty for a dimension of texts."""
    if level(units.values()) == "nominal":
        return {}
    return {id: sum(unit.values()) / len(unit) for id, unit in units.items()}


def correlations(
    x: Sequence[float], y: Sequence[float], draws: int = 1000, seed: int = 13
) -> list[Correlation]:
    """Spearman's rho, Pearson's r and Kendall's tau-b of pairs, by scipy: -1 to 1, higher is better
    for a score that should go with ratings. One pair a claim: its score and its mean rating, as in
    the Ev2R study (Akhtar et al. 2024, section 5). spearman: of ranks, ties at their mean rank
    (Spearman 1904); pearson: of the values (Pearson 1895); kendall: concordant less discordant
    pairs, corrected for ties (Kendall 1945).

    Empty for fewer than three pairs, or when one side is constant: there is no correlation then.
    """
    import numpy as np
    from scipy import stats

    a, b = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    n = len(a)
    if n < 3 or np.ptp(a) == 0 or np.ptp(b) == 0:
        return []
    rows = np.random.default_rng(seed).integers(0, n, (draws, n))
    drawn = {
        "spearman": _pearson(_ranks(a[rows]), _ranks(b[rows])),
        "pearson": _pearson(a[rows], b[rows]),
        "kendall": _kendall(a, b, rows),
    }
    found = []
    for name, test in (
        ("spearman", stats.spearmanr), ("pearson", stats.pearsonr), ("kendall", stats.kendalltau),
    ):  # fmt: skip
        result = test(a, b)
        low, high = _percentiles(drawn[name])
        value, p = float(result.statistic), float(result.pvalue)
        found.append(Correlation(name=name, value=value, p=p, low=low, high=high, n=n))
    return found


def _percentiles(drawn: np.ndarray) -> tuple[float | None, float | None]:
    """The middle 95 %; resamples without a value (all alike) are left out."""
    import numpy as np

    known = drawn[np.isfinite(drawn)]
    if not len(known):
        return None, None
    low, high = np.percentile(known, [2.5, 97.5])
    return float(low), float(high)


def _ranks(rows: np.ndarray) -> np.ndarray:
    from scipy.stats import rankdata

    return rankdata(rows, axis=1)


def _pearson(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Pearson's r of each row; NaN where one is constant."""
    import numpy as np

    a, b = a - a.mean(axis=1, keepdims=True), b - b.mean(axis=1, keepdims=True)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray((a * b).sum(axis=1) / np.sqrt((a**2).sum(axis=1) * (b**2).sum(axis=1)))


def _kendall(a: np.ndarray, b: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Kendall's tau-b of each resample: pairs of units weigh by how often both were drawn."""
    import numpy as np

    n = len(a)
    weights = np.stack([np.bincount(row, minlength=n) for row in rows]).astype(np.float64)
    signs = [np.sign(v[:, None] - v[None, :]) for v in (a, b)]

    def total(matrix: np.ndarray) -> np.ndarray:
        return np.asarray(((weights @ matrix) * weights).sum(axis=1))

    both, untied_a, untied_b = (
        total(m) for m in (signs[0] * signs[1], signs[0] ** 2, signs[1] ** 2)
    )
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(both / np.sqrt(untied_a * untied_b))
