"""Lost channels: decides when a producer has refused a channel for so long that readers must not wait for it."""

from __future__ import annotations

import grpc
import grpc.aio

from contract.trailers import received_detail
from site_agent.base.errors import LostChannelError

PATIENCE_S = 60.0
"""A producer may get its assignment later than its readers, and its agent may still be recovering its channels."""

_REFUSALS = (grpc.StatusCode.NOT_FOUND, grpc.StatusCode.OUT_OF_RANGE, grpc.StatusCode.FAILED_PRECONDITION)
"""The site has no such channel, or it begins after the requested epoch, or ends before it. Damage is not a refusal."""


class Refusals:
    """The refusals of one producer since it last sent anything. A site that does not answer does not refuse."""

    def __init__(self, channel: str, site: str) -> None:
        self._channel = channel
        self._site = site
        self._since_s: float | None = None

    def clear(self) -> None:
        """Forget the refusals: the producer sent something, or did not answer."""
        self._since_s = None

    def add(self, error: BaseException, now_s: float) -> LostChannelError | None:
        """Count one more failed call. Returns the error for readers once the producer has only refused for too long."""
        refusal = error if isinstance(error, grpc.aio.AioRpcError) and error.code() in _REFUSALS else None
        if refusal is None or received_detail(refusal) is None:
            self.clear()
            return None
        if self._since_s is None:
            self._since_s = now_s
        refused_s = now_s - self._since_s
        if refused_s < PATIENCE_S:
            return None
        return LostChannelError(
            f"{self._site} does not send channel {self._channel}, and has refused for {refused_s:.0f} s:"
            f" {refusal.details()}",
            hint="the task that makes it was not given to that site, or its data there was lost; run the query again",
            ids={"channel": self._channel, "site": self._site},
        )
