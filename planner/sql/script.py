"""Scripts: statements parted by semicolons."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from planner.sql.analyze_ddl import parse_analyze
from planner.sql.cursor import Cursor
from planner.sql.ddl import PARSERS, query_reference
from planner.sql.dialect import Token, TokenType, check_size, tokenize
from planner.sql.queries import begins_query, select_query
from planner.sql.source import Source
from planner.sql.statements import Explain, ExplainAnalyze, InsertInto, SinkTarget, Statement
from planner.sql.views import begins_view, parse_create_view
from planner.values.errors import Position, SqlSyntaxError, UnsupportedSqlError

POSSIBLE = (
    "CREATE, ALTER, DROP, SHOW, DESCRIBE, EXPLAIN, ANALYZE TABLE, CANCEL QUERY, PAUSE QUERY, RESUME QUERY, SET, GRANT, "
    "REVOKE, SELECT and INSERT INTO are possible."
)
INSERT_HINT = "INSERT INTO sink SELECT ... is possible; columns go by their position."
_KNOWN_ELSEWHERE = (
    *("UPDATE", "DELETE", "MERGE", "TRUNCATE", "COPY", "LOAD", "USE", "RESET"),
    *("REFRESH", "CACHE", "UNCACHE", "CALL", "EXECUTE", "DECLARE", "BEGIN", "COMMIT", "ROLLBACK"),
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
    if begins_view(cursor):
        return parse_create_view(cursor)
    if word in PARSERS:
        return PARSERS[word](cursor)
    if word == "ANALYZE":
        return parse_analyze(cursor)
    if word == "EXPLAIN":
        return _explain(cursor)
    if word == "INSERT":
        return _insert(cursor)
    if word == "SELECT" or tokens[0].token_type in (TokenType.WITH, TokenType.L_PAREN):
        return select_query(tokens, source)
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
    if cursor.at("INSERT"):
        insert = _insert(cursor)
        return Explain(insert.query, position, insert.target)
    if cursor.take("ANALYZE"):
        return _explain_analyze(cursor, position)
    if not begins_query(cursor):
        raise cursor.error("SELECT is expected", hint="EXPLAIN SELECT ... shows the plan of a query.")
    return Explain(select_query(cursor.tokens[cursor.index :], cursor.source), position)


def _insert(cursor: Cursor) -> InsertInto:
    position, start = cursor.position, cursor.tokens[cursor.index].start
    cursor.expect("INSERT")
    cursor.expect("INTO", hint=INSERT_HINT)
    place = cursor.position
    target = SinkTarget(cursor.name("the sink's name"), place)
    if cursor.at("VALUES"):
        raise UnsupportedSqlError(
            "rows cannot be inserted one by one", position=cursor.position, found=cursor.found, hint=INSERT_HINT
        )
    if not begins_query(cursor):
        raise cursor.error("SELECT is expected", hint=INSERT_HINT)
    query = select_query(cursor.tokens[cursor.index :], cursor.source)
    text = cursor.source.text[start : cursor.tokens[-1].end + 1]
    return InsertInto(target, query, text, position)


def _explain_analyze(cursor: Cursor, position: Position) -> Statement:
    if begins_query(cursor):
        raise cursor.error(
            "a submitted query is expected",
            hint="Submit the SELECT, then EXPLAIN ANALYZE QUERY its id; EXPLAIN SELECT ... shows the plan alone.",
        )
    cursor.take("QUERY")
    return ExplainAnalyze(query_reference(cursor), position)
