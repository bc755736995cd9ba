"""Predictions of another form than the scorer's, or for other claims than the gold ones."""

from __future__ import annotations

import pytest

from components.errors import ClaimflowError
from components.records import Answer, Claim, Evidence, Finding, GoldSet, Prediction, Question
from components.score.averitec import Averitec2024, averitec_2024
from components.score.ev2r import Ev2r
from components.score.fever import Fever
from components.score.fit import check_texts, differing, is_gold, remarks, warnings
from components.score.meteor import source
from components.score.scifact import SciFact

DAMS = [f"Dam {name} broke in the flood of May." for name in "ABCDEFGHIJ"]
GOLD = [
    Claim(
        id=str(i),
        text=text,
        label="Refuted",
        questions=[
            Question(question="Did it?", answers=[Answer(answer="No.", answer_type="Extractive")])
        ],
    )
    for i, text in enumerate(DAMS)
]


def says(id: int, text: str, label: str = "Refuted") -> Prediction:
    return Prediction(id=str(id), claim=text, evidence=[Evidence("Did it?", "Yes.")], label=label)


def test_a_mended_gold_file_is_one_still() -> None:
    """A repair changes white space and takes out what stands there twice, or behind the first."""
    many = [
        Question(question=f"Did\t{n}  it?", answers=[Answer(answer="No.\n")]) for n in range(12)
    ]
    yes = Answer(answer="No.", answer_type="Boolean", boolean_explanation="Because.")
    many[3] = Question(question="Did 3 it?", answers=[yes])
    gold = [Claim(id="0", text="", label="Refuted", questions=[many[0], *many])]

    def copy(numbers: list[int], label: str = "Refuted") -> list[Prediction]:
        evidence = [Evidence(question=f"Did {n} it?", answer="No.") for n in numbers]
        return [Prediction(id="0", claim="", evidence=evidence, label=label)]

    assert is_gold(copy([*range(9)]), gold, "AVeriTeC")
    assert is_gold(copy([*range(12)]), gold, "AVeriTeC")
    assert not is_gold(copy([*range(8)]), gold, "AVeriTeC")
    assert not is_gold(copy([*range(9), 99]), gold, "AVeriTeC")
    assert not is_gold(copy([*range(9)], "Supported"), gold, "AVeriTeC")
    assert not is_gold([], gold, "AVeriTeC")


def test_the_gold_file_of_scifact_is_told_and_a_system_that_is_right_is_not() -> None:
    gold = [
        Claim(
            id=str(n),
            text=f"Claim {n}.",
            gold=[
                GoldSet(label="SUPPORT", items=[("7", 1), ("7", 2)]),
                GoldSet(label="SUPPORT", items=[("7", 4)]),
            ],
        )
        for n in range(40)
    ]

    def warned(sentences: list[int], claims: int, wrong: int = 0, strangers: int = 0) -> bool:
        said = [
            Prediction(
                id=str(n if n >= strangers else 900 + n),
                claim="",
                evidence=[],
                label="",
                findings=[
                    Finding(
                        doc="7",
                        label="CONTRADICT" if n < wrong else "SUPPORT",
                        sentences=sentences,
                    )
                ],
            )
            for n in range(claims)
        ]
        return bool(warnings(said, gold, "SciFact"))

    assert warned([1, 2, 4], 40)
    assert warned([4], 40)
    assert warned([1, 2, 4], 40, wrong=2)
    assert warned([1, 2, 4], 40, strangers=1)
    assert not warned([1, 2, 4], 40, wrong=3)
    assert not warned([1], 40)
    assert not warned([1, 2, 4], 9)
    assert not warned([], 40)


def test_ids_shifted_by_one_are_refused() -> None:
    shifted = [says(i + 1, text) for i, text in enumerate(DAMS)]
    with pytest.raises(ClaimflowError) as error:
        averitec_2024(shifted, GOLD)
    assert str(error.value) == (
        "9 of 9 predictions have another claim than the gold file has under the same id, first id "
        "1: 'Dam A broke in the flood of May.' in the predictions, 'Dam B broke in the flood of "
        "May.' in the gold file. The ids are shifted: of 9 of them the gold id is 1 less. Renumber "
        "them."
    )
    mixed = [says(i, text) for i, text in enumerate(reversed(DAMS))]
    with pytest.raises(ClaimflowError, match="are there under other ids: give each prediction the"):
        check_texts(mixed, GOLD)
    others = [says(i, f"Bridge {i}.") for i in range(10)]
    with pytest.raises(ClaimflowError, match="Give the gold file that these predictions were made"):
        check_texts(others, GOLD)


