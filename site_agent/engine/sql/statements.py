"""The door: the only module through which SQL text reaches Spark.

Spark executes a command (INSERT OVERWRITE DIRECTORY, ADD JAR, SET) as soon as `spark.sql` sees it, and a query can run
a program (TRANSFORM) or call Java (reflect). So Spark's own parser, which runs nothing, reads the text first; no other
parser's reading matters. Every part of the plan that it returns must be in the tables, and Spark then runs that plan,
not the text.

Tables: `planner.functions.table` for functions, `site_agent.engine.sql.plan_table` for everything else.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from py4j.java_gateway import JavaObject
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf

from planner.functions.table import NAMES, REASONS
from planner.values.literals import quoted_name
from site_agent.engine import AnalysisError, Field
from site_agent.engine.sql.java import helper
from site_agent.engine.sql.plan_table import FUNCTIONS, OPTIONS, PARTS, QUERIES, RELATION, WITH_ENTRY
from site_agent.engine.sql.types import type_name, type_of

REFUSED = "REFUSED_SQL"
"""The condition of errors raised here, in addition to Spark's conditions."""

_KEPT = 1000
_ACCEPTED: set[str] = set()
"""Expressions that were checked: a generator has the same ones in each epoch."""


@dataclass(frozen=True, slots=True)
class Names:
    """The names that a text may use, in lower case."""

    relations: frozenset[str] = frozenset()
    functions: frozenset[str] = frozenset()
    """Python functions; Spark's own are in the planner's table."""


@dataclass(frozen=True, slots=True)
class _Part:
    """A part of a plan; line and column count from 1 (0: unknown)."""

    kind: str
    line: int
    column: int
    texts: tuple[str, ...]

    @property
    def name(self) -> str:
        return ".".join(self.texts)


def query(session: SparkSession, text: str, names: Names) -> DataFrame:
    """The rows of one query, not computed yet.

    Raises:
        AnalysisError: it is not one query of parts that are possible.
        PySparkException: Spark refuses it.
    """
    return rows(session, plan(session, text, names))


def plan(session: SparkSession, text: str, names: Names) -> JavaObject:
    """The checked plan of a text, which `rows` can run any number of times. Raises as `query` does."""
    found = _parser(session).parsePlan(text)
    _check(session, found, names)
    return found


def rows(session: SparkSession, checked: JavaObject) -> DataFrame:
    """The rows of a checked plan over the present views; raises PySparkException when Spark refuses it."""
    made = session._jvm.org.apache.spark.sql.classic.Dataset.ofRows(session._jsparkSession, checked)
    return DataFrame(made, session)


def expression(session: SparkSession, text: str) -> Column:
    """One expression over columns; raises as `query` does."""
    if text not in _ACCEPTED:
        _check(session, _parser(session).parseExpression(text), Names(), PARTS - QUERIES)
        if len(_ACCEPTED) >= _KEPT:
            _ACCEPTED.clear()
        _ACCEPTED.add(text)
    return sf.expr(text)


def empty_view(session: SparkSession, name: str, columns: Sequence[Field]) -> None:
    """Make a view without rows; raises as `query` does."""
    picked = ", ".join(f"CAST(NULL AS {_type(c.type)}) AS {quoted_name(c.name)}" for c in columns)
    query(session, f"SELECT {picked} WHERE false", Names()).createOrReplaceTempView(quoted_name(name))


def define_function(session: SparkSession, name: str, python: str, parameters: Sequence[Field], returns: str) -> None:
    """Make a temporary SQL function that calls a registered Python function with converted arguments."""
    # The parameters' own names would be in reach of the SQL function's body only, where they are not needed.
    places = [f"p{index}" for index in range(len(parameters))]
    typed = ", ".join(f"{place} {_type(p.type)}" for place, p in zip(places, parameters, strict=True))
    session.sql(
        f"CREATE OR REPLACE TEMPORARY FUNCTION {quoted_name(name)}({typed}) RETURNS {_type(returns)} "
        f"RETURN {quoted_name(python)}({', '.join(places)})"
    )


def _type(text: str) -> str:
    """The name of the type that Spark reads in the text, without anything else that the text contains."""
    return type_name(type_of(text))


def _parser(session: SparkSession) -> JavaObject:
    return session._jsparkSession.sessionState().sqlParser()


def _check(session: SparkSession, tree: JavaObject, names: Names, possible: Collection[str] = PARTS) -> None:
    parts = list(_parts(session, tree))
    relations = {*names.relations, *(part.texts[0].lower() for part in parts if part.kind == WITH_ENTRY and part.texts)}
    line = column = 0
    for part in parts:
        line, column = (part.line, part.column) if part.line else (line, column)
        refused = _refused(part, relations, names.functions, possible)
        if refused is not None:
            found = part.name if part.kind == RELATION or part.kind in FUNCTIONS else ""
            raise AnalysisError(refused, condition=REFUSED, line=line, column=column, fragment=found)


def _refused(
    part: _Part, relations: Collection[str], functions: Collection[str], possible: Collection[str]
) -> str | None:
    """The reason why a part is refused; None when it is allowed."""
    if part.kind in FUNCTIONS:
        name = part.name.lower()
        if len(part.texts) == 1 and (name in NAMES or name in functions):
            return None
        reason = REASONS.get(name, "it is not a function that a query may call")
        return f"{part.name} cannot be called: {reason}"
    if part.kind == RELATION:
        known = len(part.texts) == 1 and part.name.lower() in relations
        return None if known else f"{part.name} is no relation that can be read here"
    if part.kind == OPTIONS and not part.texts:
        return None
    if part.kind not in possible:
        return f"{part.kind.rpartition('.')[2].rstrip('$')} is not possible"
    return None


def _parts(session: SparkSession, tree: JavaObject) -> Iterator[_Part]:
    for kind, line, column, texts in json.loads(helper(session.sparkContext._gateway, "PlanParts").apply(tree)):
        yield _Part(kind, line, column, tuple(texts))
