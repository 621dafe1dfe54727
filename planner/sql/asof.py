"""ASOF JOIN: each row of the left stream with the newest version of the right one.

FROM a [LEFT] ASOF JOIN b MATCH_CONDITION (a.ts >= b.ts) ON a.k = b.k        as Spark 4.3 has it, if it is switched on
                                                                             (or ASOF LEFT JOIN, as DuckDB)
FROM a [LEFT] JOIN b FOR SYSTEM_TIME AS OF a.ts ON a.k = b.k                 as Flink has it

The parser wants ASOF before LEFT [OUTER] and INNER, and knows the condition by a token of its own. Spark reads the
text as a plain join.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from planner.sql.dialect import Token, TokenType, exp
from planner.values.edits import Edit

ASOF = "ASOF"
_CONDITION = "MATCH_CONDITION"
_KINDS = (TokenType.LEFT, TokenType.INNER, TokenType.OUTER)


def is_asof(join: exp.Expr) -> bool:
    """Return whether a join is with versions."""
    return (join.args.get("method") or "").upper() == ASOF or join.this.args.get("version") is not None


def with_asof(tokens: Sequence[Token]) -> list[Token]:
    """The tokens as the parser reads them."""
    found: list[Token] = []
    for token, after in zip(tokens, [*tokens[1:], None], strict=True):
        opens = after is not None and after.token_type is TokenType.L_PAREN
        if token.token_type is TokenType.ASOF:
            place = len(found)
            while place and found[place - 1].token_type in _KINDS:
                place -= 1
            found.insert(place, token)
        elif token.text.upper() == _CONDITION and opens:
            at = (token.line, token.col, token.start, token.end)
            found.append(Token(TokenType.MATCH_CONDITION, token.text, *at, token.comments))
        else:
            found.append(token)
    return found


def without_asof(tokens: Sequence[Token]) -> list[Edit]:
    """Return the edits that make a plain join of each in the text."""
    edits = []
    for place, token in enumerate(tokens):
        words = [other.text.upper() for other in tokens[place : place + 4]]
        if words[0] == ASOF and set(words[1:3]) & {"JOIN", "LEFT", "INNER"}:
            edits.append(Edit(token.start, token.end + 1, ""))
        elif words[:2] == [_CONDITION, "("]:
            edits.append(Edit(token.start, max(end for end in _bracket(tokens, place + 1)), ""))
        elif words == ["FOR", "SYSTEM_TIME", "AS", "OF"]:
            edits.append(Edit(token.start, max(end for end in _name(tokens, place + 4)), ""))
    return edits


def _bracket(tokens: Sequence[Token], place: int) -> Iterator[int]:
    """The ends of the tokens of what is in brackets, which opens at that place."""
    depth = 0
    for token in tokens[place:]:
        depth += (token.token_type is TokenType.L_PAREN) - (token.token_type is TokenType.R_PAREN)
        yield token.end + 1
        if not depth:
            return


def _name(tokens: Sequence[Token], place: int) -> Iterator[int]:
    """The ends of the tokens of a dotted name that begins at that place."""
    for token, after in zip(tokens[place:], [*tokens[place + 1 :], None], strict=True):
        yield token.end + 1
        joins = TokenType.DOT in (token.token_type, after.token_type if after is not None else None)
        if not joins:
            return
