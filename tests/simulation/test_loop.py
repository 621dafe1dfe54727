"""Time jumps, order belongs to the seed, and a killed process does nothing more."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.simulation.loop import PROCESS, Deadlock, Process, ProcessKilled, SimulatedLoop, run


async def _note(notes: list[str], name: str, rounds: int) -> None:
    for number in range(rounds):
        notes.append(f"{name}{number}")
        await asyncio.sleep(0)


def test_an_hour_passes_at_once() -> None:
    async def main(loop: SimulatedLoop) -> float:
        await asyncio.sleep(3600)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(5):
                await asyncio.Event().wait()
        return loop.time()

    assert run(main) == 3605


def _order(seed: int, rest_s: float = 0.0) -> list[str]:
    notes: list[str] = []

    async def main(loop: SimulatedLoop) -> None:
        await asyncio.gather(*(loop.spawn(Process(name), _note(notes, name, 4)) for name in "ab"))

    run(main, seed=seed, rest_s=rest_s)
    return notes


def test_the_seed_draws_whose_turn_it_is_and_each_process_keeps_its_order() -> None:
    orders = {tuple(_order(seed)) for seed in range(20)}
    assert len(orders) > 5
    for order in orders:
        assert [note for note in order if note[0] == "a"] == ["a0", "a1", "a2", "a3"]
    assert _order(7) == _order(7)


def test_processes_that_rest_find_several_callbacks_ready() -> None:
    async def main(loop: SimulatedLoop) -> list[float]:
        ran: list[float] = []

        async def sleeps(seconds: float) -> None:
            await asyncio.sleep(seconds)
            ran.append(loop.time())

        async def several() -> None:
            await asyncio.gather(*(sleeps(number / 1000) for number in range(100)))

        await loop.spawn(Process("resting"), several())
        return ran

    assert len(set(run(main, rest_s=0.02))) < len(set(run(main)))


def test_work_in_threads_takes_a_drawn_time_and_waits_for_a_thread() -> None:
    async def main(loop: SimulatedLoop) -> tuple[list[int], float]:
        done: list[int] = []
        with ThreadPoolExecutor(1) as pool:
            await asyncio.gather(*(loop.run_in_executor(pool, done.append, number) for number in range(3)))
            assert not pool._threads
        await asyncio.to_thread(done.append, 3)
        return done, loop.time()

    done, at_s = run(main)
    assert done == [0, 1, 2, 3]
    assert 0.0004 <= at_s < 0.02


def test_what_has_not_begun_in_a_thread_can_be_cancelled_and_the_rest_goes_on() -> None:
    async def main(loop: SimulatedLoop) -> list[str]:
        done: list[str] = []
        with ThreadPoolExecutor(1) as pool:
            first, second, third = (loop.run_in_executor(pool, done.append, name) for name in "abc")
            first.cancel()
            second.cancel()
            await third
        return done

    assert run(main) == ["a", "c"]


def test_errors_of_threads_reach_the_one_who_waits() -> None:
    async def main(loop: SimulatedLoop) -> None:
        with pytest.raises(ZeroDivisionError):
            await asyncio.to_thread(lambda: 1 // 0)

    run(main)


def test_a_killed_process_runs_no_finally() -> None:
    ran: list[str] = []

    async def victim() -> None:
        try:
            await asyncio.to_thread(lambda: ran.append("thread"))
            await asyncio.sleep(1)
            ran.append("slept")
        finally:
            ran.append("finally")

    async def main(loop: SimulatedLoop) -> None:
        process = Process("victim")
        loop.spawn(process, victim())
        await asyncio.sleep(0.5)
        loop.kill(process)
        await asyncio.sleep(5)
        with pytest.raises(ProcessKilled):
            process.check()

    run(main)
    assert ran == ["thread"]


def test_waiting_for_nothing_is_a_deadlock() -> None:
    async def main(loop: SimulatedLoop) -> None:
        await asyncio.Event().wait()

    with pytest.raises(Deadlock):
        run(main)


def test_cancelled_timers_do_not_pile_up() -> None:
    async def main(loop: SimulatedLoop) -> int:
        for _ in range(2000):
            loop.call_later(100, print).cancel()
            await asyncio.sleep(0.001)
        return len(loop._timers)

    assert run(main) < 500


def test_sets_of_tasks_have_the_same_order_in_every_run() -> None:
    async def main(loop: SimulatedLoop) -> list[int]:
        async def value(number: int) -> int:
            return number

        tasks = [asyncio.create_task(value(number)) for number in range(50)]
        done, _ = await asyncio.wait(tasks)
        return [task.result() for task in done]

    assert run(main) == run(main)


def test_contexts_go_on_in_threads_and_tasks() -> None:
    async def main(loop: SimulatedLoop) -> str:
        async def inside() -> str:
            return await asyncio.to_thread(_current)

        return str(await loop.spawn(Process("one"), inside()))

    assert run(main) == "one"


def _current() -> str:
    return PROCESS.get().name
