"""Runs what the planner deployed for a set of queries in DuckDB: each operator once, over what it reads.

The same SQL over the same tables is run once for all sets. A text like `2: SELECT ...` is a query in two parts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import duckdb

from planner.estimate.rates import task_rates
from planner.graph.ids import TaskId, VertexId
from planner.graph.plan import DraftPlan, Stage, Statistics
from planner.sharing.forms import Form, renamed_columns
from planner.sharing.modes import Sharing
from planner.sharing.plans import Action, Setting, SharingPlan
from planner.sharing.running import Deployed, MutableRunning
from planner.sharing.schedule import deploy, share
from planner.sharing.vertices import Vertex, VertexKind
from planner.sharing.wan import Wan
from planner.values.names import BIN_COLUMN
from tests.unit.planner.build import topology_of
from tests.unit.planner.engine import Data, fetch, load, of_windows, run_draft, to_duckdb
from tests.unit.planner.sharing.build import CATALOG, vertices
from tests.unit.planner.sharing.test_containment import described

SITES = ("us", "eu", "ap")
TOPOLOGY = topology_of(*SITES)
Spare = Mapping[tuple[str, str], float]
Rows = list[tuple[Any, ...]]

in_duckdb = cache(to_duckdb)


class Lab:
    """Rows, and all that was ever made of them."""

    def __init__(self, db: duckdb.DuckDBPyConnection, data: Data) -> None:
        self.db, self.data = db, data
        self._drafts: dict[str, DraftPlan] = {}
        self._vertices: dict[str, dict[VertexId, Vertex]] = {}
        self._alone: dict[str, Rows] = {}
        self._tables: dict[str, str] = {}
        self._fetched: dict[str, Rows] = {}
        for relation, by_site in data.items():
            declared = [(c.name, c.type) for c in CATALOG.relations[relation].columns]
            for site, epochs in by_site.items():
                for number, rows in enumerate(epochs):
                    born = [{**row, "site": site} for row in rows]
                    load(db, _base(relation, site, number), [*declared, ("site", "STRING")], born)

    def draft(self, sql: str) -> DraftPlan:
        if sql not in self._drafts:
            parts, _, text = sql.rpartition(": ")
            self._drafts[sql] = described(self.db, text, parts=int(parts or 1))
        return self._drafts[sql]

    def vertices(self, sql: str) -> dict[VertexId, Vertex]:
        if sql not in self._vertices:
            draft = self.draft(sql)
            self._vertices[sql] = vertices(draft, rates=task_rates(draft, Statistics()))
        return self._vertices[sql]

    def alone(self, sql: str) -> Rows:
        """What a query gives that shares nothing."""
        if sql not in self._alone:
            deployment = Deployment(self)
            self._alone[sql] = deployment.results(deployment.submit(sql, Sharing.NO_SHARE, {}))
        return self._alone[sql]

    def stage_by_stage(self, sql: str) -> Rows:
        """The same by the other executor of these tests, which knows nothing of vertices."""
        return run_draft(self.db, self.draft(sql), self.data)

    def table(self, sql: str) -> str:
        """A table of what the SQL gives."""
        if sql not in self._tables:
            name = f"op_{len(self._tables)}"
            self.db.execute(f"CREATE OR REPLACE TABLE {name} AS {sql}")
            self._tables[sql] = name
        return self._tables[sql]

    def fetch(self, sql: str) -> Rows:
        if sql not in self._fetched:
            self._fetched[sql] = fetch(self.db, sql)
        return self._fetched[sql]

    def born(self, relation: str, site: str) -> list[str]:
        """Tables of what was born at a site, by epoch."""
        return [_base(relation, site, number) for number in range(len(self.data[relation].get(site, ())))]


def _base(relation: str, site: str, epoch: int) -> str:
    return f"born_{relation}_{site}_{epoch}"


class Deployment:
    """Queries that come and go, and the operators that run for them."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self.running = MutableRunning()
        self.texts: dict[str, str] = {}
        """Of all queries that ever ran."""
        self.plans: dict[str, SharingPlan] = {}
        """Of those that run."""

    def submit(self, sql: str, sharing: Sharing, spare: Spare) -> str:
        query = f"q{len(self.texts)}"
        self.texts[query] = sql
        setting = Setting(self.running, Wan(TOPOLOGY, spare), frozenset(SITES), sharing)
        plan = share(query, tuple(self.lab.vertices(sql).values()), setting)
        deploy(plan, self.running)
        self.plans[query] = plan
        return query

    def cancel(self, query: str) -> None:
        self.running.remove(query)
        del self.plans[query]

    def results(self, query: str) -> Rows:
        """A query's rows, in its own columns."""
        parts = []
        for vertex in self.lab.vertices(self.texts[query]).values():
            if vertex.kind is VertexKind.RESULTS:
                decision = self.plans[query].decision(vertex.id)
                shared = decision.operator if decision.action is Action.SHARED else None
                end = shared or TaskId.of(query, vertex.id)
                assert query in self.running.users(end)
                sources = [self.running.task(name) for name in self.running.task(end).inputs]
                own = [self._own(query, name) for name in vertex.inputs]
                parts += [self._as_named(v, operator) for v, operator in zip(own, sources, strict=True)]
        return self.lab.fetch(" UNION ALL ".join(parts))

    def _own(self, query: str, vertex: VertexId) -> Vertex:
        return self.lab.vertices(self.texts[query])[vertex]

    def _as_named(self, vertex: Vertex, operator: Deployed) -> str:
        """The output of an operator under the names of a vertex that it stands for."""
        names = {name: name for name in vertex.columns}
        other: Form | None = operator.vertex.form
        if vertex.form is not None and other is not None:
            names = renamed_columns(vertex.form, other)
        items = [f'"{own}" AS "{name}"' for name, own in names.items()]
        return f"SELECT {', '.join(items)} FROM {self._output(operator)}"

    def _output(self, operator: Deployed) -> str:
        """The table of all that an operator sends."""
        if operator.residual:
            (source,) = operator.inputs
            read = f"SELECT * FROM {self._output(self.running.task(source))}"
            return self.lab.table(_with({"input": [read]}, operator.residual))
        query = operator.id.query
        stage = self.lab.draft(self.texts[query]).stage(operator.vertex.stage)
        views = self._views(query, stage, operator)
        if stage.merge is not None:
            rows = {view: [of_windows(part, stage.merge) for part in parts] for view, parts in views.items()}
            views |= {view: parts for view, parts in rows.items() if stage.waits_for(view)}
        if stage.relation is None:
            return self.lab.table(_with(views, stage.sql))
        epochs = [
            {**views, "input": [f"SELECT * FROM {t}"]}
            for t in self.lab.born(stage.relation, self.running.site(operator.id))
        ]
        if stage.kind.value == "table":
            # A copy is made of all rows at once.
            epochs = [{**views, "input": [part for epoch in epochs for part in epoch["input"]]}]
        return self.lab.table(" UNION ALL ".join(f"({_with(epoch, stage.sql)})" for epoch in epochs))

    def _views(self, query: str, stage: Stage, operator: Deployed) -> dict[str, list[str]]:
        """SQL of the parts of each view that a stage reads."""
        views: dict[str, list[str]] = {}
        reads = list(zip(operator.vertex.inputs, operator.inputs, strict=True))
        for used in stage.inputs:
            group = [v for v in self.lab.vertices(self.texts[query]).values() if v.stage == used.stage]
            count = sum(not used.same_site or v.pinned == operator.vertex.pinned for v in group)
            for vertex, name in reads[:count]:
                part = self._as_named(self._own(query, vertex), self.running.task(name))
                bins = stage.bins(operator.vertex.id.partition) if stage.waits_for(used.view) else None
                if bins is not None:
                    part += f" WHERE {BIN_COLUMN} BETWEEN {bins.start} AND {bins.stop - 1}"
                views.setdefault(used.view, []).append(part)
            reads = reads[count:]
        assert not reads
        return views


def _with(views: Mapping[str, Sequence[str]], sql: str) -> str:
    listed = ", ".join(f"{name} AS MATERIALIZED ({' UNION ALL '.join(parts)})" for name, parts in views.items())
    return f"WITH {listed} {in_duckdb(sql)}"
