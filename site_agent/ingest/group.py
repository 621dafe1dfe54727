"""Records that are written together, synced once and acknowledged together."""

from __future__ import annotations

from dataclasses import dataclass, field

from site_agent.ingest import NoRoom, Push
from site_agent.ingest.frames import FrameHeader, FrameKind, pack


@dataclass(slots=True)
class Group:
    """Records that are about to be written together."""

    next_record: int
    next_row: int
    at_us: int
    frames: list[bytes] = field(default_factory=list)
    sequences: dict[str, int] = field(default_factory=dict)
    """The newest of each producer in the group."""
    size_bytes: int = 0
    blocked: NoRoom | None = None

    def frame(self, kind: FrameKind, push: Push | None = None) -> bytes:
        header = FrameHeader(kind, self.next_record, self.next_row, at_us=self.at_us)
        if push is None:
            return pack(header, b"")
        raw_bytes = push.rows.raw_bytes if push.rows else 0
        header = FrameHeader(
            kind,
            self.next_record,
            self.next_row,
            push.sequence,
            self.at_us,
            push.row_count,
            raw_bytes,
            producer=push.producer,
        )
        return pack(header, push.payload)

    def add(self, frame: bytes, rows: int) -> None:
        self.frames.append(frame)
        self.size_bytes += len(frame)
        self.next_record += 1
        self.next_row += rows
