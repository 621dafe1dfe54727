"""Runs the stages of a draft plan in DuckDB, as agents would: per site and epoch, with partials combined and merged."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any

import duckdb
import sqlglot
from sqlglot import exp

from planner.graph.plan import DraftPlan, Merge, MergeView, Pairs, Stage
from planner.values.names import BIN_COLUMN, DUE_COLUMN, INPUT_VIEW, NEW_COLUMN, ROW_COLUMN, WINDOW_END
from planner.values.stages import StageKind

Rows = list[dict[str, Any]]
Data = Mapping[str, Mapping[str, Sequence[Rows]]]
"""Epochs of rows by relation and site."""

MOST_HASHED = 8
"""Values of which `xxhash64` makes one number."""
DUCK_TYPES = {"INT": "INTEGER", "STRING": "VARCHAR"}


def connect() -> duckdb.DuckDBPyConnection:
    db = duckdb.connect()
    db.execute("SET TimeZone = 'UTC'; SET threads = 1")
    db.execute("CREATE MACRO try_divide(a, b) AS CASE WHEN b = 0 THEN NULL ELSE a / b END")
    db.execute("CREATE MACRO w(ts, n) AS time_bucket(to_seconds(n), ts, TIMESTAMP '1970-01-01')")
    # Hashes of 1 differ for INT and BIGINT, as in Spark.
    hashes = []
    for count in range(1, MOST_HASHED + 1):
        names = [f"x{number}" for number in range(count)]
        values = ", ".join(f"{name}, typeof({name})" for name in names)
        hashes.append(f"({', '.join(names)}) AS CAST(hash(({values})) >> 1 AS BIGINT)")
    db.execute(f"CREATE MACRO xxhash64{', '.join(hashes)}")
    db.execute("CREATE MACRO pmod(a, b) AS ((a % b) + b) % b; CREATE MACRO timestamp_micros(n) AS make_timestamp(n)")
    # Starts of all windows of n seconds, one beginning every s seconds, o seconds after 1970 began, that a time is in.
    every = "list_transform(range((n + s - 1) // s), lambda i: w(ts - to_seconds(o), s) + to_seconds(o - s * i))"
    db.execute(f"CREATE MACRO starts(ts, n, s, o) AS list_filter({every}, lambda start: start > ts - to_seconds(n))")
    # Ends of all windows that begin every n seconds, and end s seconds after one another, that a time is in.
    left = "range(1, n // s + 1), lambda i: w(ts, n) + to_seconds(i * s)"
    db.execute(f"CREATE MACRO cumulated(ts, n, s) AS list_filter(list_transform({left}), lambda e: e > ts)")
    # An empty set of an epoch is [], as in Spark.
    db.execute("CREATE MACRO set_of(x) AS coalesce(list(DISTINCT x) FILTER (x IS NOT NULL), [])")
    db.execute("CREATE MACRO union_of(x) AS list_distinct(flatten(list(x)))")
    return db


def to_duckdb(sql: str) -> str:
    """Spark SQL of a stage in DuckDB's words."""
    return sqlglot.parse_one(sql, dialect="spark").transform(in_duckdb).sql(dialect="duckdb")


def in_duckdb(node: exp.Expr) -> exp.Expr:
    """A node of Spark's syntax in DuckDB's words."""
    if isinstance(node, exp.Dot) and isinstance(node.this, exp.Anonymous) and node.this.name.lower() == "window":
        column, *lengths = node.this.expressions
        length, slide, offset = [_seconds(part.name) for part in (lengths * 2)[:2]] + [0]
        if len(lengths) > 2:
            offset = _seconds(lengths[2].name)
        arguments = [column, *map(exp.Literal.number, (length, slide, offset))]
        return exp.Anonymous(this="unnest", expressions=[exp.Anonymous(this="starts", expressions=arguments)])
    if isinstance(node, exp.Select):
        _put_sessions(node)
    if isinstance(node, exp.ArrayUniqueAgg):
        return exp.Anonymous(this="set_of", expressions=[node.this])
    if isinstance(node, exp.ArrayDistinct):
        return exp.Anonymous(this="union_of", expressions=list(node.find_all(exp.Column)))
    if isinstance(node, exp.ArraySize):
        return exp.Anonymous(this="len", expressions=[node.this])
    if isinstance(node, exp.Reduce):
        return exp.Anonymous(this="list_sum", expressions=[node.this])
    if isinstance(node, exp.Struct) and not any(isinstance(part, exp.PropertyEQ) for part in node.expressions):
        return exp.Anonymous(this="row", expressions=node.expressions)
    return node


