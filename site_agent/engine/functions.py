"""Python functions of users in a Spark session.

A function is two: the Python one, which Spark runs on Arrow batches in its Python workers, and a SQL function around it
that has the declared parameters. So Spark itself checks number and types of the arguments, and converts them.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from datetime import timedelta

from pyspark import cloudpickle
from pyspark.sql import SparkSession
from pyspark.sql.functions import arrow_udf
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import DataType

from site_agent.engine import AnalysisError, PythonFunction, pyworker
from site_agent.engine.failures import FUNCTION_FAILURE
from site_agent.engine.statements import define_function
from site_agent.engine.types import type_of

# Executors of a cluster have Spark and Arrow, but need not have this package.
cloudpickle.register_pickle_by_value(pyworker)

LOAD_TIMEOUT = timedelta(seconds=20)
"""The master waits somewhat longer for the answer."""


def register(session: SparkSession, function: PythonFunction, *, with_own_name: bool = False) -> None:
    """Make a function known by its version, for analysis also by its own name.

    Raises:
        AnalysisError: its own name is that of a function of Spark.
    """
    python = f"{function.versioned_name}__python"
    returns = type_of(function.returns)
    session.udf.register(python, arrow_udf(_evaluator(function, returns), returns))
    names = [function.versioned_name]
    if with_own_name:
        check_free(session, function.name)
        names.append(function.name)
    for name in names:
        define_function(session, name, python, function.parameters, function.returns)


def load(session: SparkSession, functions: Sequence[PythonFunction], *, timeout: timedelta = LOAD_TIMEOUT) -> None:
    """Load modules, each in a process of its own with the agent's interpreter.

    Raises:
        AnalysisError: a name is taken by Spark, or a module cannot be loaded, or takes longer than `timeout`.
    """
    for function in functions:
        check_free(session, function.name)
        load_alone(_module(function), timeout)


def load_alone(module: pyworker.Module, timeout: timedelta) -> None:
    """Load one module in a process of its own, which can be ended whatever the module does."""
    # -P: what lies beside the script must not be taken for modules of the standard library.
    command = [sys.executable, "-P", pyworker.__file__]
    try:
        ended = subprocess.run(
            command,
            input=json.dumps(module),
            capture_output=True,
            text=True,
            timeout=timeout.total_seconds(),
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise _refused(f"module {module[0]} is not loaded after {timeout.total_seconds():g} s") from error
    if ended.returncode:
        failure = FUNCTION_FAILURE.search(ended.stdout)
        said = json.loads(failure.group(1)) if failure else f"the process ended with {ended.returncode}"
        raise _refused(said if failure else f"module {module[0]} cannot be loaded: {said}")


def _refused(message: str) -> AnalysisError:
    return AnalysisError(message, condition="", line=0, column=0, fragment="")


def check_free(session: SparkSession, name: str) -> None:
    """Raises AnalysisError when Spark has a function of the name."""
    if session.catalog.functionExists(name):
        raise AnalysisError(
            f"Spark has a function {name} already", condition="ROUTINE_ALREADY_EXISTS", line=0, column=0, fragment=name
        )


def _evaluator(function: PythonFunction, returns: DataType) -> object:
    names = tuple(p.name for p in function.parameters)
    arrow_type = to_arrow_type(returns, timezone="UTC")
    return pyworker.evaluator(
        _module(function), names=names, returns=(arrow_type, function.returns), vectorised=function.vectorised
    )


def _module(function: PythonFunction) -> pyworker.Module:
    return function.file, function.source, function.entry, function.versioned_name
