"""The stages of a query over tables that runs whole: what it needs of each table, then its text over that.

MAP      one for each table: the columns that a scan of it needs, of the rows that can matter to one
REDUCE   the query as its author wrote it, over views of the tables' names; columns that were not sent are NULL there

A row that fulfils no scan's conditions changes nothing of the result, and neither does a column that no scan reads:
Spark's optimiser says so of a plan that is equal to the text over all tables, so it holds for any plan of the text. A
column that only conditions read which all rows of a MAP fulfil is not sent, either: in the REDUCE it has a constant
that fulfils them (`witness`). A column that is read through functions alone has a stand-in (`standins`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from planner.bind.rows import kept
from planner.graph import logical
from planner.graph.clientplan import ClientPlan, ClientView
from planner.graph.expressions import cast, columns_of, unqualified
from planner.graph.logical import LogicalOperator
from planner.graph.operators import Aggregate, Definition, Filter, Named, Operator, Project, Scan, Statement
from planner.graph.plan import Stage, StageInput
from planner.graph.whole import KeptBack, Scanned, ScanOfTable, WholeQuery, WholeScan
from planner.relations.catalog import SITE_COLUMN, Column, Relation
from planner.rules.pruning import matching_sites
from planner.rules.pushed import NotPushedError, pushed
from planner.rules.standins import stand_in
from planner.rules.tablestages import MAP, REDUCE
from planner.rules.witness import Value, columns_in, witness
from planner.sql.dialect import exp, name_node, render
from planner.text.spark import spark_sql
from planner.values.names import INPUT_VIEW
from planner.values.ranges import WHOLE_NUMBERS
from planner.values.scans import SparkExpression, TableScan
from planner.values.stages import StageKind

NO_COLUMN = "_one"
"""What is sent of a table of which only the number of rows matters."""

_NAMED = "named"
_SITE = Column(SITE_COLUMN, "STRING")


@dataclass(frozen=True, slots=True)
class WholeStages:
    """The stages, and what EXPLAIN says about them."""

    stages: tuple[Stage, ...]
    scans: tuple[ScanOfTable, ...]
    whole_scans: tuple[WholeScan, ...]
    logical: LogicalOperator
    site_read: frozenset[str]


@dataclass(frozen=True, slots=True)
class _Sent:
    """What is sent of a table."""

    table: Relation
    stage: str
    view: str
    columns: tuple[str, ...]
    where: tuple[exp.Expr, ...]
    scans: tuple[ScanOfTable, ...]
    distinct: bool
    """Rows that are equal are sent once."""
    constants: Mapping[str, exp.Expr]
    """Constants stand for columns that only conditions read, by name."""
    stand_ins: Mapping[str, exp.Expr]
    """Maps a column that only functions read to the expression that the MAP sends in its place."""

    @property
    def sites(self) -> tuple[str, ...]:
        """At least one, so that the stage has a task."""
        sites = tuple(sorted(self.table.sites))
        return matching_sites(sites, self.where, INPUT_VIEW) or sites[:1]


def whole_stages(query: WholeQuery, scanned: Scanned) -> WholeStages:
    """The stages of the query, once Spark has said what its scans must deliver."""
    sent = _sent_of_all(query, scanned)
    tables = [_definition(table, sent, site=query.site_named) for table in query.tables]
    if query.plan is not None:
        return _stages(sent, scanned, _client_reduce(query, query.plan, tables, sent))
    views = [Definition(view.name, Statement(view.sql), view.columns) for view in query.views]
    text, definitions = query.sql, (*tables, *views)
    if query.edits:
        # The names of columns that have none of their own are those of the text as it was written.
        names = tuple(column.name for column in scanned.columns)
        named = Definition(_free(_NAMED, query), Statement(query.sql), names)
        text, definitions = f"SELECT * FROM {named.name}", (*definitions, named)
    reduce = Stage(
        id=REDUCE,
        kind=StageKind.REDUCE,
        body=Statement(text, definitions),
        pinned=(),
        inputs=tuple(StageInput(part.stage, part.view) for part in sent),
    )
    return _stages(sent, scanned, reduce)


def client_views(query: WholeQuery, plan: ClientPlan) -> tuple[ClientView, ...]:
    """Return what a client's plan names besides tables: views of the catalog, then those of its session."""
    return (*(ClientView(view.name, view.sql, columns=view.columns) for view in query.views), *plan.views)


