"""Ids as the tests of sharing write them: `m1` and `s1.p2` of vertices, `q-0/m1` and `q-0/s1.d2` of tasks."""

from __future__ import annotations

from planner.graph.ids import TaskId, VertexId


def vid(text: str) -> VertexId:
    return VertexId.parse(text) if "." in text else VertexId(text)


def tid(text: str) -> TaskId:
    query, _, vertex = text.partition("/")
    return TaskId.parse(f"{query}.{vertex}" if "." in vertex else f"{query}.{vertex}.p0")
