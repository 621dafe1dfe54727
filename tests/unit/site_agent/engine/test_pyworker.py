"""What runs around a user's function, called here as Spark calls it."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest

from site_agent.engine import AnalysisError
from site_agent.engine.functions import DEFAULT_LIMITS as LIMITS
from site_agent.engine.functions import load_alone
from site_agent.engine.pyworker import MARK, VALUE_CHARS, FunctionFailure, Limits, Module, evaluator, loaded

TYPES = {"BIGINT": pa.int64(), "STRING": pa.string(), "TIMESTAMP": pa.timestamp("us", "UTC")}
VERSIONS = "selat_function_f__test"


@pytest.fixture(autouse=True)
def forget() -> Iterator[None]:
    yield
    for name in [name for name in sys.modules if name.startswith(VERSIONS)]:
        del sys.modules[name]


def module(source: str) -> Module:
    return ("m.py", source, "f", f"f__test{abs(hash(source))}")


def run(source: str, *columns: pa.Array, returns: str = "BIGINT", vectorised: bool = False) -> list[object]:
    names = [f"a{i}" for i in range(len(columns))]
    evaluate = evaluator(module(source), names=names, returns=(TYPES[returns], returns), vectorised=vectorised)
    results: list[object] = evaluate(*columns).to_pylist()
    return results


def failure(source: str, *columns: pa.Array, returns: str = "BIGINT", vectorised: bool = False) -> str:
    with pytest.raises(FunctionFailure) as caught:
        run(source, *columns, returns=returns, vectorised=vectorised)
    text = str(caught.value)
    assert text.startswith(MARK)
    assert "\n" not in text
    return str(json.loads(text.removeprefix(MARK)))


ONES = pa.array([1, 2, None])


def test_rows_one_by_one_null_included() -> None:
    assert run("def f(x, y): return None if x is None else x + y", ONES, pa.array([10, 20, 30])) == [11, 22, None]


def test_whole_arrays() -> None:
    source = "import pyarrow.compute as pc\ndef f(x): return pc.add(x, 1)"
    assert run(source, ONES, vectorised=True) == [2, 3, None]
    assert run(source, pa.array([1], pa.int8()), vectorised=True) == [2]


def test_a_chunked_result_is_an_array() -> None:
    assert run("import pyarrow as pa\ndef f(x): return pa.chunked_array([x])", ONES, vectorised=True) == [1, 2, None]


def test_values_are_those_that_the_page_says() -> None:
    noon = datetime(2026, 1, 1, 12, tzinfo=UTC)
    instants = pa.array([noon], pa.timestamp("us", "UTC"))
    maps = pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int64()))
    assert run("def f(t): return t.utcoffset().total_seconds()", instants, returns="BIGINT") == [0]
    assert run("def f(t): return t.replace(tzinfo=None)", instants, returns="TIMESTAMP") == [noon]
    assert run("def f(m): return m['a']", maps) == [1]


def test_a_module_is_run_once(capsys: pytest.CaptureFixture[str]) -> None:
    source = "print('run')\ndef f(x): return x"
    run(source, ONES)
    loaded(module(source))
    assert capsys.readouterr().out == "run\n"


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("def f(x):\n    return 1 // (x - 2)", "function f failed at m.py:2: ZeroDivisionError: "),
        ("def f(x): return 'a' if x else 1", "function f returned 'a' (str), which is no BIGINT; arguments a0 = 1"),
        ("def f(x): return 0.5", "function f returned 0.5 (float), which is no BIGINT; arguments a0 = 1"),
        ("def f(x): return 2 ** 70", "(int), which is no BIGINT; arguments a0 = 1"),
        ("def g(x): return x", "module m.py has no function f"),
        ("import nowhere_to_be_found\ndef f(x): ...", "module m.py cannot be loaded at m.py:1: ModuleNotFoundError: "),
        ("def f(x:\n", "module m.py cannot be loaded at m.py:1: SyntaxError: "),
    ],
)
def test_failures_say_what_where_and_for_which_arguments(source: str, message: str) -> None:
    assert message in failure(source, ONES)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("def f(x):\n    if 2 in x.to_pylist(): raise KeyError(2)\n    return x",
         "function f failed at m.py:2: KeyError: 2; arguments a0 = 2"),
        ("def f(x):\n    assert len(x) == 1\n    return x",
         "function f failed at m.py:2: AssertionError; no single row fails by itself"),
        ("def f(x): return x.to_pylist()", "function f returned a list, not a pyarrow.Array"),
        ("def f(x): return x.slice(1)", "function f returned 2 values for 3 rows"),
        ("import pyarrow as pa\ndef f(x): return pa.array(['a'] * 3)",
         "function f returned string, which is no BIGINT"),
    ],
)  # fmt: skip
def test_failures_of_whole_arrays(source: str, message: str) -> None:
    assert failure(source, ONES, vectorised=True).startswith(message)


def test_long_values_are_shortened() -> None:
    told = failure("def f(x): raise ValueError('e' * 9999)", pa.array(["x" * 10_000]))
    assert len(told) < 1000
    assert "x" * VALUE_CHARS not in told


def test_a_module_that_failed_is_tried_again() -> None:
    with pytest.raises(FunctionFailure):
        loaded(module("1 / 0"))
    assert loaded(module("def f(x): return x"))(3) == 3


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("import nowhere_to_be_found", "module m.py cannot be loaded at m.py:1: ModuleNotFoundError: "),
        ("raise SystemExit(3)", "SystemExit: 3"),
        ("import os\nos._exit(7)", "module m.py cannot be loaded: the process ended with 7"),
        ("print('selat-function-error: no')\n1 / 0", "ZeroDivisionError"),
    ],
)
def test_a_module_is_loaded_apart_from_the_agent(source: str, message: str) -> None:
    with pytest.raises(AnalysisError, match=message):
        load_alone(module(source), LIMITS, timedelta(seconds=60))


def test_a_module_that_never_ends_is_given_up() -> None:
    with pytest.raises(AnalysisError, match=r"module m\.py is not loaded after 1 s"):
        load_alone(module("while True: pass"), LIMITS, timedelta(seconds=1))


def test_a_module_that_loads_is_not_told_of() -> None:
    load_alone(module("import types, operator, json\ndef f(x): return x"), LIMITS, timedelta(seconds=60))


@pytest.mark.parametrize(
    ("source", "limits", "message"),
    [
        ("x = bytearray(2 * 1024 ** 3)", LIMITS, "MemoryError"),
        ("files = [open('/dev/null') for _ in range(100)]", LIMITS, "Too many open files"),
        ("while True: pass", LIMITS._replace(cpu_s=1), "took more than 1 s of CPU time"),
        (
            "def spin():\n    while True: pass\nwhile True:\n    try: spin()\n    except Exception: pass",
            LIMITS._replace(cpu_s=1),
            "the process ended with -24",
        ),
    ],
)
def test_a_module_that_takes_too_much_is_ended(source: str, limits: Limits, message: str) -> None:
    with pytest.raises(AnalysisError, match=message):
        load_alone(module(source), limits, timedelta(seconds=60))


def test_a_module_sees_no_variables_of_the_agent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hunter2")
    monkeypatch.setenv("PYTHON_WORKER_FACTORY_SECRET", "hunter2")
    monkeypatch.setenv("SPARK_EXTRA_Password", "hunter2")
    source = """import os, pathlib
assert 'PATH' in os.environ
seen = repr(dict(os.environ)) + pathlib.Path('/proc/self/environ').read_text()
assert 'hunter2' not in seen, seen
def f(x): return x
"""
    load_alone(module(source), LIMITS, timedelta(seconds=60))
