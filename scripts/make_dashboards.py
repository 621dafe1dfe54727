"""Writes the dashboards for Grafana: `python scripts/make_dashboards.py [--check]`.

A board is a list of panels, a panel what it shows in PromQL. `$query` and `$site` are variables of the board, of which
all values are chosen at first.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

DIRECTORY = Path(__file__).parents[1] / "deploy" / "grafana"
WIDTH, HEIGHT = 12, 8
COLUMNS = 24
RATE = "[$__rate_interval]"


@dataclass(frozen=True, slots=True)
class Curve:
    """An expression, and what its series are called."""

    expr: str
    legend: str
    sparse: bool = False
    """There may be no series while all is well: nothing is priced, pushed or shared."""


@dataclass(frozen=True, slots=True)
class Panel:
    """A plot over time, or with `stat` the last values alone."""

    title: str
    description: str
    unit: str
    curves: Sequence[Curve]
    stat: bool = False


@dataclass(frozen=True, slots=True)
class Board:
    """A dashboard; `variables` are labels, each with a metric that has all values."""

    name: str
    title: str
    panels: Sequence[Panel]
    variables: dict[str, str] = field(default_factory=dict)


def per_s(metric: str, by: str, where: str = "") -> str:
    """The rate of a counter, summed up by labels."""
    return f"sum by ({by}) (rate({metric}{{{where}}}{RATE}))" if where else f"sum by ({by}) (rate({metric}{RATE}))"


def quantile(share: float, metric: str, by: str, where: str = "") -> str:
    """A quantile of a histogram."""
    return f"histogram_quantile({share}, {per_s(f'{metric}_bucket', f'le, {by}' if by else 'le', where)})"


Q, S = 'query=~"$query"', 'site=~"$site"'
LINK = "{{from}} > {{to}}"
TASK = "{{stage}} at {{site}}"

OVERVIEW = Board(
    "overview",
    "Selat: overview",
    (
        Panel("Sites that are heard", "Sites whose agent reported within the heartbeat timeout, and all.", "none", (
            Curve("sum(selat_site_up)", "heard"), Curve("count(selat_site_up)", "all")), stat=True),
        Panel("Queries", "Queries that are not over, by state.", "none", (
            Curve('sum by (state) (selat_queries{state!~"finished|cancelled|failed"})', "{{state}}"),), stat=True),
        Panel("Failed queries", "Queries that failed within the last hour.", "none", (
            Curve('sum(increase(selat_query_transitions_total{to="failed"}[1h]))', "failed"),), stat=True),
        Panel("Tasks in trouble", "Tasks that try an epoch again, wait for their readers, or have failed.", "none", (
            Curve('sum by (state) (selat_task_state{state=~"retrying|back_pressured|failed"})', "{{state}}"),)),
        Panel("Rows read", "By query, from its streams or its first table.", "ops", (
            Curve(per_s("selat_query_rows_in_total", "query"), "{{query}}"),)),
        Panel("Born and crossed", "What sources gave at their sites, and what of it crossed links.", "Bps", (
            Curve("sum(rate(selat_query_input_bytes_total[$__rate_interval]))", "born"),
            Curve("sum(rate(selat_query_wan_bytes_total[$__rate_interval]))", "crossed"))),
        Panel("Price of the WAN", "By the prices of the topology file, for an hour at the present rate.", "none", (
            Curve("sum by (currency) (rate(selat_query_wan_cost_total[$__rate_interval])) * 3600",
                  "{{currency}} an hour", sparse=True),)),
        Panel("Saved by sharing", "What queries would have sent besides, had each run alone.", "Bps", (
            Curve(per_s("selat_query_saved_bytes_total", "query"), "{{query}}"),)),
        Panel("Calls of the master", "How long 99 % of the calls with one answer take at most.", "s", (
            Curve(quantile(0.99, "selat_rpc_duration_seconds", "method"), "{{method}}"),)),
        Panel("The master's disk", "How long 99 % of its changes take until they are on the disk.", "s", (
            Curve(quantile(0.99, "selat_store_commit_duration_seconds", ""), "commit"),)),
    ),
)  # fmt: skip

QUERY = Board(
    "query",
    "Selat: query",
    (
        Panel("State", "The state that the query is in.", "none", (
            Curve(f"selat_query_state{{{Q}}} == 1", "{{query}} {{state}}"),), stat=True),
        Panel("Rows", "Read from streams or the first table, and of the result.", "ops", (
            Curve(per_s("selat_query_rows_in_total", "query", Q), "{{query}} in"),
            Curve(per_s("selat_query_rows_out_total", "query", Q), "{{query}} out"))),
        Panel("Rows that are not counted", "Late, malformed, or left out because others waited for too long.", "ops", (
            Curve(per_s("selat_query_rows_late_total", "query", Q), "{{query}} late"),
            Curve(per_s("selat_query_rows_malformed_total", "query", Q), "{{query}} malformed"),
            Curve(per_s("selat_query_rows_shed_total", "query", Q), "{{query}} left out"))),
        Panel("Age of the watermark", "Now less the event time up to which the result is whole. Of a replay: large.",
              "s", (Curve(f"time() - selat_query_watermark_timestamp_seconds{{{Q}}}", "{{query}}", sparse=True),)),
        Panel("Bytes", "Born at the sites, crossed links, saved by sharing.", "Bps", (
            Curve(per_s("selat_query_input_bytes_total", "query", Q), "{{query}} born"),
            Curve(per_s("selat_query_wan_bytes_total", "query", Q), "{{query}} crossed"),
            Curve(per_s("selat_query_saved_bytes_total", "query", Q), "{{query}} saved"))),
        Panel("Price", "Since the query began, by the prices of the topology file.", "none", (
            Curve(f"selat_query_wan_cost_total{{{Q}}}", "{{query}}, {{currency}}", sparse=True),)),
        Panel("Behind others", "What waits for the query in channels in which others keep up.", "bytes", (
            Curve(f"selat_query_behind_bytes{{{Q}}}", "{{query}}"),)),
        Panel("Tasks: rows taken", "By stage and site.", "ops", (
            Curve(per_s("selat_task_rows_in_total", "stage, site", Q), TASK),)),
        Panel("Tasks: busy", "Share of the last minute spent in epochs.", "percentunit", (
            Curve(f"selat_task_busy_ratio{{{Q}}}", TASK),)),
        Panel("Tasks: not read yet", "Rows that are there and not read, where the connector can tell.", "none", (
            Curve(f"selat_task_lag_rows{{{Q}}}", TASK),)),
        Panel("Merges: delay", "From the end of the newest window that was emitted until it was.", "s", (
            Curve(f"selat_task_emit_delay_seconds{{{Q}}}", TASK),)),
        Panel("Tasks: kept for readers", "Output that readers have still to take.", "bytes", (
            Curve(f"selat_task_retained_bytes{{{Q}}}", TASK),)),
        Panel("Tasks: attempts that failed", "They are tried again, five times in a row at most.", "none", (
            Curve(f"sum by (stage, site) (increase(selat_task_failures_total{{{Q}}}{RATE}))", TASK),)),
        Panel("Batch tasks", "Of a batch query: waiting for a slot, running, done.", "none", (
            Curve(f"selat_query_batch_tasks{{{Q}}}", "{{query}} {{phase}}", sparse=True),)),
    ),
    {"query": "selat_query_info"},
)  # fmt: skip

LINKS = Board(
    "links",
    "Selat: links",
    (
        Panel("Received", "By the agents, over each link.", "Bps", (
            Curve(per_s("selat_link_received_bytes_total", "from, to"), LINK, sparse=True),)),
        Panel("Share of capacity", "Our own use of what it carries; congested from 0.9 on.", "percentunit", (
            Curve("selat_link_used_bytes_per_second / selat_link_capacity_bytes_per_second", LINK),)),
        Panel("Capacity", "What a link carries for us in all; as declared where nothing was measured.", "Bps", (
            Curve("selat_link_capacity_bytes_per_second", LINK),)),
        Panel("Available", "What new transfers would find.", "Bps", (
            Curve("selat_link_available_bytes_per_second", LINK),)),
        Panel("Round trip", "Measured by echoes.", "s", (
            Curve("selat_link_round_trip_seconds", LINK, sparse=True),)),
        Panel("Loss", "Share of echoes lost.", "percentunit", (Curve("selat_link_loss_ratio", LINK),)),
        Panel("Congested", "1: use is near capacity.", "none", (Curve("selat_link_congested", LINK),)),
        Panel("Age of the estimate", "Since the bandwidth was last measured.", "s", (
            Curve("selat_link_estimate_age_seconds", LINK, sparse=True),)),
        Panel("Confidence", "0: nothing was measured.", "percentunit", (
            Curve("selat_link_estimate_confidence_ratio", LINK),)),
        Panel("Price", "For an hour at the present rate, by the prices of the topology file.", "none", (
            Curve("sum by (from, to) (rate(selat_link_received_bytes_total[$__rate_interval])) * 3600 / 1e9"
                  " * on (from, to) group_left (currency) selat_link_price", LINK + " {{currency}}", sparse=True),)),
    ),
)  # fmt: skip

SITE = Board(
    "site",
    "Selat: site",
    (
        Panel("Ready", "1: Spark is warm, the master knows the agent, the disk works.", "none", (
            Curve(f"selat_agent_ready{{{S}}}", "{{site}}"),), stat=True),
        Panel("Tasks", "By state.", "none", (
            Curve(f"sum by (site, state) (selat_task_state{{{S}}})", "{{site}} {{state}}"),)),
        Panel("Epochs", "How long 95 % of the epochs take at most.", "s", (
            Curve(quantile(0.95, "selat_epoch_duration_seconds", "site, kind", S), "{{site}} {{kind}}"),)),
        Panel("Epochs a second", "By kind of stage.", "ops", (
            Curve(per_s("selat_epoch_duration_seconds_count", "site, kind", S), "{{site}} {{kind}}"),)),
        Panel("Heap", "Of the JVMs: used, and how far they may grow.", "bytes", (
            Curve("selat_jvm_heap_used_bytes", "{{instance}} used"),
            Curve("selat_jvm_heap_max_bytes", "{{instance}} most"))),
        Panel("Memory", "Resident, of Python and of the JVM.", "bytes", (
            Curve("selat_agent_resident_bytes", "{{instance}} Python"),
            Curve("selat_jvm_resident_bytes", "{{instance}} JVM"))),
        Panel("Disk", "Kept by the agent, and free.", "bytes", (
            Curve(f"selat_disk_kept_bytes{{{S}}}", "{{site}} kept"),
            Curve(f"selat_disk_free_bytes{{{S}}}", "{{site}} free"))),
        Panel("CPU", "Of the agents' Python processes; their JVMs are processes of their own.", "percentunit", (
            Curve('rate(process_cpu_seconds_total{job="selat-agent"}[$__rate_interval])', "{{instance}}"),)),
        Panel("Logs of pushed streams", "Share of what they may keep.", "percentunit", (
            Curve(f"selat_push_log_size_bytes{{{S}}} / selat_push_log_limit_bytes", "{{stream}} at {{site}}",
                  sparse=True),)),
        Panel("Rows pushed", "By stream.", "ops", (
            Curve(per_s("selat_push_rows_total", "stream, site", S), "{{stream}} at {{site}}", sparse=True),)),
    ),
    {"site": "selat_site_up"},
)  # fmt: skip

SLOTS = Board(
    "slots",
    "Selat: slots",
    (
        Panel("Slots", "By state, all sites together.", "none", (
            Curve("sum by (state) (selat_slots)", "{{state}}"),), stat=True),
        Panel("Slots that are held", "By site.", "none", (
            Curve('sum by (site) (selat_slots{state=~"leased|grace"})', "{{site}}"),)),
        Panel("Waiting", "Requests that wait for a slot of the site.", "none", (
            Curve("selat_slot_waiters", "{{site}}"),)),
        Panel("Grants", "Leases granted a second.", "ops", (
            Curve(per_s("selat_lease_grants_total", "site"), "{{site}}"),)),
        Panel("Expirations", "Leases that were not renewed in time, a second.", "ops", (
            Curve(per_s("selat_lease_expirations_total", "site"), "{{site}}"),)),
    ),
)  # fmt: skip

BOARDS = (OVERVIEW, QUERY, LINKS, SITE, SLOTS)

_SOURCE = {"type": "prometheus", "uid": "${datasource}"}


def document(board: Board) -> str:
    """The board as Grafana reads it."""
    content = {
        "uid": f"selat-{board.name}",
        "title": board.title,
        "tags": ["selat"],
        "editable": True,
        "graphTooltip": 1,
        "refresh": "30s",
        "schemaVersion": 38,
        "time": {"from": "now-1h", "to": "now"},
        "timezone": "utc",
        "templating": {"list": [_datasource(), *(_variable(*item) for item in board.variables.items())]},
        "panels": [_panel(number, panel) for number, panel in enumerate(board.panels)],
    }
    return json.dumps(content, indent=2) + "\n"


def _datasource() -> dict[str, Any]:
    return {"name": "datasource", "label": "Prometheus", "type": "datasource", "query": "prometheus"}


def _variable(label: str, metric: str) -> dict[str, Any]:
    query = f"label_values({metric}, {label})"
    return {
        "name": label,
        "type": "query",
        "datasource": _SOURCE,
        "definition": query,
        "query": {"query": query, "refId": "values"},
        "refresh": 2,
        "sort": 1,
        "multi": True,
        "includeAll": True,
        "allValue": ".*",
        "current": {"selected": True, "text": ["All"], "value": ["$__all"]},
    }


def _panel(number: int, panel: Panel) -> dict[str, Any]:
    across = COLUMNS // WIDTH
    return {
        "id": number + 1,
        "type": "stat" if panel.stat else "timeseries",
        "title": panel.title,
        "description": panel.description,
        "datasource": _SOURCE,
        "gridPos": {"x": number % across * WIDTH, "y": number // across * HEIGHT, "w": WIDTH, "h": HEIGHT},
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "options": {"legend": {"displayMode": "list", "placement": "bottom"}} if not panel.stat else {},
        "targets": [
            {"refId": chr(ord("A") + place), "datasource": _SOURCE, "expr": curve.expr, "legendFormat": curve.legend}
            for place, curve in enumerate(panel.curves)
        ],
    }


FILES = {f"{board.name}.json": document(board) for board in BOARDS}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; exit code 1 when a file is not up to date")
    check = parser.parse_args().check
    DIRECTORY.mkdir(parents=True, exist_ok=True)
    stale = [name for name, text in FILES.items() if not _is(DIRECTORY / name, text)]
    stale += [path.name for path in DIRECTORY.glob("*.json") if path.name not in FILES]
    for name in stale:
        if check:
            print(f"{name} is not up to date: run python scripts/make_dashboards.py")
        elif name in FILES:
            (DIRECTORY / name).write_text(FILES[name])
        else:
            (DIRECTORY / name).unlink()
    return 1 if check and stale else 0


def _is(path: Path, text: str) -> bool:
    return path.exists() and path.read_text() == text


if __name__ == "__main__":
    sys.exit(main())
