"""Twelve queries of the source's five kinds over geo-tagged posts and the load of servers, and their vertices.

The source names kinds and examples, not texts. In its set-up streams are born outside of the system, at sites that
compute nothing, so whole records cross the WAN to the first operator. Here `carried` makes such vertices of ours: the
stage that would read a stream where it is born reads a vertex instead that only sends its records.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

from planner.estimate.rates import task_rates
from planner.graph.ids import VertexId
from planner.graph.plan import DraftPlan, RelationStats, Statistics
from planner.planning import draft_query
from planner.relations.catalog import Catalog
from planner.sharing.forms import digest
from planner.sharing.vertices import Vertex, VertexKind, vertices_of
from planner.sql import CreateRelation, SelectQuery, parse_script

BIRTHPLACES = ("ohio", "oregon", "ireland", "seoul", "mumbai", "saopaulo")
GATEWAY = "virginia"

POSTS = (
    "ts TIMESTAMP, user_id BIGINT, gender STRING, age_group STRING, country STRING, language STRING, topic STRING, "
    "hashtag STRING, words INT, score INT, text STRING"
)
REQUESTS = "ts TIMESTAMP, node STRING, rack STRING, kind STRING, bytes BIGINT, millis INT, line STRING"


@dataclass(frozen=True, slots=True)
class Query:
    name: str
    kind: str
    """As the source calls it."""
    sql: str


def over(name: str, kind: str, sites: str, sql: str) -> Query:
    """A query over a stream at some of the birthplaces, which are given by their numbers."""
    listed = ", ".join(f"'{BIRTHPLACES[int(number)]}'" for number in sites)
    return Query(name, kind, sql.replace("{sites}", f"site IN ({listed})"))


_STATISTICS, _USERS, _TOP = "tweet statistics", "users analysis", "top-k analysis"
_SENTIMENT, _LOAD = "sentiment analysis", "system load"

QUERIES = (
    over(
        *("1", _LOAD, "0123"),
        "SELECT window.start AS since, node, count(*) AS requests FROM requests WHERE {sites} "
        "GROUP BY window(ts, '10 seconds'), node",
    ),
    over(
        *("2", _STATISTICS, "01245"),
        "SELECT window.start AS since, country, count(*) AS posts FROM posts WHERE {sites} "
        "GROUP BY window(ts, '10 seconds'), country",
    ),
    over(
        *("3", _TOP, "01235"),
        "SELECT window.start AS since, language, hashtag, count(*) AS posts FROM replies WHERE {sites} "
        "GROUP BY window(ts, '10 seconds'), language, hashtag "
        "QUALIFY row_number() OVER (PARTITION BY window, language ORDER BY posts DESC) <= 10",
    ),
    over(
        *("4", _USERS, "012345"),
        "SELECT window.start AS since, gender, country, count(*) AS posts FROM posts WHERE {sites} "
        "GROUP BY window(ts, '30 seconds'), gender, country",
    ),
    over(
        *("5", _SENTIMENT, "0234"),
        "SELECT window.start AS since, hashtag, avg(score) AS mood, count(*) AS posts FROM replies WHERE {sites} "
        "GROUP BY window(ts, '30 seconds'), hashtag",
    ),
    over(
        *("6", _STATISTICS, "01235"),
        "SELECT count(*) AS n, hashtag AS tag, language AS spoken, window.start AS since FROM replies WHERE {sites} "
        "GROUP BY hashtag, language, window(ts, '10 seconds')",
    ),
    over(
        *("7", _LOAD, "2345"),
        "SELECT window.start AS since, rack, avg(millis) AS mean, count(*) AS n FROM loads WHERE {sites} "
        "GROUP BY window(ts, '10 seconds'), rack",
    ),
    over(
        *("8", _TOP, "01245"),
        "SELECT window.start AS since, country, topic, count(*) AS posts FROM reposts WHERE {sites} "
        "GROUP BY window(ts, '1 minute'), country, topic "
        "QUALIFY row_number() OVER (PARTITION BY window, country ORDER BY posts DESC) <= 5",
    ),
    over(
        *("9", _SENTIMENT, "0145"),
        "SELECT window.start AS since, country, avg(score) AS mood FROM posts WHERE {sites} "
        "GROUP BY window(ts, '10 seconds'), country HAVING count(*) > 10",
    ),
    over(
        *("10", _USERS, "1345"),
        "SELECT window.start AS since, age_group, language, count(*) AS posts FROM replies WHERE {sites} "
        "GROUP BY window(ts, '10 seconds'), language, age_group",
    ),
    over(
        *("11", _STATISTICS, "012345"),
        "SELECT window.start AS since, topic, count(*) AS posts, avg(words) AS words FROM reposts WHERE {sites} "
        "GROUP BY window(ts, '10 seconds'), topic",
    ),
    over(
        *("12", _STATISTICS, "01245"),
        "SELECT window.start AS since, country, count(*) AS posts FROM posts WHERE {sites} "
        "GROUP BY window(ts, '1 minute'), country",
    ),
)
"""In the order of their submission.

