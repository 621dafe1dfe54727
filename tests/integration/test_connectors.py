"""Connectors on a real Spark: what their scans yield, epoch by epoch."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from contract.times import to_us
from planner.relations.connectors.generator import parse_rate_changes
from site_agent.base.errors import EngineError
from site_agent.connectors.generator.schedule import Schedule
from site_agent.connectors.registry import find_connector, make_connectors
from site_agent.connectors.sources import Poll, ReadLimit, Source, SourceContext
from site_agent.engine import EpochRequest, Field, MalformedRow
from site_agent.engine.spark import SparkEngine

pytestmark = pytest.mark.spark

CREATED = datetime(2026, 1, 1, tzinfo=UTC)
SECOND = timedelta(seconds=1)


def open_source(
    engine: SparkEngine, directory: Path, options: Mapping[str, str], columns: Sequence[Field], *, site: str = "us"
) -> Source:
    own = directory / "sources" / "task"
    own.mkdir(parents=True, exist_ok=True)
    context = SourceContext(
        relation="s",
        site=site,
        columns=tuple(columns),
        read_columns=tuple(c.name for c in columns),
        event_time="ts",
        options=options,
        directory=own,
        created_at=CREATED,
    )
    return find_connector(make_connectors(engine), options).open_source(context)


def epochs(
    engine: SparkEngine, source: Source, *, limit: ReadLimit, start: datetime, step: timedelta = SECOND
) -> Iterator[tuple[Poll, pa.Table]]:
    """Polls with a clock that moves by `step`, until the source ends."""
    offset, now = source.initial(), start
    while True:
        poll = source.poll(offset, now=now, limit=limit)
        if not poll.empty:
            request = EpochRequest(
                "connectors", "SELECT * EXCEPT (site) FROM input", source.scan(offset, poll.end), "us"
            )
            yield poll, engine.run(request).table
        if poll.ended:
            return
        offset, now = poll.end, now + step


def everything(
    engine: SparkEngine, source: Source, *, limit: ReadLimit, start: datetime = CREATED, step: timedelta = SECOND
) -> pa.Table:
    tables = [table for _, table in epochs(engine, source, limit=limit, start=start, step=step)]
    return pa.concat_tables(tables).combine_chunks()


class TestGenerator:
    COLUMNS = (
        Field("ts", "TIMESTAMP"),
        Field("id", "BIGINT"),
        Field("page", "STRING"),
        Field("country", "STRING"),
        Field("price", "DECIMAL(6,2)"),
        Field("share", "DOUBLE"),
        Field("flag", "BOOLEAN"),
        Field("age", "SMALLINT"),
        Field("maybe", "INT"),
    )
    OPTIONS = {  # noqa: RUF012
        "connector": "generator",
        "rows": "5000",
        "seed": "7",
        "rate_schedule": f"[[{to_us(CREATED)}, 1000], [{to_us(CREATED) + 1_234_567}, 333.3], "
        f"[{to_us(CREATED) + 2_000_000}, 0], [{to_us(CREATED) + 3_000_000}, 2500]]",
        "column.id": "sequence",
        "column.page": "zipf(50, 1.2)",
        "column.country": "choice(us, 'e, u', 'it''s')",
        "column.age": "uniform(18, 21)",
        "column.maybe.null_fraction": "0.25",
    }

    @pytest.fixture(scope="class")
    @classmethod
    def whole(cls, spark_engine: SparkEngine, tmp_path_factory: pytest.TempPathFactory) -> pa.Table:
        return cls.rows(spark_engine, tmp_path_factory.mktemp("generator"), 10_000)

    @classmethod
    def rows(cls, engine: SparkEngine, tmp_path: Path, limit: int) -> pa.Table:
        source = open_source(engine, tmp_path, cls.OPTIONS, cls.COLUMNS)
        return everything(engine, source, limit=ReadLimit(rows=limit), step=SECOND / 2)

    def test_the_same_row_at_the_same_offset_however_it_is_split(
        self, spark_engine: SparkEngine, tmp_path: Path, whole: pa.Table
    ) -> None:
        assert whole.num_rows == 5000
        assert self.rows(spark_engine, tmp_path, 777).equals(whole)

    def test_rows_are_born_by_the_schedule(self, whole: pa.Table) -> None:
        schedule = Schedule(parse_rate_changes(self.OPTIONS["rate_schedule"]))
        born = whole.column("ts").cast(pa.int64()).to_pylist()
        assert born == [schedule.time_us(row) for row in range(5000)]
        assert whole.column("id").to_pylist() == list(range(5000))

    def test_values_are_what_the_columns_ask_for(self, whole: pa.Table) -> None:
        columns = whole.to_pydict()
        assert set(columns["country"]) == {"us", "e, u", "it's"}
        assert set(columns["age"]) == {18, 19, 20, 21}
        assert set(columns["flag"]) == {True, False}
        assert all(0 <= share < 1 for share in columns["share"])
        assert all(0 <= price <= 100 for price in columns["price"])
        nulls = sum(value is None for value in columns["maybe"]) / 5000
        assert 0.2 < nulls < 0.3
        pages = columns["page"]
        assert set(pages) <= {f"page-{k}" for k in range(1, 51)}
        assert pages.count("page-1") > 4 * pages.count("page-5") > 0

    def test_another_seed_gives_other_values(self, spark_engine: SparkEngine, tmp_path: Path, whole: pa.Table) -> None:
        other = open_source(spark_engine, tmp_path, {**self.OPTIONS, "seed": "8"}, self.COLUMNS)
        table = everything(spark_engine, other, limit=ReadLimit(), start=CREATED + timedelta(minutes=1))
        assert table.column("ts").equals(whole.column("ts"))
        assert not table.column("share").equals(whole.column("share"))


class TestPresets:
    COLUMNS: Mapping[str, Sequence[Field]] = {
        "ysb": (
            *(Field(name, "STRING") for name in ("user_id", "page_id", "ad_id", "ad_type", "event_type", "ip_address")),
            Field("ts", "TIMESTAMP"),
        ),
        "posts": (
            Field("post_id", "BIGINT"),
            Field("user_id", "STRING"),
            Field("country", "STRING"),
            Field("topic", "INT"),
            Field("latitude", "DOUBLE"),
            Field("longitude", "DOUBLE"),
            Field("ts", "TIMESTAMP"),
        ),
        "sensors": (
            Field("device_id", "STRING"),
            Field("temperature", "DOUBLE"),
            Field("humidity", "FLOAT"),
            Field("battery", "DECIMAL(5,1)"),
            Field("ts", "TIMESTAMP"),
        ),
    }

    def rows(
        self, engine: SparkEngine, tmp_path: Path, preset: str, *, limit: int = 100_000, site: str = "us"
    ) -> pa.Table:
        """A day of them: one each five seconds or so."""
        options = {"connector": "generator", "preset": preset, "rows_per_second": "0.2", "rows": "17280", "seed": "5"}
        source = open_source(engine, tmp_path, options, self.COLUMNS[preset], site=site)
        return everything(engine, source, limit=ReadLimit(rows=limit), start=CREATED + timedelta(days=2))

    @pytest.mark.parametrize("preset", ["ysb", "posts", "sensors"])
    def test_rows_do_not_depend_on_how_they_are_read(
        self, spark_engine: SparkEngine, tmp_path: Path, preset: str
    ) -> None:
        whole = self.rows(spark_engine, tmp_path, preset)
        assert whole.num_rows == 17280
        assert self.rows(spark_engine, tmp_path, preset, limit=7000).equals(whole)

    def test_ads(self, spark_engine: SparkEngine, tmp_path: Path) -> None:
        columns = self.rows(spark_engine, tmp_path, "ysb").to_pydict()
        assert set(columns["event_type"]) == {"view", "click", "purchase"}
        assert set(columns["ad_type"]) == {"banner", "modal", "sponsored-search", "mail", "mobile"}
        assert set(columns["ad_id"]) == {f"ad_id-{n}" for n in range(1000)}
        assert set(columns["ip_address"]) == {"1.2.3.4"}

    def test_posts_differ_by_site_and_by_time(self, spark_engine: SparkEngine, tmp_path: Path) -> None:
        us = self.rows(spark_engine, tmp_path, "posts").to_pandas()
        eu = self.rows(spark_engine, tmp_path, "posts", site="eu").to_pandas()
        shares = us.country.value_counts(normalize=True)
        assert len(shares) == 12
        assert shares.iloc[0] > 0.35
        assert shares.index[0] != eu.country.value_counts().index[0]
        home = us[us.country == shares.index[0]]
        assert home.user_id.nunique() < 0.6 * len(home)
        assert (home.latitude.max() - home.latitude.min()) <= 4
        tops = [home.iloc[start : start + 50].topic.mode()[0] for start in (0, 4000)]
        assert tops[0] != tops[1]

    def test_sensors(self, spark_engine: SparkEngine, tmp_path: Path) -> None:
        rows = self.rows(spark_engine, tmp_path, "sensors").to_pandas()
        assert rows.device_id.nunique() == 100
        assert rows.device_id[0] == "us-0"
        assert rows.temperature.between(11.4, 28.6).all()
        assert rows.humidity.between(37.9, 72.1).all()
        assert rows.battery.astype(float).between(0, 100).all()
        one = rows[rows.device_id == "us-0"]
        assert one.temperature.iloc[:87].mean() > 22 > 18 > one.temperature.iloc[87:].mean()


class TestFollow:
    COLUMNS = (Field("ts", "TIMESTAMP"), Field("v", "BIGINT"))
    OPTIONS: Mapping[str, str] = {"connector": "files", "format": "csv", "until": "end", "max_files_per_epoch": "2"}

    def test_every_row_of_every_file_once(self, spark_engine: SparkEngine, tmp_path: Path) -> None:
        data = tmp_path / "data"
        data.mkdir()
        for number in range(5):
            (data / f"{number}.csv").write_text(f"2026-01-01 00:00:00,{2 * number}\n,{2 * number + 1}\n")
        source = open_source(spark_engine, tmp_path, {**self.OPTIONS, "path": str(data)}, self.COLUMNS)
        found = list(epochs(spark_engine, source, limit=ReadLimit(), start=CREATED))
        assert [table.num_rows for _, table in found] == [4, 4, 2]
        values = [v for _, table in found for v in table.column("v").to_pylist()]
        assert sorted(values) == list(range(10))

    @pytest.mark.parametrize("read", [("v", "arrived"), ("arrived",)])
    def test_rows_have_the_time_at_which_their_file_was_discovered(
        self, spark_engine: SparkEngine, tmp_path: Path, read: tuple[str, ...]
    ) -> None:
        data = tmp_path / "data"
        data.mkdir()
        own = tmp_path / "own"
        own.mkdir()
        options = {"connector": "files", "format": "csv", "path": str(data)}
        columns = (Field("v", "BIGINT"),)
        context = SourceContext("s", "us", columns, read, "arrived", options, own, CREATED)
        source = find_connector(make_connectors(spark_engine), options).open_source(context)
        start, end = source.initial(), source.initial()
        for number in range(3):
            (data / f"{number}.csv").write_text(f"{number}\n{number}\nx\n")
            now = CREATED + timedelta(microseconds=number)
            end = source.poll(end, now=now, limit=ReadLimit()).end
        sql = f"SELECT {', '.join(read)} FROM input"
        malformed: list[MalformedRow] = []
        request = EpochRequest("arrivals", sql, source.scan(start, end), "us", malformed=malformed.extend)
        result = spark_engine.run(request)
        found = [tuple(row.values()) for row in result.table.to_pylist()]
        wanted = [(number, CREATED + timedelta(microseconds=number)) for number in (0, 0, 1, 1, 2, 2)]
        assert sorted(found) == [row[-len(read) :] for row in wanted]
        assert [row.row for row in malformed] == ["x"] * 3

    def test_a_malformed_file_fails_with_its_name_where_it_is_asked_for(
        self, spark_engine: SparkEngine, tmp_path: Path
    ) -> None:
        (tmp_path / "bad.csv").write_text("2026-01-01 00:00:00,x\n")
        options = {**self.OPTIONS, "path": str(tmp_path), "pattern": "*.csv", "malformed": "fail"}
        source = open_source(spark_engine, tmp_path, options, self.COLUMNS)
        with pytest.raises(EngineError, match=r"bad\.csv.*\"x\""):
            everything(spark_engine, source, limit=ReadLimit())


REPLAYED_ROWS = 70_000


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three files of shuffled rows, about one an event second; one row in a thousand has no event time."""
    directory = tmp_path_factory.mktemp("data")
    generator = random.Random(3)
    start_us = to_us(CREATED)
    times = [start_us + generator.randrange(REPLAYED_ROWS * 1_000_000) for _ in range(REPLAYED_ROWS)]
    table = pa.table(
        {
            "v": pa.array(range(REPLAYED_ROWS)),
            "ts": pa.array([None if t % 1000 == 0 else t for t in times], pa.timestamp("us", tz="UTC")),
            "my tags": pa.array([[("a", i % 5)] for i in range(REPLAYED_ROWS)], pa.map_(pa.string(), pa.int32())),
        }
    )
    for number, (start, end) in enumerate(((0, 10_000), (10_000, 40_000), (40_000, REPLAYED_ROWS))):
        pq.write_table(table.slice(start, end - start), directory / f"{number}.parquet")
    return directory


