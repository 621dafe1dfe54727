from __future__ import annotations

from pathlib import Path

import pytest

from planner.relations.connectors.generator import PRESETS
from site_agent.base.errors import ConnectorError
from site_agent.connectors.generator.connector import GeneratorConnector
from site_agent.connectors.generator.origin import Origin
from site_agent.connectors.generator.presets import PRESETS as MADE
from site_agent.connectors.generator.presets import preset_columns
from site_agent.engine import Field, RangeScan
from tests.unit.site_agent.connectors.contexts import CREATED, source_context

TEXTS = {
    *("ad_type", "event_type", "ip_address", "country"),
    *("name", "emailaddress", "creditcard", "city", "state", "extra", "itemname", "description", "channel", "url"),
}
OTHERS = {"expires": "TIMESTAMP"}


def kind_of(name: str) -> str:
    return "STRING" if name in TEXTS else OTHERS.get(name, "DOUBLE")


def expressions(tmp_path: Path, options: dict[str, str], *columns: Field) -> dict[str, str]:
    declared = (Field("ts", "TIMESTAMP"), *columns)
    context = source_context(tmp_path, options, columns=declared, read_columns=[c.name for c in declared])
    scan = GeneratorConnector().open_source(context).scan({"row": 0}, {"row": 10})
    assert isinstance(scan, RangeScan)
    return dict(scan.expressions)


def test_there_are_these() -> None:
    assert tuple(MADE) == PRESETS == ("ysb", "posts", "sensors", "nexmark_person", "nexmark_auction", "nexmark_bid")
    assert {*preset_columns("ysb")} == {"user_id", "page_id", "ad_id", "ad_type", "event_type", "ip_address"}
    assert {*preset_columns("posts")} == {"post_id", "user_id", "country", "topic", "latitude", "longitude"}
    assert {*preset_columns("sensors")} == {"device_id", "temperature", "humidity", "battery"}
    assert {*preset_columns("nexmark_bid")} == {"auction", "bidder", "price", "channel", "url", "extra"}
    assert preset_columns("") == {}


@pytest.mark.parametrize("preset", PRESETS)
def test_equal_origins_give_equal_values(preset: str) -> None:
    def made() -> list[str]:
        found = preset_columns(preset).items()
        return [sql(Field(name, kind_of(name)), Origin("us", 1, "0L")) for name, sql in found]

    assert made() == made()


def test_a_preset_is_a_default_by_name_in_any_case(tmp_path: Path) -> None:
    plain = expressions(tmp_path, {"column.AD_ID": "uniform(0, 999)"}, Field("AD_ID", "STRING"))
    assert expressions(tmp_path, {"preset": "ysb"}, Field("AD_ID", "STRING")) == plain


def test_a_column_option_goes_before_the_preset_and_unknown_names_by_type(tmp_path: Path) -> None:
    columns = (Field("ad_type", "STRING"), Field("other", "BIGINT"))
    found = expressions(
        tmp_path, {"preset": "ysb", "column.ad_type": "constant(x)", "column.ad_type.null_fraction": "0.5"}, *columns
    )
    assert "'x'" in found["ad_type"]
    assert found["ad_type"].startswith("CASE WHEN")
    assert found["other"] == expressions(tmp_path, {}, *columns)["other"]


def test_the_mix_of_countries_depends_on_the_site() -> None:
    country = preset_columns("posts")["country"]
    column = Field("country", "STRING")
    assert country(column, Origin("us", 1, "0L")) != country(column, Origin("eu", 1, "0L"))


@pytest.mark.parametrize(
    ("preset", "column", "message", "hint"),
    [
        ("posts", Field("country", "BIGINT"), "the preset makes texts for column country, which is BIGINT", "STRING"),
        (
            "sensors",
            Field("battery", "STRING"),
            "the preset makes numbers for column battery, which is STRING",
            "DOUBL",
        ),
        (
            "nexmark_auction",
            Field("expires", "BIGINT"),
            "the preset makes times for column expires, which is BIGINT",
            "TIMESTAMP",
        ),
    ],
)
def test_a_type_that_holds_no_such_values_is_refused(
    tmp_path: Path, preset: str, column: Field, message: str, hint: str
) -> None:
    with pytest.raises(ConnectorError) as caught:
        expressions(tmp_path, {"preset": preset}, column)
    assert caught.value.message == message
    assert hint in caught.value.hint


def test_an_unknown_preset_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConnectorError) as caught:
        expressions(tmp_path, {"preset": "yahoo"})
    assert (caught.value.message, caught.value.hint) == (
        "option 'preset' is 'yahoo'",
        "'preset' takes ysb, posts, sensors, nexmark_person, nexmark_auction, nexmark_bid",
    )


def test_a_table_may_have_a_preset(tmp_path: Path) -> None:
    columns = (Field("device_id", "STRING"), Field("battery", "DOUBLE"))
    context = source_context(
        tmp_path, {"preset": "sensors", "rows": "100"}, columns=columns, read_columns=("device_id", "battery")
    )
    scan = GeneratorConnector().open_table(context).scan()
    assert isinstance(scan, RangeScan)
    assert str(int(CREATED.timestamp() * 1_000_000)) in dict(scan.expressions)["battery"]
