"""Random sets of overlapping queries, submitted and cancelled at random times: each gives what it gives alone."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import timedelta
from math import nan
from random import Random
from typing import Any

import duckdb
import pytest

from planner.sharing.modes import Sharing
from planner.sharing.plans import Action
from tests.seeds import random_of
from tests.unit.planner.sharing.executor import SITES, Deployment, Lab, Spare
from tests.unit.planner.sharing.test_fingerprints import AGGREGATES as WORDS_OF_AGGREGATES
from tests.unit.planner.sharing.test_fingerprints import FILTERS as WORDS_OF_FILTERS
from tests.unit.planner.sharing.test_fingerprints import KEYS as WORDS_OF_KEYS
from tests.unit.planner.sharing.test_fingerprints import Words
from tests.unit.planner.test_semantics import START

SETS_OF_A_BLOCK = 100
THEMES = 12
TEXTS_OF_A_THEME = 10

KEYS = (
    *WORDS_OF_KEYS,
    *(("k > 2", "2 < k"), ("coalesce(k, 0) % 3",), ("v IS NULL",), ("CASE w WHEN 'a' THEN 1 ELSE k END",)),
)
AGGREGATES = (
    *WORDS_OF_AGGREGATES,
    *(("min(v)",), ("max(w)",), ("sum(v) + count(*)", "count(*) + sum(v)"), ("min(d)",), ("sum(d)",), ("count(w)",)),
    *(("count(DISTINCT w) FILTER (WHERE v > 1)",), ("max(v) FILTER (WHERE k = 2)", "max(v) FILTER (WHERE 2 = k)")),
    *(("sum(CASE WHEN v > 3 THEN 1 ELSE 0 END)",), ("coalesce(sum(v), 0)",)),
)
"""No deviations: the last digits depend on the order in which partials are put together."""
FILTERS = (
    *WORDS_OF_FILTERS,
    *(("v > 1", "NOT v <= 1"), ("v = 5",), ("k IS NOT NULL",), ("k < 3",), ("k = 2", "2 = k"), ("d > 0",), ("d <= 1",)),
    *(("site = 'us'",), ("upper(w) = 'A'",), ("d = 1",), ("NOT (v > 3 AND k < 3)", "v <= 3 OR k >= 3"), ("TRUE",)),
)
WINDOWS = ("'10 seconds'", "'20 seconds'", "'20 seconds', '10 seconds'", "'5 seconds'", "INTERVAL 1 MINUTE")
COLUMNS = (*(("ts",), ("k",), ("w",), ("v",), ("d",), ("site",), ("1",)), ("upper(w)",), ("2 < k",), ("v + k", "k + v"))
HAVINGS = ("count(*) > 1", "count(*) >= 1", "sum(v) > 5", "count(*) > 1 AND max(v) > 2")
ALL_ROWS = "SELECT ts, k, w, v, d, site AS place FROM s"
RANKS = ("rank", "dense_rank", "row_number")


@dataclass(frozen=True)
class Theme:
    """What a few queries are made of: they overlap."""

    keys: tuple[Words, ...]
    aggregates: tuple[Words, ...]
    filters: tuple[Words, ...]
    windows: tuple[str, ...]
    columns: tuple[Words, ...]


def theme(rng: Random) -> Theme:
    return Theme(
        keys=tuple(rng.sample(KEYS, 3)),
        aggregates=tuple(rng.sample(AGGREGATES, 3)),
        filters=tuple(rng.sample(FILTERS, 3)),
        windows=(rng.choice(WINDOWS[:2]), rng.choice(WINDOWS)),
        columns=tuple(rng.sample(COLUMNS, 5)),
    )


def some(rng: Random, values: tuple[Words, ...], least: int, most: int) -> list[str]:
    """A few of them, each in some words."""
    return [rng.choice(words) for words in rng.sample(values, rng.randint(least, min(most, len(values))))]


def where(rng: Random, own: Theme) -> str:
    parts = some(rng, own.filters, 0, 2)
    return f" WHERE {' AND '.join(f'({part})' for part in parts)}" if parts else ""


def groups(rng: Random, own: Theme) -> str:
    """A windowed aggregate, with HAVING or a top k at times; often the theme's own groups."""
    alias = rng.choice("ab")
    plain = rng.random() < 0.5
    keys = [rng.choice(own.keys[0])] if plain else some(rng, own.keys, 0, 2)
    aggregates = [rng.choice(own.aggregates[0])] if plain else some(rng, own.aggregates, 1, 3)
    items = [f"{key} AS {alias}k{index}" for index, key in enumerate(keys)]
    items += [f"{aggregate} AS {alias}{index}" for index, aggregate in enumerate(aggregates)]
    rng.shuffle(items)
    by = [f"window(ts, {own.windows[0] if plain else rng.choice(own.windows)})", *keys]
    rng.shuffle(by)
    filters = "" if plain else where(rng, own)
    sql = f"SELECT window.start AS ws, {', '.join(items)} FROM s{filters} GROUP BY {', '.join(by)}"
    if rng.random() < 0.3:
        sql += f" HAVING {rng.choice(HAVINGS)}"
    if rng.random() < 0.4:
        order, k = rng.choice((aggregates[0], aggregates[0], "count(*)")), rng.randint(1, 3)
        sql += f" QUALIFY {rng.choice(RANKS)}() OVER (PARTITION BY window ORDER BY {order} DESC) <= {k}"
    return sql


