"""The WebHDFS endpoint as Hadoop's client uses it."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote, urlsplit

import pytest

from site_agent.engine.cluster.file_server import FileServer
from site_agent.engine.scans.file_access import LocalFiles

CONTENT = bytes(range(256)) * 100_000
"""More than the buffers of a connection hold."""


@pytest.fixture
def server() -> Iterator[FileServer]:
    served = FileServer(bind="127.0.0.1", host="127.0.0.1")
    yield served
    served.close()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "a b%1 ü.csv"
    path.write_bytes(CONTENT)
    return path


def ask(uri: str, query: str) -> tuple[int, bytes, str | None]:
    parts = urlsplit(uri)
    connection = http.client.HTTPConnection(parts.netloc, timeout=10)
    connection.request("GET", f"/webhdfs/v1{quote(parts.path)}?{query}&user.name=x")
    response = connection.getresponse()
    body = response.read()
    # One connection is served by one thread: what it counted for the first request is there before the second's answer.
    connection.request("GET", "/")
    connection.getresponse().read()
    connection.close()
    return response.status, body, response.getheader("Content-Type")


def test_a_file_is_described_and_read_in_parts(server: FileServer, file: Path) -> None:
    with server.offered([str(file)]) as (uri,):
        assert uri.rpartition("/")[2] == file.name
        assert server.path_of(uri) == str(file)
        status, body, kind = ask(uri, "op=GETFILESTATUS")
        described = json.loads(body)["FileStatus"]
        assert (status, kind, described["length"], described["type"]) == (200, None, len(CONTENT), "FILE")
        assert json.loads(ask(uri, "op=LISTSTATUS")[1])["FileStatuses"]["FileStatus"] == [described]
        assert json.loads(ask(uri, "op=GETFILEBLOCKLOCATIONS&offset=0")[1]) == {"BlockLocations": {"BlockLocation": []}}
        assert ask(uri, "op=OPEN")[1] == CONTENT
        assert ask(uri, "op=OPEN&offset=1000")[1] == CONTENT[1000:]
        assert ask(uri, "op=OPEN&offset=1000&length=7")[1] == CONTENT[1000:1007]
        assert ask(uri, f"op=OPEN&offset={len(CONTENT) + 5}")[1] == b""
    assert (server.use.fetches, server.use.bytes) == (4, 2 * len(CONTENT) - 1000 + 7)


def test_only_what_is_offered_now_is_served(server: FileServer, file: Path) -> None:
    with server.offered([str(file)]) as (uri,):
        token = urlsplit(uri).path.split("/")[1]
        for name in (
            uri.replace(token, "x" * len(token)),
            uri.replace("/1/0/", "/2/0/"),
            uri.replace("/1/0/", "/1/1/"),
            uri.replace("/1/0/", "/1/-1/"),
            uri.replace("/1/0/", "/1/²/"),
            f"{uri.partition(token)[0]}{token}/../..{file}",
            uri.partition(token)[0] + str(file),
        ):
            status, body, _ = ask(name, "op=OPEN")
            assert status == 404, name
            assert json.loads(body)["RemoteException"]["exception"] == "FileNotFoundException"
    assert ask(uri, "op=OPEN")[0] == 404
    with pytest.raises(KeyError):
        server.path_of(uri)
    assert server.use.fetches == 0


@pytest.mark.parametrize("operation", ["CREATE", "DELETE", "LISTSTATUS_BATCH", ""])
def test_nothing_else_can_be_done(server: FileServer, file: Path, operation: str) -> None:
    with server.offered([str(file)]) as (uri,):
        assert ask(uri, f"op={operation}")[0] == 400


def test_a_file_that_is_gone_ends_the_call(server: FileServer, file: Path) -> None:
    with server.offered([str(file)]) as (uri,):
        file.unlink()
        with pytest.raises(http.client.RemoteDisconnected):
            ask(uri, "op=OPEN")


def test_local_files_are_named_by_their_paths() -> None:
    with LocalFiles().offered(["/x/a b.csv"]) as names:
        assert names == ("/x/a b.csv",)
    assert LocalFiles().path_of("file:///x/a%20b.csv") == "/x/a b.csv"
