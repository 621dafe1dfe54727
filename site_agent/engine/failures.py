"""Spark's errors in one sentence, without stacks."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
from py4j.java_gateway import JavaObject
from py4j.protocol import Py4JError, Py4JJavaError, Py4JNetworkError
from pyspark.errors import AnalysisException, ParseException, PySparkException

from site_agent.base.errors import EngineError, FunctionError, FunctionLimitError
from site_agent.engine import AnalysisError
from site_agent.engine.pyworker import LIMIT_MARK, MARK

SPARK_ERRORS = (PySparkException, Py4JError, OSError, pa.ArrowException)
"""What a call into Spark may raise, a lost JVM included."""

_PREFIX = re.compile(r"^\s*\[([A-Z][A-Z0-9_.]+)\]\s*")
_TAIL = re.compile(
    r"\s*(SQLSTATE: \w+|; line \d+ pos \d+|\(line \d+, pos \d+\)|\(start marker at|\n|== SQL)", re.DOTALL
)
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[A-Z])")
_PLACE = re.compile(r"line (\d+),? pos (\d+)")
_MAX_DEPTH = 12
STACK_OVERFLOW = "java.lang.StackOverflowError"
_STACK_HINT = "nest expressions less deeply; a pattern as (a|b)* takes stack for each character, [ab]* does not"
FUNCTION_FAILURE = re.compile(f"({re.escape(MARK)}|{re.escape(LIMIT_MARK)})" + r'("(?:[^"\\]|\\.)*")')
"""The mark, and the message as JSON."""
LIMIT_HINT = "let it do less for each row, or start the agent with other --function-... limits"


@dataclass(frozen=True, slots=True)
class Sentence:
    """What Spark says first, and under which condition it lists the error (may be empty)."""

    text: str
    condition: str


def first_sentence(message: str) -> Sentence:
    """Take apart a message of Spark: condition, first sentence; no SQL state, place or plan."""
    prefix = _PREFIX.match(message)
    body = message[prefix.end() :] if prefix else message.lstrip()
    body = _TAIL.split(body, maxsplit=1)[0]
    return Sentence(_SENTENCE_END.split(body, maxsplit=1)[0].strip(), prefix.group(1) if prefix else "")


def whole_message(message: str) -> Sentence:
    """Like `first_sentence`, with all that Spark says before SQL state, place and plan."""
    prefix = _PREFIX.match(message)
    body = message[prefix.end() :] if prefix else message.lstrip()
    return Sentence(_TAIL.split(body, maxsplit=1)[0].strip(), prefix.group(1) if prefix else "")


def engine_error(error: Exception, task_id: str = "") -> EngineError:
    """What to raise for an error of Spark in an epoch of a task, or outside of one."""
    ids = {"task": task_id} if task_id else {}
    failure = next((found for message in _messages(error) if (found := FUNCTION_FAILURE.search(message))), None)
    if failure is not None:
        message = json.loads(failure.group(2))
        if failure.group(1) == LIMIT_MARK:
            return FunctionLimitError(message, hint=LIMIT_HINT, ids=ids)
        return FunctionError(message, ids=ids)
    if isinstance(error, Py4JNetworkError | ConnectionError):
        return EngineError("the connection to Spark's JVM is lost", hint="restart the site agent", ids=ids)
    if STACK_OVERFLOW in _classes(error):
        return EngineError("Spark's stack overflowed", hint=_STACK_HINT, ids=ids)
    sentences = _distinct([first_sentence(m) for m in _messages(error)])
    told = [s for s in sentences if s.condition] or sentences[:1]
    text = ": ".join(s.text.rstrip(".") for s in (*told, *_root_cause(sentences, told)))
    condition = told[-1].condition if told else ""
    return EngineError(f"{text} [{condition}]" if condition else text, ids=ids)


def out_of_memory(error: Exception) -> bool:
    """Whether the JVM's heap was too small. (Spark's own error of that name says that a task kept to its share.)"""
    return "java.lang.OutOfMemoryError" in _classes(error)


def result_too_large(error: Exception) -> bool:
    """True when the driver refused to collect the result because of its size; Spark then ends the job."""
    return any("spark.driver.maxResultSize" in message for message in _messages(error))


def analysis_error(error: Exception, statement: str) -> AnalysisError:
    """What to raise for a statement that Spark refuses."""
    said = whole_message(_text(error))
    start, fragment = _context(error)
    if start is not None and 0 <= start < len(statement):
        line, column = _place_of(statement, start)
    else:
        line, column = _place_in_text(_text(error))
    return AnalysisError(said.text, condition=said.condition, line=line, column=column, fragment=fragment)


def _root_cause(sentences: list[Sentence], told: list[Sentence]) -> list[Sentence]:
    """The innermost reason, when it says something that the listed errors do not."""
    last = sentences[-1:]
    return [s for s in last if s.text and s not in told and not s.condition]


def _distinct(sentences: list[Sentence]) -> list[Sentence]:
    kept: list[Sentence] = []
    for sentence in sentences:
        if sentence.text and not any(sentence.text in k.text for k in kept):
            kept.append(sentence)
    return kept


def _messages(error: Exception) -> Iterator[str]:
    """Messages of the error and its causes, outermost first."""
    if _thrown(error) is None:
        yield _text(error)
    for thrown in _causes(error):
        message = thrown.getMessage()
        if message:
            yield str(message)


def _classes(error: Exception) -> list[str]:
    """Java classes of the error and its causes."""
    return [str(thrown.getClass().getName()) for thrown in _causes(error)]


def _causes(error: Exception) -> Iterator[JavaObject]:
    """The error itself first."""
    thrown = _thrown(error)
    for _ in range(_MAX_DEPTH):
        if thrown is None:
            return
        yield thrown
        thrown = thrown.getCause()


def _thrown(error: Exception) -> JavaObject | None:
    if isinstance(error, Py4JJavaError):
        return error.java_exception
    return getattr(error, "_origin", None)


def _text(error: Exception) -> str:
    if isinstance(error, Py4JJavaError):
        return str(error.java_exception.getMessage() or error.java_exception.getClass().getName())
    if isinstance(error, PySparkException):
        return str(getattr(error, "_desc", None) or error.getMessage() or error)
    return str(error)


def _context(error: Exception) -> tuple[int | None, str]:
    """Where in the statement, counted from 0, and the text there."""
    if not isinstance(error, AnalysisException | ParseException):
        return None, ""
    for context in error.getQueryContext():
        if context.contextType().name == "SQL" and not context.objectType():
            return context.startIndex(), context.fragment()
    return None, ""


def _place_of(statement: str, index: int) -> tuple[int, int]:
    before = statement[:index]
    return before.count("\n") + 1, index - (before.rfind("\n") + 1) + 1


def _place_in_text(text: str) -> tuple[int, int]:
    found = _PLACE.search(text)
    return (int(found.group(1)), int(found.group(2)) + 1) if found else (0, 0)