def test_predictions_that_moved_from_some_claim_on_are_refused() -> None:
    """One is missing, or too many, and those behind it have its number, or its place."""
    gold = [Claim(id=str(i), text=f"Dam {i} broke.") for i in range(300)]

    def moved(numbers: list[int]) -> str:
        """The remedy, or the notes, for the claims of these numbers under the ids from 0."""
        said = [says(i, gold[n].text) for i, n in enumerate(numbers)]
        try:
            return "; ".join(check_texts(said, gold))
        except ClaimflowError as error:
            return str(error).partition("' in the gold file. ")[2]

    assert moved([*range(110), *range(111, 300)]) == (
        "From claim 110 on, predictions carry the text of the next claim: one is missing, and "
        "those behind it moved up. Write the ids of the data set."
    )
    assert moved([*range(290), *range(291, 300)]).startswith("From claim 290 on")
    assert "a later claim: some are missing" in moved([*range(9), *range(10, 90), *range(99, 300)])
    assert "the claim before: one is too many" in moved([*range(9), *range(8, 299)])
    assert "an earlier claim: some are" in moved([*range(9), *range(8, 90), *range(80, 200)])
    assert moved([*range(294), *reversed(range(294, 300))]) == (
        "The claims are there under other ids: give each prediction the id of its claim."
    )
    said = [says(i, gold[i + (i > 110)].text) for i in range(299)]
    said[3].claim = "A dam held."  # told anew, which is not what they are refused for
    with pytest.raises(ClaimflowError, match=r"189 of 299 .*, first id 111: 'Dam 112 broke.'"):
        check_texts(said, gold)
    assert moved([*range(297), 298, 299]) == (  # too few to refuse all of them
        "Predictions whose claim is that of another gold claim, so that their id is wrong "
        "(2 of 299): 297, 298."
    )


def test_claims_that_a_data_set_has_twice_are_no_others() -> None:
    gold = [Claim(id=str(i), text=f"Dam {i % 40} broke.") for i in range(50)]
    assert check_texts([says(i, claim.text) for i, claim in enumerate(gold)], gold) == []
    up = [says(i, claim.text) for i, claim in enumerate(gold[:5] + gold[6:])]
    with pytest.raises(ClaimflowError, match="From claim 5 on, predictions carry the text of the"):
        check_texts(up, gold)


def test_texts_are_shown_where_they_differ() -> None:
    long = "The dam that was built above the valley in the year 1920 broke in the flood of "
    assert differing(f"{long}May.", f"{long}June, they say.") == (
        "… the flood of May.",
        "… the flood of June, they say.",
    )
    assert differing("A dam broke.", "A dam held.") == ("A dam broke.", "A dam held.")
    assert differing(long, long + "May.")[1] == "… the flood of May."
    assert differing("x" * 99, "y")[0] == "x" * 60 + "…"


def test_ids_shifted_without_texts_are_refused() -> None:
    with pytest.raises(ClaimflowError, match=r"gold claims \+1: theirs begin with 1, .* with 0\."):
        Averitec2024(draws=2).score(GOLD, [says(i + 1, "") for i in range(len(DAMS))])
    # One of them is left out: that may be meant.
    Averitec2024(draws=2).score(GOLD, [says(i + 1, "") for i in range(len(DAMS) - 1)])


def test_a_few_other_texts_are_noted() -> None:
    """Case, white space and punctuation don't count, nor texts that are not there."""
    same = [says(i, f" {text.upper().rstrip('.')}\n") for i, text in enumerate(DAMS)]
    assert averitec_2024(same, GOLD).notes == [source()]
    assert check_texts([says(0, ""), says(77, "Of no claim.")], GOLD) == []
    some = [*same[:2], says(2, "A bridge."), *same[3:9], says(9, "")]
    scores = averitec_2024(some, GOLD)
    assert scores.notes == [
        "Predictions whose claim has another text than the gold claim of the same id (1 of 9): 2.",
        source(),
    ]
    assert scores.measures["accuracy"].value == 1  # paired by id all the same


