"""The state of each channel that feeds a port, and the order in which the port takes their epochs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from contract.tasks import ReadFrom
from site_agent.base.errors import TrimmedEpochError
from site_agent.channels.log import ChannelLog
from site_agent.channels.manifest import Standing
from site_agent.port.watermark import InputWatermark


@dataclass(frozen=True, slots=True)
class PortInput:
    """One channel, and the site that produces it."""

    channel: str
    site: str
    view: str = ""
    """The name of the view that its rows, and those of its successors, belong to."""
    read_from: ReadFrom = ReadFrom.OWN
    event_delay_us: int = 0
    """How much later than an epoch's watermark the events of its rows may be."""
    bins: tuple[int, ...] = ()
    """The bins of whose rows it is taken; empty: all rows."""
    with_bins: bool = False
    """Rows come with the column `_bin`, where their bins are known."""
    from_epoch: int = 0
    """The first epoch that the channel ever has, because it continues another one."""
    behind_us: int = 0
    """The event times of its later rows may be so much before its watermark."""

    def watermark_us(self, standing: Standing) -> int | None:
        """Return before which instant no event time of a later row is, by what the channel says."""
        return None if standing.watermark_us is None else standing.watermark_us - self.behind_us


@dataclass(frozen=True, slots=True)
class Origin:
    """Where rows come from, and the view that they belong to."""

    channel: str
    epoch: int
    view: str


@dataclass(slots=True)
class InputState:
    """A channel that feeds the port."""

    source: PortInput
    log: ChannelLog
    cursor: int
    """The next epoch to take."""
    resumed: bool
    """True: epochs before the cursor were taken, so that none may be missing after it."""
    says: InputWatermark = field(default_factory=InputWatermark)
    ended: bool = False
    """Everything before the end mark was taken."""
    last_turn: int = 0
    unheard: bool = True
    """Nothing was taken from it since the port started, and its standing is unknown."""
    missed: bool = False
    """It must not be read: its first epochs were removed, or this site's copy lacks bins that are wanted."""
    given_up: bool = False
    """It was missed, and no epoch is retained for this reader any more."""
    joining: bool = False
    """Its first epochs were removed, and none of the others was taken yet."""
    incomplete_until_us: int | None = None
    """Rows with event times up to here may be among the removed ones."""
    taken_rows: int = 0
    """Since the port joined it."""

    def settle(self) -> None:
        """Skip the epochs that the channel no longer kept when the port joined, and adopt its standing.

        Raises:
            TrimmedEpochError: epochs are missing in the middle.
            UnknownChannelError: the channel was removed.
            LostChannelError: its producer does not send the next epoch.
        """
        if not (self.ended or self.missed):
            self.log.state.check_can_come(self.cursor)
        self._skip()
        standing = self.log.standing if self.unheard and not (self.ended or self.missed) else None
        if standing is not None and standing.next_epoch == self.cursor:
            self.hear(standing)

    def hear(self, standing: Standing) -> None:
        """Adopt the channel's standing before the epoch at the cursor; without a watermark, the previous one holds."""
        said_us = self.source.watermark_us(standing)
        self.says = InputWatermark(self.says.watermark_us if said_us is None else said_us, standing.idle)
        self.unheard = False
        if self.joining:
            self._joined_at(standing.watermark_us)

    def begin_behind(self, epoch: int) -> None:
        """Begin at that epoch where none of those before is needed: the site's copy lacks bins of these."""
        if self.source.read_from is ReadFrom.OLDEST and not self.resumed and self.cursor < epoch:
            self.joining = True
            self.cursor = epoch

    def _skip(self) -> None:
        if self.cursor >= self.log.first_epoch:
            return
        if self.resumed or self.source.read_from is ReadFrom.OWN:
            raise TrimmedEpochError(
                f"channel {self.source.channel} no longer holds epoch {self.cursor}, which was not read yet",
                hint=f"its oldest epoch is {self.log.first_epoch}",
                ids={"channel": self.source.channel, "epoch": str(self.cursor)},
            )
        if self.source.read_from is ReadFrom.FIRST:
            self.missed = True
            return
        if self.source.read_from is ReadFrom.OLDEST and self._has_nothing_left():
            self.missed = True
            return
        self.joining = self.source.read_from is ReadFrom.OLDEST
        self.cursor = self.log.first_epoch

    def _has_nothing_left(self) -> bool:
        """Whether it has ended and none of its epochs is kept."""
        return self.log.end is not None and self.log.first_epoch >= self.log.next_epoch

    def _joined_at(self, watermark_us: int | None) -> None:
        """Note that the channel was joined in the middle.

        `watermark_us` is its watermark after the first epoch taken, or after the last one that is gone.

        A watermark trails the newest event time so far by the delay at most, and this one is not behind those of the
        epochs that are gone.
        """
        self.joining = False
        if watermark_us is not None:
            self.incomplete_until_us = watermark_us + self.source.event_delay_us

    @property
    def waiting_epochs(self) -> int:
        """The number of epochs that can be taken; 0 while the state has yet to settle on a later first epoch."""
        # In this order: a transfer that begins in the middle changes the first epoch before the next one.
        next_epoch, first_epoch = self.log.next_epoch, self.log.first_epoch
        return 0 if self.missed or self.cursor < first_epoch else max(0, next_epoch - self.cursor)

    @property
    def news(self) -> bool:
        """Whether an epoch, or the end, can be taken."""
        return not self.ended and (self.waiting_epochs > 0 or self.log.end is not None)

    def in_all(self) -> InputWatermark | None:
        """Return the channel's watermark once all that is here is taken.

        None: it ends, falls idle or wakes with that, or nothing was taken from it yet.
        """
        standing = self.log.standing
        if self.unheard or standing is None or self.log.end is not None or standing.idle or self.says.idle:
            return None
        said_us = self.source.watermark_us(standing)
        return InputWatermark(self.says.watermark_us if said_us is None else said_us)

    def heard(self) -> InputWatermark:
        """What the channel says: an idle channel that has epochs to take is not idle any more."""
        if self.says.idle and self.waiting_epochs:
            return InputWatermark(self.says.watermark_us)
        return self.says


