"""Sub-queries over tables that stand for a value, as joins with what they aggregate.

    x > (SELECT 2 * avg(y) FROM t WHERE ..)          LEFT JOIN (SELECT avg(y) AS v FROM t ..) ON TRUE, and x > 2 * v
    (SELECT max(y) FROM t WHERE t.k = s.k AND ..)    LEFT JOIN (SELECT k, max(y) AS v FROM t .. GROUP BY k) ON k = s.k

An aggregate without GROUP BY has one row, and with the keys one for each; so no row of the stream is lost or doubled.
The joined relation has the aggregates alone. A key without rows has none of them: the join gives NULL, which is what
such an aggregate is of no rows, or what becomes 0 for a count. The stream's row then evaluates the whole expression.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from planner.functions.aggregates import NULL_OF_NO_ROWS, ZERO_OF_NO_ROWS
from planner.graph.expressions import conjuncts, enclosed, is_aggregate, replace_each, whole_call
from planner.sql.blocks import from_items, nested_queries, scalar_queries, unwrapped
from planner.sql.dialect import exp, name_node, offset_of
from planner.sql.refusals import function_name, refuse
from planner.sql.source import Source

HINT = "(SELECT max(x) FROM t WHERE t.key = s.key AND ...) is possible: one aggregate, over one table."
VALUE = "sub_query_value"
OF_VALUE = "of value"
"""Key of the metadata of a join that stands for a value: `*` has none of its columns."""
_KEY = "sub_query_key"

Columns = Callable[[exp.Expr], frozenset[str]]
"""Lower-case names of the columns of what stands in FROM; none: it is a query, whose columns are not known yet."""


def with_values(select: exp.Select, columns_of: Columns, source: Source) -> exp.Select:
    """Return the SELECT with joins in the place of the sub-queries that stand for a value.

    Raises:
        UnsupportedSqlError: one is of another form.
    """
    if not scalar_queries(select):
        return select
    found = select.copy()
    joins: list[exp.Join] = []
    for number, query in enumerate(scalar_queries(found), 1):
        if query.parent is found:
            message = "a sub-query in the select list needs a name"
            raise refuse(unwrapped(query), source, message, "(SELECT ...) AS name.")
        value = _Reader(query, columns_of, source).value(f"sub-query {number} for a value")
        query.replace(value.outside())
        joins.append(value.join())
    found.set("joins", [*(found.args.get("joins") or []), *joins])
    return found


@dataclass(frozen=True, slots=True)
class _Value:
    """A sub-query for a value, cut into what the join aggregates and what is evaluated outside."""

    alias: str
    start: int | None
    """The offset of the sub-query in the text."""
    query: exp.Select
    expression: exp.Expr
    """Its select item, without the name."""
    keys: tuple[tuple[exp.Expr, exp.Expr], ...]
    """Pairs of what is equal inside and outside."""
    kept: tuple[exp.Expr, ...]
    """The conditions on the table alone."""

    @property
    def aggregates(self) -> tuple[exp.Expr, ...]:
        return tuple(whole_call(call) for call in _aggregates(self.expression))

    def join(self) -> exp.Join:
        """Return the join with the groups, or the one group, of the table."""
        inner = self.query.copy()
        own = [key for key, _ in self.keys]
        inner.set("expressions", [*_named(self.aggregates, VALUE), *_named(own, _KEY)])
        inner.set("where", exp.Where(this=all_of(self.kept)) if self.kept else None)
        if own:
            inner.set("group", exp.Group(expressions=[key.copy() for key in own]))
        equal = [exp.EQ(this=self._column(_KEY, n), expression=other) for n, (_, other) in enumerate(self.keys)]
        on = all_of(equal) if equal else exp.Boolean(this=True)
        item = exp.Subquery(this=inner, alias=exp.TableAlias(this=name_node(self.alias)))
        join = exp.Join(this=item, side="LEFT", on=on)
        join.meta[OF_VALUE] = True
        return join

    def outside(self) -> exp.Expr:
        """Return what stands in the place of the sub-query: its expression over the columns of the join."""
        root = exp.Paren(this=self.expression.copy())
        columns = [self._column(VALUE, number) for number, _ in enumerate(self.aggregates)]
        calls = list(_aggregates(root))
        replace_each([(whole_call(c), _or_zero(c, column)) for c, column in zip(calls, columns, strict=True)])
        return enclosed(root.this)

    def _column(self, kind: str, number: int) -> exp.Column:
        column = exp.Column(this=name_node(f"{kind}_{number}"), table=name_node(self.alias))
        column.args["table"].meta.update(start=self.start, end=self.start)
        return column


@dataclass(frozen=True, slots=True)
class _Reader:
    """It reads a sub-query, and refuses one of another form."""

    subquery: exp.Subquery
    columns_of: Columns
    source: Source

    def value(self, alias: str) -> _Value:
        """Return its parts.

        Raises:
            UnsupportedSqlError: it is of another form.
        """
        query = self._select()
        (selected,) = query.expressions
        expression = selected.this if isinstance(selected, exp.Alias) else selected
        keys, kept = self._conditions(query)
        found = _Value(alias, offset_of(self.subquery), query, expression, keys, kept)
        self._check_columns(found)
        if keys:
            self._check_without_rows(expression)
        return found

    def _select(self) -> exp.Select:
        query = unwrapped(self.subquery.this)
        if not isinstance(query, exp.Select) or len(query.expressions) != 1 or not _counts(query):
            raise self._refused("the sub-query needs one column")
        extra = [key for key, value in query.args.items() if value and key not in ("expressions", "from_", "where")]
        plain = len(from_items(query)) == 1 and isinstance(from_items(query)[0], exp.Table)
        if extra or not plain or not any(_aggregates(query.expressions[0])) or any(nested_queries(query)):
            raise self._refused("a sub-query that stands for a value must aggregate one table, which it may filter")
        return query

    def _conditions(self, query: exp.Select) -> tuple[tuple[tuple[exp.Expr, exp.Expr], ...], tuple[exp.Expr, ...]]:
        """Return the pairs of what is equal inside and outside, and the conditions on the table alone."""
        where = query.args.get("where")
        keys: list[tuple[exp.Expr, exp.Expr]] = []
        kept: list[exp.Expr] = []
        for part in conjuncts(where.this if where is not None else None):
            bare = part.unnest()
            sides = [(bare.left, bare.right), (bare.right, bare.left)] if isinstance(bare, exp.EQ) else []
            pair = next(((own, other) for own, other in sides if self._is_key(query, own, other)), None)
            if all(self._inside(query, part)):
                kept.append(part)
            elif pair is not None:
                keys.append(pair)
            else:
                raise self._refused("the rows outside can be compared with those of the table by = alone")
        return tuple(keys), tuple(kept)

    def _is_key(self, query: exp.Select, own: exp.Expr, other: exp.Expr) -> bool:
        inside = list(self._inside(query, own))
        return bool(inside) and all(inside) and not any(self._inside(query, other))

    def _inside(self, query: exp.Select, node: exp.Expr) -> Iterator[bool]:
        """Yield of each column whether it is the table's own."""
        (table,) = from_items(query)
        names, own = self.columns_of(table), table.alias_or_name.lower()
        for column in node.find_all(exp.Column):
            yield column.table.lower() == own or (not column.table and (not names or column.name.lower() in names))

    def _check_columns(self, value: _Value) -> None:
        if not all(self._inside(value.query, value.expression)):
            raise self._refused("what is selected must be of the table alone")
        aggregated = [column for whole in value.aggregates for column in whole.find_all(exp.Column)]
        for column in value.expression.find_all(exp.Column):
            if not any(column is known for known in aggregated):
                message = f"{column.name} is not in an aggregate"
                raise refuse(column, self.source, message, f"max({column.name}) is possible.")

    def _check_without_rows(self, expression: exp.Expr) -> None:
        for call in _aggregates(expression):
            if function_name(call) not in (*NULL_OF_NO_ROWS, *ZERO_OF_NO_ROWS):
                message = f"{function_name(call)} of the rows that are equal to one outside is not possible yet"
                raise refuse(call, self.source, message, HINT)

    def _refused(self, message: str) -> Exception:
        return refuse(unwrapped(self.subquery.this), self.source, message, HINT)


def _aggregates(node: exp.Expr) -> Iterator[exp.Expr]:
    return (part for part in node.walk() if is_aggregate(part))


def _or_zero(call: exp.Expr, column: exp.Column) -> exp.Expr:
    if function_name(call) not in ZERO_OF_NO_ROWS:
        return column
    return exp.Anonymous(this="coalesce", expressions=[column, exp.Literal.number(0)])


def _named(expressions: Sequence[exp.Expr], name: str) -> list[exp.Expr]:
    return [exp.Alias(this=e.copy(), alias=name_node(f"{name}_{n}")) for n, e in enumerate(expressions)]


def _counts(query: exp.Select) -> bool:
    """Return whether each star is that of count(*)."""
    return all(isinstance(star.parent, exp.Anonymous) for star in query.find_all(exp.Star))


def all_of(conditions: Sequence[exp.Expr]) -> exp.Expr:
    """Return a condition that holds where all of these, at least one, do."""
    made = conditions[0].copy()
    for condition in conditions[1:]:
        made = exp.And(this=made, expression=condition.copy())
    return made
