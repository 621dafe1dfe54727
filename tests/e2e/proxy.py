"""A TCP proxy in front of an agent: the link to its site, which a test can cut and mend."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from enum import Enum

_CHUNK_BYTES = 64 * 1024


class Cut(Enum):
    """How a link fails."""

    HOLD = "hold"
    """Packets vanish: connections stay, nothing arrives."""
    REFUSE = "refuse"
    """Connections are reset, new ones refused."""


class LinkProxy:
    """Passes bytes between whoever connects to `address` and a port of this machine. Use it from any one thread."""

    def __init__(self, target_port: int) -> None:
        self._target_port = target_port
        self._cut: Cut | None = None
        self._flowing = asyncio.Event()
        self._flowing.set()
        self._writers: set[asyncio.StreamWriter] = set()
        self._server = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._server.getsockname()[1]}"
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._serve, name=f"proxy {self.address}", daemon=True)
        self._thread.start()

    @contextmanager
    def severed(self, cut: Cut) -> Iterator[None]:
        """The link is cut inside the block."""
        self.sever(cut)
        try:
            yield
        finally:
            self.mend()

    def sever(self, cut: Cut) -> None:
        self._loop.call_soon_threadsafe(self._sever, cut)

    def mend(self) -> None:
        self._loop.call_soon_threadsafe(self._mend)

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._server.close()

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        server = self._loop.run_until_complete(asyncio.start_server(self._connected, sock=self._server))
        self._loop.run_forever()
        server.close()
        tasks = asyncio.all_tasks(self._loop)
        for task in tasks:
            task.cancel()
        self._loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        self._loop.close()

    def _sever(self, cut: Cut) -> None:
        self._cut = cut
        self._flowing.clear()
        if cut is Cut.REFUSE:
            for writer in self._writers:
                writer.transport.abort()

    def _mend(self) -> None:
        self._cut = None
        self._flowing.set()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        try:
            if self._cut is not Cut.REFUSE:
                await self._relay(reader, writer)
        except OSError:
            # The agent is not there: to the caller that is a connection that breaks.
            pass
        finally:
            self._writers.discard(writer)
            writer.transport.abort()

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there_reader, there_writer = await asyncio.open_connection("127.0.0.1", self._target_port)
        self._writers.add(there_writer)
        ways = [
            asyncio.create_task(self._pass(reader, there_writer)),
            asyncio.create_task(self._pass(there_reader, writer)),
        ]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
            self._writers.discard(there_writer)
            there_writer.transport.abort()

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(_CHUNK_BYTES):
                await self._flowing.wait()
                writer.write(data)
                await writer.drain()
