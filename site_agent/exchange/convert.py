"""Converts manifests and end marks to messages and back."""

from __future__ import annotations

from selat.v1 import exchange_pb2 as pb
from selat.v1 import site_pb2
from site_agent.channels.manifest import BinRange, EndMark, EpochManifest, Fork, Standing


def manifest_to_proto(manifest: EpochManifest) -> pb.EpochManifest:
    """A manifest without the producer's own `commit`."""
    return pb.EpochManifest(
        epoch=manifest.epoch,
        rows=manifest.rows,
        payload_crc32=manifest.crc32,
        payload_bytes=manifest.size_bytes,
        raw_bytes=manifest.raw_bytes,
        watermark_us=manifest.watermark_us,
        idle=manifest.idle,
        bins=[pb.BinRange(bin=b.bin, first_row=b.first_row, rows=b.rows) for b in manifest.bins],
        whole=manifest.whole,
    )


def manifest_from_proto(message: pb.EpochManifest) -> EpochManifest:
    return EpochManifest(
        epoch=message.epoch,
        rows=message.rows,
        size_bytes=message.payload_bytes,
        crc32=message.payload_crc32,
        watermark_us=message.watermark_us if message.HasField("watermark_us") else None,
        idle=message.idle,
        bins=tuple(BinRange(b.bin, b.first_row, b.rows) for b in message.bins),
        raw_bytes=message.raw_bytes,
        whole=message.whole,
    )


def end_to_proto(end: EndMark) -> pb.EndOfChannel:
    return pb.EndOfChannel(
        last_epoch=end.last_epoch,
        successor_channel=end.successor_channel,
        successor_site=end.successor_site,
        closed_us=end.closed_us,
        cursors=end.cursors,
        rows_late=end.rows_late,
        totals=end.totals,
        fork=None if end.fork is None else fork_to_proto(end.fork),
        dropped={channel: pb.LateEpochs(late_us=epochs) for channel, epochs in end.dropped.items()},
    )


def end_from_proto(message: pb.EndOfChannel) -> EndMark:
    last_epoch = message.last_epoch if message.HasField("last_epoch") else None
    closed_us = message.closed_us if message.HasField("closed_us") else None
    cursors, totals = dict(sorted(message.cursors.items())), dict(sorted(message.totals.items()))
    return EndMark(
        last_epoch,
        message.successor_channel,
        message.successor_site,
        closed_us,
        cursors,
        message.rows_late,
        totals,
        fork_from_proto(message.fork) if message.HasField("fork") else None,
        {channel: dict(sorted(epochs.late_us.items())) for channel, epochs in sorted(message.dropped.items())},
    )


def fork_to_proto(fork: Fork) -> site_pb2.Fork:
    return site_pb2.Fork(query_id=fork.query_id, channel=fork.channel, site=fork.site)


def fork_from_proto(message: site_pb2.Fork) -> Fork:
    return Fork(message.query_id, message.channel, message.site)


def standing_to_proto(standing: Standing) -> pb.Standing:
    return pb.Standing(
        next_epoch=standing.next_epoch,
        watermark_us=standing.watermark_us,
        idle=standing.idle,
        whole=standing.whole,
    )


def standing_from_proto(message: pb.Standing) -> Standing:
    watermark_us = message.watermark_us if message.HasField("watermark_us") else None
    return Standing(message.next_epoch, watermark_us, message.idle, message.whole)
