"""Signals that ask this process to end, while it cleans up because of the first of them."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

_ASKING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def interrupted_once() -> Iterator[None]:
    """The first signal does what it does otherwise, which is to end the process; later ones do nothing.

    For blocks that have much to clean up, which nobody else would do: a second Ctrl-C must not stop them half-way.
    Only in the main thread.
    """
    asked = False

    def once(handler: Callable[[int, FrameType | None], object]) -> Callable[[int, FrameType | None], None]:
        def handle(number: int, frame: FrameType | None) -> None:
            nonlocal asked
            if not asked:
                # Before anything is raised, so that no signal comes between the first one and the clean-up.
                asked = True
                handler(number, frame)

        return handle

    handlers = {number: signal.getsignal(number) for number in _ASKING}
    try:
        for number, handler in handlers.items():
            if callable(handler):
                signal.signal(number, once(handler))
        yield
    finally:
        if not asked:
            for number, handler in handlers.items():
                signal.signal(number, handler)
