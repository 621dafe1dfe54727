"""What stands in FROM: the stream itself, or a query over it that has the same columns."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import strategies as st

from tests.grammar.text import Both, fill
from tests.grammar.values import booleans, decimals, doubles

NOTHING = Both.same("")


@dataclass(frozen=True, slots=True)
class Source:
    """A relation with the columns of `orders`, and what goes before the SELECT that reads it."""

    rows: Both
    prefix: Both = NOTHING
    joins: bool = True
    """Whether tables can be joined to it."""


STREAM = Source(Both.same("orders"))

_SELECT = (
    "SELECT o.id AS id, o.ts AS ts, {} AS product, o.quantity AS quantity, {} AS price, {} AS fee,"
    " o.express AS express, o.site AS site FROM orders AS o WHERE {}"
)
_PRODUCTS = (("", ""), ("upper(", ")"), ("concat(", ", '')"))
"""Around the column. No constants: tables are joined to it."""


def _query() -> st.SearchStrategy[Both]:
    """With other values in some columns, of the same types, and not all rows."""
    product = st.sampled_from([Both.same(f"{before}o.product{behind}") for before, behind in _PRODUCTS])
    price = st.one_of(st.just(Both.same("o.price")), doubles(0))
    return st.builds(lambda *parts: fill(_SELECT, *parts), product, price, decimals(), booleans(1))


def sources() -> st.SearchStrategy[Source]:
    """Sub-queries, entries of WITH, unions."""
    derived = st.builds(lambda query: Source(fill("({})", query)), _query())
    common = st.builds(lambda query: Source(Both.same("chosen"), fill("WITH chosen AS ({}) ", query)), _query())
    union = st.builds(lambda a, b: Source(fill("({} UNION ALL {})", a, b), joins=False), _query(), _query())
    return st.one_of(st.just(STREAM), derived, common, union)
