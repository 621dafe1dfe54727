"""From the text of a script to statements: tokens and SELECT by sqlglot, declarations by a small parser of our own.

text --tokenize, split at semicolons--> statements --ddl | dialect + refusals--> values of `statements`
"""

from planner.sql.script import parse_script
from planner.sql.statements import (
    AlterBinding,
    CancelQuery,
    CreateRelation,
    Describe,
    DropRelation,
    Explain,
    SelectQuery,
    Show,
    ShowTarget,
    Statement,
)

__all__ = [
    "AlterBinding",
    "CancelQuery",
    "CreateRelation",
    "Describe",
    "DropRelation",
    "Explain",
    "SelectQuery",
    "Show",
    "ShowTarget",
    "Statement",
    "parse_script",
]
