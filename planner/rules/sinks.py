"""INSERT INTO: a query's draft, made to end in a sink instead of at the gateway.

The sink's declared columns are matched with the query's by position, as Spark's INSERT does, and the result stage casts
to them; a sink without columns takes the query's. Which casts are made on the way is Spark's ANSI store assignment:
numbers to numbers (an overflow fails the epoch), dates and times to one another, everything plain to STRING.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from difflib import get_close_matches

from planner.graph.expressions import cast
from planner.graph.logical import Insert
from planner.graph.operators import Alias, Named, Project
from planner.graph.plan import DraftPlan, Stage, StageInput, upsert_keys
from planner.relations.catalog import Catalog, Column, Relation, RelationKind
from planner.relations.connectors.parquet import CHANGES
from planner.relations.connectors.table import check_binding
from planner.relations.options import OptionError
from planner.sql.dialect import exp, name_node
from planner.sql.statements import SinkTarget
from planner.values.errors import InvalidDefinitionError, UnknownRelationError, UnsupportedSqlError
from planner.values.names import INPUT_VIEW
from planner.values.stages import StageKind

SINK_ID = "sink"
"""Id of the one SINK stage of a plan."""

_NUMBERS = frozenset({"TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL"})
_TIMES = frozenset({"DATE", "TIMESTAMP", "TIMESTAMP_NTZ"})
_PLAIN = _NUMBERS | _TIMES | {"BOOLEAN", "STRING", "BINARY"}
_ARRAY = re.compile(r"ARRAY<(.+)>")


def find_sink(target: SinkTarget, catalog: Catalog) -> Relation:
    """The sink of that name.

    Raises:
        UnknownRelationError: there is nothing of that name.
        UnsupportedSqlError: it is no sink.
    """
    relation = catalog.find(target.name)
    if relation is None:
        sinks = [r.name for r in catalog.relations.values() if r.kind is RelationKind.SINK]
        close = get_close_matches(target.name, sinks, n=1)
        raise UnknownRelationError(
            f"there is no sink {target.name}",
            position=target.position,
            found=target.name,
            hint=f"Did you mean {close[0]}?" if close else "CREATE SINK declares one; SHOW SINKS lists what there is.",
        )
    if relation.kind is not RelationKind.SINK:
        raise UnsupportedSqlError(
            f"{relation.name} is a {relation.kind.value}, and rows can be inserted into sinks only",
            position=target.position,
            found=target.name,
            hint="CREATE SINK name AT site WITH ('connector' = 'parquet', 'path' = '...') declares one.",
        )
    return relation


def with_sink(draft: DraftPlan, target: SinkTarget, sink: Relation) -> DraftPlan:
    """The draft with a SINK stage behind its result stages, and results in the sink's columns; without their text.

    Args:
        draft: with the types that Spark found.
        target: for the place of errors.
        sink: what `find_sink` gave.

    Raises:
        InvalidDefinitionError: the columns do not fit those of the sink, or its options.
    """
    _check_changes(draft, sink, target)
    columns = sink.columns or draft.columns
    _check_columns(draft.columns, sink, target)
    _check_options(columns, sink, target)
    results = draft.result_stages
    stages = tuple(_into_columns(stage, columns) if stage.id in results else stage for stage in draft.stages)
    inputs = tuple(StageInput(stage, INPUT_VIEW) for stage in results)
    end = Stage(SINK_ID, StageKind.SINK, sink.sites, relation=sink.name, inputs=inputs, columns=columns)
    return replace(
        draft,
        stages=(*stages, end),
        columns=columns,
        logical=Insert(draft.logical, sink.name),
    )


def can_store(source: str, target: str) -> bool:
    """Whether values of a type can be written to a column of another: Spark's ANSI store assignment."""
    source, target = _normal(source), _normal(target)
    if source == target or source == "VOID":
        return True
    arrays = _ARRAY.fullmatch(source), _ARRAY.fullmatch(target)
    if arrays[0] and arrays[1]:
        return can_store(arrays[0].group(1), arrays[1].group(1))
    have, want = source.partition("(")[0], target.partition("(")[0]
    if want == "STRING":
        return have in _PLAIN
    return {have, want} <= _NUMBERS or {have, want} <= _TIMES


def _check_changes(draft: DraftPlan, sink: Relation, target: SinkTarget) -> None:
    """Refuse changes where the sink does not say that it takes them: they would look like rows."""
    if upsert_keys(draft.stages) is None or all(CHANGES.name in binding.options for binding in sink.bindings):
        return
    raise InvalidDefinitionError(
        f"sink {sink.name} takes rows, and a query with EMIT EVERY gives changes",
        position=target.position,
        found=target.name,
        hint=f"CREATE SINK ... WITH (..., '{CHANGES.name}' = 'log') takes them with the columns _op and _at.",
    )


def _check_columns(found: Sequence[Column], sink: Relation, target: SinkTarget) -> None:
    if not sink.columns:
        return
    if len(found) != len(sink.columns):
        raise InvalidDefinitionError(
            f"the query has {_count(found)}, and sink {sink.name} has {_count(sink.columns)}",
            position=target.position,
            found=target.name,
            hint=f"Columns go by their position; the sink's are {_listed(sink.columns)}.",
        )
    for number, (own, wanted) in enumerate(zip(found, sink.columns, strict=True), 1):
        if own.type and not can_store(own.type, wanted.type):
            raise InvalidDefinitionError(
                f"column {number} of the query, {own.name}, is {own.type}, "
                f"and cannot go into column {wanted.name} {wanted.type} of sink {sink.name}",
                position=target.position,
                found=target.name,
                hint=f"Columns go by their position; say CAST(... AS {wanted.type}) where that is meant.",
            )


def _check_options(columns: Sequence[Column], sink: Relation, target: SinkTarget) -> None:
    """Whether the sink's options are right for the columns that it is to get."""
    for binding in sink.bindings:
        try:
            check_binding(replace(sink, columns=tuple(columns)), binding.options)
        except OptionError as error:
            raise InvalidDefinitionError(
                f"sink {sink.name}: {error.message}", position=target.position, found=target.name, hint=error.hint
            ) from error


def _into_columns(stage: Stage, columns: Sequence[Column]) -> Stage:
    """A result stage with a projection that renames and casts, where that is needed."""
    pairs = list(zip(stage.columns, columns, strict=True))
    if all(own.name == wanted.name and _same(own, wanted) for own, wanted in pairs):
        return stage
    items = tuple(Named(wanted.name, _value(own, wanted)) for own, wanted in pairs)
    assert stage.body is not None
    return replace(stage, columns=tuple(columns), body=Project(Alias(stage.body, "results"), items))


def _value(own: Column, wanted: Column) -> exp.Expr:
    column = exp.Column(this=name_node(own.name))
    return column if _same(own, wanted) else cast(column, wanted.type)


def _same(own: Column, wanted: Column) -> bool:
    return _normal(own.type) == _normal(wanted.type)


def _normal(type_: str) -> str:
    return type_.replace(" ", "").upper()


def _count(columns: Sequence[Column]) -> str:
    return f"{len(columns)} column{'' if len(columns) == 1 else 's'}"


def _listed(columns: Sequence[Column]) -> str:
    return ", ".join(f"{c.name} {c.type}".strip() for c in columns)
