"""Code for Spark's Python workers, around a user's function or after a job; this module is sent there by value, whole.

It may use the standard library and pyarrow only. Errors leave it as one line of JSON behind `MARK` or `LIMIT_MARK`,
which `site_agent.engine.failures` finds again in what Spark makes of them.

Workers that run functions of users run nothing else: `functions.register` gives them an environment of their own, and
Spark keeps workers apart by that. So what `confined` takes from them, the spool does not lack.
"""

from __future__ import annotations

import errno
import json
import math
import os
import resource
import signal
import sys
import time
import traceback
import types
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

MARK = "selat-function-error: "
LIMIT_MARK = "selat-function-limit: "
VALUE_CHARS = 60
ARGUMENTS_CHARS = 300
MESSAGE_CHARS = 500
PROBED_ROWS = 10_000
"""So many rows of a batch that failed are tried one by one, to find which it was."""

SPOOLED = "partition BIGINT, file STRING, rows BIGINT, size_bytes BIGINT, error BIGINT"
"""The row that `spool` returns for a partition with rows; `error` is the errno of the disk's refusal, else 0."""

Module = tuple[str, str, str, str]
"""File name, text, name of the function in it, and the versioned name."""


class Limits(NamedTuple):
    """Limits of a process that runs functions of users."""

    cpu_s: int
    """CPU time of one call of a vectorised function, or of a function's calls over one batch of rows."""
    memory_bytes: int
    """Data of the process: its own, the interpreter's and the libraries' included."""
    open_files: int


_KILL_AFTER_S = 5
"""A function that does not let the interpreter run is killed so much CPU time after its limit."""

_KEPT_VARIABLES = ("HOME", "LANG", "LC_", "LD_LIBRARY_PATH", "PATH", "PYTHON", "SPARK_", "TMPDIR", "TZ")
"""Beginnings of the names of variables that functions may see."""
_HIDDEN_WORDS = ("KEY", "PASSWORD", "SECRET", "TOKEN")
"""Variables with one of these in their names they may not, however the names begin."""


class FunctionFailure(Exception):  # noqa: N818  # users read this word in Spark's text
    """What a user is to know of a failed call."""


def kept_variable(name: str) -> bool:
    """True when functions may see the variable of the environment."""
    return name.startswith(_KEPT_VARIABLES) and not any(word in name.upper() for word in _HIDDEN_WORDS)


@contextmanager
def confined(limits: Limits, module: Module) -> Iterator[None]:
    """The block has so much CPU time; from its beginning on the process has the other limits, and a bare environment.

    They protect from mistakes. Memory and files cannot be had back by whatever runs here; CPU time can.
    """
    for name in [name for name in os.environ if not kept_variable(name)]:
        del os.environ[name]
    for kind, most in (
        (resource.RLIMIT_DATA, limits.memory_bytes),
        (resource.RLIMIT_NOFILE, limits.open_files),
        (resource.RLIMIT_CORE, 0),
    ):
        hard = resource.getrlimit(kind)[1]
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(kind, (most, most))

    def too_long(number: int, frame: object) -> None:
        raise _beyond(f"{_label(module)} took more than {limits.cpu_s} s of CPU time")

    hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
    killed_at = math.ceil(time.process_time()) + limits.cpu_s + _KILL_AFTER_S
    resource.setrlimit(resource.RLIMIT_CPU, (killed_at, hard))
    signal.signal(signal.SIGPROF, too_long)
    signal.setitimer(signal.ITIMER_PROF, limits.cpu_s)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_CPU, (hard, hard))


def evaluator(
    module: Module,
    *,
    names: Sequence[str],
    returns: tuple[pa.DataType, str],
    vectorised: bool,
    limits: Limits | None = None,
) -> Callable[..., pa.Array]:
    """The function over Arrow batches: it takes the arguments' arrays and gives the results'.

    With `limits` it confines the process that runs it.
    """

    def evaluate(*arrays: pa.Array) -> pa.Array:
        with confined(limits, module) if limits is not None else nullcontext():
            function = loaded(module)
            if vectorised:
                return _whole(function, arrays, module, names, returns)
            return _by_row(function, arrays, module, names, returns)

    return evaluate


def loaded(module: Module) -> Callable[..., Any]:
    """The function; its module is run once in each worker."""
    file, source, entry, version = module
    key = f"selat_function_{version}"
    made = sys.modules.get(key)
    if made is None:
        made = types.ModuleType(key)
        made.__file__ = file
        # Modules may look themselves up while they are run (dataclasses do).
        sys.modules[key] = made
        try:
            exec(compile(source, file, "exec"), made.__dict__)
        except FunctionFailure:
            del sys.modules[key]
            raise
        except (Exception, SystemExit) as error:  # noqa: BLE001  # whatever the user's code raises
            del sys.modules[key]
            said = f"module {file} cannot be loaded{_place(error, file)}: {_said(error)}"
            raise _failure(said) from None
    function = getattr(made, entry, None)
    if not callable(function):
        raise _failure(f"module {file} has no function {entry}")
    return function  # type: ignore[no-any-return]


def _by_row(
    function: Callable[..., Any],
    arrays: Sequence[pa.Array],
    module: Module,
    names: Sequence[str],
    returns: tuple[pa.DataType, str],
) -> pa.Array:
    columns = [_values(array) for array in arrays]
    results: list[Any] = []
    try:
        for row in zip(*columns, strict=True):
            results.append(function(*row))  # noqa: PERF401  # a failure must know how far it came
    except Exception as error:  # noqa: BLE001  # whatever the user's code raises
        row = tuple(column[len(results)] for column in columns)
        raise _call_failure(error, module, names, row) from None
    try:
        return _converted(results, returns[0])
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        raise _wrong_result(results, module, names, columns, returns) from None


