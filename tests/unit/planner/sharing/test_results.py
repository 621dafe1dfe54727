"""Sets of queries that share what the planner says give what each gives alone.

DuckDB runs the operators as they would be deployed: each once, over what it reads.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import duckdb
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from planner.estimate.rates import task_rates
from planner.graph.ids import TaskId, VertexId
from planner.graph.plan import DraftPlan, Statistics
from planner.sharing.forms import Form, renamed_columns
from planner.sharing.modes import Sharing
from planner.sharing.plans import Action, Setting
from planner.sharing.running import Deployed, MutableRunning
from planner.sharing.schedule import deploy, share
from planner.sharing.vertices import Vertex, VertexKind
from planner.sharing.wan import Wan
from tests.unit.planner.build import topology_of
from tests.unit.planner.engine import Rows, fetch, load, of_windows, run_draft, to_duckdb
from tests.unit.planner.sharing.build import vertices
from tests.unit.planner.sharing.names import tid
from tests.unit.planner.sharing.test_containment import STREAM, described, plain
from tests.unit.planner.sharing.test_fingerprints import in_words, meanings
from tests.unit.planner.test_semantics import streams

SITES = ("us", "eu", "ap")


class Cluster:
    """Queries, what the planner deployed for them, and the outputs of the operators as tables."""

    def __init__(self, db: duckdb.DuckDBPyConnection, stream: Mapping[str, list[Rows]]) -> None:
        self.db, self.stream = db, stream
        self.running = MutableRunning()
        self.drafts: dict[str, DraftPlan] = {}
        self.vertices: dict[str, dict[VertexId, Vertex]] = {}
        self.ends: dict[str, TaskId] = {}
        self.tables: dict[TaskId, str] = {}

    def submit(self, sql: str, sharing: Sharing, spare: Mapping[tuple[str, str], float]) -> str:
        query = f"q{len(self.drafts)}"
        draft = self.drafts[query] = described(self.db, sql)
        found = self.vertices[query] = vertices(draft, rates=task_rates(draft, Statistics()), owner=query)
        setting = Setting(self.running, Wan(topology_of(*SITES), spare), frozenset(SITES), sharing)
        plan = share(query, tuple(found.values()), setting)
        deploy(plan, self.running)
        end = next(v.id for v in found.values() if v.kind is VertexKind.RESULTS)
        decision = plan.decision(end)
        shared = decision.operator if decision.action is Action.SHARED else None
        self.ends[query] = shared or TaskId.of(query, end)
        return query

    def results(self, query: str) -> list[tuple[Any, ...]]:
        """A query's rows, in its own columns."""
        own = self.vertices[query]
        stage = self.drafts[query].result_stage
        form = next(v.form for v in own.values() if v.stage == stage)
        assert form is not None
        sources = map(self.running.task, self.running.task(self.ends[query]).inputs)
        parts = [self.as_named(form, operator) for operator in sources]
        return fetch(self.db, " UNION ALL ".join(parts))

    def as_named(self, form: Form, operator: Deployed) -> str:
        """The output of an operator under the names of another form of the same."""
        assert operator.vertex.form is not None
        items = [f'"{own}" AS "{name}"' for name, own in renamed_columns(form, operator.vertex.form).items()]
        return f"SELECT {', '.join(items)} FROM {self.output(operator)}"

    def output(self, operator: Deployed) -> str:
        if operator.id not in self.tables:
            table = f"op_{len(self.tables)}"
            self.tables[operator.id] = table
            self.db.execute(f"CREATE OR REPLACE TABLE {table} AS {self._rows(operator, table)}")
        return self.tables[operator.id]

    def _rows(self, operator: Deployed, table: str) -> str:
        stage = self.drafts[operator.id.query].stage(operator.vertex.stage)
        if operator.residual:
            (source,) = operator.inputs
            read = self.output(self.running.task(source))
            self.db.execute(f"CREATE OR REPLACE TABLE input AS SELECT * FROM {read}")
            return to_duckdb(operator.residual)
        if operator.vertex.kind is VertexKind.SOURCE:
            site = self.running.site(operator.id)
            epochs = self.stream[site]
            for number, rows in enumerate(epochs):
                load(self.db, "input", STREAM, [{**row, "site": site} for row in rows])
                self.db.execute(f"CREATE OR REPLACE TABLE {table}_{number} AS {to_duckdb(stage.sql)}")
            return " UNION ALL ".join(f"SELECT * FROM {table}_{number}" for number in range(len(epochs)))
        own = self.vertices[operator.id.query]
        parts = []
        for vertex, name in zip(operator.vertex.inputs, operator.inputs, strict=True):
            form = own[vertex].form
            assert form is not None
            parts.append(self.as_named(form, self.running.task(name)))
        assert stage.merge is not None
        self.db.execute(f"CREATE OR REPLACE TABLE input AS {of_windows(' UNION ALL '.join(parts), stage.merge)}")
        return to_duckdb(stage.sql)


