"""SQL for the values of a generated column, by its option `column.<name>` or a default by type."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from planner.relations.connectors.generator import COLUMN, ColumnSpec
from planner.values.literals import quoted_text
from site_agent.base.errors import ConnectorError
from site_agent.connectors.generator.sql import fraction_of, hash_of
from site_agent.engine import Field

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


def value_sql(column: Field, spec: ColumnSpec | None, *, seed: int) -> str:
    """SQL over `id` for a column's value.

    Raises:
        ConnectorError: no value of that type can be made so.
    """
    return _KINDS[spec.kind](column, spec.arguments, seed) if spec else _default(column, seed)


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
        hint=f"'{COLUMN.named(column.name)}' may be choice(...) or constant(...) of texts that Spark can cast",
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


_KINDS: Mapping[str, Callable[[Field, tuple[str, ...], int], str]] = {
    "sequence": _sequence,
    "uniform": _uniform,
    "choice": _choice,
    "zipf": _zipf,
    "constant": _constant,
}
