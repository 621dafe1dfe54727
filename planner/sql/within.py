"""WITHIN interval: the clause that ends a SELECT of which one row of each chain of rows is wanted.

SELECT DISTINCT user_id, page FROM clicks WITHIN INTERVAL '1 hour'

The parser knows no such clause. It reads one of Spark's that ends a SELECT in its place, and that Selat has no use for.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from planner.sql.dialect import Token, TokenType, exp
from planner.values.edits import Edit

WITHIN = "within"
"""The argument of a SELECT that has the interval."""


def marked(tokens: Sequence[Token]) -> list[Token]:
    """The tokens as the parser reads them."""
    begins = set(_places(tokens))
    return [_as_sort(token) if place in begins else token for place, token in enumerate(tokens)]


def with_clauses(tree: exp.Expr) -> exp.Expr:
    """The tree with the intervals in their own argument; SORT BY of other things stays."""
    for query in tree.find_all(exp.Select, exp.SetOperation):
        sort = query.args.get("sort")
        ordered = sort.expressions if sort is not None else []
        if len(ordered) == 1 and isinstance(ordered[0].this, exp.Interval):
            query.set("sort", None)
            _last(query).set(WITHIN, ordered[0].this)
    return tree


def _last(query: exp.Expr) -> exp.Expr:
    """The SELECT that the clause ends: of several with UNION ALL the last, though the parser gives it to all."""
    while isinstance(query, exp.SetOperation):
        query = query.expression.unnest()
    return query


def without_within(tokens: Sequence[Token], left_out: Sequence[Edit]) -> list[Edit]:
    """Each clause as blanks, where it is not left out."""
    edits = [Edit(tokens[place].start, _end(tokens, place + 2), "") for place in _places(tokens)]
    return [edit for edit in edits if not any(out.start <= edit.start < out.end for out in left_out)]


def _places(tokens: Sequence[Token]) -> list[int]:
    """Return the indices of the tokens with which the clauses begin."""
    pairs = enumerate(pairwise(tokens))
    return [
        place
        for place, (token, after) in pairs
        if token.text.upper() == "WITHIN" and after.token_type is TokenType.INTERVAL
    ]


def _end(tokens: Sequence[Token], place: int) -> int:
    """Return the end of the interval whose value is the token at this index: behind its unit, if it has one."""
    value = tokens[place]
    unit = tokens[place + 1] if place + 1 < len(tokens) else None
    return (unit if unit is not None and unit.token_type is TokenType.VAR else value).end + 1


def _as_sort(token: Token) -> Token:
    return Token(TokenType.SORT_BY, token.text, token.line, token.col, token.start, token.end, token.comments)
