"""What scans of tables must deliver, on the wire."""

from __future__ import annotations

from collections.abc import Iterable

from planner.values.scans import KeyFilter, SparkExpression, TableScan, Threshold
from selat.v1 import exchange_pb2


def scans_to_proto(scans: Iterable[TableScan]) -> exchange_pb2.TableScans:
    return exchange_pb2.TableScans(
        scans=[
            exchange_pb2.TableScan(
                table=scan.table,
                columns=scan.columns,
                conditions=map(_expression_to_proto, scan.conditions),
                filters=[
                    exchange_pb2.KeyFilter(column=f.column, giver=f.giver, giver_column=f.giver_column)
                    for f in scan.filters
                ],
                distinct=scan.distinct,
                only_in_conditions=scan.only_in_conditions,
                summed=scan.summed,
                counted=scan.counted,
                thresholds=[
                    exchange_pb2.Threshold(column=t.column, summand=t.summand, at_least=t.at_least)
                    for t in scan.thresholds
                ],
                functions=[
                    exchange_pb2.ColumnFunctions(column=column, functions=map(_expression_to_proto, functions))
                    for column, functions in scan.functions
                ],
            )
            for scan in scans
        ]
    )


def scans_from_proto(message: exchange_pb2.TableScans) -> tuple[TableScan, ...]:
    return tuple(
        TableScan(
            scan.table,
            tuple(scan.columns),
            tuple(map(_expression_from_proto, scan.conditions)),
            tuple(KeyFilter(f.column, f.giver, f.giver_column) for f in scan.filters),
            scan.distinct,
            tuple(scan.only_in_conditions),
            tuple(scan.summed),
            tuple(scan.counted),
            tuple(
                Threshold(t.column, t.summand if t.HasField("summand") else None, t.at_least) for t in scan.thresholds
            ),
            tuple((f.column, tuple(map(_expression_from_proto, f.functions))) for f in scan.functions),
        )
        for scan in message.scans
    )


def _expression_to_proto(expression: SparkExpression) -> exchange_pb2.SparkExpression:
    return exchange_pb2.SparkExpression(
        kind=expression.kind,
        type=expression.type,
        text=expression.text,
        arguments=map(_expression_to_proto, expression.arguments),
        sql=expression.sql,
    )


def _expression_from_proto(message: exchange_pb2.SparkExpression) -> SparkExpression:
    return SparkExpression(
        kind=message.kind,
        type=message.type,
        text=message.text if message.HasField("text") else None,
        arguments=tuple(map(_expression_from_proto, message.arguments)),
        sql=message.sql,
    )
