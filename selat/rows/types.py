"""The Arrow schema of columns, so that a result without rows still has one."""

from __future__ import annotations

import pyarrow as pa

from contract.arrow_types import arrow_type
from selat.values import Column


def arrow_schema(columns: tuple[Column, ...]) -> pa.Schema:
    """The Arrow schema that Spark gives such columns; strings stand for types that are not known here."""
    return pa.schema([(c.name, arrow_type(c.type, unknown=pa.string())) for c in columns])