def _put_sessions(select: exp.Select) -> None:
    """Have a SELECT that groups by `session_window(time, gap)` group by the islands of its rows."""
    groups = select.args["group"].expressions if select.args.get("group") is not None else []
    call = next((g for g in groups if isinstance(g, exp.Anonymous) and g.name.lower() == "session_window"), None)
    if call is None:
        return
    time, gap = (part.sql(dialect="duckdb") for part in call.expressions)
    keys = [key.copy() for key in groups if key is not call]
    by = f"PARTITION BY {', '.join(key.sql(dialect='duckdb') for key in keys) or '1'} ORDER BY {time}, _to"
    before = f"max(_to) OVER ({by} ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)"
    rows = sqlglot.parse_one(
        f"SELECT *, sum(_new) OVER ({by}) AS _island FROM (SELECT *, CASE WHEN {time} <= {before} THEN 0 ELSE 1 END AS "
        f"_new FROM (SELECT *, {time} + CAST({gap} AS INTERVAL) AS _to FROM put_rows) WHERE _to > {time})",
        dialect="duckdb",
    )
    below = select.args["from_"].this
    (table,) = rows.find_all(exp.Table)
    table.replace(below.copy())
    below.replace(exp.Subquery(this=rows, alias=exp.TableAlias(this=exp.to_identifier("islands"))))
    call.replace(exp.column("_island"))
    for column in list(select.find_all(exp.Column)):
        if column.table == "session_window":
            value = f"min({time})" if column.name == "start" else "max(_to)"
            column.replace(sqlglot.parse_one(value, dialect="duckdb"))


def _seconds(text: str) -> int:
    amount, unit = text.split()
    return int(amount) * {"second": 1, "minute": 60, "hour": 3600, "day": 86400}[unit.rstrip("s")]


def load(db: duckdb.DuckDBPyConnection, view: str, declared: Sequence[tuple[str, str]], rows: Rows) -> None:
    fields = ", ".join(f'"{name}" {DUCK_TYPES.get(type_, type_)}' for name, type_ in declared)
    db.execute(f"CREATE OR REPLACE TABLE {view} ({fields})")
    if rows:
        marks = ", ".join("?" for _ in declared)
        db.executemany(f"INSERT INTO {view} VALUES ({marks})", [[row[name] for name, _ in declared] for row in rows])


def run_draft(
    db: duckdb.DuckDBPyConnection, draft: DraftPlan, data: Data, combined: Callable[[int], int] = lambda rows: 0
) -> list[tuple[Any, ...]]:
    """Result rows, sorted. `combined` says how many of the gathered partials are combined before the merge."""
    outputs = {s.id: _table_outputs(db, s, draft, data) for s in draft.stages if s.kind is StageKind.TABLE}
    results: list[tuple[Any, ...]] = []
    for last in (draft.stage(stage_id) for stage_id in draft.result_stages):
        results += _results(db, last, draft, (data, outputs), combined)
    return sorted(results, key=repr)


def run_batch(db: duckdb.DuckDBPyConnection, draft: DraftPlan, data: Data) -> list[tuple[Any, ...]]:
    """Result rows of a batch query, in their order; an epoch of a table that MAPs read stands for a split."""
    outputs = {s.id: _table_outputs(db, s, draft, data) for s in draft.stages if s.kind is StageKind.TABLE}
    last = draft.stage(draft.result_stage)
    views = {used.stage: used.view for used in last.inputs}
    for view in dict.fromkeys(views[stage.id] for stage in draft.map_stages):
        db.execute("DROP TABLE IF EXISTS gathered")
        for stage in draft.map_stages:
            if views[stage.id] == view:
                _run_source(db, stage, draft, (data, outputs))
        db.execute(f"CREATE OR REPLACE TABLE of_{view} AS SELECT * FROM gathered")
    for view in dict.fromkeys(views[stage.id] for stage in draft.map_stages):
        _put_view(db, view, f"SELECT * FROM of_{view}")
    for used in last.inputs:
        if used.stage in outputs:
            _put_view(
                db, used.view, " UNION ALL ".join(f"SELECT * FROM {name}" for name in outputs[used.stage].values())
            )
    return db.execute(to_duckdb(last.sql)).fetchall()


def _results(
    db: duckdb.DuckDBPyConnection,
    last: Stage,
    draft: DraftPlan,
    given: tuple[Data, Mapping[str, dict[str, str]]],
    combined: Callable[[int], int],
) -> list[tuple[Any, ...]]:
    db.execute("DROP TABLE IF EXISTS gathered")
    if last.merge is None:
        _run_source(db, last, draft, given)
        return fetch(db, "SELECT * FROM gathered")
    if last.kind is StageKind.FINAL:
        for used in last.inputs:
            _run_merge(db, draft.stage(used.stage), draft, (given, combined), f"of_{used.stage}")
        for used, view in zip(last.inputs, last.merge.views, strict=True):
            _put_view(db, "gathered", f"SELECT * FROM of_{used.stage}")
            if view.combine_sql:
                _port(db, view.combine_sql, combined)
                _put_view(db, f"of_{used.stage}", "SELECT * FROM held")
        for used in last.inputs:
            _put_view(db, used.view, f"SELECT * FROM of_{used.stage}")
        return fetch(db, to_duckdb(last.sql))
    _run_merge(db, last, draft, (given, combined), "results")
    return fetch(db, "SELECT * FROM results")