def wide(rng: Random, own: Theme) -> str:
    """What many groups could be made of."""
    keys, aggregates = some(rng, own.keys, 3, 3), some(rng, own.aggregates, 3, 3)
    items = [f"{part} AS x{index}" for index, part in enumerate((*keys, *aggregates))]
    return f"SELECT {', '.join(items)} FROM s GROUP BY {', '.join([f'window(ts, {own.windows[0]})', *keys])}"


def rows(rng: Random, own: Theme) -> str:
    items = [f"{column} AS c{index}" for index, column in enumerate(some(rng, own.columns, 1, 5))]
    return f"SELECT {', '.join(items)} FROM s{where(rng, own)}"


def over_groups(rng: Random, own: Theme) -> str:
    """An aggregate, or rows, over the rows of windows."""
    keys = rng.sample(["k", "w"], 2)
    inner = (
        f"SELECT window.start AS ws, k, w, count(*) AS n, max(v) AS m FROM s{where(rng, own)} "
        f"GROUP BY window(ts, {rng.choice(own.windows)}), {', '.join(keys)}"
    )
    return rng.choice(
        (
            inner,
            f"SELECT ws, max(n) AS most, count(*) AS c FROM ({inner}) AS d GROUP BY ws",
            f"SELECT ws, w, sum(n) AS n FROM ({inner}) AS d GROUP BY ws, w",
            f"SELECT n + 1 AS more, w, ws FROM ({inner}) AS d WHERE n > 1",
        )
    )


def with_table(rng: Random, own: Theme) -> str:
    condition = rng.choice(("", " WHERE s.v > 1", " WHERE s.v > 3 AND s.w <> 'b'", " WHERE 3 < s.v"))
    join = rng.choice(("JOIN t ON s.k = t.k", "JOIN t ON s.k = t.k AND t.x > 2", "LEFT JOIN t ON s.k = t.k"))
    if rng.random() < 0.3:
        return f"SELECT s.ts AS at, s.w AS w, t.name AS name FROM s {join}{condition}"
    key = rng.choice(("t.name", "t.name, s.w", "s.w"))
    names = ", ".join(f"{part} AS g{index}" for index, part in enumerate(key.split(", ")))
    window = f"window(s.ts, {rng.choice(own.windows)})"
    return f"SELECT window.start AS ws, {names}, count(*) AS n FROM s {join}{condition} GROUP BY {window}, {key}"


def of_streams(rng: Random, own: Theme) -> str:
    window = rng.choice(own.windows)
    on = f"s.k = o.k AND window(s.ts, {window}) = window(o.ts, {window})"
    if rng.random() < 0.4:
        return f"SELECT s.w AS w, o.v AS v, s.k AS k FROM s JOIN o ON {on}{rng.choice(('', ' WHERE o.v > 2'))}"
    keys = rng.choice(("s.k", "s.k, s.w", "s.w"))
    names = ", ".join(f"{part} AS g{index}" for index, part in enumerate(keys.split(", ")))
    aggregate = rng.choice(("count(*)", "sum(o.v)", "max(s.v)"))
    return f"SELECT {names}, {aggregate} AS n FROM s JOIN o ON {on} GROUP BY window(s.ts, {window}), {keys}"


def union(rng: Random, own: Theme) -> str:
    column = rng.choice(("k", "v", "w"))
    first, second = (f"SELECT {column} AS c, ts AS at FROM s{where(rng, own)}" for _ in range(2))
    return f"{first} UNION ALL {rng.choice((first, second))}"


KINDS = (*[groups] * 8, *[rows] * 2, *[over_groups] * 3, *[with_table] * 2, of_streams, *[union] * 2)


