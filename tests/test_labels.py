"""Labels out of replies: a stated order, never a substring of prose."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.labels import nearest_label, parse_label
from components.records import AVERITEC_LABELS

FEVER = ("SUPPORTS", "REFUTES", "NOT ENOUGH INFO")


@pytest.mark.parametrize(
    ("text", "label"),
    [
        # 1. the whole reply
        ("Refuted", "Refuted"),
        ("  refuted.\n", "Refuted"),
        ("**Not Enough Evidence**", "Not Enough Evidence"),
        ("REFUTES", "Refuted"),
        ("NOT ENOUGH INFO", "Not Enough Evidence"),
        ("conflicting evidence / cherry-picking", "Conflicting Evidence/Cherrypicking"),
        ("Conflicting_Evidence", "Conflicting Evidence/Cherrypicking"),
        # 2. a field; the last one counts
        ("The evidence is mixed.\nVerdict: Supported", "Supported"),
        ('{"reason": "not supported by S1", "label": "Refuted"}', "Refuted"),
        ("Label: Supported? No.\n\n**Final verdict:** Refuted.", "Refuted"),
        ("verdict: Conflicting Evidence/Cherrypicking, see above", AVERITEC_LABELS[3]),
        # 3. a line of its own
        ("Refuted\n\nThe town has no such law.", "Refuted"),
        ("The town has no such law.\n- Refuted", "Refuted"),
        # 4. closing words
        ("There is not enough evidence for X, but Refuted", "Refuted"),
        ("Therefore, the claim is Not Enough Evidence.", "Not Enough Evidence"),
        ("It could not be checked at first. By S2, of May 2020, the claim is Refuted.", "Refuted"),
        ("He said that he supported it, and by S1 that is Supported", "Supported"),
        # none
        ("not supported", None),
        ("The claim is not Supported.", None),
        ("There is no evidence that it is Supported.", None),
        ("It isn’t Refuted", None),
        ("The claim isn't, in my view, Supported", None),
        ("I doubt that it is Supported", None),
        ("It may be Supported.", None),
        ("S1 is from 2.5 years ago; if it still holds, then Supported", None),
        ("It is unclear: by S1 it is Supported", None),
        ("It could be Supported or Refuted", None),
        ("verdict: Supported or Refuted", None),
        ("Supported/Refuted", None),
        ("I cannot choose between Supported, Refuted", None),
        ("Either Supported, or not: Refuted", None),
        ("By S1 Supported, by S2 Refuted", None),
        (f"Choose one: {', '.join(AVERITEC_LABELS)}.", None),
        ("The evidence does not provide enough evidence to support a verdict of Supported, "
         "Refuted, Not Enough Evidence.", None),
        ("It is supported by many people.", None),
        ("Supported by many, this claim is hard to judge", None),
        ("Unsupported", None),
        ("Mostly true", None),
        ("", None),
    ],
)  # fmt: skip
def test_averitec(text: str, label: str | None) -> None:
    assert parse_label(text, AVERITEC_LABELS) == label


def test_labels_of_other_data_sets() -> None:
    assert parse_label("Refuted", FEVER) == "REFUTES"
    assert parse_label("supports", FEVER) == "SUPPORTS"
    assert parse_label("Conflicting Evidence", FEVER) is None
    assert parse_label("contradict", ("SUPPORT", "CONTRADICT")) == "CONTRADICT"
    assert parse_label("half-true", ("True", "Half True")) == "Half True"
    # Two labels of one family: only the exact one is meant.
    assert parse_label("refutes", ("Refuted", "Refutes")) == "Refutes"
    assert parse_label("refute", ("Refuted", "Refutes")) is None


@given(st.sampled_from(AVERITEC_LABELS), st.sampled_from([str.lower, str.upper, str.title]))
def test_every_label_is_found_in_any_case(label: str, case: object) -> None:
    assert parse_label(case(label), AVERITEC_LABELS) == label  # type: ignore[operator]


@given(st.text())
def test_any_text_gives_a_label_or_none(text: str) -> None:
    assert parse_label(text, AVERITEC_LABELS) in (*AVERITEC_LABELS, None)


@pytest.mark.parametrize(
    ("said", "averitec", "fever", "scifact"),
    [
        ("not supported", None, None, None),  # the opposite, or neither
        ("Unsupported", None, None, None),
        ("not refuted", None, None, None),
        ("partly refuted claim", None, None, None),
        ("maybe", None, None, None),
        ("", None, None, None),
        ("suported ", "Supported", "SUPPORTS", "SUPPORT"),
        ("TRUE", "Supported", "SUPPORTS", "SUPPORT"),
        ("mostly-true", "Supported", "SUPPORTS", "SUPPORT"),
        ("SUPPORTS", "Supported", "SUPPORTS", "SUPPORT"),
        ("Refutd", "Refuted", "REFUTES", "CONTRADICT"),
        ("CONTRADICT", "Refuted", "REFUTES", "CONTRADICT"),
        ("not true", "Refuted", "REFUTES", "CONTRADICT"),
        ("mostly_false", "Refuted", "REFUTES", "CONTRADICT"),
        ("NEI", "Not Enough Evidence", "NOT ENOUGH INFO", None),
        ("NotEnoughInfo", "Not Enough Evidence", "NOT ENOUGH INFO", None),
        ("Not Enough Evidance", "Not Enough Evidence", "NOT ENOUGH INFO", None),
        ("insufficient evidence", "Not Enough Evidence", "NOT ENOUGH INFO", None),
        ("conflicting", "Conflicting Evidence/Cherrypicking", None, None),
        ("half true", "Conflicting Evidence/Cherrypicking", None, None),
        ("partially supported", "Conflicting Evidence/Cherrypicking", None, None),
    ],
)
def test_the_nearest_label_is_one_of_the_same_meaning(
    said: str, averitec: str | None, fever: str | None, scifact: str | None
) -> None:
    sets = (AVERITEC_LABELS, FEVER, ("SUPPORT", "CONTRADICT"))
    for labels, meant in zip(sets, (averitec, fever, scifact), strict=True):
        assert nearest_label(said, labels) == (f" Did you mean '{meant}'?" if meant else "")
