"""A cache of Spark's answers."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from functools import partial
from typing import TypeVar

from master.analysis.spark import Analyzer
from planner.graph.clientplan import ClientPlan
from planner.graph.whole import Scanned
from planner.relations.catalog import Column, Function

Answer = TypeVar("Answer")

KEPT = 512
"""The number of cached answers of each kind; the least recently used one is evicted first."""


class RememberedAnalyzer:
    """Caches which columns a statement yields over given columns, and what its scans must deliver.

    That depends only on Spark and the functions' text.

    Refusals are not remembered: they are rare, and may be those of a site that has an older Spark.

    Args:
        generation: What is the same as long as the same agents answer; a change forgets everything. None: nobody is
            there to answer, and what is remembered does not count.
    """

    def __init__(self, inner: Analyzer, generation: Callable[[], Hashable | None], *, kept: int = KEPT) -> None:
        self._inner = inner
        self._generation = generation
        self._kept = kept
        self._seen: Hashable | None = None
        self._columns: OrderedDict[Hashable, tuple[Column, ...]] = OrderedDict()
        self._scans: OrderedDict[Hashable, Scanned] = OrderedDict()

    async def analyze(
        self,
        views: Mapping[str, Sequence[Column]],
        statement: str,
        functions: Sequence[Function] = (),
        *,
        load: bool = False,
    ) -> tuple[Column, ...]:
        """See Analyzer. With `load` an agent is always asked: it loads the functions' modules."""
        if load:
            return await self._inner.analyze(views, statement, functions, load=load)
        ask = partial(self._inner.analyze, views, statement, functions)
        return await self._remembered(self._columns, _key(views, statement, functions), ask)

    async def scans(
        self,
        tables: Mapping[str, Sequence[Column]],
        statement: str,
        functions: Sequence[Function] = (),
        *,
        client: ClientPlan | None = None,
    ) -> Scanned:
        """See Analyzer. What is said of clients' plans is not cached: they may hold rows."""
        if client is not None:
            return await self._inner.scans(tables, statement, functions, client=client)
        ask = partial(self._inner.scans, tables, statement, functions)
        return await self._remembered(self._scans, _key(tables, statement, functions), ask)

    async def _remembered(
        self, answers: OrderedDict[Hashable, Answer], key: Hashable, ask: Callable[[], Awaitable[Answer]]
    ) -> Answer:
        generation = self._generation()
        if generation is None:
            return await ask()
        if generation != self._seen:
            self._seen = generation
            self._columns.clear()
            self._scans.clear()
        answer = answers.get(key)
        if answer is None:
            answer = await ask()
            if self._seen == generation:
                answers[key] = answer
        if key in answers:
            answers.move_to_end(key)
        while len(answers) > self._kept:
            answers.popitem(last=False)
        return answer


def _key(views: Mapping[str, Sequence[Column]], statement: str, functions: Sequence[Function]) -> Hashable:
    return tuple((name, tuple(columns)) for name, columns in views.items()), statement, tuple(functions)
