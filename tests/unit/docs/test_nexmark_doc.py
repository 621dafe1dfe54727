"""docs/nexmark.md: the queries it says run are planned, the others meet the errors that it and their texts name."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from benchmarks.nexmark import STREAMS, Text, queries
from planner.relations.catalog import Catalog
from planner.values.errors import PlannerError
from tests.unit.docs.test_sql_doc import run

PAGE = (Path(__file__).parents[3] / "docs" / "nexmark.md").read_text(encoding="utf-8")
ROWS = dict(re.findall(r"^\| \[(q\d+)\]\(\S+\) \| [^|]+ \| (yes|no: `[^`]+`) \| .+ \|$", PAGE, re.MULTILINE))
SINK = "CREATE SINK bid_log AT us WITH ('connector' = 'parquet', 'path' = '/data/log', 'partition_by' = 'dt, hm')"
TEXTS = queries()


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    return run(f"{STREAMS.read_text()}\n{SINK}", Catalog())


def test_the_page_has_a_row_for_each_query() -> None:
    assert list(ROWS) == list(TEXTS)


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_a_text_runs_or_is_refused_as_it_and_the_page_say(catalog: Catalog, text: Text) -> None:
    if text.refused is None:
        run(text.sql, catalog)
        assert ROWS[text.name] == "yes"
        assert text.oracle
        return
    with pytest.raises(PlannerError) as caught:
        run(text.sql, catalog)
    assert (caught.value.code, caught.value.message) == text.refused
    assert ROWS[text.name] == f"no: `{caught.value.message}`"
