"""Python functions over three sites, against DuckDB with the same Python functions."""

from __future__ import annotations

import runpy
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from duckdb.func import FunctionNullHandling

import selat
from selat.dev.cluster import DevCluster
from tests.e2e.cluster import check_against_oracle, running_cluster, submit, wait_until
from tests.e2e.dataset import Dataset, write_dataset
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
    "SELECT w(ts, 10), grade(quantity, express), count(*), sum(price * 2.0), grade(count(*)::INTEGER, false) "
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


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    return write_dataset(tmp_path_factory.mktemp("functions"), rows_per_site=600)


@pytest.fixture(scope="module")
def cluster(dataset: Dataset) -> Iterator[DevCluster]:
    with running_cluster(dataset.root / "cluster", heartbeat_timeout_s=60) as running:
        with selat.connect(running.address) as client:
            list(client.script(dataset.ddl()))
        yield running


@pytest.fixture
def module(tmp_path: Path) -> Path:
    path = tmp_path / "orders.py"
    path.write_text(MODULE)
    return path


def test_the_results_are_those_of_the_same_functions_in_duckdb(
    dataset: Dataset, cluster: DevCluster, module: Path
) -> None:
    with selat.connect(cluster.address) as client:
        made = client.register_function(module, replace=True)
        assert {f.name: f.vectorised for f in made} == {
            **dict.fromkeys(("grade", "initial", "picky"), False),
            "doubled": True,
        }
        queries = submit(client, (CASE, *JOINS))
        with pytest.raises(selat.SelatError, match=f"is called by {queries[CASE.name].id}"):
            client.drop_function("doubled")
        # The queries have begun with what was registered: another version changes nothing of them.
        other = module.with_name("other.py")
        other.write_text("def grade(quantity: int, express: bool) -> str:\n    return 'other'\n")
        client.register_function(other, name="grade", replace=True)
        table = queries[CASE.name].results().arrow()
        info = queries[CASE.name].info()
        assert check_against_oracle(dataset, JOINS, queries)
    assert info.state is selat.QueryState.FINISHED, info.reason
    db = connect(dataset)
    grade = runpy.run_path(str(module))["grade"]
    db.create_function("grade", grade, ["INTEGER", "BOOLEAN"], "VARCHAR", null_handling=FunctionNullHandling.SPECIAL)
    rows = expected(db, CASE.oracle)
    assert len({row[1] for row in rows}) > 2
    assert_same(rows_of(table), rows, CASE.name)


def test_a_function_that_raises_fails_the_query_and_says_for_which_row(cluster: DevCluster, module: Path) -> None:
    statement = f"CREATE OR REPLACE FUNCTION picky(id BIGINT) RETURNS BIGINT LANGUAGE PYTHON AS 'picky' FROM '{module}'"
    with selat.connect(cluster.address) as client:
        client.sql(statement)
        query = client.sql("SELECT picky(id) AS id FROM orders WHERE site = 'eu'")
        assert isinstance(query, selat.Query)
        wait_until(lambda: query.info().over, timeout_s=240)
        info = query.info()
    assert info.state is selat.QueryState.FAILED
    assert "function picky failed at orders.py:29: ValueError: not this one; arguments id = " in info.reason


def test_what_cannot_be_loaded_is_refused(cluster: DevCluster, tmp_path: Path) -> None:
    path = tmp_path / "far.py"
    path.write_text("import nowhere_to_be_found\n\ndef far(x: int) -> int:\n    return x\n")
    command = [sys.executable, "-m", "selat", "--master", cluster.address, "function", "create", str(path)]
    refused = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)

    assert refused.returncode == 3
    assert "INVALID_FUNCTION" in refused.stderr
    assert "module far.py cannot be loaded at far.py:1: ModuleNotFoundError" in refused.stderr
