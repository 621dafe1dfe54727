"""An event loop in virtual time that several simulated processes share, in an order drawn from a seed.

A process is a context variable: a callback belongs to the process in whose context it was scheduled. Each process has a
queue in asyncio's own order; the seed says whose turn it is, how long a process rests after its turn, and how long work
in threads takes. Without rests no two events would ever fall into one turn.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import heapq
import weakref
from asyncio import base_events, events
from collections import deque
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor
from contextvars import Context, ContextVar, copy_context
from random import Random
from typing import Any, TypeVar

T = TypeVar("T")

PROCESS: ContextVar[Process] = ContextVar("simulated process")

DEFAULT_THREADS = 6
"""Of the pool that `asyncio.to_thread` uses."""
LEAST_WORK_S = 0.0001
MOST_WORK_S = 0.003
"""Work in a thread takes so long; most of it is near the least."""
_MANY_CANCELLED = 200
_MOST_TURNS = 100_000


class ProcessKilled(BaseException):
    """The simulated process that did this is dead. No code of the product may catch it."""


class Deadlock(Exception):  # noqa: N818 - a state of the world, not of one part
    """Nothing is ready, and no timer is set; or time stands still."""


class Process:
    """A simulated process: callbacks that are ready, and whether it lives."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.alive = True
        self.ready: deque[events.Handle] = deque()
        self.rests_until_s = 0.0
        self.queued = False
        self.drag_s = 0.0
        """So much longer, at most, does work in its threads take."""
        self.threads = Pool(DEFAULT_THREADS)

    def check(self) -> None:
        """Raises ProcessKilled when the process is dead."""
        if not self.alive:
            raise ProcessKilled

    def context(self) -> Context:
        """A context whose callbacks belong to this process."""
        context = copy_context()
        context.run(PROCESS.set, self)
        return context

    def __repr__(self) -> str:
        return self.name


class NumberedTask(asyncio.Task[Any]):
    """Hashed by its number: asyncio keeps sets of tasks, whose order must not depend on addresses."""

    def __init__(self, coroutine: Coroutine[Any, Any, Any], *, loop: SimulatedLoop, **named: Any) -> None:
        self._number = loop.next_number()
        super().__init__(coroutine, loop=loop, **named)

    def __hash__(self) -> int:
        return self._number


class NumberedFuture(asyncio.Future[Any]):
    """See `NumberedTask`."""

    def __init__(self, *, loop: SimulatedLoop) -> None:
        self._number = loop.next_number()
        super().__init__(loop=loop)

    def __hash__(self) -> int:
        return self._number


class Pool(Executor):
    """Threads of a simulated process. Work runs in one piece, at a later instant."""

    def __init__(self, threads: int, least_s: float = LEAST_WORK_S, most_s: float = MOST_WORK_S) -> None:
        self._idle = threads
        self._waiting: deque[_Work] = deque()
        self._least_s, self._most_s = least_s, most_s

    def begin(self, work: _Work) -> None:
        """Begin the work, or let it wait for a thread."""
        if not self._idle:
            self._waiting.append(work)
            return
        self._idle -= 1
        process = work.context.get(PROCESS)
        most_s = self._most_s + (process.drag_s if process is not None else 0.0)
        takes_s = self._least_s + work.loop.random.random() ** 3 * (most_s - self._least_s)
        work.loop.call_later(takes_s, self._end, work, context=work.context)

    def _end(self, work: _Work) -> None:
        work.run()
        self._idle += 1
        while self._waiting:
            following = self._waiting.popleft()
            # As in a real pool, work that has not begun can be cancelled.
            if not following.future.cancelled():
                self.begin(following)
                return


class _Work:
    """A function for a thread, and the future of its result."""

    def __init__(self, loop: SimulatedLoop, function: Callable[[], Any]) -> None:
        self.loop = loop
        self.context = copy_context()
        self.future = loop.create_future()
        self._function = function

    def run(self) -> None:
        """Also for a future that was cancelled: a thread that has begun goes on."""
        try:
            result = self._function()
        except ProcessKilled:
            return
        except BaseException as error:  # noqa: BLE001 - belongs to the one who waits, as in a real pool
            if not self.future.done():
                self.future.set_exception(error)
        else:
            if not self.future.done():
                self.future.set_result(result)


class _NoSelector:
    """There are no real sockets."""

    def select(self, timeout: float | None) -> tuple[()]:
        return ()

    def close(self) -> None:
        """Nothing is held."""


