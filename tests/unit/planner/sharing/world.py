"""Queries that come one after the other, and what each runs and shares."""

from __future__ import annotations

from planner.graph.plan import DraftPlan
from planner.sharing.deployment import Deployment, Start, deployment_of, is_apart, sites_of
from planner.sharing.deployment import told_apart as told
from planner.sharing.modes import Sharing
from planner.sharing.plans import Setting
from planner.sharing.running import MutableRunning
from planner.sharing.schedule import share
from planner.sharing.wan import Wan
from tests.unit.planner.build import topology_of
from tests.unit.planner.sharing.build import vertices
from tests.unit.planner.sharing.names import vid

SITES = ("us", "eu", "ap")
TOPOLOGY = topology_of(*SITES, links={(a, b): (1e9, 10) for a in SITES for b in SITES if a != b})

COUNTS = "SELECT window(ts, '10 seconds') AS win, k, count(*) AS n FROM s GROUP BY k, window(ts, '10 seconds')"
HAVING = f"{COUNTS} HAVING count(*) > 3"
RENAMED = "SELECT window(ts, '10 seconds') AS win, k, count(*) AS hits FROM s GROUP BY k, window(ts, '10 seconds')"
OTHER = "SELECT k, v FROM f WHERE v > 5"
ROWS = "SELECT k, v FROM s WHERE v > 5"
SWAPPED = "SELECT v AS k, k AS v FROM s WHERE v > 5"
JOINED = "SELECT s.k, t.name FROM s JOIN t ON s.k = t.k"
FEWER = "SELECT k FROM s WHERE v > 5 AND k < 3"
QUERIES = (COUNTS, HAVING, RENAMED, OTHER, ROWS, SWAPPED, JOINED, FEWER)


class World:
    """Queries that come one after the other."""

    def __init__(self) -> None:
        self.running = MutableRunning()
        self.deployments: dict[str, Deployment] = {}

    def submit(self, sql: str | DraftPlan, *, mode: Sharing = Sharing.SANA, start: Start = Start.HISTORY) -> Deployment:
        query = f"q-{len(self.deployments)}"
        made = self.plan(query, sql, mode, start)
        self.running.add(query, made.deployed, sites_of(made, {}), made.used)
        self.deployments[query] = made
        return made

    def plan(self, query: str, sql: str | DraftPlan, mode: Sharing, start: Start) -> Deployment:
        asked = told(tuple(vertices(sql, owner=query).values()), query)
        setting = Setting(self.running, Wan(TOPOLOGY), frozenset(SITES), mode, placed={vid("m1"): "eu"})
        return deployment_of(share(query, asked, setting), asked, self.running, start=start)

    def describe(self, *texts: str) -> None:
        """Tell the running what the queries so far compute: stored operators have no forms."""
        for query, sql in zip(self.deployments, texts, strict=True):
            own = [one for one in self.running.deployed if one.id.query == query and not is_apart(one)]
            forms = {one.id: vertices(sql)[one.vertex.id].form for one in own}
            self.running = self.running.described({name: form for name, form in forms.items() if form is not None})
