"""Random queries over tables that Spark and DuckDB read alike: NULLs in every place, joins of every kind, sub-queries,
grouping sets, set operations, windows. Results are bags: nothing is cut by LIMIT."""

from __future__ import annotations

from random import Random
from typing import TypeVar

T = TypeVar("T")

TABLES = {"t": ("a", "b", "s"), "u": ("a", "b", "s"), "w": ("a", "d")}
TEXTS = ("x", "y", "xy", "")


def rows(table: str, random: Random) -> list[tuple[int | str | None, ...]]:
    """Few values, so that much matches, and every fourth NULL; some rows twice."""
    made = [tuple(_value(column, random) for column in TABLES[table]) for _ in range(random.choice((0, 6, 20, 20, 30)))]
    return made + random.sample(made, len(made) // 3)


def query(random: Random) -> str:
    """A query; each result column has a name of its own."""
    return _Writer(random).query()


def _value(column: str, random: Random) -> int | str | None:
    if random.random() < 0.25:
        return None
    return random.choice(TEXTS) if column == "s" else random.randrange(5)


class _Writer:
    def __init__(self, random: Random) -> None:
        self._random = random
        self._names = 0

    def query(self) -> str:
        first = self._select()
        if self._random.random() < 0.75:
            return first
        operation = self._one("UNION ALL", "UNION", "EXCEPT", "EXCEPT ALL", "INTERSECT", "INTERSECT ALL")
        return f"{self._pair()} {operation} {self._pair()}"

    def _pair(self) -> str:
        rows, members = self._from()
        first, second = self._number(members), self._number(members)
        return f"(SELECT {first} AS c1, {second} AS c2 FROM {rows}{self._where(members)})"

    def _select(self) -> str:
        rows, members = self._from()
        where = self._where(members)
        way = self._random.random()
        if way < 0.35:
            items = [self._number(members) for _ in range(2)]
            grouped = self._one("{}", "ROLLUP ({})", "CUBE ({})", "GROUPING SETS (({}), ())").format(", ".join(items))
            having = f" HAVING count(*) > {self._scalar()}" if self._random.random() < 0.3 else ""
            if grouped[0] in "RCG" and not having:
                # Of no rows, DuckDB has the total, and Spark has not.
                having = " HAVING count(*) > 0"
            aggregates = f"count(*) AS n, sum({self._number(members)}) AS t, count(DISTINCT {self._any(members)}) AS d"
            return (
                f"SELECT {items[0]} AS k1, {items[1]} AS k2, {aggregates} FROM {rows}{where} GROUP BY {grouped}{having}"
            )
        if way < 0.5:
            over = f"OVER (PARTITION BY {self._any(members)})"
            return f"SELECT {self._number(members)} AS c1, sum({self._number(members)}) {over} AS c2 FROM {rows}{where}"
        distinct = self._one("", "", "DISTINCT ")
        scalar = f", {self._scalar(members)} AS c3" if self._random.random() < 0.3 else ""
        return f"SELECT {distinct}{self._any(members)} AS c1, {self._any(members)} AS c2{scalar} FROM {rows}{where}"

    def _from(self) -> tuple[str, dict[str, str]]:
        """The text behind FROM, and the tables by their aliases, as far as their columns are in reach."""
        table, alias = self._table()
        members, text = {alias: table}, self._item(table, alias)
        for _ in range(self._one(0, 0, 1, 1, 2)):
            table, alias = self._table()
            kind = self._one("JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "CROSS JOIN", "SEMI", "ANTI")
            item = self._item(table, alias)
            if kind == "CROSS JOIN":
                text = f"{text} CROSS JOIN {item}"
                members[alias] = table
                continue
            on = f"{self._number(members)} = {alias}.a"
            if self._random.random() < 0.4:
                on += f" AND {self._plain({alias: table})}"
            if kind in ("SEMI", "ANTI"):
                # DuckDB has no LEFT in front of it, and Spark needs none.
                text = f"{text} {kind} JOIN {item} ON {on}"
                continue
            text = f"{text} {kind} {item} ON {on}"
            members[alias] = table
        return text, members

    def _item(self, table: str, alias: str) -> str:
        if self._random.random() < 0.8:
            return f"{table} AS {alias}"
        columns = ", ".join(TABLES[table])
        inner = self._one(
            f"SELECT {columns} FROM {table} WHERE {self._plain({table: table})}",
            f"SELECT DISTINCT {columns} FROM {table}",
            f"SELECT {columns} FROM {table} UNION ALL SELECT {columns} FROM {table} WHERE a > 2",
        )
        return f"({inner}) AS {alias}"

    def _table(self) -> tuple[str, str]:
        self._names += 1
        return self._one(*TABLES), f"q{self._names}"

    def _where(self, members: dict[str, str]) -> str:
        parts = [self._condition(members) for _ in range(self._one(0, 1, 1, 2))]
        return f" WHERE {' AND '.join(parts)}" if parts else ""

    def _condition(self, members: dict[str, str]) -> str:
        way = self._random.random()
        if way < 0.5:
            return self._plain(members)
        if way < 0.6:
            return f"({self._plain(members)} OR {self._nested(members)})"
        return self._nested(members)

    def _nested(self, members: dict[str, str]) -> str:
        table, alias = self._table()
        inner = self._plain({alias: table})
        correlated = f"{alias}.a = {self._number(members)}"
        not_ = self._one("", "NOT ")
        return self._one(
            f"{not_}EXISTS (SELECT 1 FROM {table} AS {alias} WHERE {correlated} AND {inner})",
            f"{self._number(members)} {not_}IN (SELECT {alias}.a FROM {table} AS {alias} WHERE {inner})",
            f"{self._number(members)} {self._one('>', '=', '<>')} (SELECT max({alias}.a) FROM {table} AS {alias} "
            f"WHERE {correlated})",
            f"{self._number(members)} >= {self._scalar()}",
        )

    def _scalar(self, members: dict[str, str] | None = None) -> str:
        table, alias = self._table()
        where = f" WHERE {alias}.a = {self._number(members)}" if members else f" WHERE {self._plain({alias: table})}"
        return f"(SELECT {self._one('count(*)', f'min({alias}.a)', f'sum({alias}.a)')} FROM {table} AS {alias}{where})"

    def _plain(self, members: dict[str, str]) -> str:
        number, other = self._number(members), self._number(members)
        simple = (
            f"{number} {self._one('=', '<>', '<', '>=')} {self._random.randrange(5)}",
            f"{number} {self._one('=', '<', '<>')} {other}",
            f"{number} IS {self._one('', 'NOT ')}NULL",
            f"{number} IN (1, 3, 4)",
            f"{number} NOT IN (0, 2)",
            f"coalesce({number}, {other}) = 1",
            f"{number} + 1 > 3",
            f"NOT ({number} = 2 AND {other} > 1)",
            f"({number} = 1 OR {other} IS NULL)",
            f"CASE WHEN {number} = 1 THEN true ELSE {other} > 2 END",
        )
        texts = [f"{alias}.s" for alias, table in members.items() if "s" in TABLES[table]]
        if not texts or self._random.random() < 0.7:
            return self._one(*simple)
        text = self._one(*texts)
        return self._one(f"{text} LIKE '%x%'", f"{text} NOT LIKE 'x%'", f"upper({text}) = 'X'", f"length({text}) > 1")

    def _number(self, members: dict[str, str]) -> str:
        names = [f"{alias}.{c}" for alias, table in members.items() for c in TABLES[table] if c != "s"]
        return self._one(*names)

    def _any(self, members: dict[str, str]) -> str:
        return self._one(*(f"{alias}.{column}" for alias, table in members.items() for column in TABLES[table]))

    def _one(self, *choices: T) -> T:
        return self._random.choice(choices)
