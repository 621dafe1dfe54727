"""Decides how hard rows sent over the WAN are compressed: only as hard as is worth the time that it takes.

Sorted groups take about two thirds of the bytes at the thorough level, which takes as long as a link of 1.5 Mbit/s
needs for what it spares. Measured on one core, with keys and sums of some bytes: other rows and cores differ.
"""

from __future__ import annotations

THOROUGH_BYTES_PER_S = 3.5e6
"""Thorough compression takes in this many bytes a second, counted as the rows are in memory."""
SPARED = 0.05
"""Thorough compression saves this share of the rows' size in memory."""
SPARE_S = 0.1
"""Thorough compression may take this much longer than the link time that it saves: bytes count, too."""
ONCE_SPARE_S = 0.02
"""The same, of results and tables, which may stay at their site."""
MOST_BYTES = 8 * 1024 * 1024


def worth_packing(size_bytes: int, link_bytes_per_s: float | None = None, *, spare_s: float = SPARE_S) -> bool:
    """Return whether rows of that size in memory are to be compressed thoroughly.

    Args:
        size_bytes: of the rows in memory.
        link_bytes_per_s: of the link that they are sent over; None: nothing is known of it.
        spare_s: see `SPARE_S`.
    """
    takes_s = size_bytes / THOROUGH_BYTES_PER_S
    spared_s = SPARED * size_bytes / link_bytes_per_s if link_bytes_per_s else 0.0
    return size_bytes <= MOST_BYTES and takes_s - spared_s <= spare_s
