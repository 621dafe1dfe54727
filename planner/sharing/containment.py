"""When the output of one task can be computed from that of another: what is left to do.

    stricter filter       the conditions that are missing, over columns that are there
    fewer columns         a projection; columns that can be computed of those that are there
    coarser window        the length and slide are multiples of the other's length; partials are combined
    fewer group keys      partials are combined; a key can be computed of the keys that are there
    HAVING                the conditions that are missing, over the groups
    top-k                 of the groups, or of more of the same rank
    groups of rows        of rows that are sent as they are
    other names           or another order of columns: a projection

Not shared: what gives several rows of one (`explode`) unless both do; sums of floats and what is made of them when
groups are combined, since the order of additions would differ; percentiles, whose sketches are not exact; and
whatever the other evaluates beyond what is wanted when that could fail, since its failure would end both.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import chain

from planner.functions.aggregates import MERGE_OF, MERGES, Exact
from planner.functions.traits import AGGREGATES, WINDOW
from planner.graph.aggregates import combined
from planner.graph.bins import bin_of
from planner.graph.operators import Aggregate, Alias, Filter, Named, Operator, Partial, Project, Scan
from planner.graph.schema import names_of
from planner.sharing.canonical import bracketed, integer_of, label, with_parts
from planner.sharing.forms import Form, Term, generators, named_column, ranks, referred, renamed_columns
from planner.sharing.vertices import Vertex
from planner.sql.dialect import exp, name_node
from planner.sql.intervals import parse_interval
from planner.sql.refusals import function_name
from planner.values.names import BIN_COLUMN, INPUT_VIEW, RANK_COLUMN

_EXACT = re.compile(r"BIGINT|DECIMAL\(\d+,\d+\)")
_BELOW = "below"
_FEWER = "fewer columns"
_KEPT = "kept"


def residual_of(wanted: Vertex, offered: Vertex) -> Operator | None:
    """The residual: from the output of `offered`, in the view `input`, to that of `wanted`; None: there is none.

    Both have forms over the same input: their `reads` are equal.
    """
    if wanted.form is None or offered.form is None or wanted.reads != offered.reads or wanted.kind != offered.kind:
        return None
    types = {name.lower(): type_ for name, type_ in zip(offered.columns, offered.types, strict=False)}
    # Bins stay with the channel: the bins of a join's rows are computed again, of its keys.
    there = replace(offered.form, columns=tuple(c for c in offered.form.columns if c[0] != BIN_COLUMN))
    if wanted.form.digest == there.digest:
        made: Operator | None = _renamed(wanted.form, there)
    else:
        made = _residual(wanted.form, there, types)
    return made if made is None or not wanted.bins else _with_bins(made, wanted.bins)


def _with_bins(partials: Operator, keys: Sequence[str]) -> Operator:
    bins = bin_of([_named(key) for key in keys])
    names = names_of(partials)
    assert names is not None
    return Project(Alias(partials, "partials"), (*_as_they_are(names), Named(BIN_COLUMN, bins)))


def left_to_do(wanted: Vertex, offered: Vertex) -> str:
    """What a residual does, for people."""
    own, other = wanted.form, offered.form
    if own is None or other is None:
        return ""
    if own.digest == other.digest:
        return "other names or another order of columns"
    return ", ".join(_differences(own, other)) or "columns made of its own"


def _differences(wanted: Form, offered: Form) -> list[str]:
    if isinstance(wanted.base, Form):
        if isinstance(offered.base, Form):
            return ["a smaller top k"]
        of_groups = "an aggregate over its groups" if wanted.keys is not None else "what is made of its groups"
        what = "a top k" if _rank_bound(wanted, wanted.base) is not None else of_groups
        return [*(word for word in _differences(wanted.base, offered) if word != _FEWER), what]
    words = ["a stricter filter"] if wanted.filters - offered.filters else []
    if wanted.keys is not None and offered.keys is None:
        words.append("groups of its rows")
    elif wanted.keys is not None and offered.keys is not None and wanted.keys != offered.keys:
        if any(_coarser(key, offered) is not None for key in wanted.keys):
            words.append("longer windows")
        if len(wanted.keys) < len(offered.keys):
            words.append("fewer group keys")
    if wanted.having - offered.having:
        words.append("HAVING")
    return [*words, _FEWER] if wanted.terms < offered.terms else words


def _renamed(wanted: Form, offered: Form) -> Operator:
    """A projection: both compute the same."""
    names = renamed_columns(wanted, offered)
    return Project(Scan(INPUT_VIEW), tuple(Named(own, named_column(INPUT_VIEW, name)) for own, name in names.items()))


def _residual(wanted: Form, offered: Form, types: Mapping[str, str]) -> Operator | None:
    if isinstance(wanted.base, Form):
        if isinstance(offered.base, Form):
            return _fewer_of_a_rank(wanted, offered)
        below = _residual(wanted.base, offered, types)
        return None if below is None else _above(wanted, wanted.base, below)
    if isinstance(offered.base, Form) or wanted.rows_digest != offered.rows_digest:
        return None
    if wanted.keys is None and offered.keys is None:
        return _of_rows(wanted, offered)
    if wanted.keys is None or not _evaluates_no_more(wanted, offered):
        return None
    if offered.keys is None:
        return _groups_of_rows(wanted, offered)
    if wanted.keys == offered.keys:
        return _of_groups(wanted, offered)
    return _of_combined_groups(wanted, offered, types)


class _MissingError(Exception):
    """The output lacks a part of an expression."""


@dataclass(frozen=True, slots=True)
class _Available:
    """Expressions that the output has, by label."""

    expressions: Mapping[str, exp.Expr]
    deep: bool = False
    """Ranks and aggregates may be computed of them as well."""

    def rebuilt(self, node: exp.Expr) -> exp.Expr | None:
        """The expression over the output; None: the output lacks a part of it."""
        found = self.expressions.get(label(node))
        if found is not None:
            return found.copy()
        if isinstance(node, exp.Column) or (not self.deep and _is_of_many_rows(node)):
            return None
        try:
            return with_parts(node, self._part)
        except _MissingError:
            return None

    def _part(self, node: exp.Expr) -> exp.Expr:
        found = self.rebuilt(node)
        if found is None:
            raise _MissingError
        return found

    def conditions(self, terms: Iterable[Term]) -> tuple[exp.Expr, ...] | None:
        """Conjuncts; None when something is missing."""
        found = [self.rebuilt(term.node) for term in sorted(terms, key=lambda term: term.label)]
        return None if None in found else tuple(exp.Paren(this=bracketed(node)) for node in found if node is not None)

    def items(self, columns: Iterable[tuple[str, Term]]) -> tuple[Named, ...] | None:
        """A select list; None when something is missing."""
        found = [(name, self.rebuilt(term.node)) for name, term in columns]
        if any(node is None for _, node in found):
            return None
        return tuple(Named(name, bracketed(node)) for name, node in found if node is not None)


def _is_of_many_rows(node: exp.Expr) -> bool:
    """Whether its value depends on other rows: an aggregate, a rank, or a generator of rows."""
    return isinstance(node, exp.Window) or function_name(node) in AGGREGATES or bool(generators(Term("", node)))


def _columns_of(form: Form, keep: Callable[[Term], bool] = lambda term: True) -> dict[str, exp.Expr]:
    """The columns that a task sends, by label, and the fields of structs among them."""
    found: dict[str, exp.Expr] = {}
    for name, term in form.columns:
        column = named_column(INPUT_VIEW, name)
        if not keep(term):
            continue
        if function_name(term.node) == "named_struct":
            for key, value in zip(term.node.expressions[::2], term.node.expressions[1::2], strict=True):
                part = exp.Dot(this=column.copy(), expression=exp.Identifier(this=key.name, quoted=True))
                found.setdefault(label(value), part)
        found[term.label] = column
    return found


def _evaluates_no_more(wanted: Form, offered: Form) -> bool:
    """Whether nothing that could fail is evaluated for the other's sake alone, or for rows that are not wanted."""
    for own, other in ((wanted.filters, offered.filters), (wanted.having, offered.having)):
        # A comparison of the same expression with another number fails for the same rows.
        if any(not term.safe and not _implied([term], own) for term in other):
            return False
    fewer = bool(wanted.filters - offered.filters)
    known = wanted.terms | (wanted.keys or frozenset())
    of_others = chain(offered.terms, offered.keys or ())
    return all(term.safe or (not fewer and term in known) for term in of_others)


