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
from math import inf
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


class _Numbered:
    """Hashed by a number: asyncio keeps sets of tasks and futures, whose order must not depend on addresses."""

    _number: int

    def __hash__(self) -> int:
        try:
            return self._number
        except AttributeError:
            # Most futures are never asked for it.
            self._number = self.get_loop().next_number()  # type: ignore[attr-defined]  # of tasks and futures
            return self._number


class NumberedTask(_Numbered, asyncio.Task[Any]):
    """See `_Numbered`."""


class NumberedFuture(_Numbered, asyncio.Future[Any]):
    """See `_Numbered`."""


class Ready(events.Handle):
    """A callback that is ready, without what asyncio keeps for its debug mode."""

    __slots__ = ()
    _repr = None
    _source_traceback = None

    def __init__(self, callback: Any, args: Any, context: Context | None) -> None:
        self._callback = callback
        self._args = args
        self._context = context if context is not None else copy_context()
        self._cancelled = False

    def cancel(self) -> None:
        """See `asyncio.Handle`."""
        self._cancelled = True
        self._callback, self._args = None, ()


class Timer(events.TimerHandle):
    """A callback for an instant; see `Ready`."""

    __slots__ = ()
    _repr = None
    _source_traceback = None

    def __init__(self, when: float, callback: Any, args: Any, loop: SimulatedLoop, context: Context | None) -> None:
        self._when = when
        self._callback = callback
        self._args = args
        self._loop = loop
        self._context = context if context is not None else copy_context()
        self._cancelled = False

    def cancel(self) -> None:
        """See `asyncio.TimerHandle`."""
        if not self._cancelled:
            self._cancelled = True
            self._callback, self._args = None, ()
            self._loop.timer_cancelled()


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
        self._timers: list[tuple[float, int, Timer]] = []
        self._cancelled_timers = 0
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
            # When many worlds leave their tasks behind, looking for those of the next one takes long.
            asyncio.tasks._unregister_task(task)
        self.close()

    def time(self) -> float:
        return self._now_s

    def create_future(self) -> asyncio.Future[Any]:
        return NumberedFuture(loop=self)

    def call_soon(  # type: ignore[override]  # the base class has type variables
        self, callback: Any, *args: Any, context: Context | None = None
    ) -> events.Handle:
        handle = Ready(callback, args, context)
        self._put(handle)
        return handle

    def call_later(  # type: ignore[override]  # as above
        self, delay: float, callback: Any, *args: Any, context: Context | None = None
    ) -> events.TimerHandle:
        return self.call_at(self._now_s + delay, callback, *args, context=context)

    def call_at(  # type: ignore[override]  # as above
        self, when: float, callback: Any, *args: Any, context: Context | None = None
    ) -> events.TimerHandle:
        timer = Timer(when, callback, args, self, context)
        self._number += 1
        heapq.heappush(self._timers, (when, self._number, timer))
        return timer

    def timer_cancelled(self) -> None:
        """A timer need not fire: when there are many such, they are taken out."""
        self._cancelled_timers += 1
        if self._cancelled_timers > max(_MANY_CANCELLED, len(self._timers) // 2):
            self._timers = [timer for timer in self._timers if not timer[2]._cancelled]
            heapq.heapify(self._timers)
            self._cancelled_timers = 0

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
            self._number += 1
            heapq.heappush(self._resting, (process.rests_until_s, self._number, process))
        else:
            self._busy.append(process)

    def _run_once(self) -> None:
        busy = self._busy
        if not busy:
            self._advance()
        now_s, resting = self._now_s, self._resting
        while resting and resting[0][0] <= now_s:
            busy.append(heapq.heappop(resting)[2])
        timers = self._timers
        while timers and timers[0][0] <= now_s:
            timer = heapq.heappop(timers)[2]
            if timer._cancelled:
                self._cancelled_timers -= 1
            else:
                self._put(timer)
        self._turns = self._turns + 1 if now_s == self._turned_at_s else 0
        self._turned_at_s = now_s
        if self._turns > _MOST_TURNS:
            raise Deadlock(f"time stands still at {now_s:.6f} s")
        if busy:
            number = int(self.random.random() * len(busy)) if len(busy) > 1 else 0
            process, busy[number] = busy[number], busy[-1]
            busy.pop()
            self._take_turn(process)

    def _advance(self) -> None:
        """Jump to the next instant at which something happens."""
        timers = self._timers
        while timers and timers[0][2]._cancelled:
            heapq.heappop(timers)
            self._cancelled_timers -= 1
        at_s = timers[0][0] if timers else inf
        if self._resting:
            at_s = min(at_s, self._resting[0][0])
        if at_s < inf:
            self._now_s = max(self._now_s, at_s)
        elif not self._stopping:  # type: ignore[attr-defined]
            raise Deadlock(f"at {self._now_s:.6f} s")

    def _take_turn(self, process: Process) -> None:
        """Run what is ready now, in its order, as one round of asyncio's own loop does."""
        process.queued = True
        ready = process.ready
        for _ in range(len(ready)):
            if not ready:
                break
            handle: Any = ready.popleft()
            if handle._cancelled:
                continue
            try:
                handle._context.run(handle._callback, *handle._args)
            except (SystemExit, KeyboardInterrupt):
                raise
            except BaseException as error:  # noqa: BLE001 - told as asyncio's own loop tells it
                self.call_exception_handler({"message": "Exception in callback", "exception": error, "handle": handle})
        if self._rest_s and process is not self.world:
            process.rests_until_s = self._now_s + self._rest_s * self.random.random() ** 2
        process.queued = False
        if ready:
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