def any_row(rng: Random) -> dict[str, Any]:
    return {
        "ts": START + timedelta(milliseconds=rng.randrange(40_000)),
        "k": rng.choice((None, 0, 1, 2, 3, 4)),
        "w": rng.choice((None, "a", "b", "A")),
        "v": rng.choice((None, *range(-3, 10))),
        # Quarters add up exactly in any order.
        "d": rng.choice((None, nan, *(n / 4 for n in range(-8, 9)))),
    }


def data(rng: Random) -> dict[str, dict[str, list[list[dict[str, Any]]]]]:
    def epochs(columns: tuple[str, ...]) -> list[list[dict[str, Any]]]:
        return [[{name: row[name] for name in columns} for row in map(any_row, [rng] * 9)] for _ in range(2)]

    members = [{"k": rng.randrange(5), "name": rng.choice("xy"), "x": rng.choice((None, 1, 3, 5))} for _ in range(6)]
    return {
        "s": {site: epochs(("ts", "k", "w", "v", "d")) for site in SITES},
        "o": {site: epochs(("ts", "k", "v")) for site in SITES[:2]},
        "t": {"us": [members[:4]], "eu": [members[4:]]},
    }


def spare(rng: Random) -> Spare:
    pairs = [(a, b) for a in SITES for b in SITES if a != b]
    return {pair: rng.choice((0.0, 2e4, 1e5)) for pair in rng.sample(pairs, rng.randrange(7))}


def check_set(lab: Lab, texts: list[str], rng: Random) -> Counter[Action]:
    """Two to eight queries come, and some of them go; what became of their vertices."""
    deployment = Deployment(lab)
    events = [(rng.random() if number else 0.0, "submit", sql) for number, sql in enumerate(texts)]
    events += [(rng.random(), "cancel", "") for _ in range(rng.randrange(len(texts)))]
    actions: Counter[Action] = Counter()
    for _, what, sql in sorted(events):
        if what == "submit":
            sharing = rng.choice((*[Sharing.SANA] * 6, Sharing.MAX_SHARE, Sharing.STRICT))
            query = deployment.submit(sql, sharing, spare(rng))
            actions.update(decision.action for decision in deployment.plans[query].decisions)
        elif deployment.plans:
            check_results(deployment)
            deployment.cancel(rng.choice(sorted(deployment.plans)))
    check_results(deployment)
    for query in sorted(deployment.plans):
        deployment.cancel(query)
    assert len(deployment.running) == 0
    assert not deployment.running.traffic()
    return actions


def check_results(deployment: Deployment) -> None:
    for query in deployment.plans:
        sql = deployment.texts[query]
        # As texts, for NaN is not equal to itself.
        assert repr(deployment.results(query)) == repr(deployment.lab.alone(sql)), (sql, deployment.texts)


def in_parts(rng: Random) -> str:
    """What says that a query's merges are in parts."""
    return rng.choice(("", "", "", "2: ", "2: ", "3: "))


def check_block(db: duckdb.DuckDBPyConnection, block: int) -> Counter[Action]:
    """Sets over the same rows and texts, each of one theme or two."""
    rng = random_of(block)
    lab = Lab(db, data(rng))
    themes = [theme(rng) for _ in range(THEMES)]
    pools = [[kind(rng, own) for kind in (wide, *rng.choices(KINDS, k=TEXTS_OF_A_THEME))] for own in themes]
    pools = [[in_parts(rng) + text for text in pool] for pool in pools]
    actions: Counter[Action] = Counter()
    for _ in range(SETS_OF_A_BLOCK):
        pool = [sql for texts in rng.sample(pools, rng.choice((1, 1, 2))) for sql in texts]
        # Of the first, the others can be made at times.
        first = rng.choice((pool[0], ALL_ROWS, rng.choice(pool)))
        actions += check_set(lab, [first, *rng.choices(pool, k=rng.randint(1, 7))], rng)
    for pool in pools:
        assert repr(lab.alone(pool[0])) == repr(lab.stage_by_stage(pool[0]))
    return actions


@pytest.mark.seeded
@pytest.mark.parametrize("block", range(1))
def test_each_query_of_a_set_gives_what_it_gives_alone(db: duckdb.DuckDBPyConnection, block: int) -> None:
    actions = check_block(db, block)
    # Sets overlap, else nothing would be shown.
    assert actions[Action.SHARED] > 100
    assert actions[Action.CONTAINED] > 100


@pytest.mark.long
@pytest.mark.parametrize("block", range(1, 40))
def test_many_more_sets(db: duckdb.DuckDBPyConnection, block: int) -> None:
    check_block(db, block)
