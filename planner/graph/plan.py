"""The physical plan: stages, and which channels connect their tasks. Where tasks are lies beside it, in a placement.

    SOURCE (one task per site of the stream) --channel--> MERGE (one task) --channel--> results at the gateway
    MERGE  (one task per part, each of some bins): its results come from all parts, or FINAL (one task) makes them
    COMBINE (one task per site of a SOURCE, or site between): stands between the two where the query asks for it
    TABLE  (one task per site of the table)  --channel--> joined inside the SOURCE tasks
    INSERT INTO: what would go to the gateway goes to SINK (one task, at the sink's site) instead

A vertex is a partition of a stage; deployed, it is a task, whose output is the channel of the same id.

A batch query reads tables only:

    MAP (one task per split of a table) --channel--> REDUCE (one task) --channel--> results at the gateway
    TABLE (one task per site of a joined table) --channel--> joined inside the MAP tasks, or the REDUCE
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta

from planner.graph.batchoptions import BatchOptions
from planner.graph.clientplan import ClientPlan
from planner.graph.ids import VertexId
from planner.graph.logical import LogicalOperator
from planner.graph.operators import Operator
from planner.graph.whole import ScanOfTable, WholeQuery, WholeScan
from planner.relations.catalog import Column, Function
from planner.sql.intervals import pane_of
from planner.values.adapting import Adapting, Degrading
from planner.values.edits import Edit
from planner.values.errors import Position
from planner.values.links import LinkFigures, Pair
from planner.values.names import BINS, INPUT_VIEW
from planner.values.pairs import PairSide
from planner.values.splits import FilePart
from planner.values.stages import StageKind


@dataclass(frozen=True, slots=True)
class StageInput:
    """One edge of the stage graph."""

    stage: str
    view: str
    same_site: bool = False
    """True: a task reads only its own site's task of that stage (a join on `a.site = b.site`)."""
    behind: timedelta = timedelta(0)
    """The event times of rows may be so much before the watermark that the stage had told before them."""


@dataclass(frozen=True, slots=True)
class MergeView:
    """An input of a MERGE whose rows wait until their window closes."""

    view: str
    combine_sql: str = ""
    """From partials to fewer partials of the same schema, over the view `input`; empty: they are rows, not partials."""
    required: bool = True
    """Windows in which the view has no row give no result."""
    combine: Operator | None = None
    """What `combine_sql` is the text of; None: they are rows, or the plan was made when there was text alone."""


@dataclass(frozen=True, slots=True)
class RangeResult:
    """Describes what is computed of each range of bins of a MERGE's groups, before what needs all of them."""

    view: str
    """The rows of all ranges together are read as this view."""
    sql: str = ""
    body: Operator | None = None
    """`sql` is its text."""


@dataclass(frozen=True, slots=True)
class Sessions:
    """Rows of a MERGE are of sessions, which end where they say themselves; those of a key that touch are one."""

    keys: tuple[str, ...]
    """Columns of the keys."""
    gap: str
    """The gap, for people."""
    at_start: bool = False
    """They come out with their first row, not when they have ended."""


@dataclass(frozen=True, slots=True)
class Pairs:
    """Rows of a MERGE are paired by their event times: that of the second one is between bounds of the first one's."""

    first: PairSide
    second: PairSide
    lower: timedelta
    """The second one's event time is not before the first one's and this; it may be negative."""
    upper: timedelta | None
    """It is not after the first one's and this; None: not after `until`."""
    until: str = ""
    """A column of the first view."""
    emits_pairs: bool = True
    """False: only rows without a match come out."""
    until_words: str = ""
    """`until`, for people."""
    newest: bool = False
    """A second row is paired with the newest matching first row alone."""
    strict: bool = False
    """With `newest`, a first row of the same instant does not match."""


@dataclass(frozen=True, slots=True)
class Totals:
    """Rows of a MERGE are added up by key. Its windows are cells of time, and the results of each are the changes that
    it made."""

    keys: tuple[str, ...]
    """Columns of the keys."""
    upsert_by: tuple[str, ...]
    """The result columns that say which row a change is of."""
    compares: bool = False
    """The results of a cell depend on those of the cell before."""
    ttl: timedelta | None = None
    """A key without rows for so long begins anew; None: never."""
    ends: str = ""
    """The column of the instant from which on no more rows of a key come; empty: there is none."""


