"""Python functions of users in a Spark session.

A function is two: the Python one, which Spark runs on Arrow batches in its Python workers, and a SQL function around it
that has the declared parameters. So Spark itself checks number and types of the arguments, and converts them.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from datetime import timedelta

from py4j.java_gateway import JavaObject
from pyspark import cloudpickle
from pyspark.core.rdd import _prepare_for_python_RDD
from pyspark.sql import SparkSession
from pyspark.sql.functions import arrow_udf
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import DataType
from pyspark.sql.udf import UserDefinedFunction

from site_agent.engine import AnalysisError, PythonFunction, pyworker
from site_agent.engine.failures import FUNCTION_FAILURE
from site_agent.engine.pyworker import Limits
from site_agent.engine.sql.statements import define_function
from site_agent.engine.sql.types import type_of

# Executors of a cluster have Spark and Arrow, but need not have this package.
cloudpickle.register_pickle_by_value(pyworker)

DEFAULT_LIMITS = Limits(cpu_s=60, memory_bytes=1024 * 1024 * 1024, open_files=64)

# Arrow's own allocator reserves a gigabyte at its first use, which would count as the function's.
_ENVIRONMENT = {"SELAT_FUNCTIONS": "1", "ARROW_DEFAULT_MEMORY_POOL": "system"}

LOAD_TIMEOUT = timedelta(seconds=20)
"""The master waits somewhat longer for the answer."""


def register(
    session: SparkSession, function: PythonFunction, limits: Limits | None, *, with_own_name: bool = False
) -> None:
    """Make a function known by its version, for analysis also by its own name.

    Raises:
        AnalysisError: its own name is that of a function of Spark.
    """
    python = f"{function.versioned_name}__python"
    returns = type_of(function.returns)
    made = arrow_udf(_evaluator(function, returns, limits), returns)._unwrapped
    session._jsparkSession.udf().registerPython(python, _in_workers_of_their_own(session, python, made))
    names = [function.versioned_name]
    if with_own_name:
        check_free(session, function.name)
        names.append(function.name)
    for name in names:
        define_function(session, name, python, function.parameters, function.returns)


def _in_workers_of_their_own(session: SparkSession, name: str, made: UserDefinedFunction) -> JavaObject:
    """The function for the JVM, as `UserDefinedFunction._create_judf` makes it, but with another environment.

    Spark keeps workers of different environments apart: those that run functions, and are confined, are never taken
    for the spool. Variables of the agent are emptied, for a worker gets those of the JVM besides.
    """
    context = session.sparkContext
    command, broadcasts, environment, includes = _prepare_for_python_RDD(context, (made.func, made.returnType))
    hidden = {name: "" for name in os.environ if not pyworker.kept_variable(name)}
    jvm = context._jvm
    assert jvm is not None
    function = jvm.SimplePythonFunction(
        bytearray(command),
        {**hidden, **environment, **_ENVIRONMENT},
        includes,
        context.pythonExec,
        context.pythonVer,
        broadcasts,
        context._javaAccumulator,
    )
    returns = session._jsparkSession.parseDataType(made.returnType.json())
    kind = getattr(jvm, "org.apache.spark.sql.execution.python.UserDefinedPythonFunction")
    return kind(name, function, returns, made.evalType, made.deterministic, [], [])


def load(session: SparkSession, functions: Sequence[PythonFunction], limits: Limits | None) -> None:
    """Load modules, each in a process of its own with the agent's interpreter.

    Raises:
        AnalysisError: a name is taken by Spark, or a module cannot be loaded, or takes longer than `LOAD_TIMEOUT`.
    """
    for function in functions:
        check_free(session, function.name)
        load_alone(_module(function), limits, LOAD_TIMEOUT)


def load_alone(module: pyworker.Module, limits: Limits | None, timeout: timedelta) -> None:
    """Load one module in a process of its own, which can be ended whatever the module does."""
    # -P: what lies beside the script must not be taken for modules of the standard library.
    command = [sys.executable, "-P", pyworker.__file__]
    try:
        ended = subprocess.run(
            command,
            input=json.dumps((module, limits)),
            env={n: value for n, value in os.environ.items() if pyworker.kept_variable(n)} | _ENVIRONMENT,
            capture_output=True,
            text=True,
            timeout=timeout.total_seconds(),
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise _refused(f"module {module[0]} is not loaded after {timeout.total_seconds():g} s") from error
    if ended.returncode:
        failure = FUNCTION_FAILURE.search(ended.stdout)
        said = json.loads(failure.group(2)) if failure else f"the process ended with {ended.returncode}"
        raise _refused(said if failure else f"module {module[0]} cannot be loaded: {said}")


def _refused(message: str) -> AnalysisError:
    return AnalysisError(message, condition="", line=0, column=0, fragment="")


def check_free(session: SparkSession, name: str) -> None:
    """Raises AnalysisError when Spark has a function of the name."""
    if session.catalog.functionExists(name):
        raise AnalysisError(
            f"Spark has a function {name} already", condition="ROUTINE_ALREADY_EXISTS", line=0, column=0, fragment=name
        )


def _evaluator(function: PythonFunction, returns: DataType, limits: Limits | None) -> object:
    names = tuple(p.name for p in function.parameters)
    arrow_type = to_arrow_type(returns, timezone="UTC")
    return pyworker.evaluator(
        _module(function),
        names=names,
        returns=(arrow_type, function.returns),
        vectorised=function.vectorised,
        limits=limits,
    )


def _module(function: PythonFunction) -> pyworker.Module:
    return function.file, function.source, function.entry, function.versioned_name
