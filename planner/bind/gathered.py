"""What binding collects about a statement besides the logical plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from planner.bind.calls import called_functions, check_known
from planner.bind.outputs import starred
from planner.bind.scope import Scope
from planner.bind.selects import Join
from planner.bind.unions import OpenUnion
from planner.relations.catalog import Catalog, Column, Function, Relation
from planner.sql.blocks import block_nodes, block_tokens
from planner.sql.dialect import TokenType, exp, parts_of, quoted, tokenize
from planner.sql.source import Source
from planner.values.edits import Edit

STATEMENT = ""
"""Name of the statement's own text among the texts."""


@dataclass(slots=True)
class Text:
    """The statement or the definition of a view, as Spark is to check it."""

    source: Source
    relations: set[str] = field(default_factory=set)
    """Names of the streams, tables and views that it names."""
    stars: dict[int, Edit] = field(default_factory=dict)
    """Each `*` with the columns that it means, by its offset."""
    named_windows: dict[int, Edit] = field(default_factory=dict)
    """Each name of a window that only QUALIFY or WITHIN writes out, by its offset: Spark's text has neither."""
    equal_windows: dict[int, Edit] = field(default_factory=dict)
    """`true` for each condition that joins the windows of streams, by its offset: Spark has no such condition."""


@dataclass(slots=True)
class Gathered:
    """What is known about a statement; binding adds to it."""

    catalog: Catalog
    types: Mapping[str, Sequence[Column]]
    """Of the columns of unions, as far as they are known yet."""
    texts: dict[str, Text] = field(default_factory=dict)
    """By lower-case name of the view; views come after those they use."""
    relations: dict[str, Relation] = field(default_factory=dict)
    """Streams and tables that are read, by name."""
    site_named: set[str] = field(default_factory=set)
    unions: dict[str, OpenUnion] = field(default_factory=dict)
    notes: dict[str, None] = field(default_factory=dict)
    """What became of derived tables, for EXPLAIN."""
    functions: dict[str, Function] = field(default_factory=dict)
    """Python functions that the statement and its views call, by lower-case name."""
    tables: int = 0
    """Tables joined so far, each time they are."""
    laterals: int = 0
    """Lateral views of streams so far."""

    def next_table(self) -> str:
        self.tables += 1
        return f"t{self.tables}"

    def next_lateral(self) -> str:
        self.laterals += 1
        return f"v{self.laterals}"

    def note(self, name: str, what: str) -> None:
        self.notes[f"{name}: {what}"] = None

    def note_functions(self, tree: exp.Expr, source: Source) -> None:
        """Note the Python functions that are called. Raises InvalidExpressionError at a call of an unknown one."""
        check_known(tree, self.catalog.functions, source)
        self.functions |= {f.name.lower(): f for f in called_functions(tree, self.catalog.functions)}

    def note_joins(self, text: str, joins: Sequence[Join]) -> None:
        """Remember where windows of streams are said to be equal."""
        for start, end in (join.same_window.span for join in joins if join.same_window is not None):
            self.texts[text].equal_windows[start] = Edit(start, end, "true")

    def note_window_names(self, text: str, select: exp.Select, name: str, scope: Scope) -> None:
        """Remember where a SELECT names its window, as in `session_window.end`, by something of the same type."""
        if scope.owners(name) or scope.member(name) is not None:
            return
        for column in (node for node in block_nodes(select) if isinstance(node, exp.Column)):
            part = parts_of(column)[0]
            if part.name.lower() == name:
                start = part.meta["start"]
                self.texts[text].named_windows[start] = Edit(start, part.meta["end"] + 1, _SOME_WINDOW)

    def note_stars(self, text: str, select: exp.Select, scope: Scope) -> None:
        """Remember what each `*` of a select list means: to Spark `site` would be one of the columns."""
        stars = [e for e in select.expressions if isinstance(e, exp.Star) or isinstance(e.this, exp.Star)]
        if not stars:
            return
        source = self.texts[text].source
        tokens = block_tokens(select, tokenize(source))
        depth, places = 0, []
        for before, token in pairwise(tokens):
            depth += (token.token_type is TokenType.L_PAREN) - (token.token_type is TokenType.R_PAREN)
            if token.token_type is TokenType.FROM and not depth:
                break
            if token.token_type is TokenType.STAR and not depth and before.token_type in _BEFORE_STAR:
                places.append((before, token))
        for item, (before, token) in zip(stars, places, strict=False):
            columns = [f"{quoted(member.alias)}.{quoted(name)}" for member, name in starred(item, scope)]
            start = token.start
            if before.token_type is TokenType.DOT:
                start = next(t.start for t in reversed(tokens) if t.start < before.start)
            self.texts[text].stars[start] = Edit(start, token.end + 1, ", ".join(columns))


_SOME_WINDOW = "CAST(NULL AS STRUCT<start: TIMESTAMP, end: TIMESTAMP>)"
_BEFORE_STAR = (TokenType.SELECT, TokenType.DISTINCT, TokenType.COMMA, TokenType.DOT, TokenType.ALL)
