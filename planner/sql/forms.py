"""Forms of whole queries: what WITH and UNION ALL put together, and each SELECT in it."""

from __future__ import annotations

from collections.abc import Sequence

from planner.sql.allowed import what_is_refused
from planner.sql.blocks import SET_TOKENS, block_tokens, common_tables, operands, set_operations
from planner.sql.dialect import Token, TokenType, exp, offset_of, tokenize
from planner.sql.refusals import CLAUSES, check_block, refuse, refuse_token
from planner.sql.source import Source
from planner.values.errors import UnsupportedSqlError

SET_HINT = (
    "UNION ALL is possible. Without duplicates: SELECT DISTINCT x, ... FROM (SELECT ... UNION ALL SELECT ...), over "
    "streams with window(ts, '10 seconds') AS w among the columns."
)
NODE_HINT = "docs/sql.md has the grammar, and the functions that can be called."
_UNION_ARGUMENTS = frozenset(("this", "expression", "distinct", "with_", "order", "limit", "offset"))


def check_query(tree: exp.Expr, source: Source) -> exp.Query:
    """The tree, when nothing in its form stands against it.

    Raises:
        UnsupportedSqlError, SqlSyntaxError: at the first form that is not possible.
    """
    tokens = tokenize(source)
    if not isinstance(tree, exp.Select | exp.SetOperation):
        raise UnsupportedSqlError(
            "a query in brackets is not possible",
            position=source.origin,
            found=tokens[0].text,
            hint="Begin with SELECT.",
        )
    stack: list[exp.Expr] = [tree]
    while stack:
        query = stack.pop()
        _check_common_tables(query, source, block_tokens(query, tokens))
        _check_set_operations(query, source, block_tokens(query, tokens))
        stack += [table.this for table in reversed(common_tables(query))]
        for part in reversed(operands(query)):
            if part is not query and (common_tables(part) or isinstance(part, exp.SetOperation)):
                stack.append(part)
            else:
                stack += [*reversed(check_block(part, source, block_tokens(part, tokens)))]
    _check_nodes(tree, source)
    return tree


def _check_nodes(tree: exp.Expr, source: Source) -> None:
    """Refuse every node that is not in the table; the checks before could say what to write instead."""
    for node in tree.walk(bfs=False):
        what = what_is_refused(node)
        if what is not None:
            transform = isinstance(node, exp.QueryTransform)
            hint = "transform(array, x -> ...) is possible." if transform else NODE_HINT
            raise refuse(_with_place(node), source, f"{what} is not possible", hint)


def _with_place(node: exp.Expr) -> exp.Expr:
    """The node, or the innermost node around it whose place in the text is known."""
    place: exp.Expr | None = node
    while place is not None and offset_of(place) is None:
        place = place.parent
    return node if place is None else place


def _check_set_operations(query: exp.Expr, source: Source, tokens: Sequence[Token]) -> None:
    """UNION ALL alone; behind it what queries over tables can have."""
    for operation in set_operations(query):
        if not isinstance(operation, exp.Union) or operation.args.get("distinct") or operation.args.get("by_name"):
            raise _refuse_set_operation(source, tokens)
        for clause in CLAUSES:
            if operation.args.get(clause.argument) and clause.argument not in _UNION_ARGUMENTS:
                raise refuse_token(source, tokens, clause.tokens, clause.name, clause.hint)
        extra = next((k for k, v in operation.args.items() if v and k not in _UNION_ARGUMENTS), None)
        if extra is not None:
            name = extra.rstrip("_").upper()
            raise refuse(operation, source, f"UNION ALL with {name} is not possible", "UNION ALL alone is possible.")


def _refuse_set_operation(source: Source, tokens: Sequence[Token]) -> UnsupportedSqlError:
    followed = zip(tokens, [*tokens[1:], tokens[-1]], [*tokens[2:], *tokens[-2:]], strict=False)
    for token, following, then in followed:
        alone = token.token_type is TokenType.UNION and following.text.upper() == "ALL" and then.text.upper() != "BY"
        if token.token_type in SET_TOKENS and not alone:
            return UnsupportedSqlError(
                f"{token.text.upper()} is not possible",
                position=source.position(token.start),
                found=token.text,
                hint=SET_HINT,
            )
    raise AssertionError("a set operation has a token")


def _check_common_tables(query: exp.Expr, source: Source, tokens: Sequence[Token]) -> None:
    clause = query.args.get("with_")
    if clause is not None and clause.args.get("recursive"):
        token = next(t for t in tokens if t.text.upper() == "RECURSIVE")
        raise UnsupportedSqlError(
            "a recursive query is not possible",
            position=source.position(token.start),
            found=token.text,
            hint="Leave RECURSIVE out; an entry of WITH can use those before it.",
        )
    names: set[str] = set()
    for table in common_tables(query):
        name = table.alias
        if name.lower() in names:
            raise refuse(table.args["alias"], source, f"{name} is in WITH twice", "Give one of them another name.")
        names.add(name.lower())
