"""A WAN on one machine: TCP proxies in user space that pass so many bytes a second each way, and count them.

One proxy per site that is reached; each direction of it is a token bucket of its own, shared by all its connections, so
a proxy is a pair of ordered links. It needs no privileges, leaves nothing behind, and holds what it shapes to the same
rate for whoever sends. What it does not have is latency, loss, and TCP's own reaction to them: bytes wait in
socket buffers instead. `--advertise` has agents reach each other through it.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from contextlib import suppress
from time import monotonic
from types import TracebackType
from typing import Self

CHUNK_BYTES = 8 * 1024
BURST_S = 0.02
_SOCKET_BUFFER_BYTES = 64 * 1024
"""A link that keeps megabytes in its buffers would look slow to one sender and fast to the other."""


class TokenBucket:
    """Bytes per second with a small burst; whoever comes first is served first. Time is given by the caller."""

    def __init__(self, bytes_per_s: float, *, burst_s: float = BURST_S) -> None:
        self._bytes_per_s = bytes_per_s
        self._burst_s = burst_s
        self._free_s = float("-inf")

    def wait_s(self, size_bytes: int, *, now_s: float) -> float:
        """Take these bytes; how long to wait before they may go."""
        begin_s = max(self._free_s, now_s - self._burst_s)
        self._free_s = begin_s + size_bytes / self._bytes_per_s
        return max(0.0, self._free_s - now_s)


class ShapedLink:
    """Passes bytes between whoever connects to `address` and a port here, at so many bits a second each way."""

    def __init__(self, target_port: int, bits_per_s: float) -> None:
        self._target_port = target_port
        self.sent_bytes = 0
        """From the target to those who connected."""
        self.received_bytes = 0
        self._down, self._up = (TokenBucket(bits_per_s / 8) for _ in range(2))
        self._ways: set[asyncio.Future[None]] = set()
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._server.getsockname()[1]
        self.address = f"127.0.0.1:{self.port}"
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._serve, name=f"link {self.address}", daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        server = self._loop.run_until_complete(asyncio.start_server(self._connected, sock=self._server))
        self._loop.run_forever()
        server.close()
        for way in self._ways:
            way.cancel()
        # Whoever began a connection sees its ways end, and ends by itself: asyncio complains when it is cancelled.
        self._loop.run_until_complete(asyncio.gather(*asyncio.all_tasks(self._loop), return_exceptions=True))
        self._loop.close()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            there = await asyncio.open_connection("127.0.0.1", self._target_port, limit=CHUNK_BYTES)
        except OSError:
            # The target is not there: to the caller that is a connection that breaks.
            writer.transport.abort()
            return
        for end in (writer, there[1]):
            end.transport.set_write_buffer_limits(high=CHUNK_BYTES)
            for option in (socket.SO_RCVBUF, socket.SO_SNDBUF):
                end.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, option, _SOCKET_BUFFER_BYTES)
        try:
            ways = [self._pass(reader, there[1], self._up), self._pass(there[0], writer, self._down)]
            tasks = {asyncio.ensure_future(way) for way in ways}
            self._ways |= tasks
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self._ways -= tasks
        finally:
            for end in (writer, there[1]):
                end.transport.abort()

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, bucket: TokenBucket) -> None:
        with suppress(OSError):
            while data := await reader.read(CHUNK_BYTES):
                await asyncio.sleep(bucket.wait_s(len(data), now_s=monotonic()))
                if bucket is self._down:
                    self.sent_bytes += len(data)
                else:
                    self.received_bytes += len(data)
                writer.write(data)
                await writer.drain()
