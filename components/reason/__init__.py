"""Steps that think about a claim: questions, answers, verdicts. Nothing that searches."""
