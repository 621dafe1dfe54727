"""Plans that found something, made small by `python -m tests.simulation --shrink SEED`: each is played in every run."""

from __future__ import annotations

from dataclasses import replace

from tests.simulation.faults import Cancel, Combine, Failing, Full, Kill, KillAtPoint, Move, Pause, SetClock, Silence
from tests.simulation.plan import Plan

_CLICKS = ("windows", "rows", "by_site", "distinct", "sliding", "joined")
_FILES = Plan(1, sites=("us", "eu"), rows=60, rest_s=0.2, slow_s=0.2, together=True, there=True)
"""Rows that are there, read by queries that are submitted at once."""

FOUND: dict[str, Plan] = {
    "a merge began after the combining task of its site had ended, and that site's rows were gone": replace(
        _FILES, sites=("us", "eu", "asia"), queries=_CLICKS, combine=True
    ),
    "a part of a merge began after another part at its site, which had acknowledged what it had not read": replace(
        _FILES, seed=2, queries=_CLICKS, parts=3
    ),
    "a query's merge began after that of a query which shares its sources": replace(
        _FILES, seed=4, queries=_CLICKS, sharing="sana"
    ),
    "an agent that was started on a full disk ended": Plan(
        191, sites=("us", "eu"), queries=("windows",), rows=60, faults=(Full(12.0, "us", 6.0), Kill(13.0, "us", 0.5))
    ),
    "a query failed whose assignment did not reach a site that other sites reached": Plan(
        1, sites=("us", "eu"), queries=("windows",), rows=60, faults=(Silence(0.5, "master", "eu", 90.0),)
    ),
    "a part of a merge moved to a site that had copies of another part's bins": Plan(
        1,
        sites=("us", "eu"),
        queries=("windows",),
        parts=2,
        faults=(Move(6.0, "windows", 0.0, "eu"), Move(9.0, "windows", 0.9, "eu")),
    ),
    "a client asked for the first epoch of a task that had not begun": Plan(
        2, sites=("us", "eu"), queries=("windows",), faults=(Move(6.0, "windows", 0.0, "eu"), Cancel(12.3, "windows"))
    ),
    "an acknowledgement that could not be stored was not passed on when it was said again": Plan(
        12,
        sites=("us", "eu"),
        queries=("archived", "archived_windows", "windows"),
        rows=60,
        sharing="no-share",
        budget_bytes=2000,
        faults=(Failing(4.697550817612915, "eu", 2.974310452526531, 0.2),),
    ),
    "a query gave up a derived task that another one read, and the master was left with tasks that read nothing": Plan(
        473,
        sites=("us", "eu"),
        queries=("windows", "joined", "taps", "sliding", "archived_windows"),
        rows=60,
        slow_s=0.2,
        sharing="max-share",
        faults=(Kill(1.138049524736334, "us", 2.5720610935578323, power=True), Cancel(6.906931251632826, "joined")),
    ),
    "a task that had begun in the middle of its inputs forgot over a pause which windows it leaves out": Plan(
        7010,
        queries=("by_site",),
        rows=240,
        faults=(
            Move(64.27212297431576, "by_site", 0.8706551921075555, "asia", None, without_state=True),
            Pause(65.35073685947283, "by_site", 9.195704912834273),
            SetClock(33.745660351239735, "us", 22.537014695427025),
        ),
    ),
    "a client asked the channel of a task for epochs of the one that continues it, when the query was over": Plan(
        1092,
        sites=("us", "eu"),
        queries=("windows", "again"),
        rows=60,
        sharing="max-share",
        combine=True,
        faults=(
            Move(5.128910804843061, "again", 0.12027228053810968, "eu", together=True),
            Move(5.207311477050312, "again", 0.5950632614665909, "us", alone=True),
            Silence(29.433481146971182, "master", "eu", 90.0),
            Kill(9.546957169068532, "eu", 1.4203949858287284, power=True),
            KillAtPoint("master", "report-taken", 34, 1.6289761214958574),
        ),
    ),
    "a task that was to take another's place lost epochs that a reader beside it had acknowledged before it came": Plan(
        20,
        queries=("followed", "never_again"),
        rows=120,
        rest_s=0.2,
        sharing="max-share",
        faults=(
            Move(5.487814338078831, "followed", 0.8742915842094185, "eu"),
            Move(17.798345012161235, "followed", 0.9309477836675655, "us"),
            Move(19.425021649705034, "never_again", 0.5198112857388294, "us"),
            Move(26.25724775316157, "followed", 0.9388142529956205, "us"),
            Move(29.404919939198187, "followed", 0.014389608656811492, "eu"),
            Move(36.67270465701989, "never_again", 0.9135635836027851, "eu"),
            Move(40.35824358370505, "never_again", 0.5179102050625369, "eu"),
            Move(42.514063169267125, "followed", 0.3208809343926985, "us"),
            Kill(44.232646737166554, "eu", 3.377391894419807),
        ),
    ),
    "rows of pairs were late, by the watermark of their merge, once that merge had moved": Plan(
        31,
        sites=("us", "eu"),
        queries=("pairs_so_far",),
        rows=20,
        sharing="max-share",
        faults=(Move(3.1420849809230935, "pairs_so_far", 0.20153220408528727, "us"),),
    ),
    "sites combined in another way for groups over all rows, which had come before": Plan(
        111, sites=("us", "eu"), queries=("odd_so_far",), rows=60, faults=(Combine(12.0, "odd_so_far", "us > eu"),)
    ),
}
"""By what went wrong then."""
