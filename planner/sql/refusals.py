"""Forms of SELECT that cannot run over streams yet, refused with their place and with what is possible instead.

What is looked at here needs no catalog: clauses, set operations, sub-queries, kinds of join, functions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from planner.errors import SqlSyntaxError, UnsupportedSqlError
from planner.functions import AGGREGATES, DISTINCT_AGGREGATES, MERGEABLE, NOT_REPEATABLE, OTHER_WINDOWS, WINDOW
from planner.sql.dialect import Token, TokenType, end_of, exp, offset_of, render, snippet, tokenize
from planner.sql.source import Source

TOP_K_HINT = (
    "A stream has no end to sort by. For the top k of each window: "
    "QUALIFY row_number() OVER (PARTITION BY window ORDER BY n DESC) <= k."
)
JOIN_HINT = "[INNER] JOIN and LEFT JOIN of the stream with a table, ON equal columns or USING (...), are possible."
DISTINCT_HINT = "SELECT DISTINCT window(ts, '10 seconds') AS w, x, ... gives the distinct rows of each window."
GROUP_HINT = "Name the keys: GROUP BY window(ts, '10 seconds'), key, ..."


@dataclass(frozen=True, slots=True)
class _Clause:
    """A clause that is refused: its argument in the tree, the tokens it begins with, its name, what is possible."""

    argument: str
    tokens: tuple[TokenType, ...]
    name: str
    hint: str


_CLAUSES = (
    _Clause("with_", (TokenType.WITH,), "WITH (common table expressions)", "Write the query as one SELECT."),
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
_PLAIN_ARGUMENTS = frozenset(("expressions", "from_", "joins", "where", "group", "having", "qualify", "distinct"))
_FOREIGN_NODES = (exp.Placeholder, exp.Parameter, exp.JSONExtract, exp.JSONExtractScalar, exp.SessionParameter)


def check_select(tree: exp.Expr, source: Source) -> exp.Select:
    """The tree, when nothing in its form stands against it.

    Raises:
        UnsupportedSqlError, SqlSyntaxError: at the first form that is not possible.
    """
    tokens = tokenize(source)
    if isinstance(tree, exp.SetOperation):
        kinds = (TokenType.UNION, TokenType.EXCEPT, TokenType.INTERSECT)
        raise _refuse_token(source, tokens, kinds, "a set operation", "Submit each SELECT as a query of its own.")
    if not isinstance(tree, exp.Select):
        raise UnsupportedSqlError(
            "a query in brackets is not possible",
            position=source.origin,
            found=tokens[0].text,
            hint="Begin with SELECT.",
        )
    _check_complete(tree, source, tokens)
    _check_subqueries(tree, source, tokens)
    for clause in _CLAUSES:
        if tree.args.get(clause.argument):
            raise _refuse_token(source, tokens, clause.tokens, clause.name, clause.hint)
    _check_select_distinct(tree, source, tokens)
    _check_other_clauses(tree, source)
    _check_group(tree, source, tokens)
    _check_from(tree, source, tokens)
    for node in tree.walk():
        _check_node(node, source)
    return tree


def refuse(node: exp.Expr, source: Source, message: str, hint: str) -> UnsupportedSqlError:
    """An error at a node of the tree."""
    return UnsupportedSqlError(
        message, position=source.position(offset_of(node) or 0), found=snippet(node, source.text), hint=hint
    )


def _refuse_token(
    source: Source, tokens: Sequence[Token], kinds: tuple[TokenType, ...], what: str, hint: str
) -> UnsupportedSqlError:
    token = _find(tokens, kinds)
    found = source.text[token.start : token.end + 1]
    return UnsupportedSqlError(
        f"{what} is not possible over streams", position=source.position(token.start), found=found, hint=hint
    )


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
            hint="FROM must name a stream.",
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


def _check_subqueries(tree: exp.Select, source: Source, tokens: Sequence[Token]) -> None:
    if any(isinstance(node, exp.Query | exp.Subquery) and node is not tree for node in tree.walk()):
        nested = _find(tokens, (TokenType.SELECT, TokenType.VALUES), nested=True)
        if tree.args.get("with_") is None and nested is not tokens[0]:
            raise UnsupportedSqlError(
                "a sub-query is not possible over streams",
                position=source.position(nested.start),
                found=nested.text,
                hint="Write the query as one SELECT; a table can be joined by its name.",
            )


def _check_select_distinct(tree: exp.Select, source: Source, tokens: Sequence[Token]) -> None:
    """Without a window among the columns, a row would have to be kept for ever."""
    distinct = tree.args.get("distinct")
    if distinct is None:
        return
    windowed = any(function_name(call) == WINDOW for item in tree.expressions for call in item.find_all(exp.Anonymous))
    unlike = [name for name in ("group", "having", "qualify") if tree.args.get(name) is not None]
    if unlike or distinct.args.get("on") is not None or not windowed:
        what = f"SELECT DISTINCT with {unlike[0].upper()}" if unlike else "SELECT DISTINCT without a window"
        raise _refuse_token(source, tokens, (TokenType.DISTINCT,), what, DISTINCT_HINT)


def _check_other_clauses(tree: exp.Select, source: Source) -> None:
    for argument, value in tree.args.items():
        if value and argument not in _PLAIN_ARGUMENTS:
            name = argument.rstrip("_").upper()
            raise UnsupportedSqlError(
                f"{name} is not possible over streams",
                position=source.origin,
                found=name,
                hint="SELECT, FROM, JOIN, WHERE, GROUP BY, HAVING and QUALIFY are possible.",
            )


def _check_group(tree: exp.Select, source: Source, tokens: Sequence[Token]) -> None:
    group = tree.args.get("group")
    if group is None:
        return
    nested = any(isinstance(key, exp.Cube | exp.Rollup | exp.GroupingSets) for key in group.expressions)
    if nested or any(value for argument, value in group.args.items() if argument != "expressions"):
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
        if not isinstance(node, exp.Table) or not isinstance(node.this, exp.Identifier):
            raise refuse(node, source, "only a stream's or table's name is possible here", "Name it: FROM stream.")
        if node.args.get("db") is not None:
            raise refuse(node, source, "names have no database in front", f"Write {render(node.this)} alone.")
        for argument in ("sample", "pivots", "joins", "laterals", "hints", "version", "when"):
            if node.args.get(argument):
                raise refuse(node, source, f"{argument.upper()} is not possible over streams", "Name the stream alone.")
        if node.args.get("alias") is not None and node.args["alias"].args.get("columns"):
            raise refuse(
                node, source, "new column names in FROM are not possible", "Rename in the select list, with AS."
            )
    for join in joins:
        _check_join(join, source, tokens)


def _check_join(join: exp.Join, source: Source, tokens: Sequence[Token]) -> None:
    side, kind = (join.args.get("side") or "").upper(), (join.args.get("kind") or "").upper()
    method = (join.args.get("method") or "").upper()
    name = " ".join(part for part in (method, side, kind, "JOIN") if part)
    possible = side in ("", "LEFT") and kind in ("", "INNER", "OUTER") and not method
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
            f"{what} is not possible over streams", position=source.position(lead.start), found=found, hint=JOIN_HINT
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
    if isinstance(node, exp.Window) and node.find_ancestor(exp.Qualify) is None:
        raise refuse(
            node,
            source,
            "OVER is possible only in QUALIFY",
            "QUALIFY row_number() OVER (PARTITION BY window ...) <= k.",
        )


def _refuse_foreign(node: exp.Expr, source: Source) -> UnsupportedSqlError:
    """Such nodes carry no place, so the one of the first sign of their kind is given."""
    signs = (TokenType.PARAMETER, TokenType.COLON, TokenType.PLACEHOLDER, TokenType.ARROW, TokenType.DOLLAR)
    token = next((t for t in tokenize(source) if t.token_type in signs), None)
    offset = token.start if token is not None else offset_of(node) or 0
    return UnsupportedSqlError(
        "parameters and paths into JSON are not possible in this form",
        position=source.position(offset),
        found=token.text if token is not None else snippet(node, source.text),
        hint="Write values out; for JSON, get_json_object(x, '$.a').",
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
    name = function_name(node)
    if name in NOT_REPEATABLE or (name == "unix_timestamp" and not node.expressions):
        raise refuse(
            node,
            source,
            f"{name} is not possible: its value would differ when an epoch is run again",
            "Use the event time, or a column that the source writes.",
        )
    if name in AGGREGATES and name not in MERGEABLE and not _is_predicate(node):
        raise refuse(node, source, f"the aggregate {name} is not possible yet", f"{', '.join(MERGEABLE)} are possible.")
    if name in OTHER_WINDOWS:
        raise refuse(
            node,
            source,
            f"{name} is not possible",
            "window(ts, '10 seconds') and its fields start and end are possible.",
        )


def _is_predicate(node: exp.Expr) -> bool:
    """`LIKE ANY (...)` is no aggregate."""
    return isinstance(node, exp.Any) and isinstance(node.parent, exp.Like | exp.ILike)
