"""The persons, auctions and bids of NEXMark, a preset for each.

Of 50 events one is a person, three are auctions and 46 are bids. Each stream numbers its own rows and spaces them
evenly, at rates of 1 : 3 : 46; so where bid `n` is born, auction `3 * n div 46` is the last one that was born, and
person `n div 46`. Numbers, not clocks, relate the streams: values are the same whenever rows are read.

    who sells     3 of 4: the first of each hundred persons; else one of the last 1000 or of the 10 who come next
    what is bid   1 of 2: the first of each hundred auctions; else one of the last 100 or of the 10 that come next
    who bids      3 of 4: the second of each hundred persons; else as who sells
    a price       100 to 100,000,000, uniform in its logarithm
    expires       up to twice as long after the event time as 100 auctions take to be born
"""

from __future__ import annotations

from collections.abc import Mapping

from planner.values.literals import quoted_text
from site_agent.connectors.generator.origin import Origin, PresetColumn, as_number, as_text, as_time
from site_agent.connectors.generator.sql import fraction_of, hash_of
from site_agent.engine import Field

AUCTIONS_PER_PERSON, BIDS_PER_PERSON = 3, 46
FIRST_ID, FIRST_CATEGORY, CATEGORIES = 1000, 10, 5
HOT_EVERY = 100
ACTIVE_PERSONS, OPEN_AUCTIONS = 1000, 100
AHEAD = 10
"""Rows may name so many persons and auctions that are born after them."""
CHANNELS, HOT_CHANNELS = 10_000, ("Google", "Facebook", "Baidu", "Apple")
STATES = ("AZ", "CA", "ID", "OR", "WA", "WY")
CITIES = (
    *("Phoenix", "Los Angeles", "San Francisco", "Boise", "Portland"),
    *("Bend", "Redmond", "Seattle", "Kent", "Cheyenne"),
)
FIRST_NAMES = ("Peter", "Paul", "Luke", "John", "Saul", "Vicky", "Kate", "Julie", "Sarah", "Deiter", "Walter")
LAST_NAMES = ("Shultz", "Abrams", "Spencer", "White", "Bartels", "Walton", "Smith", "Jones", "Noris")
PERSON_EXTRA, AUCTION_EXTRA, BID_EXTRA = 134, 390, 68
"""Characters on average that fill a row up to about 200, 500 and 100 bytes; a fifth less to a fifth more."""
_SHORTEST = 3
_DIGEST = 86
"""Characters of one digest in base 64, without its padding."""

_PERSON_OF_AUCTION = f"(id div {AUCTIONS_PER_PERSON}L)"
_PERSON_OF_BID = f"(id div {BIDS_PER_PERSON}L)"
_AUCTION_OF_BID = f"(id * {AUCTIONS_PER_PERSON}L div {BIDS_PER_PERSON}L)"


def _below(origin: Origin, name: str, count: str) -> str:
    """A whole number from 0 up to, without, `count`."""
    return f"pmod({hash_of(origin.seed, name)}, {count})"


def _one_of(origin: Origin, name: str, values: tuple[str, ...]) -> str:
    listed = ", ".join(map(quoted_text, values))
    return f"element_at(array({listed}), CAST({_below(origin, name, f'{len(values)}L')} AS INT) + 1)"


def _hot_or(origin: Origin, name: str, hot: str, *, one_in: int, otherwise: str) -> str:
    """The id of the hot one, in all rows but one of `one_in`."""
    is_hot = f"{_below(origin, name + '/hot', f'{one_in}L')} > 0"
    return f"({FIRST_ID}L + CASE WHEN {is_hot} THEN {hot} ELSE {otherwise} END)"


def _of_hundred(last: str, place: int) -> str:
    return f"{last} div {HOT_EVERY}L * {HOT_EVERY}L + {place}L"


def _active_person(origin: Origin, name: str, last: str) -> str:
    active = f"least({last} + 1L, {ACTIVE_PERSONS}L)"
    return f"{last} + 1L - {active} + {_below(origin, name, f'({active} + {AHEAD}L)')}"


def _open_auction(origin: Origin, name: str, last: str) -> str:
    first = f"greatest({last} - {OPEN_AUCTIONS}L, 0L)"
    return f"{first} + {_below(origin, name, f'({last} - {first} + {1 + AHEAD}L)')}"


def _price(origin: Origin, name: str) -> str:
    return f"CAST(round(pow(10D, {fraction_of(hash_of(origin.seed, name))} * 6D) * 100D) AS BIGINT)"


