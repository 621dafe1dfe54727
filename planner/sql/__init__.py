"""From the text of a script to statements: tokens and SELECT by sqlglot, declarations by a small parser of our own.

text --tokenize, split at semicolons--> statements --ddl | dialect + refusals--> values of `statements`
"""

from planner.sql.script import parse_script
from planner.sql.statements import (
    AlterBinding,
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
    InsertInto,
    PauseQuery,
    ResumeQuery,
    SelectQuery,
    Show,
    ShowTarget,
    SinkTarget,
    Statement,
)

__all__ = [
    "AlterBinding",
    "CancelQuery",
    "CreateFunction",
    "CreateRelation",
    "CreateView",
    "Describe",
    "DescribeFunction",
    "DropFunction",
    "DropRelation",
    "Explain",
    "ExplainAnalyze",
    "InsertInto",
    "PauseQuery",
    "ResumeQuery",
    "SelectQuery",
    "Show",
    "ShowTarget",
    "SinkTarget",
    "Statement",
    "parse_script",
]
