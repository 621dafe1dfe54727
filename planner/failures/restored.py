"""The queries of a restored store that still run: sites have exactly the tasks of theirs that the store says."""

from __future__ import annotations

from collections.abc import Mapping, Set

Tasks = Mapping[str, Mapping[str, Set[str]]]
"""Task ids by query and site."""


def unconfirmed(expected: Tasks, reported: Tasks, heard: Set[str]) -> dict[str, str]:
    """Queries that must not go on, each with the reason.

    A query that ended after the backup has no tasks any more; given out again it would begin anew, and write into its
    sink what is there already. One that was changed after the backup has other tasks.

    Args:
        expected: What the store has the sites run.
        reported: What the sites run.
        heard: Sites that have reported.
    """
    found = {}
    for query, tasks in sorted(expected.items()):
        if reason := _reason(tasks, reported.get(query, {}), heard):
            found[query] = reason
    return found


def _reason(expected: Mapping[str, Set[str]], reported: Mapping[str, Set[str]], heard: Set[str]) -> str:
    if not expected.keys() & heard:
        return "none of its sites was heard, so nobody knows whether it still runs"
    for site in sorted((expected.keys() | reported.keys()) & heard):
        there = reported.get(site, set())
        if not there and expected.get(site):
            return f"site {site} does not run it any more"
        if there != expected.get(site, set()):
            return f"site {site} runs other tasks of it than the backup says"
    return ""
