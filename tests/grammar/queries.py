"""Whole queries: stateless ones, aggregates with keys, HAVING and top-k, layers over them, and joins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hypothesis import strategies as st

from tests.grammar.sources import STREAM, Source, sources
from tests.grammar.text import Both, fill, joined
from tests.grammar.values import booleans, decimals, doubles, integers, scalars, strings

JOINS = (
    Both.same(""),
    Both.same(" JOIN products AS p ON o.product = p.product"),
    Both.same(" LEFT JOIN products AS p ON o.product = p.product AND p.category <> 'A'"),
    Both.same(" JOIN stock AS k ON o.product = k.product AND o.site = k.site"),
    Both.same(" JOIN products AS p ON o.product = p.product LEFT JOIN recalls AS r ON r.product = p.product"),
)
SUM_OF_DECIMALS = "DECIMAL(20,2)"
"""The type of sums of `decimals`, by Spark's rule: ten digits more."""
OF_JOIN = {"p": ("p.category", "p.name"), "k": ("k.amount",), "r": ("r.reason",)}
"""Columns to select, by the alias that a join brings."""


@dataclass(frozen=True, slots=True)
class Window:
    """In both dialects; where rows are in several windows, the oracle has each row once per window."""

    call: Both
    length_s: int
    slide_s: int | None = None

    def rows(self, source: Source) -> Both:
        """The relation to group."""
        if self.slide_s is None:
            return source.rows
        starts = f"w(ts, {self.slide_s}) - to_seconds({self.slide_s} * unnest(range({self.length_s // self.slide_s})))"
        return Both(source.rows.selat, f"(SELECT *, {starts} AS ws FROM {source.rows.oracle})")


def _tumbling(seconds: int) -> Window:
    return Window(Both(f"window(o.ts, '{seconds} seconds')", f"w(o.ts, {seconds})"), seconds)


def _sliding(length_s: int, slide_s: int) -> Window:
    return Window(Both(f"window(o.ts, '{length_s} seconds', '{slide_s} seconds')", "o.ws"), length_s, slide_s)


WINDOWS = (_tumbling(10), _tumbling(30), _tumbling(60), _sliding(20, 10), _sliding(30, 10))


@st.composite
def stateless(draw: st.DrawFn) -> Both:
    source = draw(sources())
    join = draw(st.sampled_from(JOINS if source.joins else JOINS[:1]))
    items = [fill(f"{{}} AS c{n}", item) for n, item in enumerate(draw(st.lists(scalars(), min_size=1, max_size=3)))]
    items += [Both.same(f"{column} AS {column.replace('.', '_')}") for column in _joined_columns(join)]
    where = fill(" WHERE {} AND o.id % 20 = 0", draw(booleans()))
    return fill("{}SELECT o.id, {} FROM {} AS o{}{}", source.prefix, joined(", ", items), source.rows, join, where)


@dataclass(frozen=True, slots=True)
class Call:
    """A call of an aggregate."""

    text: Both
    type: str = ""
    """Spark's type, where DuckDB has another; else empty."""

    def over(self, rows: Both) -> Both:
        """The whole expression: the call, then its FILTER, in a CAST where the types differ."""
        whole = fill("{}{}", self.text, rows)
        return Both(whole.selat, f"CAST({whole.oracle} AS {self.type})") if self.type else whole


def aggregates() -> st.SearchStrategy[Both]:
    """Aggregate calls; some with DISTINCT, some with FILTER."""
    exact = st.one_of(integers(), decimals())
    calls = st.one_of(
        st.just(Both.same("count(*)")),
        st.builds(lambda a: fill("count({})", a), scalars()),
        st.builds(lambda a: fill("sum({})", a), st.one_of(integers(), doubles())),
        st.builds(lambda f, a: fill(f"{f}({{}})", a), st.sampled_from(("min", "max")), st.one_of(exact, strings())),
        st.builds(lambda a: fill("avg({})", a), st.one_of(integers(), doubles())),
        st.builds(lambda f, a: _spread(f, a), st.sampled_from(("stddev_pop", "var_pop")), integers(1)),
        st.builds(lambda a: fill("count(DISTINCT {})", a), st.one_of(integers(), strings())),
        st.builds(lambda a: fill("sum(DISTINCT {})", a), integers()),
    )
    sums = st.builds(lambda a: Call(fill("sum({})", a), SUM_OF_DECIMALS), decimals())
    rows = st.one_of(st.just(Both.same("")), st.builds(lambda c: fill(" FILTER (WHERE {})", c), booleans(1)))
    return st.builds(Call.over, st.one_of(st.builds(Call, calls), sums), rows)


