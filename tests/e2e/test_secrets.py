"""A password by reference, rotated while a query waits for it: what a cluster stores, logs and tells never has it."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest

import selat
from tests.e2e.cluster import wait_until
from tests.e2e.members import Member
from tests.e2e.vault import PASSWORD
from tests.jvm import AGENT_ARGUMENTS

pytestmark = [pytest.mark.e2e, pytest.mark.spark]

RIGHT, WRONG = "correct-horse-battery", "wrong-horse-battery"
REFERENCE = "${secret:vault-eu}"
COLUMNS = (
    "CREATE STREAM s (v BIGINT, ts TIMESTAMP, WATERMARK FOR ts) WITH ('connector' = 'vault', 'rows_per_second' = '50'"
)
QUERY = "SELECT v FROM s"


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    (tmp_path / "secrets").mkdir(mode=0o700)
    (tmp_path / "topology.yaml").write_text("sites: {eu: {slots: 1}}\n")
    write(tmp_path, WRONG)
    return tmp_path


def write(directory: Path, value: str) -> None:
    path = directory / "secrets" / "vault-eu"
    path.touch(mode=0o600)
    path.write_text(value)


def test_a_secret_is_told_nowhere(directory: Path) -> None:
    environment = {PASSWORD: RIGHT}
    topology, secrets = str(directory / "topology.yaml"), str(directory / "secrets")
    with ExitStack() as stack:
        master = ["tests.e2e.vault", "master", "--data", str(directory / "m"), "--topology", topology]
        master = [*master, "--listen", "127.0.0.1:0"]
        address = stack.enter_context(Member(directory / "master", master, environment=environment)).address
        agent = ["tests.e2e.vault", "agent", "--data", str(directory / "a"), "--site", "eu", "--master", address]
        agent = [*agent, "--secrets-dir", secrets, *AGENT_ARGUMENTS]
        stack.enter_context(Member(directory / "agent", agent, environment=environment))
        client = stack.enter_context(selat.connect(address))
        told = said_of(client, directory)
    files = (path for path in directory.rglob("*") if path.is_file() and path.parent.name != "secrets")
    stored = b"".join(path.read_bytes() for path in files)
    assert REFERENCE in told
    assert REFERENCE.encode() in stored
    for value in (RIGHT, WRONG):
        assert value not in told
        assert value.encode() not in stored


def said_of(client: selat.Client, directory: Path) -> str:
    """All that the cluster says, from a refused declaration to a query that runs with the rotated password."""
    wait_until(lambda: client.site("eu").state is selat.SiteState.ALIVE)
    with pytest.raises(selat.StatementError, match="'password' is a secret") as caught:
        client.sql(f"{COLUMNS}, 'password' = '{RIGHT}') AT eu")
    told = [repr(vars(caught.value))]
    client.sql(f"{COLUMNS}, 'password' = '{REFERENCE}') AT eu")
    query = client.sql(QUERY)
    assert isinstance(query, selat.Query)
    wait_until(lambda: any("login refused with" in task.reason for task in query.info().tasks))
    told += [repr(query.info()), repr(client.site("eu"))]
    write(directory, RIGHT)
    wait_until(lambda: query.info().rows_out > 0)
    for statement in ("DESCRIBE s", f"EXPLAIN {QUERY}", f"EXPLAIN ANALYZE QUERY {query.id}"):
        told.append(repr(client.sql(statement)))
    told += [repr(query.info()), repr(client.site("eu")), repr(client.streams()), repr(query.explain())]
    query.cancel()
    query.wait()
    return "\n".join(told)
