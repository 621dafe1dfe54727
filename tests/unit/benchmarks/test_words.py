from __future__ import annotations

import hashlib
from collections import Counter
from itertools import islice
from pathlib import Path

from benchmarks.words import VOCABULARY, WORDS_A_LINE, lines, word, write_shard


def shard(path: Path, *, seed: int = 1, number: int = 0, size_bytes: int = 100_000) -> bytes:
    write_shard(path / "a", seed=seed, shard=number, size_bytes=size_bytes)
    return (path / "a").read_bytes()


def test_every_rank_has_a_word_of_its_own() -> None:
    words = [word(rank) for rank in range(1, VOCABULARY + 1)]
    assert len(set(words)) == VOCABULARY
    assert (words[0], words[-1]) == ("ba", "dadinu")
    assert all(text.isalpha() for text in words)


def test_a_shard_is_whole_lines_of_about_the_size(tmp_path: Path) -> None:
    text = shard(tmp_path)
    assert 100_000 - 150 < len(text) <= 100_000
    assert text.endswith(b"\n")
    assert {len(line.split(b" ")) for line in text.splitlines()} == {WORDS_A_LINE}


def test_the_same_seed_and_shard_give_the_same_text_for_ever(tmp_path: Path) -> None:
    assert (
        hashlib.sha256(shard(tmp_path)).hexdigest()
        == "db90ae9011a912278584ec10f9dcfb9adcf76c863b01acbadaf71da16d28c33e"
    )
    assert shard(tmp_path, size_bytes=1000) == shard(tmp_path)[: len(shard(tmp_path, size_bytes=1000))]
    assert shard(tmp_path, seed=2) != shard(tmp_path) != shard(tmp_path, number=1)


def test_words_are_as_frequent_as_zipf_says() -> None:
    (block,) = islice(lines(3, 0), 1)
    counts = Counter(block.decode().split())
    total = sum(counts.values())
    harmonic = sum(1 / rank for rank in range(1, VOCABULARY + 1))
    for rank in (1, 2, 10, 100):
        assert abs(counts[word(rank)] / total * harmonic * rank - 1) < 0.1
