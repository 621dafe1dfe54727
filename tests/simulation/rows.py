"""The rows of the simulated worlds' relations, by number: the same in every world, so that worlds have epochs in
common."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pyarrow as pa

from contract.times import to_us
from tests.simulation.engine import INSTANT

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
"""The instant of the world's first second."""
FIRST_ROW_S = 2.0
"""A stream that began when it was declared would have other rows in each world, and nothing in the memo."""
LONG_AGO_S = -1000.0
"""The first row of a steady stream all of whose rows are there when a query begins, as files are."""
ROWS_PER_S = 2
ROWS_TOGETHER = 10
"""Epochs end at multiples of this row number."""
DELAY_S = 2.0
"""Rows of a stream come in an order of their own within this time: that of its watermark."""
DISORDER_S = 1.5
PAGES = ("home", "search", "cart", "help")
USERS = 20

TAPS_TOGETHER = 10
"""Rows of a burst."""
STEADY_S, RARE_S = 4.0, 19.0
"""Between bursts, at the first site and at others. Those are idle in between."""
IDLE_S = 6.0
"""A source of bursts is idle after so long."""
BELATED_S = 40.0
"""So much older than its burst is one row of some bursts: it may be late, and counts as such then."""
LAST_BURST_S = 60.0
"""So long after all others each site has one burst more, once the world has asked for it."""

PUSHED_TOGETHER = 10
PUSHED_EVERY_S = 5.0


def at_us(seconds: float) -> int:
    """An instant of the world."""
    return to_us(BEGIN + timedelta(seconds=seconds))


def _salt(site: str) -> int:
    return sum(site.encode())


def last_row_s(rows: int) -> float:
    """When the last row is born."""
    return FIRST_ROW_S + rows / ROWS_PER_S


def clicks(site: str, numbers: range, first_s: float = FIRST_ROW_S) -> pa.Table:
    """Rows of a steady stream, somewhat out of order."""
    salt = _salt(site)
    first_us, step_us = at_us(first_s), 1_000_000 // ROWS_PER_S
    disorder_us = [round(1e6 * DISORDER_S / 3 * (n * 5 % 4)) for n in range(4)]
    return pa.table(
        {
            "user_id": pa.array([(n * 7 + salt) % (USERS + 5) for n in numbers], pa.int64()),
            "page": pa.array([PAGES[(n * 31 + salt) // 3 % len(PAGES)] for n in numbers], pa.string()),
            "ms": pa.array([(n * 37 + salt) % 500 for n in numbers], pa.int32()),
            "ts": pa.array([first_us + n * step_us - disorder_us[n % 4] for n in numbers], INSTANT),
        }
    )


def bursts_s(site: str, first_site: str, rows: int) -> list[float]:
    """When a site's bursts come, but for the last one."""
    every_s = STEADY_S if site == first_site else RARE_S
    begin_s = FIRST_ROW_S + _salt(site) % 3
    count = max(1, int((last_row_s(rows) - begin_s) // every_s))
    return [begin_s + number * every_s for number in range(count)]


def taps(site: str, bursts: list[float], numbers: range) -> pa.Table:
    """Rows of bursts; those behind them are of the last one."""
    salt = _salt(site)
    last_s = bursts[-1] + LAST_BURST_S

    def born_s(number: int) -> float:
        burst, place = divmod(number, TAPS_TOGETHER)
        at_s = bursts[burst] if burst < len(bursts) else last_s
        belated = burst % 3 == 2 and place == 7
        return at_s - place * DISORDER_S / TAPS_TOGETHER - (BELATED_S if belated else 0)

    return pa.table(
        {
            "kind": pa.array([PAGES[(n * 7 + salt) % 3] for n in numbers], pa.string()),
            "force": pa.array([(n * 13 + salt) % 90 for n in numbers], pa.int32()),
            "ts": pa.array([at_us(born_s(n)) for n in numbers], INSTANT),
        }
    )


def batches(rows: int) -> int:
    """How many batches a producer pushes."""
    return int((last_row_s(rows) - FIRST_ROW_S) // PUSHED_EVERY_S)


def pushed_s(batch: int) -> float:
    """When a batch is pushed, at the earliest."""
    return FIRST_ROW_S + (batch + 1) * PUSHED_EVERY_S


def pushes(site: str, batch: int) -> pa.Table:
    """The rows of a batch."""
    salt, end_us = _salt(site), at_us(pushed_s(batch))
    numbers = range(batch * PUSHED_TOGETHER, (batch + 1) * PUSHED_TOGETHER)
    return pa.table(
        {
            "item": pa.array([(n * 11 + salt) % 7 for n in numbers], pa.int64()),
            "amount": pa.array([(n * 17 + salt) % 100 for n in numbers], pa.int32()),
            "ts": pa.array([end_us - n % PUSHED_TOGETHER * 400_000 for n in numbers], INSTANT),
        }
    )


def pushed(stream: str, site: str, batch: int) -> pa.Table:
    """The rows of a batch for a stream; one by arrival has no time in its rows."""
    rows = pushes(site, batch)
    return rows if stream == "pushes" else rows.drop_columns("ts")


def users(numbers: range) -> pa.Table:
    """Rows of the table."""
    plans = pa.array(["free" if n % 3 else "paid" for n in numbers], pa.string())
    return pa.table({"user_id": pa.array(numbers, pa.int64()), "plan": plans})