def _of_rows(wanted: Form, offered: Form) -> Operator | None:
    if any(ranks(term) for term in (*wanted.terms, *offered.terms)) or not _evaluates_no_more(wanted, offered):
        return None
    if _generated(wanted) != _generated(offered) or not _implied(offered.filters, wanted.filters):
        return None
    available = _Available(_columns_of(offered))
    return _select(available.items(wanted.columns), available.conditions(wanted.filters - offered.filters))


def _generated(form: Form) -> frozenset[str]:
    return frozenset(part for term in form.terms for part in generators(term))


def _groups_of_rows(wanted: Form, offered: Form) -> Operator | None:
    """Groups of rows that are sent one by one."""
    assert wanted.keys is not None
    if any(map(ranks, (*wanted.terms, *offered.terms))) or _generated(offered) or wanted.having:
        return None
    if not _implied(offered.filters, wanted.filters) or not wanted.keys <= wanted.terms:
        return None
    available = _Available(_columns_of(offered))
    where = available.conditions(wanted.filters - offered.filters)
    names = {term.label: name for name, term in wanted.columns if term in wanted.keys}
    keys = _Available(available.expressions, deep=True).items((names[key.label], key) for key in wanted.keys)
    of_kept = {known: named_column(_KEPT, name) for known, name in _names_of(offered).items()}
    groups = {known: named_column(_KEPT, name) for known, name in names.items()}
    items = _Available({**of_kept, **groups}, deep=True).items(wanted.columns)
    if keys is None or items is None or set(names.values()) & set(_names_of(offered).values()):
        return None
    sent = _as_they_are(_names_of(offered).values())
    kept = _select((*sorted(keys, key=lambda key: key.name), *sent), where)
    return None if kept is None else Aggregate(Alias(kept, _KEPT), tuple(map(_named, sorted(names.values()))), items)


