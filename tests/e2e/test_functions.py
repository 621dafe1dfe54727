"""Python functions over three sites, against DuckDB with the same Python functions."""

from __future__ import annotations

import runpy
import subprocess
import sys
from pathlib import Path

import pytest
from duckdb.func import FunctionNullHandling

import selat
from tests.e2e.cluster import check_against_oracle, submit, wait_until
from tests.e2e.faults import Scene
from tests.e2e.oracle import assert_same, connect, expected, rows_of
from tests.e2e.queries import Case

pytestmark = [pytest.mark.e2e, pytest.mark.spark]

MODULE = '''
"""Classes of orders."""

from typing import Annotated

import pyarrow as pa
import pyarrow.compute as pc

LARGE = 3


def grade(quantity: Annotated[int, "INT"] | None, express: bool | None) -> str:
    if quantity is None:
        return "none"
    size = "large" if quantity >= LARGE else "small"
    return f"{size}-express" if express else size


def initial(text: str | None) -> str | None:
    return None if text is None else text[:1]


def doubled(price: Annotated[pa.Array, "DOUBLE"]) -> Annotated[pa.Array, "DOUBLE"]:
    return pc.multiply(price, 2.0)


def picky(id: int) -> int:
    if id % 50 == 7:
        raise ValueError("not this one")
    return id
'''

CASE = Case(
    "function in WHERE, GROUP BY, an aggregate and after the merge",
    "SELECT window.start AS s, grade(quantity, express) AS g, count(*) AS n, sum(doubled(price)) AS d, "
    "grade(CAST(count(*) AS INT), false) AS busy FROM orders WHERE grade(quantity, false) <> 'none' "
    "GROUP BY window(ts, '10 seconds'), grade(quantity, express)",
    "SELECT w(ts, 10) AS s, grade(quantity, express) AS g, count(*) AS n, sum(price * 2.0::DOUBLE) AS d, "
    "grade(count(*)::INTEGER, false) AS busy "
    "FROM orders WHERE grade(quantity, false) <> 'none' GROUP BY 1, 2",
)

JOINS = (
    Case(
        "a function in ON of an inner join",
        "SELECT o.id, p.name FROM orders o JOIN products p ON o.product = p.product AND initial(o.product) = "
        "initial(p.product) AND grade(o.quantity, p.category = 'A') = 'large-express'",
        "SELECT o.id, p.name FROM orders o JOIN products p USING (product) WHERE quantity >= 3 AND category = 'A'",
    ),
    Case(
        "a function as the key of a left join",
        "SELECT o.id, p.name FROM orders o LEFT JOIN products p ON initial(o.product) = initial(p.product) AND "
        "grade(o.quantity, o.express) = 'large' AND grade(length(p.name), true) <> 'none' AND o.product = p.product",
        "SELECT o.id, p.name FROM orders o LEFT JOIN products p ON o.product = p.product AND o.quantity >= 3 AND NOT "
        "coalesce(o.express, false)",
    ),
    Case(
        "a function in ON of streams",
        "SELECT a.id, p.fee FROM orders a LEFT JOIN parcels p ON initial(a.product) = initial(p.product) AND "
        "a.id = p.id AND grade(a.quantity, false) = 'large' AND window(a.ts, '1 day') = window(p.ts, '1 day')",
        "SELECT a.id, p.fee FROM orders a LEFT JOIN parcels p ON a.id = p.id AND a.quantity >= 3",
    ),
)


@pytest.fixture
def module(tmp_path: Path) -> Path:
    path = tmp_path / "orders.py"
    path.write_text(MODULE)
    return path


def test_the_results_are_those_of_the_same_functions_in_duckdb(
    calm: Scene, calm_client: selat.Client, module: Path
) -> None:
    made = calm_client.register_function(module, replace=True)
    assert {f.name: f.vectorised for f in made} == {
        **dict.fromkeys(("grade", "initial", "picky"), False),
        "doubled": True,
    }
    queries = submit(calm_client, (CASE, *JOINS))
    with pytest.raises(selat.SelatError, match=f"is called by {queries[CASE.name].id}"):
        calm_client.drop_function("doubled")
    # The queries have begun with what was registered: another version changes nothing of them.
    other = module.with_name("other.py")
    other.write_text("def grade(quantity: int, express: bool) -> str:\n    return 'other'\n")
    calm_client.register_function(other, name="grade", replace=True)
    table = queries[CASE.name].results().arrow()
    info = queries[CASE.name].info()
    assert check_against_oracle(calm.dataset, JOINS, queries)
    assert info.state is selat.QueryState.FINISHED, info.reason
    for name in ("grade", "initial", "doubled", "picky"):
        calm_client.drop_function(name)
    db = connect(calm.dataset)
    grade = runpy.run_path(str(module))["grade"]
    db.create_function("grade", grade, ["INTEGER", "BOOLEAN"], "VARCHAR", null_handling=FunctionNullHandling.SPECIAL)
    rows = expected(db, CASE.oracle)
    assert len({row[1] for row in rows}) > 2
    assert_same(rows_of(table), rows, CASE.name)


def test_a_function_that_raises_fails_the_query_and_says_for_which_row(calm_client: selat.Client, module: Path) -> None:
    statement = f"CREATE OR REPLACE FUNCTION picky(id BIGINT) RETURNS BIGINT LANGUAGE PYTHON AS 'picky' FROM '{module}'"
    calm_client.sql(statement)
    query = calm_client.sql("SELECT picky(id) AS id FROM orders WHERE site = 'eu'")
    assert isinstance(query, selat.Query)
    wait_until(lambda: query.info().over, timeout_s=240)
    info = query.info()
    calm_client.drop_function("picky")
    assert info.state is selat.QueryState.FAILED
    assert "function picky failed at orders.py:29: ValueError: not this one; arguments id = " in info.reason


def test_what_cannot_be_loaded_is_refused(calm: Scene, tmp_path: Path) -> None:
    path = tmp_path / "far.py"
    path.write_text("import nowhere_to_be_found\n\ndef far(x: int) -> int:\n    return x\n")
    command = [sys.executable, "-m", "selat", "--master", calm.cluster.address, "function", "create", str(path)]
    refused = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)

    assert refused.returncode == 3
    assert "INVALID_FUNCTION" in refused.stderr
    assert "module far.py cannot be loaded at far.py:1: ModuleNotFoundError" in refused.stderr
