"""A cache of Spark's answers."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence

from master.analysis.spark import Analyzer
from planner.relations.catalog import Column, Function

KEPT = 512
"""The number of cached answers; the least recently used one is evicted first."""


class RememberedAnalyzer:
    """Caches which columns a statement yields over given columns: that depends only on Spark and the functions' text.

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
        self._answers: OrderedDict[Hashable, tuple[Column, ...]] = OrderedDict()

    async def analyze(
        self,
        views: Mapping[str, Sequence[Column]],
        statement: str,
        functions: Sequence[Function] = (),
        *,
        load: bool = False,
    ) -> tuple[Column, ...]:
        """See Analyzer. With `load` an agent is always asked: it loads the functions' modules."""
        generation = self._generation()
        if load or generation is None:
            return await self._inner.analyze(views, statement, functions, load=load)
        if generation != self._seen:
            self._seen = generation
            self._answers.clear()
        key = (tuple((name, tuple(columns)) for name, columns in views.items()), statement, tuple(functions))
        answer = self._answers.get(key)
        if answer is None:
            answer = await self._inner.analyze(views, statement, functions)
            if self._seen == generation:
                self._answers[key] = answer
        if key in self._answers:
            self._answers.move_to_end(key)
        while len(self._answers) > self._kept:
            self._answers.popitem(last=False)
        return answer
