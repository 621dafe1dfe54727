"""Tables of Parquet files with a shard at each of three sites."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

SITES = ("us", "eu", "asia")


def write_shards(root: Path, shard: Callable[[int], pa.Table]) -> None:
    """Write the shard of each site, by its number, into a directory of the site's."""
    for number, site in enumerate(SITES):
        (root / site).mkdir()
        pq.write_table(shard(number), root / site / "shard.parquet")


def places(root: Path) -> str:
    """Return where the shards are, as `CREATE TABLE` has it."""
    return " ".join(
        f"AT {site} WITH ('connector' = 'files', 'format' = 'parquet', 'path' = '{root}/{site}')" for site in SITES
    )
