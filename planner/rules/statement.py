"""The whole of a statement: its branches, and what else is known of it once it is bound."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from planner.bind.compose import bind_statement
from planner.bind.gathered import STATEMENT, Gathered, Text
from planner.bind.logical import LogicalQuery
from planner.bind.tablequery import bind_batch, rests_on_tables
from planner.graph.operators import Operator
from planner.graph.plan import DraftPlan, StatementText
from planner.relations.catalog import Catalog, Column, Function, Relation
from planner.rules.logical_lines import logical_lines, rows_lines
from planner.rules.table_lines import table_lines
from planner.rules.tablestages import batch_stages
from planner.rules.windowjoin import window_join_lines
from planner.sql.qualify import without_qualify
from planner.sql.source import Source
from planner.sql.statements import SelectQuery
from planner.values.edits import edited


@dataclass(frozen=True, slots=True)
class LogicalStatement:
    """A query of any form, every name bound."""

    source: Source
    branches: tuple[LogicalQuery, ...]
    """Those of a UNION ALL at the top, else one."""
    relations: Mapping[str, Relation]
    """Streams and tables that are read, by name."""
    site_named: frozenset[str]
    """Relations whose `site` is named."""
    texts: tuple[StatementText, ...]
    """The definitions of views, each after those it uses, then the query itself."""
    unions: Mapping[str, Mapping[str, Operator]]
    """Statements that tell the types of unions' columns, by union."""
    functions: tuple[Function, ...]
    """Python functions that the query and its views call, by name."""
    notes: tuple[str, ...]
    """What became of derived tables."""

    def lines(self) -> tuple[str, ...]:
        """The logical plan for EXPLAIN.

        Raises:
            InvalidDefinitionError: no site is left to read from.
        """
        return tuple(self._lines())

    def _lines(self) -> Iterator[str]:
        indent = "  " if len(self.branches) > 1 else ""
        if indent:
            yield "UnionAll"
        for branch in self.branches:
            yield from (indent + line for line in logical_lines(branch, _rows))
        yield from (f"({note})" for note in self.notes)


def _rows(query: LogicalQuery) -> tuple[str, ...]:
    return rows_lines(query) if query.join_window is None else window_join_lines(query)


def build_logical(
    select: SelectQuery, catalog: Catalog, types: Mapping[str, Sequence[Column]] | None = None
) -> LogicalStatement:
    """The meaning of a query.

    Args:
        select: the query as parsed.
        catalog: all streams, tables and views.
        types: of the columns of unions, as far as they are known; see `DraftPlan.unions`.

    Raises:
        PlannerError: with the place.
    """
    gathered = Gathered(catalog, types or {})
    branches = bind_statement(select.tree, select.source, gathered)
    return LogicalStatement(
        source=select.source,
        branches=branches,
        relations=gathered.relations,
        site_named=frozenset(gathered.site_named),
        texts=_texts(gathered),
        unions={name: union.statements for name, union in gathered.unions.items()},
        functions=_functions(gathered),
        notes=tuple(gathered.notes),
    )


def draft_tables(
    select: SelectQuery, catalog: Catalog, types: Mapping[str, Sequence[Column]] | None = None
) -> DraftPlan | None:
    """The stages of a batch query; None: it reads streams. Arguments as of `build_logical`.

    Raises:
        PlannerError: with the place.
    """
    gathered = Gathered(catalog, types or {})
    if not rests_on_tables(select.tree, select.source, gathered):
        return None
    rows = bind_batch(select.tree, select.source, gathered)
    plan = batch_stages(rows)
    assert plan.reduce is not None
    return DraftPlan(
        text=select.text,
        stages=plan.stages,
        result_stage=plan.reduce.id,
        columns=tuple(Column(output.name, "") for output in rows.outputs),
        logical=(*table_lines(rows), *(f"({note})" for note in gathered.notes)),
        shapes={},
        site_named=frozenset(gathered.site_named),
        relations={name: relation.columns for name, relation in gathered.relations.items()},
        unions={name: union.statements for name, union in gathered.unions.items()},
        texts=_texts(gathered),
        functions=_functions(gathered),
        batch=True,
        site_read=frozenset(plan.site_read),
    )


def _functions(gathered: Gathered) -> tuple[Function, ...]:
    return tuple(gathered.functions[name] for name in sorted(gathered.functions))


def _texts(gathered: Gathered) -> tuple[StatementText, ...]:
    return tuple(_text(name, text, star=bool(gathered.site_named)) for name, text in gathered.texts.items())


def _text(name: str, text: Text, *, star: bool) -> StatementText:
    edits = (*without_qualify(text.source), *text.equal_windows.values(), *(text.stars.values() if star else ()))
    return StatementText(
        view=name,
        text=text.source.text,
        sql=edited(text.source.text, edits),
        edits=edits,
        relations=tuple(sorted(text.relations)),
        position=None if name == STATEMENT else text.source.position(0),
    )