def _whole(
    function: Callable[..., Any],
    arrays: Sequence[pa.Array],
    module: Module,
    names: Sequence[str],
    returns: tuple[pa.DataType, str],
) -> pa.Array:
    try:
        result = function(*arrays)
    except FunctionFailure:
        # It has had its time; which row took it is not to be tried.
        raise
    except Exception as error:  # noqa: BLE001  # whatever the user's code raises
        raise _call_failure(error, module, names, _failing_row(function, arrays)) from None
    if isinstance(result, pa.ChunkedArray):
        result = result.combine_chunks()
    label = _label(module)
    if not isinstance(result, pa.Array):
        raise _failure(f"{label} returned a {type(result).__name__}, not a pyarrow.Array")
    if len(result) != len(arrays[0]):
        raise _failure(f"{label} returned {len(result)} values for {len(arrays[0])} rows")
    try:
        return result if result.type == returns[0] else result.cast(returns[0])
    except pa.ArrowException as error:
        raise _failure(f"{label} returned {result.type}, which is no {returns[1]}: {_said(error)}") from None


def _failing_row(function: Callable[..., Any], arrays: Sequence[pa.Array]) -> tuple[Any, ...] | None:
    """The first row that fails by itself; None when each passes alone."""
    for index in range(min(len(arrays[0]), PROBED_ROWS)):
        try:
            function(*(array.slice(index, 1) for array in arrays))
        except Exception:  # noqa: BLE001  # whatever the user's code raises
            return tuple(_values(array.slice(index, 1))[0] for array in arrays)
    return None


def _converted(results: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """Python values as Arrow, none of them changed: told the type, Arrow would cut 0.5 to the integer 0."""
    element = kind.value_type if pa.types.is_list(kind) else kind
    if pa.types.is_integer(element):
        return pa.array(results).cast(kind)
    return pa.array(results, type=kind)


def _values(array: pa.Array) -> list[Any]:
    """Python values; instants are aware, in UTC, and maps are dicts."""
    return array.to_pylist(maps_as_pydicts="strict")  # type: ignore[no-any-return]


def _wrong_result(
    results: Sequence[Any],
    module: Module,
    names: Sequence[str],
    columns: Sequence[Sequence[Any]],
    returns: tuple[pa.DataType, str],
) -> FunctionFailure:
    for index, result in enumerate(results):
        try:
            _converted([result], returns[0])
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            row = tuple(column[index] for column in columns)
            what = f"{_label(module)} returned {_short(result)} ({type(result).__name__}), which is no {returns[1]}"
            return _failure(f"{what}; {_arguments(names, row)}")
    return _failure(f"{_label(module)} returned values that are no {returns[1]}")


def _call_failure(
    error: Exception, module: Module, names: Sequence[str], row: tuple[Any, ...] | None
) -> FunctionFailure:
    if isinstance(error, FunctionFailure):
        return error
    told = _arguments(names, row) if row is not None else "no single row fails by itself"
    text = f"{_label(module)} failed{_place(error, module[0])}: {_said(error)}; {told}"
    return _beyond(text) if _is_limit(error) else _failure(text)


def _is_limit(error: Exception) -> bool:
    """True when the process had no more memory or files."""
    return isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno == errno.EMFILE)


def _label(module: Module) -> str:
    return f"function {module[3].rpartition('__')[0]}"


def _place(error: BaseException, file: str) -> str:
    """Where in the user's file, innermost."""
    if isinstance(error, SyntaxError) and error.filename == file:
        return f" at {file}:{error.lineno}"
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file]
    return f" at {file}:{lines[-1]}" if lines else ""


def _said(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return _cut(f"{type(error).__name__}: {text}" if text else type(error).__name__, MESSAGE_CHARS)


def _arguments(names: Sequence[str], row: Sequence[Any]) -> str:
    return _cut(
        "arguments " + ", ".join(f"{n} = {_short(v)}" for n, v in zip(names, row, strict=True)), ARGUMENTS_CHARS
    )


def _short(value: Any) -> str:
    return _cut(repr(value), VALUE_CHARS)


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else text[: length - 3] + "..."


def _failure(message: str) -> FunctionFailure:
    return FunctionFailure(MARK + json.dumps(message))


def _beyond(message: str) -> FunctionFailure:
    return FunctionFailure(LIMIT_MARK + json.dumps(message))


def spool(directory: str) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """For `mapInArrow`: write each partition's batches to a file in the directory, as an Arrow stream."""

    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        # Only there when Spark runs it.
        from pyspark import TaskContext

        task = TaskContext.get()
        assert task is not None
        said = {"partition": task.partitionId(), "file": f"{task.partitionId()}-{task.taskAttemptId()}.arrows"}
        rows = size_bytes = error = 0
        first = next(batches, None)
        if first is None:
            return
        try:
            with Path(directory, said["file"]).open("wb") as file, pa.ipc.new_stream(file, first.schema) as writer:
                for batch in chain((first,), batches):
                    writer.write_batch(batch)
                    rows += batch.num_rows
                    size_bytes += batch.nbytes
        except OSError as refused:
            error = refused.errno or 5
        yield pa.RecordBatch.from_pylist([{**said, "rows": rows, "size_bytes": size_bytes, "error": error}])

    return write


def main() -> int:
    """Load the module that standard input describes, in this process; what failed is told on standard output."""
    (file, source, entry, version), limits = json.load(sys.stdin)
    module = (file, source, entry, version)
    try:
        with confined(Limits(*limits), module) if limits else nullcontext():
            loaded(module)
    except FunctionFailure as error:
        sys.stdout.write(f"\n{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
