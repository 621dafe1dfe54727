from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from planner.values.topology import parse_topology
from selat.demo.dataset import Dataset, prepare, queries


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    return prepare(tmp_path_factory.mktemp("nyc"))


def lines(*paths: Path) -> list[str]:
    return [line for path in paths for line in path.read_text().splitlines()]


def test_every_departure_is_where_it_was_born(dataset: Dataset) -> None:
    assert dict(dataset.rows) == {"ewr": 120_835, "jfk": 111_279, "lga": 104_662}
    for site, count in dataset.rows.items():
        files = sorted((dataset.root / site / "flights").iterdir())
        assert [f.name for f in files] == [f"2013-{month:02}.csv" for month in range(1, 13)]
        header, *rows = lines(files[0])
        assert header.startswith("year,month,day,dep_time,")
        assert all(f",{site.upper()}," in row for row in rows)
        assert sum(len(lines(f)) - 1 for f in files) == count


def test_rows_are_unchanged(dataset: Dataset) -> None:
    first = lines(dataset.root / "ewr" / "flights" / "2013-01.csv")[1]
    assert first == "2013,1,1,517,515,2,830,819,11,UA,1545,N14228,EWR,IAH,227,1400,5,15,2013-01-01T10:00:00Z"


def test_weather_stays_at_its_airport_and_reference_data_at_the_hub(dataset: Dataset) -> None:
    weather = [lines(dataset.root / site / "weather.csv") for site in dataset.rows]
    assert sum(len(rows) - 1 for rows in weather) == 26_115
    assert all(row.startswith("JFK,") for row in lines(dataset.root / "jfk" / "weather.csv")[1:])
    counts = {f.name: len(lines(f)) - 1 for f in (dataset.root / "hub").iterdir()}
    assert counts == {"airlines.csv": 16, "planes.csv": 3322, "airports.csv": 1458}


def test_raw_bytes_are_what_zstd_makes_of_each_airports_rows(dataset: Dataset) -> None:
    assert set(dataset.raw_bytes) == {"ewr", "jfk", "lga"}
    assert 6_500_000 < sum(dataset.raw_bytes.values()) < 7_500_000


def test_the_sql_names_the_directory_and_the_speed(dataset: Dataset) -> None:
    text = (dataset.root / "declare.sql").read_text()
    assert text == dataset.declare_sql
    assert f"'path' = '{dataset.root}/ewr/flights'" in text
    assert "'replay_speed' = '525600'" in text
    assert "{" not in text


def test_the_topology_has_the_sites_that_the_sql_binds(dataset: Dataset) -> None:
    topology = parse_topology(yaml.safe_load(dataset.topology.read_text()))
    assert set(topology.sites) == {"hub", "ewr", "jfk", "lga"}
    assert topology.gateway == "hub"


def test_each_query_is_written_too(dataset: Dataset) -> None:
    written = {q.name: (dataset.root / f"{q.name}.sql").read_text() for q in queries()}
    assert written == {q.name: q.sql for q in queries()}
    assert len(written) >= 4


def test_preparing_again_gives_the_same(dataset: Dataset, tmp_path: Path) -> None:
    first = prepare(tmp_path)
    (tmp_path / "ewr" / "flights" / "stray.csv").write_text("left over")
    again = prepare(tmp_path)
    assert again == first
    assert len(list((tmp_path / "ewr" / "flights").iterdir())) == 12
