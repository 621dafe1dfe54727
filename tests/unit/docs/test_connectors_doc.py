from __future__ import annotations

import re
from pathlib import Path

from examples.connector_lines.selat_connector_lines import LinesConnector
from planner.sql import CreateRelation, parse_script
from site_agent.connectors.files.options import check_options
from site_agent.connectors.generator.connector import GeneratorConnector
from site_agent.connectors.parquet.sink import FILE_BYTES, ROLL_INTERVAL, ParquetSink
from site_agent.ingest import options as push_options

PAGE = Path(__file__).parents[3] / "docs" / "connectors.md"


def test_the_statements_on_the_page_are_right() -> None:
    checks = {
        "files": check_options,
        "generator": GeneratorConnector().check,
        "push": push_options.check_options,
        "parquet": ParquetSink().policy,
        "lines": LinesConnector().check,
    }
    checked = 0
    for block in re.findall(r"```sql\n(.*?)```", PAGE.read_text(), re.DOTALL):
        for statement in parse_script(block):
            assert isinstance(statement, CreateRelation)
            for binding in statement.relation.bindings:
                checks[binding.options["connector"]](binding.options)
                checked += 1
    assert checked >= 10


def test_the_sinks_defaults_are_those_of_the_code() -> None:
    page = PAGE.read_text()
    assert f"| `target_file_bytes` | `{FILE_BYTES.default}` |" in page
    roll_interval = re.search(r"\| `roll_interval` \| `([^`]+)` \|", page)
    assert roll_interval is not None
    assert ROLL_INTERVAL.parse(roll_interval[1]) == ROLL_INTERVAL.default