class SimulatedLoop(base_events.BaseEventLoop):
    """See above.

    Args:
        random: Draws turns, rests and the time that threads take.
        rest_s: The longest rest of a process after its turn; 0: none rests.
    """

    def __init__(self, random: Random, *, rest_s: float = 0.0) -> None:
        super().__init__()
        self.random = random
        self.world = Process("world")
        """Of callbacks that belong to no other process. It never rests."""
        self._rest_s = rest_s
        self._now_s = 0.0
        self._number = 0
        self._turns, self._turned_at_s = 0, 0.0
        self._selector = _NoSelector()
        self._clock_resolution = 1e-9
        self._busy: list[Process] = []
        self._resting: list[tuple[float, int, Process]] = []
        self._dead: list[events.Handle] = []
        """Kept: a coroutine that is collected runs its `finally` blocks."""
        self._left: set[asyncio.Task[Any]] = set()
        self._pools: weakref.WeakKeyDictionary[Executor, Pool] = weakref.WeakKeyDictionary()
        self._scheduled: list[events.TimerHandle]
        self._timer_cancelled_count: int
        self.set_task_factory(self._numbered_task)

    def next_number(self) -> int:
        self._number += 1
        return self._number

    def spawn(self, process: Process, coroutine: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """A task of that process."""
        return process.context().run(self.create_task, coroutine)

    def kill(self, process: Process) -> None:
        """As `kill -9`: nothing of the process runs any more, no `finally` block either."""
        process.alive = False
        self._dead += process.ready
        process.ready.clear()

    def end(self) -> None:
        """Close, and keep what still waits for good: coroutines that are collected, be it at the interpreter's end,
        would run on in a world that is over."""
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self))
        self._left = asyncio.all_tasks(self)
        for task in self._left:
            task._log_destroy_pending = False  # type: ignore[attr-defined]
        self.close()

    def time(self) -> float:
        return self._now_s

    def create_future(self) -> asyncio.Future[Any]:
        return NumberedFuture(loop=self)

    def call_soon(  # type: ignore[override]  # the base class has type variables
        self, callback: Any, *args: Any, context: Context | None = None
    ) -> events.Handle:
        handle = events.Handle(callback, args, self, context)
        self._put(handle)
        return handle

    def call_soon_threadsafe(  # type: ignore[override]  # as above
        self, callback: Any, *args: Any, context: Context | None = None
    ) -> events.Handle:
        return self.call_soon(callback, *args, context=context)

    def run_in_executor(  # type: ignore[override]  # the base class declares an awaitable of a known type
        self, executor: Executor | None, func: Callable[..., Any], *args: Any
    ) -> asyncio.Future[Any]:
        work = _Work(self, lambda: func(*args))
        self._pool(executor).begin(work)
        return work.future

    def _pool(self, executor: Executor | None) -> Pool:
        if executor is None:
            return PROCESS.get(self.world).threads
        if isinstance(executor, Pool):
            return executor
        pool = self._pools.get(executor)
        if pool is None:
            pool = self._pools[executor] = Pool(getattr(executor, "_max_workers", DEFAULT_THREADS))
        if getattr(executor, "_shutdown", False):
            raise RuntimeError("cannot schedule new futures after shutdown")
        return pool

    def _numbered_task(self, _: Any, coroutine: Any, **named: Any) -> asyncio.Task[Any]:
        return NumberedTask(coroutine, loop=self, **named)

    def _put(self, handle: events.Handle) -> None:
        process: Process = handle._context.get(PROCESS, self.world)  # type: ignore[attr-defined]  # as asyncio keeps it
        if not process.alive:
            self._dead.append(handle)
            return
        process.ready.append(handle)
        if not process.queued:
            self._queue(process)

    def _queue(self, process: Process) -> None:
        process.queued = True
        if process.rests_until_s > self._now_s:
            heapq.heappush(self._resting, (process.rests_until_s, self.next_number(), process))
        else:
            self._busy.append(process)

    def _run_once(self) -> None:
        if not self._busy:
            self._advance()
        while self._resting and self._resting[0][0] <= self._now_s:
            self._busy.append(heapq.heappop(self._resting)[2])
        self._fire_timers()
        self._turns = self._turns + 1 if self._now_s == self._turned_at_s else 0
        self._turned_at_s = self._now_s
        if self._turns > _MOST_TURNS:
            raise Deadlock(f"time stands still at {self._now_s:.6f} s")
        if self._busy:
            number = self.random.randrange(len(self._busy)) if len(self._busy) > 1 else 0
            process, self._busy[number] = self._busy[number], self._busy[-1]
            self._busy.pop()
            self._take_turn(process)

    def _advance(self) -> None:
        """Jump to the next instant at which something happens."""
        while self._scheduled and self._scheduled[0].cancelled():
            self._forget(heapq.heappop(self._scheduled))
        instants = [self._resting[0][0]] if self._resting else []
        if self._scheduled:
            instants.append(self._scheduled[0].when())
        if instants:
            self._now_s = max(self._now_s, min(instants))
        elif not self._stopping:  # type: ignore[attr-defined]
            raise Deadlock(f"at {self._now_s:.6f} s")

    def _fire_timers(self) -> None:
        while self._scheduled and self._scheduled[0].when() <= self._now_s:
            timer = heapq.heappop(self._scheduled)
            if timer.cancelled():
                self._forget(timer)
            else:
                timer._scheduled = False  # type: ignore[attr-defined]
                self._put(timer)
        if self._timer_cancelled_count > max(_MANY_CANCELLED, len(self._scheduled) // 2):
            self._scheduled = [timer for timer in self._scheduled if not timer.cancelled()]
            heapq.heapify(self._scheduled)
            self._timer_cancelled_count = 0

    def _forget(self, timer: events.TimerHandle) -> None:
        timer._scheduled = False  # type: ignore[attr-defined]
        self._timer_cancelled_count = max(0, self._timer_cancelled_count - 1)

    def _take_turn(self, process: Process) -> None:
        """Run what is ready now, in its order, as one round of asyncio's own loop does."""
        process.queued = True
        for _ in range(len(process.ready)):
            if not process.ready:
                break
            handle = process.ready.popleft()
            if not handle.cancelled():
                handle._run()
        if self._rest_s and process is not self.world:
            process.rests_until_s = self._now_s + self._rest_s * self.random.random() ** 2
        process.queued = False
        if process.ready:
            self._queue(process)

    def _process_events(self, event_list: object) -> None:
        """There are none."""

    def _write_to_self(self) -> None:
        """Nobody sleeps in a selector."""


def run(main: Callable[[SimulatedLoop], Coroutine[Any, Any, T]], *, seed: object = 0, rest_s: float = 0.0) -> T:
    """Run `main(loop)` in a loop of its own, and end the loop with all that still runs in it."""
    loop = SimulatedLoop(Random(f"{seed}/turns"), rest_s=rest_s)
    collects = gc.isenabled()
    gc.disable()
    try:
        return loop.run_until_complete(main(loop))
    finally:
        loop.end()
        if collects:
            gc.enable()
