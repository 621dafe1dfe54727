"""The generator's NEXMark presets on a real Spark: proportions, hot keys, and what rows say of rows not born yet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pytest

from site_agent.connectors.registry import find_connector, make_connectors
from site_agent.connectors.sources import Source, SourceContext
from site_agent.engine import EpochRequest, Field
from site_agent.engine.spark import SparkEngine

pytestmark = pytest.mark.spark

CREATED = datetime(2026, 1, 1, tzinfo=UTC)
PERSONS = 1500
"""More than are active at once."""
RATES = {"person": 1, "auction": 3, "bid": 46}
COLUMNS: Mapping[str, Sequence[Field]] = {
    "person": (
        Field("id", "BIGINT"),
        *(Field(name, "STRING") for name in ("name", "emailAddress", "creditCard", "city", "state", "extra")),
        Field("dateTime", "TIMESTAMP"),
    ),
    "auction": (
        *(Field(name, "BIGINT") for name in ("id", "initialBid", "reserve", "seller", "category")),
        *(Field(name, "STRING") for name in ("itemName", "description", "extra")),
        Field("expires", "TIMESTAMP"),
        Field("dateTime", "TIMESTAMP"),
    ),
    "bid": (
        *(Field(name, "BIGINT") for name in ("auction", "bidder", "price")),
        *(Field(name, "STRING") for name in ("channel", "url", "extra")),
        Field("dateTime", "TIMESTAMP"),
    ),
}


def source_of(kind: str, directory: Path, engine: SparkEngine, **options: str) -> Source:
    columns = tuple(COLUMNS[kind])
    context = SourceContext(
        relation=kind,
        site="us",
        columns=columns,
        read_columns=tuple(column.name for column in columns),
        event_time="dateTime",
        options={
            "connector": "generator",
            "preset": f"nexmark_{kind}",
            "rows_per_second": str(RATES[kind]),
            "rows": str(PERSONS * RATES[kind]),
            "seed": "5",
            **options,
        },
        directory=directory,
        created_at=CREATED,
    )
    return find_connector(make_connectors(engine), context.options).open_source(context)


def read(engine: SparkEngine, source: Source, first: int, end: int) -> pa.Table:
    scan = source.scan({"row": first}, {"row": end})
    return engine.run(EpochRequest("nexmark", "SELECT * EXCEPT (site) FROM input", scan, "us")).table


@pytest.fixture(scope="module")
def rows(spark_engine: SparkEngine, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, pd.DataFrame]:
    directory = tmp_path_factory.mktemp("nexmark")
    return {
        kind: read(spark_engine, source_of(kind, directory, spark_engine), 0, PERSONS * rate).to_pandas()
        for kind, rate in RATES.items()
    }


@pytest.mark.parametrize("kind", RATES)
def test_rows_do_not_depend_on_how_they_are_read(spark_engine: SparkEngine, tmp_path: Path, kind: str) -> None:
    source = source_of(kind, tmp_path, spark_engine)
    whole = read(spark_engine, source, 0, 300)
    parts = [read(spark_engine, source, first, end) for first, end in ((0, 7), (7, 250), (250, 300))]
    assert pa.concat_tables(parts).combine_chunks().equals(whole.combine_chunks())


def test_persons(rows: Mapping[str, pd.DataFrame]) -> None:
    person = rows["person"]
    assert list(person.id) == list(range(1000, 1000 + PERSONS))
    assert person.state.nunique() == 6
    assert person.city.nunique() == 10
    assert person.name.nunique() == 99
    assert person.creditCard.str.fullmatch(r"(\d{4} ){3}\d{4}").all()
    assert person.emailAddress.str.fullmatch(r"[a-z ]{0,6}@[a-z ]{0,4}\.com").all()
    assert person.extra.str.fullmatch("[a-z]{107,160}").all()


def test_auctions(rows: Mapping[str, pd.DataFrame]) -> None:
    auction = rows["auction"]
    assert list(auction.id) == list(range(1000, 1000 + 3 * PERSONS))
    assert set(auction.category) == {10, 11, 12, 13, 14}
    assert (auction.reserve > auction.initialBid).all()
    assert auction.extra.str.fullmatch("[a-z]{312,467}").all()
    assert auction.description.str.len().max() > 80
    last = 1000 + auction.index // 3
    hot = auction.seller == 1000 + (last - 1000) // 100 * 100
    assert 0.72 < hot.mean() < 0.78
    assert ((auction.seller > last - 1000) & (auction.seller <= last + 10))[~hot].all()
    assert auction.seller.gt(last).any()
    # 100 auctions take 33.3 s; an auction lasts up to twice as long.
    lasts = (auction.expires - auction.dateTime).dt.total_seconds()
    assert lasts.between(0, 67).all()
    assert 32 < lasts.mean() < 35


def test_bids(rows: Mapping[str, pd.DataFrame]) -> None:
    bid = rows["bid"]
    last_auction, last_person = 1000 + bid.index * 3 // 46, 1000 + bid.index // 46
    hot = bid.auction == 1000 + (last_auction - 1000) // 100 * 100
    assert 0.49 < hot.mean() < 0.52
    assert ((bid.auction >= last_auction - 100) & (bid.auction <= last_auction + 10))[~hot].all()
    assert 0.03 < bid.auction.gt(last_auction).mean() < 0.07
    popular = bid.bidder == 1001 + (last_person - 1000) // 100 * 100
    assert 0.74 < popular.mean() < 0.76
    assert (bid.bidder <= last_person + 10).all()
    assert bid.price.between(100, 100_000_000).all()
    assert 0.48 < bid.price.lt(100_000).mean() < 0.52
    assert bid.extra.str.fullmatch("[a-z]{54,81}").all()


def test_channels_and_their_urls(rows: Mapping[str, pd.DataFrame]) -> None:
    bid = rows["bid"]
    known = bid.channel.isin(["Google", "Facebook", "Baidu", "Apple"])
    assert 0.49 < known.mean() < 0.51
    assert bid.channel[~known].str.fullmatch(r"channel-\d{1,4}").all()
    assert bid.groupby("channel").url.nunique().max() == 1
    form = r"https://www\.nexmark\.com(/[a-z_]{3,4}){3}/item\.htm\?query=1(&channel_id=\d+)?"
    assert bid.url.str.fullmatch(form).all()
    names = bid.url.str.contains("channel_id")
    assert not names[known].any()
    assert 0.88 < names[~known].mean() < 0.92


def test_most_bids_come_while_their_auction_is_open(rows: Mapping[str, pd.DataFrame]) -> None:
    joined = rows["bid"].merge(rows["auction"], left_on="auction", right_on="id", suffixes=("", "_a"))
    early = joined.dateTime < joined.dateTime_a
    assert 0.02 < early.mean() < 0.1
    assert (joined.dateTime_a - joined.dateTime).max() < timedelta(seconds=4)
    assert (joined.dateTime <= joined.expires).mean() > 0.5


def test_an_auction_that_is_born_does_not_change_with_the_rate(spark_engine: SparkEngine, tmp_path: Path) -> None:
    start = int(CREATED.timestamp()) * 1_000_000
    changed = f"[[{start}, 3], [{start + 60_000_000}, 0]]"
    source = source_of("auction", tmp_path, spark_engine)
    before = read(spark_engine, source, 0, 180)
    source.reconfigure({"rate_schedule": changed})
    assert read(spark_engine, source, 0, 180).equals(before)
