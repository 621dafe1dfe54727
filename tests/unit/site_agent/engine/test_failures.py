from __future__ import annotations

import pytest
from py4j.protocol import Py4JNetworkError
from pyspark.errors import PySparkException

from site_agent.engine.failures import (
    Sentence,
    analysis_error,
    engine_error,
    first_sentence,
    out_of_memory,
    whole_message,
)


@pytest.mark.parametrize(
    ("message", "text", "condition"),
    [
        (
            "[DIVIDE_BY_ZERO] Division by zero. Use `try_divide` to tolerate it. SQLSTATE: 22012\n== SQL ==\n1/0",
            "Division by zero.",
            "DIVIDE_BY_ZERO",
        ),
        (
            "[FAILED_READ_FILE.NO_HINT] Encountered error while reading file file:///a.csv. SQLSTATE: KD001",
            "Encountered error while reading file file:///a.csv.",
            "FAILED_READ_FILE.NO_HINT",
        ),
        ("plain text\nat java.lang.Thread", "plain text", ""),
        ("Unexpected end (start marker at [Source: REDACTED])", "Unexpected end", ""),
        ("", "", ""),
    ],
)
def test_first_sentence(message: str, text: str, condition: str) -> None:
    assert first_sentence(message) == Sentence(text, condition)


def test_whole_message_keeps_the_advice() -> None:
    message = "[X.Y] It is wrong. Did you mean `a`? SQLSTATE: 42703; line 1 pos 7;\n'Project ['x]\n+- Relation"
    assert whole_message(message) == Sentence("It is wrong. Did you mean `a`?", "X.Y")


def test_a_lost_jvm_is_said_so() -> None:
    for lost in (Py4JNetworkError("Answer from Java side is empty"), ConnectionRefusedError(111, "refused")):
        error = engine_error(lost, "q.s.us")
        assert (error.message, error.ids) == ("the connection to Spark's JVM is lost", {"task": "q.s.us"})
        assert error.hint


class Thrown:
    """A Java exception."""

    def __init__(self, name: str, cause: Thrown | None = None) -> None:
        self.name = name
        self.cause = cause

    def getClass(self) -> Thrown:
        return self

    def getName(self) -> str:
        return self.name

    def getMessage(self) -> str | None:
        return None

    def getCause(self) -> Thrown | None:
        return self.cause


def spark_error(*names: str) -> Exception:
    """With these Java classes as its causes, outermost first."""
    thrown = None
    for name in reversed(names):
        thrown = Thrown(name, thrown)
    error: Exception = PySparkException("Job aborted")
    error.__dict__["_origin"] = thrown
    return error


def test_a_stack_that_overflowed_is_said_with_what_would_be_right() -> None:
    error = engine_error(spark_error("org.apache.spark.SparkException", "java.lang.StackOverflowError"), "t")
    assert (error.message, error.ids) == ("Spark's stack overflowed", {"task": "t"})
    assert "less deeply" in error.hint


def test_a_heap_that_is_too_small_is_told_from_a_task_that_keeps_to_its_share() -> None:
    assert out_of_memory(spark_error("org.apache.spark.SparkException", "java.lang.OutOfMemoryError"))
    assert not out_of_memory(spark_error("org.apache.spark.memory.SparkOutOfMemoryError"))
    assert not out_of_memory(Py4JNetworkError("gone"))


def test_errors_of_ours_are_said_as_they_are() -> None:
    assert engine_error(FileNotFoundError(2, "No such file", "/a"), "t").message == "[Errno 2] No such file: '/a'"


def test_a_place_in_the_text_counts_from_one() -> None:
    error = analysis_error(ValueError("[PARSE] Syntax error at 'x'. SQLSTATE: 42601 (line 2, pos 0)"), "SELECT\nx")
    assert (error.message, error.condition) == ("Syntax error at 'x'.", "PARSE")
    assert (error.line, error.column) == (2, 1)
