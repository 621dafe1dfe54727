"""Hints of refusals."""

from __future__ import annotations

from planner.connect.verdicts import PlanPart, hint_for, refusal


def test_a_refusal_says_what_is_possible() -> None:
    assert refusal(PlanPart("Project", "input")) == ""
    assert "Project.other" in refusal(PlanPart("Project", "other"))
    assert "docs/spark-connect.md" in hint_for(PlanPart("Project", "other"))
    assert "CREATE FUNCTION" in hint_for(PlanPart("Expression", "common_inline_user_defined_function"))
