"""Joins of the rows of windows: those of one aggregating query with those that another has in the same window.

    FROM a JOIN b ON a.w = b.w AND a.page = b.page

Both are computed by one MERGE, whose windows close for both at the same watermark.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from planner.bind.joins import conditions, is_left, is_right, only_of, place_of
from planner.bind.scope import Member, Scope
from planner.bind.selects import StreamSelect, WindowRows
from planner.bind.windowkeys import CUMULATIVE, Windows, part_of_window
from planner.functions.traits import WINDOWS
from planner.sql.blocks import from_items
from planner.sql.dialect import exp, offset_of
from planner.sql.refusals import function_name, refuse
from planner.values.errors import UnsupportedSqlError

SELECT_HINT = (
    "Select the window in both queries, as in SELECT window(ts, '10 seconds') AS w, ..., and compare them in ON."
)


def bind_window_rows(
    select: exp.Select, scope: Scope, queries: Sequence[StreamSelect], windows: Sequence[Windows]
) -> tuple[WindowRows, ...]:
    """What stands behind each JOIN of a SELECT over the rows of windows.

    Args:
        select: the SELECT.
        scope: the rows of what stands in FROM, then of each JOIN.
        queries: what they are the rows of.
        windows: which of their columns are the window.

    Raises:
        UnsupportedSqlError: ON does not say that windows are equal, or they differ in length.
        UnknownColumnError: at a name that means nothing there.
    """
    found = []
    joins = select.args.get("joins") or []
    for query, item in zip(queries, from_items(select), strict=True):
        if joins and query.join_window is not None:
            message = "the rows of windows of joined streams cannot be joined again yet"
            raise refuse(item, scope.source, message, "Join all the streams in one query, and aggregate there.")
    for index, join in enumerate(joins):
        place = index + 1
        _refuse_window_calls(join, scope)
        seen = tuple(member for member in scope.members[:place] if not member.hidden)
        on = conditions(join, replace(scope, members=(*seen, scope.members[place])))
        known = {node: part for of_one in windows[:place] for node, part in of_one.items()}
        if not any(_equal_windows(part, known, windows[place]) for part in on):
            raise _not_equal(join, scope.first(place + 1), windows)
        _check_lengths(join, scope, queries[0], queries[place])
        only = only_of(join)
        left = is_left(join) and not only
        found.append(WindowRows(scope.members[place], queries[place], left, on, only, is_right(join)))
    return tuple(found)


def _refuse_window_calls(join: exp.Join, scope: Scope) -> None:
    on = join.args.get("on")
    for call in on.find_all(exp.Anonymous) if on is not None else ():
        if function_name(call) in WINDOWS:
            message = "window(...) is not possible in ON of rows of windows"
            raise refuse(call, scope.source, message, SELECT_HINT)


def _equal_windows(conjunct: exp.Expr, left: Windows, right: Windows) -> bool:
    bare = conjunct.unnest()
    if not isinstance(bare, exp.EQ):
        return False
    sides = (bare.left, bare.right)
    pairs = [(part_of_window(one, left), part_of_window(other, right)) for one, other in (sides, sides[::-1])]
    whole = ("", CUMULATIVE)
    # `_check_lengths` compares the windows themselves.
    return any(one is not None and (one == other or (one in whole and other in whole)) for one, other in pairs)


def _not_equal(join: exp.Join, scope: Scope, windows: Sequence[Windows]) -> UnsupportedSqlError:
    own, place = scope.members[-1], len(scope.members) - 1
    names = [(m, _name_of(m, windows[i])) for i, m in enumerate(scope.members[:place]) if windows[i]]
    hint = SELECT_HINT
    if names and windows[place]:
        member, name = names[0]
        hint = f"Add to ON: AND {member.alias}.{name} = {own.alias}.{_name_of(own, windows[place])}."
    message = f"rows of windows are joined within their window, and ON does not say that {own.alias}'s equals another"
    return refuse(place_of(join), scope.source, message, hint)


def _name_of(member: Member, windows: Windows) -> str:
    whole = [node for node, part in windows.items() if part in ("", CUMULATIVE)]
    column = (whole or list(windows))[0]
    assert isinstance(column, exp.Column)
    return column.name


def _check_lengths(join: exp.Join, scope: Scope, first: StreamSelect, other: StreamSelect) -> None:
    assert first.window is not None
    assert other.window is not None
    if first.window.like(other.window):
        return
    at = place_of(join)
    raise UnsupportedSqlError(
        f"the windows that are joined differ: {first.window.words} and {other.window.words}",
        position=scope.source.position(offset_of(at) or 0),
        found=join.this.alias_or_name,
        hint="Give both the same length and slide, or group the shorter ones by longer ones before: "
        "GROUP BY window(w.start, '1 minute'), ...",
    )
