"""What a stage computes, as a value that does not depend on how its SQL was written.

The SQL that is read is the planner's own, so a stored plan can be read as well as a new one:

    SELECT _window_start, _k0, count(*) AS _p0 FROM (SELECT window(input.ts, ...).start AS _window_start, ...) AS kept
    GROUP BY _window_start, _k0

A SELECT over rows is merged into the one below, as is one over groups that only filters and projects; names that only
stand between the two are gone then. Where that would change the meaning (a filter behind a rank), the one below stays
a form of its own, and its columns go by the digests of what they are.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from planner.functions import WINDOW
from planner.plan import BIN_COLUMN
from planner.query.expressions import is_aggregate
from planner.sharing.canonical import Canonical, UnreadableError, conjuncts_of, label
from planner.sql.dialect import exp, parse_stage_sql
from planner.sql.refusals import function_name

GENERATORS = frozenset(
    (
        *("explode", "explode_outer", "posexplode", "posexplode_outer", "inline", "inline_outer"),
        *("stack", "json_tuple", "variant_explode", "variant_explode_outer"),
    )
)
"""Functions that make several rows of one."""

DIGEST_CHARS = 32


def digest(parts: Iterable[str]) -> str:
    """One text for several; equal only for equal parts in the same order."""
    text = hashlib.sha256()
    for part in parts:
        data = part.encode("utf-8", "replace")
        text.update(len(data).to_bytes(8, "big") + data)
    return text.hexdigest()[:DIGEST_CHARS]


@dataclass(frozen=True, slots=True)
class Term:
    """A canonical expression; equal to another of the same label."""

    label: str
    node: exp.Expr = field(compare=False, repr=False)
    type: str = field(default="", compare=False)
    """Spark's, where it is known for certain."""
    safe: bool = field(default=False, compare=False)
    """It has a value for any row."""


@dataclass(frozen=True, slots=True)
class JoinForm:
    """One join of a form."""

    view: str
    left: bool
    on: frozenset[Term]


@dataclass(frozen=True, slots=True)
class Form:
    """A SELECT: rows of the base, joined, filtered, grouped where there are keys, and projected."""

    base: str | Form
    """A view, or what is computed below."""
    joins: tuple[JoinForm, ...]
    filters: frozenset[Term]
    """Conjuncts on the rows."""
    keys: frozenset[Term] | None
    """None: nothing is grouped."""
    having: frozenset[Term]
    """Conjuncts on the groups."""
    columns: tuple[tuple[str, Term], ...]
    """Names and what they are, without the bin of groups."""

    @property
    def terms(self) -> frozenset[Term]:
        return frozenset(term for _, term in self.columns)

    def column(self, name: str) -> Term | None:
        """The column of that name, compared without case."""
        return next((term for own, term in self.columns if own.lower() == name.lower()), None)

    @property
    def rows_digest(self) -> str:
        """Of the rows before they are filtered, grouped and projected."""
        base = self.base if isinstance(self.base, str) else f"of {self.base.digest}"
        joins = (digest([j.view, str(j.left), *_labels(j.on)]) for j in self.joins)
        return digest([base, *joins])

    @property
    def digest(self) -> str:
        """Equal for forms that compute the same, but for the names and the order of columns."""
        grouped = ["rows"] if self.keys is None else ["groups", *_labels(self.keys)]
        parts = (_labels(self.filters), grouped, _labels(self.having), _labels(self.terms))
        return digest([self.rows_digest, *map(digest, parts)])


def renamed_columns(wanted: Form, offered: Form) -> dict[str, str]:
    """By the column names of one form, the names that another of the same digest has for the same.

    Raises:
        KeyError: the other lacks a column.
    """
    names = {term.label: name for name, term in offered.columns}
    return {name: names[term.label] for name, term in wanted.columns}


def _labels(terms: Iterable[Term]) -> list[str]:
    return sorted(term.label for term in terms)


