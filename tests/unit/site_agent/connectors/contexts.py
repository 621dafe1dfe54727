"""What connector tests open sources with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from site_agent.connectors.sources import SourceContext
from site_agent.engine import Field

CREATED = datetime(2026, 1, 1, tzinfo=UTC)
COLUMNS = (Field("ts", "TIMESTAMP"), Field("v", "BIGINT"))


def source_context(
    directory: Path,
    options: Mapping[str, str],
    *,
    columns: Sequence[Field] = COLUMNS,
    read_columns: Sequence[str] = ("ts", "v"),
    event_time: str = "ts",
) -> SourceContext:
    directory.mkdir(parents=True, exist_ok=True)
    return SourceContext(
        relation="clicks",
        site="us",
        columns=tuple(columns),
        read_columns=tuple(read_columns),
        event_time=event_time,
        options=options,
        directory=directory,
        created_at=CREATED,
    )
