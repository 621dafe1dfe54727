"""Files of this agent for executors on other machines: a read-only WebHDFS endpoint beside the driver.

Every Spark distribution can read `webhdfs://` by itself, so executors need nothing of ours, and Spark's readers work on
remote files as on local ones. Only what a running job was offered can be fetched, under a name nobody can guess:

    webhdfs://HOST:PORT/TOKEN/OFFER/INDEX/NAME        NAME is the file's own; swebhdfs:// with TLS
"""

from __future__ import annotations

import itertools
import json
import logging
import os
import secrets
import socket
import ssl
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import parse_qs, unquote, urlsplit

logger = logging.getLogger(__name__)

_API = "/webhdfs/v1/"
_BLOCK_BYTES = 64 * 1024 * 1024
"""How Spark may cut a file for several executors, at most."""
_IDLE_TIMEOUT_S = 30.0
"""A connection on which nothing is asked for so long is closed."""


@dataclass(frozen=True, slots=True)
class FileServerUse:
    """What was fetched since the start."""

    fetches: int = 0
    bytes: int = 0


class FileServer:
    """Serves files of this machine while they are offered. See `FileAccess`.

    Args:
        bind: Address to listen at.
        host: Name under which executors reach it.
        port: 0 takes a free one.
        tls: Has the certificate to answer with; None: nothing is encrypted.
    """

    remote = True

    def __init__(self, *, bind: str, host: str, port: int = 0, tls: ssl.SSLContext | None = None) -> None:
        """Raises OSError when the port is taken."""
        self._token = secrets.token_urlsafe(24)
        self._numbers = itertools.count(1)
        self._offers: dict[str, tuple[str, ...]] = {}
        self._use = FileServerUse()
        self._lock = threading.Lock()
        self._server = _Server((bind, port), _Handler)
        self._server.files = self
        self._server.tls = tls
        self.encrypted = tls is not None
        self.port: int = self._server.server_address[1]
        self._root = f"{'swebhdfs' if self.encrypted else 'webhdfs'}://{host}:{self.port}/{self._token}"
        self._thread = threading.Thread(target=self._server.serve_forever, name="file-server", daemon=True)
        self._thread.start()

    @property
    def use(self) -> FileServerUse:
        return self._use

    @contextmanager
    def offered(self, paths: Sequence[str]) -> Iterator[tuple[str, ...]]:
        """See `FileAccess.offered`."""
        offer = str(next(self._numbers))
        self._offers[offer] = tuple(paths)
        try:
            yield tuple(f"{self._root}/{offer}/{index}/{Path(path).name}" for index, path in enumerate(paths))
        finally:
            del self._offers[offer]

    def path_of(self, uri: str) -> str:
        """See `FileAccess.path_of`. Raises KeyError for a file that is not offered."""
        path = self.find(unquote(urlsplit(uri).path))
        if path is None:
            raise KeyError(uri)
        return path

    def find(self, name: str) -> str | None:
        """The path of what is served as /TOKEN/OFFER/INDEX/NAME; None when that is not offered."""
        token, offer, index, *_ = [*name.strip("/").split("/", 3), "", "", ""]
        if not secrets.compare_digest(token.encode(), self._token.encode()):
            return None
        paths = self._offers.get(offer, ())
        return paths[int(index)] if index.isascii() and index.isdigit() and int(index) < len(paths) else None

    def count(self, size_bytes: int) -> None:
        """Note a fetch."""
        with self._lock:
            self._use = FileServerUse(self._use.fetches + 1, self._use.bytes + size_bytes)

    def close(self) -> None:
        """Stop serving."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Server(ThreadingHTTPServer):
    files: FileServer
    tls: ssl.SSLContext | None = None
    daemon_threads = True
    block_on_close = False

    def get_request(self) -> tuple[socket.socket, Any]:
        """The next connection. Its own thread makes the handshake: one that stops in the middle holds nobody up."""
        connection, address = super().get_request()
        if self.tls is not None:
            connection = self.tls.wrap_socket(connection, server_side=True, do_handshake_on_connect=False)
        return connection, address

    def handle_error(self, request: object, client_address: Any) -> None:
        """One line in place of a traceback: whoever connects without TLS, or trusts another certificate, ends here."""
        logger.warning("connection ended from=%s port=%d: %s", *client_address[:2], sys.exception())


class _Handler(BaseHTTPRequestHandler):
    """The four operations that Hadoop's client needs to list and read a file."""

    protocol_version = "HTTP/1.1"
    timeout = _IDLE_TIMEOUT_S
    server: _Server

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        query = {name.lower(): values[-1] for name, values in parse_qs(parts.query).items()}
        name = unquote(parts.path)
        path = self.server.files.find(name[len(_API) :]) if name.startswith(_API) else None
        operation = query.get("op", "").upper()
        try:
            if path is None:
                self._refuse(HTTPStatus.NOT_FOUND, "java.io.FileNotFoundException", "no such file is offered")
            elif operation == "OPEN":
                self._open(path, query)
            else:
                self._describe(path, operation)
        except (OSError, ValueError) as error:
            # Headers may be out already: the reader sees a body that is too short, and asks again or fails.
            logger.warning("file cannot be served: %s", error)
            self.close_connection = True

    def _describe(self, path: str, operation: str) -> None:
        if operation == "GETFILESTATUS":
            self._answer({"FileStatus": _status(path)})
        elif operation == "LISTSTATUS":
            self._answer({"FileStatuses": {"FileStatus": [_status(path)]}})
        elif operation == "GETFILEBLOCKLOCATIONS":
            self._answer({"BlockLocations": {"BlockLocation": []}})
        else:
            self._refuse(HTTPStatus.BAD_REQUEST, "java.lang.UnsupportedOperationException", f"no {operation} here")

    def _open(self, path: str, query: Mapping[str, str]) -> None:
        logger.debug("file fetched path=%s by=%s port=%d", path, *self.client_address[:2])
        with Path(path).open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            start = min(max(0, int(query.get("offset", "0"))), size)
            end = min(start + max(0, int(query.get("length", str(size)))), size)
            self.send_response(HTTPStatus.OK)
            self.send_header("Content-Length", str(end - start))
            self.end_headers()
            self.wfile.flush()
            sent = self._send(file, start, end)
        self.server.files.count(sent)

    def _send(self, file: BinaryIO, start: int, end: int) -> int:
        """How much the reader took: one that seeks goes away in the middle."""
        file.seek(start)
        try:
            if start < end:
                self.connection.sendfile(file, start, end - start)
        except (ConnectionError, TimeoutError):
            self.close_connection = True
        return file.tell() - start

    def _refuse(self, status: HTTPStatus, kind: str, message: str) -> None:
        exception = {"exception": kind.rpartition(".")[2], "javaClassName": kind, "message": message}
        self._answer({"RemoteException": exception}, status)

    def _answer(self, value: Mapping[str, Any], status: HTTPStatus = HTTPStatus.OK) -> None:
        body = json.dumps(value).encode()
        self.send_response(status)
        # No Content-Type: to look at one, Hadoop's client needs a class that Spark's distribution lacks.
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Requests are counted, not logged."""


def _status(path: str) -> Mapping[str, object]:
    found = Path(path).stat()
    return {
        "type": "FILE",
        "pathSuffix": "",
        "length": found.st_size,
        "modificationTime": found.st_mtime_ns // 1_000_000,
        "accessTime": 0,
        "blockSize": _BLOCK_BYTES,
        "replication": 1,
        "owner": "selat",
        "group": "selat",
        "permission": "444",
        "fileId": 0,
        "childrenNum": 0,
        "storagePolicy": 0,
    }
