"""Spark sessions made before they are asked for.

A new session shares the JVM, and has a configuration, views and functions of its own. It makes its parser, analyzer and
planner when it runs its first statement: here that has happened. Each session is given out once and never comes back,
so nothing of one task can reach another.
"""

from __future__ import annotations

import logging
import math
import time
from collections import deque
from threading import Condition, Thread

from pyspark.sql import SparkSession

from site_agent.engine.failures import SPARK_ERRORS

logger = logging.getLogger(__name__)

KEPT = 4
"""The tasks of a query at the sites of one process, in most cases; a session takes half a megabyte of the heap."""
REST_S = 0.5
"""So long after the last one was taken others are made: the tasks that took them run their first epochs meanwhile."""

LAST_S = 5.0
"""So long an end waits for a session that is being made."""


def new_session(base: SparkSession) -> SparkSession:
    """A session that has run a statement; its settings are those of the JVM.

    Raises:
        PySparkException, Py4JError: Spark failed.
    """
    session: SparkSession = base.newSession()
    session.sql("SELECT 1 AS one").toArrow()
    return session


class Sessions:
    """Sessions of one JVM; several engines may share it. Safe to use from several threads.

    Args:
        base: A session of the JVM, never given out itself.
        kept: How many wait to be taken; 0: each is made when it is asked for.
        rest_s: So long after the last one was taken others are made.
    """

    def __init__(self, base: SparkSession, *, kept: int = 0, rest_s: float = REST_S) -> None:
        self._base = base
        self._kept = kept
        self._rest_s = rest_s
        self._ready: deque[SparkSession] = deque()
        self._changed = Condition()
        self._closed = False
        self._taken_s = -math.inf
        self._thread: Thread | None = None

    @property
    def ready(self) -> int:
        """How many wait to be taken."""
        return len(self._ready)

    def take(self) -> SparkSession:
        """A session for one task, which nobody else has had."""
        with self._changed:
            prepared = self._ready.popleft() if self._ready else None
            self._taken_s = time.monotonic()
            self._changed.notify_all()
        return self._base.newSession() if prepared is None else prepared

    def start(self) -> None:
        """Begin to make sessions, in a thread, until closed."""
        if self._kept and self._thread is None:
            self._thread = Thread(target=self._run, name="spark-sessions", daemon=True)
            self._thread.start()

    def close(self) -> None:
        """Make no more. One that is being made is waited for, but not for ever: a cluster may have no executors now."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join(LAST_S)
        self._ready.clear()

    def _run(self) -> None:
        while self._wanted():
            try:
                session = new_session(self._base)
            except SPARK_ERRORS as error:
                # Who needs a session will make one, and say what is wrong.
                logger.warning("no session was prepared: %s", error)
                return
            with self._changed:
                self._ready.append(session)

    def _wanted(self) -> bool:
        """Wait until a session is to be made; False: no more."""
        with self._changed:
            while not self._closed:
                rest_s = self._taken_s + self._rest_s - time.monotonic()
                missing = len(self._ready) < self._kept
                if missing and rest_s <= 0:
                    return True
                self._changed.wait(rest_s if missing else None)
            return False
