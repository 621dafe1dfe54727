"""Scripts: statements parted by semicolons."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from planner.errors import SqlSyntaxError, UnsupportedSqlError
from planner.sql.cursor import Cursor
from planner.sql.ddl import PARSERS
from planner.sql.dialect import Token, TokenType, check_size, parse_select_tree, tokenize
from planner.sql.refusals import check_select
from planner.sql.source import Source
from planner.sql.statements import Explain, SelectQuery, Statement

POSSIBLE = "CREATE, ALTER, DROP, SHOW, DESCRIBE, EXPLAIN, CANCEL QUERY and SELECT are possible."
_KNOWN_ELSEWHERE = (
    *("INSERT", "UPDATE", "DELETE", "MERGE", "TRUNCATE", "COPY", "LOAD", "USE", "SET", "RESET", "GRANT", "REVOKE"),
    *("ANALYZE", "REFRESH", "CACHE", "UNCACHE", "CALL", "EXECUTE", "DECLARE", "BEGIN", "COMMIT", "ROLLBACK"),
    *("VALUES", "TABLE", "FROM", "MSCK", "REPAIR", "ADD", "LIST"),
)


def parse_script(text: str) -> tuple[Statement, ...]:
    """The statements of a script, in order; no statement gives an empty tuple.

    Raises:
        SqlSyntaxError: the text is no statement of docs/sql.md.
        UnsupportedSqlError: it is SQL, but not possible here.
        InvalidDefinitionError: a declaration contradicts itself.
    """
    source = Source(text)
    return tuple(_parse(tokens, source) for tokens in _split(tokenize(source)))


def _split(tokens: Sequence[Token]) -> Iterator[Sequence[Token]]:
    begin = 0
    for index, token in enumerate(tokens):
        if token.token_type is TokenType.SEMICOLON:
            if index > begin:
                yield tokens[begin:index]
            begin = index + 1
    if begin < len(tokens):
        yield tokens[begin:]


def _parse(tokens: Sequence[Token], source: Source) -> Statement:
    check_size(tokens, source)
    cursor = Cursor(tokens, source)
    word = tokens[0].text.upper()
    if word in PARSERS:
        return PARSERS[word](cursor)
    if word == "EXPLAIN":
        return _explain(cursor)
    if word == "SELECT" or tokens[0].token_type in (TokenType.WITH, TokenType.L_PAREN):
        return _select(tokens, source)
    if word in _KNOWN_ELSEWHERE:
        raise UnsupportedSqlError(
            f"{word} statements are not possible", position=cursor.position, found=cursor.found, hint=POSSIBLE
        )
    raise SqlSyntaxError(
        f"no statement begins with {cursor.found}", position=cursor.position, found=cursor.found, hint=POSSIBLE
    )


def _explain(cursor: Cursor) -> Statement:
    position = cursor.position
    cursor.expect("EXPLAIN")
    if not cursor.at("SELECT") and not cursor.at("WITH"):
        raise cursor.error("SELECT is expected", hint="EXPLAIN SELECT ... shows the plan of a query.")
    return Explain(_select(cursor.tokens[cursor.index :], cursor.source), position)


def _select(tokens: Sequence[Token], source: Source) -> SelectQuery:
    start = tokens[0].start
    statement = Source(source.text[start : tokens[-1].end + 1], source.position(start))
    tree = check_select(parse_select_tree(statement), statement)
    return SelectQuery(statement.text, statement.origin, tree)
