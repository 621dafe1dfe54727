"""The sites of the stand-in for the master."""

from __future__ import annotations

from selat.v1 import common_pb2, site_pb2

T0_US = 1_356_998_400_000_000
"""2013-01-01 00:00:00 UTC"""


def sites() -> list[site_pb2.Site]:
    us = site_pb2.Site(
        name="us",
        state=site_pb2.SITE_STATE_ALIVE,
        address="127.0.0.1:7501",
        slots=2,
        version="0.1.0",
        last_report_us=T0_US + 1,
        memory_bytes=812_000_000,
        memory=site_pb2.MemoryUse(
            agent_bytes=192_000_000,
            jvm_bytes=620_000_000,
            heap_used_bytes=180_000_000,
            heap_committed_bytes=400_000_000,
            heap_max_bytes=1_073_000_000,
            sites=3,
        ),
        disk=site_pb2.DiskUse(
            query_bytes={"q-0001-abcdef": 3_000_000, "q-0002-abcdef": 7_000_000},
            stream_log_bytes=52_000_000,
            budget_bytes=100_000_000,
            free_bytes=5_000_000_000,
        ),
        gateway=True,
        links=[common_pb2.LinkUse(from_site="eu", to_site="us", bytes=1_500_000, epochs=3, bytes_per_s=2000.0)],
        outgoing=[site_pb2.Link(from_site="us", to_site="eu", bandwidth_bytes_per_s=1_250_000.0, latency_s=0.045)],
        stream_logs=[
            site_pb2.StreamLog(
                stream="orders",
                size_bytes=52_000_000,
                rows=900_000,
                batches=120,
                rows_stored=1_000_000,
                limit_bytes=1_073_741_824,
            )
        ],
    )
    return [us, site_pb2.Site(name="eu", state=site_pb2.SITE_STATE_EXPECTED)]
