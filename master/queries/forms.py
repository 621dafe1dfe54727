"""What the operators of running queries compute, read from their stored plans when a new query may be made of them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from master.records.model import QueryRecord
from planner.graph.plan import PhysicalPlan
from planner.relations.catalog import Catalog
from planner.sharing.deployment import is_apart
from planner.sharing.forms import Form
from planner.sharing.running import Running
from planner.sharing.vertices import forms_of


class KnownForms:
    """Remembers the forms of the queries that run: a plan does not change, and reading its SQL takes milliseconds."""

    def __init__(self) -> None:
        self._by_query: dict[str, Mapping[str, Form | None]] = {}

    def describe(
        self, running: Running, records: Sequence[QueryRecord], catalog: Catalog, reads: Collection[str]
    ) -> None:
        """Give forms to the running operators that read one of these, but for those that nobody may share.

        Relations of a plan cannot be dropped while it runs, so they are what they were when it was made.
        """
        known = {record.id: record.plan for record in records}
        self._by_query = {query: forms for query, forms in self._by_query.items() if query in known}
        for operator in running.operators:
            if operator.vertex.reads in reads and not is_apart(operator):
                query = operator.id.query
                form = self._forms(query, known[query], catalog).get(operator.vertex.stage)
                if form is not None:
                    running.describe(operator.id, form)

    def _forms(self, query: str, plan: PhysicalPlan, catalog: Catalog) -> Mapping[str, Form | None]:
        if query not in self._by_query:
            named = {stage.relation for stage in plan.stages if stage.relation is not None}
            relations = {name: found for name in named if (found := catalog.find(name)) is not None}
            self._by_query[query] = forms_of(plan, relations)
        return self._by_query[query]
