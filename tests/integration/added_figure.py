"""A program: what is seen of a task's figure `rows_spilled`, from the task's own measurement on. Prints it as JSON.

The test that starts it puts a `contract` with that figure in its table before the project's own.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

from click.testing import CliRunner

import selat
from contract.figures import markdown, values_of
from contract.tasks import TaskState
from selat.cli import cli
from selat.v1 import site_pb2
from site_agent.agent.convert import status_to_proto
from site_agent.agent.metrics import AgentMetrics, SiteFigures
from site_agent.tasks.progress import Progress, TaskStatus
from tests.integration.master_cluster import CREATE, Cluster, running_cluster


async def main(directory: Path) -> None:
    async with running_cluster(directory) as cluster:
        await cluster.execute(CREATE)
        query = await cluster.run()
        task = cluster.agents["us"].assignments[-1].tasks[0]
        progress = Progress(0.0)
        progress.measure(rows_spilled=7)
        status = TaskStatus(
            task.task_id, query, task.stage_id, TaskState.RUNNING, "", **values_of(progress.figures(1.0))
        )
        await report(cluster, status)
        seen = await asyncio.to_thread(at_the_client, cluster.address, query)
        metrics = [
            f"{sample.name} {sample.value}"
            for family in AgentMetrics([lambda: SiteFigures("us", tasks=(status,))]).families()
            for sample in family.samples
        ]
        sys.stdout.write(json.dumps(seen | {"metrics": metrics, "docs": markdown()}))


async def report(cluster: Cluster, status: TaskStatus) -> None:
    """The site's report, as its agent sends it."""
    version = cluster.agents["us"].assignments[-1].version
    message = site_pb2.ReportRequest(
        site="us",
        incarnation=cluster.agents["us"].incarnation,
        assignment_version=version,
        tasks=[status_to_proto(status, "us")],
    )
    await cluster.sites.Report(message)


def at_the_client(address: str, query: str) -> dict[str, object]:
    """The value in Python, and what the command prints."""

    def run(*arguments: str) -> str:
        return CliRunner().invoke(cli, ["--master", address, *arguments], env={"COLUMNS": "400"}).output

    with selat.connect(address) as client:
        value = [values_of(task) for task in client.query(query).info().tasks if task.site == "us"]
    return {
        "value": value[0]["rows_spilled"],
        "table": run("-o", "table", "query", "show", query),
        "json": json.loads(run("-o", "json", "query", "show", query)),
        "analyze": run("-o", "table", "query", "explain", query, "--analyze"),
        "analyze_json": json.loads(run("query", "explain", query, "--analyze", "--json")),
    }


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