def test_another_form_is_refused_and_both_are_named() -> None:
    fever = [Prediction(id="0", claim="", evidence=[], label="REFUTES")]
    finding = Finding(doc="7", label="SUPPORT", sentences=[1])
    scifact = [Prediction(id="0", claim="", evidence=[], label="", findings=[finding])]
    sentence = Claim(
        id="0", text="", label="REFUTES", gold=[GoldSet(label="REFUTES", items=[("Fern", 0)])]
    )
    for scorer, gold, predictions, forms in [
        (Averitec2024(), GOLD, fever, "reads predictions of AVeriTeC, .* of FEVER"),
        (Averitec2024(), GOLD, scifact, "reads predictions of AVeriTeC, .* of SciFact"),
        (Ev2r(judge=None, parts=["bleu"]), GOLD, fever, "reads .* AVeriTeC, .* of FEVER"),
        (Fever(), [sentence], [says(0, "")], "reads predictions of FEVER, .* of AVeriTeC"),
        (SciFact(), [sentence], fever, r"reads .* of SciFact, .* of FEVER \(1 of 1\)"),
    ]:
        with pytest.raises(ClaimflowError, match=forms):
            scorer.score(gold, predictions)
    with pytest.raises(
        ClaimflowError, match=r"labels are of FEVER \(1 of 1\): `.*flows.lint .*fix"
    ):
        Averitec2024().score(GOLD, [says(0, "", "REFUTES")])
    # One of the right form is enough, and so is a label that no form has.
    assert Averitec2024(draws=2).score(GOLD, [*fever, says(1, "")]).measures["accuracy"].value
    wrong = [says(0, "", "Refutd")]
    assert not Averitec2024(draws=2).score(GOLD, wrong).measures["accuracy"].value


@pytest.mark.parametrize(
    "told",
    [
        lambda id, text: f"Claim: {text}",
        lambda id, text: f"{text} (said in May)",
        lambda id, text: text[:-5],
        lambda id, text: f"Claim {id}",  # as `flows.lint` writes where there is none
        lambda id, text: "N/A",
        lambda id, text: id,
    ],
)
def test_claims_told_with_more_or_less_are_known(told) -> None:  # type: ignore[no-untyped-def]
    predictions = [says(int(c.id), told(c.id, c.text)) for c in GOLD]
    assert check_texts(predictions, GOLD) == []
    moved = [says(int(c.id), told(c.id, GOLD[int(c.id) - 1].text)) for c in GOLD]
    if told("0", "text") != told("0", "other") and len(told("0", DAMS[0])) > 25:
        with pytest.raises(ClaimflowError, match="10 of 10 predictions have another claim"):
            check_texts(moved, GOLD)


def test_claims_in_other_words_may_be_left_out() -> None:
    with pytest.raises(ClaimflowError, match="leave their texts out"):
        check_texts([says(n, f"Damm {n} brach im Mai.") for n in range(10)], GOLD)
    assert check_texts([says(n, "") for n in range(10)], GOLD) == []


def test_labels_that_are_all_right_are_told_and_gold_evidence_is_noted() -> None:
    qas = [Question(question="Did it?", answers=[Answer(answer="No.")])]
    gold = [Claim(id=str(n), text="", label="Refuted", questions=qas) for n in range(30)]

    def said(label: str, answer: str) -> list[Prediction]:
        evidence = [Evidence(question="Did it?", answer=answer)]
        return [Prediction(id=c.id, claim="", evidence=evidence, label=label) for c in gold]

    (warning,) = warnings(said("Refuted", "Yes."), gold, "AVeriTeC")
    assert warning == "Every label is the gold label (30 claims): is it the gold file's?"
    assert not warnings(said("Refuted", "Yes.")[1:], gold, "AVeriTeC")
    assert not warnings(said("Supported", "No."), gold, "AVeriTeC")
    (note,) = remarks(said("Supported", "No."), gold, "AVeriTeC")
    assert note.startswith("The evidence is the gold evidence word for word")
    assert not remarks(said("Refuted", "Yes."), gold, "AVeriTeC")
    (warning,) = warnings(said("Refuted", "No."), gold, "AVeriTeC")  # both: one is enough
    assert "this is the gold file" in warning
    assert not remarks(said("Refuted", "No."), gold, "AVeriTeC")


def test_justifications_that_are_all_gold_are_told() -> None:
    gold = [Claim(id=str(n), text=f"Claim {n}.", label="Refuted", justification=f"As {n} says.")
            for n in range(40)]  # fmt: skip
    said = {"evidence": [], "label": "Supported", "justification": "As I say."}
    own = [Prediction(id=claim.id, claim=claim.text, **said) for claim in gold]  # type: ignore[arg-type]
    assert warnings(own, gold, "AVeriTeC") == []
    for prediction, claim in zip(own, gold, strict=True):
        prediction.justification = claim.justification
    (said,) = warnings(own, gold, "AVeriTeC")
    assert said.startswith("The justifications are the gold ones word for word")