def _names_of(form: Form) -> dict[str, str]:
    """A name for each column, by label."""
    return {term.label: name for name, term in form.columns}


def _of_groups(wanted: Form, offered: Form) -> Operator | None:
    """The same groups: some of them, and what is made of them."""
    filters, having = wanted.filters - offered.filters, wanted.having - offered.having
    if not _implied(offered.filters, wanted.filters) or not _implied(offered.having, wanted.having):
        return None
    keys = offered.keys or frozenset()
    of_keys = _Available(_columns_of(offered, lambda term: term in keys)).conditions(filters)
    of_groups = _Available(_columns_of(offered)).conditions(having)
    if of_keys is None or of_groups is None:
        return None
    items = _Available(_columns_of(offered), deep=any(map(ranks, wanted.terms))).items(wanted.columns)
    if any(map(ranks, offered.terms)) or (items is not None and _aggregates_anew(wanted, offered)):
        return None
    return _select(items, (*of_keys, *of_groups))


def _aggregates_anew(wanted: Form, offered: Form) -> bool:
    """Whether a select list with a rank would aggregate outside of it."""
    available = _Available(_columns_of(offered))
    plain = [column for column in wanted.columns if not ranks(column[1])]
    ordered = [part for _, term in wanted.columns if ranks(term) for part in _parts_of_rank(term.node)]
    return available.items(plain) is None or any(available.rebuilt(part) is None for part in ordered)


def _parts_of_rank(node: exp.Expr) -> list[exp.Expr]:
    return [
        part
        for over in node.find_all(exp.Window)
        for part in (
            *(over.args.get("partition_by") or []),
            *(ordered.this for ordered in over.find_all(exp.Ordered)),
            *over.this.iter_expressions(),
        )
    ]


