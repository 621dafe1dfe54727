"""A round's plan, drawn from its seed: the same seed gives the same plan on every machine."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from random import Random

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from tests.e2e.dataset import SITES
from tests.e2e.queries import CASES
from tests.e2e.test_batch import QUERIES as BATCH_QUERIES
from tests.e2e.test_sharing import COUNTS_CASE, HAVING_CASE, PARTS, ROWS_CASE, STREAM, WIDE_CASE
from tests.grammar.queries import queries
from tests.grammar.text import Both
from tests.soak.plan import Batch, Break, Fault, Kind, Move, Nap, Plan, Restart, Visit

SHARING = ("no-share", "strict", "max-share", "net", "sana")
CONTAINING = ("max-share", "sana")
"""Modes in which queries are derived from the output of others."""
SCHEDULERS = ("lease-aware", "first-come", "random")
PROCESSES = ("master", *(f"agent-{site}" for site in SITES))

BEATS = 160
"""The number of turns in which each producer of a pushed stream sends rows or sleeps."""
NAP_BEATS = (48, 80)
SUBMITTED_WITHIN_S = 14.0
PAUSE_AFTER_S, PAUSED_S = (0.0, 10.0), (1.0, 12.0)
CANCEL_AFTER_S = (2.0, 15.0)
MOVE_AFTER_S = (0.5, 20.0)

FAULTS = (1, 5)
BEFORE_S = (0.5, 6.0)
LASTS_S = {Break.KILL: (0.0, 0.0), Break.FREEZE: (1.0, 12.0), Break.HOLD: (1.0, 15.0), Break.REFUSE: (1.0, 15.0)}

_WHOLE = [Both(case.sql, case.oracle) for case in CASES]
"""Queries over `orders` and the other relations of the dataset."""
_ALONE = [both for both in _WHOLE if not re.search(r"\b(parcels|priced|dear|labels|per_product)\b", both.selat)]
"""Queries over `orders` and tables alone, which any stream with the columns of `orders` can answer."""
_JOINS = r"window\(\w+\.ts.* = window\("
_BATCHES = [Both(sql, oracle) for sql, oracle in BATCH_QUERIES.values() if not re.search(r"\btexts\b", sql)]

Family = Callable[[Random, Kind], Sequence[Both]]
"""Draws queries that are submitted together."""


def draw(number: int) -> Plan:
    """The plan of the round with this seed."""
    rng = Random(number)
    kinds = rng.sample(list(Kind), rng.choice((1, 1, 2, 2, 3)))
    visits = [visit for kind in kinds for visit in _visits(rng, kind, families=3 if len(kinds) == 1 else 2)]
    pushed = Kind.PUSH in kinds
    return Plan(
        seed=number,
        visits=tuple(sorted(visits, key=lambda visit: visit.at_s)),
        batches=tuple(_batch(rng) for _ in range(rng.randint(0, 3))),
        faults=tuple(_fault(rng) for _ in range(rng.randint(*FAULTS))),
        naps=tuple(_naps(rng)) if pushed else (),
        restarts=tuple(Restart(rng.choice(SITES), rng.randrange(4, BEATS)) for _ in range(rng.randint(0, 2) * pushed)),
    )


def _visits(rng: Random, kind: Kind, *, families: int) -> list[Visit]:
    return [visit for name in rng.sample(list(FAMILIES), families) for visit in _family(rng, kind, name)]


def _family(rng: Random, kind: Kind, name: str) -> list[Visit]:
    """The visits of one family, close together and mostly in one mode, so that they can share."""
    asked = FAMILIES[name](rng, kind)
    together = rng.choice(CONTAINING) if name == "contained" else rng.choice(SHARING)
    at_s = rng.choice((0.0, rng.uniform(0, SUBMITTED_WITHIN_S)))
    visits = []
    for query in asked:
        starts = ("history", "next-window") if name == "same" else ("history",)
        sharing = rng.choice((together, together, together, rng.choice(SHARING)))
        visits.append(_visit(rng, Visit(kind, name, query, sharing, rng.choice(starts), at_s)))
        at_s += rng.choice((0.0, rng.uniform(0, 4)))
    return visits


def _visit(rng: Random, visit: Visit) -> Visit:
    """The visit, perhaps paused, cancelled or written into a sink."""
    paused = rng.random() < 0.3
    cancelled = rng.random() < 0.15
    written = rng.random() < 0.25
    return Visit(
        *(visit.kind, visit.what, visit.query, visit.sharing, visit.start, visit.at_s),
        pause=(rng.uniform(*PAUSE_AFTER_S), rng.uniform(*PAUSED_S)) if paused else None,
        cancel_after_s=rng.uniform(*CANCEL_AFTER_S) if cancelled else None,
        sink_site=rng.choice(SITES) if written and visit.start == "history" else None,
        parts=rng.choice((1, 1, 2)),
        moves=tuple(_move(rng) for _ in range(rng.choice((0, 0, 1, 2, 4)))),
    )


def _move(rng: Random) -> Move:
    return Move(
        rng.uniform(*MOVE_AFTER_S),
        rng.random(),
        rng.choice(SITES),
        without_state=rng.random() < 0.3,
        parts=rng.choice((0, 0, 0, 1, 2, 3)),
        alone=rng.random() < 0.5,
    )


def _oracle(rng: Random, kind: Kind) -> list[Both]:
    return rng.sample(_pool(kind), 2)


def _window_joins(rng: Random, kind: Kind) -> list[Both]:
    return [rng.choice([both for both in _pool(kind) if re.search(_JOINS, both.selat, re.DOTALL)])]


def _grammar(rng: Random, kind: Kind) -> list[Both]:
    return grammar_queries(rng.randrange(2**32), 2)


def _contained(rng: Random, kind: Kind) -> list[Both]:
    """A query and parts of it."""
    parts = [of_orders(part) for part in PARTS.values()]
    of_rows = [part for part in parts if "GROUP BY" not in part.selat]
    of_groups = [part for part in parts if "GROUP BY" in part.selat]
    owner, parts = rng.choice(((WIDE_CASE, of_groups), (ROWS_CASE, of_rows)))
    return [of_orders(owner), *rng.sample(parts, 2)]


def _same(rng: Random, kind: Kind) -> list[Both]:
    """Queries with an operator in common, whose first column is the window's start."""
    return [of_orders(rng.choice((COUNTS_CASE, HAVING_CASE))) for _ in range(rng.randint(2, 3))]