def _client_reduce(query: WholeQuery, plan: ClientPlan, tables: Sequence[Definition], sent: Sequence[_Sent]) -> Stage:
    views = tuple(ClientView(table.name, spark_sql(table.rows)) for table in tables)
    return Stage(
        id=REDUCE,
        kind=StageKind.REDUCE,
        pinned=(),
        inputs=tuple(StageInput(part.stage, part.view) for part in sent),
        client=replace(plan, views=(*views, *client_views(query, plan))),
    )


def _stages(sent: Sequence[_Sent], scanned: Scanned, reduce: Stage) -> WholeStages:
    return WholeStages(
        stages=(*map(_map, sent), reduce),
        scans=tuple(scan for part in sent for scan in part.scans),
        whole_scans=_whole_scans(sent, scanned),
        logical=logical.Whole(tuple(map(_logical, sent))),
        site_read=frozenset(part.stage for part in sent if SITE_COLUMN in _read(part)),
    )


def _whole_scans(sent: Sequence[_Sent], scanned: Scanned) -> tuple[WholeScan, ...]:
    """The scans by their numbers; none where Spark has not said what they are."""
    stages = {part.table.name: part.stage for part in sent}
    return tuple(
        WholeScan(
            scan.table,
            stages[scan.table],
            _conditions(scan)[0],
            scan.filters,
            scan.columns,
            scan.summed,
            scan.counted,
            scan.thresholds,
        )
        for scan in scanned.scans or ()
    )


def _sent_of_all(query: WholeQuery, scanned: Scanned) -> tuple[_Sent, ...]:
    """One for each table that is scanned; of a query whose result depends on no table, one for the first it names."""
    sent: list[_Sent] = []
    for table in query.tables:
        scans = _scans_of(table, query, scanned)
        if scans:
            sent.append(_sent(table, scans, len(sent) + 1, query))
    first = query.tables[:1]
    return tuple(sent) or tuple(_sent(table, [TableScan(table.name, ())], 1, query) for table in first)


def _scans_of(table: Relation, query: WholeQuery, scanned: Scanned) -> list[TableScan]:
    if scanned.scans is None:
        site = (SITE_COLUMN,) if query.site_named else ()
        return [TableScan(table.name, (*(column.name for column in table.columns), *site))]
    return [scan for scan in scanned.scans if scan.table == table.name]


def _sent(table: Relation, scans: Sequence[TableScan], number: int, query: WholeQuery) -> _Sent:
    stage = f"{MAP}{number}" if number > 1 else MAP
    view = _free(f"{INPUT_VIEW}{number}" if number > 1 else INPUT_VIEW, query)
    constants = _constants(table, scans)
    wanted = {name for scan in scans for name in scan.columns} - constants.keys()
    columns = tuple(column for column in (*table.columns, _SITE) if column.name in wanted)
    # A table has one MAP, so each of its scans has to be content with the rows that are different.
    distinct = all(scan.distinct for scan in scans) and told_apart(columns)
    stand_ins = _stand_ins(columns, scans)
    described, wheres = [], []
    for scan in scans:
        where, back = _conditions(scan)
        conditions = tuple(render(unqualified(part)) for part in where)
        read = tuple(name for name in scan.columns if name not in constants)
        others = tuple((name, render(unqualified(stand_ins[name]))) for name in read if name in stand_ins)
        described.append(ScanOfTable(stage, table.name, read, conditions, back, distinct, stand_ins=others))
        wheres.append(where)
    names = tuple(column.name for column in columns)
    return _Sent(
        table, stage, view, names, _any_of(wheres), tuple(dict.fromkeys(described)), distinct, constants, stand_ins
    )


def _stand_ins(columns: Iterable[Column], scans: Sequence[TableScan]) -> dict[str, exp.Expr]:
    """Return what is sent instead of columns that every scan which has them reads through functions alone."""
    found: dict[str, exp.Expr] = {}
    for column in columns:
        functions: list[SparkExpression] | None = []
        for scan in scans:
            own = dict(scan.functions).get(column.name) if column.name in scan.columns else ()
            functions = [*functions, *own] if functions is not None and own is not None else None
        other = stand_in(column.name, column.type.upper(), functions) if functions else None
        if other is not None:
            found[column.name] = other
    return found


def _constants(table: Relation, scans: Sequence[TableScan]) -> dict[str, exp.Expr]:
    """Return constants for columns that only conditions read which each scan has and the MAP evaluates.

    A condition that reads another column as well needs the row's own value.
    """
    alone = set.intersection(*(set(scan.only_in_conditions) for scan in scans)) - {SITE_COLUMN}
    conditions = [[(part, set(columns_in(part)) & alone) for part in scan.conditions] for scan in scans]
    shared = set.intersection(*({part for part, read in found if read} for found in conditions))
    before: set[str] | None = None
    while before != alone:
        before = set(alone)
        for found in conditions:
            for part, read in found:
                if not set(columns_in(part)) <= alone or part not in shared or not _is_pushed(part):
                    alone -= read
    types = {column.name: column.type.upper() for column in table.columns if column.name in alone}
    parts = [part for part in scans[0].conditions if set(columns_in(part)) & alone]
    return {name: cast(_literal(value), types[name]) for name, value in witness(parts, types).items()}


