"""Has a merge of sessions take rows again as it, or its predecessor, took them before a crash.

A row of which it is not known any more whether it was out may be part of a session that is open. So the rows that were
read up to the last epoch of the task's channel are read again before anything else is done; the sessions that end
before that epoch's watermark are out then, and all others open.

Rows were dropped as late at the watermark of that moment. The epochs that they are of are told with each epoch of the
channel, since the last checkpoint: the same rows are dropped again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from site_agent.base.json import Json
from site_agent.channels.manifest import EpochManifest, LateEpochs
from site_agent.port import Origin
from site_agent.tasks.checkpoint import Checkpoint
from site_agent.tasks.emission import Emitted

DROPPED = "dropped"
"""In the commit of an epoch, the `LateEpochs` since the last checkpoint."""


@dataclass(slots=True)
class Retaken:
    """One attempt's knowledge."""

    cursors: Mapping[str, int] = field(default_factory=dict)
    """The cursors at which the last epoch was published."""
    watermark_us: int | None = None
    """The watermark of that epoch; None: nothing was published, or all of that was taken again."""
    _dropped: dict[str, dict[str, int]] = field(default_factory=dict)

    @classmethod
    def after(cls, last: EpochManifest | None, checkpoint: Checkpoint) -> Retaken:
        """Return what is known of the task's last epoch, and of its predecessor where it has published none."""
        succession, told = checkpoint.succession, last.commit.get(DROPPED) if last is not None else None
        emitted = Emitted.from_manifest(last)
        found = cls(emitted.cursors, emitted.closed_us)
        if last is None and succession is not None and succession.taken_over:
            found = cls(succession.taken, succession.closed_us)
        found._add(checkpoint.dropped)
        found._add(succession.dropped if succession is not None else {})
        for channel, epochs in told.items() if isinstance(told, Mapping) else ():
            found._add({channel: {key: int(str(late_us)) for key, late_us in _items(epochs)}})
        return found

    def late_us(self, origin: Origin, closed_us: int | None) -> int | None:
        """Return before which instant rows of an epoch are late; None: before none.

        Args:
            origin: the epoch.
            closed_us: the watermark up to which sessions are out by now.
        """
        if self.watermark_us is None:
            return closed_us
        if origin.epoch < self.cursors.get(origin.channel, 0):
            return self._dropped.get(origin.channel, {}).get(str(origin.epoch))
        return self.watermark_us

    def note(self, origin: Origin, late_us: int | None) -> None:
        """Note that rows of an epoch were late."""
        if late_us is not None:
            self._add({origin.channel: {str(origin.epoch): late_us}})

    def forget(self, cursors: Mapping[str, int]) -> None:
        """Forget what a checkpoint with these cursors has made needless: it is not taken again."""
        for channel, epochs in self._dropped.items():
            first = cursors.get(channel, 0)
            self._dropped[channel] = {epoch: late_us for epoch, late_us in epochs.items() if int(epoch) >= first}

    def is_over(self, cursors: Mapping[str, int]) -> bool:
        """Return whether all that was read before is read again. A channel that has left is not waited for."""
        return all(cursors[channel] >= epoch for channel, epoch in self.cursors.items() if channel in cursors)

    @property
    def dropped(self) -> LateEpochs:
        """Return the epochs of which rows were late."""
        return {channel: dict(epochs) for channel, epochs in self._dropped.items() if epochs}

    def told(self) -> dict[str, Json]:
        """Return what the commit of an epoch says."""
        dropped: dict[str, Json] = {channel: dict(epochs) for channel, epochs in self.dropped.items()}
        return {DROPPED: dropped} if dropped else {}

    def _add(self, dropped: LateEpochs) -> None:
        for channel, epochs in dropped.items():
            self._dropped.setdefault(channel, {}).update(epochs)


def _items(epochs: Json) -> Iterable[tuple[str, Json]]:
    return epochs.items() if isinstance(epochs, Mapping) else ()
