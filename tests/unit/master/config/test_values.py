"""Settings."""

from __future__ import annotations

from datetime import timedelta

from master.config.values import MasterConfig


def test_the_defaults_are_valid() -> None:
    assert MasterConfig().validate() == ()


def test_every_wrong_setting_is_named() -> None:
    config = MasterConfig(heartbeat_timeout=timedelta(0), epoch_interval=timedelta(seconds=-1), ended_count=-1)
    assert config.validate() == (
        "heartbeat_timeout must be longer than 0 s, not 0 s",
        "epoch_interval must be longer than 0 s, not -1 s",
        "ended_count must be at least 0, not -1",
    )
