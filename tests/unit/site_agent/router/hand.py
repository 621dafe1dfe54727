"""Links whose time passes when somebody waits for it."""

from __future__ import annotations

import asyncio

from site_agent.router.pacing import LinkPace


class HandClock:
    """Seconds that pass when somebody waits for them."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


class HandPace(LinkPace):
    """Waits on a `HandClock`."""

    def __init__(self, bandwidth_bytes_per_s: float, latency_s: float, clock: HandClock) -> None:
        super().__init__(bandwidth_bytes_per_s, latency_s, now_s=clock)
        self._clock = clock

    async def wait_until(self, due_s: float) -> None:
        # Whatever else can happen now does, before time passes.
        for _ in range(10):
            await asyncio.sleep(0)
        self._clock.now_s = max(self._clock.now_s, due_s)
