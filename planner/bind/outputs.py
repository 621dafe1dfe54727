"""The select list: stars expanded, names given, every expression bound."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from planner.bind.binder import Binder
from planner.bind.scope import Member, Scope, invalid_star
from planner.graph.expressions import placed, replace_each
from planner.sql.dialect import exp, offset_of, render, snippet
from planner.sql.refusals import function_name, refuse
from planner.values.errors import InvalidDefinitionError
from planner.values.names import BIN_COLUMN, GROUP_COLUMN, RANK_COLUMN


@dataclass(frozen=True, slots=True)
class Output:
    """A result column."""

    name: str
    expression: exp.Expr
    item: exp.Expr
    """The select item it comes from, as parsed."""


def bind_outputs(tree: exp.Select, binder: Binder, *, renamed: bool = False) -> tuple[Output, ...]:
    """The result columns, in order; `renamed`: they get other names, so that two may have the same.

    Raises:
        InvalidDefinitionError: two have the same name.
    """
    outputs: list[Output] = []
    named: dict[str, Output] = {}
    for item in tree.expressions:
        # An alias may be used by the items after it, as in Spark.
        before = {name: output.expression for name, output in named.items()}
        known = replace(binder, aliases={**binder.aliases, **before})
        for output in _outputs(item, known):
            if not renamed:
                _check_name(output, named, binder.scope)
            named.setdefault(output.name.lower(), output)
            outputs.append(output)
    return tuple(outputs)


def _outputs(item: exp.Expr, binder: Binder) -> Iterator[Output]:
    star = item if isinstance(item, exp.Star) else item.this if isinstance(item, exp.Column) else None
    if isinstance(star, exp.Star):
        if any(star.args.values()):
            raise refuse(item, binder.scope.source, "* with EXCEPT or REPLACE is not possible", "Name the columns.")
        for member, name in starred(item, binder.scope):
            yield Output(name, placed(member.bound(name), offset_of(item) or 0), item)
        return
    expression = item.this if isinstance(item, exp.Alias) else item
    yield Output(item.alias if isinstance(item, exp.Alias) else _auto_name(expression), binder.bind(expression), item)


def starred(item: exp.Expr, scope: Scope) -> Iterator[tuple[Member, str]]:
    """Columns of `*` (those of USING once and first) or of `x.*`; `site` is not among them."""
    if isinstance(item, exp.Column):
        member = scope.member(item.table)
        if member is None:
            raise invalid_star(scope, item)
        yield from ((member, column.name) for column in member.relation.columns)
        return
    shared = [c.name for c in scope.stream.relation.columns if c.name.lower() in scope.using]
    yield from ((scope.stream, name) for name in shared)
    for member in scope.members:
        for column in member.relation.columns if member.starred else ():
            if column.name.lower() not in scope.using or column.name.lower() not in {n.lower() for n in shared}:
                yield member, column.name


def _auto_name(node: exp.Expr) -> str:
    """The name of an expression without AS: its last part, or its own text, much as Spark has it."""
    bare = node.unnest()
    if isinstance(bare, exp.Column | exp.Dot):
        return str(bare.name)
    plain = node.copy()
    root = exp.Paren(this=plain)
    columns = [column for column in root.find_all(exp.Column) if not isinstance(column.this, exp.Star)]
    replace_each([(column, exp.Column(this=column.this.copy())) for column in columns])
    for call in root.find_all(exp.Anonymous):
        call.set("this", function_name(call))
        if function_name(call) == "count" and [type(a) for a in call.expressions] == [exp.Star]:
            call.set("expressions", [exp.Literal.number(1)])
    text = render(root.this)
    return f"({text})" if isinstance(bare, exp.Binary) and not isinstance(node, exp.Paren) else text


def _check_name(output: Output, before: dict[str, Output], scope: Scope) -> None:
    name = output.name
    position = scope.source.position(offset_of(output.item) or 0)
    if name.lower() in before:
        raise InvalidDefinitionError(
            f"two result columns are called {name}",
            position=position,
            found=snippet(output.item, scope.source.text),
            hint=f"Rename one with AS, as in {render(output.item.this) if output.item.alias else name} AS other.",
        )
    if not name or name.lower() in (BIN_COLUMN, GROUP_COLUMN, RANK_COLUMN):
        raise InvalidDefinitionError(
            f"no result column can be called {name!r}",
            position=position,
            found=snippet(output.item, scope.source.text),
            hint="Rename it with AS.",
        )
