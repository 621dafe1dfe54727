"""Access of others to a cluster: sockets, files of its state, paths."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import psutil
import pytest

import selat
from tests.e2e.faults import Scene

READING = "'connector' = 'files', 'format' = 'csv'"


def test_every_socket_is_on_loopback(calm: Scene) -> None:
    supervised = [psutil.Process(pid) for pid in calm.cluster.pids.values()]
    processes = [p for one in supervised for p in (one, *one.children(recursive=True))]
    sockets = [s for p in processes for s in p.net_connections(kind="inet") if s.status == psutil.CONN_LISTEN]
    assert len(sockets) >= 1 + len(calm.cluster.sites)
    assert {s.laddr.ip.removeprefix("::ffff:") for s in sockets} == {"127.0.0.1"}


@pytest.mark.usefixtures("calm_client")
def test_state_is_its_owners_alone(calm: Scene) -> None:
    root = calm.cluster.data.root
    paths = [root, *(Path(parent, name) for parent, below, files in os.walk(root) for name in (*below, *files))]
    modes = {path: stat.S_IMODE(path.lstat().st_mode) for path in paths if path.exists() and not path.is_symlink()}
    assert len(modes) > 20
    assert {str(path): oct(mode) for path, mode in modes.items() if mode & 0o077} == {}


def test_a_stream_of_another_directory_fails_with_the_reason(calm_client: selat.Client) -> None:
    options = f"{READING}, 'path' = '/etc', 'pattern' = 'passwd'"
    list(
        calm_client.script(f"CREATE STREAM stolen (line STRING, at TIMESTAMP, WATERMARK FOR at) AT us WITH ({options})")
    )
    query = calm_client.sql("SELECT line FROM stolen")
    assert isinstance(query, selat.Query)
    with pytest.raises(selat.QueryFailed, match=r"path '/etc' is outside of the directories that this agent allows"):
        list(query.results())
    list(calm_client.script("DROP STREAM stolen"))


def test_a_table_behind_a_link_is_refused(calm_client: selat.Client, tmp_path: Path) -> None:
    (tmp_path / "in").symlink_to("/etc")
    options = f"{READING}, 'path' = '{tmp_path}/in', 'pattern' = 'passwd'"
    list(calm_client.script(f"CREATE TABLE stolen (line STRING) AT us WITH ({options})"))
    with pytest.raises(selat.SelatError, match=rf"path '{tmp_path}/in' leads to /etc, which is outside"):
        calm_client.sql("SELECT line FROM stolen")
    list(calm_client.script("DROP TABLE stolen"))
