"""Sessions: each of one principal's, with an end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest
from pyspark.sql.connect import proto as pb

from master.access.caller import Call, begin
from master.base.errors import LimitExceededError, UnknownHandleError
from master.connect.operations import Operation
from master.connect.sessions import CACHED, DETACHED_S, IDLE_S, OPERATIONS, SESSIONS, VIEW_BYTES, Session, Sessions
from planner.access.principal import Kind, Principal
from tests.fakes import CountingHex


class Clock:
    now_s = 0.0


def made(clock: Clock) -> Sessions:
    return Sessions(lambda: clock.now_s, CountingHex())


def be(name: str) -> None:
    begin(Call("m", "p", Principal(Kind.PERSON, name)))


async def test_a_session_is_its_principals() -> None:
    sessions = made(Clock())
    be("ann")
    first = sessions.get("s", "", "")
    assert sessions.get("s", first.server_id, "") is first
    be("bob")
    assert sessions.get("s", "", "") is not first
    with pytest.raises(UnknownHandleError):
        sessions.get("s", first.server_id, "")


async def test_what_nobody_uses_ends() -> None:
    clock = Clock()
    sessions = made(clock)
    session = sessions.get("s", "", "")
    operation = Operation("o", frozenset(), True, lambda: "r")
    operation.start(endless(), lambda response, number: response)
    session.begin(operation)
    await sessions.tick()
    clock.now_s += DETACHED_S + 1
    await sessions.tick()
    assert operation.over
    assert not session.operations
    clock.now_s += IDLE_S + 1
    await sessions.tick()
    assert list(sessions) == []
    with pytest.raises(UnknownHandleError, match="idle"):
        sessions.get("s", session.server_id, "")


async def endless() -> AsyncGenerator[Any, None]:
    await asyncio.Event().wait()
    yield pb.ExecutePlanResponse()


async def test_limits() -> None:
    sessions = made(Clock())
    for number in range(SESSIONS):
        sessions.get(str(number), "", "")
    with pytest.raises(LimitExceededError, match="sessions"):
        sessions.get("more", "", "")
    session = Session("s", "x")
    for number in range(OPERATIONS):
        session.begin(Operation(str(number), frozenset(), True, lambda: "r"))
    with pytest.raises(LimitExceededError, match="operations"):
        session.begin(Operation("more", frozenset(), True, lambda: "r"))
    large = pb.Relation(local_relation=pb.LocalRelation(data=b"x" * (VIEW_BYTES // 2)))
    session.add_view("v", large)
    session.add_view("V", large)
    with pytest.raises(LimitExceededError, match="views"):
        session.add_view("w", large)


async def test_an_end_and_a_clone() -> None:
    sessions = made(Clock())
    session = sessions.get("s", "", "eu")
    session.settings["a"] = "1"
    clone = sessions.clone(session, "t")
    assert (clone.settings, clone.site, clone.server_id == session.server_id) == ({"a": "1"}, "eu", False)
    await sessions.end("s")
    await sessions.end("s")
    assert [found.id for found in sessions] == ["t"]
    await sessions.close()
    assert list(sessions) == []


async def test_what_a_session_caches() -> None:
    session = made(Clock()).get("s", "", "")
    plans = [pb.Relation(common=pb.RelationCommon(plan_id=number)) for number in range(2)]
    session.persist(plans[0])
    session.persist(plans[0])
    assert [session.is_persisted(plan) for plan in plans] == [True, False]
    session.unpersist(plans[0])
    session.unpersist(plans[1])
    assert not session.caches
    session.cache_table("t")
    assert session.caches
    session.persist(plans[1])
    session.clear_cache()
    assert not session.caches
    for number in range(CACHED):
        session.cache_table(f"t{number}")
    for cache in (lambda: session.persist(plans[0]), lambda: session.cache_table("more")):
        with pytest.raises(LimitExceededError, match="1000 plans and tables"):
            cache()
