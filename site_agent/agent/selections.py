"""Which bins of each channel are copied to this site: those that its tasks read, together."""

from __future__ import annotations

from collections.abc import Mapping

from site_agent.tasks.spec import Assignment, InputSpec


def copied_bins(assignment: Assignment) -> Mapping[str, tuple[int, ...]]:
    """By channel, the bins that are read here; a channel of which anything reads all rows is not in it."""
    found: dict[str, set[int]] = {}
    whole: set[str] = set()
    for item in _inputs(assignment):
        if item.bins:
            found.setdefault(item.channel, set()).update(item.bins)
        else:
            whole.add(item.channel)
    return {channel: tuple(sorted(bins)) for channel, bins in found.items() if channel not in whole}


def reused_channels(assignment: Assignment) -> frozenset[str]:
    """The channels whose readers take rows again that came for other queries."""
    tasks = [task.inputs for task in assignment.tasks if task.reuses]
    results = [result.inputs for result in assignment.results if result.reuses]
    return frozenset(item.channel for inputs in (*tasks, *results) for item in inputs)


def _inputs(assignment: Assignment) -> list[InputSpec]:
    tasks = [item for task in assignment.tasks for item in task.inputs]
    return [*tasks, *(item for result in assignment.results for item in result.inputs)]