def _spread(function: str, argument: Both) -> Both:
    """In doubles on both sides."""
    return fill(f"{function}(CAST({{}} AS DOUBLE))", argument)


@st.composite
def windowed(draw: st.DrawFn) -> Both:
    source, window = draw(sources()), draw(st.sampled_from(WINDOWS))
    join = draw(st.sampled_from(JOINS if source.joins else JOINS[:1]))
    keys = draw(st.lists(st.one_of(strings(), integers(1), booleans(0)), max_size=2))
    keys += [Both.same(column) for column in _joined_columns(join)[:1]]
    calls = draw(st.lists(aggregates(), min_size=1, max_size=3))
    where = draw(st.one_of(st.just(Both.same("")), st.builds(lambda c: fill(" WHERE {}", c), booleans())))
    grouped = _grouped(window, keys, calls, fill("{} AS o{}{}", window.rows(source), join, where))
    having = draw(st.sampled_from(("", " HAVING count(*) > 3", " HAVING count(*) % 2 = 0 OR max(o.id) > 1000000")))
    query = Both(grouped.selat + having, grouped.oracle + having)
    k = draw(st.integers(0, 4))
    return _prefixed(source, _top_k(query, len(keys), k) if keys and k else query)


@st.composite
def layered(draw: st.DrawFn) -> Both:
    """An aggregate over an aggregate of the same window."""
    source, window = draw(sources()), draw(st.sampled_from(WINDOWS))
    inner = draw(_rows_of_windows(source, window))
    where = draw(st.sampled_from(("", " WHERE d.n > 2", " WHERE d.k <> 'p1' OR d.n % 2 = 1")))
    items = "max(d.n) AS most, count(d.a) AS filled, count(DISTINCT d.k) AS ks"
    query = fill(f"SELECT {{}} AS s, {items} FROM ({{}}) AS d{where} GROUP BY d.w", Both("d.w.start", "d.w"), inner)
    return _prefixed(source, query)


@st.composite
def longer(draw: st.DrawFn) -> Both:
    """An aggregate over the windows that a longer one is made up of."""
    source, length_s = draw(sources()), draw(st.sampled_from((20, 30, 60)))
    inner = draw(_rows_of_windows(source, _tumbling(10)))
    where = draw(st.sampled_from(("", " WHERE d.n > 2")))
    having = draw(st.sampled_from(("", " HAVING sum(d.n) > 5")))
    key = draw(st.sampled_from(("d.k", "d.n % 2")))
    # One spelling for the whole query: Spark takes two spellings for two windows.
    shorter = draw(st.sampled_from(("d.w", "d.w.start")))
    group = Both(f"window({shorter}, '{length_s} seconds')", f"w(d.w, {length_s})")
    start = Both(f"{group.selat}.start", group.oracle)
    items = f"{key} AS k, max(d.n) AS most, sum(d.n) AS n, count(d.a) AS filled, count(DISTINCT d.n) AS ns"
    query = fill(f"SELECT {{}} AS s, {items} FROM ({{}}) AS d{where} GROUP BY {{}}, {key}{having}", start, inner, group)
    return _prefixed(source, query)