def _of_combined_groups(wanted: Form, offered: Form, types: Mapping[str, str]) -> Operator | None:
    """Groups of which several make one: the partials of a SOURCE stage."""
    assert wanted.keys is not None
    assert offered.keys is not None
    if wanted.having or offered.having or not _implied(offered.filters, wanted.filters):
        return None
    keys = _Available(_columns_of(offered, lambda term: term in (offered.keys or ())))
    where = keys.conditions(wanted.filters - offered.filters)
    names = {term.label: name for name, term in offered.columns}
    grouped: list[Named] = []
    partials: list[Named] = []
    for name, term in wanted.columns:
        if term in wanted.keys:
            key = _coarser(term, offered) or keys.rebuilt(term.node)
            grouped += [] if key is None else [Named(name, bracketed(key))]
        else:
            column = names.get(term.label)
            made = None if column is None else _combined(term.node, column, types.get(column.lower(), ""))
            partials += [] if made is None else [Named(name, made)]
    if len(grouped) + len(partials) < len(wanted.columns) or not wanted.keys <= wanted.terms or where is None:
        return None
    own = _as_they_are(name for name, term in wanted.columns if term in wanted.keys)
    sent = _as_they_are(name for name in names.values() if _is_partial(name, offered))
    kept = Project(_kept(Scan(INPUT_VIEW), where), (*grouped, *sent))
    return Aggregate(Alias(kept, _KEPT), tuple(item.expression for item in own), (*own, *partials))


def _is_partial(name: str, form: Form) -> bool:
    term = form.column(name)
    return term is not None and term not in (form.keys or ())


def _combined(node: exp.Expr, column: str, type_: str) -> exp.Expr | None:
    """Partials of several groups as one; None when that is not exact."""
    call = node.this if isinstance(node, exp.Filter) else node
    merge = MERGE_OF.get(function_name(call))
    if merge is None or any(isinstance(part, exp.Distinct) for part in call.expressions):
        return None
    exact = MERGES[merge].exact
    of_exact_numbers = function_name(call) == "count" or bool(_EXACT.fullmatch(type_.replace(" ", "").upper()))
    if exact is Exact.NEVER or (exact is Exact.EXACT_NUMBERS and not of_exact_numbers):
        return None
    return combined(Partial(column, merge), {column: type_})


def _coarser(wanted: Term, offered: Form) -> exp.Expr | None:
    """The start of a window of which the other's windows are parts; None when it is none, or they are not."""
    window = _window_of(wanted.node)
    for name, term in offered.columns:
        other = _window_of(term.node) if term in (offered.keys or ()) else None
        if window is None or other is None or window.time != other.time or other.length != other.slide:
            continue
        if any(part % other.length for part in (window.length, window.slide, window.offset - other.offset)):
            continue
        call = exp.Anonymous(this=WINDOW, expressions=[named_column(INPUT_VIEW, name), *window.literals])
        return exp.Dot(this=call, expression=exp.Identifier(this="start", quoted=False))
    return None


@dataclass(frozen=True, slots=True)
class _Window:
    """What the start of a window is of."""

    time: str
    """The label of the event time."""
    length: timedelta
    slide: timedelta
    offset: timedelta
    literals: tuple[exp.Expr, ...]
    """As the call has them."""


def _window_of(node: exp.Expr) -> _Window | None:
    if not isinstance(node, exp.Dot) or node.name != "start" or function_name(node.this) != WINDOW:
        return None
    time, *literals = node.this.expressions
    known = [parse_interval(literal.name) for literal in literals]
    lengths = [length for length in known if length is not None]
    if not lengths or len(lengths) != len(known):
        return None
    offset = lengths[2] if len(lengths) > 2 else timedelta(0)
    copies = tuple(literal.copy() for literal in literals)
    return _Window(label(time), lengths[0], lengths[min(1, len(lengths) - 1)], offset, copies)


