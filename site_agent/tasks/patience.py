"""Small epochs wait for one another: a job has a cost that does not depend on its rows."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from site_agent.port import Port, Waiting
from site_agent.tasks.held import HeldGroups

EPOCHS_AT_ONCE = 4
"""What came waits for so many epoch intervals at most."""
ROWS_AT_ONCE = 5_000
"""As many rows wait for no others."""


async def let_come(port: Port, held: HeldGroups, *, most_s: float) -> None:
    """Return once what waits at the port is worth a job, ends a window, or has waited for `most_s`.

    Raises:
        ChannelError: as `Port.let_come`.
    """

    def is_enough(waiting: Waiting) -> bool:
        return waiting.rows >= ROWS_AT_ONCE or held.crosses_boundary(waiting.watermark_us)

    with suppress(TimeoutError):
        async with asyncio.timeout(most_s):
            await port.let_come(is_enough)
