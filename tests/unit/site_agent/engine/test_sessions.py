"""Sessions made before they are asked for, with a stand-in for Spark."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from site_agent.engine.sessions import Sessions, new_session

pytestmark = pytest.mark.timeout(20)


class FakeSession:
    """Counts what is made of it."""

    def __init__(self) -> None:
        self.made: list[FakeSession] = []
        self.statements: list[str] = []
        self.broken = False
        self.changed = threading.Condition()

    def newSession(self) -> FakeSession:
        with self.changed:
            if self.broken:
                raise OSError("the JVM is gone")
            self.made.append(FakeSession())
            self.changed.notify_all()
            return self.made[-1]

    def sql(self, statement: str) -> FakeSession:
        self.statements.append(statement)
        return self

    def toArrow(self) -> None:
        """Nothing to give."""

    def wait_for(self, count: int) -> None:
        with self.changed:
            assert self.changed.wait_for(lambda: len(self.made) >= count, 10)


@pytest.fixture
def base() -> FakeSession:
    return FakeSession()


def make(base: Any, kept: int) -> Sessions:
    return Sessions(base, kept=kept, rest_s=0.0)


def test_none_is_given_out_twice_and_none_comes_back(base: FakeSession) -> None:
    pool = make(base, 2)
    pool.start()
    taken: list[Any] = []
    for count in range(1, 6):
        base.wait_for(count)
        taken.append(pool.take())
    pool.close()
    assert len({id(session) for session in taken}) == 5
    assert base not in taken


def test_what_is_prepared_has_run_a_statement(base: Any) -> None:
    made: Any = new_session(base)
    assert base.made == [made]
    assert made.statements


def test_without_preparation_each_is_made_when_it_is_asked_for(base: FakeSession) -> None:
    pool = make(base, 0)
    pool.start()
    assert not base.made
    first: Any = pool.take()
    assert base.made == [first]
    assert not first.statements
    pool.close()


def test_a_jvm_that_fails_is_left_to_the_task_that_needs_a_session(base: FakeSession) -> None:
    base.broken = True
    pool = make(base, 2)
    pool.start()
    with pytest.raises(OSError, match="gone"):
        pool.take()
    pool.close()


def test_a_closed_pool_holds_nothing(base: FakeSession) -> None:
    pool = make(base, 3)
    pool.start()
    base.wait_for(3)
    pool.close()
    assert pool.ready == 0
