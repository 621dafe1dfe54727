"""What a Python file says of its functions."""

from __future__ import annotations

from pathlib import Path

import pytest

from selat.errors import InvalidArgument
from selat.source.functions import LIMIT_BYTES, functions_of, module_texts, read_module
from selat.values import Column

GEO = """
import datetime as dt
from datetime import date, datetime
from decimal import Decimal
from typing import Annotated, Optional

import pyarrow as pa

def cell(lat: float, size: int = 10) -> str | None: return None
def _helper(x): return x
def when(a: date, b: datetime, c: "datetime.datetime", d: Optional[bytes]) -> bool: return True
def deep(m: dict[str, list[Decimal]]) -> list[int | None]: return []
def fast(v: Annotated[pa.Array, "INT"]) -> Annotated[pa.Array, "DECIMAL(10,2)"]: return v
def exact(v: Annotated[int, "INT"]) -> None | int: return v
"""


@pytest.fixture
def geo(tmp_path: Path) -> Path:
    path = tmp_path / "geo.py"
    path.write_text(GEO)
    return path


def test_names_and_types_come_from_annotations(geo: Path) -> None:
    found = {f.name: ([p.type for p in f.parameters], f.returns) for f in functions_of(geo)}

    assert found == {
        "cell": (["DOUBLE", "BIGINT"], "STRING"),
        "when": (["DATE", "TIMESTAMP", "TIMESTAMP", "BINARY"], "BOOLEAN"),
        "deep": (["MAP<STRING,ARRAY<DECIMAL(38,18)>>"], "ARRAY<BIGINT>"),
        "fast": (["INT"], "DECIMAL(10,2)"),
        "exact": (["INT"], "BIGINT"),
    }


def test_one_function_alone(geo: Path) -> None:
    (made,) = functions_of(geo, "cell")

    assert made.parameters == (Column("lat", "DOUBLE"), Column("size", "BIGINT"))
    assert (made.entry, made.file, made.source) == ("cell", "geo.py", GEO)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("def f(x) -> int: return x", "geo.py:1: function f, parameter x has no annotation"),
        ("def f(x: int): return x", "result has no annotation"),
        ("def f(x: object) -> int: return 1", "parameter x: object means no type of SQL"),
        ("def f(x: 'a b') -> int: return 1", "parameter x: 'a b' means no type"),
        ("def f(x: int | str) -> int: return 1", "means no type of SQL"),
        ("def f(x: list) -> int: return 1", "means no type of SQL"),
        ("def f(*x: int) -> int: return 1", "other arguments than by place"),
        ("def _f(x: int) -> int: return 1", "has no function for SQL"),
        ("def f(x: int -> int", "geo.py:1 is not Python"),
    ],
)
def test_what_means_no_function_is_refused(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "geo.py"
    path.write_text(text)

    with pytest.raises(InvalidArgument, match=message):
        functions_of(path)


@pytest.mark.parametrize("data", [b"\xff\xfe", b"#" * (LIMIT_BYTES + 1)])
def test_what_is_no_module_is_refused(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "geo.py"
    path.write_bytes(data)

    with pytest.raises(InvalidArgument):
        read_module(path)


def test_statements_name_their_files(geo: Path) -> None:
    statements = [
        f"-- from 'other.py'\ncreate or replace function f(x INT) returns INT language python as 'f' FROM '{geo}'",
        "SELECT 'CREATE FUNCTION' FROM 'nowhere.py'",
        "CREATE FUNCTION f(x INT)",
    ]

    assert module_texts(statements) == {str(geo): GEO}


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    statement = f"CREATE FUNCTION f(x INT) RETURNS INT LANGUAGE PYTHON AS 'f' FROM '{tmp_path}/it''s not.py'"

    with pytest.raises(InvalidArgument, match=r"it's not\.py: No such file"):
        module_texts([statement])
