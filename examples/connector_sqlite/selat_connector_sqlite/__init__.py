"""A sink of one's own: rows go into a table of a SQLite database on the site's disk.

    CREATE SINK visits AT us
      WITH ('connector' = 'sqlite', 'path' = '/data/visits.db', 'table' = 'visits', 'roll_interval' = '5 seconds')

The table is made with the first rows, when it is not there. Numbers, texts and bytes are stored as they are, NULL as
NULL, other values as texts.

This module is what the entry point names: the declaration, by which the master checks options. It must load where
neither Spark nor the site agent is installed; so what does the work is imported when an agent asks for it.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from planner.relations.catalog import RelationKind
from planner.relations.connectors.spec import ConnectorSpec
from planner.relations.options import Option, parse_duration, parse_path

if TYPE_CHECKING:
    from site_agent.connectors.sinks import SinkConnector


def _parse_name(text: str) -> str:
    if not text.isidentifier():
        raise ValueError(text)
    return text


PATH = Option("path", parse_path, "the absolute path of a file at the site", "", required=True)
TABLE = Option("table", _parse_name, "a name of letters, digits and _", "", required=True)
ROLL_INTERVAL = Option(
    "roll_interval", parse_duration, "a duration as in '5 seconds'", timedelta(seconds=5), alterable=True
)

SPEC = ConnectorSpec(name="sqlite", roles=frozenset({RelationKind.SINK}), options=(PATH, TABLE, ROLL_INTERVAL))


def connector() -> SinkConnector:
    """What does the work at a site."""
    from .writer import SqliteSink

    return SqliteSink()
