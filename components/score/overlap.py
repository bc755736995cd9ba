"""Word overlap of predicted and reference evidence, each as one text: ROUGE-L, BLEU, METEOR.

The baselines of the Ev2R study (Akhtar et al. 2024, section 4.4). All 0 to 1, higher is better;
0 when either text is empty. Each function scores one claim; the measure is the mean over claims.
"""

from __future__ import annotations

import functools
from typing import Any

from components.score.averitec import hungarian_meteor


def rouge_l(predicted: str, reference: str) -> float:
    """ROUGE-L of one claim, 0 to 1, higher is better: F1 of the longest common subsequence of words
    (Lin 2004, section 3.1), by Google's rouge_score without stemming.

    Its words are runs of a–z and 0–9 in lower case, so text in other scripts scores 0.
    """
    return float(_rouge().score(reference, predicted)["rougeL"].fmeasure)


@functools.cache
def _rouge() -> Any:
    from rouge_score.rouge_scorer import RougeScorer

    return RougeScorer(["rougeL"])


def bleu(predicted: str, reference: str) -> float:
    """BLEU of one claim, 0 to 1 (not 100), higher is better: geometric mean of the precisions of
    one to four words with brevity penalty (Papineni et al. 2002, section 2.3), by sacrebleu: 13a
    tokens, exponential smoothing, and only the orders that a short text has. The mean over claims
    is not corpus BLEU, which sums counts first."""
    import sacrebleu

    if not predicted.strip() or not reference.strip():
        return 0.0
    return sacrebleu.sentence_bleu(predicted, [reference], use_effective_order=True).score / 100


def meteor(predicted: str, reference: str) -> float:
    """METEOR of one claim's whole texts, 0 to below 1, higher is better: weighted harmonic mean of
    precision and recall of words, stems and synonyms, less for scattered matches (Banerjee and
    Lavie 2005, section 2), by NLTK's rules; a matching of one string with one."""
    return hungarian_meteor([predicted], [reference])