def _run_merge(
    db: duckdb.DuckDBPyConnection,
    merge: Stage,
    draft: DraftPlan,
    given: tuple[tuple[Data, Mapping[str, dict[str, str]]], Callable[[int], int]],
    out: str,
) -> None:
    """A table of the rows of all parts of a MERGE."""
    (data, outputs), combined = given
    spec = merge.merge
    assert spec is not None
    senders = {used.stage: draft.stage(used.stage) for used in merge.inputs}
    for sender in senders.values():
        if sender.kind is StageKind.MERGE:
            _run_merge(db, sender, draft, given, f"from_{sender.id}")
    views = spec.views or (MergeView(INPUT_VIEW, spec.combine_sql),)
    for view in views:
        db.execute("DROP TABLE IF EXISTS gathered")
        for used in merge.inputs:
            if used.view == view.view and senders[used.stage].kind is StageKind.MERGE:
                _gather(db, f"SELECT * FROM from_{used.stage}")
            elif used.view == view.view:
                _run_source(db, senders[used.stage], draft, (data, outputs))
        _put_view(db, f"all_{view.view}", "SELECT * FROM gathered")
    db.execute(f"DROP TABLE IF EXISTS {out}")
    for partition in range(merge.parts):
        for view in views:
            bins = merge.bins(partition)
            taken = "" if bins is None else f" WHERE {BIN_COLUMN} BETWEEN {bins.start} AND {bins.stop - 1}"
            _put_view(db, "gathered", f"SELECT * FROM all_{view.view}{taken}")
            if view.combine_sql:
                _port(db, view.combine_sql, combined)
            rows = f"SELECT * FROM {'held' if view.combine_sql else 'gathered'}"
            _put_view(db, f"of_{view.view}", of_windows(rows, spec))
        if spec.pairs is not None and spec.pairs.newest:
            _number_versions(db, spec.pairs, spec.window_column)
        for used in merge.inputs:
            copies = outputs.get(used.stage, {}).values() or [f"of_{used.view}"]
            _put_view(db, used.view, " UNION ALL ".join(f"SELECT * FROM {name}" for name in copies))
        db.execute(f"{f'INSERT INTO {out}' if partition else f'CREATE TABLE {out} AS'} {to_duckdb(merge.sql)}")


def _number_versions(db: duckdb.DuckDBPyConnection, pairs: Pairs, time: str) -> None:
    """Gives each row of the second view a number, and the first view the version of each."""
    first, second = f"of_{pairs.first.view}", f"of_{pairs.second.view}"
    db.execute(f"CREATE OR REPLACE TABLE numbered AS SELECT *, row_number() OVER () AS {ROW_COLUMN} FROM {second}")
    on = [f"a.{own} = b.{key}" for own, key in zip(pairs.second.keys, pairs.first.keys, strict=True)]
    on.append(f"a.{time} {'>' if pairs.strict else '>='} b.{time}")
    chosen = f"SELECT b.*, a.{ROW_COLUMN} FROM numbered AS a ASOF JOIN {first} AS b ON {' AND '.join(on)}"
    db.execute(f"CREATE OR REPLACE TABLE chosen AS {chosen}")
    for view, made in ((first, "chosen"), (second, "numbered")):
        _put_view(db, view, f"SELECT * FROM {made}")


def _run_source(
    db: duckdb.DuckDBPyConnection, source: Stage, draft: DraftPlan, given: tuple[Data, Mapping[str, dict[str, str]]]
) -> None:
    """Adds the output of all epochs at all sites to `gathered`."""
    data, outputs = given
    for site in source.pinned:
        for used in source.inputs:
            sites = [site] if used.same_site else draft.stage(used.stage).pinned
            parts = " UNION ALL ".join(f"SELECT * FROM {outputs[used.stage][s]}" for s in sites)
            _put_view(db, used.view, parts)
        for rows in data[source.relation or ""].get(site, ()):
            _load_input(db, source, draft, (site, rows))
            _gather(db, to_duckdb(source.sql))


def _gather(db: duckdb.DuckDBPyConnection, sql: str) -> None:
    gathered = db.execute("SELECT 1 FROM duckdb_tables() WHERE table_name = 'gathered'").fetchall()
    db.execute(f"{'INSERT INTO gathered' if gathered else 'CREATE TABLE gathered AS'} {sql}")


