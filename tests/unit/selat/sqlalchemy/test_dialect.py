"""URLs of the dialect."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import make_url
from sqlalchemy.dialects import registry
from sqlalchemy.exc import ArgumentError

from selat import dbapi
from selat.errors import Unavailable
from selat.sqlalchemy import SelatDialect


def arguments(url: str) -> Any:
    return SelatDialect().create_connect_args(make_url(url))


def test_the_package_brings_the_dialect() -> None:
    assert registry.load("selat") is SelatDialect
    assert SelatDialect.import_dbapi() is dbapi


@pytest.mark.parametrize(
    ("url", "address", "options"),
    [
        ("selat://", None, {}),
        ("selat://master", "master", {}),
        ("selat://master:7410/", "master:7410", {}),
        ("selat://:s%3Ac@master", "master", {"token": "s:c"}),
        (
            "selat://h?tls_dir=/c&insecure=true&timeout_s=1.5&reconnect_s=2",
            "h",
            {
                "tls_dir": "/c",
                "insecure": True,
                "timeout": timedelta(seconds=1.5),
                "reconnect": timedelta(seconds=2),
            },
        ),
    ],
)
def test_urls(url: str, address: str | None, options: dict[str, object]) -> None:
    assert arguments(url) == ([address], options)


@pytest.mark.parametrize("url", ["selat://h?x=1", "selat://h/base", "selat://h?insecure=yes", "selat://h?timeout_s=a"])
def test_urls_that_are_wrong(url: str) -> None:
    with pytest.raises(ArgumentError):
        arguments(url)


def test_a_master_that_is_away_is_a_lost_connection() -> None:
    away, refused = dbapi.OperationalError("away"), dbapi.OperationalError("failed")
    away.__cause__ = Unavailable("away")
    assert SelatDialect().is_disconnect(away, None, None)
    assert not SelatDialect().is_disconnect(refused, None, None)
