"""Queries within queries: the SELECT blocks of a statement, and which tokens belong to each.

A block is one SELECT without the queries nested in it. The parser marks every query with the place of its first token,
so that a clause of a block can be found again in the text.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from planner.sql.dialect import Token, TokenType, exp

FIRST = "first"
SET_TOKENS = (TokenType.UNION, TokenType.EXCEPT, TokenType.INTERSECT)


def unwrapped(node: exp.Expr) -> exp.Expr:
    """A query without the brackets around it, when nothing but brackets is around it."""
    while isinstance(node, exp.Subquery) and not any(value for key, value in node.args.items() if key != "this"):
        node = node.this
    return node


def operands(query: exp.Expr) -> tuple[exp.Expr, ...]:
    """The queries that UNION ALL puts together, in order; a query without it is its own one.

    One in brackets that has WITH, ORDER BY or LIMIT of its own is one of them as a whole.
    """
    found: list[exp.Expr] = []
    stack = [query]
    while stack:
        node = unwrapped(stack.pop())
        own = any(node.args.get(clause) for clause in ("with_", "order", "limit", "offset"))
        if isinstance(node, exp.SetOperation) and (node is query or not own):
            stack += [node.expression, node.this]
        else:
            found.append(node)
    return tuple(found)


def set_operations(query: exp.Expr) -> Iterator[exp.SetOperation]:
    """All set operations of a query, not those of nested queries."""
    stack = [query]
    while stack:
        node = unwrapped(stack.pop())
        if isinstance(node, exp.SetOperation):
            yield node
            stack += [node.expression, node.this]


def common_tables(query: exp.Expr) -> tuple[exp.CTE, ...]:
    """The entries of its WITH."""
    clause = query.args.get("with_")
    return tuple(clause.expressions) if clause is not None else ()


def from_items(select: exp.Expr) -> tuple[exp.Expr, ...]:
    """What stands in FROM and behind each JOIN."""
    clause = select.args.get("from_")
    return (*([clause.this] if clause is not None else []), *(join.this for join in select.args.get("joins") or []))


def block_nodes(select: exp.Expr) -> Iterator[exp.Expr]:
    """The nodes of a block in the order of the text; nested queries themselves, but nothing in them."""
    return select.walk(bfs=False, prune=lambda node: isinstance(node, exp.Query) and node is not select)


def nested_queries(select: exp.Expr) -> Iterator[exp.Query]:
    """The queries directly in a block."""
    return (node for node in block_nodes(select) if isinstance(node, exp.Query) and node is not select)


def scalar_queries(select: exp.Expr) -> list[exp.Subquery]:
    """Return the queries in the select list and in WHERE that stand for a value."""
    found: list[exp.Subquery] = []
    for query in nested_queries(select):
        clause = query.find_ancestor(
            exp.Where, exp.From, exp.Join, exp.Group, exp.Having, exp.Qualify, exp.With, exp.Select
        )
        in_place = clause is select or isinstance(clause, exp.Where)
        if in_place and isinstance(query, exp.Subquery) and not isinstance(query.parent, exp.In | exp.Exists):
            found.append(query)
    return found


def block_tokens(query: exp.Expr, tokens: Sequence[Token]) -> Sequence[Token]:
    """The tokens of a query up to its end, those of a SELECT not beyond its set operation."""
    first = query
    while FIRST not in first.meta and isinstance(first, exp.SetOperation):
        # A UNION ALL in brackets begins with its first operand.
        first = first.this
    begin = int(first.meta.get(FIRST, 0))
    ends = () if isinstance(query, exp.SetOperation) else SET_TOKENS
    depth: int = 0
    found: list[Token] = []
    for token in tokens:
        if token.start < begin:
            continue
        depth += (token.token_type is TokenType.L_PAREN) - (token.token_type is TokenType.R_PAREN)
        of_star = bool(found) and found[-1].token_type is TokenType.STAR
        if depth < 0 or (not depth and token.token_type in ends and not of_star):
            break
        found.append(token)
    return found
