"""What a generated column holds: the option `column.<name>`, or a default by type.

sequence            the row number
uniform(a, b)       whole numbers a to b for integral types, else a <= x < b
choice(a, b, ...)   one of the values, equally often
zipf(n, s)          1 to n; k as often as the integral of x^-s from k to k + 1
constant(x)         always x
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from planner.values.literals import quoted_text
from site_agent.base.errors import ConnectorError
from site_agent.connectors.generator.sql import fraction_of, hash_of
from site_agent.engine import Field

PREFIX = "column."
NULLS_SUFFIX = ".null_fraction"
ALLOWED = "sequence, uniform(a, b), choice(a, b, ...), zipf(n, s) or constant(x)"

_CALL = re.compile(r"\s*(\w+)\s*(?:\((.*)\))?\s*", re.DOTALL)
_ARGUMENT = re.compile(r"\s*(?:'((?:[^']|'')*)'|([^,']*?))\s*(?:,|$)")
_INTEGRAL_MAX = {"TINYINT": 2**7 - 1, "SMALLINT": 2**15 - 1, "INT": 2**31 - 1, "BIGINT": 2**63 - 1}
_FRACTIONAL = ("FLOAT", "DOUBLE", "DECIMAL")
_TEXT = "STRING"
_ALIASES = {
    "INTEGER": "INT",
    "LONG": "BIGINT",
    "SHORT": "SMALLINT",
    "BYTE": "TINYINT",
    "REAL": "FLOAT",
    "DEC": "DECIMAL",
}
_DEFAULT_VALUES = 100


@dataclass(frozen=True, slots=True)
class ColumnSpec:
    """How a column's values are made."""

    kind: str
    arguments: tuple[str, ...] = ()


def parse_spec(text: str) -> ColumnSpec:
    """Take apart `kind(argument, ...)`. Raises ValueError when it is not one of the kinds, with the right arguments."""
    call = _CALL.fullmatch(text)
    if call is None or call.group(1).lower() not in _KINDS:
        raise ValueError(text)
    kind = call.group(1).lower()
    arguments = tuple(_arguments(call.group(2) or ""))
    if not _KINDS[kind].takes(arguments):
        raise ValueError(text)
    return ColumnSpec(kind, arguments)


def column_specs(options: Mapping[str, str]) -> dict[str, ColumnSpec]:
    """Specs by column name in lower case.

    Raises:
        ConnectorError: one cannot be understood.
    """
    specs = {}
    for name, text in options.items():
        if name.startswith(PREFIX) and not name.endswith(NULLS_SUFFIX):
            try:
                specs[name.removeprefix(PREFIX).lower()] = parse_spec(text)
            except ValueError:
                raise ConnectorError(f"option '{name}' is {text!r}", hint=f"'{name}' takes {ALLOWED}") from None
    return specs


def null_fractions(options: Mapping[str, str]) -> dict[str, float]:
    """Shares of NULL by column name in lower case.

    Raises:
        ConnectorError: one is not a number from 0 to 1.
    """
    shares = {}
    for name, text in options.items():
        if name.startswith(PREFIX) and name.endswith(NULLS_SUFFIX):
            share = _number(text)
            if share is None or not 0 <= share <= 1:
                raise ConnectorError(f"option '{name}' is {text!r}", hint=f"'{name}' takes a number from 0 to 1")
            shares[name.removeprefix(PREFIX).removesuffix(NULLS_SUFFIX).lower()] = share
    return shares


def refuse_unknown_columns(options: Mapping[str, str], columns: Sequence[Field]) -> None:
    """Raises ConnectorError for a `column.` option whose column the relation does not have."""
    known = {c.name.lower() for c in columns}
    for name in options:
        if name.startswith(PREFIX) and name.removeprefix(PREFIX).removesuffix(NULLS_SUFFIX).lower() not in known:
            names = ", ".join(c.name for c in columns)
            raise ConnectorError(f"option '{name}' names a column that is not there", hint=f"columns are {names}")


def value_sql(column: Field, spec: ColumnSpec | None, *, seed: int) -> str:
    """SQL over `id` for a column's value.

    Raises:
        ConnectorError: no value of that type can be made so.
    """
    return _KINDS[spec.kind].sql(column, spec.arguments, seed) if spec else _default(column, seed)


def with_nulls(column: Field, made: str, *, seed: int, null_fraction: float) -> str:
    """The same value, or NULL in that share of the rows."""
    if null_fraction <= 0:
        return made
    return f"CASE WHEN {fraction_of(hash_of(seed, column.name, '/null'))} >= {null_fraction!r}D THEN {made} END"


def _sequence(column: Field, _: tuple[str, ...], __: int) -> str:
    largest = _INTEGRAL_MAX.get(base_type(column))
    number = f"pmod(id, {largest}L)" if largest is not None and largest < 2**63 - 1 else "id"
    return labelled(column, number)