@dataclass(frozen=True, slots=True)
class View:
    """A view that a stage's SQL reads."""

    name: str
    """As the form calls it."""
    columns: Mapping[str, str] | None = None
    """By lower-case name, as the form calls them; None: any column, by its own name."""
    types: Mapping[str, str] = field(default_factory=dict)
    """Spark types by the form's names; those that are not known are not in it."""


def read_form(sql: str, views: Mapping[str, View]) -> Form | None:
    """The form of a stage; None when the SQL is of no form that is known here.

    Args:
        sql: of a stage, as the planner wrote it.
        views: what it reads, by lower-case name.
    """
    tree = parse_stage_sql(sql)
    if not isinstance(tree, exp.Select):
        return None
    try:
        return _Reader(views).select(tree)
    except (UnreadableError, RecursionError):
        return None


@dataclass(frozen=True, slots=True)
class _Source:
    """What FROM gives: the form so far, and what the names in it mean."""

    form: Form
    resolve: Callable[[str, str], exp.Expr | None]
    names: frozenset[str]
    star: tuple[tuple[str, Term], ...] | None


_CLAUSES = frozenset(("expressions", "from_", "joins", "where", "group", "having"))


@dataclass(frozen=True, slots=True)
class _Reader:
    views: Mapping[str, View]

    def select(self, tree: exp.Select) -> Form:
        group = tree.args.get("group")
        grouping = group.args if group is not None else {}
        other = any(value for key, value in tree.args.items() if key not in _CLAUSES)
        if other or any(value for key, value in grouping.items() if key != "expressions"):
            raise UnreadableError("another clause")
        source = self._from(tree)
        terms = Canonical(source.resolve, source.names, self._types())
        columns = self._columns(tree, source, terms)
        where = self._conditions(tree.args.get("where"), terms)
        having = self._conditions(tree.args.get("having"), terms)
        keys = None if group is None else frozenset(_term(terms, key) for key in group.expressions)
        return _composed(source.form, columns, (where, keys, having))

    def _types(self) -> Mapping[tuple[str, str], str]:
        return {(view.name, name): type_ for view in self.views.values() for name, type_ in view.types.items()}

    def _from(self, tree: exp.Select) -> _Source:
        item = tree.args["from_"].this if tree.args.get("from_") is not None else None
        joins = tree.args.get("joins") or []
        if isinstance(item, exp.Table):
            return self._tables(item, joins)
        inner = item.this if isinstance(item, exp.Subquery) else None
        if not isinstance(inner, exp.Select) or joins:
            raise UnreadableError("no form of FROM that is known")
        alias = str(item.alias).lower() if item is not None else ""
        return _over(self.select(inner), alias, tree)

    def _tables(self, item: exp.Table, joins: Sequence[exp.Join]) -> _Source:
        names = [_table_name(node) for node in (item, *(join.this for join in joins))]
        if any(name not in self.views for name in names):
            raise UnreadableError("a view that is not known")
        first = self.views[names[0]]

        def resolve(view: str, column: str) -> exp.Expr | None:
            if view not in names and view:
                return None
            return _column_of(self.views[view] if view else first, column)

        qualified = frozenset(names)
        terms = Canonical(resolve, qualified, self._types())
        found = tuple(self._join(join, terms) for join in joins)
        star = None
        if first.columns is not None and not joins:
            star = tuple((name, Term(label(node), node)) for name in first.columns if (node := resolve("", name)))
        form = Form(first.name, found, frozenset(), None, frozenset(), ())
        return _Source(form, resolve, qualified, star)

    def _join(self, join: exp.Join, terms: Canonical) -> JoinForm:
        on = join.args.get("on")
        side = (join.args.get("side") or "").upper()
        if on is None or side not in ("", "LEFT") or join.args.get("kind") or join.args.get("method"):
            raise UnreadableError("another join")
        parts = frozenset(_made(terms, part) for part in conjuncts_of(terms.of(on)))
        return JoinForm(self.views[_table_name(join.this)].name, side == "LEFT", parts)

    def _columns(self, tree: exp.Select, source: _Source, terms: Canonical) -> tuple[tuple[str, Term], ...]:
        columns: list[tuple[str, Term]] = []
        for item in tree.expressions:
            if isinstance(item, exp.Star):
                if source.star is None:
                    raise UnreadableError("a * of unknown columns")
                columns += source.star
                continue
            if isinstance(item, exp.Aliases):
                raise UnreadableError("several columns of one expression")
            columns.append((item.alias_or_name, _term(terms, item.this if isinstance(item, exp.Alias) else item)))
        return tuple(columns)

    def _conditions(self, clause: exp.Expr | None, terms: Canonical) -> frozenset[Term]:
        if clause is None:
            return frozenset()
        return frozenset(_made(terms, part) for part in conjuncts_of(terms.of(clause.this)))


