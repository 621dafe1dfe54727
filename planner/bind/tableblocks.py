"""What a batch query is made of once its names are bound: SELECTs over one another, and UNION ALLs of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from planner.bind.logical import LogicalQuery
from planner.bind.outputs import Output
from planner.bind.scope import Member
from planner.graph.expressions import is_aggregate, is_mergeable
from planner.sql.dialect import exp


@dataclass(frozen=True, slots=True)
class Lateral:
    """LATERAL VIEW: the rows that a generator makes of each row."""

    member: Member
    call: exp.Expr
    outer: bool


@dataclass(frozen=True, slots=True)
class Block:
    """One SELECT."""

    query: LogicalQuery
    """Without windows; `keys` are all group keys."""
    grouped: bool
    """It aggregates; without keys all rows are one group."""
    laterals: tuple[Lateral, ...]
    order: tuple[exp.Ordered, ...]
    limit: int | None
    offset: int
    below: Rows | None = None
    """What its first rows come from; None: a table."""
    joined: Mapping[str, Rows] = field(default_factory=dict)
    """Queries behind JOIN that are whole only in the REDUCE, by view. All others are copies of tables."""

    @property
    def gathers(self) -> bool:
        """Whether it needs rows of all splits."""
        sorts = bool(self.order) or self.limit is not None or bool(self.offset)
        return self.grouped or sorts or self.query.top_k is not None or self.undivided

    @property
    def undivided(self) -> bool:
        """Whether all its rows are needed at once, because nothing can be computed of those of one split."""
        nodes = (part for node in self.read() for part in node.walk())
        return any(isinstance(node, exp.Window) or (is_aggregate(node) and not is_mergeable(node)) for node in nodes)

    @property
    def ends(self) -> bool:
        """Whether its rows are there only once rows of all splits are."""
        return self.gathers or bool(self.joined) or (self.below is not None and self.below.ends)

    @property
    def outputs(self) -> tuple[Output, ...]:
        return self.query.outputs

    def selects(self) -> Iterator[Block]:
        """This one: as a UNION ALL of one."""
        yield self

    def read(self) -> tuple[exp.Expr, ...]:
        """All bound expressions that are computed of its rows."""
        query = self.query
        return (
            *(output.expression for output in query.outputs),
            *query.keys,
            *query.having,
            *(query.top_k.parts if query.top_k is not None else ()),
            *(ordered.this for ordered in self.order),
            *query.where,
            *(conjunct for join in query.joins for conjunct in join.on),
            *(lateral.call for lateral in self.laterals),
        )


@dataclass(frozen=True, slots=True)
class UnionAll:
    """The rows of several SELECTs, under the names that those of the first have."""

    branches: tuple[Block, ...]

    @property
    def ends(self) -> bool:
        """As of a block."""
        return any(branch.ends for branch in self.branches)

    @property
    def outputs(self) -> tuple[Output, ...]:
        return self.branches[0].outputs

    def selects(self) -> Iterator[Block]:
        """The branches."""
        yield from self.branches


Rows = Block | UnionAll
