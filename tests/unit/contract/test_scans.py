"""What scans must deliver comes over the wire as it was."""

from __future__ import annotations

from contract.scans import scans_from_proto, scans_to_proto
from planner.values.scans import KeyFilter, SparkExpression, TableScan, Threshold


def test_scans_come_back_equal() -> None:
    null = SparkExpression("Literal", "INT", None)
    column, empty = SparkExpression("AttributeReference", "INT", "a"), SparkExpression("Literal", "STRING", "")
    condition = SparkExpression("EqualNullSafe", "BOOLEAN", None, (column, null, empty), "(a <=> NULL)")
    scans = (
        TableScan("t", ("a", "b"), (condition,), only_in_conditions=("b",), summed=("a",), counted=("c",)),
        TableScan("t", (), (), (KeyFilter("a", 0, "b"),), True),
        TableScan("t", ("a",), thresholds=(Threshold("a", "b", "3.5"), Threshold("a", None, "2"))),
        TableScan("t", ("a",), functions=(("a", (condition, empty)),)),
    )
    assert scans_from_proto(scans_to_proto(scans)) == scans
