"""Prints results of a query until it is over or the reader stops."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pyarrow as pa

import selat
from contract.arrow_types import arrow_schema
from selat.cli.base.app import App
from selat.cli.output import human
from selat.cli.output.progress import watched
from selat.cli.output.rows import RowWriter, row_writer
from selat.client.results import query_failed
from selat.errors import Detail


def print_results(app: App, query: selat.Query, results: selat.Results, cursor_file: Path | None = None) -> None:
    """Write result rows in the app's format as they come; after each batch, write the position reached to
    `cursor_file`.

    Raises selat.QueryFailed when the query failed.
    """
    output = _Output(app, results)
    with watched(query, enabled=app.live) as line, results:
        try:
            for batch in results:
                with line.above():
                    output.write(batch)
                if cursor_file is not None:
                    save_cursor(cursor_file, query.id, batch.cursor)
        except KeyboardInterrupt:
            # The reader has as much as it wants, so the output is complete; after an error it is not.
            with line.above():
                output.close()
            raise
        line.end()
        output.close()
    _say_end(app, results.info)


def print_table(app: App, results: selat.Results) -> None:
    """Write the table that changes leave, in the app's format."""
    with results:
        table = results.table()
    writer = row_writer(app.format, table.schema, colored=app.colored(sys.stdout))
    for batch in table.to_batches():
        writer.write(batch)
    writer.close()
    _say_end(app, results.info)


def print_progress(app: App, query: selat.Query) -> None:
    """Wait until a query that writes into a sink is over, with a live line on a terminal.

    Raises selat.QueryFailed when the query failed.
    """
    with watched(query, enabled=app.live):
        info = query.wait()
    _say_end(app, info)


def follow_submitted(app: App, query: selat.Query) -> None:
    """Follow a query that belongs to this command: when the command is interrupted, the query is cancelled."""
    try:
        if query.last.sink:
            print_progress(app, query)
        else:
            print_results(app, query, query.results())
    except (KeyboardInterrupt, BrokenPipeError):
        _cancel(app, query)
        raise
    except selat.Unavailable as error:
        reads = "show" if query.last.sink else "results"
        hint = f"the query runs on; look at it with `selat query {reads} {query.id}`"
        raise type(error)(error.message, code=error.code, detail=Detail(hint=hint)) from None


def load_cursor(path: Path, query_id: str) -> selat.Cursor | None:
    """The position that an earlier run reached; None when there was none.

    Raises selat.InvalidArgument when the file is something else or belongs to another query.
    """
    if not path.exists():
        return None
    try:
        saved = json.loads(path.read_text(encoding="utf-8"))
        owner, cursor = saved["query"], saved["cursor"]
    except (ValueError, KeyError, TypeError):
        raise selat.InvalidArgument(f"{path} is not a cursor file") from None
    if owner != query_id:
        raise selat.InvalidArgument(f"{path} belongs to query {owner}, not to {query_id}")
    return dict(cursor)


def save_cursor(path: Path, query_id: str, cursor: selat.Cursor) -> None:
    """Replace the file atomically, so that it is whole after any crash, also of the machine."""
    temporary = path.with_name(path.name + ".new")
    with temporary.open("w", encoding="utf-8") as file:
        file.write(json.dumps({"query": query_id, "cursor": dict(cursor)}) + "\n")
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)


class _Output:
    """A writer that is created when the schema is known: from the first batch, or from the query if there
    are no rows."""

    def __init__(self, app: App, results: selat.Results) -> None:
        self._app = app
        self._results = results
        self._writer: RowWriter | None = None

    def write(self, batch: selat.ResultBatch) -> None:
        if self._writer is None:
            self._writer = self._make(batch.batch.schema)
        if batch.batch.num_rows:
            self._writer.write(batch.batch)

    def close(self) -> None:
        if self._writer is None:
            self._writer = self._make(arrow_schema(self._results.info.columns))
        self._writer.close()

    def _make(self, schema: pa.Schema) -> RowWriter:
        return row_writer(self._app.format, schema, colored=self._app.colored(sys.stdout))


def _say_end(app: App, info: selat.QueryInfo) -> None:
    if info.state is selat.QueryState.FAILED:
        raise query_failed(info)
    if info.state is selat.QueryState.CANCELLED:
        app.note(f"query {info.id} was cancelled")
    elif app.live and info.over and info.ended_at:
        took = human.duration(info.ended_at - info.submitted_at)
        out = f"written into {info.sink} at {info.sink_site}" if info.sink else "out"
        rows = f"{human.count(info.rows_in)} rows in, {human.count(info.rows_out)} rows {out}"
        app.note(f"{info.id} {info.state.value} in {took}: {rows}, {human.size(info.link_bytes)} over links")


def _cancel(app: App, query: selat.Query) -> None:
    try:
        query.cancel()
    except selat.SelatError as error:
        app.note(f"query {query.id} runs on ({error.message}); `selat query cancel {query.id}` ends it")
    else:
        app.note(f"query {query.id} cancelled")
