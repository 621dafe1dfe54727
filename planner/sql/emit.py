"""EMIT EVERY interval [STATE TTL interval]: what ends a query whose groups, or ranks, never are complete.

SELECT user_id, count(*) AS n FROM clicks GROUP BY user_id EMIT EVERY INTERVAL '10 seconds' STATE TTL INTERVAL '7 days'

The parser knows no such clause: it is cut off before. A rank of QUALIFY may be in the select list there; a variable
stands for it in the tree.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from planner.sql.dialect import Token, TokenType, exp
from planner.sql.intervals import UNITS, parse_interval
from planner.sql.refusals import refuse
from planner.sql.source import Source
from planner.values.edits import Edit
from planner.values.errors import SqlSyntaxError, UnsupportedSqlError
from planner.values.names import RANK_COLUMN

EMIT = "emit"
"""The argument of a SELECT that has the `Emit`."""
LEAST = timedelta(seconds=1)
_VALUES = (TokenType.INTERVAL, TokenType.STRING, TokenType.NUMBER)
RANK_HINT = (
    "SELECT *, row_number() OVER (PARTITION BY key ORDER BY x DESC) AS place FROM s QUALIFY place <= 10 EMIT EVERY "
    "INTERVAL '10 seconds' is possible."
)
HINT = "SELECT key, count(*) AS n FROM s GROUP BY key EMIT EVERY INTERVAL '10 seconds' is possible."


@dataclass(frozen=True, slots=True)
class Emit:
    """Says how often changes come out, and after what time without rows a key is forgotten."""

    every: timedelta
    ttl: timedelta | None
    """None: never."""
    start: int
    """The place of the clause in the text."""

    def refused(self, source: Source, message: str, hint: str = HINT) -> UnsupportedSqlError:
        """Return an error at the clause."""
        return UnsupportedSqlError(message, position=source.position(self.start), found="EMIT EVERY", hint=hint)


def without_emit(tokens: Sequence[Token]) -> list[Token]:
    """Return the tokens as the parser reads them."""
    place = _place(tokens)
    return list(tokens) if place is None else list(tokens[:place])


def emit_edits(tokens: Sequence[Token]) -> list[Edit]:
    """Return the clause as blanks, where there is one."""
    place = _place(tokens)
    return [] if place is None else [Edit(tokens[place].start, tokens[-1].end + 1, "")]


def parsed_emit(tokens: Sequence[Token], source: Source) -> Emit | None:
    """Return the clause that ends a query; None: it has none.

    Raises:
        SqlSyntaxError: the clause is not as the grammar has it.
        UnsupportedSqlError: an interval is none of fixed length, or too short.
    """
    inside = _place(tokens, nested=True)
    if inside is not None:
        raise _refused(tokens[inside], source, "EMIT EVERY is possible only at the end of a whole query", HINT)
    place = _place(tokens)
    if place is None:
        return None
    every, rest = _interval(tokens, place + 2, source)
    ttl: timedelta | None = None
    words = [token.text.upper() for token in tokens[rest : rest + 2]]
    if words == ["STATE", "TTL"]:
        at, (ttl, rest) = rest, _interval(tokens, rest + 2, source)
        if not ttl or ttl % every:
            message = "STATE TTL must be a multiple of the interval of EMIT EVERY"
            raise _refused(tokens[at], source, message, "EMIT EVERY INTERVAL '1 minute' STATE TTL INTERVAL '1 day'.")
    if rest < len(tokens):
        raise _syntax(tokens, rest, source)
    if every < LEAST:
        hint = "EMIT EVERY INTERVAL '1 second' is the most often that is possible."
        raise _refused(tokens[place], source, "EMIT EVERY needs an interval of at least a second", hint)
    return Emit(every, ttl, tokens[place].start)


def with_emit(query: exp.Query, emit: Emit, source: Source) -> exp.Select:
    """Return the query with the clause in an argument of its own, and with a variable wherever its select list has the
    rank that QUALIFY compares.

    Raises:
        UnsupportedSqlError: the clause ends something else than one SELECT, or the rank has no name.
    """
    if not isinstance(query, exp.Select):
        message = "EMIT EVERY over the branches of UNION ALL is not possible: they share keys"
        hint = "Put the UNION ALL into a sub-query: SELECT ... FROM (... UNION ALL ...) GROUP BY ... EMIT EVERY ..."
        raise emit.refused(source, message, hint)
    query.set(EMIT, emit)
    qualify = query.args.get("qualify")
    if qualify is None:
        return query
    # Within OVER, a name means a column of the rows, also where the rank has that name, too.
    for column in [node for node in qualify.find_all(exp.Column) if node.find_ancestor(exp.Window) is None]:
        named = next((item for item in query.expressions if _names_rank(item, column)), None)
        if named is not None:
            column.replace(named.this.copy())
    ranks = list(qualify.find_all(exp.Window))
    for item in query.expressions:
        bare = item.this if isinstance(item, exp.Alias) else item
        if isinstance(bare, exp.Window) and bare in ranks:
            if bare is item:
                raise refuse(item, source, "the rank needs a name: it is part of the key of a change", RANK_HINT)
            bare.replace(exp.Var(this=RANK_COLUMN))
    return query


def emit_of(tree: exp.Expr) -> Emit | None:
    """Return the clause that ends a parsed SELECT; None: it has none."""
    found = tree.args.get(EMIT)
    return found if isinstance(found, Emit) else None


def is_rank(node: exp.Expr) -> bool:
    """Return whether a bound expression stands for the rank of QUALIFY."""
    return isinstance(node, exp.Var) and node.name == RANK_COLUMN


def _names_rank(item: exp.Expr, column: exp.Column) -> bool:
    named = isinstance(item, exp.Alias) and not column.table and item.alias.lower() == column.name.lower()
    return named and isinstance(item.this, exp.Window)


def _place(tokens: Sequence[Token], *, nested: bool = False) -> int | None:
    """Return the index of the token with which the clause begins, outside of all brackets, or inside of some."""
    depth = 0
    for place in range(len(tokens) - 2):
        token, after, value = tokens[place : place + 3]
        depth += (token.token_type is TokenType.L_PAREN) - (token.token_type is TokenType.R_PAREN)
        begins = token.text.upper() == "EMIT" and after.text.upper() == "EVERY" and value.token_type in _VALUES
        if begins and nested == (depth > 0):
            return place
    return None


def _interval(tokens: Sequence[Token], place: int, source: Source) -> tuple[timedelta, int]:
    """Return the length of the interval that begins with a token, and the index of what follows it."""
    if place < len(tokens) and tokens[place].token_type is TokenType.INTERVAL:
        place += 1
    if place >= len(tokens):
        raise _syntax(tokens, place, source)
    value = tokens[place]
    unit = tokens[place + 1].text if place + 1 < len(tokens) else ""
    has_unit = unit.upper().removesuffix("S") in UNITS
    length = parse_interval(f"{value.text} {unit}" if has_unit else value.text)
    if length is None:
        hint = "INTERVAL '10 seconds' and INTERVAL '1 hour' are possible."
        raise _refused(value, source, "the interval must be of fixed length", hint)
    return length, place + (2 if has_unit else 1)


def _refused(token: Token, source: Source, message: str, hint: str) -> UnsupportedSqlError:
    found = source.text[token.start : token.end + 1]
    return UnsupportedSqlError(message, position=source.position(token.start), found=found, hint=hint)


def _syntax(tokens: Sequence[Token], place: int, source: Source) -> SqlSyntaxError:
    token = tokens[place] if place < len(tokens) else None
    return SqlSyntaxError(
        "EMIT EVERY is followed by an interval, then by STATE TTL and an interval, or by nothing",
        position=source.position(tokens[-1].end + 1 if token is None else token.start),
        found="end of statement" if token is None else token.text,
        hint=HINT,
    )
