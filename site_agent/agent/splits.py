"""Lists a table's splits at this site."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from contract.splits import condition_from_proto, split_to_proto
from selat.v1 import exchange_pb2
from site_agent.agent.convert import relation_from_proto
from site_agent.connectors.registry import find_connector
from site_agent.connectors.sources import Connector, SourceContext


def list_splits(
    connectors: Mapping[str, Connector], site: str, request: exchange_pb2.ListSplitsRequest
) -> exchange_pb2.ListSplitsResponse:
    """The splits of a table. Blocks while it looks at the table's files.

    Raises:
        ConnectorError: the relation is no table that its connector can read, or its files cannot be looked at.
    """
    relation = relation_from_proto(request.relation)
    context = SourceContext(
        relation=relation.name,
        site=site,
        columns=relation.columns,
        read_columns=tuple(column.name for column in relation.columns),
        event_time=relation.event_time,
        options=relation.options,
        # Tables have no state.
        directory=Path(),
        created_at=relation.created_at,
        needed=condition_from_proto(request.needed) if request.HasField("needed") else None,
    )
    table = find_connector(connectors, relation.options).open_table(context)
    return exchange_pb2.ListSplitsResponse(splits=map(split_to_proto, table.splits(request.split_bytes)))
