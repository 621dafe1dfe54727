"""ROLLUP, CUBE and GROUPING SETS of GROUP BY over streams: which keys each set has."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, combinations, product

from planner.sql.dialect import exp, offset_of
from planner.sql.refusals import GROUPING_FUNCTIONS, function_name, refuse
from planner.sql.source import Source

MAX_SETS = 64
"""Each group of the merge is made as many times."""
HINT = "GROUP BY window(ts, '10 seconds'), ROLLUP (a, b); the window is in each set."

_Items = tuple[exp.Expr, ...]
_SETS = (exp.Rollup, exp.Cube, exp.GroupingSets)


@dataclass(frozen=True, slots=True)
class GroupingSets:
    """The sets, each of places among the keys besides the window."""

    sets: tuple[frozenset[int], ...]
    weights: tuple[int, ...]
    """Each key adds its weight to `grouping_id()` where a set does not have it."""

    def ids(self, call: exp.Expr, keys: Sequence[exp.Expr]) -> list[int]:
        """Return the value of `grouping(x)` or `grouping_id()` for each set."""
        weights = dict(enumerate(self.weights))
        if call.expressions:
            weights = {keys.index(call.expressions[0].unnest()): 1}
        return [sum(weight for place, weight in weights.items() if place not in set_) for set_ in self.sets]

    def behind(self, more: int) -> GroupingSets:
        """The same with that many keys before the others, which all sets have."""
        before = frozenset(range(more))
        moved = tuple(before | {place + more for place in set_} for set_ in self.sets)
        return GroupingSets(moved, (0,) * more + self.weights)


def has_sets(tree: exp.Select) -> bool:
    """Return whether GROUP BY of a SELECT has ROLLUP, CUBE or GROUPING SETS."""
    group = tree.args.get("group")
    return group is not None and any(isinstance(item, _SETS) for item in group.expressions)


def plain_keys(group: exp.Expr) -> list[exp.Expr]:
    """The keys of GROUP BY, without ROLLUP, CUBE and GROUPING SETS around them."""
    return list(chain.from_iterable(map(_keys, group.expressions)))


def grouping_sets(
    tree: exp.Select,
    keys: tuple[exp.Expr, ...],
    bound: Callable[[exp.Expr], exp.Expr],
    is_window: Callable[[exp.Expr], bool],
    source: Source,
) -> GroupingSets | None:
    """The sets of a SELECT; None: all its groups are by all keys.

    Args:
        tree: the SELECT.
        keys: all its keys, bound, in their order.
        bound: from a key as written to one of them.
        is_window: whether a bound key is the window.
        source: the text.

    Raises:
        UnsupportedSqlError: a set has no window, or there are too many.
    """
    group = tree.args.get("group")
    if group is None or not has_sets(tree):
        return None
    parts = [list(_sets(item)) for item in group.expressions]
    total = 1
    for part in parts:
        total *= len(part)
    if total > MAX_SETS:
        raise refuse(group, source, f"{total} grouping sets are too many", f"At most {MAX_SETS} are possible.")
    others = tuple(key for key in keys if not is_window(key))
    found = []
    for chosen in product(*parts):
        items = [bound(item) for item in chain.from_iterable(chosen)]
        if not any(map(is_window, items)):
            at = group if offset_of(group) is not None else tree
            raise refuse(at, source, "a grouping set over a stream needs the window", HINT)
        found.append(frozenset(others.index(item) for item in items if not is_window(item)))
    powers = {key: 1 << power for power, key in enumerate(reversed(keys))}
    return GroupingSets(tuple(found), tuple(powers[key] for key in others))


def check_grouping_calls(
    nodes: Sequence[exp.Expr], keys: Sequence[exp.Expr], sets: GroupingSets | None, source: Source
) -> None:
    """Raises UnsupportedSqlError at a `grouping(...)` without grouping sets, or of what is no key."""
    for call in (part for node in nodes for part in node.walk() if function_name(part) in GROUPING_FUNCTIONS):
        name = function_name(call)
        if sets is None:
            raise refuse(call, source, f"{name} is possible only beside ROLLUP, CUBE or GROUPING SETS", HINT)
        one, of = name == GROUPING_FUNCTIONS[0], call.expressions
        if len(of) != one or any(item.unnest() not in keys for item in of):
            message = f"{name} takes {'a key of GROUP BY' if one else 'no arguments'}"
            raise refuse(call, source, message, "grouping(page), grouping_id().")


def _keys(item: exp.Expr) -> Iterator[exp.Expr]:
    if isinstance(item, (*_SETS, exp.Tuple)):
        for part in item.expressions:
            yield from _keys(part)
    else:
        yield item


def _sets(item: exp.Expr) -> Iterator[_Items]:
    """The sets that one item of GROUP BY stands for."""
    parts = [tuple(_keys(part)) for part in item.expressions]
    if isinstance(item, exp.Rollup):
        yield from (tuple(chain.from_iterable(parts[:length])) for length in range(len(parts), -1, -1))
    elif isinstance(item, exp.Cube):
        sizes = range(len(parts), -1, -1)
        yield from (tuple(chain.from_iterable(c)) for size in sizes for c in combinations(parts, size))
    elif isinstance(item, exp.GroupingSets):
        for part in item.expressions:
            yield from _sets(part)
    else:
        yield tuple(_keys(item))
