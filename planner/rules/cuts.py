"""Cutting what a MERGE computes into what each part of it does, and what a FINAL does of that.

a rank over groups           the first k of the part's groups; FINAL ranks those of all parts
layers over groups           the groups; each query that is joined has a MERGE of its own, binned by its own keys
an aggregate of joined rows  its partials, for joined rows are binned by what joins them
a UNION ALL with joined rows partials likewise
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from planner.functions.aggregates import MERGEABLE
from planner.graph.operators import (
    Aggregate,
    Alias,
    CombinePartials,
    Filter,
    Join,
    MergeAggregate,
    Named,
    Operator,
    Partial,
    PartialAggregate,
    Project,
    Scan,
    TopK,
    inputs_of,
    walk,
    with_inputs,
)
from planner.graph.schema import names_of
from planner.rules.split import column, merged_of
from planner.sql.dialect import exp
from planner.values.names import INPUT_VIEW


@dataclass(frozen=True, slots=True)
class Cut:
    """What each part computes for one view of FINAL."""

    view: str
    """Also that of its own first input."""
    body: Operator
    combine: CombinePartials | None
    """What makes fewer partials of many, where the parts send some."""


def cut(body: Operator) -> tuple[Operator, Sequence[Cut]]:
    """What is left for FINAL, over the views of what parts compute, and that; `body` is what a MERGE computes."""
    cuts = _Cuts()
    return _cut(body, cuts), cuts.found


def needs_no_others(operator: Operator) -> bool:
    """Whether each result of a MERGE is made of one group, or of rows that match: then nothing is left for FINAL."""
    match operator:
        case Scan() | MergeAggregate(Scan()) | TopK(Scan()):
            # Rows that are ranked are in the bin of their partition.
            return True
        case Alias() | Filter() | Project() | Join():
            return not (isinstance(operator, Join) and _has_groups(operator)) and all(
                map(needs_no_others, inputs_of(operator))
            )
        case _:
            return False


def is_splittable(body: Operator) -> bool:
    """Return whether all aggregates of joined rows can be made of partials; ranks of joined rows cannot."""
    ranks = (part.input for part in walk(body) if isinstance(part, TopK))
    if any(not (isinstance(rows, Scan) or _has_groups(rows)) for rows in ranks):
        return False
    return all(map(_is_splittable, _of_rows(body)))


def _of_rows(body: Operator) -> Iterator[Aggregate]:
    """The aggregates of joined rows."""
    found = (operator for operator in walk(body) if isinstance(operator, Aggregate))
    return (aggregate for aggregate in found if not _has_groups(aggregate.input))


def _has_groups(operator: Operator) -> bool:
    return any(isinstance(part, Aggregate | MergeAggregate) for part in walk(operator))


def _is_splittable(aggregate: Aggregate) -> bool:
    """Whether all it computes can be made of partials."""
    found = (merged_of(item.name, item.expression, {}) for item in aggregate.items[len(aggregate.keys) :])
    return not aggregate.having and all(merged.function.split()[0] in MERGEABLE for merged in found)


@dataclass(slots=True)
class _Cuts:
    """What was cut off so far."""

    found: list[Cut] = field(default_factory=list)

    def add(self, body: Operator, combine: CombinePartials | None = None) -> Scan:
        """Cuts off `body`; what reads it in its place."""
        view = next(part.view for part in walk(body) if isinstance(part, Scan))
        self.found.append(Cut(view, body, combine))
        return Scan(view)


def _cut(operator: Operator, cuts: _Cuts) -> Operator:
    """The operator over what the parts compute."""
    if (groups := _groups_below(operator)) is not None:
        return _over_groups(operator, groups, cuts)
    if isinstance(operator, MergeAggregate):
        return replace(operator, input=_cut_partials(operator.input, operator.keys, operator.partials, cuts))
    if isinstance(operator, Aggregate) and not _has_groups(operator.input):
        return _of_partials(operator, cuts)
    return with_inputs(operator, lambda below: _cut(below, cuts))


def _groups_below(operator: Operator) -> MergeAggregate | None:
    """The groups that a select list is over, where sources have sent all of their partials."""
    below = operator.input if isinstance(operator, Project) else None
    while isinstance(below, TopK | Filter | Alias):
        below = below.input
    return below if isinstance(below, MergeAggregate) and isinstance(below.input, Scan) else None


def _over_groups(operator: Operator, groups: MergeAggregate, cuts: _Cuts) -> Operator:
    """A select list over groups. Parts do what is below it, a rank included, which is taken again of what they keep."""
    assert isinstance(operator, Project)
    names = names_of(groups)
    assert names is not None
    below = operator.input
    kept = Project(below, tuple(Named(name, column(name)) for name in names))
    rows: Operator = Alias(cuts.add(kept), _name_of(below))
    return replace(operator, input=replace(below, input=rows) if isinstance(below, TopK) else rows)


def _name_of(operator: Operator) -> str:
    """What expressions call the groups."""
    return next(part.name for part in walk(operator) if isinstance(part, Alias))


def _cut_partials(rows: Operator, keys: tuple[str, ...], partials: tuple[Partial, ...], cuts: _Cuts) -> Scan:
    return cuts.add(CombinePartials(rows, keys, partials), CombinePartials(Scan(INPUT_VIEW), keys, partials))


def _of_partials(aggregate: Aggregate, cuts: _Cuts) -> Operator:
    """Groups of joined rows, made of the partials of all parts."""
    keys = tuple(item.name for item in aggregate.items[: len(aggregate.keys)])
    calls: dict[exp.Expr, Partial] = {}
    found = tuple(merged_of(item.name, item.expression, calls) for item in aggregate.items[len(keys) :])
    partials = tuple(calls.values())
    part = PartialAggregate(aggregate.input, keys, partials, tuple(calls))
    return MergeAggregate(cuts.add(part, CombinePartials(Scan(INPUT_VIEW), keys, partials)), keys, partials, found)