spares = st.dictionaries(
    st.sampled_from([(a, b) for a in SITES for b in SITES if a != b]), st.sampled_from([0.0, 2e4, 1e5]), max_size=6
)


@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data(), stream=streams, pool=st.lists(meanings, min_size=1, max_size=2), rows=plain)
def test_shared_queries_give_what_each_gives_alone(
    db: duckdb.DuckDBPyConnection, data: st.DataObject, stream: dict[str, list[Rows]], pool: list[Any], rows: str
) -> None:
    cluster = Cluster(db, stream)
    texts = {}
    for _ in range(data.draw(st.integers(2, 4))):
        sql = data.draw(st.just(rows) | st.sampled_from(pool).flatmap(in_words))
        sharing = data.draw(st.sampled_from([Sharing.SANA, Sharing.SANA, Sharing.MAX_SHARE, Sharing.STRICT]))
        texts[cluster.submit(sql, sharing, data.draw(spares))] = sql
    if data.draw(st.booleans()):
        # What the others use of the first one stays.
        cluster.running.remove("q0")
        texts.pop("q0")
    for query in texts:
        assert cluster.results(query) == run_draft(db, cluster.drafts[query], {"s": stream})
        assert set(cluster.running.users(cluster.ends[query])) >= {query}


COUNTS = "SELECT window.start AS ws, k, w, count(*) AS n, max(v) AS m FROM s GROUP BY window(ts, '10 seconds'), k, w"
FAMILY = (
    "SELECT n AS c, w AS word, k AS key, ws FROM (" + COUNTS + ") AS d",
    COUNTS + " HAVING count(*) > 1",
    COUNTS + " QUALIFY rank() OVER (PARTITION BY window ORDER BY n DESC) <= 2",
    "SELECT window.start AS ws, w, count(*) AS n FROM s GROUP BY w, window(ts, '20 seconds')",
    "SELECT window.start AS ws, k, max(v) AS m FROM s WHERE w = 'a' GROUP BY k, window(ts, '10 seconds')",
    "SELECT window.start AS ws, count(*) AS n FROM s WHERE site <> 'eu' GROUP BY window(ts, '1 minute')",
)


@settings(max_examples=3, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(stream=streams, order=st.permutations(FAMILY))
def test_a_family_of_queries_over_one_aggregate(
    db: duckdb.DuckDBPyConnection, stream: dict[str, list[Rows]], order: list[str]
) -> None:
    cluster = Cluster(db, stream)
    for sql in (COUNTS, *order):
        query = cluster.submit(sql, Sharing.SANA, {})
        assert cluster.results(query) == run_draft(db, cluster.drafts[query], {"s": stream})
    # Only the first reads the stream.
    sources = [name for name in cluster.tables if name.stage == "s1" and not cluster.running.task(name).residual]
    assert sorted(sources) == [tid("q0/s1.p0"), tid("q0/s1.p1"), tid("q0/s1.p2")]


@settings(max_examples=3, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(stream=streams)
def test_operators_of_one_form_may_name_their_columns_otherwise(
    db: duckdb.DuckDBPyConnection, stream: dict[str, list[Rows]]
) -> None:
    cluster = Cluster(db, stream)
    sql = "SELECT window.start AS ws, {}, count(*) AS n FROM s WHERE {} GROUP BY window(ts, '10 seconds'), {}"
    cluster.submit(sql.format("k, w", "site = 'us'", "k, w"), Sharing.SANA, {})
    cluster.submit(sql.format("w, k", "site = 'eu'", "w, k"), Sharing.SANA, {})
    query = cluster.submit(sql.format("k", "site <> 'ap'", "k"), Sharing.SANA, {})
    assert cluster.results(query) == run_draft(db, cluster.drafts[query], {"s": stream})
    made_of = {
        name: cluster.running.task(name).inputs for name in cluster.tables if (name.query, name.stage) == ("q2", "s1")
    }
    assert made_of == {tid("q2/s1.d1"): (tid("q0/s1.p0"),), tid("q2/s1.d0"): (tid("q1/s1.p0"),)}
