"""Python functions at a real master over gRPC, with stand-ins for the agents."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import grpc
import pytest

from selat.v1 import catalog_pb2, common_pb2, query_pb2
from tests.integration.master_cluster import CONFIG, CREATE, Cluster, detail, refusal, running_cluster

pytestmark = pytest.mark.timeout(60)

SOURCE = "def grade(user_id: int) -> str:\n    return str(user_id)\n"
STATEMENT = "CREATE FUNCTION grade(user_id BIGINT) RETURNS STRING LANGUAGE PYTHON AS 'grade' FROM 'g.py'"


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Cluster]:
    async with running_cluster(tmp_path / "master") as cluster:
        await cluster.execute(CREATE)
        yield cluster


async def execute(cluster: Cluster, text: str, **files: str) -> list[query_pb2.ExecuteResponse]:
    request = query_pb2.ExecuteRequest(text=text, files={f"{name}.py": source for name, source in files.items()})
    return [r async for r in cluster.queries.Execute(request)]


def definition(source: str = SOURCE, **values: str) -> common_pb2.Function:
    column = common_pb2.Column(name="user_id", type="bigint")
    fields = {"name": "grade", "returns": "STRING", "file": "g.py", **values}
    return common_pb2.Function(parameters=[column], source=source, **fields)  # type: ignore[arg-type]


async def test_a_script_makes_shows_describes_and_drops(cluster: Cluster) -> None:
    script = f"{STATEMENT}; SHOW FUNCTIONS; DESCRIBE FUNCTION grade; DROP FUNCTION grade; SHOW FUNCTIONS"
    made, shown, described, dropped, empty = await execute(cluster, script, g=SOURCE)

    assert (made.done, dropped.done) == ("function grade created from g.py", "function grade dropped")
    assert list(shown.rows.rows[0].values)[:5] == ["grade", "user_id BIGINT", "STRING", "scalar", "g.py"]
    assert ["source", "1", "def grade(user_id: int) -> str:"] in [list(row.values) for row in described.rows.rows]
    assert len(empty.rows.rows) == 0


async def test_a_query_keeps_the_version_it_began_with_over_replacement_and_restart(cluster: Cluster) -> None:
    await execute(cluster, STATEMENT, g=SOURCE)
    query = await cluster.submit("SELECT grade(user_id) AS g FROM clicks WHERE grade(user_id) <> 'x'")
    await execute(cluster, STATEMENT.replace("CREATE", "CREATE OR REPLACE"), g=SOURCE + "# newer\n")
    await cluster.stop_master()
    await cluster.start_master()

    assignment = await cluster.agents["us"].assigned(lambda a: query in [t.query_id for t in a.tasks])
    (task,) = [t for t in assignment.tasks if t.query_id == query]
    (function,) = task.functions
    assert function.source == SOURCE
    assert task.sql.count(f"grade__{function.digest[:12]}(") == 2


async def test_what_is_called_cannot_be_dropped(cluster: Cluster) -> None:
    await execute(cluster, STATEMENT, g=SOURCE)
    await cluster.execute("CREATE VIEW graded AS SELECT user_id FROM clicks WHERE grade(user_id) > 'a'")
    code, error = await refusal(cluster.catalog.DropFunction(catalog_pb2.DropFunctionRequest(name="grade")))
    assert (code, error.code) == (grpc.StatusCode.FAILED_PRECONDITION, "FUNCTION_IN_USE")
    assert (error.message, error.ids["view"]) == ("function grade is called by view graded", "graded")
    await cluster.execute("DROP VIEW graded")

    query = await cluster.submit("SELECT Grade(user_id) AS g FROM clicks")
    await execute(cluster, STATEMENT.replace("CREATE", "CREATE OR REPLACE"), g=SOURCE + "# newer\n")
    code, error = await refusal(cluster.catalog.DropFunction(catalog_pb2.DropFunctionRequest(name="GRADE")))
    assert (error.message, error.ids["query"]) == (f"function grade is called by {query}", query)


async def test_functions_survive_a_restart(cluster: Cluster) -> None:
    made = (await cluster.catalog.CreateFunction(catalog_pb2.CreateFunctionRequest(function=definition()))).function
    await cluster.stop_master()
    await cluster.start_master()
    request = catalog_pb2.GetFunctionRequest(name="GRADE")

    assert (await cluster.catalog.GetFunction(request, wait_for_ready=True)).function == made
    assert made.digest
    assert made.parameters[0].type == "BIGINT"


async def test_a_name_that_is_taken(cluster: Cluster) -> None:
    request = catalog_pb2.CreateFunctionRequest(function=definition())
    first = await cluster.catalog.CreateFunction(request)
    code, error = await refusal(cluster.catalog.CreateFunction(request))
    assert (code, error.code) == (grpc.StatusCode.ALREADY_EXISTS, "FUNCTION_EXISTS")

    request = catalog_pb2.CreateFunctionRequest(function=definition(SOURCE + "#\n"), if_not_exists=True)
    kept = await cluster.catalog.CreateFunction(request)
    assert (kept.created, kept.function) == (False, first.function)
    request = catalog_pb2.CreateFunctionRequest(function=definition(SOURCE + "#\n"), or_replace=True)
    assert (await cluster.catalog.CreateFunction(request)).function.digest != first.function.digest


@pytest.mark.parametrize(
    ("text", "status", "code", "place"),
    [
        (STATEMENT.replace("g.py", "h.py"), grpc.StatusCode.INVALID_ARGUMENT, "INVALID_REQUEST", (1, 1)),
        (STATEMENT.replace("'grade'", "'other'"), grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FUNCTION", (1, 1)),
        # The stand-in for Spark refuses what has `nope` in it.
        (STATEMENT.replace("FUNCTION grade", "FUNCTION nope"), grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FUNCTION",
         (1, 1)),
        ("SHOW SITES; DROP FUNCTION grade", grpc.StatusCode.NOT_FOUND, "UNKNOWN_FUNCTION", (1, 13)),
        ("DESCRIBE FUNCTION grade", grpc.StatusCode.NOT_FOUND, "UNKNOWN_FUNCTION", (1, 1)),
    ],
)  # fmt: skip
async def test_what_is_wrong_is_said_at_its_place(
    cluster: Cluster, text: str, status: grpc.StatusCode, code: str, place: tuple[int, int]
) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await execute(cluster, text, g=SOURCE)
    error = detail(caught.value)
    assert (caught.value.code(), error.code, (error.line, error.column)) == (status, code, place)


async def test_calls_are_checked_before_anything_is_asked(cluster: Cluster) -> None:
    await execute(cluster, STATEMENT, g=SOURCE)
    with pytest.raises(grpc.aio.AioRpcError, match="grade takes 1 argument, not 2"):
        await cluster.submit("SELECT grade(user_id, 2) AS g FROM clicks")


async def test_explain_analyze_over_grpc(cluster: Cluster) -> None:
    query = await cluster.run()
    (answer,) = await cluster.execute(f"EXPLAIN ANALYZE QUERY {query}")
    request = query_pb2.ExplainQueryRequest(query=query, analyze=True)

    assert answer.explanation.text.startswith(f"Query {query}, running for ")
    assert (await cluster.queries.ExplainQuery(request)).explanation == answer.explanation
    with pytest.raises(grpc.aio.AioRpcError, match="nothing"):
        await cluster.execute("EXPLAIN ANALYZE QUERY nothing")


async def test_a_master_that_was_told_so_takes_none_and_keeps_those_it_has(cluster: Cluster) -> None:
    await execute(cluster, STATEMENT, g=SOURCE)
    await cluster.stop_master()
    await cluster.start_master(replace(CONFIG, python_functions=False))

    refused = (grpc.StatusCode.PERMISSION_DENIED, "PYTHON_FUNCTIONS_REFUSED")
    request = catalog_pb2.CreateFunctionRequest(function=definition(name="other"))
    code, error = await refusal(cluster.catalog.CreateFunction(request, wait_for_ready=True))
    assert (code, error.code, error.hint) == (*refused, "start the master with --python-functions allow")
    for text in (STATEMENT.replace("grade", "other"), STATEMENT.replace("CREATE", "CREATE OR REPLACE")):
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await execute(cluster, text, g=SOURCE)
        assert (caught.value.code(), detail(caught.value).code) == refused
    assert len((await cluster.catalog.ListFunctions(catalog_pb2.ListFunctionsRequest())).functions) == 1