As in the source 1 and 7 have nothing in common with any other, and about a fifth of all vertices are shared.
"""


def in_one_stream(queries: tuple[Query, ...]) -> tuple[Query, ...]:
    """The same over the feeds as if these were one."""
    found = queries
    for feed in FEEDS[1:]:
        found = tuple(replace(query, sql=query.sql.replace(f"FROM {feed} ", f"FROM {FEEDS[0]} ")) for query in found)
    return found


@dataclass(frozen=True, slots=True)
class Stream:
    """A declared stream, born at all birthplaces."""

    name: str
    columns: str


FEEDS = ("posts", "replies", "reposts", "quotes")
STREAMS = (Stream("requests", REQUESTS), Stream("loads", REQUESTS), *(Stream(feed, POSTS) for feed in FEEDS))

_KEYS = ("country", "topic", "language", "gender")


def _counts(number: int, key: str, stream: str) -> Query:
    sql = f"SELECT window.start AS since, {key}, count(*) AS posts FROM {stream} WHERE {{sites}} "
    return over(f"{number}", _STATISTICS, "01234", f"{sql}GROUP BY window(ts, '10 seconds'), {key}")


def _four(streams: tuple[str, ...], keys: tuple[str, ...]) -> tuple[Query, ...]:
    return tuple(_counts(n + 1, key, stream) for n, (key, stream) in enumerate(zip(keys, streams, strict=True)))


SETS_OF_FOUR = (
    _four(FEEDS, _KEYS),
    _four(("posts", *FEEDS[:3]), _KEYS),
    _four(("posts", "posts", *FEEDS[:2]), _KEYS),
    _four(("posts",) * 4, _KEYS),
    _four(("posts",) * 4, (_KEYS[0], *_KEYS[:3])),
    _four(("posts",) * 4, (_KEYS[0], _KEYS[0], *_KEYS[:2])),
    _four(("posts",) * 4, (_KEYS[0],) * 4),
)
"""Four queries with more and more in common: nothing; the streams of two, three, all; two, three, all the same."""


def catalog_of(streams: Sequence[Stream] = STREAMS) -> Catalog:
    """Streams, each bound at all birthplaces."""
    places = " ".join(f"AT {place}" for place in BIRTHPLACES)
    relations = {}
    for stream in streams:
        (statement,) = parse_script(
            f"CREATE STREAM {stream.name} ({stream.columns}, WATERMARK FOR ts) WITH ('connector' = 'push') {places}"
        )
        assert isinstance(statement, CreateRelation)
        relations[stream.name] = statement.relation
    return Catalog(relations)


@dataclass(frozen=True, slots=True)
class Births:
    """What is born, and how large a whole record is."""

    rows_per_s: Mapping[tuple[str, str], float]
    """By stream and site."""
    record_bytes: float


class Drafts:
    """Queries as the planner drafts them, each once."""

    def __init__(self, catalog: Catalog) -> None:
        self.catalog = catalog
        self._drafts: dict[str, DraftPlan] = {}

    def of(self, query: Query) -> DraftPlan:
        if query.sql not in self._drafts:
            (statement,) = parse_script(query.sql)
            assert isinstance(statement, SelectQuery)
            self._drafts[query.sql] = draft_query(statement, self.catalog)
        return self._drafts[query.sql]

    def vertices(self, query: Query, births: Births) -> tuple[Vertex, ...]:
        """The vertices of the planner's plan, with the rates that it estimates."""
        draft = self.of(query)
        known = {place: RelationStats(rows, measured=True) for place, rows in births.rows_per_s.items()}
        rates = task_rates(draft, Statistics(known))
        return vertices_of(draft, self.catalog.relations, rates, owner=query.name, gateway=GATEWAY)

    def carried(self, query: Query, births: Births) -> tuple[Vertex, ...]:
        """The same where streams are born outside: whole records come to the stages, and results stay."""
        draft = self.of(query)
        found: dict[VertexId, Vertex] = {}
        for vertex in self.vertices(query, births):
            relation = draft.stage(vertex.stage).relation if vertex.kind is VertexKind.SOURCE else None
            if relation is None or vertex.pinned is None:
                found[vertex.id] = replace(vertex, pinned=None) if vertex.kind is VertexKind.RESULTS else vertex
                continue
            born = _born(relation, vertex.pinned, births)
            found[born.id] = born
            found[vertex.id] = replace(vertex, pinned=None, inputs=(born.id, *vertex.inputs))
        return tuple(found.values())


def _born(relation: str, site: str, births: Births) -> Vertex:
    return Vertex(
        id=VertexId(relation, BIRTHPLACES.index(site)),
        kind=VertexKind.SOURCE,
        fingerprint=digest(["born", relation, site]),
        output_bytes_per_s=births.rows_per_s[relation, site] * births.record_bytes,
        pinned=site,
    )


@cache
def standard() -> Drafts:
    """Of the twelve queries."""
    return Drafts(catalog_of())
