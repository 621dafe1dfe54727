"""The part of an epoch that one reader asked for."""

from __future__ import annotations

from dataclasses import dataclass, replace

from site_agent.channels.codec import EncodedRows, decode_part, encode
from site_agent.channels.log import ChannelLog
from site_agent.channels.manifest import EpochManifest, select_bins


@dataclass(frozen=True, slots=True)
class Selection:
    """Columns and bins; empty means all."""

    columns: tuple[str, ...] = ()
    bins: tuple[int, ...] = ()
    planes: bool = True
    """False: the reader does not know rows by planes."""

    @property
    def as_stored(self) -> bool:
        """Whether the reader takes whole epochs as they are stored."""
        return self.planes and not self.columns and not self.bins


def read_selected(log: ChannelLog, epoch: int, selection: Selection) -> tuple[EpochManifest, EncodedRows | None]:
    """An epoch ready to be sent. A whole epoch is sent as it is stored; else its rows are encoded again.

    Raises:
        ChannelError: as `ChannelLog.read`.
    """
    manifest, encoded = log.epochs.read_encoded(epoch)
    if encoded is None or selection.as_stored:
        return manifest, encoded
    table = decode_part(encoded, manifest.bins, columns=selection.columns, bins=selection.bins)
    bins = select_bins(manifest.bins, selection.bins) if selection.bins else manifest.bins
    if not table.num_rows:
        return replace(manifest, rows=0, size_bytes=0, raw_bytes=0, crc32=0, bins=()), None
    part = encode(table, planes=selection.planes)
    counted = replace(
        manifest, rows=part.rows, size_bytes=len(part.payload), raw_bytes=part.raw_bytes, crc32=part.crc32, bins=bins
    )
    return counted, part
