"""Malformed rows on real processes: the query goes on, each one is told once, also when an agent is killed."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

import selat
from tests.e2e.cluster import wait_until
from tests.e2e.faults import Scene, kill

pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.kills, pytest.mark.timeout(400)]

FILES = 12


def write_inputs(root: Path) -> str:
    """Twelve CSV files to follow, a JSON file to replay and a table, with malformed rows; the statements for them."""
    for site in ("us", "eu"):
        (root / site).mkdir()
    for number in range(FILES):
        bad = f"x,{number}\n" if number % 2 else ""
        text = f"{number},2026-01-01 00:00:{number:02d}\n{bad}{number}\n"
        (root / "us" / f"{number:02d}.csv").write_text(text)
    lines = [json.dumps({"v": 100, "ts": "2026-01-01T00:00:05Z"}), "{", json.dumps({"v": "y"})]
    (root / "eu" / "a.json").write_text("\n".join(lines))
    (root / "names.csv").write_text("0,even\n1,odd\nno row\n")
    return f"""
    CREATE STREAM events (v BIGINT, ts TIMESTAMP, WATERMARK FOR ts) WITH ('connector' = 'files')
      AT us WITH ('path' = '{root}/us', 'format' = 'csv', 'until' = 'end', 'max_files_per_epoch' = '1'),
      AT eu WITH ('path' = '{root}/eu', 'format' = 'json', 'mode' = 'replay', 'replay_speed' = 'max');
    CREATE TABLE names (k BIGINT, name STRING)
      AT us WITH ('connector' = 'files', 'format' = 'csv', 'path' = '{root}/names.csv');
    """


def letters(scene: Scene, query: selat.Query) -> list[dict[str, str]]:
    paths = sorted(scene.cluster.data.root.glob(f"sites/*/dead-letters/{query.id}.*/*.jsonl"))
    return [json.loads(line) for path in paths for line in path.read_text().splitlines()]


def test_each_is_told_once_and_the_query_goes_on_without_it(
    isolated: Scene, isolated_client: selat.Client, tmp_path: Path
) -> None:
    client = isolated_client
    list(client.script(write_inputs(tmp_path)))
    query = client.sql("SELECT e.v, n.name FROM events e JOIN names n ON e.v % 2 = n.k")
    assert isinstance(query, selat.Query)
    wait_until(lambda: query.info().rows_malformed >= 5)
    kill(isolated.cluster, "agent-us")
    values = sorted(row["v"] for row in query.results().rows())
    info = query.wait()
    for name in ("events", "names"):
        client.drop(name)

    bad_lines = Counter(letter["site"] for letter in letters(isolated, query))
    assert values == [*range(FILES), 100]
    assert bad_lines == {"us": FILES + FILES // 2 + 1, "eu": 2}
    assert (info.rows_in, info.rows_malformed) == (FILES + 1, sum(bad_lines.values()))
    told = Counter((letter["file"], letter["row"], letter["reason"]) for letter in letters(isolated, query))
    assert set(told.values()) == {1}
    assert (f"{tmp_path}/us/07.csv", "x,7", "v: 'x' is no BIGINT; ts: '7' is no TIMESTAMP") in told
    assert (f"{tmp_path}/us/07.csv", "7", "1 value for 2 columns") in told
    assert (f"{tmp_path}/eu/a.json", '{"v": "y"}', "v: 'y' is no BIGINT") in told
    assert (f"{tmp_path}/names.csv", "no row", "1 value for 2 columns") in told
