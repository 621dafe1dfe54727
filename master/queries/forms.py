"""The forms of running tasks, from their stored plans, for a new query that may read their output."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from master.records.model import QueryRecord
from planner.graph.ids import TaskId
from planner.graph.plan import PhysicalPlan
from planner.relations.catalog import Catalog
from planner.sharing.deployment import is_apart
from planner.sharing.forms import Form
from planner.sharing.running import Running
from planner.sharing.vertices import forms_of


class KnownForms:
    """Caches the forms of running queries: a plan does not change, and computing its forms takes milliseconds."""

    def __init__(self) -> None:
        self._by_query: dict[str, Mapping[str, Form | None]] = {}

    def of(
        self, running: Running, records: Sequence[QueryRecord], catalog: Catalog, reads: Collection[str]
    ) -> Mapping[TaskId, Form]:
        """The forms of the running tasks that read one of these inputs and may be shared.

        Relations of a plan cannot be dropped while it runs, so they are what they were when it was made.
        """
        found: dict[TaskId, Form] = {}
        known = {record.id: record.plan for record in records}
        self._by_query = {query: forms for query, forms in self._by_query.items() if query in known}
        for one in running.deployed:
            if one.vertex.reads in reads and not is_apart(one):
                query = one.id.query
                form = self._forms(query, known[query], catalog).get(one.vertex.stage)
                if form is not None:
                    found[one.id] = form
        return found

    def _forms(self, query: str, plan: PhysicalPlan, catalog: Catalog) -> Mapping[str, Form | None]:
        if query not in self._by_query:
            named = {stage.relation for stage in plan.stages if stage.relation is not None}
            relations = {name: found for name in named if (found := catalog.find(name)) is not None}
            self._by_query[query] = forms_of(plan, relations)
        return self._by_query[query]
