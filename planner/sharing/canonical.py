"""The canonical form of an expression: equivalent expressions are written alike.

    brackets, places in the text            forgotten
    a AND (b AND a), OR                     flat, sorted, each part once
    a = b, a <> b, a <=> b, a + b, a * b    operands sorted; chains of + and * keep their order: 0.1 + 0.2 + 0.3 differs
    b > a, b >= a, x BETWEEN a AND b        a < b, a <= b, a <= x AND x <= b
    NOT a = b, NOT a < b, NOT NOT a         a <> b, b <= a, a: Spark orders NaN, so this holds for floats and NULL too
    x IN (2, 1, 2)                          items sorted, each once; never an OR: Spark casts all items to one type
    1 + 2, -(3), 1 < 2, 'a' || 'b'          folded: whole numbers while they stay INT, comparisons of them, texts
    TRUE AND a, a OR FALSE                  a; FALSE AND a stays, for `a` may fail
    CAST(x AS T) of an x of type T          x
    count(1)                                count(*); `mean` is `avg`
    ts + INTERVAL 1 MINUTE                  in seconds, where an interval is added or subtracted

Nothing is rewritten that could change a value, its type or which rows there are: no division (`/` of integers is a
DOUBLE), no arithmetic beyond INT (Spark's ANSI mode fails there), no distribution, no `x = x`. Expressions that could
answer differently the second time are refused before; Python functions go by the digest of their version.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from planner.functions.aggregates import SAME_FUNCTIONS, TOTAL_OF, Total
from planner.functions.traits import TOTAL_SCALARS
from planner.sql.dialect import exp, parts_of, render
from planner.sql.intervals import UNITS, parse_interval
from planner.sql.refusals import function_name

Resolve = Callable[[str, str], exp.Expr | None]
"""From a view (or "") and a column's lower-case name to its canonical expression; None when there is none."""

MAX_INT = 2**31 - 1

_SORTED_PAIRS = (exp.EQ, exp.NEQ, exp.NullSafeEQ, exp.Add, exp.Mul, exp.BitwiseAnd, exp.BitwiseOr, exp.BitwiseXor)
_MIRRORED = {exp.GT: exp.LT, exp.GTE: exp.LTE}
_OPPOSITES = {exp.EQ: exp.NEQ, exp.NEQ: exp.EQ}
_CONNECTORS = (exp.And, exp.Or)
INTEGERS = ("TINYINT", "SMALLINT", "INT", "BIGINT")
FLOATS = ("FLOAT", "DOUBLE")
NUMBERS = (*INTEGERS, *FLOATS)
_COMPARED = (exp.EQ, exp.NEQ, exp.NullSafeEQ, exp.LT, exp.LTE, exp.In, exp.Like)
_PLAIN = (
    *(exp.Column, exp.Identifier, exp.Literal, exp.Boolean, exp.Null, exp.Star, exp.DataType, exp.Var, exp.Interval),
    *(exp.And, exp.Or, exp.Not, exp.Is, exp.Dot, exp.Filter, exp.Where),
)
_TEXT_FUNCTIONS = frozenset(("upper", "lower", "concat_ws", "date_format"))


class UnreadableError(Exception):
    """SQL without a canonical form; the caller compares its text instead."""


