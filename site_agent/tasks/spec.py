"""What a task is told to do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from math import gcd

from contract.tasks import ReadFrom
from planner.graph.clientplan import ClientPlan
from planner.relations.catalog import is_arrival
from planner.values.adapting import Degrading
from planner.values.months import begins_us, ends_us
from planner.values.pairs import PairSide
from planner.values.stages import StageKind
from site_agent.channels.manifest import Fork
from site_agent.channels.pace import QueryReaders
from site_agent.connectors.sources import Split
from site_agent.engine import Field, PythonFunction


@dataclass(frozen=True, slots=True)
class RelationSpec:
    """The stream or table a task reads, or the sink it writes into, as bound at this site."""

    name: str
    columns: tuple[Field, ...]
    event_time: str
    watermark_delay: timedelta
    options: Mapping[str, str]
    created_at: datetime

    @property
    def by_arrival(self) -> bool:
        """See `SourceContext.by_arrival`."""
        return is_arrival(self.event_time, (column.name for column in self.columns))


@dataclass(frozen=True, slots=True)
class InputSpec:
    """A channel the task reads, where it is produced, and the view it appears as."""

    channel: str
    site: str
    """Empty: not known yet; only the inputs of a REDUCE task may be so."""
    view: str
    columns: tuple[Field, ...] = ()
    read_from: ReadFrom = ReadFrom.OWN
    event_delay_us: int = 0
    """How much later than an epoch's watermark the events of its rows may be."""
    bins: tuple[int, ...] = ()
    """The bins of whose rows it is; empty: all rows, in bins or not."""
    from_epoch: int = 0
    """The first epoch that the channel ever has, because it continues another one."""
    behind_us: int = 0
    """The event times of its later rows may be so much before its watermark."""


@dataclass(frozen=True, slots=True)
class ViewSpec:
    """A view of a merge whose rows wait until their window closes."""

    name: str
    combine_sql: str = ""
    """From partials to fewer, over the view `input`; empty: they are rows, and cannot be made fewer."""
    required: bool = True
    """Without a row of this view, the rows of the others give no result."""


@dataclass(frozen=True, slots=True)
class RangeSpec:
    """Says what is computed of each range of bins, where results need the groups of all bins."""

    view: str
    """The rows of all ranges are read under this name."""
    sql: str


@dataclass(frozen=True, slots=True)
class SessionSpec:
    """Says which columns tell the session of a row, beside its start."""

    end: str
    keys: tuple[str, ...]
    at_start: bool = False
    """A session comes out when the watermark has passed its start, not its end."""


@dataclass(frozen=True, slots=True)
class PairSpec:
    """Says which rows of two views are pairs: `first + lower_us <= second <= upper`, by their event times."""

    first: PairSide
    second: PairSide
    lower_us: int
    """It may be negative."""
    upper_us: int | None
    """So long after the first; None: `until` says it."""
    until: str = ""
    """A column of the first view: an instant, or NULL."""
    emits_pairs: bool = True
    """False: only rows without a match come out."""
    newest: bool = False
    """A second row is paired with the newest matching first row alone."""
    strict: bool = False
    """With `newest`, a first row of the same instant does not match."""


@dataclass(frozen=True, slots=True)
class TotalsSpec:
    """Says by which columns rows are added up, whose windows are cells of time."""

    keys: tuple[str, ...]
    compares: bool = False
    """The results of a cell depend on those of the cell before."""
    ttl_us: int | None = None
    """A key without rows for so long begins anew; None: never. Rows then say the first cell that they are of, too."""
    ends: str = ""
    """The column of the instant from which on no more rows of a key come; empty: there is none."""


@dataclass(frozen=True, slots=True)
class NeighbourSpec:
    """Says which rows before a row are needed beside it, by their event times."""

    keys: tuple[str, ...]
    """Columns that are equal."""
    rows: int
    """So many of them."""
    within_us: int | None = None
    """Those of so long before; None: `rows` alone are needed."""


