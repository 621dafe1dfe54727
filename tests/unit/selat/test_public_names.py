"""What users import is pinned: a name that goes away breaks programs."""

from __future__ import annotations

import selat

NAMES = """
BatchProgress BatchWait Binding Client Column ConnectionLost Cursor DiskUse Done Explanation Function
InvalidArgument Link LinkUse Location MemoryUse NotFound Outcome Producer PushTotals Query QueryFailed QueryInfo
QuerySharing QueryState Relation RelationKind ResultBatch Results ResultsGone Rows SelatError ServerFault SharedLink
SharedOperator Site SiteState SiteWork StageProgress StatementError StreamLog TaskState TaskStatus TimedOut Unavailable
Watch connect
"""


def test_the_public_names() -> None:
    assert selat.__all__ == NAMES.split()


def test_every_public_name_is_there() -> None:
    assert all(hasattr(selat, name) for name in selat.__all__)


def test_every_public_class_and_function_is_documented() -> None:
    undocumented = [n for n in selat.__all__ if n not in ("Cursor", "Outcome") and not getattr(selat, n).__doc__]
    assert undocumented == []


def test_the_public_methods() -> None:
    assert {n for n in dir(selat.Client) if not n.startswith("_")} == {
        "adaptation_decisions", "address", "alter", "call_off_move", "caller", "close",
        "combine_query",
        "create_relation", "create_token",
        "drain_site", "drop", "drop_function", "events", "follow_move", "frameworks",
        "function", "functions",
        "link_history", "links", "members", "move_task", "moves", "probe_link", "push", "queries",
        "query", "query_history",
        "register_framework",
        "register_function", "revoke_token", "scale_stage", "script", "set_quota",
        "share_again", "sharing", "sink", "sinks", "site", "sites", "slots", "sql",
        "stream", "streams", "table", "tables", "tokens", "undrain_site", "view", "views", "watch_events",
        "watch_slots",
    }  # fmt: skip
    assert {n for n in vars(selat.Query) if not n.startswith("_")} == {
        "cancel", "explain", "id", "info", "last", "pause", "results", "resume", "state", "wait", "watch",
    }  # fmt: skip
    assert {n for n in vars(selat.Results) if not n.startswith("_")} == {
        "arrow", "close", "cursor", "info", "pandas", "rows", "table",
    }  # fmt: skip
