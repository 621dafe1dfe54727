"""Text for WordCount: lines of made-up words, frequent ones as often as Zipf's law says.

    python -m benchmarks.words DIRECTORY [--shards 4] [--megabytes 16] [--seed 1]

The same seed and shard give the same text, on every machine. The word of rank r is drawn in proportion to 1/r, as words
of natural languages are, and spelled from syllables: the rarer the longer. Nothing in it has a meaning to CSV.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.report import say

VOCABULARY = 30_000
WORDS_A_LINE = 12
_CONSONANTS, _VOWELS = "bdfgklmnprstvz", "aeiou"
_SYLLABLES = tuple(c + v for c in _CONSONANTS for v in _VOWELS)
_BLOCK_LINES = 50_000


def word(rank: int) -> str:
    """The word of a rank from 1: its number, written with syllables as digits."""
    spelled = ""
    while rank > 0:
        rank, digit = divmod(rank - 1, len(_SYLLABLES))
        spelled = _SYLLABLES[digit] + spelled
    return spelled


def lines(seed: int, shard: int, *, vocabulary: int = VOCABULARY) -> Iterator[bytes]:
    """Blocks of whole lines, without end."""
    words = pa.array([word(rank) for rank in range(1, vocabulary + 1)])
    weights = 1 / np.arange(1, vocabulary + 1)
    bounds = np.cumsum(weights / weights.sum())
    random = np.random.Generator(np.random.PCG64([seed, shard]))
    offsets = pa.array(np.arange(0, _BLOCK_LINES * WORDS_A_LINE + 1, WORDS_A_LINE, dtype=np.int32))
    while True:
        ranks = np.searchsorted(bounds, random.random(_BLOCK_LINES * WORDS_A_LINE), side="right")
        drawn = words.take(pa.array(np.minimum(ranks, vocabulary - 1)))
        joined = pc.binary_join(pa.ListArray.from_arrays(offsets, drawn), " ")
        whole = pa.ListArray.from_arrays(pa.array([0, len(joined)], pa.int32()), joined)
        yield pc.binary_join(whole, "\n")[0].as_py().encode() + b"\n"


def write_shard(path: Path, *, seed: int, shard: int, size_bytes: int) -> None:
    """A file of whole lines, a line shorter than `size_bytes` at most."""
    left = size_bytes
    with path.open("wb") as file:
        for block in lines(seed, shard):
            if len(block) > left:
                file.write(block[: block.rfind(b"\n", 0, left) + 1])
                return
            file.write(block)
            left -= len(block)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--shards", type=int, default=4, help="files")
    parser.add_argument("--megabytes", type=float, default=16, help="of each")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    arguments.directory.mkdir(parents=True, exist_ok=True)
    for shard in range(arguments.shards):
        path = arguments.directory / f"{shard:04d}.txt"
        write_shard(path, seed=arguments.seed, shard=shard, size_bytes=int(arguments.megabytes * 1e6))
        say(f"{path}: {path.stat().st_size:,} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
