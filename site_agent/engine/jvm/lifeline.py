"""An agent lives as long as its JVM.

Without one it can do nothing, and threads that wait for an answer of the JVM would wait for ever. Its data are made for
being killed at any moment, so it ends at once; whoever supervises it starts it anew.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable
from subprocess import Popen

from pyspark.sql import SparkSession

from planner.failures.crashes import Ending

logger = logging.getLogger(__name__)

EXIT_CODE = 70
"""Of an agent whose JVM has ended (EX_SOFTWARE of sysexits.h)."""
_NO_HEAP = (52, 3)
"""Exit codes of a JVM without heap: Spark's, and that of `-XX:+ExitOnOutOfMemoryError`."""
_KILLED = (-9, -15, 137, 143)
"""Of one that was killed, from outside as far as it knows."""


class Lifeline:
    """Ends this process when the session's JVM has ended, until it is cut.

    Args:
        session: Of the JVM.
        told: Hears how this process is about to end.
    """

    def __init__(self, session: SparkSession, told: Callable[[Ending], None]) -> None:
        self._told = told
        process = session.sparkContext._gateway.proc
        self._cut = threading.Event()
        threading.Thread(target=self._follow, args=(process,), name="lifeline", daemon=True).start()

    def cut(self) -> None:
        """The JVM may end from now on."""
        self._cut.set()

    def give_up(self) -> None:
        """End this process although its JVM goes on: a task had no more heap, and nobody knows who else had none."""
        logger.error("a task ran out of the JVM's heap (see --driver-memory and spark.log); the agent ends")
        self._told(Ending.HEAP)
        os._exit(EXIT_CODE)

    def _follow(self, process: Popen[bytes]) -> None:
        code = process.wait()
        if not self._cut.is_set():
            logger.error("Spark's JVM has ended with code %d (see jvm.out and spark.log); so does the agent", code)
            self._told(ending_of(code))
            os._exit(EXIT_CODE)


def ending_of(code: int) -> Ending:
    """What the exit code of a JVM says (negative: the signal that ended it)."""
    if code in _NO_HEAP:
        return Ending.HEAP
    return Ending.SILENT if code in _KILLED else Ending.JVM


def exit_on_fatal_errors(session: SparkSession) -> None:
    """Have the JVM end when one of its threads runs out of memory: the thread's work would be waited for for ever."""
    jvm = session.sparkContext._jvm
    assert jvm is not None, "the session was just started"
    handler = jvm.org.apache.spark.util.SparkUncaughtExceptionHandler(False)
    jvm.java.lang.Thread.setDefaultUncaughtExceptionHandler(handler)
