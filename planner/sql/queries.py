"""Queries as texts: parsed and checked in form, and which relations they name."""

from __future__ import annotations

from collections.abc import Sequence

from planner.sql.asof import with_asof
from planner.sql.blocks import common_tables
from planner.sql.cursor import Cursor
from planner.sql.dialect import Token, TokenType, exp, parse_select_tree, tokenize
from planner.sql.emit import Emit, parsed_emit, with_emit, without_emit
from planner.sql.forms import check_query
from planner.sql.source import Source
from planner.sql.statements import SelectQuery
from planner.sql.wholeforms import check_calls, refused_in_whole
from planner.sql.within import marked, with_clauses
from planner.values.errors import UnsupportedSqlError


def begins_query(cursor: Cursor) -> bool:
    """Whether SELECT or WITH comes next, in brackets or not."""
    ahead = cursor.tokens[cursor.index :]
    first = next((token for token in ahead if token.token_type is not TokenType.L_PAREN), None)
    return first is not None and first.token_type in (TokenType.SELECT, TokenType.WITH)


def parse_query(source: Source) -> exp.Query:
    """The tree of a query that is the whole text.

    Raises:
        SqlSyntaxError, UnsupportedSqlError: with the place.
    """
    tree, emit = _tree(source)
    return _checked(tree, emit, source)


def parse_any_query(source: Source) -> tuple[exp.Query, UnsupportedSqlError | None]:
    """The tree of a query that is the whole text, and why it can run neither over streams nor in parts.

    None: it can, as far as its form goes. Else Spark may run it as it is written, over tables.

    Raises:
        SqlSyntaxError, UnsupportedSqlError: with the place.
    """
    tree, emit = _tree(source)
    try:
        return _checked(tree, emit, source), None
    except UnsupportedSqlError as error:
        check_calls(tree, source)
        if emit is not None or not isinstance(tree, exp.Query) or refused_in_whole(tree) is not None:
            raise
        return tree, error


def _tree(source: Source) -> tuple[exp.Expr, Emit | None]:
    """Return the syntax tree of a query with the clauses that are not the parser's, and EMIT EVERY, which ends it."""
    emit = parsed_emit(tokenize(source), source)
    tree = parse_select_tree(source, lambda tokens: with_asof(marked(without_emit(tokens))))
    return with_clauses(tree), emit


def _checked(tree: exp.Expr, emit: Emit | None, source: Source) -> exp.Query:
    query = check_query(tree, source)
    return query if emit is None else with_emit(query, emit, source)


def select_query(tokens: Sequence[Token], source: Source) -> SelectQuery:
    """The query that these tokens of a script are; raises as `parse_any_query` does."""
    start = tokens[0].start
    statement = Source(source.text[start : tokens[-1].end + 1], source.position(start))
    return SelectQuery(statement.text, statement.origin, *parse_any_query(statement))


def relations_named(query: exp.Expr) -> frozenset[str]:
    """Lower-case names of the streams, tables and views of a query; entries of WITH are not among them."""
    found: set[str] = set()
    stack: list[tuple[exp.Expr, frozenset[str]]] = [(query, frozenset())]
    while stack:
        node, common = stack.pop()
        for table in common_tables(node):
            stack.append((table.this, common))
            common |= {table.alias.lower()}
        if isinstance(node, exp.Table) and node.name.lower() not in common:
            found.add(node.name.lower())
        stack += [(child, common) for child in node.iter_expressions() if not isinstance(child, exp.With)]
    return frozenset(found)
