"""Moves of tasks from site to site while their queries run."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import Enum

from selat.client.calls import Calls
from selat.convert.times import to_datetime
from selat.v1 import handover_pb2 as pb


class MoveStep(Enum):
    """Says how far a move has come."""

    REGISTERED = "registered"
    """The producers of the task's inputs are to keep what they have for the new task."""
    STARTED = "started"
    """The new task subscribes to the inputs."""
    SEEDING = "seeding"
    """The old task sends its state, and the new one catches up."""
    CUT = "cut"
    """The old task is to end its channel between two epochs."""
    TAKEN = "taken"
    """The new task goes on; the old channel is read to its end."""
    WITHDRAWN = "withdrawn"
    """The order to end the channel was taken back, and may have been followed already."""
    BACK = "back"
    """The new task goes; the old one runs on."""
    MOVED = "moved"
    ROLLED_BACK = "rolled_back"
    ENDED = "ended"
    """All queries that need the task were over before the move was."""
    UNKNOWN = "unknown"

    @property
    def over(self) -> bool:
        return self in (MoveStep.MOVED, MoveStep.ROLLED_BACK, MoveStep.ENDED)


_STEPS = {pb.MoveStep.Value(f"MOVE_STEP_{step.name}"): step for step in MoveStep if step is not MoveStep.UNKNOWN}


@dataclass(frozen=True, slots=True)
class TaskMove:
    """The move of one task."""

    query_id: str
    stage: str
    """It has the form `m1.p0`."""
    from_site: str
    to_site: str
    step: MoveStep
    asked_at: datetime
    since: datetime
    """It is the time at which the move came to this step."""
    reason: str
    """Why it was asked for; of one that was rolled back, why that."""
    scaled_stage: str = ""
    """The merge of which the new task reads other parts; empty: it reads what the old one reads."""
    part_sites: tuple[str, ...] = ()
    """It has the site of each of these parts."""
    without_state: bool = False
    """The new task gets no state; it is known while the move is under way."""
    alone: bool = False
    """The query gets a task of its own, in the place of one that it shares; false: the task moves for all queries."""
    combined_by: str = ""
    """It has the tasks that combine what the new task reads, where they are others; empty: they are not."""
    shared_with: str = ""
    """It has the task that the query shares again, in the place of its own; empty: it shares none again."""


def task_move(message: pb.TaskMove) -> TaskMove:
    return TaskMove(
        query_id=message.query_id,
        stage=message.stage,
        from_site=message.from_site,
        to_site=message.to_site,
        step=_STEPS.get(message.step, MoveStep.UNKNOWN),
        asked_at=to_datetime(message.asked_at_us),
        since=to_datetime(message.since_us),
        reason=message.reason,
        scaled_stage=message.scaled_stage,
        part_sites=tuple(message.part_sites),
        without_state=message.without_state,
        alone=message.alone,
        combined_by=message.combined_by,
        shared_with=message.shared_with,
    )


class MoveCalls(Calls):
    """Moves of tasks."""

    def move_task(
        self, query: str, stage: str, to_site: str, *, without_state: bool = False, alone: bool = False
    ) -> TaskMove:
        """Have a task of a running query go on at another site; returns once that is stored.

        Args:
            query: its id, the beginning of it, or its name.
            stage: one that has one task, as `m1`; or one of its tasks, as `m1.p2`.
            to_site: where it is to go on.
            without_state: the new task begins in the middle of the inputs, and takes over once the old one has emitted
                the windows that were open; of a MERGE that reads no table.
            alone: the stage is one for which another query's task stands. This query goes on with a task of its own,
                which gets no state, and the others go on as before.

        Raises StatementError (HANDOVER_REFUSED) when it cannot be moved there now, NotFound for an unknown query.
        """
        request = pb.MoveTaskRequest(
            query=query, stage=stage, to_site=to_site, without_state=without_state, alone=alone
        )
        return task_move(self._session.ask(self._session.handovers.MoveTask, request).move)

    def share_again(self, query: str, stage: str, site: str = "") -> TaskMove:
        """Have a query share the task again from which one of its own was split; returns once that is stored.

        Args:
            query: its id, the beginning of it, or its name.
            stage: one for which it has a task of its own since `move_task(..., alone=True)`, as `m1`.
            site: where its epochs are to be made of those of the shared task; empty: where they are read.

        Raises StatementError (HANDOVER_REFUSED) when it cannot share it now, NotFound for an unknown query.
        """
        request = pb.MoveTaskRequest(query=query, stage=stage, to_site=site, together=True)
        return task_move(self._session.ask(self._session.handovers.MoveTask, request).move)

    def scale_stage(self, query: str, stage: str, parts: int, sites: Sequence[str] = ()) -> TaskMove:
        """Have a merge of a running query go on in another number of parts; returns once that is stored.

        Args:
            query: its id, the beginning of it, or its name.
            stage: a merge that was planned in parts and has a FINAL stage behind it, as `m1`.
            parts: how many.
            sites: where they go, in turn; none: where those are that run now.

        The move that is returned is that of the FINAL task. Raises StatementError (HANDOVER_REFUSED) when the merge
        cannot have these parts now, NotFound for an unknown query.
        """
        request = pb.ScaleStageRequest(query=query, stage=stage, parts=parts, sites=sites)
        return task_move(self._session.ask(self._session.handovers.ScaleStage, request).move)

    def combine_query(self, query: str, tree: str = "auto") -> TaskMove:
        """Have the sites of a running query combine their partials of a window; returns once that is stored.

        Args:
            query: its id, the beginning of it, or its name.
            tree: over which sites combined groups go, as `SET combine_tree` has it.

        The move that is returned is that of the merge. Raises StatementError (HANDOVER_REFUSED) when the query cannot
        go on so now, NotFound for an unknown query.
        """
        request = pb.CombineQueryRequest(query=query, tree=tree)
        return task_move(self._session.ask(self._session.handovers.CombineQuery, request).move)

    def call_off_move(self, query: str, stage: str) -> TaskMove:
        """Roll the move of a task back, unless the old task has handed over already; returns the move as it is then.

        Raises StatementError (HANDOVER_REFUSED) when it is not moving, NotFound for an unknown query.
        """
        request = pb.CallOffMoveRequest(query=query, stage=stage)
        return task_move(self._session.ask(self._session.handovers.CallOffMove, request).move)

    def moves(self, query: str = "") -> list[TaskMove]:
        """Return the current, else the last move of each task that was ever moved; an empty `query` means all queries.

        Raises NotFound for an unknown query.
        """
        request = pb.ListMovesRequest(query=query)
        return [task_move(m) for m in self._session.ask(self._session.handovers.ListMoves, request).moves]

    def follow_move(self, move: TaskMove, *, every_s: float = 0.25) -> Iterator[TaskMove]:
        """The move now, and whenever it comes to another step, until it is over."""
        last: TaskMove | None = None
        while True:
            same = (m for m in self.moves(move.query_id) if (m.stage, m.asked_at) == (move.stage, move.asked_at))
            now = next(same, None)
            if now is None:
                return
            if last is None or now.step is not last.step:
                yield now
            if now.step.over:
                return
            last = now
            time.sleep(every_s)