@dataclass(frozen=True, slots=True)
class Canonical:
    """Puts expressions of one SELECT into their canonical form."""

    resolve: Resolve
    views: frozenset[str]
    """Lower-case names that can stand before a column."""
    types: Mapping[tuple[str, str], str] = field(default_factory=dict)
    """Spark types in capitals by view and column, as `resolve` names them."""

    def of(self, node: exp.Expr) -> exp.Expr:
        """The canonical form.

        Raises:
            UnreadableError: a column that is not known.
        """
        if isinstance(node, exp.Paren):
            return self.of(node.this)
        if isinstance(node, exp.Column):
            return self._column(node)
        if node.args.get("negate"):
            positive = node.copy()
            positive.set("negate", None)
            return self._negated(self.of(positive))
        if isinstance(node, exp.Between) and not node.args.get("symmetric"):
            low = exp.LTE(this=node.args["low"].copy(), expression=node.this.copy())
            high = exp.LTE(this=node.this.copy(), expression=node.args["high"].copy())
            return self.of(exp.And(this=low, expression=high))
        return self._changed(with_parts(node, self.of))

    def _changed(self, node: exp.Expr) -> exp.Expr:
        """The canonical form of a node whose parts are canonical."""
        for kind, mirrored in _MIRRORED.items():
            if type(node) is kind:
                node = mirrored(this=node.right, expression=node.left)
        if isinstance(node, _CONNECTORS):
            return self._connected(node)
        if isinstance(node, exp.Not):
            return self._negated(node.this)
        if isinstance(node, exp.Cast):
            value: exp.Expr = node.this
            plain = not any(node.args.get(key) for key in ("format", "action", "default"))
            return value if plain and self.type_of(value) == type_text(node.args["to"]) else node
        if isinstance(node, exp.In) and node.expressions:
            node.set("expressions", _distinct(node.expressions))
        if isinstance(node, exp.Dot) and isinstance(node.expression, exp.Identifier):
            return field_of(node.this, node.expression.name)
        if isinstance(node, exp.Anonymous):
            return _call(node)
        if isinstance(node, exp.Window):
            node.set("partition_by", _distinct(node.args.get("partition_by") or []))
        if isinstance(node, exp.Add | exp.Sub):
            node = self._with_seconds(node)
        if isinstance(node, _SORTED_PAIRS):
            left, right = sorted((node.this, node.expression), key=label)
            node.set("this", left)
            node.set("expression", right)
        return _folded(node)

    def _connected(self, node: exp.Expr) -> exp.Expr:
        """AND or OR as a chain to the left."""
        kind = type(node)
        neutral = kind is exp.And
        parts: list[exp.Expr] = []
        stack = [node]
        while stack:
            part = stack.pop()
            if type(part) is kind:
                stack += [part.args["expression"], part.args["this"]]
            elif not _is(part, value=neutral):
                parts.append(part)
        if not parts:
            return exp.Boolean(this=neutral)
        first, *others = _distinct(parts)
        if not others and not self.is_truth(first):
            # AND casts a text to a BOOLEAN.
            others = [exp.Boolean(this=neutral)]
        for part in others:
            first = kind(this=first, expression=part)
        return first

    def _negated(self, node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.Not) and self.is_truth(node.this):
            positive: exp.Expr = node.this
            return positive
        if isinstance(node, exp.Boolean):
            return exp.Boolean(this=not node.this)
        for kind, opposite in _OPPOSITES.items():
            if type(node) is kind:
                return opposite(this=node.this, expression=node.expression)
        if isinstance(node, exp.LT | exp.LTE):
            opposite = exp.LTE if isinstance(node, exp.LT) else exp.LT
            return opposite(this=node.expression, expression=node.this)
        return exp.Not(this=node)

    def is_truth(self, node: exp.Expr) -> bool:
        """Whether it certainly is a BOOLEAN: NOT NOT of a text would be a cast."""
        return self.type_of(node) == "BOOLEAN"

    def _with_seconds(self, node: exp.Expr) -> exp.Expr:
        """An interval of fixed length that is added to or taken from an instant, in seconds."""
        sides = [node.this, node.expression]
        # Of a DATE, an interval of hours makes a TIMESTAMP.
        if not any(isinstance(side, exp.Interval) for side in sides) or "TIMESTAMP" not in map(self.type_of, sides):
            return node
        changed = [_seconds(side) if isinstance(side, exp.Interval) else side for side in sides]
        return type(node)(this=changed[0], expression=changed[1])

    def _column(self, node: exp.Column) -> exp.Expr:
        if isinstance(node.this, exp.Star):
            raise UnreadableError("a * inside an expression")
        parts = parts_of(node)
        names = [part.name for part in parts]
        qualified = len(names) > 1 and names[0].lower() in self.views
        view, used = (names[0].lower(), 2) if qualified else ("", 1)
        found = self.resolve(view, names[used - 1].lower())
        if found is None:
            raise UnreadableError(f"no column {'.'.join(names)}")
        found = found.copy()
        for part in parts[used:]:
            found = field_of(found, part.name)
        return found

    def type_of(self, node: exp.Expr) -> str:
        """The Spark type of a canonical expression; empty when it is not known for certain."""
        if isinstance(node, exp.Column):
            return self.types.get((node.table, node.name), "")
        if isinstance(node, exp.Cast):
            return type_text(node.args["to"])
        if isinstance(node, exp.Predicate | exp.Connector | exp.Not | exp.Boolean):
            return "BOOLEAN"
        if isinstance(node, exp.Literal):
            return "STRING" if node.is_string else "INT" if integer_of(node) is not None else ""
        if isinstance(node, exp.Add | exp.Sub | exp.Mul):
            kinds = {self.type_of(node.this), self.type_of(node.expression)}
            kind = kinds.pop()
            return kind if not kinds and kind in ("INT", "BIGINT", "DOUBLE") else ""
        return "STRING" if function_name(node) in _TEXT_FUNCTIONS else ""

    def cannot_fail(self, node: exp.Expr) -> bool:
        """Whether it certainly has a value for any row: without overflow, division, or a cast that may fail."""
        parts = tuple(node.iter_expressions())
        if not all(self.cannot_fail(part) for part in parts):
            return False
        if isinstance(node, _COMPARED):
            return self._are_comparable(parts)
        if isinstance(node, exp.Cast):
            to = type_text(node.args["to"])
            return to == "STRING" or (to == "DOUBLE" and self.type_of(node.this) in NUMBERS)
        if isinstance(node, exp.Anonymous):
            name = function_name(node)
            total = Total.ALWAYS if name in TOTAL_SCALARS else TOTAL_OF.get(name, Total.NEVER)
            if total is Total.SMALL_NUMBERS:
                return self.type_of(node.expressions[0]) in (*INTEGERS[:-1], *FLOATS)
            return total is Total.ALWAYS
        return isinstance(node, _PLAIN)

    def _are_comparable(self, parts: Sequence[exp.Expr]) -> bool:
        kinds = {self.type_of(part) for part in parts}
        return "" not in kinds and (len(kinds) == 1 or kinds <= set(NUMBERS))