FAMILIES: dict[str, Family] = {
    "oracle": _oracle,
    "join of streams": _window_joins,
    "grammar": _grammar,
    "contained": _contained,
    "same": _same,
}


def _pool(kind: Kind) -> list[Both]:
    return _WHOLE if kind is Kind.FILES else _ALONE


def of_orders(query: Both) -> Both:
    """A query of the sharing tests over `orders`."""
    return Both(query.selat.replace(STREAM, "orders"), query.oracle)


def grammar_queries(number: int, count: int) -> list[Both]:
    """Random queries, drawn from a seed."""
    drawn: list[list[Both]] = []

    @seed(number)
    @settings(
        # The first example is the simplest one.
        max_examples=2,
        database=None,
        deadline=None,
        phases=(Phase.generate,),
        suppress_health_check=list(HealthCheck),
    )
    @given(st.lists(queries(), min_size=count, max_size=count))
    def take(batch: list[Both]) -> None:
        drawn.append(batch)

    take()
    return drawn[-1]


def _batch(rng: Random) -> Batch:
    return Batch(
        query=rng.choice(_BATCHES),
        scheduler=rng.choice(SCHEDULERS),
        at_s=rng.uniform(0, SUBMITTED_WITHIN_S),
        sink_site=rng.choice((None, None, rng.choice(SITES))),
    )


def _fault(rng: Random) -> Fault:
    how = rng.choice((Break.KILL, Break.FREEZE, rng.choice((Break.HOLD, Break.REFUSE))))
    target = rng.choice(PROCESSES if how in (Break.KILL, Break.FREEZE) else SITES)
    return Fault(how, target, after_s=rng.uniform(*BEFORE_S), lasts_s=rng.uniform(*LASTS_S[how]))


def _naps(rng: Random) -> list[Nap]:
    """One site is never asleep, so that the watermark has a reason to move."""
    awake = rng.choice(SITES)
    naps = []
    for site in SITES:
        beat = rng.randrange(0, 40)
        while site != awake and rng.random() < 0.8:
            beats = rng.randint(*NAP_BEATS)
            if beat + beats >= BEATS:
                break
            naps.append(Nap(site, beat, beats))
            beat += beats + rng.randint(6, 40)
    return naps
