"""Transfers in progress: each moves at its max-min fair rate, which changes with others and with the links."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from simulator.clock import Clock, Event
from simulator.fairness import max_min_rates

Link = tuple[str, str]
"""From one site to another."""


class Transfer:
    """Bytes on their way over links."""

    __slots__ = ("done", "left_bytes", "path", "rate_bytes_per_s")

    def __init__(self, path: Sequence[Link], size_bytes: float, done: Callable[[], None]) -> None:
        self.path = tuple(path)
        self.left_bytes = size_bytes
        self.done = done
        self.rate_bytes_per_s = 0.0


class Network:
    """Links with capacities, and the transfers that share them."""

    def __init__(self, clock: Clock, capacity_bytes_per_s: Callable[[Link], float]) -> None:
        """The capacity of a link is asked for anew whenever rates are computed."""
        self._clock = clock
        self._capacity = capacity_bytes_per_s
        self._transfers: dict[int, Transfer] = {}
        self._begun = 0
        self._moved_s = 0.0
        self._next: Event | None = None

    def send(self, path: Sequence[Link], size_bytes: float, done: Callable[[], None]) -> Transfer:
        """Begin a transfer; `done` is called when its last byte has arrived, at once without a link on its way."""
        transfer = Transfer(path, size_bytes, done)
        if not transfer.path:
            self._clock.after(0.0, done)
            return transfer
        self._move()
        self._begun += 1
        self._transfers[self._begun] = transfer
        self._share()
        return transfer

    def cancel(self, transfer: Transfer) -> None:
        """It goes no further; nothing happens when it is over."""
        self._move()
        self._transfers = {number: found for number, found in self._transfers.items() if found is not transfer}
        self._share()

    def changed(self) -> None:
        """Capacities are others from now on."""
        self._move()
        self._share()

    def _move(self) -> None:
        """What was sent since the last change has arrived."""
        passed_s = self._clock.now_s - self._moved_s
        self._moved_s = self._clock.now_s
        if passed_s > 0:
            for transfer in self._transfers.values():
                transfer.left_bytes -= transfer.rate_bytes_per_s * passed_s

    def _share(self) -> None:
        """Rates anew, and the next end."""
        paths = {number: transfer.path for number, transfer in self._transfers.items()}
        links = {link for path in paths.values() for link in path}
        rates = max_min_rates(paths, {link: self._capacity(link) for link in sorted(links)})
        if self._next is not None:
            self._next.cancel()
            self._next = None
        for number, transfer in self._transfers.items():
            transfer.rate_bytes_per_s = rates[number]
        ends = [t.left_bytes / t.rate_bytes_per_s for t in self._transfers.values() if t.rate_bytes_per_s > 0]
        if ends:
            self._next = self._clock.after(max(0.0, min(ends)), self._end)

    def _end(self) -> None:
        self._next = None
        self._move()
        # What would take less than a microsecond is what rounding left.
        over = [n for n, t in self._transfers.items() if t.left_bytes <= t.rate_bytes_per_s * 1e-6]
        ended = [self._transfers.pop(number) for number in over]
        self._share()
        for transfer in ended:
            transfer.done()