@dataclass(frozen=True, slots=True)
class Neighbours:
    """Rows of a MERGE come out at their event times, each beside those of its key before it."""

    keys: tuple[str, ...]
    """Columns of the keys."""
    rows: int
    """So many rows before it are needed."""
    within: timedelta | None = None
    """Those of so long before it are needed; None: `rows` alone are."""


@dataclass(frozen=True, slots=True)
class Merge:
    """How a MERGE stage treats its input: rows wait until their window closes."""

    window_column: str
    window: timedelta
    combine_sql: str
    """From partials of `input` to fewer partials of the same schema; empty when its rows are not partials."""
    slide: timedelta | None = None
    """A window begins every so often; None: as often as the length."""
    views: tuple[MergeView, ...] = ()
    """The views whose rows wait; none: `input` alone, whose rows are partials. Other inputs are tables' copies."""
    combine: Operator | None = None
    """What `combine_sql` is the text of."""
    panes: bool = False
    """True: `window_column` has the start of the row's pane; the row is of each window that the pane lies in. False: it
    has the start of the row's window, as where none overlap and in plans from before panes."""
    by_bins: bool = False
    """Each result is made of rows of one bin, so the rows of some bins can be merged alone; `combine` says the bins."""
    ranges: tuple[RangeResult, ...] = ()
    """Where results need the groups of all bins, these can be computed of the rows of some bins alone. `combine` says
    the bins then, too."""
    over_ranges_sql: str = ""
    """Over the views of `ranges`: the results."""
    over_ranges: Operator | None = None
    """`over_ranges_sql` is its text."""
    offset: timedelta = timedelta(0)
    """A window begins so long after 1970 began; shorter than the slide."""
    cumulates: bool = False
    """One begins every `window`, and those that begin together end `slide` after one another. Rows are of panes; what
    stands for a window in `window_column` is so long before its end as the longest is."""
    months: int = 0
    """A window is so many calendar months; 0: it has one length. `window` is the length of the longest, and what stands
    for a window in `window_column` is so long before its end."""
    sessions: Sessions | None = None
    """None: rows are of windows. Else `window` is the gap, or stands for gaps that differ from row to row."""
    pairs: Pairs | None = None
    """Set where rows of two views are paired by their event times, which `window_column` has. `window` is then how long
    a row waits for others, or stands for it."""

    totals: Totals | None = None
    """Set where rows are added up by key: then rows stay when their window is out."""
    neighbours: Neighbours | None = None
    """Set where rows need those before them: rows stay when they are out, as long as others may need them."""

    @property
    def takes_again(self) -> bool:
        """Return whether rows are taken again after a crash whose window, or instant, is out."""
        kinds = (self.sessions, self.pairs, self.totals, self.neighbours)
        return any(kind is not None for kind in kinds)

    @property
    def period(self) -> timedelta:
        """Return how often a window ends."""
        return self.slide or self.window

    @property
    def pane(self) -> timedelta:
        """The length of panes."""
        return pane_of(self.window, self.period)


