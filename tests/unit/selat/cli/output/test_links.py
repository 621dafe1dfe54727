from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from selat.cli.output.links import matrix, plot
from selat.cli.output.listing import as_text
from selat.client.links import LinkPoint, LinkView, ProbeMethod

LINK = LinkView(
    from_site="us",
    to_site="eu",
    capacity_bytes_per_s=2.5e6,
    available_bytes_per_s=2e6,
    used_bytes_per_s=5e5,
    rtt=timedelta(milliseconds=80),
    loss=0.0,
    age=timedelta(seconds=3),
    confidence=0.99,
    method=ProbeMethod.IPERF3,
    congested=False,
    declared_bytes_per_s=2.5e6,
    declared_latency=timedelta(milliseconds=40),
)


def test_the_matrix_marks_congested_and_unmeasured_links() -> None:
    back = replace(LINK, from_site="eu", to_site="us", age=None, rtt=None, used_bytes_per_s=2.4e6, congested=True)
    lines = as_text(matrix([LINK, back])).splitlines()
    assert lines[0].split() == ["FROM", "\\", "TO", "us", "eu"]
    assert "4 Mbit/s of 20 Mbit/s, 80 ms" in lines[1]
    assert "19.2 Mbit/s of ~20 Mbit/s !" in lines[2]


def test_a_plot_has_the_largest_value_at_its_top() -> None:
    start = datetime(2026, 1, 1, tzinfo=UTC)
    points = [
        LinkPoint(start + timedelta(seconds=n), 1e6 if n < 30 else 5e5, 1e5, timedelta(milliseconds=50), 0.0, None)
        for n in range(60)
    ]
    text = as_text(plot("us to eu", points))
    assert "capacity (top: 8 Mbit/s)" in text
    assert "round trip (top: 50 ms)" in text
    top = text.splitlines()[3]
    assert top.count("█") == 36
    assert "nothing was measured" in as_text(plot("us to eu", []))
