"""Settings of a Spark session that a client may read and change."""

from __future__ import annotations

import re
from collections.abc import Mapping

from planner.functions.traits import words
from planner.values.errors import UnsupportedSqlError

_TRUTH = re.compile(r"true|false", re.IGNORECASE)
_NUMBER = re.compile(r"-?\d{1,18}[kmgb]{0,2}", re.IGNORECASE)
_ZONE = re.compile(r"[A-Za-z0-9_+:/-]{1,64}")
_WORD = re.compile(r"[A-Za-z0-9_]{0,64}")

FOR_SPARK: Mapping[str, re.Pattern[str]] = {
    "spark.sql.ansi.enabled": _TRUTH,
    "spark.sql.crossJoin.enabled": _TRUTH,
    "spark.sql.session.timeZone": _ZONE,
    "spark.sql.timestampType": re.compile("TIMESTAMP_LTZ|TIMESTAMP_NTZ", re.IGNORECASE),
}
"""These settings change a plan's meaning and are applied to its session; the patterns match the possible values."""

KEPT: Mapping[str, re.Pattern[str]] = {
    **dict.fromkeys(
        words("""
            spark.sql.adaptive.enabled spark.sql.connect.serverStacktrace.enabled
            spark.sql.execution.arrow.pyspark.enabled
            spark.sql.execution.arrow.pyspark.fallback.enabled spark.sql.execution.arrow.pyspark.selfDestruct.enabled
            spark.sql.execution.arrow.useLargeVarTypes spark.sql.execution.pandas.convertToArrowArraySafely
            spark.sql.execution.pandas.inferPandasDictAsMap spark.sql.execution.pyspark.binaryAsBytes
            spark.sql.execution.pythonUDF.arrow.enabled spark.sql.execution.pythonUDTF.arrow.enabled
            spark.sql.pyspark.inferNestedDictAsStruct.enabled spark.sql.pyspark.jvmStacktrace.enabled
            spark.sql.pyspark.legacy.inferArrayTypeFromFirstElement.enabled
            spark.sql.pyspark.legacy.inferMapTypeFromFirstPair.enabled spark.sql.repl.eagerEval.enabled
            """),
        _TRUTH,
    ),
    **dict.fromkeys(
        words("""
            spark.sql.autoBroadcastJoinThreshold spark.sql.execution.arrow.maxRecordsPerBatch
            spark.sql.repl.eagerEval.maxNumRows spark.sql.repl.eagerEval.truncate spark.sql.shuffle.partitions
            """),
        _NUMBER,
    ),
    "spark.sql.execution.pandas.structHandlingMode": _WORD,
}
"""Clients keep these settings here for themselves, or as hints about speed; they have no effect at the sites."""

DEFAULTS: Mapping[str, str] = {
    "spark.sql.adaptive.enabled": "true",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.artifact.isolation.enabled": "true",
    "spark.sql.autoBroadcastJoinThreshold": "10485760b",
    "spark.sql.caseSensitive": "false",
    "spark.sql.connect.serverStacktrace.enabled": "false",
    "spark.sql.crossJoin.enabled": "true",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "10000",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.execution.arrow.pyspark.fallback.enabled": "true",
    "spark.sql.execution.arrow.pyspark.selfDestruct.enabled": "false",
    "spark.sql.execution.arrow.useLargeVarTypes": "false",
    "spark.sql.execution.pandas.convertToArrowArraySafely": "false",
    "spark.sql.execution.pandas.inferPandasDictAsMap": "false",
    "spark.sql.execution.pandas.structHandlingMode": "legacy",
    "spark.sql.execution.pyspark.binaryAsBytes": "true",
    "spark.sql.execution.pythonUDF.arrow.enabled": "true",
    "spark.sql.execution.pythonUDTF.arrow.enabled": "true",
    "spark.sql.pyspark.inferNestedDictAsStruct.enabled": "false",
    "spark.sql.pyspark.jvmStacktrace.enabled": "false",
    "spark.sql.pyspark.legacy.inferArrayTypeFromFirstElement.enabled": "false",
    "spark.sql.pyspark.legacy.inferMapTypeFromFirstPair.enabled": "false",
    "spark.sql.repl.eagerEval.enabled": "false",
    "spark.sql.repl.eagerEval.maxNumRows": "20",
    "spark.sql.repl.eagerEval.truncate": "20",
    # Rows of a client come within its plan: they are never kept here.
    "spark.sql.session.localRelationBatchOfChunksSizeBytes": "1073741824",
    "spark.sql.session.localRelationCacheThreshold": "2147483647",
    "spark.sql.session.localRelationChunkSizeBytes": "1073741824",
    "spark.sql.session.localRelationChunkSizeRows": "1000000000",
    "spark.sql.session.localRelationSizeLimit": "3145728",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "200",
    "spark.sql.timestampType": "TIMESTAMP_LTZ",
    # A plan is read and checked as it comes.
    "spark.connect.session.planCompression.defaultAlgorithm": "NONE",
    "spark.connect.session.planCompression.threshold": "-1",
}
"""The values of a new session; what is neither here nor in the tables above is not known."""


def checked_setting(name: str, value: str) -> tuple[str, str]:
    """A setting that a client wants to change. Raises UnsupportedSqlError when that is not possible."""
    pattern = FOR_SPARK.get(name) or KEPT.get(name)
    if pattern is None:
        raise UnsupportedSqlError(
            f"setting {name} cannot be changed here",
            found=name,
            hint="possible are " + ", ".join(sorted((*FOR_SPARK, *KEPT))),
        )
    if pattern.fullmatch(value) is None:
        raise UnsupportedSqlError(f"{name} cannot be {value[:80]!r}", found=name, hint=f"as in {DEFAULTS[name]}")
    return name, value