@dataclass(frozen=True, slots=True)
class WindowSpec:
    """How a merge closes windows and compacts open ones."""

    column: str
    """The start of a row's window, or of its pane."""
    length_us: int
    slide_us: int
    """A window begins every so often."""
    views: tuple[ViewSpec, ...]
    panes: bool = False
    """True: rows are of panes, and so of each window that their pane lies in."""
    by_bins: bool = False
    """True: all rows of a group, or rows that match, are in one bin; the rows of each bin can be merged alone."""
    ranges: tuple[RangeSpec, ...] = ()
    """None: the task's SQL gives the results of each range of bins. Else `over_ranges_sql` does, over these views."""
    over_ranges_sql: str = ""
    offset_us: int = 0
    """A window begins so long after 1970 began; less than the slide."""
    cumulates: bool = False
    """True: a window begins every `length_us`, and those that begin together end `slide_us` after one another. What
    stands for a window in `column` is `length_us` before its end."""
    months: int = 0
    """A window is so many calendar months, from January on; 0: windows have one length. What stands for a window in
    `column` is `length_us`, the length of the longest, before its end."""

    sessions: SessionSpec | None = None
    """None: rows are of windows. Else a row is of a session that begins at `column`, and that may be part of a longer
    one; `length_us` is the gap, or stands for gaps that differ."""
    pairs: PairSpec | None = None
    """Set where rows are of no windows but come out in pairs; `column` has their event times."""

    totals: TotalsSpec | None = None
    """Set where rows are added up by key."""
    neighbours: NeighbourSpec | None = None
    """Set where rows come out at their event times, in `column`, each beside those before it."""

    @property
    def takes_again(self) -> bool:
        """Return whether rows are taken again after a crash whose window, or instant, is out."""
        return self._at_instants or self.totals is not None

    @property
    def _at_instants(self) -> bool:
        """Return whether what comes out does so at instants of its own, not with a window."""
        return self.sessions is not None or self.pairs is not None or self.neighbours is not None

    @property
    def pane_us(self) -> int:
        """The length of panes: of windows that follow one another, their own."""
        return gcd(self.length_us, self.slide_us)

    def next_start_us(self, instant_us: int) -> int:
        """The start of the first window that begins after an instant; sessions and rows of pairs may begin at any."""
        if self._at_instants:
            return instant_us + 1
        if self.months:
            return ends_us(instant_us, self.months)
        every_us = self.length_us if self.cumulates else self.slide_us
        return ((instant_us - self.offset_us) // every_us + 1) * every_us + self.offset_us

    def start_us(self, end_us: int) -> int:
        """The start of the window with that end."""
        if self.months:
            return begins_us(end_us - 1, self.months)
        return self.next_start_us(end_us - 1) - self.length_us if self.cumulates else end_us - self.length_us

    def first_open_us(self, watermark_us: int) -> int:
        """The start of the first window that a watermark does not end."""
        if self._at_instants:
            return watermark_us
        if self.months:
            return self.last_end_us(watermark_us)
        return self.start_us(self.last_end_us(watermark_us) + self.slide_us)

    def last_end_us(self, watermark_us: int) -> int:
        """The end of the last window that a watermark ends; of sessions and pairs, those before it are out."""
        if self._at_instants:
            return watermark_us
        if self.months:
            return begins_us(watermark_us, self.months)
        past_us = self.offset_us + self.length_us
        return (watermark_us - past_us) // self.slide_us * self.slide_us + past_us

    def all_before_us(self, start_us: int) -> int:
        """A watermark that ends all windows that begin before that start, and none that begins there or later."""
        return start_us if self.cumulates or self.months else start_us + self.length_us - 1


@dataclass(frozen=True, slots=True)
class SeedSpec:
    """A checkpoint that a task publishes as a channel, for its successor to begin with."""

    channel: str
    first_epochs: Mapping[str, int] = field(default_factory=dict)
    """It holds by input the oldest epoch that the successor's site has: the checkpoint must not need an older one."""


@dataclass(frozen=True, slots=True)
class JoinSpec:
    """Another task's channel of the same windows, of which the successor makes its epochs."""

    channel: str
    site: str
    first_epoch: int
    """The oldest epoch that the successor's site has."""


@dataclass(frozen=True, slots=True)
class HandOver:
    """Says what a task does for the one that takes its place."""

    successor_channel: str
    successor_site: str
    seed: SeedSpec | None = None
    """None: no checkpoint is wanted yet."""
    cut: bool = False
    """The channel is to end between two epochs, in favour of the successor's."""
    fork: Fork | None = None
    """The readers of one query go on in another channel than the successor's."""
    join: JoinSpec | None = None
    """The channel is to end where it meets this one."""


@dataclass(frozen=True, slots=True)
class TakeOver:
    """Whose place a task takes. Until the predecessor's channel has ended, the task publishes nothing."""

    predecessor_channel: str
    predecessor_site: str
    seed_channel: str
    """Empty: the task gets no checkpoint."""
    late: bool = False
    """The task begins in the middle of what its predecessor reads: it lacks rows of the windows that were open then."""
    renumbers: bool = False
    """Epochs of the predecessor's channel have other numbers than those of the input that a DERIVE makes its own of."""


@dataclass(frozen=True, slots=True)
class TaskSpec:
    task_id: str
    query_id: str
    stage_id: str
    kind: StageKind
    sql: str
    epoch_interval: timedelta
    relation: RelationSpec | None = None
    read_columns: tuple[str, ...] = ()
    inputs: tuple[InputSpec, ...] = ()
    window: WindowSpec | None = None
    consumers: tuple[str, ...] = ()
    functions: tuple[PythonFunction, ...] = ()
    split: Split | None = None
    """What a TABLE task reads of its table; None: all."""
    paused: bool = False
    """Nothing of it runs; its channel, its checkpoints and what it has not read are kept."""
    beside: bool = False
    """Tasks that do the same work run beside it, and count the rows that are late."""
    readers: tuple[QueryReaders, ...] = ()
    """It names the readers of the task's channel where several queries read it, or one is not to set the pace."""
    hand_over: HandOver | None = None
    """Another task is to take this one's place."""
    take_over: TakeOver | None = None
    """The task is to take another one's place, or has done so a moment ago."""
    client: ClientPlan | None = None
    """A REDUCE runs it in place of `sql`."""
    degrading: Degrading | None = None
    """A SOURCE may leave rows out that wait for too long; None: it may not."""
    reuses: bool = False
    """Rows that other queries had made or sent are taken again where they are the same."""


@dataclass(frozen=True, slots=True)
class ResultsLimit:
    """A limit on the results that are kept of a query that is not over; the oldest epochs go first."""

    size_bytes: int
    age: timedelta


@dataclass(frozen=True, slots=True)
class ResultSpec:
    """Channels whose copies this site keeps for clients."""

    query_id: str
    inputs: tuple[InputSpec, ...] = ()
    limit: ResultsLimit | None = None
    """None: all results are kept."""
    reuses: bool = False
    """The site reuses rows that it received for other queries, as tasks do."""


@dataclass(frozen=True, slots=True)
class Assignment:
    """Everything the site has to do."""

    cluster_id: str = ""
    version: int = 0
    tasks: tuple[TaskSpec, ...] = ()
    results: tuple[ResultSpec, ...] = ()
    site_addresses: Mapping[str, str] = field(default_factory=dict)
    streams: tuple[RelationSpec, ...] = ()
    """Streams that clients push to at the site."""