def _uniform(column: Field, arguments: tuple[str, ...], seed: int) -> str:
    low, high = (float(a) for a in arguments)
    hashed = hash_of(seed, column.name)
    if base_type(column) in _FRACTIONAL:
        return f"CAST({low!r}D + {fraction_of(hashed)} * {high - low!r}D AS {column.type})"
    first, last = int(low), int(high)
    return labelled(column, f"({first}L + pmod({hashed}, {last - first + 1}L))")


def _choice(column: Field, arguments: tuple[str, ...], seed: int) -> str:
    values = ", ".join(quoted_text(a) for a in arguments)
    picked = f"CAST(pmod({hash_of(seed, column.name)}, {len(arguments)}L) AS INT) + 1"
    return f"CAST(element_at(array({values}), {picked}) AS {column.type})"


def _zipf(column: Field, arguments: tuple[str, ...], seed: int) -> str:
    share = fraction_of(hash_of(seed, column.name))
    return labelled(column, zipf_rank(share, int(arguments[0]), float(arguments[1])))


def zipf_rank(share: str, size: int, skew: float) -> str:
    """SQL for a rank from 1 to `size`, given SQL for a number that is uniform in [0, 1)."""
    if skew == 1.0:
        position = f"pow({size + 1}D, {share})"
    else:
        span = float(size + 1) ** (1 - skew) - 1
        position = f"pow({share} * {span!r}D + 1D, {1 / (1 - skew)!r}D)"
    return f"least(greatest(CAST(floor({position}) AS BIGINT), 1L), {size}L)"


def _constant(column: Field, arguments: tuple[str, ...], _: int) -> str:
    return f"CAST({quoted_text(arguments[0])} AS {column.type})"


def _default(column: Field, seed: int) -> str:
    base = base_type(column)
    if base == "BOOLEAN":
        return f"(pmod({hash_of(seed, column.name)}, 2L) = 0)"
    if base in ("FLOAT", "DOUBLE"):
        return _uniform(column, ("0", "1"), seed)
    if base == "DECIMAL":
        return _uniform(column, ("0", str(_decimal_limit(column))), seed)
    if base in _INTEGRAL_MAX or base == _TEXT:
        return _uniform(column, ("0", str(_DEFAULT_VALUES - 1)), seed)
    raise ConnectorError(
        f"the generator makes no values of type {column.type} for column {column.name}",
        hint=f"'{PREFIX}{column.name}' may be choice(...) or constant(...) of texts that Spark can cast",
    )


def labelled(column: Field, number: str) -> str:
    """A number as the column's type; texts get the column's name before it."""
    if base_type(column) == _TEXT:
        return f"concat({quoted_text(column.name + '-')}, {number})"
    return f"CAST({number} AS {column.type})"


def _decimal_limit(column: Field) -> int:
    """Most that a decimal column's default goes up to: 100, or what its digits hold."""
    digits = [int(d) for d in re.findall(r"\d+", column.type)] or [10]
    whole = digits[0] - (digits[1] if len(digits) > 1 else 0)
    return int(min(_DEFAULT_VALUES, 10**whole - 1))


def base_type(column: Field) -> str:
    """A type's name without its parameters, in capitals, as in DECIMAL."""
    name = column.type.split("(", 1)[0].strip().upper()
    return _ALIASES.get(name, name)


def _arguments(text: str) -> list[str]:
    found = []
    position = 0
    while position < len(text):
        match = _ARGUMENT.match(text, position)
        if match is None:
            raise ValueError(text)
        quoted, plain = match.groups()
        found.append(quoted.replace("''", "'") if quoted is not None else plain)
        position = match.end()
    return found


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _are_bounds(arguments: tuple[str, ...]) -> bool:
    numbers = [n for n in map(_number, arguments) if n is not None]
    return len(arguments) == len(numbers) == 2 and numbers[0] <= numbers[1]


def _are_zipf(arguments: tuple[str, ...]) -> bool:
    numbers = [n for n in map(_number, arguments) if n is not None]
    return len(arguments) == len(numbers) == 2 and arguments[0].isdigit() and numbers[0] >= 1 and numbers[1] > 0


@dataclass(frozen=True, slots=True)
class _Kind:
    takes: Callable[[tuple[str, ...]], bool]
    sql: Callable[[Field, tuple[str, ...], int], str]


_KINDS = {
    "sequence": _Kind(lambda arguments: not arguments, _sequence),
    "uniform": _Kind(_are_bounds, _uniform),
    "choice": _Kind(bool, _choice),
    "zipf": _Kind(_are_zipf, _zipf),
    "constant": _Kind(lambda arguments: len(arguments) == 1, _constant),
}
