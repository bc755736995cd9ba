"""Stress-test measures of evidence: perturb evidence, score it again, show what each measure does.

    python -m flows.stress gold=FILE                       perturbs the gold evidence itself
    python -m flows.stress gold=FILE predictions=FILE      perturbs a submission
    python -m flows.stress gold=FILE scorer=averitec_2024 tests=[noise,duplicates] to=FOLDER

The tests are those of the Ev2R study (Akhtar et al. 2024, tables 5 and 6) and some more. Nothing
is edited in place and the seed fixes every draw. Two checks: another order of the QAs must change
no matching score (else exit code 1), and what Hungarian METEOR gains by repeated QAs is reported.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from flows.cli import entry


def main(config: Any) -> None:
    """Perturb, score what the cache doesn't have, compare, print and write."""
    import msgspec

    from components.cache import open_cache
    from components.datasets.gold import read_gold
    from components.datasets.submission import named_system, read_submission, write_json
    from components.errors import ClaimflowError, listed
    from components.files import write_whole
    from components.records import AVERITEC_LABELS, BadLine, encode, skipped
    from components.report.stress import stress_plot, stress_report
    from components.report.table import csv_bytes
    from components.score.base import Scores, merged, score_once
    from components.score.effect import (
        effects,
        grid,
        incomparable,
        order_check,
        repeats_report,
        uncompared,
    )
    from components.score.fit import check_form
    from components.score.judge import FAILED
    from components.score.pairing import first_of_each, note
    from components.score.perturb import TESTS, base_of, perturbed, sample
    from flows.build import build, scorer_configs
    from flows.score import asides, check_judges

    for key in ("gold", "predictions"):
        path = config.get(key)
        if key == "gold" and not path:
            raise ClaimflowError("Which file of gold claims? Say gold=FILE.")
        if path and not named_system(path)[0].is_file():
            raise ClaimflowError(f"{key}={path}: there is no such file ({Path(path).absolute()}).")
    scorers = [build(node) for node in scorer_configs(config).values()]
    scorers = [scorer for scorer in scorers if "predictions" in scorer.reads]
    if not scorers:
        raise ClaimflowError("Stress tests need a scorer of predictions, such as scorer=overlap.")
    check_judges(scorers)
    gold = read_gold(Path(config.gold))
    bad: list[BadLine] = []
    notes: list[str] = []
    if config.predictions:
        path, system = named_system(config.predictions)
        whole = read_submission(path, config.on_error, bad, system, notes, gold)
        check_form(whole, "AVeriTeC")
        labels = [p.id for p in whole if p.label not in AVERITEC_LABELS]
        note(notes, "Left out, with a label that AVeriTeC does not have", labels)
        whole = [p for p in whole if p.label in AVERITEC_LABELS]
        first, _, repeated = first_of_each(whole, gold)
        note(notes, "Predictions passed over, repeating an id", repeated)
        whole = list(first.values())
    else:
        whole = base_of(gold)
    known = {claim.id for claim in gold}
    base = sample([p for p in whole if p.id in known], config.claims, config.seed)
    if not base:
        raise ClaimflowError("No claim of the gold file has evidence to perturb.")
    chosen = {p.id for p in base}
    asked = [p.id for p in whole if p.id in chosen and p.asked]
    note(
        notes, "Each answer to a question taken for a QA of its own, as in the form of 2024", asked
    )
    gold = [claim for claim in gold if claim.id in chosen]
    tests = list(config.tests or TESTS)
    cache = open_cache(config.cache)
    hits = 0

    def scored(predictions: list[Any]) -> Scores:
        nonlocal hits
        scores = Scores()
        for scorer in scorers:
            part, hit = score_once(cache, scorer, gold, predictions)
            scores, hits = merged(scores, part), hits + hit
        if config.measures:
            absent = [name for name in config.measures if name not in scores.measures]
            if absent:
                raise ClaimflowError(
                    f"No measure {absent[0]} here: choose of {', '.join(scores.measures)}."
                )
            scores.measures = {name: scores.measures[name] for name in config.measures}
        return scores

    from tqdm import tqdm

    inputs = {test: perturbed(base, test, config.seed) for test in tests}
    before = scored(base)
    after = {
        test: scored(predictions)
        for test, predictions in tqdm(inputs.items(), desc="stress", delay=2, leave=False)
    }
    found = effects(before, after)
    columns, rows = grid(found)
    notes = [f"{len(base)} claims, seed {config.seed}.", *notes, *skipped(bad)]
    fine = True
    if "argument_structure" in after:
        fine, line = order_check(before, after["argument_structure"])
        notes.append(line)
    once = perturbed(base, "repeats_removed", config.seed)
    repeating = sum(len(a.evidence) > len(b.evidence) for a, b in zip(base, once, strict=True))
    notes += repeats_report(found, repeating, len(base))
    notes += [*before.warnings, *(line for line in before.notes if "judge" in line.lower())]
    for test, scores in after.items():
        notes += [f"{test}, {name}: no value, {why}." for name, why in scores.unmeasured.items()]
        notes += [f"{test}: {line}" for line in scores.notes if line.startswith(FAILED)]
    notes += [*uncompared(before, after, found), *asides(scorers)]
    name = config.name or Path(config.predictions or config.gold).stem
    risen = [effect for effect in found if effect.change is None and effect.difference]
    if risen:
        rises = (f"{e.test} {e.measure} ({e.difference:+.4f})" for e in risen)
        notes.append(f"From 0, so without a change in per cent: {listed(rises)}.")
    report = stress_report(
        f"Stress tests of {name}", columns, rows, notes, {effect.measure for effect in risen}
    )
    if config.out:
        result = {
            "name": name,
            "claims": len(base),
            "effects": found,
            "notes": notes,
            "skipped": bad,
            "order_check": fine,
            "cache": {"hits": hits, "misses": len(scorers) * (len(tests) + 1) - hits},
        }
        write_whole(Path(config.out), encode(result))
    if config.to:
        folder = Path(config.to)
        write_whole(folder / "stress.md", report.encode())
        table = [dict(zip(columns, row, strict=True)) for row in rows]
        write_whole(folder / "table.csv", csv_bytes(table))
        table = [msgspec.structs.asdict(e) | {"lost": " ".join(e.lost)} for e in found]
        write_whole(folder / "effects.csv", csv_bytes(table))
        stress_plot(columns, rows, folder / "stress.png")
        for test, predictions in inputs.items():
            write_json(folder / "perturbed" / f"{test}.json", predictions)
    print(report)
    if not fine:
        raise ClaimflowError("A matching score depends on the order of the QAs: see above.")
    failed = {name for scores in (before, *after.values()) for name in scores.unmeasured}
    for test, scores in after.items():
        failed |= set(incomparable(before, scores, test, found))
    if failed and config.on_error != "skip":
        raise ClaimflowError(
            f"Without a value here or there: {', '.join(sorted(failed))}; see above. "
            "on_error=skip takes the rest for a success."
        )


if __name__ == "__main__":
    entry(main, "stress")
