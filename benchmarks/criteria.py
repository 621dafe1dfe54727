"""All criteria of the benchmarks."""

from __future__ import annotations

from evidence.criteria import Criterion, Direction

AT_LEAST, AT_MOST = Direction.AT_LEAST, Direction.AT_MOST
_PLANE, _LINKS, _LEASES, _SHARING = "the data plane", "the monitor of links", "leases", "sharing"
_BATCH, _MOVES = "batch queries", "moving tasks"
_ADAPTATION = "adaptation"

CRITERIA = (
    Criterion("exchange.speed", "exchange, one channel", AT_LEAST, 300, "MB/s", _PLANE),
    Criterion(
        "exchange.slowest",
        "exchange, many channels at half time: the slowest over the median one",
        AT_LEAST,
        0.5,
        source=f"{_PLANE}: none starves",
    ),
    Criterion(
        "exchange_tls.handshakes",
        "exchange with TLS: throughput of short pulls that is left by handshakes",
        AT_LEAST,
        0.9,
        source=f"{_PLANE}: handshakes cost 10 % at most",
    ),
    Criterion("source_stage.rows", "source stage: rows/s over Structured Streaming's", AT_LEAST, 1, source=_PLANE),
    Criterion("source_stage.cpu", "the same: CPU for a row over Structured Streaming's", AT_MOST, 1, source=_PLANE),
    Criterion("stages.cpu", "an epoch of 5,000 rows: CPU, all of the agent's work", AT_MOST, 45, "ms", _PLANE),
    Criterion("stages.wall", "the same: wall time", AT_MOST, 40, "ms", _PLANE),
    Criterion("peers.rows", "rows/s over the faster peer's", AT_LEAST, 1, source=_PLANE),
    Criterion("peers.right", "Selat and its peers: results equal to DuckDB's", AT_LEAST, 1, source=_PLANE),
    Criterion("latency.median", "window's end to result, median", AT_MOST, 3, "s", _PLANE),
    Criterion("latency.p95", "window's end to result, 95th percentile", AT_MOST, 5, "s", _PLANE),
    Criterion(
        "combine.over_least", "combined at the sources: bytes over the least, worst case", AT_MOST, 1.25, source=_PLANE
    ),
    Criterion(
        "combine.over_delay", "the same: median delay over that without, worst case", AT_MOST, 1.2, source=_PLANE
    ),
    Criterion(
        "combine_narrow.over_least", "on links of 1 and 20 Mbit/s: bytes over the least", AT_MOST, 1.25, source=_PLANE
    ),
    Criterion("combine_narrow.over_delay", "the same: median delay over that without", AT_MOST, 1.2, source=_PLANE),
    Criterion(
        "combine_narrow_long.over_least",
        "the same, windows of ten minutes: bytes over the least",
        AT_MOST,
        1.25,
        source=_PLANE,
    ),
    Criterion(
        "combine_narrow_long.over_delay", "the same: median delay over that without", AT_MOST, 1.2, source=_PLANE
    ),
    Criterion(
        "combine_tree.over_flat", "over a site between: bytes to the merge's site, over those without it", AT_MOST, 0.8
    ),
    Criterion(
        "combine_tree.over_delay", "the same: median delay over that without combining", AT_MOST, 1.2, source=_PLANE
    ),
    Criterion("state.right", "10 million groups in a window: results equal to DuckDB's", AT_LEAST, 1, source=_PLANE),
    Criterion("state.python", "the same: most memory of Python", AT_MOST, 1536, "MiB", _PLANE),
    Criterion("state.jvm", "the same: most memory of the JVM", AT_MOST, 3072, "MiB", _PLANE),
    Criterion(
        "state.written", "the same: bytes of checkpoints over those of what changed", AT_MOST, 1.5, source=_PLANE
    ),
    Criterion("state.late", "the same: event loop late by, at most", AT_MOST, 0.5, "s", _PLANE),
    Criterion(
        "state_combined.right", "the same at a site that combines: equal to DuckDB's", AT_LEAST, 1, source=_PLANE
    ),
    Criterion("state_combined.python", "the same: most memory of Python", AT_MOST, 1536, "MiB", _PLANE),
    Criterion("state_combined.jvm", "the same: most memory of the JVM", AT_MOST, 3072, "MiB", _PLANE),
    Criterion("state_combined.written", "the same: checkpoints over what changed", AT_MOST, 1.5, source=_PLANE),
    Criterion("state_combined.late", "the same: event loop late by, at most", AT_MOST, 0.5, "s", _PLANE),
    Criterion(
        "state_away.right", "a site away for half an hour: results equal to DuckDB's", AT_LEAST, 1, source=_PLANE
    ),
    Criterion("state_away.flat", "the same: memory at the end over memory before", AT_MOST, 1.1, source=_PLANE),
    Criterion("state_away.written", "the same: checkpoints over what changed", AT_MOST, 1.5, source=_PLANE),
    Criterion("state_away.late", "the same: event loop late by, at most", AT_MOST, 0.5, "s", _PLANE),
    Criterion("handover.whole", "a merge moves: no row is missing in its state", AT_LEAST, 1, source=_MOVES),
    Criterion("handover.gap", "the same: longest gap between the source's epochs", AT_MOST, 2, "epochs", source=_MOVES),
    Criterion("handover.data", "the same: share of what another query needs of the link", AT_LEAST, 0.8, source=_MOVES),
    Criterion("handover.duplicates", "the same: duplicate bytes off the prediction", AT_MOST, 0.2, source=_MOVES),
    Criterion(
        "adaptation.ratio", "load, links and a site change: processing ratio", AT_LEAST, 0.98, source=_ADAPTATION
    ),
    Criterion(
        "adaptation.back", "the same: delay back to normal, the slowest change", AT_MOST, 60, "s", source=_ADAPTATION
    ),
    Criterion("adaptation.kept", "the same: share of rows that no merge refused", AT_LEAST, 1, source=_ADAPTATION),
    Criterion(
        "adaptation_orders.gain",
        "a link cut to a third: constrained time of the worse other order, over nako's",
        AT_LEAST,
        1.5,
        source=_ADAPTATION,
    ),
    Criterion("adaptation_orders.time", "the same: nako's over the better one's", AT_MOST, 1, source=_ADAPTATION),
    Criterion("adaptation_orders.moves", "the same: moves, over the better one's", AT_MOST, 1, source=_ADAPTATION),
    Criterion("adaptation_orders.delay", "the same: mean delay, over the better one's", AT_MOST, 1, source=_ADAPTATION),
    Criterion("adaptation_orders.bytes", "the same: bytes, over the better one's", AT_MOST, 1, source=_ADAPTATION),
    Criterion("adaptation_orders.right", "the same: no row is missing or twice", AT_LEAST, 1, source=_ADAPTATION),
    Criterion("placing.operator", "one operator placed over 1,000 sites", AT_MOST, 100, "ms", source=_ADAPTATION),
    Criterion("placing.query", "a query of 20 operators placed in one step", AT_MOST, 1000, "ms", source=_ADAPTATION),
    Criterion("parts.speedup", "a merge bound by one core: in two parts on two cores", AT_LEAST, 1.7, source=_PLANE),
    *(
        Criterion(f"delay.{scene}_{part}", f"{title}: window's end to result, {of}", AT_MOST, limit, "s", _PLANE)
        for scene, title in (("sites", "14 sites"), ("queries", "40 queries"), ("mesh", "60 sites"))
        for part, of, limit in (("median", "median", 5 if scene != "mesh" else 8), ("p95", "95th percentile", 8))
    ),
    Criterion("delay.idle_cores", "60 sites without a query", AT_MOST, 0.2, "cores", _PLANE),
    Criterion("wan_bytes.over_ideal", "WAN bytes over Arrow with zstd, epoch by epoch", AT_MOST, 1.3, source=_PLANE),
    Criterion(
        "leases.inside",
        "leases inside the manager, the slowest way",
        AT_LEAST,
        50_000,
        "grants/s",
        _LEASES,
        was="before, the best of three rounds was held against it; now their median, as everywhere else.",
    ),
    Criterion("leases.grpc", "leases through gRPC, the slowest way", AT_LEAST, 1_500, "grants/s", _LEASES),
    Criterion("wordcount.right", "WordCount: results equal to DuckDB's", AT_LEAST, 1, source=_LEASES),
    Criterion("wordcount.local", "WordCount: local tasks, lease-aware over first-come", AT_LEAST, 1, source=_LEASES),
    Criterion(
        "wordcount.turnaround", "WordCount: mean turnaround, lease-aware over first-come", AT_MOST, 1, source=_LEASES
    ),
    Criterion("sharing.bytes", "sharing: bytes in the same time, sana over no-share", AT_MOST, 0.6, source=_SHARING),
    Criterion(
        "sharing.processed",
        "sharing: rows processed, sana over no-share",
        AT_LEAST,
        1.3,
        source=_SHARING,
        was="before, rows taken in alone were held against this figure; they are still, in the next line. A source at "
        "the merge's own site crosses no link and takes in all that is born, while the merge can answer nothing "
        "before the slowest site's rows have come: rows taken in count those that wait in its state, too.",
    ),
    Criterion("sharing.taken_in", "sharing: rows taken in, sana over no-share", AT_LEAST, 1.3, source=_SHARING),
    Criterion("sharing.over_least", "sharing: sana's bytes over the least possible", AT_MOST, 1.05, source=_SHARING),
    Criterion(
        "sharing.alone_bytes", "one query alone: sana's bytes over those written", AT_MOST, 1.05, source=_SHARING
    ),
    Criterion("sharing.alone_delay", "one query alone: median delay, sana over net", AT_MOST, 1.05, source=_SHARING),
    Criterion("sharing_planner.slowest", "planning a query, the slowest", AT_MOST, 1, "s", _SHARING),
    Criterion(
        "sharing_planner.growth",
        "planning: growth of the time over growth of the number of unrelated queries",
        AT_MOST,
        1,
        source=_SHARING,
    ),
    Criterion("large_results.right", "large results equal to DuckDB's, of 4", AT_LEAST, 4, source=_BATCH),
    *(
        Criterion(
            f"large_results.{query}_{end}",
            f"20 million {query} rows to a {end}: speed over plain Spark's",
            AT_LEAST,
            0.5,
            source=_BATCH,
        )
        for query in ("picked", "computed")
        for end in ("client", "sink")
    ),
    Criterion("large_results.memory", "large results: the most growth of a process", AT_MOST, 1024, "MiB", _BATCH),
    Criterion("monitor.estimate", "estimates off by, the worst look", AT_MOST, 15, "%", _LINKS),
    Criterion("monitor.noticed", "a halved link is noticed, the slowest", AT_MOST, 15, "s", _LINKS),
    Criterion("monitor.cost", "probes, of a link", AT_MOST, 2, "%", _LINKS),
)