def _is_pushed(condition: SparkExpression) -> bool:
    try:
        pushed(condition)
    except NotPushedError:
        return False
    return True


def _literal(value: Value) -> exp.Expr:
    if isinstance(value, bool):
        return exp.Boolean(this=value)
    return exp.Null() if value is None else exp.Literal.string(str(value))


def told_apart(columns: Sequence[Column]) -> bool:
    """Return whether there are columns, and two rows with equal values in them cannot be told apart.

    Not so for floats: 0.0 and -0.0 are one group.
    """
    exact = (*WHOLE_NUMBERS, "BOOLEAN", "DATE", "TIMESTAMP", "STRING")
    return bool(columns) and all(column.type in exact or column.type.startswith("DECIMAL") for column in columns)


def _conditions(scan: TableScan) -> tuple[tuple[exp.Expr, ...], tuple[KeptBack, ...]]:
    """The conditions that are evaluated at the sites, and why not the others."""
    found, back = [], []
    for condition in scan.conditions:
        try:
            found.append(pushed(condition))
        except NotPushedError as error:
            back.append(KeptBack(condition.sql, str(error)))
    return tuple(found), tuple(back)


def _any_of(wheres: Iterable[tuple[exp.Expr, ...]]) -> tuple[exp.Expr, ...]:
    """The conditions of rows that one scan or another needs."""
    ways = list(dict.fromkeys(wheres))
    if len(ways) == 1:
        return ways[0]
    common = [part for part in ways[0] if all(part in way for way in ways)]
    rests = [[part for part in way if part not in common] for way in ways]
    if all(rests):
        common.append(exp.or_(*(exp.and_(*rest) for rest in rests)))
    return tuple(common)


def _map(sent: _Sent) -> Stage:
    items = tuple(Named(name, sent.stand_ins.get(name) or exp.Column(this=name_node(name))) for name in sent.columns)
    rows = kept(Scan(INPUT_VIEW), sent.where)
    read = _read(sent)
    return Stage(
        id=sent.stage,
        kind=StageKind.MAP,
        body=Aggregate(rows, tuple(item.expression for item in items), items)
        if sent.distinct
        else Project(rows, items or (Named(NO_COLUMN, exp.Literal.number(1)),)),
        pinned=sent.sites,
        relation=sent.table.name,
        read_columns=tuple(c.name for c in sent.table.columns if c.name in read) or (sent.table.columns[0].name,),
    )


def _read(sent: _Sent) -> set[str]:
    return {*sent.columns, *columns_of(sent.where, INPUT_VIEW)}


def _definition(table: Relation, sent: Sequence[_Sent], *, site: bool) -> Definition:
    """All columns of a table, over what was sent of it; of a table that is not scanned, without rows."""
    own = next((part for part in sent if part.table == table), None)
    source = own or sent[0]
    items = tuple(Named(column.name, _column(column, own)) for column in (*table.columns, *([_SITE] if site else [])))
    rows: Operator = Scan(source.view)
    if own is None:
        rows = Filter(rows, (exp.Boolean(this=False),))
    return Definition(table.name, Project(rows, items))


def _column(column: Column, sent: _Sent | None) -> exp.Expr:
    if sent is not None and column.name in sent.columns:
        return exp.Column(this=name_node(column.name))
    if sent is not None and column.name in sent.constants:
        return sent.constants[column.name]
    return cast(exp.Null(), column.type)


def _free(name: str, query: WholeQuery) -> str:
    """The name, with something behind it when a table or view of the query has it."""
    session = (view.name for view in query.plan.views) if query.plan is not None else ()
    names = (*(table.name for table in query.tables), *(view.name for view in query.views), *session)
    taken = {name.lower() for name in names}
    while name in taken:
        name += "_"
    return name


def _logical(sent: _Sent) -> LogicalOperator:
    left_out = sorted(set(sent.table.sites) - set(sent.sites))
    rows: LogicalOperator = logical.Scan(sent.table.name, sent.sites, tuple(left_out))
    if sent.where:
        rows = logical.Filter(rows, tuple(map(unqualified, sent.where)))
    return logical.Project(rows, tuple(Named(name, exp.Column(this=name_node(name))) for name in sent.columns))