@st.composite
def joined_windows(draw: st.DrawFn) -> Both:
    """Two aggregates, joined on their window."""
    source, window = draw(sources()), draw(st.sampled_from(WINDOWS))
    left = draw(_rows_of_windows(source, window))
    right = draw(_rows_of_windows(draw(st.sampled_from((source, STREAM))), window))
    kind = draw(st.sampled_from(("JOIN", "LEFT JOIN")))
    more = draw(st.sampled_from((" AND a.k = b.k", " AND a.k = b.k AND b.n > 1", " AND a.n = b.n AND a.k <= b.k")))
    where = draw(st.sampled_from(("", " WHERE a.n > 2", " WHERE b.n IS NULL OR a.n >= b.n")))
    start = Both("a.w.start", "a.w")
    rows = fill(f"({{}}) AS a {kind} ({{}}) AS b ON a.w = b.w{more}{where}", left, right)
    if draw(st.booleans()):
        items = "count(*) AS n, count(b.a) AS filled, max(b.n) AS most"
        return _prefixed(source, fill(f"SELECT {{}} AS s, {items} FROM {{}} GROUP BY a.w", start, rows))
    items = "a.k AS k, b.k AS other, a.n AS n, b.n AS m, a.a AS x, b.a AS y"
    return _prefixed(source, fill(f"SELECT {{}} AS s, {items} FROM {{}}", start, rows))


@st.composite
def _rows_of_windows(draw: st.DrawFn, source: Source, window: Window) -> Both:
    """With the window as `w`, a text as `k`, a count as `n` and an aggregate as `a`."""
    key, call = draw(strings()), draw(aggregates())
    return fill(
        "SELECT {} AS w, {} AS k, count(*) AS n, {} AS a FROM {} AS o GROUP BY {}, {}",
        *(window.call, key, call, window.rows(source), window.call, key),
    )


@st.composite
def joined_streams(draw: st.DrawFn) -> Both:
    """The stream with itself, inside a window: joined rows, or aggregates of them."""
    seconds = draw(st.sampled_from((10, 30)))
    window = _tumbling(seconds)
    other = Both(f"window(b.ts, '{seconds} seconds')", f"w(b.ts, {seconds})")
    more = draw(st.sampled_from(("", " AND b.express", " AND o.id <> b.id", " AND b.fee > 2 AND b.site <> 'us'")))
    kind = draw(st.sampled_from((" JOIN", " LEFT JOIN")))
    equal = f"o.product = b.product AND o.quantity = b.quantity{more}"
    rows = fill(
        f"orders AS o{kind} orders AS b ON {equal} AND {{}} = {{}} WHERE {{}}", window.call, other, draw(booleans())
    )
    if draw(st.booleans()):
        return fill("SELECT o.id, b.id AS other, {} AS c0, b.site AS there FROM {}", draw(scalars()), rows)
    keys = draw(st.lists(st.one_of(strings(), booleans(0)), max_size=1))
    return _grouped(window, keys, [*draw(st.lists(aggregates(), max_size=2)), Both.same("count(b.id)")], rows)


def _prefixed(source: Source, query: Both) -> Both:
    return fill("{}{}", source.prefix, query)


def _grouped(window: Window, keys: Sequence[Both], calls: Sequence[Both], rows: Both) -> Both:
    """The window's start is selected as `s`, keys as `k0`, `k1`, ..., aggregates as `a0`, `a1`, ..., a count as `n`."""
    start = Both(f"{window.call.selat}.start", window.call.oracle)
    names = [fill(f"{{}} AS k{n}", key) for n, key in enumerate(keys)]
    names += [fill(f"{{}} AS a{n}", call) for n, call in enumerate(calls)]
    items = joined(", ", [fill("{} AS s", start), Both.same("count(*) AS n"), *names])
    groups = joined(", ", [window.call, *keys])
    return fill("SELECT {} FROM {} GROUP BY {}", items, rows, groups)


def _top_k(query: Both, keys: int, k: int) -> Both:
    """The k largest groups of each window; all keys break ties, and NULLs come last on both sides."""
    order = "".join(f", k{n} ASC NULLS LAST" for n in range(keys))
    rank = f"row_number() OVER (PARTITION BY {{}} ORDER BY n DESC{order}) <= {k}"
    selat = f"{query.selat} QUALIFY {rank.format('window')}"
    return Both(selat, f"SELECT * FROM ({query.oracle}) QUALIFY {rank.format('s')}")


def _joined_columns(join: Both) -> list[str]:
    return [c for alias, columns in OF_JOIN.items() if f" AS {alias} " in join.selat for c in columns]


def queries() -> st.SearchStrategy[Both]:
    """Mostly windowed ones: there is more to go wrong in them."""
    return st.one_of(
        stateless(), windowed(), windowed(), layered(), joined_streams(), longer(), joined_windows(), joined_windows()
    )
