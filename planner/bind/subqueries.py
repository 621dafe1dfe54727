"""IN, NOT IN, EXISTS and NOT EXISTS over tables in WHERE, as semi and anti joins; values of tables as joins.

    x IN (SELECT y FROM t WHERE ..)           LEFT SEMI JOIN (SELECT y .. ) ON x = y
    x NOT IN (SELECT y FROM t WHERE ..)       LEFT ANTI JOIN (SELECT y .. ) ON x = y OR (x = y) IS NULL
    EXISTS (SELECT .. FROM t WHERE cond)      LEFT SEMI JOIN t ON cond
    NOT EXISTS (SELECT .. FROM t WHERE cond)  LEFT ANTI JOIN t ON cond

`(x = y) IS NULL` is what SQL says of NOT IN: no row is kept where one of the values is NULL, unless there are none.
"""

from __future__ import annotations

from planner.bind.scalars import VALUE, Columns, all_of, with_values
from planner.graph.expressions import conjuncts
from planner.sql.blocks import from_items, nested_queries, unwrapped
from planner.sql.dialect import exp, name_node, offset_of
from planner.sql.refusals import refuse
from planner.sql.source import Source

HINT = (
    "x IN (SELECT y FROM t WHERE ...), EXISTS (SELECT 1 FROM t WHERE t.x = s.x) and their NOT are possible in WHERE, "
    "each as a condition that must hold, over one table."
)
OF_WHERE = "of where"
"""Key of the metadata of a join that stands for a condition: lateral views stand before it."""


def without_subqueries(select: exp.Select, columns_of: Columns, source: Source) -> exp.Select:
    """The SELECT with joins in the place of sub-queries in its WHERE.

    Raises:
        UnsupportedSqlError: a sub-query is of another form, or elsewhere.
    """
    select = with_values(select, columns_of, source)
    where = select.args.get("where")
    if where is None or not any(nested_queries(where)):
        return select
    kept: list[exp.Expr] = []
    joins: list[exp.Join] = []
    for conjunct in conjuncts(where.this):
        if any(nested_queries(exp.Paren(this=conjunct.copy()))):
            joins.append(_join(conjunct, f"sub-query {len(joins) + 1} of WHERE", columns_of, source))
        else:
            kept.append(conjunct)
    found = select.copy()
    assert isinstance(found, exp.Select)
    found.set("joins", [*(found.args.get("joins") or []), *joins])
    found.set("where", exp.Where(this=all_of(kept)) if kept else None)
    return found


def _join(conjunct: exp.Expr, alias: str, columns_of: Columns, source: Source) -> exp.Join:
    bare = conjunct.unnest()
    negated = isinstance(bare, exp.Not)
    found = bare.this.unnest() if isinstance(bare, exp.Not) else bare
    if isinstance(found, exp.In) and found.args.get("query") is not None and not isinstance(found.this, exp.Tuple):
        item, on = _of_values(found, alias, negated, source)
    elif isinstance(found, exp.Exists):
        item, on = _of_rows(unwrapped(found.this), alias, columns_of, source)
    else:
        at = next(nested_queries(exp.Paren(this=conjunct.copy())))
        raise refuse(at, source, "a sub-query of this form is not possible in WHERE", HINT)
    join = exp.Join(this=item, side="LEFT", kind="ANTI" if negated else "SEMI", on=on)
    join.meta[OF_WHERE] = True
    return join


def _of_values(found: exp.In, alias: str, negated: bool, source: Source) -> tuple[exp.Expr, exp.Expr]:
    query = unwrapped(found.args["query"])
    if not isinstance(query, exp.Select) or len(query.expressions) != 1 or query.find(exp.Star):
        raise refuse(query, source, "the sub-query behind IN needs one column", HINT)
    inner = query.copy()
    value = inner.expressions[0]
    plain = value.this if isinstance(value, exp.Alias) else value
    inner.set("expressions", [exp.Alias(this=plain.copy(), alias=name_node(VALUE))])
    item = exp.Subquery(this=inner, alias=exp.TableAlias(this=name_node(alias)))
    equal: exp.Expr = exp.EQ(this=found.this.copy(), expression=_column(alias, VALUE))
    if not negated:
        return item, equal
    unknown = exp.Is(this=exp.Paren(this=equal.copy()), expression=exp.Null())
    return item, exp.Paren(this=exp.Or(this=equal, expression=unknown))


def _of_rows(query: exp.Expr, alias: str, columns_of: Columns, source: Source) -> tuple[exp.Expr, exp.Expr]:
    plain = isinstance(query, exp.Select) and len(from_items(query)) == 1
    extra = [key for key in query.args if query.args[key] and key not in ("expressions", "from_", "where", "distinct")]
    table = from_items(query)[0] if plain else None
    if not isinstance(table, exp.Table) or extra or any(nested_queries(query.args.get("where") or exp.Null())):
        raise refuse(query, source, "the sub-query of EXISTS must filter one table", HINT)
    own, names = table.alias_or_name.lower(), columns_of(table)
    for selected in query.expressions:
        if not (isinstance(selected, exp.Star | exp.Literal) or selected.name.lower() in names):
            message = "what EXISTS selects must be *, a value, or a column of its table"
            raise refuse(selected, source, message, "EXISTS (SELECT 1 FROM t WHERE ...).")
    item = table.copy()
    item.set("alias", exp.TableAlias(this=name_node(alias)))
    where = query.args.get("where")
    on = exp.Paren(this=where.this.copy() if where is not None else exp.Boolean(this=True))
    for column in list(on.find_all(exp.Column)):
        if column.table.lower() == own or (not column.table and column.name.lower() in names):
            start = offset_of(column)
            column.set("table", name_node(alias))
            column.args["table"].meta.update(start=start, end=start)
    return item, on


def _column(table: str, name: str) -> exp.Column:
    return exp.Column(this=name_node(name), table=name_node(table))
