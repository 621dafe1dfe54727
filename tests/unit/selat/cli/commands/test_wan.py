from __future__ import annotations

from datetime import timedelta

import pytest

from selat.cli.commands.wan import _pair, _span
from selat.errors import InvalidArgument


def test_links_and_times_as_people_write_them() -> None:
    assert _pair(" us -> eu ") == ("us", "eu")
    assert _span("10min") == timedelta(minutes=10)
    for text in ("us", "us->", "us<->eu"):
        with pytest.raises(InvalidArgument):
            _pair(text)
    with pytest.raises(InvalidArgument):
        _span("long")
