"""The live line on stderr: what a query does while its results are read."""

from __future__ import annotations

import logging
import shutil
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

import selat
from machine.terminal import printable, printable_lines
from selat.cli.output import human

BAR_CHARS = 20

_ERASE = "\r\x1b[2K"


class LiveLine:
    """One line at the bottom of a terminal that is written anew; other output passes above it. Thread-safe."""

    def __init__(self, out: TextIO, *, enabled: bool) -> None:
        self._out = out
        self._enabled = enabled
        self._lock = threading.RLock()
        self._text = ""
        self._shown = False

    def show(self, text: str) -> None:
        """Replaces the line."""
        with self._lock:
            self._text = printable(text)
            self._draw()

    @contextmanager
    def above(self) -> Iterator[None]:
        """Output written inside appears above the line."""
        with self._lock:
            self._erase()
            try:
                yield
            finally:
                self._draw()

    def end(self) -> None:
        """Removes the line."""
        with self._lock:
            self._text = ""
            self._erase()

    def _draw(self) -> None:
        if self._enabled and self._text:
            width = shutil.get_terminal_size().columns
            self._out.write(_ERASE + self._text[: width - 1])
            self._out.flush()
            self._shown = True

    def _erase(self) -> None:
        if self._shown:
            self._out.write(_ERASE)
            self._out.flush()
            self._shown = False


class _LogLines(logging.Handler):
    """Shows what the client logs (a master that went away) above the live line."""

    def __init__(self, line: LiveLine, out: TextIO) -> None:
        super().__init__()
        self._line = line
        self._out = out

    def emit(self, record: logging.LogRecord) -> None:
        with self._line.above():
            self._out.write(printable_lines(record.getMessage()) + "\n")
            self._out.flush()


def describe(info: selat.QueryInfo) -> str:
    """The live line's text."""
    if info.batch is not None:
        return describe_batch(info, info.batch)
    parts = [
        f"{info.id} {info.state.value}",
        f"{human.count(info.rows_in)} rows in",
        f"{human.count(info.rows_out)} rows out",
        f"watermark {human.instant(info.watermark)}",
        f"links {human.size(info.link_bytes)}",
    ]
    busy = [f"{link.from_site}>{link.to_site} {human.size(link.bytes)}" for link in info.links if link.bytes]
    return " | ".join(parts) + (f" ({', '.join(busy)})" if busy else "")


def describe_batch(info: selat.QueryInfo, batch: selat.BatchProgress) -> str:
    """The live line of a batch query: a bar, its tasks, and what it waits for."""
    filled = round(BAR_CHARS * batch.share)
    bar = "#" * filled + "." * (BAR_CHARS - filled)
    parts = [
        f"{info.id} [{bar}] {batch.done}/{batch.tasks} tasks, {batch.running} running",
        f"{human.size(batch.done_bytes)} of {human.size(batch.size_bytes)}",
    ]
    if batch.local_share is not None:
        parts.append(f"{batch.local_share:.0%} local")
    parts.append(f"links {human.size(info.link_bytes)}")
    parts += [f"waits: {wait_text(wait)}" for wait in batch.waits[:1] if not batch.running]
    return " | ".join(parts)


def wait_text(wait: selat.BatchWait) -> str:
    """The slot or event that a task waits for, and until when."""
    until = f"; expected {human.instant(wait.until.replace(microsecond=0))}" if wait.until else ""
    return f"{wait.reason or wait.slot}{until}"


@contextmanager
def logged_above(line: LiveLine) -> Iterator[None]:
    """Shows the client's log above the line while the block runs; takes the line away at the end."""
    log = _LogLines(line, sys.stderr)
    logger = logging.getLogger("selat")
    propagate, level = logger.propagate, logger.level
    logger.addHandler(log)
    logger.propagate = False
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        line.end()
        logger.removeHandler(log)
        logger.propagate = propagate
        logger.setLevel(level)


@contextmanager
def watched(query: selat.Query, *, enabled: bool) -> Iterator[LiveLine]:
    """A live line that follows the query while the block runs, and shows the client's log in any case."""
    line = LiveLine(sys.stderr, enabled=enabled)
    with logged_above(line):
        if enabled:
            with query.watch() as watch, _shown_by_thread(line, watch):
                yield line
        else:
            yield line


@contextmanager
def _shown_by_thread(line: LiveLine, watch: selat.Watch) -> Iterator[None]:
    def show() -> None:
        try:
            for info in watch:
                line.show(describe(info))
        except selat.SelatError:
            line.end()

    thread = threading.Thread(target=show, name="selat-live-line", daemon=True)
    thread.start()
    try:
        yield
    finally:
        watch.close()
        thread.join(timeout=1)
