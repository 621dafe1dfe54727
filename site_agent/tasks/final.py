"""FINAL: the windows of the parts of merges in, what needs the groups of all parts out.

It is a merge of rows that were merged already: a window closes when every part has emitted it. Unlike a merge it waits
for idle parts, too. All parts read the same sources, so an idle one has merely not read yet what woke the others, and
its rows of windows that they have emitted are still to come.
"""

from __future__ import annotations

from site_agent.tasks.context import TaskContext
from site_agent.tasks.merge import MergeTask
from site_agent.tasks.spec import WindowSpec


class FinalTask(MergeTask):
    """The loop of a FINAL stage."""

    def __init__(self, context: TaskContext, window: WindowSpec) -> None:
        super().__init__(context, window, waits_for_idle=True)
