"""A connector of one's own: lines of a text file that grows, each of which begins with its time.

    2026-01-01T00:00:07Z user 17 opened /start

    CREATE STREAM logs (ts TIMESTAMP, line STRING, WATERMARK FOR ts)
      WITH ('connector' = 'lines') AT us WITH ('path' = '/var/log/app.log')

The columns are `ts` and `line`. A line that does not begin with a time has a NULL there, and is counted as late.

This module is what the entry point names: the declaration, by which the master checks options. It must load where
neither Spark nor the site agent is installed; so what does the work is imported when an agent asks for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.relations.catalog import RelationKind
from planner.relations.connectors.common import IDLE_TIMEOUT
from planner.relations.connectors.spec import ConnectorSpec
from planner.relations.options import Option, parse_path

if TYPE_CHECKING:
    from site_agent.connectors.sources import Connector

PATH = Option("path", parse_path, "the absolute path of a file at the site", "", required=True)

SPEC = ConnectorSpec(
    name="lines",
    roles=frozenset({RelationKind.STREAM, RelationKind.TABLE}),
    options=(PATH, IDLE_TIMEOUT),
)


def connector() -> Connector:
    """What does the work at a site."""
    from .reader import LinesConnector

    return LinesConnector()