class TestReplay:
    COLUMNS = (Field("v", "BIGINT"), Field("ts", "TIMESTAMP"), Field("my tags", "MAP<STRING, INT>"))

    def options(self, data: Path, **more: str) -> dict[str, str]:
        return {"connector": "files", "path": str(data), "format": "parquet", "mode": "replay", **more}

    def test_all_rows_once_in_the_order_of_time(self, spark_engine: SparkEngine, tmp_path: Path, data: Path) -> None:
        options = self.options(data, replay_speed="3600")
        source = open_source(spark_engine, tmp_path, options, self.COLUMNS)
        found = list(epochs(spark_engine, source, limit=ReadLimit(), start=CREATED))
        table = pa.concat_tables([t for _, t in found])
        assert sorted(table.column("v").to_pylist()) == list(range(REPLAYED_ROWS))
        times = table.column("ts").cast(pa.int64()).to_pylist()
        known = [t for t in times if t is not None]
        assert times[: len(times) - len(known)] == [None] * (len(times) - len(known))
        assert known == sorted(known)
        assert len(found) == pytest.approx(REPLAYED_ROWS / 3600, abs=2)

    def test_as_fast_as_it_goes_in_few_large_epochs(
        self, spark_engine: SparkEngine, tmp_path: Path, data: Path
    ) -> None:
        source = open_source(spark_engine, tmp_path, self.options(data, replay_speed="max"), self.COLUMNS)
        found = list(epochs(spark_engine, source, limit=ReadLimit(rows=40_000), start=CREATED))
        assert [t.num_rows for _, t in found] == [40_000, 30_000]
        assert sorted(v for _, t in found for v in t.column("v").to_pylist()) == list(range(REPLAYED_ROWS))

    def test_every_epoch_keeps_the_promise_of_the_one_before(
        self, spark_engine: SparkEngine, tmp_path: Path, data: Path
    ) -> None:
        source = open_source(spark_engine, tmp_path, self.options(data, replay_speed="10000"), self.COLUMNS)
        floor_us = None
        for poll, table in epochs(spark_engine, source, limit=ReadLimit(), start=CREATED):
            times = [t for t in table.column("ts").cast(pa.int64()).to_pylist() if t is not None]
            assert floor_us is None or min(times) >= floor_us
            floor_us = poll.event_time_floor_us

    def test_tasks_of_one_site_prepare_once(self, spark_engine: SparkEngine, tmp_path: Path, data: Path) -> None:
        connectors = make_connectors(spark_engine)
        for task in ("one", "two"):
            own = tmp_path / "sources" / task
            own.mkdir(parents=True)
            options = self.options(data)
            context = SourceContext("s", "us", self.COLUMNS, ("v",), "ts", options, own, CREATED)
            find_connector(connectors, options).open_source(context).initial()
        assert len(list((tmp_path / "sources" / "prepared").iterdir())) == 1

    def test_a_malformed_file_fails_with_its_name_where_it_is_asked_for(
        self, spark_engine: SparkEngine, tmp_path: Path
    ) -> None:
        (tmp_path / "bad.csv").write_text("1,2026-01-01 00:00:00\nx,\n")
        options = {**self.options(tmp_path), "format": "csv", "pattern": "*.csv", "malformed": "fail"}
        source = open_source(spark_engine, tmp_path, options, self.COLUMNS[:2])
        with pytest.raises(EngineError, match=r"bad\.csv"):
            source.initial()
        assert not list((tmp_path / "sources" / "prepared").glob("[!.]*"))

    def test_malformed_rows_are_set_aside_once(self, spark_engine: SparkEngine, tmp_path: Path) -> None:
        (tmp_path / "bad.csv").write_text("1,2026-01-01 00:00:02\nx,\n2,2026-01-01 00:00:01\n3,noon\n")
        options = {**self.options(tmp_path, replay_speed="max"), "format": "csv", "pattern": "*.csv"}
        source = open_source(spark_engine, tmp_path, options, self.COLUMNS[:2])
        poll = source.poll(source.initial(), now=CREATED, limit=ReadLimit())
        taken: list[MalformedRow] = []
        scan = source.scan(source.initial(), poll.end)
        result = spark_engine.run(EpochRequest("bad", "SELECT v FROM input", scan, "us", malformed=taken.extend))
        assert (poll.ended, result.table.to_pydict(), result.rows_malformed) == (True, {"v": [2, 1]}, 2)
        assert [(row.file, row.reason) for row in taken] == [
            (str(tmp_path / "bad.csv"), "v: 'x' is no BIGINT"),
            (str(tmp_path / "bad.csv"), "ts: 'noon' is no TIMESTAMP"),
        ]

    def test_empty_files_have_nothing_to_replay(self, spark_engine: SparkEngine, tmp_path: Path) -> None:
        (tmp_path / "empty.csv").write_text("")
        options = {**self.options(tmp_path), "format": "csv", "pattern": "*.csv"}
        source = open_source(spark_engine, tmp_path, options, self.COLUMNS[:2])
        poll = source.poll(source.initial(), now=CREATED, limit=ReadLimit())
        assert (poll.empty, poll.ended) == (True, True)
