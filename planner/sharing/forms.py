"""What a stage computes, as a value that does not depend on how the query was written.

A Project over rows is merged into what is below it, as is one over groups; names that only stand between the two are
gone then. Where that would change the meaning (a filter behind a rank), what is below stays a form of its own, and its
columns go by the digests of what they are.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from planner.functions.traits import GENERATORS, WINDOW
from planner.graph.aggregates import combined, mean_of_all, mean_over_group, means, merged
from planner.graph.expressions import is_aggregate
from planner.graph.operators import (
    Aggregate,
    Alias,
    CombinePartials,
    Filter,
    Generate,
    Join,
    MergeAggregate,
    Named,
    Operator,
    PartialAggregate,
    Project,
    Scan,
    Sort,
    Statement,
    TopK,
    UnionAll,
    rank_over,
)
from planner.graph.schema import types_of
from planner.sharing.canonical import Canonical, UnreadableError, conjuncts_of, label
from planner.sql.dialect import exp, name_node
from planner.sql.refusals import function_name
from planner.values.names import BIN_COLUMN, RANK_COLUMN

DIGEST_CHARS = 32


def digest(parts: Iterable[str]) -> str:
    """A digest of several texts; equal only for equal texts in the same order."""
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
    only: str = ""
    right: bool = False

    @property
    def digest(self) -> str:
        """Equal for joins that do the same; as it was before there were SEMI and RIGHT, for those without."""
        kinds = [self.only] if self.only else ["RIGHT"] if self.right else []
        return digest([self.view, str(self.left), *kinds, *_labels(self.on)])


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
        return digest([base, *(join.digest for join in self.joins)])

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


def form_of(operator: Operator | None, views: Mapping[str, View]) -> Form | None:
    """The form of what a stage computes; None when it is of no form that is known here.

    Args:
        operator: of a stage; None: it has none, or was stored as text.
        views: what it reads, by lower-case name.
    """
    if operator is None:
        return None
    types = {(view.name, name): type_ for view in views.values() for name, type_ in view.types.items()}
    try:
        rows = _Reader(views, types).rows(operator)
    except (UnreadableError, RecursionError):
        return None
    return None if rows.columns is None else replace(rows.form, columns=rows.columns)


@dataclass(frozen=True, slots=True)
class _Rows:
    """The form of an operator so far, and what names above it mean."""

    form: Form
    """Without columns."""
    columns: tuple[tuple[str, Term], ...] | None
    """None: those of a view, whichever they are."""
    resolve: Callable[[str, str], exp.Expr | None]
    names: frozenset[str] = frozenset()
    """What can stand before a column, in lower case."""

    @property
    def whole(self) -> Form:
        """The form with its columns."""
        return replace(self.form, columns=self.columns or ())


@dataclass(frozen=True, slots=True)
class _Reader:
    views: Mapping[str, View]
    types: Mapping[tuple[str, str], str]

    def rows(self, operator: Operator) -> _Rows:
        """What an operator gives.

        Raises:
            UnreadableError: it is of no form that is known.
        """
        match operator:
            case Scan():
                return self._scan(operator, operator.view)
            case Alias(Scan() as scan, name):
                return self._scan(scan, name)
            case Alias():
                return replace(self.rows(operator.input), names=frozenset((operator.name.lower(),)))
            case Join():
                return self._join(operator)
            case Filter():
                return self._filtered(self.rows(operator.input), operator.conditions)
            case Project(TopK() as top_k, items):
                return self._ranked(top_k, items)
            case Project():
                return self._projected(self.rows(operator.input), operator.items)
            case Aggregate():
                below = _grouping(self.rows(operator.input))
                return self._grouped(below, operator.keys, operator.items, operator.having)
            case PartialAggregate() if operator.session is not None:
                raise UnreadableError("sessions of an epoch are groups of its rows alone")
            case PartialAggregate():
                calls = zip(operator.partials, operator.calls, strict=True)
                items = tuple(Named(partial.name, call) for partial, call in calls)
                return self._groups(_grouping(self.rows(operator.input)), operator.keys, items)
            case CombinePartials():
                types = types_of(operator.input)
                items = tuple(Named(partial.name, combined(partial, types)) for partial in operator.partials)
                return self._groups(self._with_means(operator), operator.keys, items)
            case MergeAggregate():
                types, partials = types_of(operator.input), {partial.name: partial for partial in operator.partials}
                items = tuple(Named(a.name, merged(a, partials, types)) for a in operator.aggregates)
                return self._groups(self._with_means(operator), operator.keys, items)
            case TopK():
                return self._ranked(operator, ())
            case Generate() | Sort() | UnionAll() | Statement():
                raise UnreadableError(f"{type(operator).__name__} has no form")

    def _terms(self, rows: _Rows) -> Canonical:
        return Canonical(rows.resolve, rows.names, self.types)

    def _scan(self, scan: Scan, name: str) -> _Rows:
        view = self.views.get(scan.view.lower())
        if view is None:
            raise UnreadableError("a view that is not known")

        def resolve(qualifier: str, column: str) -> exp.Expr | None:
            return _column_of(view, column) if qualifier in ("", name.lower()) else None

        columns = None
        if view.columns is not None:
            found = ((column, _column_of(view, column)) for column in view.columns)
            columns = tuple((column, Term(label(node), node)) for column, node in found if node is not None)
        form = Form(view.name, (), frozenset(), None, frozenset(), ())
        return _Rows(form, columns, resolve, frozenset((name.lower(),)))

    def _join(self, join: Join) -> _Rows:
        left, right = self.rows(join.left_input), self.rows(join.right_input)
        if not _is_plain(left.form) or not _is_plain(right.form) or right.form.joins:
            raise UnreadableError("a join of what is no view")
        both = left.names | right.names

        def resolve(qualifier: str, column: str) -> exp.Expr | None:
            return right.resolve(qualifier, column) if qualifier in right.names else left.resolve(qualifier, column)

        rows = _Rows(left.form, None, resolve, both)
        on = frozenset(self._conditions(join.on, rows))
        assert isinstance(right.form.base, str)
        joined = JoinForm(right.form.base, join.left, on, join.only, join.right)
        form = replace(left.form, joins=(*left.form.joins, joined))
        return replace(rows, form=form)

    def _filtered(self, below: _Rows, conditions: Sequence[exp.Expr]) -> _Rows:
        if _ranks_or_multiplies(below):
            below = _nested(below)
        found = frozenset(self._conditions(conditions, below))
        form = below.form
        if form.keys is not None:
            return replace(below, form=replace(form, having=form.having | found))
        return replace(below, form=replace(form, filters=form.filters | found))

    def _conditions(self, conditions: Sequence[exp.Expr], rows: _Rows) -> Iterator[Term]:
        terms = self._terms(rows)
        for condition in conditions:
            for part in conjuncts_of(terms.of(condition)):
                yield _made(terms, part)

    def _projected(self, below: _Rows, items: Sequence[Named]) -> _Rows:
        terms = self._terms(below)
        columns = tuple((item.name, _term(terms, item.expression)) for item in items)
        aggregates = any(is_aggregate(part) for _, term in columns for part in term.node.walk())
        if below.form.keys is None and aggregates and not any(ranks(term) for _, term in columns):
            raise UnreadableError("an aggregate without groups")
        return _over(below.form, columns)

    def _groups(self, below: _Rows, keys: Sequence[str], items: tuple[Named, ...]) -> _Rows:
        """Groups by columns of the rows."""
        nodes = tuple(exp.Column(this=name_node(key)) for key in keys)
        named = tuple(Named(key, node) for key, node in zip(keys, nodes, strict=True))
        return self._grouped(below, nodes, (*named, *items))

    def _grouped(
        self, below: _Rows, keys: Sequence[exp.Expr], items: Sequence[Named], having: Sequence[exp.Expr] = ()
    ) -> _Rows:
        terms = self._terms(below)
        columns = tuple((item.name, _term(terms, item.expression)) for item in items)
        by = frozenset(_term(terms, key) for key in keys)
        kept = frozenset(self._conditions(having, below))
        return _over(replace(below.form, keys=by, having=kept), columns)

    def _with_means(self, operator: CombinePartials | MergeAggregate) -> _Rows:
        """The partials, and beside each mean the mean of its whole group."""
        rows = _grouping(self.rows(operator.input))
        if rows.columns is None:
            raise UnreadableError("partials of unknown columns")
        columns = dict(rows.columns)
        for partial in means(operator.partials):
            node = mean_over_group(partial, operator.keys)
            columns[mean_of_all(partial.name)] = _term(self._terms(rows), node)
        return replace(_over(rows.form, tuple(columns.items())), names=rows.names)

    def _ranked(self, top_k: TopK, items: Sequence[Named]) -> _Rows:
        """The first of each partition; without items, all columns and the rank."""
        below = self.rows(top_k.input)
        terms = self._terms(below)
        if items:
            columns = tuple((item.name, _term(terms, item.expression)) for item in items)
        elif below.columns is not None:
            columns = below.columns
        else:
            raise UnreadableError("a rank beside unknown columns")
        rank = _term(terms, rank_over(top_k))
        ranked = _nested(_over(below.form, (*columns, (RANK_COLUMN, rank))))
        bound = exp.LTE(this=exp.Column(this=name_node(RANK_COLUMN)), expression=exp.Literal.number(top_k.k))
        found = self._filtered(ranked, (bound,))
        kept = tuple(column for column in found.columns or () if not items or column[0] != RANK_COLUMN)
        return _over(found.form, kept)


def _is_plain(form: Form) -> bool:
    return isinstance(form.base, str) and not form.filters and form.keys is None


def _over(form: Form, columns: tuple[tuple[str, Term], ...]) -> _Rows:
    """Rows of these columns, of which what stands above may name any."""
    by_name = {name.lower(): term for name, term in columns if name.lower() != BIN_COLUMN}

    def resolve(qualifier: str, column: str) -> exp.Expr | None:
        term = by_name.get(column)
        return None if term is None else term.node

    return _Rows(form, columns, resolve)


def _nested(rows: _Rows) -> _Rows:
    """The rows as the base of a form of their own; their columns go by the digests of what they are."""
    columns = tuple((name, _referred(term)) for name, term in rows.columns or ())
    form = Form(rows.whole, (), frozenset(), None, frozenset(), ())
    return replace(_over(form, columns), names=rows.names)


def _grouping(rows: _Rows) -> _Rows:
    """Rows that can be grouped: groups of groups are a form over a form."""
    return rows if rows.form.keys is None else _nested(rows)


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


def referred(term: Term) -> exp.Column:
    """The name of a column of the form below: the digest of its expression."""
    return named_column("", digest([term.label]))


def _referred(term: Term) -> Term:
    node = referred(term)
    return Term(label(node), node, term.type, safe=True)


def _ranks_or_multiplies(rows: _Rows) -> bool:
    return any(ranks(term) or generators(term) for _, term in rows.columns or ())


def ranks(term: Term) -> bool:
    """Whether it is a rank: its value depends on other rows."""
    return term.node.find(exp.Window) is not None


def generators(term: Term) -> frozenset[str]:
    """The parts that make several rows of one: windows, of a sliding one, and functions like `explode`."""
    calls = term.node.find_all(exp.Anonymous)
    return frozenset(
        label(call) for call in calls if function_name(call) in GENERATORS or function_name(call) == WINDOW
    )
