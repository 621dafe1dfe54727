"""A query that would run a command runs nothing on a real cluster: the master and, asked directly, an agent refuse."""

from __future__ import annotations

from pathlib import Path

import grpc
import pytest

import selat
from selat.v1 import common_pb2, exchange_pb2, exchange_pb2_grpc
from tests.e2e.faults import Scene

pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.timeout(300)]


@pytest.mark.parametrize("relation", ["orders", "products"])
@pytest.mark.parametrize("form", ["{}", "CREATE VIEW hostile AS {}", "EXPLAIN {}", "WITH d AS ({}) SELECT y FROM d"])
def test_transform_runs_no_command(calm_client: selat.Client, tmp_path: Path, relation: str, form: str) -> None:
    made = tmp_path / "made"
    text = form.format(f"SELECT TRANSFORM(product) USING 'id > {made}; cat' AS y FROM {relation}")

    with pytest.raises(selat.SelatError) as caught:
        calm_client.sql(text)

    assert "TRANSFORM" in str(caught.value)
    assert not made.exists()


def test_an_agent_runs_no_command_for_a_stranger(calm: Scene, calm_client: selat.Client, tmp_path: Path) -> None:
    made = tmp_path / "made"
    statements = [
        f"SELECT TRANSFORM(product) USING 'id > {made}; cat' AS y FROM input",
        f"INSERT OVERWRITE DIRECTORY '{made}' USING csv SELECT product FROM input",
        "SELECT reflect('java.lang.System', 'getenv', product) AS y FROM input",
    ]
    view = exchange_pb2.AnalyzeView(name="input", columns=[common_pb2.Column(name="product", type="STRING")])
    for site in calm_client.sites():
        with grpc.insecure_channel(site.address) as channel:
            stub = exchange_pb2_grpc.ExchangeServiceStub(channel)
            answer = stub.Analyze(exchange_pb2.AnalyzeRequest(views=[view], statements=statements), timeout=60)
        assert [analysis.error.code for analysis in answer.analyses] == ["REFUSED_SQL"] * len(statements)
    assert not made.exists()
