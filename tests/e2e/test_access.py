"""A whole cluster that checks who calls, by the command itself: from the first token to a query that was granted."""

from __future__ import annotations

import json
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

import selat
from selat.cli import cli
from selat.dev.cluster import DevCluster
from selat.dev.processes import ClusterOptions
from tests.e2e.cluster import TEMPORARY, TOPOLOGY, check_against_oracle
from tests.e2e.dataset import Dataset, write_dataset
from tests.e2e.queries import CASES
from tests.jvm import AGENT_ARGUMENTS

pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    return write_dataset(tmp_path_factory.mktemp("access") / "input", rows_per_site=600)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevCluster]:
    directory = tmp_path_factory.mktemp("checked")
    topology = directory / "topology.yaml"
    topology.write_text(TOPOLOGY)
    options = ClusterOptions(auth=True, agent_arguments=AGENT_ARGUMENTS, allow_paths=(TEMPORARY,))
    with DevCluster(topology, directory / "data", options) as cluster:
        yield cluster


def run(cluster: DevCluster, token: Path, *arguments: str) -> tuple[int, str]:
    """Exit code and output of the command with a token."""
    options = ["--master", cluster.address, "--token-file", str(token), "-o", "json"]
    result = CliRunner().invoke(cli, [*options, *arguments], prog_name="selat")
    return result.exit_code, result.output


def test_from_the_first_token_to_a_query_that_was_granted(
    cluster: DevCluster, dataset: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SELAT_TOKEN_FILE", raising=False)
    admin, ann, reader = cluster.data.admin_token, tmp_path / "ann.token", tmp_path / "reader.token"
    assert stat.S_IMODE(admin.stat().st_mode) == 0o600
    code, _ = run(
        cluster, admin, "token", "create", "ann", "--role", "submitter", "--role", "analysts", "--to", str(ann)
    )
    assert (code, stat.S_IMODE(ann.stat().st_mode)) == (0, 0o600)
    assert run(cluster, admin, "token", "create", "rita", "--role", "reader", "--to", str(reader))[0] == 0
    with cluster.connect() as client:
        list(client.script(dataset.ddl()))
    case = next(case for case in CASES if "FROM orders" in case.sql and "JOIN" not in case.sql)

    # Nobody without a token; not a reader; not yet a submitter.
    with pytest.raises(selat.StatementError) as refused:
        selat.connect(cluster.address)
    assert refused.value.code == "UNAUTHENTICATED"
    for token, said in ((reader, "PERMISSION_DENIED"), (ann, "NOT_GRANTED")):
        code, output = run(cluster, token, "sql", case.sql)
        assert (code, said in output) == (3, True), output

    with cluster.connect() as client:
        list(client.script("GRANT SELECT ON orders TO analysts"))
    with selat.connect(cluster.address, token=ann.read_text().strip()) as client:
        query = client.sql(case.sql)
        assert isinstance(query, selat.Query)
        assert check_against_oracle(dataset, (case,), {case.name: query}) > 0
        assert query.info().owner == "ann"
    code, output = run(cluster, reader, "query", "results", query.id)
    assert (code, "PERMISSION_DENIED" in output) == (3, True)

    log = cluster.data.logs / "audit.log"
    assert stat.S_IMODE(log.stat().st_mode) == 0o600
    records = [json.loads(line) for line in log.read_text().splitlines()]
    told = [(r["principal"], r["method"], r["outcome"]) for r in records]
    for expected in (
        ("admin", "AccessService/CreateToken", "OK"),
        ("sites", "SiteService/Register", "OK"),
        ("", "QueryService/ListQueries", "UNAUTHENTICATED"),
        ("rita", "QueryService/Execute", "PERMISSION_DENIED"),
        ("ann", "QueryService/Execute", "NOT_GRANTED"),
        ("ann", "QueryService/Execute", "OK"),
        ("ann", "QueryService/FetchResults", "OK"),
        ("rita", "QueryService/FetchResults", "PERMISSION_DENIED"),
    ):
        assert expected in told
    assert ["orders"] in [r["relations"] for r in records if r["principal"] == "ann" and r["outcome"] == "OK"]
    assert not any(token.read_text().strip() in log.read_text() for token in (admin, ann, reader))
