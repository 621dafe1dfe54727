"""Random queries over `tables`, in words that mean the same in Spark and in DuckDB.

Results are bags: whatever is cut by LIMIT, numbered or summed up in an order has an order in which only equal rows are
tied. Left out, because the engines differ in what it means:

- the place of NULLs where it is not said, `concat` of NULL, means of decimals (digits), division, text made of numbers
- `(a, b) IN (SELECT ...)`: two rows with NULLs are the same in DuckDB, and unknown in Spark
- totals of no rows: ROLLUP, CUBE and the empty grouping set have one in DuckDB, and none in Spark
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum
from random import Random
from typing import TypeVar

from tests.grammar.tables import TABLES

T = TypeVar("T")


class Kind(Enum):
    """Values of one kind can be compared, also where their types differ."""

    NUMBER = "number"
    TEXT = "text"
    DATE = "date"


KINDS = {"STRING": Kind.TEXT, "DATE": Kind.DATE}
_NULLS = {Kind.NUMBER: "CAST(NULL AS INT)", Kind.TEXT: "CAST(NULL AS STRING)", Kind.DATE: "CAST(NULL AS DATE)"}
JOINS = 2 * ("JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "SEMI JOIN", "ANTI JOIN") + ("CROSS JOIN",)
DATES = ("DATE '2026-01-28'", "DATE '2026-02-28'", "DATE '2026-03-28'")


@dataclass(frozen=True, slots=True)
class Value:
    """A column in reach, or one of a result."""

    sql: str
    kind: Kind


Scope = tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Query:
    """A text, and the columns that it gives, by their names."""

    sql: str
    columns: Scope


def query(random: Random) -> str:
    """A query; each result column has a name of its own."""
    return Writer(random).query()


class Writer:
    """Writes one query."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._names = 0
        self._relations: list[tuple[str, Scope]] = [
            (name, tuple(Value(column, KINDS.get(kind, Kind.NUMBER)) for column, kind in columns.items()))
            for name, columns in TABLES.items()
        ]

    def query(self) -> str:
        """The whole text."""
        before = ""
        if self._happens(0.15):
            name, common = self._name(), self._select(2)
            # Often used more than once.
            self._relations += 3 * [(name, common.columns)]
            before = f"WITH {name} AS ({common.sql}) "
        body = self._united() if self._happens(0.25) else self._select(0)
        if self._happens(0.25):
            body = self._ordered(body, limited=self._happens(0.7))
        return before + body.sql

    def _united(self) -> Query:
        kinds = self._random.choices(tuple(Kind), weights=(3, 2, 1), k=self._one(1, 2, 3))
        first = self._select(1, kinds)
        text = f"({first.sql})"
        for _ in range(self._one(1, 1, 2)):
            operation = self._one("UNION ALL", "UNION", "EXCEPT", "EXCEPT ALL", "INTERSECT", "INTERSECT ALL")
            text = f"{text} {operation} ({self._select(1, kinds).sql})"
            if operation.startswith("INTERSECT"):
                # It binds closer than what follows.
                break
        return Query(text, first.columns)

    def _ordered(self, inner: Query, *, limited: bool) -> Query:
        """In the order of all its columns: rows that tie are equal."""
        order = ", ".join(f"{column.sql} {self._direction()}" for column in inner.columns)
        text = f"{inner.sql} ORDER BY {order}"
        if limited:
            text += f" LIMIT {self._one(1, 3, 7, 20)}{self._one('', '', ' OFFSET 2')}"
        return replace(inner, sql=text)

    def _direction(self) -> str:
        return f"{self._one('ASC', 'DESC')} NULLS {self._one('FIRST', 'LAST')}"

    def _select(self, depth: int, kinds: Sequence[Kind] | None = None) -> Query:
        """A SELECT; the deeper, the smaller. With `kinds` its columns are of these."""
        rows, scope = self._from(depth)
        where = self._where(scope, depth)
        kinds = kinds or self._random.choices(tuple(Kind), weights=(4, 2, 1), k=self._one(1, 2, 2, 3))
        way = self._random.random()
        if way < 0.35:
            return self._grouped(scope, f"{rows}{where}", kinds, depth)
        if way < 0.5:
            return self._over(scope, f"{rows}{where}", kinds)
        items = [
            self._scalar(scope)
            if kind is Kind.NUMBER and depth < 2 and self._happens(0.1)
            else self._value(scope, kind)
            for kind in kinds
        ]
        return self._made(f"SELECT {self._one('', '', '', 'DISTINCT ')}", items, kinds, f" FROM {rows}{where}")

    def _made(self, before: str, items: Sequence[str], kinds: Sequence[Kind], behind: str) -> Query:
        named = ", ".join(f"{item} AS c{number}" for number, item in enumerate(items, start=1))
        columns = tuple(Value(f"c{number}", kind) for number, kind in enumerate(kinds, start=1))
        return Query(f"{before}{named}{behind}", columns)

    def _grouped(self, scope: Scope, rows: str, kinds: Sequence[Kind], depth: int) -> Query:
        # A number by itself would be the place of a column.
        there = {column.kind for column in scope}
        keys = {kind: self._value(scope, kind) for kind in kinds if kind in there and self._happens(0.6)}
        items = [keys[kind] if kind in keys and self._happens(0.7) else self._aggregate(scope, kind) for kind in kinds]
        groups = ", ".join(dict.fromkeys(keys.values()))
        having = f" HAVING {self._of_groups(scope, depth)}" if self._happens(0.3) else ""
        if not groups:
            return self._made("SELECT ", items, kinds, f" FROM {rows}{having}")
        grouped = self._one("{0}", "{0}", "{0}", "ROLLUP ({0})", "CUBE ({0})", "GROUPING SETS (({0}), ())").format(
            groups
        )
        if grouped != groups:
            having += " AND count(*) > 0" if having else " HAVING count(*) > 0"
            number = kinds.index(Kind.NUMBER) if Kind.NUMBER in kinds and self._happens(0.3) else None
            if number is not None and items[number] not in keys.values():
                items[number] = f"grouping({self._one(*keys.values())})"
        return self._made("SELECT ", items, kinds, f" FROM {rows} GROUP BY {grouped}{having}")

    def _of_groups(self, scope: Scope, depth: int) -> str:
        aggregate = self._aggregate(scope, Kind.NUMBER)
        if depth < 2 and self._happens(0.4):
            return f"{aggregate} {self._one('>', '<>', '<=')} {self._scalar()}"
        return self._one(f"{aggregate} > 1", "count(*) < 4", f"{aggregate} IS NOT NULL")

    def _aggregate(self, scope: Scope, kind: Kind) -> str:
        if kind is not Kind.NUMBER:
            return f"{self._one('min', 'max')}({self._value(scope, kind)})"
        number, anything = self._value(scope, Kind.NUMBER), self._value(scope, self._one(*Kind))
        call = self._one(
            "count(*)",
            f"count({anything})",
            f"sum({number})",
            f"min({number})",
            f"max({number})",
            f"count(DISTINCT {anything})",
            f"sum(DISTINCT {number})",
            f"avg(CAST({number} AS DOUBLE))",
        )
        return f"{call} FILTER (WHERE {self._plain(scope)})" if self._happens(0.15) else call

    def _over(self, scope: Scope, rows: str, kinds: Sequence[Kind]) -> Query:
        """Windows, one of which may number rows: two would number equal rows each in its own way."""
        items = [self._windowed(scope, kind) if self._happens(0.5) else self._value(scope, kind) for kind in kinds]
        number, qualify = self._random.randrange(len(items)), ""
        if self._happens(0.5):
            items[number] = self._numbered(scope, kinds[number])
        if self._happens(0.15):
            function = self._one("rank()", "dense_rank()")
            qualify = f" QUALIFY {function} OVER ({self._partition(scope)}{self._total(scope)}) <= {self._one(1, 2)}"
        return self._made("SELECT ", items, kinds, f" FROM {rows}{qualify}")

    def _windowed(self, scope: Scope, kind: Kind) -> str:
        """The same for rows that tie."""
        value, partition = self._value(scope, kind), self._partition(scope)
        peers = f"ORDER BY {self._column(scope)} {self._direction()}"
        calls = [f"min({value}) OVER ({partition})", f"max({value}) OVER ({partition}{peers})"]
        if kind is Kind.NUMBER:
            calls += [
                f"{self._one('rank', 'dense_rank')}() OVER ({partition}{peers})",
                f"sum({value}) OVER ({partition}{peers})",
                f"count({value}) OVER ({partition})",
            ]
        return self._one(*calls)

    def _numbered(self, scope: Scope, kind: Kind) -> str:
        """Order by the place of each row: only equal rows tie."""
        value, over = self._value(scope, kind), f"{self._partition(scope)}{self._total(scope)}"
        frame = self._one(
            "1 PRECEDING AND CURRENT ROW", "UNBOUNDED PRECEDING AND CURRENT ROW", "2 PRECEDING AND 1 FOLLOWING"
        )
        calls = [
            f"{self._one('lag', 'lead')}({value}) OVER ({over})",
            f"first_value({value}) OVER ({over})",
            f"max({value}) OVER ({over} ROWS BETWEEN {frame})",
        ]
        if kind is Kind.NUMBER:
            calls += [f"row_number() OVER ({over})", f"sum({value}) OVER ({over} ROWS BETWEEN {frame})"]
        return self._one(*calls)

    def _partition(self, scope: Scope) -> str:
        return self._one("", f"PARTITION BY {self._column(scope)} ", f"PARTITION BY {self._column(scope)} ")

    def _total(self, scope: Scope) -> str:
        return "ORDER BY " + ", ".join(f"{column.sql} {self._direction()}" for column in scope)

    def _from(self, depth: int) -> tuple[str, Scope]:
        """The text behind FROM, and the columns in reach."""
        text, scope = self._item(depth)
        for _ in range(self._one(0, 0, 1, 1, 2) if depth else self._one(0, 1, 1, 2, 3)):
            text, scope = self._joined(text, scope, depth)
        return text, scope

    def _joined(self, text: str, scope: Scope, depth: int) -> tuple[str, Scope]:
        kind = self._one(*JOINS)
        if depth == 0 and self._happens(0.1):
            # A join of its own, in parentheses.
            text_of_two, other = self._joined(*self._item(2), 2)
            item = f"({text_of_two})"
        else:
            item, other = self._item(depth)
        if kind == "CROSS JOIN":
            return f"{text} CROSS JOIN {item}", scope + other
        on = self._equal(scope, other)
        if self._happens(0.4):
            on += f" AND {self._plain(self._one(scope, other, scope + other))}"
        # DuckDB has no LEFT in front of SEMI and ANTI, and Spark needs none.
        return f"{text} {kind} {item} ON {on}", scope if kind in ("SEMI JOIN", "ANTI JOIN") else scope + other

    def _equal(self, scope: Scope, other: Scope) -> str:
        """A condition that columns of both sides are equal: most often those whose keys may be sent."""
        pairs = [(a, b) for a in scope for b in other if a.kind is b.kind]
        if not pairs:
            return f"{self._column(scope)} IS NOT NULL AND 1 = 1"
        alike = [(a, b) for a, b in pairs if a.sql.split(".")[-1] == b.sql.split(".")[-1] and a.kind is not Kind.TEXT]
        first, second = self._one(*(alike if alike and self._happens(0.7) else pairs))
        return f"{first.sql} {'=' if self._happens(0.95) else 'IS NOT DISTINCT FROM'} {second.sql}"

    def _item(self, depth: int) -> tuple[str, Scope]:
        """A relation or a query in FROM, with an alias."""
        (name, columns), alias = self._one(*self._relations), self._name()
        if self._happens(0.8) or depth > 1:
            if name in TABLES and self._happens(0.2):
                columns += (Value("site", Kind.TEXT),)
            return f"{name} AS {alias}", tuple(Value(f"{alias}.{c.sql}", c.kind) for c in columns)
        inner = self._united() if self._happens(0.2) else self._select(2)
        if self._happens(0.2):
            inner = self._ordered(inner, limited=True)
        return f"({inner.sql}) AS {alias}", tuple(Value(f"{alias}.{c.sql}", c.kind) for c in inner.columns)

    def _where(self, scope: Scope, depth: int) -> str:
        parts = [self._condition(scope, depth) for _ in range(self._one(0, 1, 1, 2))]
        return f" WHERE {' AND '.join(parts)}" if parts else ""

    def _condition(self, scope: Scope, depth: int) -> str:
        if depth > 1 or self._happens(0.5):
            return self._plain(scope)
        nested = self._nested(scope)
        if self._happens(0.2):
            return f"({self._plain(scope)} OR {nested})"
        return f"NOT ({nested})" if self._happens(0.1) else nested

    def _nested(self, scope: Scope) -> str:
        """With a sub-query, which speaks of the rows around it or does not."""
        rows, inner = self._from(2)
        where = self._plain(inner)
        if self._happens(0.6):
            where = f"{self._equal(scope, inner)} AND {where}"
        kinds = [kind for kind in Kind if all(kind in {c.kind for c in columns} for columns in (scope, inner))]
        kind = self._one(*(kinds or [Kind.NUMBER]))
        value, given = self._value(scope, kind), self._value(inner, kind)
        more = self._one("", "", f" AND {self._column(inner)} IS NOT NULL", f" AND {self._plain(scope + inner)}")
        return self._one(
            f"{self._one('', 'NOT ')}EXISTS (SELECT 1 FROM {rows} WHERE {where}{more})",
            f"{value} {self._one('', 'NOT ')}IN (SELECT {given} FROM {rows} WHERE {where})",
            f"{value} {self._one('', 'NOT ')}IN (SELECT {given} FROM {rows})",
            f"{value} IN (SELECT {given} FROM {rows} WHERE {where} GROUP BY {given} HAVING {self._large(inner)})",
            f"{value} {self._one('>', '=', '<>')} (SELECT max({given}) FROM {rows} WHERE {where})",
            f"{self._value(scope, Kind.NUMBER)} >= {self._scalar(scope)}",
        )

    def _large(self, scope: Scope) -> str:
        """A condition that large groups alone fulfil."""
        total = self._one("count(*)", f"sum({self._value(scope, Kind.NUMBER)})")
        return self._one(f"{total} >= 2", f"{total} > 2", f"3 <= {total}")

    def _scalar(self, outer: Scope = ()) -> str:
        """A number: an aggregate of rows, those around it or all."""
        rows, inner = self._from(2)
        where = f"{self._equal(outer, inner)}" if outer and self._happens(0.7) else self._plain(inner)
        aggregate = self._one(
            "count(*)", f"{self._one('min', 'max', 'sum', 'count')}({self._value(inner, Kind.NUMBER)})"
        )
        return f"(SELECT {aggregate} FROM {rows} WHERE {where})"

    def _plain(self, scope: Scope) -> str:
        """A condition without sub-queries, which may be unknown."""
        kind = self._one(*(column.kind for column in scope))
        value, other = self._value(scope, kind), self._value(scope, kind)
        constant, more = self._constant(kind), self._constant(kind)
        simple = [
            f"{value} {self._one('=', '<>', '<', '>=')} {constant}",
            f"{value} {self._one('=', '<', '<>')} {other}",
            f"{value} IS {self._one('', 'NOT ')}NULL",
            f"{value} IS {self._one('', 'NOT ')}DISTINCT FROM {other}",
            f"{value} {self._one('', 'NOT ')}IN ({constant}, {more})",
            f"{value} {self._one('', 'NOT ')}IN ({constant}, NULL)",
            f"{value} {self._one('', 'NOT ')}BETWEEN {constant} AND {more}",
            f"coalesce({value}, {other}) = {constant}",
            f"NOT ({value} = {constant} AND {other} > {more})",
            f"({value} = {constant} OR {other} IS NULL)",
            f"CASE WHEN {value} = {constant} THEN true ELSE {other} > {more} END",
        ]
        if kind is Kind.TEXT:
            simple += [f"{value} {self._one('', 'NOT ')}LIKE '{self._one('%x%', 'x%', '_', '%')}'"]
        return self._one(*simple)

    def _constant(self, kind: Kind) -> str:
        if kind is Kind.TEXT:
            return self._one("'x'", "'y'", "'xy'", "''", "'us'")
        return self._one(*DATES) if kind is Kind.DATE else self._one("0", "1", "2", "3", "1.5")

    def _value(self, scope: Scope, kind: Kind) -> str:
        """An expression of a kind: most often a column."""
        columns = [column.sql for column in scope if column.kind is kind]
        if not columns:
            return self._one(self._constant(kind), _NULLS[kind])
        column, other = self._one(*columns), self._one(*columns)
        if self._happens(0.7):
            return column
        either = (
            f"coalesce({column}, {other})",
            f"nullif({column}, {other})",
            f"CASE WHEN {column} = {other} THEN {column} WHEN {column} IS NULL THEN {self._constant(kind)} END",
        )
        if kind is Kind.TEXT:
            return self._one(*either, f"upper({column})", f"({column} || {other})", f"substring({column}, 1, 1)")
        if kind is Kind.DATE:
            return self._one(*either)
        of_others = [f"length({c.sql})" for c in scope if c.kind is Kind.TEXT]
        of_others += [f"month({c.sql})" for c in scope if c.kind is Kind.DATE]
        return self._one(*either, f"({column} + 1)", f"(- {column})", f"({column} + {other})", *of_others)

    def _column(self, scope: Scope) -> str:
        return self._one(*scope).sql

    def _name(self) -> str:
        self._names += 1
        return f"q{self._names}"

    def _happens(self, share: float) -> bool:
        return self._random.random() < share

    def _one(self, *choices: T) -> T:
        return self._random.choice(choices)
