"""The port for plans of Spark's own clients, on the JVM that the tasks use.

Each plan has a session of its own, which goes with it: no client finds what another, or a task, has left.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from planner.connect.allowed import ANSWERED_BY_SPARK
from planner.graph.clientplan import ClientPlan
from planner.values.scans import TableScan
from site_agent.engine import AnalysisError, Field, PythonFunction, ScannedStatement
from site_agent.engine.client.plans import (
    ClientSession,
    client_rows,
    question_of,
    relation_of,
    relations_in,
    with_names,
)
from site_agent.engine.failures import SPARK_ERRORS, analysis_error, engine_error
from site_agent.engine.functions import register
from site_agent.engine.output.collect import collect
from site_agent.engine.pyworker import Limits
from site_agent.engine.sql.statements import REFUSED, Names
from site_agent.engine.sql.table_scans import table_scans, table_view
from site_agent.engine.sql.types import fields_of


class ClientPlans:
    """See `PlanEngine`.

    Args:
        session: a session of the process's JVM; only new sessions made from it are used.
        scratch: directory for results that are large.
        functions: limits of the processes that run Python functions of users; None: none may run here.
    """

    def __init__(self, session: SparkSession, *, scratch: Path, functions: Limits | None) -> None:
        self._base = session
        self._scratch = scratch
        self._functions = functions

    def plan_scans(
        self, tables: Mapping[str, Sequence[Field]], plan: ClientPlan, functions: Sequence[PythonFunction] = ()
    ) -> ScannedStatement:
        """See `PlanEngine.plan_scans`."""
        try:
            session = self._base.newSession()
            names = self._names(session, tables, functions)
            views = {name: table_view(session, name, columns) for name, columns in tables.items()}
            client = _client(session, names, plan)
            rows, roots = client.analysed(relation_of(plan.relation))
            scans: tuple[TableScan, ...] = ()
            for root in roots:
                scans += _numbered(table_scans(session, root, views), len(scans))
            return ScannedStatement(fields_of(with_names(rows).schema), scans)
        except SPARK_ERRORS as error:
            raise analysis_error(error, "") from error

    def ask_plan(
        self,
        tables: Mapping[str, Sequence[Field]],
        plan: ClientPlan,
        question: bytes,
        functions: Sequence[PythonFunction] = (),
    ) -> bytes:
        """See `PlanEngine.ask_plan`."""
        asked = question_of(question)
        if (asked.WhichOneof("analyze") or "") not in ANSWERED_BY_SPARK:
            raise AnalysisError("that is no question about a plan", condition=REFUSED, line=0, column=0, fragment="")
        try:
            session = self._base.newSession()
            names = self._names(session, tables, functions)
            for name, columns in tables.items():
                table_view(session, name, columns)
            client = _client(session, names, plan)
            for relation in relations_in(asked):
                client.check(relation)
            jvm = session._jvm.org.apache.spark
            handler = jvm.sql.connect.service.SparkConnectAnalyzeHandler(None)
            answer = handler.process(jvm.connect.proto.AnalyzePlanRequest.parseFrom(question), client.holder)
            return bytes(answer.toByteArray())
        except SPARK_ERRORS as error:
            raise analysis_error(error, "") from error

    def run_plan(self, plan: ClientPlan, job: str) -> pa.Table:
        """See `PlanEngine.run_plan`."""
        session = self._base.newSession()
        session.sparkContext.setJobGroup(job, "a plan of a client", True)
        with ExitStack() as made:
            try:
                rows = client_rows(session, plan, Names(), made, unique=False)
            except SPARK_ERRORS as error:
                raise analysis_error(error, "") from error
            return self._collected(rows)

    def stop_plan(self, job: str) -> None:
        """See `PlanEngine.stop_plan`."""
        self._base.sparkContext.cancelJobGroup(job)

    def _collected(self, rows: DataFrame) -> pa.Table:
        try:
            return collect(with_names(rows), spill=self._scratch).rename_columns(rows.columns)
        except SPARK_ERRORS as error:
            raise engine_error(error) from error

    def _names(
        self, session: SparkSession, tables: Mapping[str, Sequence[Field]], functions: Sequence[PythonFunction]
    ) -> Names:
        """Return what plans in the session may name; registers the Python functions in the session."""
        if functions and self._functions is None:
            message = "this agent runs no Python functions"
            raise AnalysisError(message, condition=REFUSED, line=0, column=0, fragment="")
        for function in functions:
            register(session, function, self._functions, with_own_name=True)
        callable_names = {name.lower() for f in functions for name in (f.name, f.versioned_name)}
        return Names(frozenset(name.lower() for name in tables), frozenset(callable_names))


def _client(session: SparkSession, names: Names, plan: ClientPlan) -> ClientSession:
    client = ClientSession(session, names)
    client.set(plan.settings)
    client.define(plan.views)
    return client


def _numbered(scans: Sequence[TableScan], first: int) -> tuple[TableScan, ...]:
    """The scans as those from number `first` on: filters name the scans that give them keys by numbers."""
    return tuple(
        replace(scan, filters=tuple(replace(found, giver=found.giver + first) for found in scan.filters))
        for scan in scans
    )
