"""The second door: the only module through which a client's plan reaches Spark.

A plan is a message of Spark Connect. Every field that is set in it must be in the table of `planner.connect.allowed`;
SQL texts in it pass the first door (`site_agent.engine.sql.statements`), and so do texts of expressions. Then Spark's
own planner makes a logical plan of it. For some relations it does so by running their input (`EAGER`): these are
checked as all others are, before anything is made of any of them.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from functools import lru_cache
from typing import Any

from google.protobuf.message import DecodeError, Message
from py4j.java_gateway import JavaObject
from pyspark.sql import DataFrame, SparkSession

from contract.client_plans import (
    eager_inputs,
    expression_texts,
    is_eager,
    named_references,
    parts,
    sql_texts,
    tables_named,
)
from planner.connect.settings import FOR_SPARK
from planner.connect.verdicts import check_plan
from planner.graph.clientplan import ClientPlan, ClientView
from planner.values.errors import PlannerError
from planner.values.literals import quoted_name
from site_agent.engine import AnalysisError
from site_agent.engine.sql import statements
from site_agent.engine.sql.statements import REFUSED, Names


class ClientSession:
    """A client's plans in one Spark session; nothing of it outlives the session.

    Args:
        session: the session that has the views of the tables.
        names: what the session has already.
    """

    def __init__(self, session: SparkSession, names: Names) -> None:
        self._session = session
        self._names = names
        jvm = session._jvm
        spark = session._jsparkSession
        self.holder = jvm.org.apache.spark.sql.connect.service.SessionHolder("selat", "client", spark)
        none = getattr(getattr(jvm.scala, "None$"), "MODULE$")
        self._planner = jvm.org.apache.spark.sql.connect.planner.SparkConnectPlanner(self.holder, none)
        self._parsed = jvm.org.apache.spark.connect.proto.Relation

    def set(self, settings: Mapping[str, str]) -> None:
        """Apply the client's settings, as far as they are Spark's to know."""
        for name, value in settings.items():
            if name in FOR_SPARK:
                self._session.conf.set(name, value)

    def define(self, views: tuple[ClientView, ...], made: ExitStack | None = None) -> None:
        """Make the views, in this order; they go with `made`.

        Raises:
            AnalysisError: a part of one is not possible.
            PySparkException: Spark refuses one.
        """
        for view in views:
            rows = self._view(view)
            rows.createOrReplaceTempView(quoted_name(view.name))
            if made is not None:
                made.callback(self._session.catalog.dropTempView, view.name)
            relations = self._names.relations | {view.name.lower()}
            self._names = Names(relations, self._names.functions)

    def rows(self, relation: Message) -> DataFrame:
        """The rows of a relation, not computed yet, but for what Spark computes to make a plan; raises as `define`."""
        self.check(relation)
        return statements.rows(self._session, self._plan(relation))

    def analysed(self, relation: Message) -> tuple[DataFrame, list[DataFrame]]:
        """The rows of a relation, and of all that Spark would have to run to know the rows; raises as `define`.

        Together they have every scan of a table that the relation makes.
        """
        self.check(relation)
        rows = statements.rows(self._session, self._plan(relation))
        inner = [statements.rows(self._session, self._plan(part)) for part in eager_inputs(relation)]
        return rows, inner if is_eager(relation) else [rows, *inner]

    def check(self, message: Message) -> None:
        """Raises AnalysisError unless every part of the message is possible."""
        try:
            check_plan(parts(message))
        except PlannerError as error:
            raise _refused(f"{error.message}: {error.hint}", error.found) from error
        for name in tables_named(message):
            if name.strip("`").lower() not in self._names.relations:
                raise _refused(f"{name} is no relation that can be read here", name)
        names = Names(self._names.relations | named_references(message), self._names.functions)
        for text in sql_texts(message):
            statements.plan(self._session, text, names)
        for text in expression_texts(message):
            statements.expression(self._session, text)

    def _view(self, view: ClientView) -> DataFrame:
        if view.sql:
            rows = statements.query(self._session, view.sql, self._names)
            return rows.toDF(*view.columns) if view.columns else rows
        return self.rows(relation_of(view.relation))

    def _plan(self, relation: Message) -> JavaObject:
        return self._planner.transformRelation(self._parsed.parseFrom(relation.SerializeToString()))


def client_rows(
    session: SparkSession, plan: ClientPlan, names: Names, made: ExitStack, *, unique: bool = True
) -> DataFrame:
    """The rows of a client's plan over what the session has; its views go with `made`.

    With `unique`, columns of equal names get others, as Selat's channels have a name once.
    """
    client = ClientSession(session, names)
    client.set(plan.settings)
    client.define(plan.views, made)
    rows = client.rows(relation_of(plan.relation))
    return with_names(rows) if unique else rows


def with_names(rows: DataFrame) -> DataFrame:
    """The rows under names that are not equal: their own, or `c0`, `c1` and so on."""
    names = [name.lower() for name in rows.columns]
    return rows if len(set(names)) == len(names) else rows.toDF(*(f"c{number}" for number in range(len(names))))


def relation_of(text: str) -> Message:
    """The `spark.connect.Relation` in a text of base64. Raises AnalysisError."""
    return message_of(_protocol().Relation, base64.b64decode(text))


def message_of(kind: Any, data: bytes) -> Message:
    """The message in its serialized form. Raises AnalysisError when it is none, or nested too deeply."""
    try:
        found: Message = kind.FromString(data)
    except DecodeError as error:
        raise _refused(f"the plan cannot be read: {error}", "") from error
    return found


def question_of(data: bytes) -> Message:
    """The `spark.connect.AnalyzePlanRequest` in its serialized form. Raises AnalysisError."""
    return message_of(_protocol().AnalyzePlanRequest, data)


def relations_in(question: Message) -> Iterator[Message]:
    """The plans that a question is about."""
    kind = question.WhichOneof("analyze") or ""
    asked = getattr(question, kind) if kind else None
    for name in ("plan", "target_plan", "other_plan"):
        if asked is not None and name in asked.DESCRIPTOR.fields_by_name and asked.HasField(name):
            plan = getattr(asked, name)
            if plan.WhichOneof("op_type") != "root":
                raise _refused("only plans of relations can be asked about", name)
            yield plan.root
    if asked is not None and "relation" in asked.DESCRIPTOR.fields_by_name and asked.HasField("relation"):
        yield asked.relation


@lru_cache(maxsize=1)
def _protocol() -> Any:
    """The protocol's classes. Loaded when the first client comes: most agents never need them."""
    from pyspark.sql.connect import proto

    return proto


def _refused(message: str, fragment: str) -> AnalysisError:
    return AnalysisError(message, condition=REFUSED, line=0, column=0, fragment=fragment)
