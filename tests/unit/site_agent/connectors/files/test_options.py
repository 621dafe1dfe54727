from __future__ import annotations

from collections.abc import Mapping

from site_agent.connectors.files.options import reader_options

CSV: Mapping[str, str] = {"connector": "files", "path": "/data", "format": "csv"}


def test_sparks_reader_makes_no_nulls_of_malformed_rows() -> None:
    strict = {"malformed": "fail"}
    told = reader_options(
        {**CSV, **strict, "header": "true", "sep": "\\t", "null_value": "NA", "timestamp_format": "yyyy"}
    )
    assert told == {
        "mode": "FAILFAST",
        "header": "true",
        "sep": "\t",
        "quote": '"',
        "escape": '"',
        "nullValue": "NA",
        "emptyValue": "NA",
        "timestampFormat": "yyyy",
        "enforceSchema": "false",
        "columnPruning": "false",
    }
    assert reader_options({**CSV, **strict, "format": "json"}) == {"mode": "FAILFAST"}
    assert reader_options({**CSV, "format": "json"}) == {
        "mode": "PERMISSIVE",
        "columnNameOfCorruptRecord": "_selat_malformed",
    }
    assert reader_options({**CSV, "format": "parquet"}) == {}
