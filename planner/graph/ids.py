"""Ids of what runs: the one place where they are printed and read.

A site is no part of an id: a task keeps its name wherever it runs. A channel is named by the task that writes it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple, Self

_VERTEX = re.compile(r"([^./]+)\.p([0-9]+)", re.ASCII)
_TASK = re.compile(r"([^./]+)\.([^./]+)\.([pd])([0-9]+)(?:\.g([1-9][0-9]*))?", re.ASCII)


class VertexId(NamedTuple):
    """A vertex of one query's graph: one of the parallel tasks of a stage, before anything runs it."""

    stage: str
    partition: int = 0
    """Of a stage that runs at every site of its relation, the number of the site in the stage's order."""

    def __str__(self) -> str:
        return f"{self.stage}.p{self.partition}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """The id that was printed as that text.

        Raises:
            ValueError: it is no id of a vertex.
        """
        found = _VERTEX.fullmatch(text)
        if found is None:
            raise ValueError(f"{text!r} is no id of a vertex; one is like s1.p0")
        return cls(found[1], int(found[2]))


class TaskId(NamedTuple):
    """A task, and the channel that it writes: `q-0001-a1b2c3.s1.p0`, or `q-0001-a1b2c3.s1.d0.g1`."""

    query: str
    """That brought the task. Others may need it when this query is over."""
    stage: str
    partition: int = 0
    derived: bool = False
    """The task makes its rows of another task's channel, in the place of the vertex's own task. Both may exist."""
    generation: int = 0
    """How many tasks were in this place before it, each of which handed over to the next."""

    def __str__(self) -> str:
        text = f"{self.query}.{self.stage}.{'d' if self.derived else 'p'}{self.partition}"
        return f"{text}.g{self.generation}" if self.generation else text

    @classmethod
    def of(cls, query: str, vertex: VertexId, *, derived: bool = False) -> Self:
        """The first task of a vertex of that query."""
        return cls(query, vertex.stage, vertex.partition, derived)

    @classmethod
    def parse(cls, text: str) -> Self:
        """The id that was printed as that text.

        Raises:
            ValueError: it is no id of a task.
        """
        found = _TASK.fullmatch(text)
        if found is None:
            raise ValueError(f"{text!r} is no id of a task; one is like q-0001-a1b2c3.s1.p0")
        query, stage, kind, partition, generation = found.groups()
        return cls(query, stage, int(partition), kind == "d", int(generation or 0))

    @property
    def vertex(self) -> VertexId:
        """What the task stands for in its query's graph."""
        return VertexId(self.stage, self.partition)


def log_fields(text: str) -> Mapping[str, str]:
    """Query and stage of the task of that id, for lines of a log; none when it is no task's."""
    try:
        task = TaskId.parse(text)
    except ValueError:
        return {}
    return {"query": task.query, "stage": task.stage}
