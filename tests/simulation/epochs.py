"""What sites' disks say of channels: each epoch has one content wherever it is, and no watermark goes back."""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass
from pathlib import PurePosixPath

from site_agent.channels.manifest import EpochManifest, manifest_from_json

SUFFIX = ".epoch"
_PREFIX = struct.Struct("<4sII")


@dataclass(frozen=True, slots=True)
class Epoch:
    """What must be the same in all copies of an epoch."""

    watermark_us: int | None
    idle: bool
    rows: int
    crc32: int

    @classmethod
    def of(cls, manifest: EpochManifest) -> Epoch:
        """Of its file's manifest."""
        return cls(manifest.watermark_us, manifest.idle, manifest.rows, manifest.crc32)


class Epochs:
    """The epochs of a world's channels, as they became durable.

    Args:
        whole: Whether copies have all rows; those for parts of merges do not.
        again: Whether a disk may refuse to sync a new name that lasts nevertheless: the epoch is made again then, and
            nobody has seen the first.
    """

    def __init__(self, *, whole: bool, again: bool) -> None:
        self.problems: list[str] = []
        self._whole = whole
        self._again = again
        self._known: dict[tuple[str, int], dict[str, Epoch]] = {}

    def durable(self, site: str, path: PurePosixPath, content: bytes | bytearray) -> None:
        """A file at a site has got its name for good."""
        if path.suffix != SUFFIX:
            return
        manifest = _manifest(content)
        channel, number, found = path.parent.name, manifest.epoch, Epoch.of(manifest)
        known = self._known.setdefault((channel, number), {})
        for at, before in known.items():
            if self._differ(before, found) and not (self._again and at == site):
                self.problems.append(f"epoch {number} of {channel} has two contents: {before} and {found}")
        known[site] = found
        earlier = self._known.get((channel, number - 1), {}).get(site)
        if earlier is not None and earlier.watermark_us is not None and _behind(found, earlier.watermark_us):
            told = f"{earlier.watermark_us} to {found.watermark_us}"
            self.problems.append(f"the watermark of {channel} goes back with epoch {number}: {told}")

    def _differ(self, one: Epoch, other: Epoch) -> bool:
        return one != other if self._whole else one.watermark_us != other.watermark_us


def _behind(epoch: Epoch, watermark_us: int) -> bool:
    return epoch.watermark_us is None or epoch.watermark_us < watermark_us


def _manifest(content: bytes | bytearray) -> EpochManifest:
    _, length, _ = _PREFIX.unpack_from(content)
    return manifest_from_json(json.loads(bytes(content[_PREFIX.size : _PREFIX.size + length]))["manifest"])
