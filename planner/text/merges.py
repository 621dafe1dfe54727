"""EXPLAIN tells of a stage that merges when results come out, and which rows are kept until then."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from planner.graph.plan import Merge, Neighbours, Pairs, Totals
from planner.sql.intervals import format_interval, format_windows

INSTANT = timedelta(microseconds=1)
"""The length of a window that has one event time."""


def merge_json(merge: Merge | None) -> dict[str, Any] | None:
    """The fields of a stage that merges; None for any other."""
    if merge is None:
        return None
    return {
        "window_column": merge.window_column,
        "window_s": merge.window.total_seconds(),
        "slide_s": merge.period.total_seconds(),
        "offset_s": merge.offset.total_seconds(),
        "panes": merge.panes,
        "cumulates": merge.cumulates,
        "months": merge.months,
        "pairs": None if merge.pairs is None else _pairs_json(merge.pairs),
        "neighbours": None if merge.neighbours is None else _neighbours_json(merge.neighbours),
        "totals": None if merge.totals is None else _totals_json(merge.totals),
        "session_keys": None if merge.sessions is None else list(merge.sessions.keys),
        "combine_sql": merge.combine_sql,
        "views": [
            {"view": view.view, "combine_sql": view.combine_sql, "required": view.required} for view in merge.views
        ],
    }


def _neighbours_json(neighbours: Neighbours) -> dict[str, Any]:
    within_s = None if neighbours.within is None else neighbours.within.total_seconds()
    return {"keys": list(neighbours.keys), "rows": neighbours.rows, "within_s": within_s}


def _neighbours_text(neighbours: Neighbours) -> str:
    """Return when rows come out, and which are kept, for people."""
    kept = [f"its last {neighbours.rows} rows, for ever"] if neighbours.rows else []
    if neighbours.within is not None:
        kept.append(f"its rows of {format_interval(neighbours.within)}")
    return (
        "emits each row once, when the watermark passes it, with what it needs of those before it\n"
        f"keeps of each key {' and '.join(kept) or 'nothing'}"
    )


def _totals_json(totals: Totals) -> dict[str, Any]:
    return {
        "keys": list(totals.keys),
        "upsert_by": list(totals.upsert_by),
        "ttl_s": None if totals.ttl is None else totals.ttl.total_seconds(),
        "ends": totals.ends,
    }


def _totals_text(merge: Merge, totals: Totals) -> str:
    """Return when changes come out, and how long keys are kept, for people."""
    keyed = f"upsert by ({', '.join(totals.upsert_by)})" if totals.upsert_by else "one row, upserted"
    kept = []
    if totals.ends:
        kept.append("until no more rows of it can come")
    if totals.ttl is not None:
        kept.append(f"until it had no rows for {format_interval(totals.ttl)}")
    return (
        f"emits, for every {format_interval(merge.window)} of event time, what has changed: {keyed}\n"
        f"keeps what each key adds up to {', or '.join(kept) or 'for ever: STATE TTL would let silent keys go'}"
    )


def _pairs_json(pairs: Pairs) -> dict[str, Any]:
    sides = (pairs.first, pairs.second)
    return {
        "first": pairs.first.view,
        "second": pairs.second.view,
        "lower_s": pairs.lower.total_seconds(),
        "upper_s": None if pairs.upper is None else pairs.upper.total_seconds(),
        "until": pairs.until,
        "keys": [list(keys) for keys in zip(pairs.first.keys, pairs.second.keys, strict=True)],
        "emits_pairs": pairs.emits_pairs,
        "newest": pairs.newest,
        "strict": pairs.strict,
        "unmatched": [side.view for side in sides if side.unmatched],
        "once": [side.view for side in sides if side.once],
    }


def _pairs_text(pairs: Pairs) -> str:
    """Return when pairs come out, and how long rows are kept, for people."""
    first, second = pairs.first, pairs.second
    if pairs.newest:
        return (
            f"emits each row of {second.view} once, when the watermark passes it, with the newest row of {first.view}\n"
            f"keeps of {first.view} the newest row of each key, for ever"
        )
    unmatched = [side.view for side in (first, second) if side.unmatched]
    once = [side.view for side in (first, second) if side.once]
    what = f"each row of {once[0]} that matches" if once else "each pair"
    lines = [f"emits {what} once, when the watermark passes its later event time"] if pairs.emits_pairs else []
    if unmatched:
        lines.append(f"emits rows of {' and '.join(unmatched)} without a match when none can come any more")
    until = f"until {pairs.until_words}" if pairs.upper is None else _kept_words(pairs.upper)
    lines.append(f"keeps a row of {first.view} {until}, of {second.view} {_kept_words(-pairs.lower)}")
    if first.keeps_matches or second.keeps_matches:
        lines.append("keeps its matches as long as a row that comes out by itself")
    return "\n".join(lines)


def _kept_words(length: timedelta) -> str:
    return f"for {format_interval(length)}" if length > timedelta(0) else "until the watermark passes it"


def merge_text(merge: Merge | None) -> str:
    """Return when results come out, and which rows are kept until then, for people."""
    if merge is None:
        return ""
    if merge.pairs is not None:
        return _pairs_text(merge.pairs)
    if merge.neighbours is not None:
        return _neighbours_text(merge.neighbours)
    if merge.totals is not None:
        return _totals_text(merge, merge.totals)
    if merge.sessions is not None and merge.sessions.at_start:
        return (
            "emits the first row of each session once, when the watermark passes it\n"
            f"keeps each open session until it has ended: its last row and the gap of {merge.sessions.gap}"
        )
    if merge.sessions is not None:
        return (
            "emits each session once, when the watermark passes its end: "
            f"its last row and the gap of {merge.sessions.gap}\n"
            "keeps each open session until then; one that never falls silent, until the stream ends"
        )
    if merge.window == INSTANT:
        return "emits each instant once, when the watermark passes it"
    windows = format_windows(merge.window, merge.period, merge.offset, cumulates=merge.cumulates, months=merge.months)
    return f"emits each window of {windows} once, when it closes"
