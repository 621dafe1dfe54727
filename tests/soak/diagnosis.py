"""The state of a cluster in which a round does not end."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import selat
from selat.dev.cluster import DevCluster

TAIL_LINES = 15


def diagnosis(cluster: DevCluster) -> str:
    """Processes, queries that are not over with their tasks, and the ends of all logs."""
    return "\n".join([*_processes(cluster), *_queries(cluster), *_logs(cluster.data.logs)])


def _processes(cluster: DevCluster) -> Iterator[str]:
    for status in cluster.statuses:
        yield f"{status.name}: {status.state.value}, process {status.pid}"


def _queries(cluster: DevCluster) -> Iterator[str]:
    try:
        with selat.connect(cluster.address) as client:
            for site in client.sites():
                yield f"site {site.name}: {site.state.value}"
                yield from (f"  {log}" for log in site.stream_logs)
            for query in client.queries():
                yield from _query(query)
    except selat.SelatError as error:
        yield f"the master says nothing: {error}"


def _query(query: selat.Query) -> Iterator[str]:
    info = query.info()
    yield f"query {info.id}: {info.state.value} {info.reason} watermark {info.watermark}: {' '.join(info.sql.split())}"
    for task in info.tasks:
        yield (
            f"  {task.task_id} at {task.site}: {task.state.value} {task.reason} watermark {task.watermark}, "
            f"{task.epochs} epochs, rows {task.rows_in} in, {task.rows_out} out, {task.rows_late} late, "
            f"lag {task.lag_rows}, state {task.state_rows}, retained {task.retained_bytes} bytes"
        )


def _logs(directory: Path) -> Iterator[str]:
    for path in sorted(directory.glob("*.log")):
        yield f"--- the end of {path}"
        yield from path.read_text(errors="replace").splitlines()[-TAIL_LINES:]
