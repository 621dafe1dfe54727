"""Large groups: of those whose sum or count must reach a bound, which may do so, as far as one site can say.

Of n sites, one has an nth of the bound, or the group does not reach it. What is compared is the sum of the positive
values, which is no less than the sum of any of the rows.
"""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, Decimal

from planner.graph.expressions import cast
from planner.relations.catalog import TableStatistics
from planner.sql.dialect import exp, name_node
from planner.values.decimals import digits_of
from planner.values.names import INPUT_VIEW
from planner.values.ranges import WHOLE_NUMBERS
from planner.values.scans import Threshold

MAX_DIGITS = 28
"""Longer decimals are not summed: Spark's sum has ten digits more, and 38 at most."""


def may_be_missed(threshold: Threshold, kind: str) -> bool:
    """Return whether a site can say of a group that it is too small.

    Args:
        threshold: what groups must reach.
        kind: the type of its summand; none where rows are counted.
    """
    digits = digits_of(kind.upper())
    exact = kind.upper() in WHOLE_NUMBERS or (digits is not None and digits.precision <= MAX_DIGITS)
    return (exact or threshold.summand is None) and Decimal(threshold.at_least) > 0


def large_at_a_site(threshold: Threshold, kind: str, sites: int) -> exp.Expr:
    """Return the condition on groups at one of so many sites, so that they may reach the threshold in all.

    Args: as of `may_be_missed`.
    """
    if threshold.summand is None:
        return _at_least(exp.Count(this=exp.Star()), "BIGINT", 0, threshold, sites)
    digits = digits_of(kind.upper())
    scale = digits.scale if digits is not None else 0
    value = exp.Column(this=name_node(threshold.summand), table=name_node(INPUT_VIEW))
    positive = exp.Anonymous(this="greatest", expressions=[value, cast(exp.Literal.number(0), kind)])
    # No sum of them is too large for this type, whatever it is when negative values are in it.
    wide = f"DECIMAL({MAX_DIGITS},{scale})"
    total = exp.Anonymous(this="sum", expressions=[cast(positive, wide)])
    return _at_least(total, wide, scale, threshold, sites)


def _at_least(total: exp.Expr, kind: str, scale: int, threshold: Threshold, sites: int) -> exp.Expr:
    """Compare with an equal part of the threshold, in whole units of the last digit."""
    part = (Decimal(threshold.at_least) / sites).quantize(Decimal(1).scaleb(-scale), ROUND_CEILING)
    return exp.GTE(this=total, expression=cast(exp.Literal.string(f"{part:f}"), kind))


def large_groups(threshold: Threshold, rows: float, groups: float, sites: int, found: TableStatistics) -> float:
    """Return how many groups may be large at a site or another, in sum; all, where the range of values is not known.

    Values are taken to be anywhere in the range, and rows to come to groups and sites at random: the values of a group
    at a site add up to a compound Poisson sum, and that to about a normal one.
    """
    low, high = found.ranges.get(threshold.summand, (0.0, math.inf)) if threshold.summand else (1.0, 1.0)
    low, high = max(0.0, low), max(0.0, high)
    if math.isinf(high) or not groups:
        return groups
    mean, of_squares = (low + high) / 2, (low * low + low * high + high * high) / 3
    of_site = rows / groups / max(1, sites)
    missing = float(threshold.at_least) / max(1, sites) - of_site * mean
    share = math.erfc(missing / math.sqrt(2 * of_site * of_squares)) / 2 if of_site * of_squares else 0.0
    return min(groups, groups * sites * share)


def threshold_text(threshold: Threshold | None) -> str:
    """Return the condition for people; empty without one."""
    if threshold is None:
        return ""
    return f"{f'sum({threshold.summand})' if threshold.summand else 'count(*)'} >= {threshold.at_least}"
