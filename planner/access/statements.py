"""The right that each kind of statement takes. What it reads and changes is checked besides, by owner and grants."""

from __future__ import annotations

from collections.abc import Mapping

from planner.access.roles import Right
from planner.sql.statements import (
    AlterBinding,
    AnalyzeTable,
    CancelQuery,
    CreateFunction,
    CreateRelation,
    CreateView,
    Describe,
    DescribeFunction,
    DropFunction,
    DropRelation,
    Explain,
    ExplainAnalyze,
    Grant,
    InsertInto,
    PauseQuery,
    ResumeQuery,
    Revoke,
    SelectQuery,
    SetOption,
    Show,
    Statement,
)

STATEMENTS: Mapping[type[Statement], Right] = {
    CreateRelation: Right.DECLARE,
    AlterBinding: Right.DECLARE,
    # The statistics of a table influence everybody's plans.
    AnalyzeTable: Right.DECLARE,
    CreateFunction: Right.CREATE_FUNCTION,
    DropFunction: Right.CREATE_FUNCTION,
    # Whoever may not declare can own views alone.
    DropRelation: Right.SUBMIT,
    CreateView: Right.SUBMIT,
    SelectQuery: Right.SUBMIT,
    InsertInto: Right.SUBMIT,
    Explain: Right.SUBMIT,
    CancelQuery: Right.SUBMIT,
    PauseQuery: Right.SUBMIT,
    ResumeQuery: Right.SUBMIT,
    ExplainAnalyze: Right.LOOK,
    Show: Right.LOOK,
    Describe: Right.LOOK,
    DescribeFunction: Right.LOOK,
    # For relations that are the caller's own.
    Grant: Right.SUBMIT,
    Revoke: Right.SUBMIT,
    SetOption: Right.BE_KNOWN,
}
"""By class of statement; a test walks all of them."""
