"""What the combining tasks of a site have to send, by the site that reads it; in memory only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from planner.combining.early import Demand, Link
from site_agent.channels.log import ChannelLog
from site_agent.exchange.outbound import Outbound

FRESH_S = 10.0
"""A rate that was measured within so long is taken at its word."""
SILENT_EPOCHS = 3.0
"""A task that has said nothing for so many epochs is not counted with."""


@dataclass(frozen=True, slots=True)
class _Said:
    """What a task last said."""

    log: ChannelLog
    demands: Sequence[Demand]
    until_s: float


class SendPool:
    """Of one site. Belongs to one event loop; any thread may ask.

    Args:
        outbound: what readers elsewhere have stored, and how fast links are. Of a site without one nothing is known.
    """

    def __init__(self, outbound: Outbound | None = None) -> None:
        self._outbound = outbound or Outbound()
        self._said: dict[str, dict[str, _Said]] = {}

    def say(self, reader: str, log: ChannelLog, demands: Sequence[Demand], *, until_s: float) -> None:
        """Note what a task has to send to a site, on the clock of its deadlines; it counts until then."""
        self._said.setdefault(reader, {})[log.id] = _Said(log, demands, until_s)

    def leave(self, channel: str) -> None:
        """The task of this channel has nothing to send any more."""
        self._outbound.forget(channel)
        for tasks in self._said.values():
            tasks.pop(channel, None)

    def others(self, reader: str, channel: str, *, now_s: float) -> list[Sequence[Demand]]:
        """What the other tasks have to send to that site."""
        said = dict(self._said.get(reader, {}))
        return [s.demands for name, s in said.items() if name != channel and s.until_s >= now_s]

    def link(self, reader: str, log: ChannelLog) -> Link | None:
        """The link to that site, as a task with this channel sees it; None: nothing was sent over it yet."""
        rate = self._outbound.rate(reader)
        if rate is None:
            return None
        said = dict(self._said.get(reader, {}))
        logs = {name: one.log for name, one in said.items()} | {log.id: log}
        waiting_bytes = sum(self._waiting(reader, one) for one in logs.values())
        queued_bytes = max(0, round(waiting_bytes - self._outbound.crossed_bytes(reader)))
        return Link(rate.bytes_per_s, rate.age_s <= FRESH_S, queued_bytes)

    def onward_s(self, reader: str, log: ChannelLog) -> float:
        """How long the groups of this channel go on from that site; 0: they stay there, or nothing is known."""
        return self._outbound.onward_s(reader, log.id)

    def _waiting(self, reader: str, log: ChannelLog) -> int:
        """Of a site that does not read just now, all that is kept."""
        stored = self._outbound.stored_before(reader, log.id)
        return log.epochs.bytes_from(log.first_epoch if stored is None else stored)
