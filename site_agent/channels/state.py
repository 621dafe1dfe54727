"""Whether more epochs of a channel can come, and who waits for them."""

from __future__ import annotations

from site_agent.base.errors import LostChannelError, UnknownChannelError
from site_agent.base.waiters import Waiters
from site_agent.channels.manifest import EndMark, Standing


class ChannelState:
    """Changed by the log, which wakes those who wait."""

    def __init__(self, channel: str, *, end: EndMark | None, standing: Standing | None) -> None:
        self.channel = channel
        self.end = end
        self.standing = standing
        """The standing before the first epoch that was ever here, which no epoch holds."""
        self.lost: LostChannelError | None = None
        """Why later epochs of this copy do not come: the producer refuses to send them."""
        self.next_epoch = 0
        """The epoch that is to be published next."""
        self._removed = False
        self._waiters = Waiters()

    def wake(self) -> None:
        """Wake all who wait, to check again."""
        self._waiters.wake()

    def remove(self) -> None:
        """Mark the channel as removed."""
        self._removed = True

    def set_lost(self, why: LostChannelError | None) -> None:
        """Set the error of readers that wait for later epochs: the producer refuses to send them; None: it
        sends them."""
        if self.lost is not why:
            self.lost = why
            self.wake()

    async def wait(self, epoch: int, *, or_standing: bool = False) -> None:
        """Return once `epoch` is published, the channel has ended, or (`or_standing`) its standing before `epoch` is
        known.

        Raises:
            UnknownChannelError: the channel was removed.
            LostChannelError: its producer does not send it.
        """

        def settled() -> bool:
            known = or_standing and self.standing is not None and self.standing.next_epoch == epoch
            gone = self._removed or self.end is not None or self.lost is not None
            return known or self.next_epoch > epoch or gone

        await self._waiters.until(settled)
        self.check_can_come(epoch)

    def check_can_come(self, epoch: int) -> None:
        """Return if the epoch is here or may still come, or the channel ended before it.

        Raises:
            UnknownChannelError: the channel was removed.
            LostChannelError: its producer does not send it.
        """
        self.check_exists()
        if self.lost is not None and epoch >= self.next_epoch and self.end is None:
            raise self.lost

    def check_exists(self) -> None:
        """Raises UnknownChannelError when the channel was removed."""
        if self._removed:
            raise UnknownChannelError(f"channel {self.channel} was removed", ids={"channel": self.channel})

    def ids(self, epoch: int | None = None) -> dict[str, str]:
        """The ids that an error about the channel, or one of its epochs, names."""
        return {"channel": self.channel} if epoch is None else {"channel": self.channel, "epoch": str(epoch)}
