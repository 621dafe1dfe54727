"""Declarations of Python functions: CREATE FUNCTION, DROP FUNCTION, DESCRIBE FUNCTION. Grammar: docs/sql.md."""

from __future__ import annotations

from planner.relations.catalog import Column
from planner.sql.cursor import Cursor
from planner.sql.statements import CreateFunction, DescribeFunction, DropFunction, Statement
from planner.sql.types import parse_type
from planner.values.errors import UnsupportedSqlError

FORM = "CREATE FUNCTION name(x STRING, y INT) RETURNS DOUBLE LANGUAGE PYTHON AS 'function' FROM 'file.py'"


def at_create_function(cursor: Cursor) -> bool:
    return cursor.at("CREATE", "FUNCTION") or cursor.at("CREATE", "OR", "REPLACE")


def parse_create_function(cursor: Cursor) -> Statement:
    position = cursor.position
    cursor.expect("CREATE")
    or_replace = cursor.take("OR", "REPLACE")
    cursor.expect("FUNCTION", hint=f"Functions and views can be replaced, as in {FORM}.")
    if_not_exists = cursor.take("IF", "NOT", "EXISTS")
    if or_replace and if_not_exists:
        raise cursor.error("OR REPLACE and IF NOT EXISTS exclude each other", hint="Leave one of them out.")
    name = cursor.name("the function's name")
    parameters = _parameters(cursor)
    cursor.expect("RETURNS", hint=FORM)
    returns = parse_type(cursor)
    cursor.expect("LANGUAGE", "PYTHON", hint=FORM)
    _determinism(cursor)
    cursor.expect("AS", hint=FORM)
    entry = cursor.string("the Python function's name")
    cursor.expect("FROM", hint=FORM)
    file = cursor.string("the module's file")
    cursor.finish()
    return CreateFunction(name, parameters, returns, entry, file, or_replace, if_not_exists, position)


def parse_drop_function(cursor: Cursor) -> Statement:
    position = cursor.position
    cursor.expect("DROP", "FUNCTION")
    if_exists = cursor.take("IF", "EXISTS")
    name = cursor.name("a function's name")
    cursor.finish()
    return DropFunction(name, if_exists, position)


def parse_describe_function(cursor: Cursor) -> Statement:
    position = cursor.position
    cursor.index += 1
    cursor.expect("FUNCTION")
    name = cursor.name("a function's name")
    cursor.finish()
    return DescribeFunction(name, position)


def _parameters(cursor: Cursor) -> tuple[Column, ...]:
    cursor.expect("(", hint=FORM)
    parameters = [_parameter(cursor)]
    while cursor.take(","):
        parameters.append(_parameter(cursor))
    cursor.expect(")", hint=FORM)
    return tuple(parameters)


def _parameter(cursor: Cursor) -> Column:
    name = cursor.name("a parameter's name")
    return Column(name, parse_type(cursor))


def _determinism(cursor: Cursor) -> None:
    if cursor.at("NOT", "DETERMINISTIC"):
        raise UnsupportedSqlError(
            "a function that is not deterministic is not possible: an epoch that is run again must give the same rows",
            position=cursor.position,
            found=cursor.found,
            hint="Give what varies as an argument, such as a column that the source writes.",
        )
    cursor.take("DETERMINISTIC")
