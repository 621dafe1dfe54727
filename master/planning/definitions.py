"""CREATE VIEW: checks a view as a query would be checked, then keeps its text."""

from __future__ import annotations

from dataclasses import replace

from master.planning.submission import QueryPlanner
from master.relations.catalog import CatalogManager
from planner.relations.catalog import Column, Relation, RelationKind
from planner.sql.script import parse_script
from planner.sql.statements import CreateView, SelectQuery
from planner.values.errors import InvalidDefinitionError


class ViewDefinitions:
    """Declares views."""

    def __init__(self, catalog: CatalogManager, planner: QueryPlanner) -> None:
        self._catalog = catalog
        self._planner = planner

    async def create(self, statement: CreateView) -> tuple[Relation, bool]:
        """The view, and whether it is new.

        Raises:
            PlannerError: the query cannot be run.
            RelationExistsError: the name is taken.
        """
        columns = tuple(Column(name, "") for name in statement.columns)
        view = Relation(
            statement.name,
            RelationKind.VIEW,
            columns,
            (),
            comment=statement.comment,
            definition=statement.query.text,
        )
        return await self._put(view, statement.query, statement.or_replace, statement.if_not_exists)

    async def declare(self, view: Relation, *, or_replace: bool, if_not_exists: bool) -> tuple[Relation, bool]:
        """The same for a view that does not come from SQL.

        Raises:
            PlannerError: the definition is no query, or one that cannot be run.
            RelationExistsError: the name is taken.
        """
        statements = parse_script(view.definition)
        query = statements[0] if len(statements) == 1 else None
        if not isinstance(query, SelectQuery):
            raise InvalidDefinitionError(
                f"the definition of view {view.name} is not one query",
                found=view.definition[:60],
                hint="A query: SELECT ... FROM ...",
                ids={"relation": view.name},
            )
        declared = replace(view, definition=query.text, bindings=(), event_time=None)
        return await self._put(declared, query, or_replace, if_not_exists)

    async def _put(
        self, view: Relation, query: SelectQuery, or_replace: bool, if_not_exists: bool
    ) -> tuple[Relation, bool]:
        existing = self._catalog.snapshot.find(view.name)
        if if_not_exists and existing is not None and existing.kind is RelationKind.VIEW:
            return existing, False
        checked = await self._planner.check(query)
        if view.name.lower() in checked.views:
            raise InvalidDefinitionError(
                f"view {view.name} would be defined by itself",
                position=query.position,
                found=view.name,
                hint="A view is over streams, tables and other views; recursion is not possible.",
            )
        columns = _columns(view, query, checked.columns)
        return self._catalog.put_view(replace(view, columns=columns), or_replace=or_replace), True


def _columns(view: Relation, query: SelectQuery, found: tuple[Column, ...]) -> tuple[Column, ...]:
    if not view.columns:
        return found
    if len(view.columns) != len(found):
        raise InvalidDefinitionError(
            f"view {view.name} is given {len(view.columns)} names, but its query has {len(found)} columns",
            position=query.position,
            found=view.name,
            hint=f"The columns of the query are {', '.join(column.name for column in found)}.",
        )
    return tuple(Column(own.name, column.type) for own, column in zip(view.columns, found, strict=True))