def _fewer_of_a_rank(wanted: Form, offered: Form) -> Operator | None:
    """The first k of the first K of one rank over the same groups."""
    below, other = wanted.base, offered.base
    assert isinstance(below, Form)
    assert isinstance(other, Form)
    same = (below.rows_digest, below.filters, below.keys, below.having)
    if same != (other.rows_digest, other.filters, other.keys, other.having):
        return None
    own, known = _rank_bound(wanted, below), _rank_bound(offered, other)
    if own is None or known is None or own[0] != known[0] or own[1] > known[1]:
        return None
    if not all(term.safe or term in below.terms for term in other.terms if not ranks(term)):
        return None
    inner = {label(referred(term)): term for _, term in other.columns}
    sent = [(name, inner[term.label]) for name, term in offered.columns if term.label in inner]
    groups = Form(other.base, other.joins, other.filters, other.keys, other.having, tuple(sent))
    ranked = _of_groups(below, groups)
    return None if ranked is None else _above(wanted, below, ranked)


def _rank_bound(form: Form, below: Form) -> tuple[str, int] | None:
    """The rank and the bound of a form that keeps the first k, and does nothing else."""
    if form.joins or form.keys is not None or form.having or len(form.filters) != 1:
        return None
    (bound,) = form.filters
    rank = below.column(RANK_COLUMN)
    if rank is None or not isinstance(bound.node, exp.LTE) or label(bound.node.this) != label(referred(rank)):
        return None
    k = integer_of(bound.node.expression)
    return None if k is None else (rank.label, k)


def _above(form: Form, below: Form, rows: Operator) -> Operator | None:
    """A form over the rows of the one below it."""
    names = {label(referred(term)): named_column(_BELOW, name) for name, term in below.columns}
    available = _Available(names, deep=True)
    items, where = available.items(form.columns), available.conditions(form.filters)
    having = available.conditions(form.having)
    if items is None or where is None or having is None:
        return None
    kept = _kept(Alias(rows, _BELOW), where)
    if form.keys is None:
        return Project(kept, items)
    keys = (available.rebuilt(key.node) for key in sorted(form.keys, key=lambda key: key.label))
    return Aggregate(kept, tuple(bracketed(key) for key in keys if key is not None), items, having)


def _select(items: tuple[Named, ...] | None, where: tuple[exp.Expr, ...] | None) -> Operator | None:
    """A projection of rows that are sent; None when something is missing."""
    return None if items is None or where is None else Project(_kept(Scan(INPUT_VIEW), where), items)


def _kept(rows: Operator, where: tuple[exp.Expr, ...]) -> Operator:
    return Filter(rows, where) if where else rows


def _named(name: str) -> exp.Expr:
    return exp.Column(this=name_node(name))


def _as_they_are(names: Iterable[str]) -> tuple[Named, ...]:
    return tuple(Named(name, _named(name)) for name in names)


def _implied(weaker: Iterable[Term], stronger: Iterable[Term]) -> bool:
    """Whether rows that meet all the stronger conditions meet the weaker ones too."""
    known = tuple(stronger)
    return all(term in known or any(_implies(other.node, term.node) for other in known) for term in weaker)


@dataclass(frozen=True, slots=True)
class _Bound:
    """`x < 5`, `5 <= x`, `x = 5`, all for whole numbers."""

    of: str
    low: float
    high: float


def _implies(stronger: exp.Expr, weaker: exp.Expr) -> bool:
    own, other = _bound(stronger), _bound(weaker)
    if own is None or other is None or own.of != other.of:
        return False
    return other.low <= own.low and own.high <= other.high


def _bound(node: exp.Expr) -> _Bound | None:
    """The values that a comparison with a whole number leaves; half a unit stands for "but not the number itself"."""
    if not isinstance(node, exp.LT | exp.LTE | exp.EQ):
        return None
    left, right = integer_of(node.this), integer_of(node.expression)
    away = 0.5 if isinstance(node, exp.LT) else 0.0
    if right is not None:
        low = float(right) if isinstance(node, exp.EQ) else float("-inf")
        return _Bound(label(node.this), low, right - away)
    if left is not None:
        high = float(left) if isinstance(node, exp.EQ) else float("inf")
        return _Bound(label(node.expression), left + away, high)
    return None