def of_windows(rows: str, merge: Merge) -> str:
    """The rows of a merge as they come out of its state when all windows have closed: once for each window."""
    if merge.pairs is not None and merge.pairs.newest:
        return rows
    if merge.pairs is not None:
        return f"SELECT *, true AS {NEW_COLUMN}, true AS {DUE_COLUMN} FROM ({rows})"
    if merge.sessions is not None:
        return _of_sessions(rows, merge.window_column, merge.sessions.keys)
    if not merge.panes:
        return rows
    unit, column = timedelta(microseconds=1), f"panes.{merge.window_column}"
    if merge.cumulates:
        step_us, length_us = merge.period // unit, merge.window // unit
        start = f"{column} + to_microseconds((place + 1) * {step_us} - {length_us})"
        places = f"range({length_us // step_us}) AS places(place)"
        still_in = f"epoch_us({column}) % {length_us} + place * {step_us} < {length_us}"
        made = f"panes.* REPLACE ({start} AS {merge.window_column})"
        return f"SELECT {made} FROM ({rows}) AS panes, {places} WHERE {still_in}"
    slide_us, offset_us = merge.period // unit, merge.offset // unit
    behind = f"(epoch_us({column}) - {offset_us}) % {slide_us}"
    start = f"{column} - to_microseconds({behind} + place * {slide_us})"
    places = f"range({-(-merge.window // merge.period)}) AS places(place)"
    still_in = f"{behind} + place * {slide_us} < {merge.window // unit}"
    made = f"panes.* REPLACE ({start} AS {merge.window_column})"
    return f"SELECT {made} FROM ({rows}) AS panes, {places} WHERE {still_in}"


def _of_sessions(rows: str, start: str, keys: Sequence[str]) -> str:
    by = f"PARTITION BY {', '.join(keys) or '1'} ORDER BY {start}, {WINDOW_END}"
    before = f"max({WINDOW_END}) OVER ({by} ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)"
    begun = f"SELECT *, CASE WHEN {start} <= {before} THEN 0 ELSE 1 END AS _new FROM ({rows})"
    island = f"OVER (PARTITION BY {', '.join([*keys, '_island'])})"
    made = f"min({start}) {island} AS {start}, max({WINDOW_END}) {island} AS {WINDOW_END}"
    islands = f"SELECT *, sum(_new) OVER ({by}) AS _island FROM ({begun})"
    return f"SELECT * EXCLUDE (_new, _island) REPLACE ({made}) FROM ({islands})"


def _put_view(db: duckdb.DuckDBPyConnection, view: str, sql: str) -> None:
    db.execute(f"CREATE OR REPLACE TABLE {view} AS {sql}")


def fetch(db: duckdb.DuckDBPyConnection, sql: str) -> list[tuple[Any, ...]]:
    return sorted(db.execute(sql).fetchall(), key=repr)


def _table_outputs(db: duckdb.DuckDBPyConnection, stage: Stage, draft: DraftPlan, data: Data) -> dict[str, str]:
    names = {}
    for site in stage.pinned:
        rows = [row for epoch in data[stage.relation or ""].get(site, ()) for row in epoch]
        _load_input(db, stage, draft, (site, rows))
        names[site] = f"{stage.id}_at_{site}"
        db.execute(f"CREATE OR REPLACE TABLE {names[site]} AS {to_duckdb(stage.sql)}")
    return names


def _load_input(db: duckdb.DuckDBPyConnection, stage: Stage, draft: DraftPlan, born: tuple[str, Rows]) -> None:
    declared = [(c.name, c.type) for c in draft.relations[stage.relation or ""] if c.name in stage.read_columns]
    load(db, "input", [*declared, ("site", "STRING")], [{**row, "site": born[0]} for row in born[1]])


def _port(db: duckdb.DuckDBPyConnection, combine_sql: str, combined: Callable[[int], int]) -> None:
    """`held`: some of the gathered partials combined, the others as they came."""
    (count,) = db.execute("SELECT count(*) FROM gathered").fetchone() or (0,)
    taken = combined(count)
    columns = [row[0] for row in db.execute("DESCRIBE gathered").fetchall() if row[0] != BIN_COLUMN]
    names = ", ".join(columns)
    db.execute(f"CREATE OR REPLACE TABLE numbered AS SELECT {names}, row_number() OVER () AS nr FROM gathered")
    db.execute(f"CREATE OR REPLACE TABLE input AS SELECT {names} FROM numbered WHERE nr <= {taken}")
    db.execute(f"CREATE OR REPLACE TABLE held AS {to_duckdb(combine_sql)}")
    db.execute(f"INSERT INTO held SELECT {names} FROM numbered WHERE nr > {taken}")
