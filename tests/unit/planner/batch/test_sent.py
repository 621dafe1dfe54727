"""How much of a split is sent."""

from __future__ import annotations

from planner.batch import SentShares, Shard, Task, transfer_s


def test_it_is_the_mean_of_the_last_splits_of_the_model_else_of_all() -> None:
    sent = SentShares(records=2)
    assert sent.share("count") == 1.0
    sent.add("count", size_bytes=0, sent_bytes=10)
    assert sent.share("count") == 1.0
    for sent_bytes in (90, 40, 60):
        sent.add("count", size_bytes=100, sent_bytes=sent_bytes)
    assert sent.share("count") == 0.5
    assert sent.share("sum") == 0.5
    sent.add("sum", size_bytes=100, sent_bytes=20)
    assert (sent.share("count"), sent.share("sum")) == (0.5, 0.2)


def test_a_transfer_takes_as_long_as_what_is_sent() -> None:
    task = Task("t", "j", "count", (Shard("us", 1000),), sent_share=0.25)
    assert transfer_s(task, "eu", lambda _source, _target: 50.0) == 5.0
    assert transfer_s(task, "us", lambda _source, _target: 50.0) == 0.0