def type_text(node: exp.Expr) -> str:
    """A type as the catalog writes it."""
    return render(node).replace(" ", "").upper()


def field_of(node: exp.Expr, name: str) -> exp.Expr:
    """A field of a struct; of one that is made here, the value itself."""
    if function_name(node) == "named_struct":
        pairs = zip(node.expressions[::2], node.expressions[1::2], strict=True)
        found: exp.Expr | None = next((value for key, value in pairs if key.name.lower() == name.lower()), None)
        if found is not None:
            return found
    return exp.Dot(this=node, expression=exp.Identifier(this=name, quoted=True))


def label(node: object) -> str:
    """A text that is equal for two canonical expressions only if these are equal."""
    if isinstance(node, exp.Column):
        return f"{node.table}.{node.name!r}"
    if isinstance(node, exp.Identifier):
        return repr(node.name)
    if isinstance(node, exp.DataType):
        return type_text(node)
    if isinstance(node, exp.Anonymous):
        return f"({' '.join([function_name(node), *map(label, node.expressions)])})"
    if isinstance(node, exp.Expr):
        parts = (f"{key}={label(value)}" for key, value in sorted(node.args.items()) if _says(value))
        return f"({' '.join([type(node).__name__, *parts])})"
    if isinstance(node, list):
        return f"[{' '.join(map(label, node))}]"
    return repr(node)


def _says(value: object) -> bool:
    return value is not None and value is not False and value != []


def bracketed(node: exp.Expr) -> exp.Expr:
    """A canonical expression, with the brackets that its text needs."""
    return with_parts(node, lambda part: _enclosed(bracketed(part)))


def _enclosed(node: exp.Expr) -> exp.Expr:
    tears = isinstance(node, exp.Binary | exp.Unary | exp.Predicate) and not isinstance(node, exp.Dot | exp.Paren)
    return exp.Paren(this=node) if tears else node


