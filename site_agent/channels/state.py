"""What is known of a channel besides its epochs, and who waits for more of it."""

from __future__ import annotations

from site_agent.base.errors import LostChannelError, UnknownChannelError
from site_agent.base.waiters import Waiters
from site_agent.channels.manifest import EndMark, Standing


class ChannelState:
    """The log changes it, and wakes those that wait."""

    def __init__(self, channel: str, *, end: EndMark | None, standing: Standing | None) -> None:
        self.channel = channel
        self.end = end
        self.standing = standing
        """The standing before the first epoch that was ever here, which no epoch tells."""
        self.lost: LostChannelError | None = None
        """Why later epochs of this copy do not come: its producer does not send them."""
        self.next_epoch = 0
        """The epoch that is to be published next."""
        self._removed = False
        self._waiters = Waiters()

    def wake(self) -> None:
        """Have all who wait look again."""
        self._waiters.wake()

    def remove(self) -> None:
        """The channel is forgotten, for good."""
        self._removed = True

    def set_lost(self, why: LostChannelError | None) -> None:
        """Mark later epochs of this copy as lost because its producer does not send them; None: it does."""
        if self.lost is not why:
            self.lost = why
            self.wake()

    async def wait(self, epoch: int, *, or_standing: bool = False) -> None:
        """Return once `epoch` is published, the channel has ended, or (`or_standing`) its standing before it is known.

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
        """Return if the epoch is here, or may still come, or the channel has ended before it.

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
        """To name the channel, or one of its epochs, in an error."""
        return {"channel": self.channel} if epoch is None else {"channel": self.channel, "epoch": str(epoch)}