def _table_name(node: exp.Expr) -> str:
    if not isinstance(node, exp.Table) or node.alias or node.args.get("db"):
        raise UnreadableError("no view's name")
    return str(node.name).lower()


def _column_of(view: View, column: str) -> exp.Expr | None:
    name = column if view.columns is None else view.columns.get(column)
    return None if name is None else named_column(view.name, name)


def named_column(view: str, name: str) -> exp.Column:
    """A column of a form's base."""
    table = exp.Identifier(this=view, quoted=True) if view else None
    return exp.Column(this=exp.Identifier(this=name, quoted=True), table=table)


def _term(terms: Canonical, node: exp.Expr) -> Term:
    return _made(terms, terms.of(node))


def _made(terms: Canonical, node: exp.Expr) -> Term:
    return Term(label(node), node, terms.type_of(node), terms.cannot_fail(node))


def _over(inner: Form, alias: str, outer: exp.Select) -> _Source:
    """The rows of a SELECT below another one."""
    filtered = outer.args.get("where") is not None
    settled = not (filtered and _ranks_or_multiplies(inner))
    merges = settled and (inner.keys is None or outer.args.get("group") is None)
    below = inner if merges else Form(inner, (), frozenset(), None, frozenset(), ())
    columns = {
        name.lower(): term if merges else _referred(term) for name, term in inner.columns if name.lower() != BIN_COLUMN
    }

    def resolve(view: str, column: str) -> exp.Expr | None:
        term = columns.get(column) if view in ("", alias) else None
        return None if term is None else term.node

    star = tuple((name, columns[name.lower()]) for name, _ in inner.columns if name.lower() in columns)
    return _Source(replace(below, columns=()), resolve, frozenset((alias,)), star)


def referred(term: Term) -> exp.Column:
    """How a form calls a column of the form below: by what it is."""
    return named_column("", digest([term.label]))


def _referred(term: Term) -> Term:
    node = referred(term)
    return Term(label(node), node, term.type, safe=True)


def _ranks_or_multiplies(form: Form) -> bool:
    return any(ranks(term) or generators(term) for term in form.terms)


def ranks(term: Term) -> bool:
    """Whether it looks at other rows."""
    return term.node.find(exp.Window) is not None


def generators(term: Term) -> frozenset[str]:
    """The parts that make several rows of one: windows, of a sliding one, and functions like `explode`."""
    calls = term.node.find_all(exp.Anonymous)
    return frozenset(
        label(call) for call in calls if function_name(call) in GENERATORS or function_name(call) == WINDOW
    )


def _composed(
    below: Form,
    columns: tuple[tuple[str, Term], ...],
    clauses: tuple[frozenset[Term], frozenset[Term] | None, frozenset[Term]],
) -> Form:
    """A SELECT over the rows or groups below, which it is merged with."""
    where, keys, having = clauses
    aggregates = any(is_aggregate(part) for _, term in columns for part in term.node.walk())
    if keys is None and below.keys is None and aggregates and not any(ranks(term) for _, term in columns):
        raise UnreadableError("an aggregate without groups")
    if below.keys is not None:
        return replace(below, having=below.having | where, columns=columns)
    kept = columns if keys is None else tuple((name, term) for name, term in columns if name != BIN_COLUMN)
    return Form(below.base, below.joins, below.filters | where, keys, having, kept)
