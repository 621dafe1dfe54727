"""Defines what agents report of handovers: how far one task has come in taking the place of another."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from selat.v1 import site_pb2


@dataclass(frozen=True, slots=True)
class HandoverReport:
    """Says how far a handover has come at the site of one of its two tasks; each claim is durable there."""

    seeded: bool = False
    """The task that hands over has published its checkpoint for the successor."""
    cut: bool = False
    """Its channel has ended in favour of the successor."""
    last_epoch: int | None = None
    """The last epoch of the channel that was cut; None: it never had one."""
    drained: bool = False
    """All readers of the channel that was cut have acknowledged every epoch, and the end."""
    first_epochs: Mapping[str, int] = field(default_factory=dict)
    """For each input, it is the oldest epoch that the successor's site holds, or will get."""
    restored: bool = False
    """It has stored a checkpoint of its own, made of the predecessor's."""
    caught_up: bool = False
    """It has read what its inputs hold, but for the newest epochs."""
    taken_over: bool = False
    """Its channel goes on where the predecessor's ended."""
    whole_after_us: int | None = None
    """Of a task that began in the middle of its inputs: it has emitted, or will emit, all windows that end later."""

    @property
    def next_epoch(self) -> int:
        """The first epoch of the successor's channel, where the predecessor's was cut."""
        return 0 if self.last_epoch is None else self.last_epoch + 1


def handover_to_proto(report: HandoverReport) -> site_pb2.HandoverStatus:
    return site_pb2.HandoverStatus(
        seeded=report.seeded,
        cut=report.cut,
        last_epoch=report.last_epoch,
        drained=report.drained,
        first_epochs=report.first_epochs,
        restored=report.restored,
        caught_up=report.caught_up,
        taken_over=report.taken_over,
        whole_after_us=report.whole_after_us,
    )


def handover_from_proto(message: site_pb2.HandoverStatus) -> HandoverReport:
    return HandoverReport(
        seeded=message.seeded,
        cut=message.cut,
        last_epoch=message.last_epoch if message.HasField("last_epoch") else None,
        drained=message.drained,
        first_epochs=dict(sorted(message.first_epochs.items())),
        restored=message.restored,
        caught_up=message.caught_up,
        taken_over=message.taken_over,
        whole_after_us=message.whole_after_us if message.HasField("whole_after_us") else None,
    )