def integer_of(node: exp.Expr) -> int | None:
    """The value of a whole number of Spark's type INT."""
    if not isinstance(node, exp.Literal) or node.is_string:
        return None
    digits = node.name.removeprefix("-")
    value = int(node.name) if digits.isdecimal() and digits.isascii() and len(digits) <= 10 else None
    return value if value is not None and abs(value) <= MAX_INT else None


def conjuncts_of(node: exp.Expr) -> tuple[exp.Expr, ...]:
    """The parts of a canonical condition that must all hold; TRUE is none."""
    parts: list[exp.Expr] = []
    stack = [node]
    while stack:
        part = stack.pop()
        if isinstance(part, exp.And):
            stack += [part.expression, part.this]
        elif not _is(part, value=True):
            parts.append(part)
    return tuple(parts)


def with_parts(node: exp.Expr, change: Callable[[exp.Expr], exp.Expr]) -> exp.Expr:
    """A new node of changed parts, without the places of the text."""
    arguments: dict[str, object] = {}
    for key, value in node.args.items():
        if isinstance(value, exp.Expr):
            arguments[key] = change(value)
        elif isinstance(value, list):
            arguments[key] = [change(part) if isinstance(part, exp.Expr) else part for part in value]
        else:
            arguments[key] = value
    return type(node)(**arguments)


def _is(node: exp.Expr, *, value: bool) -> bool:
    return isinstance(node, exp.Boolean) and bool(node.this) is value


def _distinct(nodes: Sequence[exp.Expr]) -> list[exp.Expr]:
    """Sorted by label, each once."""
    return [node for _, node in sorted({label(node): node for node in nodes}.items())]


def _call(node: exp.Anonymous) -> exp.Expr:
    name = function_name(node)
    node.set("this", SAME_FUNCTIONS.get(name, name))
    arguments = node.expressions
    if name == "count" and len(arguments) == 1 and isinstance(arguments[0], exp.Literal):
        node.set("expressions", [exp.Star()])
    return node


def _seconds(node: exp.Interval) -> exp.Expr:
    unit = node.args.get("unit")
    amount = node.this
    if not isinstance(amount, exp.Literal) or unit is None:
        return node
    length = parse_interval(f"{amount.name} {render(unit)}")
    if length is None or length % UNITS["SECOND"]:
        return node
    return exp.Interval(this=exp.Literal.string(str(length // UNITS["SECOND"])), unit=exp.Var(this="SECOND"))


def _folded(node: exp.Expr) -> exp.Expr:
    if isinstance(node, exp.Neg):
        value = integer_of(node.this)
        return node if value is None else exp.Literal(this=str(-value), is_string=False)
    if not isinstance(node, exp.Binary):
        return node
    left, right = node.this, node.expression
    if isinstance(node, exp.DPipe) and _is_text(left) and _is_text(right):
        return exp.Literal.string(left.name + right.name)
    first, second = integer_of(left), integer_of(right)
    if first is None or second is None:
        return node
    return _of_integers(node, first, second)


def _is_text(node: exp.Expr) -> bool:
    return isinstance(node, exp.Literal) and node.is_string


_ARITHMETIC: Mapping[type[exp.Expr], Callable[[int, int], int]] = {
    exp.Add: lambda a, b: a + b,
    exp.Sub: lambda a, b: a - b,
    exp.Mul: lambda a, b: a * b,
}
_COMPARISONS: Mapping[type[exp.Expr], Callable[[int, int], bool]] = {
    exp.EQ: lambda a, b: a == b,
    exp.NEQ: lambda a, b: a != b,
    exp.LT: lambda a, b: a < b,
    exp.LTE: lambda a, b: a <= b,
}


def _of_integers(node: exp.Expr, first: int, second: int) -> exp.Expr:
    if type(node) in _COMPARISONS:
        return exp.Boolean(this=_COMPARISONS[type(node)](first, second))
    if type(node) not in _ARITHMETIC:
        return node
    value = _ARITHMETIC[type(node)](first, second)
    return exp.Literal(this=str(value), is_string=False) if abs(value) <= MAX_INT else node