def _letters(origin: Origin, name: str, characters: int, *, space: str = " ", key: str = "id") -> str:
    """Return a text of at least that many letters; about one of 13 is a space."""
    texts = (
        f"concat({origin.seed}L, {quoted_text(f'/{name}/{part}/')}, {key})" for part in range(-(-characters // _DIGEST))
    )
    # Spark breaks lines in base 64.
    given, to = "'0123+456789/=\\r\\n'", quoted_text(space * 5 + "abcdefg")
    made = (f"translate(lower(base64(unhex(sha2({text}, 512)))), {given}, {to})" for text in texts)
    return f"concat({', '.join(made)})"


def _string(origin: Origin, name: str, longest: int, *, space: str = " ", key: str = "id") -> str:
    """From 3 up to, without, `longest` letters and spaces; none at its ends."""
    hashed = f"xxhash64({origin.seed}L, {quoted_text(name + '/length')}, {key})"
    length = f"CAST({_SHORTEST}L + pmod({hashed}, {longest - _SHORTEST}L) AS INT)"
    return f"trim(substr({_letters(origin, name, longest, space=space, key=key)}, 1, {length}))"


def _extra(average: int) -> PresetColumn:
    spread = round(average * 0.2)

    def made(column: Field, origin: Origin) -> str:
        length = f"CAST({average - spread}L + {_below(origin, 'extra/length', f'{2 * spread}L')} AS INT)"
        # The text has letters alone, so that a longest one is needed.
        letters = f"replace({_letters(origin, 'extra', average + 2 * spread)}, ' ', 'z')"
        return as_text(column, f"substr({letters}, 1, {length})")

    return made


def _channel_name(origin: Origin) -> str:
    hot = _one_of(origin, "channel", HOT_CHANNELS)
    return f"CASE WHEN {_is_hot(origin)} THEN {hot} ELSE concat('channel-', {_other(origin)}) END"


def _url(origin: Origin) -> str:
    """One for each channel; nine of ten that are not hot name a channel in it."""
    parts = (_string(origin, f"url/{part}", 5, space="_", key=_channel_name(origin)) for part in range(3))
    number = f"xxhash64({origin.seed}L, 'channel_id', {_other(origin)})"
    named = f"NOT {_is_hot(origin)} AND pmod({number}, 10L) > 0"
    query = f"CASE WHEN {named} THEN concat('&channel_id=', pmod({number}, {2**31}L)) ELSE '' END"
    path = ", '/', ".join(parts)
    return f"concat('https://www.nexmark.com/', {path}, '/item.htm?query=1', {query})"


def _is_hot(origin: Origin) -> str:
    return f"{_below(origin, 'channel/hot', '2L')} > 0"


def _other(origin: Origin) -> str:
    return _below(origin, "channel/other", f"{CHANNELS}L")


def _card(origin: Origin) -> str:
    groups = (f"lpad({_below(origin, f'card/{part}', '10000L')}, 4, '0')" for part in range(4))
    return f"concat_ws(' ', {', '.join(groups)})"


def _expires(column: Field, origin: Origin) -> str:
    longest = f"greatest(2L * {OPEN_AUCTIONS}L * {origin.gap_us}, 1L)"
    return as_time(column, f"{origin.born_us} + 1L + {_below(origin, 'expires', longest)}")


def _seller(column: Field, origin: Origin) -> str:
    hot, other = _of_hundred(_PERSON_OF_AUCTION, 0), _active_person(origin, "seller", _PERSON_OF_AUCTION)
    return as_number(column, _hot_or(origin, "seller", hot, one_in=4, otherwise=other))


def _bidder(column: Field, origin: Origin) -> str:
    hot, other = _of_hundred(_PERSON_OF_BID, 1), _active_person(origin, "bidder", _PERSON_OF_BID)
    return as_number(column, _hot_or(origin, "bidder", hot, one_in=4, otherwise=other))


def _auction(column: Field, origin: Origin) -> str:
    hot, other = _of_hundred(_AUCTION_OF_BID, 0), _open_auction(origin, "auction", _AUCTION_OF_BID)
    return as_number(column, _hot_or(origin, "auction", hot, one_in=2, otherwise=other))


def _own_id(column: Field, _: Origin) -> str:
    return as_number(column, f"{FIRST_ID}L + id")


PERSON: Mapping[str, PresetColumn] = {
    "id": _own_id,
    "name": lambda column, origin: as_text(
        column,
        f"concat({_one_of(origin, 'name/first', FIRST_NAMES)}, ' ', {_one_of(origin, 'name/last', LAST_NAMES)})",
    ),
    "emailaddress": lambda column, origin: as_text(
        column, f"concat({_string(origin, 'email', 7)}, '@', {_string(origin, 'email/host', 5)}, '.com')"
    ),
    "creditcard": lambda column, origin: as_text(column, _card(origin)),
    "city": lambda column, origin: as_text(column, _one_of(origin, "city", CITIES)),
    "state": lambda column, origin: as_text(column, _one_of(origin, "state", STATES)),
    "extra": _extra(PERSON_EXTRA),
}
AUCTION: Mapping[str, PresetColumn] = {
    "id": _own_id,
    "itemname": lambda column, origin: as_text(column, _string(origin, "itemname", 20)),
    "description": lambda column, origin: as_text(column, _string(origin, "description", 100)),
    "initialbid": lambda column, origin: as_number(column, _price(origin, "initialbid")),
    "reserve": lambda column, origin: as_number(
        column, f"{_price(origin, 'initialbid')} + {_price(origin, 'reserve')}"
    ),
    "expires": _expires,
    "seller": _seller,
    "category": lambda column, origin: as_number(
        column, f"{FIRST_CATEGORY}L + {_below(origin, 'category', f'{CATEGORIES}L')}"
    ),
    "extra": _extra(AUCTION_EXTRA),
}
BID: Mapping[str, PresetColumn] = {
    "auction": _auction,
    "bidder": _bidder,
    "price": lambda column, origin: as_number(column, _price(origin, "price")),
    "channel": lambda column, origin: as_text(column, _channel_name(origin)),
    "url": lambda column, origin: as_text(column, _url(origin)),
    "extra": _extra(BID_EXTRA),
}
