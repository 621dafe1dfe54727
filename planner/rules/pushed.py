"""Conditions of scans that are evaluated at the sites of the table: from Spark's expressions to bound ones.

Only what is deterministic and cannot fail may be evaluated there, because rows are looked at that the query, as it is
written, would have left out before. Everything that is not in these tables is left to the REDUCE, which evaluates all
conditions again.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from planner.graph.expressions import cast, enclosed
from planner.sql.dialect import exp, name_node
from planner.values.decimals import digits_of
from planner.values.names import INPUT_VIEW
from planner.values.scans import SparkExpression


class NotPushedError(Exception):
    """Says why a condition is not evaluated at the sites."""


def pushed(condition: SparkExpression) -> exp.Expr:
    """The condition over the columns of the view `input`.

    Raises:
        NotPushedError: it is not safe there, or not known to be.
    """
    writer = _WRITERS.get(condition.kind)
    if writer is None:
        raise NotPushedError(_REASONS.get(condition.kind, f"{condition.kind} is not known to succeed for every row"))
    if "COLLATE" in condition.type:
        raise NotPushedError("its texts have a collation")
    return writer(condition)


_REASONS: Mapping[str, str] = {
    "Nondeterministic": "it is not deterministic",
    "SubqueryExpression": "it holds a sub-query",
    **dict.fromkeys(("Add", "Subtract", "Multiply", "Abs", "UnaryMinus"), "its arithmetic may overflow"),
    **dict.fromkeys(("Divide", "IntegralDivide", "Remainder", "Pmod"), "its divisor may be 0"),
    "Cast": "its CAST may fail",
    **dict.fromkeys(("PythonUDF", "ScalaUDF"), "it calls a function of users"),
}


def _parts(condition: SparkExpression) -> list[exp.Expr]:
    return [enclosed(pushed(part)) for part in condition.arguments]


def _binary(kind: type[exp.Expr]) -> Callable[[SparkExpression], exp.Expr]:
    def write(condition: SparkExpression) -> exp.Expr:
        left, right = _parts(condition)
        return kind(this=left, expression=right)

    return write


def _call(name: str) -> Callable[[SparkExpression], exp.Expr]:
    return lambda condition: exp.Anonymous(this=name, expressions=[pushed(part) for part in condition.arguments])


def _attribute(condition: SparkExpression) -> exp.Expr:
    return exp.Column(this=name_node(condition.text or ""), table=name_node(INPUT_VIEW))


_LITERALS = re.compile(
    r"BOOLEAN|TINYINT|SMALLINT|INT|BIGINT|FLOAT|DOUBLE|DECIMAL\(\d+,\d+\)|STRING|DATE|TIMESTAMP|TIMESTAMP_NTZ"
)


def _literal(condition: SparkExpression) -> exp.Expr:
    """A text with a CAST to the literal's type says it exactly, whatever the type."""
    if not _LITERALS.fullmatch(condition.type):
        raise NotPushedError(f"it has a value of the type {condition.type}")
    if condition.text is None:
        return cast(exp.Null(), condition.type)
    if condition.type == "INT" and condition.text.isdecimal():
        return exp.Literal.number(condition.text)
    text = exp.Literal.string(condition.text)
    return text if condition.type == "STRING" else cast(text, condition.type)


def _not(condition: SparkExpression) -> exp.Expr:
    (part,) = _parts(condition)
    return exp.Not(this=part)


def _is_null(condition: SparkExpression) -> exp.Expr:
    (part,) = _parts(condition)
    return exp.Is(this=part, expression=exp.Null())


def _in(condition: SparkExpression) -> exp.Expr:
    value, *choices = _parts(condition)
    return exp.In(this=value, expressions=choices)


def _like(condition: SparkExpression) -> exp.Expr:
    value, pattern = condition.arguments
    if condition.text != "\\" or pattern.kind != "Literal" or pattern.text is None or pattern.text.endswith("\\"):
        raise NotPushedError("its pattern may be invalid")
    return exp.Like(this=enclosed(pushed(value)), expression=pushed(pattern))


def _case(condition: SparkExpression) -> exp.Expr:
    parts = [pushed(part) for part in condition.arguments]
    default = parts.pop() if len(parts) % 2 else None
    branches = [exp.If(this=when, true=then) for when, then in zip(parts[::2], parts[1::2], strict=True)]
    return exp.Case(ifs=branches, default=default)


def _if(condition: SparkExpression) -> exp.Expr:
    when, then, otherwise = map(pushed, condition.arguments)
    return exp.Case(ifs=[exp.If(this=when, true=then)], default=otherwise)


_WIDER = ("TINYINT", "SMALLINT", "INT", "BIGINT")
_DIGITS = {"TINYINT": 3, "SMALLINT": 5, "INT": 10, "BIGINT": 20}


def _cast(condition: SparkExpression) -> exp.Expr:
    """Only from a number to a type that has all its values: nothing can fail, and nothing is rounded."""
    (part,) = condition.arguments
    if not _is_wider(part.type, condition.type):
        raise NotPushedError(_REASONS["Cast"])
    return cast(enclosed(pushed(part)), condition.type)


def _is_wider(narrow: str, wide: str) -> bool:
    if narrow in _WIDER and wide in _WIDER:
        return _WIDER.index(narrow) <= _WIDER.index(wide)
    to, of = digits_of(wide), digits_of(narrow)
    if to is None or (of is None and narrow not in _DIGITS):
        return narrow == "FLOAT" and wide == "DOUBLE"
    whole, scale = (of.precision - of.scale, of.scale) if of is not None else (_DIGITS[narrow], 0)
    return scale <= to.scale and whole <= to.precision - to.scale


_WRITERS: Mapping[str, Callable[[SparkExpression], exp.Expr]] = {
    "AttributeReference": _attribute,
    "Literal": _literal,
    "Not": _not,
    "IsNull": _is_null,
    "IsNotNull": lambda condition: exp.Not(this=_is_null(condition)),
    "In": _in,
    "Like": _like,
    "CaseWhen": _case,
    "If": _if,
    "Cast": _cast,
    **{
        name: _binary(kind)
        for name, kind in {
            "And": exp.And,
            "Or": exp.Or,
            "EqualTo": exp.EQ,
            "EqualNullSafe": exp.NullSafeEQ,
            "LessThan": exp.LT,
            "LessThanOrEqual": exp.LTE,
            "GreaterThan": exp.GT,
            "GreaterThanOrEqual": exp.GTE,
        }.items()
    },
    **{
        kind: _call(name)
        for kind, name in {
            "Coalesce": "coalesce",
            "StartsWith": "startswith",
            "EndsWith": "endswith",
            "Contains": "contains",
            "Substring": "substring",
            "Upper": "upper",
            "Lower": "lower",
            "Length": "length",
            "Year": "year",
            "Quarter": "quarter",
            "Month": "month",
            "DayOfMonth": "dayofmonth",
        }.items()
    },
}
"""By the class of Spark."""
