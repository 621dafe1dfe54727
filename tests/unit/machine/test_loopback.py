from __future__ import annotations

import pytest

from machine.loopback import is_loopback, refusal


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "127.1", "localhost", "::1", "[::1]", "::ffff:127.0.0.1"])
def test_loopback(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize(
    "host",
    ["0.0.0.0", "0", "::", "[::]", "192.0.2.1", "2001:db8::1", "::ffff:192.0.2.1", "nowhere.invalid", "*", "a" * 300],
)
def test_elsewhere(host: str) -> None:
    assert not is_loopback(host)


def test_the_refusal_names_the_option_and_says_what_would_be_right() -> None:
    assert refusal("--listen", "127.0.0.1:7410") == ("", "")
    assert refusal("--listen", "0.0.0.0:7410") == (
        "--listen 0.0.0.0:7410 is not on loopback, and whoever connects there may do everything",
        "give 127.0.0.1:7410, or --tls-dir with certificates, or --insecure in a network of hosts that you trust",
    )