@dataclass(frozen=True, slots=True)
class Pick:
    """An epoch that the port takes."""

    state: InputState
    epoch: int


def pick_epochs(states: Iterable[InputState], *, max_bytes: int, before: Mapping[str, int] | None = None) -> list[Pick]:
    """The epochs to take next: at least one if there is any, then up to `max_bytes` of rows in memory.

    With `before`, only those before that epoch of each channel.

    The channel that waited longest goes first, so that none starves; after that the one whose watermark is farthest
    behind, so that channels advance together and few windows stay open.
    """
    states = list(states)
    cursors = {id(state): state.cursor for state in states}
    ends = {id(s): s.log.next_epoch if before is None else before.get(s.source.channel, 0) for s in states}
    waiting = [state for state in states if state.waiting_epochs and state.cursor < ends[id(state)]]
    said = {id(state): state.says.watermark_us for state in waiting}
    picks: list[Pick] = []
    size_bytes = 0
    while waiting:
        state = min(waiting, key=lambda s: s.last_turn if not picks else _behind(said[id(s)]))
        manifest = state.log.epochs.manifest(cursors[id(state)])
        if picks and size_bytes + manifest.raw_bytes > max_bytes:
            break
        picks.append(Pick(state, manifest.epoch))
        size_bytes += manifest.raw_bytes
        cursors[id(state)] += 1
        said[id(state)] = state.source.watermark_us(manifest.standing)
        if cursors[id(state)] >= min(ends[id(state)], state.log.next_epoch):
            waiting.remove(state)
    return picks


def _behind(watermark_us: int | None) -> int:
    return -(2**63) if watermark_us is None else watermark_us
