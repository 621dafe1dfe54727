"""Forms of SELECT that cannot run over streams yet, refused with their place and with what is possible instead.

What is looked at here needs no catalog: clauses, sub-queries, kinds of join, functions. `planner.sql.forms` looks at
what SELECTs are put together to.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from planner.functions.aggregates import DISTINCT_AGGREGATES, OVER_STREAMS
from planner.functions.settled import SETTLED
from planner.functions.table import NOT_REPEATABLE, REASONS
from planner.functions.traits import AGGREGATES, OTHER_WINDOWS
from planner.sql.allowed import UNITS
from planner.sql.asof import ASOF, is_asof
from planner.sql.blocks import (
    FIRST,
    block_nodes,
    block_tokens,
    common_tables,
    from_items,
    nested_queries,
    scalar_queries,
    unwrapped,
)
from planner.sql.dialect import Token, TokenType, end_of, exp, offset_of, render, snippet, tokenize
from planner.sql.source import Source
from planner.sql.within import WITHIN
from planner.values.errors import SqlSyntaxError, UnsupportedSqlError

TOP_K_HINT = (
    "A stream has no end to sort by. For the top k of each window: "
    "QUALIFY row_number() OVER (PARTITION BY window ORDER BY n DESC) <= k."
)
JOIN_HINT = (
    "[INNER] JOIN and LEFT JOIN with a table, ON equal columns or USING (...), are possible; with a stream, RIGHT and "
    "FULL JOIN too, ON equal columns and AND window(a.ts, '10 seconds') = window(b.ts, '10 seconds')."
)
DISTINCT_HINT = (
    "SELECT DISTINCT window(ts, '10 seconds') AS w, x, ... gives the distinct rows of each window; SELECT DISTINCT x "
    "FROM s WITHIN INTERVAL '1 hour' the first of equal rows that follow one another."
)
GROUP_HINT = (
    "Name the keys: GROUP BY window(ts, '10 seconds'), key, ..., ROLLUP (a, b), CUBE (c), GROUPING SETS (d, e)."
)
GROUPING_FUNCTIONS = ("grouping", "grouping_id")


@dataclass(frozen=True, slots=True)
class _Clause:
    """A clause that is refused: its argument in the tree, the tokens it begins with, its name, what is possible."""

    argument: str
    tokens: tuple[TokenType, ...]
    name: str
    hint: str


CLAUSES = (
    _Clause("order", (TokenType.ORDER_BY,), "ORDER BY", TOP_K_HINT),
    _Clause("sort", (TokenType.SORT_BY,), "SORT BY", TOP_K_HINT),
    _Clause("limit", (TokenType.LIMIT, TokenType.FETCH), "LIMIT", TOP_K_HINT),
    _Clause("offset", (TokenType.OFFSET,), "OFFSET", TOP_K_HINT),
    _Clause("cluster", (TokenType.CLUSTER_BY,), "CLUSTER BY", "Leave it out; Selat spreads the work."),
    _Clause("distribute", (TokenType.DISTRIBUTE_BY,), "DISTRIBUTE BY", "Leave it out; Selat spreads the work."),
    _Clause("laterals", (TokenType.LATERAL,), "LATERAL VIEW", "explode(...) in the select list is possible."),
    _Clause("windows", (TokenType.WINDOW,), "WINDOW clause", "Write OVER (...) out in QUALIFY."),
    _Clause("hint", (TokenType.HINT,), "optimizer hint", "Leave it out."),
    _Clause("into", (TokenType.INTO,), "SELECT INTO", "Read the results with the client."),
)
OVER_HINT = (
    "avg(x) OVER (PARTITION BY key ORDER BY ts ROWS BETWEEN 10 PRECEDING AND CURRENT ROW), RANGE BETWEEN INTERVAL "
    "'1 hour' PRECEDING AND CURRENT ROW, and lag(x) OVER (PARTITION BY key ORDER BY ts) are possible."
)
MAX_JOINS = 64
"""The most joins of one SELECT: each is bound among all others, so planning time grows with more than their square."""

LATERALS = "laterals"
BATCH_CLAUSES = ("order", "limit", "offset", LATERALS)
"""Arguments of a SELECT that are possible over tables; whether it is over tables is known when names are."""

_PLAIN_ARGUMENTS = frozenset(
    (
        *BATCH_CLAUSES,
        "expressions",
        "from_",
        "joins",
        "where",
        "group",
        "having",
        "qualify",
        "distinct",
        "with_",
        WITHIN,
    )
)
_FOREIGN_NODES = (exp.Placeholder, exp.Parameter, exp.JSONExtract, exp.JSONExtractScalar, exp.SessionParameter)


def check_block(select: exp.Expr, source: Source, tokens: Sequence[Token]) -> list[exp.Expr]:
    """The queries in the FROM of one SELECT, when nothing in its form stands against it.

    Raises:
        UnsupportedSqlError, SqlSyntaxError: at the first form that is not possible.
    """
    if not isinstance(select, exp.Select):
        raise UnsupportedSqlError(
            "only SELECT is possible here",
            position=source.position(int(select.meta.get(FIRST, 0))),
            found=tokens[0].text if tokens else "",
            hint="Begin with SELECT.",
        )
    _check_complete(select, source, tokens)
    derived = _check_subqueries(select, source)
    for clause in CLAUSES:
        if select.args.get(clause.argument) and clause.argument not in BATCH_CLAUSES:
            raise refuse_token(source, tokens, clause.tokens, clause.name, clause.hint)
    _check_select_distinct(select, source, tokens)
    _check_other_clauses(select, source)
    _check_group(select, source, tokens)
    _check_from(select, source, tokens)
    for node in block_nodes(select):
        if not isinstance(node, exp.Query) or node is select:
            _check_node(node, source)
    return derived


def check_over_stream(query: exp.Expr, source: Source) -> None:
    """Raises UnsupportedSqlError at what only a query over tables can have, of a SELECT or a UNION ALL."""
    for clause in CLAUSES:
        if query.args.get(clause.argument) and clause.argument in BATCH_CLAUSES and clause.argument != LATERALS:
            tokens = block_tokens(query, tokenize(source))
            error = refuse_token(source, tokens, clause.tokens, clause.name, clause.hint)
            error.message += " over streams"
            raise error
    for node in block_nodes(query) if isinstance(query, exp.Select) else ():
        if is_over(node) and not _is_in_select_list(node, query):
            raise refuse(node, source, "OVER is possible only in QUALIFY, and in the select list without it", OVER_HINT)
        if is_whole(node):
            hint = f"{', '.join(OVER_STREAMS)} are possible."
            raise refuse(node, source, f"the aggregate {function_name(node)} is not possible yet", hint)


def _is_in_select_list(node: exp.Expr, query: exp.Expr) -> bool:
    """Return whether it stands in the select list of a SELECT that computes each row by itself."""
    plain = not any(query.args.get(clause) for clause in ("group", "distinct", "having", "qualify", WITHIN))
    return plain and any(node is part for item in query.expressions for part in item.walk())


def is_over(node: exp.Expr) -> bool:
    """Whether it is a function of other rows, by OVER, but for the rank of QUALIFY."""
    return isinstance(node, exp.Window) and node.find_ancestor(exp.Qualify) is None


def is_whole(node: exp.Expr) -> bool:
    """Return whether it is an aggregate that is not possible over streams."""
    name = function_name(node)
    known = name in OVER_STREAMS or name in GROUPING_FUNCTIONS
    return name in AGGREGATES and not known and not _is_predicate(node)


def refuse(node: exp.Expr, source: Source, message: str, hint: str) -> UnsupportedSqlError:
    """An error at a node of the tree."""
    return UnsupportedSqlError(
        message, position=source.position(offset_of(node) or 0), found=snippet(node, source.text), hint=hint
    )


def refuse_token(
    source: Source, tokens: Sequence[Token], kinds: tuple[TokenType, ...], what: str, hint: str
) -> UnsupportedSqlError:
    """An error at the first such token."""
    token = _find(tokens, kinds)
    found = source.text[token.start : token.end + 1]
    return UnsupportedSqlError(f"{what} is not possible", position=source.position(token.start), found=found, hint=hint)


def _find(tokens: Sequence[Token], kinds: tuple[TokenType, ...], *, nested: bool = False) -> Token:
    """The first such token outside (or, nested, inside) brackets; the first token when there is none."""
    depth = 0
    for token in tokens:
        depth += (token.token_type is TokenType.L_PAREN) - (token.token_type is TokenType.R_PAREN)
        if token.token_type in kinds and (depth > 0) == nested:
            return token
    return tokens[0]


def _check_complete(tree: exp.Select, source: Source, tokens: Sequence[Token]) -> None:
    if not tree.expressions:
        raise _missing(source, tokens, (TokenType.SELECT,), "SELECT needs at least one expression")
    if tree.args.get("from_") is None:
        raise UnsupportedSqlError(
            "the query has no FROM",
            position=source.position(tokens[-1].end + 1),
            found="end of statement",
            hint="FROM must name a stream or a table.",
        )
    group = tree.args.get("group")
    if group is not None and not any(group.args.values()):
        raise _missing(source, tokens, (TokenType.GROUP_BY,), "GROUP BY needs at least one expression")


def _missing(source: Source, tokens: Sequence[Token], kinds: tuple[TokenType, ...], message: str) -> SqlSyntaxError:
    index = tokens.index(_find(tokens, kinds))
    following = tokens[index + 1] if index + 1 < len(tokens) else None
    return SqlSyntaxError(
        message,
        position=source.position(following.start if following else tokens[-1].end + 1),
        found=following.text if following else "end of statement",
        hint="docs/sql.md has the grammar.",
    )


def _check_subqueries(select: exp.Select, source: Source) -> list[exp.Expr]:
    """The queries in FROM; a query elsewhere than in FROM or WITH is refused."""
    derived = [item for item in from_items(select) if isinstance(item, exp.Subquery)]
    common = [table.this for table in common_tables(select)]
    conditions = [query for query in nested_queries(select) if _is_condition(query, select)]
    conditions += scalar_queries(select)
    for query in nested_queries(select):
        if not any(query is known for known in (*derived, *common, *conditions)):
            raise _refuse_subquery(query, source)
    for item in derived:
        if not isinstance(unwrapped_item(item), exp.Query):
            raise _refuse_subquery(item, source)
    return [*map(unwrapped_item, derived), *map(unwrapped, conditions)]


def _is_condition(query: exp.Expr, select: exp.Select) -> bool:
    """Return whether it is the query of IN or EXISTS in WHERE."""
    inside = isinstance(query.parent, exp.Exists) or (isinstance(query.parent, exp.In) and query.arg_key == "query")
    return inside and query.find_ancestor(exp.Where, exp.Select) is select.args.get("where")


def unwrapped_item(item: exp.Subquery) -> exp.Expr:
    """The query of a derived table, without its brackets."""
    return unwrapped(item.this)


def _refuse_subquery(query: exp.Expr, source: Source) -> UnsupportedSqlError:
    inner = unwrapped(query.this) if isinstance(query, exp.Subquery) else query
    offset = int((inner if FIRST in inner.meta else query).meta.get(FIRST, offset_of(query) or 0))
    return UnsupportedSqlError(
        "a sub-query is possible only in FROM, in the select list and in WHERE",
        position=source.position(offset),
        found=source.text[offset : offset + 6].strip(),
        hint="Sub-queries can stand in FROM, WITH, the select list and WHERE; tables can be joined.",
    )


def _check_select_distinct(tree: exp.Select, source: Source, tokens: Sequence[Token]) -> None:
    """Whether the window is among the columns is known when the names are: `planner.bind.streamselect`."""
    distinct = tree.args.get("distinct")
    if distinct is None:
        return
    unlike = [name for name in ("group", "having", "qualify") if tree.args.get(name) is not None]
    if unlike or distinct.args.get("on") is not None:
        what = f"SELECT DISTINCT with {unlike[0].upper() if unlike else 'ON'}"
        raise refuse_token(source, tokens, (TokenType.DISTINCT,), what, DISTINCT_HINT)


def _check_other_clauses(tree: exp.Select, source: Source) -> None:
    for argument, value in tree.args.items():
        if value and argument not in _PLAIN_ARGUMENTS:
            name = argument.rstrip("_").upper()
            raise UnsupportedSqlError(
                f"{name} is not possible",
                position=source.origin,
                found=name,
                hint="SELECT, FROM, JOIN, WHERE, GROUP BY, HAVING and QUALIFY are possible.",
            )


def _check_group(tree: exp.Select, source: Source, tokens: Sequence[Token]) -> None:
    group = tree.args.get("group")
    if group is None:
        return
    if any(value for argument, value in group.args.items() if argument != "expressions"):
        words = ("ROLLUP", "CUBE", "GROUPING SETS", "ALL", "DISTINCT")
        begin = _find(tokens, (TokenType.GROUP_BY,)).start
        token = next((t for t in tokens if t.start > begin and t.text.upper() in words), tokens[0])
        raise UnsupportedSqlError(
            f"GROUP BY with {token.text.upper()} is not possible",
            position=source.position(token.start),
            found=token.text,
            hint=GROUP_HINT,
        )


def _check_from(tree: exp.Select, source: Source, tokens: Sequence[Token]) -> None:
    first = tree.args["from_"].this
    joins = tree.args.get("joins") or []
    for node in (first, *(join.this for join in joins)):
        if isinstance(node, exp.Subquery):
            _check_derived(node, source)
            continue
        if not isinstance(node, exp.Table) or not isinstance(node.this, exp.Identifier):
            raise refuse(node, source, "only a stream's or table's name is possible here", "Name it: FROM stream.")
        if node.args.get("db") is not None:
            raise refuse(node, source, "names have no database in front", f"Write {render(node.this)} alone.")
        for argument in ("sample", "pivots", "joins", "laterals", "hints", "when"):
            if node.args.get(argument):
                raise refuse(node, source, f"{argument.upper()} is not possible", "Name it alone.")
    if first.args.get("version") is not None:
        hint = "Write a JOIN b FOR SYSTEM_TIME AS OF a.ts ON a.k = b.k."
        raise refuse(first, source, "a version of the first stream is not possible", hint)
    if len(joins) > MAX_JOINS:
        hint = f"At most {MAX_JOINS} are possible. Make tables of what belongs together, and join those."
        raise refuse(joins[MAX_JOINS].this, source, f"a SELECT with {len(joins)} joins is not possible", hint)
    for join in joins:
        _check_join(join, source, tokens)


def _check_derived(node: exp.Subquery, source: Source) -> None:
    extra = next((k for k, v in node.args.items() if v and k not in ("this", "alias")), None)
    if extra is not None:
        name = extra.rstrip("_").upper()
        raise refuse(node, source, f"{name} is not possible behind a sub-query", "Give it a name: (SELECT ...) AS d.")


def _check_join(join: exp.Join, source: Source, tokens: Sequence[Token]) -> None:
    side, kind = (join.args.get("side") or "").upper(), (join.args.get("kind") or "").upper()
    method = (join.args.get("method") or "").upper()
    version = "FOR SYSTEM_TIME" if is_asof(join) and not method else ""
    name = " ".join(part for part in (method, side, kind, "JOIN", version) if part)
    possible = side in ("", "LEFT", *(() if is_asof(join) else ("RIGHT", "FULL"))) and method in ("", ASOF)
    others = ("CROSS", "SEMI", "ANTI") if side in ("", "LEFT") and not is_asof(join) else ()
    possible = possible and kind in ("", "INNER", "OUTER", *others)
    if not possible or (kind == "OUTER" and not side):
        start = offset_of(join.this) or 0
        words = (method, side, kind, "JOIN", ",")
        before = [t for t in tokens if t.start < start and t.text.upper() in words]
        lead = before[-1]
        while len(before) > 1 and before[-1].text != "," and _adjacent(tokens, before[-2], before[-1]):
            before.pop()
            lead = before[-1]
        found = source.text[lead.start : start].strip()
        what = "a comma between relations" if found == "," else name
        raise UnsupportedSqlError(
            f"{what} is not possible", position=source.position(lead.start), found=found, hint=JOIN_HINT
        )


def _adjacent(tokens: Sequence[Token], first: Token, second: Token) -> bool:
    return tokens.index(second) - tokens.index(first) == 1


def _check_node(node: exp.Expr, source: Source) -> None:
    if isinstance(node, _FOREIGN_NODES):
        raise _refuse_foreign(node, source)
    if isinstance(node, exp.Anonymous | exp.Func):
        _check_function(node, source)
    if isinstance(node, exp.Distinct) and not _is_distinct_possible(node):
        raise _refuse_distinct(node, source)


def _refuse_foreign(node: exp.Expr, source: Source) -> UnsupportedSqlError:
    """Such nodes carry no place, so the one of the first sign of their kind is given."""
    signs = (TokenType.PARAMETER, TokenType.COLON, TokenType.PLACEHOLDER, TokenType.ARROW, TokenType.DOLLAR)
    token = next((t for t in tokenize(source) if t.token_type in signs), None)
    offset = token.start if token is not None else offset_of(node) or 0
    return UnsupportedSqlError(
        "parameters and paths into JSON are not possible in this form",
        position=source.position(offset),
        found=token.text if token is not None else snippet(node, source.text),
        hint="Write values out, or give them to the client beside the text; for JSON, get_json_object(x, '$.a').",
    )


def _is_distinct_possible(node: exp.Distinct) -> bool:
    call = node.parent
    return isinstance(call, exp.Select) or (
        isinstance(call, exp.Anonymous) and function_name(call) in DISTINCT_AGGREGATES
    )


def _refuse_distinct(node: exp.Expr, source: Source) -> UnsupportedSqlError:
    function = node.parent.this if isinstance(node.parent, exp.Anonymous) else ""
    start, end = offset_of(node) or 0, end_of(node) or 0
    before = source.text[:start].upper().rfind("DISTINCT")
    place = before if before >= 0 else start
    return UnsupportedSqlError(
        f"DISTINCT inside {function or 'an aggregate'} is not possible",
        position=source.position(place),
        found=source.text[place : end + 1],
        hint=f"{', '.join(DISTINCT_AGGREGATES)} are possible with DISTINCT.",
    )


def function_name(node: exp.Expr) -> str:
    """The name of a function call in lower case, "" for anything else."""
    if isinstance(node, exp.Anonymous):
        return str(node.this if isinstance(node.this, str) else node.this.name).lower()
    return node.sql_name().lower() if isinstance(node, exp.Func) else ""


def _check_function(node: exp.Expr, source: Source) -> None:
    check_callable(node, source)
    name = function_name(node)
    if isinstance(node.parent, exp.WithinGroup) and (name not in SETTLED or SETTLED[name].within is None):
        raise refuse(node, source, f"{name} WITHIN GROUP is not possible yet", "percentile_approx(x, 0.5) is possible.")


def check_callable(node: exp.Expr, source: Source) -> None:
    """Raises UnsupportedSqlError when no query may call the function."""
    name = function_name(node)
    if name in OTHER_WINDOWS:
        hint = "window(ts, '10 seconds') and its fields start and end are possible."
        raise refuse(node, source, f"{name} is not possible", hint)
    reason = NOT_REPEATABLE if name == "unix_timestamp" and not node.expressions else REASONS.get(name)
    if reason is not None:
        again = "Use the event time, or a column that the source writes."
        hint = again if reason == NOT_REPEATABLE else "docs/sql.md lists the functions that can be called."
        raise refuse(node, source, f"{name} is not possible: {reason}", hint)


def check_unit(column: exp.Column, source: Source) -> None:
    """Raises UnsupportedSqlError when what stands first in `dateadd(DAY, 1, ts)` and the like is no unit of time."""
    if len(column.parts) > 1 or column.name.upper() not in UNITS:
        hint = "YEAR, MONTH, DAY, HOUR, MINUTE and SECOND are possible."
        raise refuse(column, source, "this is no unit of time", hint)


def _is_predicate(node: exp.Expr) -> bool:
    """`LIKE ANY (...)` is no aggregate."""
    return isinstance(node, exp.Any) and isinstance(node.parent, exp.Like | exp.ILike)
