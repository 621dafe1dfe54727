"""A site on which tasks of batch queries run."""

from __future__ import annotations

import pyarrow as pa

from site_agent.channels.log import ChannelLog
from tests.unit.site_agent.tasks.place import Place


class BatchSite(Place):
    """A place of tasks that run once."""

    def channel(self, name: str, *epochs: pa.Table, ends: bool = True) -> ChannelLog:
        """A channel of this site with these epochs."""
        log = self.store.open(name)
        log.set_consumers(["hub"])
        for epoch, rows in enumerate(epochs):
            log.publish(epoch, rows, watermark_us=None)
        if ends:
            log.finish()
        return log

    async def close(self) -> None:
        await self.router.close()