@dataclass(frozen=True, slots=True)
class Stage:
    """A chain of operators fused because no edge between them crosses sites."""

    id: str
    kind: StageKind
    pinned: tuple[str, ...]
    """The sites that hold its data or its files: a vertex for each, in this order. Empty: one vertex, at any site."""
    sql: str = ""
    """Spark SQL over the views `input` and the views of `inputs`; may yield `_bin`. Written when planning ends."""
    relation: str | None = None
    read_columns: tuple[str, ...] = ()
    by_arrival: bool = False
    """SOURCE: the event time of its rows is when they arrived."""
    inputs: tuple[StageInput, ...] = ()
    merge: Merge | None = None
    columns: tuple[Column, ...] = ()
    """Output, without `_bin`; types may be empty until Spark has analysed the stage."""
    appends: bool = False
    """REDUCE: its SQL only concatenates the rows of the MAPs, unchanged."""
    body: Operator | None = None
    """What `sql` is the text of; None: a SINK, or the plan was made when there was text alone."""
    parts: int = 1
    """MERGE: so many vertices share its bins among them."""
    client: ClientPlan | None = None
    """REDUCE: what it runs in the place of SQL, when a client made the plan."""

    @property
    def vertices(self) -> tuple[VertexId, ...]:
        """Its partitions."""
        return tuple(VertexId(self.id, number) for number in range(len(self.pinned) or self.parts))

    @property
    def homes(self) -> tuple[str | None, ...]:
        """For each vertex the site where it is pinned; None: any."""
        return self.pinned or (None,) * self.parts

    def bins(self, partition: int) -> range | None:
        """The bins that a vertex takes of the rows that wait in it; None: all of them."""
        if self.parts == 1:
            return None
        return range(partition * BINS // self.parts, (partition + 1) * BINS // self.parts)

    def waits_for(self, view: str) -> bool:
        """Whether the rows of a view wait here until their window closes; other views are tables' copies."""
        if self.merge is None:
            return False
        return view in {waiting.view for waiting in self.merge.views} if self.merge.views else view == INPUT_VIEW


@dataclass(frozen=True, slots=True)
class Destination:
    """Where a query's results are wanted."""

    site: str
    sink: str | None = None
    """The sink that takes them; None: the site keeps them for clients, as the query's gateway."""


def find_stage(stages: Iterable[Stage], stage_id: str) -> Stage:
    for stage in stages:
        if stage.id == stage_id:
            return stage
    raise KeyError(stage_id)


def takes_again(stages: Iterable[Stage]) -> bool:
    """Return whether a MERGE of these keeps rows that windows do not end: of sessions, pairs, totals, or with OVER."""
    return any(stage.merge is not None and stage.merge.takes_again for stage in stages)


def upsert_keys(stages: Iterable[Stage]) -> tuple[str, ...] | None:
    """Return the result columns that say which row a change is of; None: results are no changes."""
    found = (stage.merge.totals for stage in stages if stage.merge is not None)
    return next((totals.upsert_by for totals in found if totals is not None), None)


def client_site(plan: DraftPlan | PhysicalPlan) -> str:
    """Return the site where a client wants its plan to run; empty: wherever the fewest bytes must be sent."""
    return next((stage.client.site for stage in plan.stages if stage.client is not None), "")


def only_appends(stage: Stage, stages: Iterable[Stage]) -> bool:
    """True when a stage only appends its inputs, with equal names and types, so that their epochs can be copied."""
    return stage.appends and all(find_stage(stages, item.stage).columns == stage.columns for item in stage.inputs)


@dataclass(frozen=True, slots=True)
class LinkTraffic:
    """What the plan is expected to send over one link."""

    source: str
    target: str
    rows_per_s: float
    bytes_per_s: float

    @property
    def pair(self) -> Pair:
        return self.source, self.target


@dataclass(frozen=True, slots=True)
class PlacementCandidate:
    """One site considered for a merge, with its cost and, if turned down, why."""

    site: str
    wan_bytes_per_s: float
    cost: float
    chosen: bool
    reason: str
    stage: str = ""
    """The merge."""


@dataclass(frozen=True, slots=True)
class TreeCandidate:
    """One way of combined partials to the merge, with what it costs and, if turned down, why."""

    tree: str
    """As `SET combine_tree` has it."""
    cost: float
    """Of all links of the plan."""
    closing_s: float
    """How long the groups of a window are on their way to the merge, if all leave when it closes."""
    chosen: bool
    reason: str


@dataclass(frozen=True, slots=True)
class Split:
    """A part of a table's files at one site."""

    site: str
    parts: tuple[FilePart, ...]
    """None: whatever is at the site."""
    size_bytes: int
    """On disk; of a generated table by estimate."""
    stage: str = "map"
    """The MAP stage that reads it."""
    left_out_bytes: int = 0
    """Of the table at the site, in no split: no row in them is needed. Told with one of the splits."""
    rows: int | None = None
    """None: the site does not know."""


@dataclass(frozen=True, slots=True)
class LeftOut:
    """What a MAP stage does not read of its table at one site, because no row in it is needed."""

    stage: str
    site: str
    size_bytes: int


@dataclass(frozen=True, slots=True)
class ConsideredFilter:
    """A filter of a table by the keys of another: what it was expected to do, and whether it is applied."""

    table: str
    column: str
    giver: str
    """The table that gives the keys."""
    giver_column: str
    taken: bool
    keys: int
    key_bytes: int
    """Over links."""
    saved_bytes: int
    reason: str
    threshold: str = ""
    """Only groups of the giver's rows that may reach it give their keys; empty: all groups give theirs."""


@dataclass(frozen=True, slots=True)
class PhysicalPlan:
    """Stages, where they are to run, and what EXPLAIN shows."""

    stages: tuple[Stage, ...]
    result_stage: str
    """Stage whose channels are the query's results; of a UNION ALL, that of its first branch."""
    destination: Destination
    columns: tuple[Column, ...]
    sites: Mapping[VertexId, str] = field(default_factory=dict)
    """Where the placer wants the vertices that are not pinned; of a batch query, where it expects the REDUCE by the
    sizes of the splits. Empty in an accepted query of streams: then the placement of its tasks says where they are."""
    links: tuple[LinkTraffic, ...] = ()
    candidates: tuple[PlacementCandidate, ...] = ()
    logical: tuple[str, ...] = field(default=())
    """The logical plan as indented lines."""
    functions: tuple[Function, ...] = ()
    """Python functions that the query calls, in the versions it began with."""
    more_results: tuple[str, ...] = ()
    """Stages whose channels are results too: those of the further branches of a UNION ALL."""
    figures: tuple[LinkFigures, ...] = ()
    """What was known then of every link that the plan, or a site weighed for a merge, would use. None: the plan
    was made before they were kept."""
    adapting: Adapting = Adapting.OFF
    """What may be done about the query while it runs."""
    degrading: Degrading | None = None
    """The rule by which its sources leave rows out that wait for too long; None: they do not."""
    trees: tuple[TreeCandidate, ...] = ()
    """Where sites combine: the ways of their partials that were weighed."""

    @property
    def result_stages(self) -> tuple[str, ...]:
        """All stages whose channels are the query's results."""
        return (self.result_stage, *self.more_results)

    def stage(self, stage_id: str) -> Stage:
        """The stage of that id.

        Raises:
            KeyError: there is none.
        """
        return find_stage(self.stages, stage_id)

    def sites_of(self, stage: Stage) -> tuple[str, ...]:
        """Where each vertex of a stage is pinned, or else wanted; empty when neither is known."""
        return stage.pinned or tuple(self.sites[vertex] for vertex in stage.vertices if vertex in self.sites)

    @property
    def sink(self) -> Stage | None:
        """The stage that writes the results into a sink; None: they are kept at the gateway for clients."""
        return next((stage for stage in self.stages if stage.kind is StageKind.SINK), None)


@dataclass(frozen=True, slots=True)
class BatchPlan(PhysicalPlan):
    """The plan of a query that reads tables only."""

    splits: tuple[Split, ...] = field(kw_only=True)
    """One MAP task each; at least one of each MAP stage."""
    options: BatchOptions | None = field(default=None, kw_only=True)
    """None: the plan was made when they were the master's alone."""
    read_columns: Mapping[str, tuple[Column, ...]] = field(default_factory=dict, kw_only=True)
    """What a MAP reads of a split, by stage."""
    scans: tuple[ScanOfTable, ...] = field(default=(), kw_only=True)
    """Of a query that runs whole: what is sent for each scan."""
    left_out: tuple[LeftOut, ...] = field(default=(), kw_only=True)
    key_filters: tuple[ConsideredFilter, ...] = field(default=(), kw_only=True)


@dataclass(frozen=True, slots=True)
class QueryShape:
    """What the estimates need to know of a query; the rules are in `planner.estimate.rates`."""

    relation: str
    declared_rates: Mapping[str, float]
    """Rows per second by site, where the binding says so."""
    selectivity: float
    """Share of the rows that pass the filters."""
    window: timedelta | None = None
    """None: the query does not aggregate."""
    slide: timedelta | None = None
    """None: the window's length."""
    keys: int = 0
    """Group keys besides the window."""
    inner_windows: int = 1
    """Windows of its groups that one is made up of; more than one where a query over them has longer windows."""
    having: int = 0
    """Conjuncts of HAVING."""
    result_keys: int | None = None
    """Keys besides the window of an aggregate over the groups; None: the results are the groups."""
    top_k: int | None = None
    top_k_keys: int = 0
    """Keys that QUALIFY partitions by besides the window."""


@dataclass(frozen=True, slots=True)
class JoinShape:
    """What the estimates need to know of streams that are joined in a window, besides the shapes of their sources."""

    window: timedelta
    slide: timedelta
    selectivity: float
    """Share of the joined rows that pass the conditions of WHERE which are left to them."""
    result: QueryShape
    """What is computed of the joined rows; without a window they are the results."""


@dataclass(frozen=True, slots=True)
class StatementText:
    """A query as its author wrote it, to be checked by Spark."""

    view: str
    """The view that it defines; empty for the query itself."""
    text: str
    sql: str
    """The text without QUALIFY, with `true` for the equal windows of joins of streams, and with `*` written out where
    Spark would count `site` in."""
    edits: tuple[Edit, ...]
    """From `text` to `sql`."""
    relations: tuple[str, ...]
    """Streams, tables and views that it names."""
    position: Position | None = None
    """Where the view is named."""


@dataclass(frozen=True, slots=True)
class DraftPlan:
    """A checked query in stages; the MERGE has no site yet and types are known only after Spark's analysis."""

    text: str
    """The query as submitted."""
    stages: tuple[Stage, ...]
    """In topological order."""
    result_stage: str
    columns: tuple[Column, ...]
    logical: LogicalOperator
    shapes: Mapping[str, QueryShape]
    """By id of the SOURCE stage."""
    site_named: frozenset[str]
    """Relations whose `site` the query names."""
    relations: Mapping[str, tuple[Column, ...]]
    """Declared columns by name of the stream or table."""
    joins: Mapping[str, JoinShape] = field(default_factory=dict)
    """By id of the MERGE stage that joins streams."""
    functions: tuple[Function, ...] = ()
    """Python functions that the query and its views call."""
    more_results: tuple[str, ...] = ()
    texts: tuple[StatementText, ...] = ()
    """What Spark is to check first: the definitions of the views, each after those it uses, then the query."""
    unions: Mapping[str, Mapping[str, Operator]] = field(default_factory=dict)
    """Of each UNION ALL whose columns' types are still to be found: what Spark is to analyse, over the relations."""
    batch: bool = False
    """It reads tables only: MAP stages, one REDUCE."""
    site_read: frozenset[str] = frozenset()
    """MAP stages that read `site`."""
    notes: tuple[str, ...] = ()
    """What became of derived tables, for EXPLAIN."""
    whole: WholeQuery | None = None
    """It runs as it is written, in a REDUCE. It has no stages before Spark has said what its scans must deliver."""
    scans: tuple[ScanOfTable, ...] = ()
    """What is sent for them."""
    whole_scans: tuple[WholeScan, ...] = ()
    """Of a query that runs whole."""
    considered: tuple[ConsideredFilter, ...] = ()

    @property
    def map_stages(self) -> tuple[Stage, ...]:
        """Those of a batch query: one for each time that a table is read by its splits."""
        return tuple(stage for stage in self.stages if stage.kind is StageKind.MAP)

    @property
    def result_stages(self) -> tuple[str, ...]:
        return (self.result_stage, *self.more_results)

    def stage(self, stage_id: str) -> Stage:
        """The stage of that id.

        Raises:
            KeyError: there is none.
        """
        return find_stage(self.stages, stage_id)


@dataclass(frozen=True, slots=True)
class Analysis:
    """A statement for Spark to check over empty views."""

    views: Mapping[str, tuple[Column, ...]]
    statement: str
    functions: tuple[Function, ...] = ()
    """Python functions that the statement may call, by name or by version."""
    edits: tuple[Edit, ...] = ()
    """From the text as it was written to the statement."""
    scans: bool = False
    """The views are tables: Spark is also to say what each scan of them must deliver."""
    client: ClientPlan | None = None
    """It is analysed instead of `statement`."""


@dataclass(frozen=True, slots=True)
class RelationStats:
    """What is known of one relation at one site, measured where it runs, else a documented default."""

    rows_per_s: float
    measured: bool = False


@dataclass(frozen=True, slots=True)
class Statistics:
    """Rates by (relation, site)."""

    rates: Mapping[tuple[str, str], RelationStats] = field(default_factory=dict)
