from __future__ import annotations

import json

import pytest

from site_agent.base.errors import SiteAgentError
from site_agent.probes.iperf import read_report


def report(rates: list[int]) -> bytes:
    intervals = [{"sum": {"seconds": 0.1, "bytes": rate}} for rate in rates]
    return json.dumps({"server_output_json": {"intervals": intervals}, "end": {"sum_sent": {"bytes": 12345}}}).encode()


def test_the_receivers_second_half_counts() -> None:
    result = read_report(report([1, 2, 3, 200, 200, 200, 7]))
    assert result.bytes_sent == 12345
    assert result.rate_bytes_per_s == pytest.approx(2000.0)


@pytest.mark.parametrize(
    ("output", "said"),
    [
        (b"", "no report"),
        (b"[]", "too little"),
        (b'{"error": "unable to connect"}', "unable to connect"),
        (report([]), "too little"),
    ],
)
def test_what_is_no_result(output: bytes, said: str) -> None:
    with pytest.raises(SiteAgentError, match=said):
        read_report(output)
