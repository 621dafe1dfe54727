"""docs/nexmark.md: it has all queries, and each is planned."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from benchmarks.nexmark import STREAMS, Text, queries
from planner.relations.catalog import Catalog
from tests.unit.docs.test_sql_doc import run

PAGE = (Path(__file__).parents[3] / "docs" / "nexmark.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| \[(q\d+)\]\(\S+\) \| [^|]+ \| .+ \|$", PAGE, re.MULTILINE)
SINK = "CREATE SINK bid_log AT us WITH ('connector' = 'parquet', 'path' = '/data/log', 'partition_by' = 'dt, hm')"
TEXTS = queries()


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    return run(f"{STREAMS.read_text()}\n{SINK}", Catalog())


def test_the_page_has_a_row_for_each_query() -> None:
    assert list(TEXTS) == ROWS


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_a_text_is_planned(catalog: Catalog, text: Text) -> None:
    run(text.sql, catalog)
