from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from selat.cli.base.interrupts import interrupted_once


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    """As they were before; SIGTERM raises, as it does in the command."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def test_only_the_first_signal_interrupts() -> None:
    done = []

    def work() -> None:
        with interrupted_once():
            try:
                signal.raise_signal(signal.SIGTERM)
                done.append("work")
            finally:
                signal.raise_signal(signal.SIGTERM)
                signal.raise_signal(signal.SIGINT)
                done.append("clean-up")

    with pytest.raises(KeyboardInterrupt):
        work()
    assert done == ["clean-up"]
    signal.raise_signal(signal.SIGINT)


def test_without_a_signal_everything_is_as_before() -> None:
    with interrupted_once():
        pass
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGTERM)


def test_what_the_parent_ignored_stays_ignored() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with interrupted_once():
        signal.raise_signal(signal.SIGHUP)
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
