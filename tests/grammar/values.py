"""Scalar expressions over `orders`, by type. Everything here means the same in Spark and in DuckDB, NULLs included, and
has the same type: where the engines' rules differ, the oracle's text has a CAST to Spark's.

Left out, because the engines differ and neither is wrong: division by zero, overflow, rounding of halves, the order of
NULLs, the type of a decimal's average.
"""

from __future__ import annotations

from hypothesis import strategies as st

from tests.grammar.text import Both, fill

Values = st.SearchStrategy[Both]


def _leaf(*texts: str) -> Values:
    return st.sampled_from([Both.same(text) for text in texts])


def integers(depth: int = 2) -> Values:
    """Small enough that sums of products stay far from the limits of 64 bits."""
    leaf = st.one_of(
        _leaf("o.quantity", "o.id % 7", "3", "coalesce(o.quantity, 0)"),
        st.just(Both("length(o.product)", "CAST(length(o.product) AS INTEGER)")),
    )
    if depth == 0:
        return leaf
    part = integers(depth - 1)
    return st.one_of(
        leaf,
        st.builds(lambda a, b, op: fill(f"({{}} {op} {{}})", a, b), part, part, st.sampled_from("+-*")),
        st.builds(lambda a, n: fill(f"({{}} % {n})", a), part, st.integers(2, 5)),
        st.builds(lambda c, a, b: fill("CASE WHEN {} THEN {} ELSE {} END", c, a, b), booleans(0), part, part),
        st.builds(lambda a: fill("abs({})", a), part),
    )


def doubles(depth: int = 2) -> Values:
    leaf = _leaf("o.price", "o.price * o.quantity", "CAST(o.quantity AS DOUBLE)", "CAST(1.5 AS DOUBLE)")
    if depth == 0:
        return leaf
    part = doubles(depth - 1)
    return st.one_of(
        leaf,
        st.builds(lambda a, b, op: fill(f"({{}} {op} {{}})", a, b), part, part, st.sampled_from("+-")),
        st.builds(lambda a, n: fill(f"({{}} / {n})", a), part, st.integers(2, 9)),
        st.builds(lambda a, b: fill("coalesce({}, {})", a, b), part, part),
    )


def decimals() -> Values:
    return _leaf("o.fee", "coalesce(o.fee, CAST(0 AS DECIMAL(10,2)))")


def strings(depth: int = 1) -> Values:
    leaf = _leaf("o.product", "o.site", "'x'", "upper(o.product)", "substr(o.product, 2, 1)")
    if depth == 0:
        return leaf
    part = strings(depth - 1)
    return st.one_of(
        leaf,
        st.builds(lambda a, b: fill("concat({}, '-', {})", a, b), part, part),
        st.builds(lambda c, a, b: fill("CASE WHEN {} THEN {} ELSE {} END", c, a, b), booleans(0), part, part),
    )


def booleans(depth: int = 2) -> Values:
    leaf = _leaf(
        "o.express",
        "o.quantity IS NULL",
        "o.price IS NOT NULL",
        "o.product IN ('p1', 'p4', 'p9')",
        "o.site <> 'eu'",
        "o.product LIKE 'p%'",
        "o.quantity BETWEEN 2 AND 6",
        "o.fee > 1.25",
    )
    if depth == 0:
        return leaf
    part = booleans(depth - 1)
    operators = st.sampled_from(("=", "<>", "<", "<=", ">", ">="))
    return st.one_of(
        leaf,
        st.builds(lambda a, b, op: fill(f"({{}} {op} {{}})", a, b), integers(0), integers(1), operators),
        st.builds(lambda a, b, op: fill(f"({{}} {op} {{}})", a, b), part, part, st.sampled_from(("AND", "OR"))),
        st.builds(lambda a: fill("(NOT {})", a), part),
    )


def scalars() -> Values:
    """Of any type."""
    return st.one_of(integers(), doubles(), strings(), booleans(1), decimals())
