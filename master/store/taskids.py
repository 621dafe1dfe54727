"""Migrates the task ids of queries that ended under a version whose task ids ended in a site."""

from __future__ import annotations

import json

from planner.graph.ids import TaskId


def with_task_ids(progress: str) -> str:
    """A query's stored progress, with the tasks of each stage numbered in their order."""
    stored = json.loads(progress)
    ids: dict[str, TaskId] = {}

    def renamed(old: str) -> str:
        if old not in ids:
            query, stage = old.split(".")[:2]
            ids[old] = TaskId(
                query, stage, sum(known.stage == stage and known.query == query for known in ids.values())
            )
        return str(ids[old])

    for task in stored.get("tasks", {}).values():
        task |= {"task_id": renamed(task["task_id"]), "missed_inputs": []}
    for counter in stored.get("counters", ()):
        counter["channel"] = renamed(counter["channel"])
    return json.dumps(stored | {"tasks": {renamed(name): task for name, task in stored.get("tasks", {}).items()}})
