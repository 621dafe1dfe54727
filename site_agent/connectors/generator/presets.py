"""Presets of the generator: how the columns of a known workload are made, by column name.

ysb      the ad events of the Yahoo streaming benchmark: 1000 ads, 100 users and pages, uniform
posts    geo-tagged posts: the mix of countries depends on the site; users and topics are Zipf in each country, and
         which topics are on top changes with event time
sensors  readings of devices: temperature a sine of a day plus noise, humidity against it, a battery that runs down
nexmark  the persons, auctions and bids of NEXMark, each kind a preset of its own

Like all generated values, these are functions of the row number, the seed and the site; those that change with time
follow the row's own event time, so a query that starts later finds the same rows.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from zlib import crc32

from planner.relations.connectors.generator import ColumnSpec
from planner.values.literals import quoted_text
from site_agent.connectors.generator.columns import base_type, labelled, value_sql, zipf_rank
from site_agent.connectors.generator.nexmark import AUCTION, BID, PERSON
from site_agent.connectors.generator.origin import Origin, PresetColumn, as_number, as_text
from site_agent.connectors.generator.sql import fraction_of, hash_of
from site_agent.engine import Field


@dataclass(frozen=True, slots=True)
class _Country:
    code: str
    latitude: float
    longitude: float


COUNTRIES = (
    _Country("us", 39.8, -98.6),
    _Country("in", 22.0, 79.0),
    _Country("id", -2.5, 118.0),
    _Country("br", -10.0, -52.0),
    _Country("jp", 36.2, 138.3),
    _Country("mx", 23.6, -102.6),
    _Country("de", 51.2, 10.4),
    _Country("gb", 54.0, -2.5),
    _Country("fr", 46.6, 2.5),
    _Country("my", 4.2, 102.0),
    _Country("sg", 1.35, 103.8),
    _Country("au", -25.3, 133.8),
)
"""In `posts`; how frequent each is depends on the site."""
COUNTRY_SKEW = 1.5
USERS_PER_COUNTRY, USER_SKEW = 10_000, 1.2
TOPICS, TOPIC_SKEW = 1_000, 1.1
TOPIC_SHIFT_US, TOPIC_SHIFT = 600_000_000, 7
"""Every ten minutes of event time, each rank passes to the topic that many places on."""
TOPICS_BETWEEN_COUNTRIES = 83
"""What is on top in one country is so many places away in the next."""
DEVICES = 100
DAY_US = 86_400_000_000
BATTERY_US = 30 * DAY_US


def preset_columns(name: str) -> Mapping[str, PresetColumn]:
    """Columns by name, in lower case; none for a preset that does not exist."""
    return PRESETS.get(name, {})


def _spec(kind: str, *arguments: str) -> PresetColumn:
    """Made as `column.<name>` would."""
    return lambda column, origin: value_sql(column, ColumnSpec(kind, arguments), seed=origin.seed)


def _countries_of(site: str) -> list[_Country]:
    """Most frequent first: the one that the site is named after, then in an order that follows from its name."""
    return sorted(COUNTRIES, key=lambda c: (c.code != site.lower(), crc32(f"{site}/{c.code}".encode()), c.code))


def _country_index(origin: Origin) -> str:
    rank = zipf_rank(fraction_of(hash_of(origin.seed, "country")), len(COUNTRIES), COUNTRY_SKEW)
    ranked = ", ".join(f"{COUNTRIES.index(c)}L" for c in _countries_of(origin.site))
    return f"element_at(array({ranked}), CAST({rank} AS INT))"


def _of_country(values: list[str], origin: Origin) -> str:
    return f"element_at(array({', '.join(values)}), CAST({_country_index(origin)} AS INT) + 1)"


def _country(column: Field, origin: Origin) -> str:
    return as_text(column, _of_country([quoted_text(c.code) for c in COUNTRIES], origin))


def _user(column: Field, origin: Origin) -> str:
    rank = zipf_rank(fraction_of(hash_of(origin.seed, "user_id")), USERS_PER_COUNTRY, USER_SKEW)
    return labelled(column, f"({_country_index(origin)} * {USERS_PER_COUNTRY}L + {rank})")


def _topic(column: Field, origin: Origin) -> str:
    rank = zipf_rank(fraction_of(hash_of(origin.seed, "topic")), TOPICS, TOPIC_SKEW)
    elapsed = f"({origin.born_us} div {TOPIC_SHIFT_US}L) * {TOPIC_SHIFT}L"
    place = f"{rank} - 1L + {elapsed} + {_country_index(origin)} * {TOPICS_BETWEEN_COUNTRIES}L"
    return labelled(column, f"(pmod({place}, {TOPICS}L) + 1L)")


def _near(coordinates: list[float], name: str) -> PresetColumn:
    """Within two degrees of the country's middle."""

    def made(column: Field, origin: Origin) -> str:
        middle = _of_country([f"{c!r}D" for c in coordinates], origin)
        return as_number(column, f"round({middle} + {_noise(origin, name, 2.0)}, 4)")

    return made


def _device(column: Field, origin: Origin) -> str:
    if base_type(column) == "STRING":
        return f"concat({quoted_text(origin.site + '-')}, {_device_number()})"
    return as_number(column, _device_number())


def _device_number() -> str:
    return f"pmod(id, {DEVICES}L)"


def _daily(origin: Origin) -> str:
    """-1 to 1 over a day of event time; devices peak within two hours of each other."""
    day = f"pmod({origin.born_us}, {DAY_US}L) / {DAY_US}D"
    return f"sin({2 * math.pi!r}D * ({day} + {_device_number()} / {12.0 * DEVICES!r}D))"


def _temperature(column: Field, origin: Origin) -> str:
    return as_number(column, f"round(20D + 8D * {_daily(origin)} + {_noise(origin, 'temperature', 0.5)}, 2)")


def _humidity(column: Field, origin: Origin) -> str:
    return as_number(column, f"round(55D - 15D * {_daily(origin)} + {_noise(origin, 'humidity', 2.0)}, 2)")


def _battery(column: Field, origin: Origin) -> str:
    used = f"pmod({origin.born_us} + {_device_number()} * {BATTERY_US // DEVICES}L, {BATTERY_US}L) / {BATTERY_US}D"
    return as_number(column, f"round(100D * (1D - {used}), 1)")


def _noise(origin: Origin, name: str, amplitude: float) -> str:
    """Uniform from -amplitude up to amplitude."""
    return f"(({fraction_of(hash_of(origin.seed, name, '/noise'))} - 0.5D) * {2 * amplitude!r}D)"


PRESETS: Mapping[str, Mapping[str, PresetColumn]] = {
    "ysb": {
        "user_id": _spec("uniform", "0", "99"),
        "page_id": _spec("uniform", "0", "99"),
        "ad_id": _spec("uniform", "0", "999"),
        "ad_type": _spec("choice", "banner", "modal", "sponsored-search", "mail", "mobile"),
        "event_type": _spec("choice", "view", "click", "purchase"),
        "ip_address": _spec("constant", "1.2.3.4"),
    },
    "posts": {
        "post_id": _spec("sequence"),
        "user_id": _user,
        "country": _country,
        "topic": _topic,
        "latitude": _near([c.latitude for c in COUNTRIES], "latitude"),
        "longitude": _near([c.longitude for c in COUNTRIES], "longitude"),
    },
    "sensors": {
        "device_id": _device,
        "temperature": _temperature,
        "humidity": _humidity,
        "battery": _battery,
    },
    "nexmark_person": PERSON,
    "nexmark_auction": AUCTION,
    "nexmark_bid": BID,
}
