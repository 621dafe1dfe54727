"""TABLE: one table's needed rows and columns at this site, read once and published as one epoch."""

from __future__ import annotations

from site_agent.connectors import Table
from site_agent.dead_letters import DeadLetters
from site_agent.engine import EpochRequest, EpochResult
from site_agent.errors import SiteAgentError
from site_agent.tasks.context import TaskContext
from site_agent.tasks.progress import Sample, TaskState, Totals


class TableTask:
    """Publishes epoch 0 and ends its channel."""

    def __init__(self, context: TaskContext, table: Table) -> None:
        self._context = context
        self._table = table

    async def run(self) -> None:
        """Read and publish, unless an earlier run did.

        Raises:
            SiteAgentError: the table is larger than what may be copied.
        """
        context = self._context
        context.progress.enter(TaskState.RUNNING)
        if context.log.next_epoch == 0:
            started_s = context.clock.monotonic()
            result = await context.in_slot(lambda: context.engine.run(self._request()))
            self._refuse_large(result)
            totals = Totals(
                rows_in=result.rows_read, rows_out=result.table.num_rows, rows_malformed=result.rows_malformed
            )
            manifest = await context.in_thread(
                lambda: context.log.publish(0, result.table, watermark_us=None, commit={"totals": totals.to_json()})
            )
            finished_s = context.clock.monotonic()
            context.progress.epoch_done(
                Sample(
                    finished_s,
                    finished_s - started_s,
                    totals.rows_in,
                    totals.rows_out,
                    manifest.size_bytes,
                    held_bytes=result.table.get_total_buffer_size(),
                    operators=result.operators,
                )
            )
        self._restore_totals()
        context.log.finish()
        context.progress.enter(TaskState.ENDED)

    async def close(self) -> None:
        """Nothing is held open."""

    def _request(self) -> EpochRequest:
        spec = self._context.spec
        name = spec.relation.name if spec.relation else ""
        letters = DeadLetters(
            self._context.dead_letters, relation=name, site=self._context.site, clock=self._context.clock
        )
        return EpochRequest(
            spec.task_id,
            spec.sql,
            self._table.scan(),
            self._context.site,
            malformed=letters.sink(0),
            functions=spec.functions,
        )

    def _refuse_large(self, result: EpochResult) -> None:
        limit = self._context.limits.table_copy_bytes
        size = result.table.get_total_buffer_size()
        if size > limit:
            spec = self._context.spec
            name = spec.relation.name if spec.relation else spec.task_id
            raise SiteAgentError(
                f"table {name} needs {size} bytes for this join, more than the {limit} that may be copied",
                hint="use fewer columns or rows, or bind the table at the stream's sites and join on a.site = b.site",
                ids={"task": spec.task_id},
            )

    def _restore_totals(self) -> None:
        manifest = self._context.log.last_manifest
        if manifest is not None:
            totals = Totals.from_json(manifest.commit.get("totals")).plus(bytes_out=manifest.size_bytes)
            self._context.progress.restore(totals, None)
