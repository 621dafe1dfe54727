"""Edits of a user's text before Spark analyses it: QUALIFY is taken out, and Selat's own windows are called Spark's."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from planner.functions.traits import CUMULATE, WINDOW
from planner.sql.blocks import SET_TOKENS
from planner.sql.dialect import TokenType, tokenize
from planner.sql.source import Source
from planner.values.edits import Edit


def without_qualify(source: Source) -> list[Edit]:
    """Each QUALIFY clause, of nested queries too, as blanks: it is the last clause of its block."""
    edits: list[Edit] = []
    depth = 0
    begun: tuple[int, int] | None = None
    """Offset and depth of the outermost QUALIFY that is open."""
    for token in tokenize(source):
        depth += (token.token_type is TokenType.L_PAREN) - (token.token_type is TokenType.R_PAREN)
        if token.token_type is TokenType.QUALIFY and begun is None:
            begun = (token.start, depth)
        elif begun is not None and (depth < begun[1] or (depth == begun[1] and token.token_type in SET_TOKENS)):
            edits.append(Edit(begun[0], token.start, ""))
            begun = None
    if begun is not None:
        edits.append(Edit(len(source.text[: begun[0]].rstrip()), len(source.text), ""))
    return edits


def sparks_windows(source: Source, left_out: Sequence[Edit]) -> list[Edit]:
    """The name of each call of cumulative windows, where it is not left out, as that of Spark's windows.

    Those have the same type, which is all that Spark is asked for.
    """
    called = [name for name, after in pairwise(tokenize(source)) if after.token_type is TokenType.L_PAREN]
    named = [token for token in called if token.text.lower() == CUMULATE]
    edits = [Edit(token.start, token.end + 1, WINDOW) for token in named]
    return [edit for edit in edits if not any(out.start <= edit.start < out.end for out in left_out)]
