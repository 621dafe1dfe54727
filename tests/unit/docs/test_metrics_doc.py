"""docs/metrics.md lists all metrics; dashboards and alerts know no others; each alert has its section."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from contract import figures
from machine.metrics import Kind, Metric, markdown
from master.metrics import MASTER_METRICS
from site_agent.agent.metrics import AGENT_METRICS

ROOT = Path(__file__).parents[3]
BOARDS = sorted((ROOT / "deploy" / "grafana").glob("*.json"))
ALERTS = ROOT / "deploy" / "prometheus" / "alerts.yml"
DOCUMENT = (ROOT / "docs" / "metrics.md").read_text()
OPERATIONS = (ROOT / "docs" / "operations.md").read_text()


def known() -> set[str]:
    names = set()
    for metric in (*MASTER_METRICS, *AGENT_METRICS):
        ends = ("_bucket", "_count", "_sum") if metric.kind is Kind.HISTOGRAM else ("",)
        names |= {metric.name + end for end in ends}
    return names


def used(expression: str) -> set[str]:
    return set(re.findall(r"\bselat_\w+", expression))


def rules() -> list[dict[str, Any]]:
    return [rule for group in yaml.safe_load(ALERTS.read_text())["groups"] for rule in group["rules"]]


@pytest.mark.parametrize("table", [MASTER_METRICS, AGENT_METRICS], ids=["master", "agent"])
def test_the_tables_are_those_of_the_code(table: tuple[Metric, ...]) -> None:
    assert markdown(table) in DOCUMENT


def test_the_table_of_figures_is_that_of_the_code() -> None:
    assert figures.markdown() in DOCUMENT


def test_no_label_is_a_text_of_users_but_names() -> None:
    labels = {label for metric in (*MASTER_METRICS, *AGENT_METRICS) for label in metric.labels}
    assert labels == {
        *("query", "stage", "site", "from", "to", "kind", "state", "phase", "role", "version"),
        *("name", "gateway", "stream", "currency", "service", "method", "code"),
    }


@pytest.mark.parametrize("board", BOARDS, ids=lambda path: path.stem)
def test_a_dashboard_uses_metrics_that_there_are(board: Path) -> None:
    content = json.loads(board.read_text())
    assert "__inputs" not in content
    assert len(content["uid"]) <= 40
    assert content["panels"]
    for panel in content["panels"]:
        assert panel["description"], panel["title"]
        for target in panel["targets"]:
            assert target["datasource"]["uid"] == "${datasource}"
            assert used(target["expr"]) <= known(), panel["title"]


def test_each_alert_uses_metrics_that_there_are() -> None:
    for rule in rules():
        assert used(rule["expr"]) <= known(), rule["alert"]
        assert rule["labels"]["severity"] in ("warning", "critical")
        assert rule["annotations"]["summary"]


def test_each_alert_has_its_section_and_each_section_its_alert() -> None:
    names = [rule["alert"] for rule in rules()]
    assert [rule["annotations"]["runbook"] for rule in rules()] == [
        f"docs/operations.md#{name.lower()}" for name in names
    ]
    section = OPERATIONS.partition("\n## Alerts\n")[2].partition("\n## ")[0]
    assert re.findall(r"^### (.*)$", section, re.MULTILINE) == names


def test_the_tests_of_the_alerts_know_all_of_them() -> None:
    tests = yaml.safe_load(ALERTS.with_name("alerts_test.yml").read_text())["tests"]
    fired = {label for sample in tests[0]["promql_expr_test"][0]["exp_samples"] for label in [sample["labels"]]}
    assert fired == {f'{{alertname="{rule["alert"]}"}}' for rule in rules()}
