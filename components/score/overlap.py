"""Word overlap of predicted and reference evidence, each as one text: ROUGE-L, BLEU, METEOR.

The baselines of the Ev2R study (Akhtar et al. 2024, section 4.4). All 0 to 1, higher is better;
0 when either text is empty.
"""

from __future__ import annotations

import functools
from typing import Any

from components.score.averitec import hungarian_meteor


def rouge_l(predicted: str, reference: str) -> float:
    """F1 of the longest common subsequence (Lin 2004), by Google's rouge_score without stemming.

    Its words are runs of a–z and 0–9 in lower case, so text in other scripts scores 0.
    """
    return float(_rouge().score(reference, predicted)["rougeL"].fmeasure)


@functools.cache
def _rouge() -> Any:
    from rouge_score.rouge_scorer import RougeScorer

    return RougeScorer(["rougeL"])


def bleu(predicted: str, reference: str) -> float:
    """BLEU of up to four words (Papineni et al. 2002) by sacrebleu: 13a tokens, exponential
    smoothing, and only the orders that a short text has."""
    import sacrebleu

    if not predicted.strip() or not reference.strip():
        return 0.0
    return sacrebleu.sentence_bleu(predicted, [reference], use_effective_order=True).score / 100


def meteor(predicted: str, reference: str) -> float:
    """METEOR of the whole texts: a matching of one with one."""
    return hungarian_meteor([predicted], [reference])
