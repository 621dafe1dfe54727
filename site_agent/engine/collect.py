"""A DataFrame's rows as Arrow, from a Spark that may die on the way.

Rows come over a socket from a thread of the JVM, and PySpark's `toArrow` then waits until that thread says how it
ended. It does after an exception. What Scala calls fatal (a stack overflow, a class that cannot be linked, an
interrupt) ends the thread without a word, and the wait would never end. So a plan is made before the rows are asked
for, in a call that answers with whatever it threw, and the wait for the thread's last word is bounded.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from py4j.java_gateway import JavaObject
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.sql import DataFrame
from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame

LAST_WORD_S = 30.0
"""The socket is closed by then: a thread that lives has nothing to do but to say so. And a JVM that ends because that
thread had no more heap has ended, and the agent with it (`lifeline`), before the epoch would count as failed."""


def collect(rows: DataFrame, *, last_word_s: float = LAST_WORD_S) -> pa.Table:
    """All rows; waits for Spark's job as long as it runs.

    Raises:
        PySparkException, Py4JError, OSError, ArrowException: Spark failed, or died while it sent the rows.
    """
    rows._jdf.queryExecution().executedPlan()
    session = rows.sparkSession
    limit = session._jvm.scala.concurrent.duration.Duration.create(int(last_word_s * 1e3), "milliseconds")
    return ClassicDataFrame(_Dataset(rows._jdf, limit), session).toArrow()


class _Dataset:
    """A Java Dataset, but for how long the thread that sends its rows is waited for."""

    def __init__(self, inner: JavaObject, limit: JavaObject) -> None:
        self._inner = inner
        self._limit = limit

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def collectAsArrowToPython(self) -> tuple[int, str, _Sender]:  # noqa: N802 - Spark's name
        port, secret, sender = self._inner.collectAsArrowToPython()
        return port, secret, _Sender(sender, self._limit)


class _Sender:
    """The thread that sends the rows."""

    def __init__(self, inner: JavaObject, limit: JavaObject) -> None:
        self._inner = inner
        self._limit = limit

    def getResult(self) -> None:  # noqa: N802 - Spark's name
        """Raises how it ended."""
        try:
            self._inner.getResult(self._limit)
        except Py4JJavaError as error:
            if error.java_exception.getClass().getName() != "java.util.concurrent.TimeoutException":
                raise
            raise Py4JError("a thread of Spark's died while it sent the rows; spark.log says of what") from None
