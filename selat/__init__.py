"""Selat: SQL over data that is born in many regions.

    import selat

    with selat.connect() as client:
        query = client.sql("SELECT page, count(*) AS n FROM clicks GROUP BY window(ts, '10 seconds'), page")
        for row in query.results().rows():
            ...

`connect` gives a `Client`; SQL or its methods give a `Query`; `Query.results()` gives Arrow batches, a table, a
DataFrame or rows. Everything else is a frozen value of `selat.values`; everything raised is a `SelatError`. This
package needs neither Spark nor the servers.
"""

from selat.client import Client, Outcome, Producer, Query, Results, Watch, connect
from selat.errors import (
    ConnectionLost,
    InvalidArgument,
    NotFound,
    QueryFailed,
    ResultsGone,
    SelatError,
    ServerFault,
    StatementError,
    TimedOut,
    Unavailable,
)
from selat.values import (
    BatchProgress,
    BatchWait,
    Binding,
    Column,
    Cursor,
    DiskUse,
    Done,
    Explanation,
    Function,
    Link,
    LinkUse,
    Location,
    MemoryUse,
    PushTotals,
    QueryInfo,
    QuerySharing,
    QueryState,
    Relation,
    RelationKind,
    ResultBatch,
    Rows,
    SharedLink,
    SharedOperator,
    Site,
    SiteState,
    SiteWork,
    StageProgress,
    StreamLog,
    TaskState,
    TaskStatus,
)

__version__ = "0.1.0"

__all__ = [
    "BatchProgress",
    "BatchWait",
    "Binding",
    "Client",
    "Column",
    "ConnectionLost",
    "Cursor",
    "DiskUse",
    "Done",
    "Explanation",
    "Function",
    "InvalidArgument",
    "Link",
    "LinkUse",
    "Location",
    "MemoryUse",
    "NotFound",
    "Outcome",
    "Producer",
    "PushTotals",
    "Query",
    "QueryFailed",
    "QueryInfo",
    "QuerySharing",
    "QueryState",
    "Relation",
    "RelationKind",
    "ResultBatch",
    "Results",
    "ResultsGone",
    "Rows",
    "SelatError",
    "ServerFault",
    "SharedLink",
    "SharedOperator",
    "Site",
    "SiteState",
    "SiteWork",
    "StageProgress",
    "StatementError",
    "StreamLog",
    "TaskState",
    "TaskStatus",
    "TimedOut",
    "Unavailable",
    "Watch",
    "connect",
]
