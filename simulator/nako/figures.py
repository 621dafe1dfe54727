"""Figures 5.6 to 5.9 as sections of the page: each beside what the source found, misses said as misses."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from statistics import mean, median

from planner.adapt.model import Settings
from planner.values.adapting import Order
from simulator.nako.many import Outcome, run
from simulator.nako.scenes import (
    DRIFT_ROW_BYTES,
    DRIFT_RUN_S,
    OURS,
    OVERLOAD,
    ROW_BYTES,
    SOURCE,
    STATES_S,
    STEP_AT_S,
    STEP_RUN_S,
    drifting,
    stepped,
)
from simulator.nako.sharing import (
    OFTEN,
    STATES_MB,
    WINDOW_S,
    Found,
    shared,
    split_by_source,
)
from simulator.progress import say
from simulator.tables import table

WORLDS_OF_ROUND = 2
SLOW, ADAPTED = 6, 2
"""Queries of eight, in the source."""
LESS_DELAY, LESS_CONSTRAINED = 2.1, 2.0
MORE_BYTES = 0.27
ALPHAS = (0.0, 0.5, 1.0)
MODES: Mapping[str, tuple[Settings, bool]] = {"stop": (SOURCE, False), "shadow": (OURS, True)}
VARIANTS: Mapping[str, Settings] = {
    "as above": SOURCE,
    "alpha 0": replace(SOURCE, alpha=0.0),
    "alpha 1": replace(SOURCE, alpha=1.0),
    "a query counts as adapted every 30 s": replace(SOURCE, horizon_s=30.0),
    "none is left alone": replace(SOURCE, prune=False),
    "one action in a round": replace(SOURCE, most_actions=1),
    "0.7 of a link": replace(SOURCE, link_share=0.7),
}
"""Choices that the source leaves open, and claims that it makes without a figure."""
LARGER = 4
LARGE: Mapping[str, Settings] = {
    "nako": SOURCE,
    "nako, alpha 0": replace(SOURCE, alpha=0.0),
    "slo": replace(SOURCE, order=Order.SLO),
}


def sections(rounds: int) -> list[str]:
    """Return all sections, in the order of the source."""
    say("figures 5.6 and 5.7")
    return [_steps(rounds), _variants(rounds), _weights(rounds), _sharing(rounds), _LIMITS]


def verdict(reached: bool, missed: str) -> str:
    """Return whether something is as it is wanted."""
    return "Reached." if reached else f"**Missed**: {missed}."


def _steps(rounds: int) -> str:
    worlds = range(WORLDS_OF_ROUND * rounds)
    none = [run(stepped(seed, None, shadow=True)) for seed in worlds]
    rows = [_step_row("none", none)]
    found = {
        (mode, order): [run(stepped(seed, replace(settings, order=order), shadow=shadow)) for seed in worlds]
        for mode, (settings, shadow) in MODES.items()
        for order in Order
    }
    rows += [_step_row(f"{mode}, {order.value}", outcomes) for (mode, order), outcomes in found.items()]
    return f"""## Figures 5.6 and 5.7: which queries are adapted

Q1 to Q8 of table 5.1, each over four of eight edges, at which 12,000 rows/s are born in all; sixteen sites as for
[WASP](wasp.md). Rates grow by a quarter after {STEP_AT_S:.0f} s, for {STEP_RUN_S - STEP_AT_S:.0f} s. Looks are every
30 s, up to 0.8 of a link. *stop*: tasks stand still while they move, as in the source; *shadow*: the old task goes on.
*slo*: whose rows wait longest; the source takes the greatest increase of delay. All leave alone what has room. Medians
of {len(worlds)} drawn worlds. *Constrained*: how long the delay was above the mean before the step, by more than a step
of the simulation (0.5 s). *States*: how long those of the queries that were adapted take to send by the numbers
below, in all; in the source 6 s for Nako, 20 s for SLO.

Free choices, made before orders were compared. Two links, each from an edge to a data centre, carry 1/{OVERLOAD} of
what three queries need of them after the step; Q1, Q2, Q5 and Q7 and two drawn others are behind them, which behind
which is drawn. Rows have {ROW_BYTES:.0f} bytes. A query has two operators over two sources each, and a merge. Sources
hold the slots of the edges. Queries share a link evenly. States take so many seconds of half of the mean link between
data centres: {", ".join(f"{query} {state_s:.0f}" for query, state_s in STATES_S.items())}; the source tells those of
Q1, Q2, Q5 and Q7.

{table(["mode, order", "slow", "adapted", "actions", "states, s", "delay, s", "constrained, s"], rows)}

{step_verdicts(found)}

### By query, tasks standing still

{_by_query(found["stop", Order.NAKO], found["stop", Order.SLO])}"""


def _step_row(name: str, found: Sequence[Outcome]) -> list[str]:
    adapted = [len(one.adapted) for one in found]
    return [
        name,
        f"{_mid(found, lambda one: len(one.slow)):.0f}" if found[0].rounds else "-",
        f"{median(adapted):.0f} ({min(adapted)} to {max(adapted)})",
        f"{mean(len(one.acts) for one in found):.1f}",
        f"{_mid(found, lambda one: sum(STATES_S[query] for query in one.adapted)):.1f}",
        f"{_mid(found, lambda one: one.over_all(one.mean_s)):.2f}",
        f"{_mid(found, lambda one: one.over_all(one.constrained_s)):.1f}",
    ]


def _mid(found: Sequence[Outcome], value: Callable[[Outcome], float]) -> float:
    return median(map(value, found))


def step_verdicts(found: Mapping[tuple[str, Order], Sequence[Outcome]]) -> str:
    """Return what the source found, and whether it is so here."""
    nako, slo = found["stop", Order.NAKO], found["stop", Order.SLO]
    numbers = [(_mid(one, lambda o: len(o.slow)), _mid(one, lambda o: len(o.adapted))) for one in (nako, slo)]
    two_of_six = all(number == (SLOW, ADAPTED) for number in numbers)
    delay = max(_mid(slo, _delay_of(query)) / _mid(nako, _delay_of(query)) for query in STATES_S)
    worst = max(b.mean_s(query) / a.mean_s(query) for a, b in zip(nako, slo, strict=True) for query in STATES_S)
    times = [_mid(one, lambda outcome: outcome.over_all(outcome.constrained_s)) for one in (nako, slo)]
    costs = [act.cost for one in nako for act in one.acts if act.cost is not None]
    slots, overhead = (median(abs(c.slots) for c in costs), median(c.overhead for c in costs))
    return f"""- Two of six unhealthy queries are adapted, by either order. \
{verdict(two_of_six, " and ".join(f"{adapted:.0f} of {slow:.0f}" for slow, adapted in numbers))}
- Up to {LESS_DELAY} times less delay of a query than by SLO. \
{verdict(delay >= LESS_DELAY, f"{delay:.2f} times, of medians; {worst:.2f} times of a query in a single world")}
- Half of the constrained time. \
{verdict(times[0] * LESS_CONSTRAINED <= times[1], f"{times[0]:.1f} s for {times[1]:.1f} s")}

Why so little: of what the actions of *stop, nako* cost, the slots are {slots:.2f} in the median, however they are
signed, and the overhead is {overhead:.3f}, for a move of seconds counts over five minutes. So it is scarce slots that
decide, and state does little; with alpha = 0, below, it decides alone. And most of the constrained time is the 30 s
until something is seen, which no order shortens."""


def _delay_of(query: str) -> Callable[[Outcome], float]:
    return lambda one: one.mean_s(query)


def _constrained_of(query: str) -> Callable[[Outcome], float]:
    return lambda one: one.constrained_s(query)


def _by_query(nako: Sequence[Outcome], slo: Sequence[Outcome]) -> str:
    rows = []
    for query, state_s in STATES_S.items():
        row = [query, f"{state_s:.0f}"]
        row += [str(sum(query in one.adapted for one in found)) for found in (nako, slo)]
        row += [f"{_mid(found, _delay_of(query)):.2f}" for found in (nako, slo)]
        row += [f"{_mid(found, _constrained_of(query)):.1f}" for found in (nako, slo)]
        rows.append(row)
    head = ["query", "state, s"]
    head += [f"{figure}, {order}" for figure in ("adapted", "delay, s", "constrained, s") for order in ("nako", "slo")]
    return f"""{table(head, rows)}

*Adapted*: in so many worlds."""


def _variants(rounds: int) -> str:
    say("what the source leaves open")
    worlds = range(WORLDS_OF_ROUND * rounds)
    rows = [
        _step_row(name, [run(stepped(seed, settings, shadow=False)) for seed in worlds])
        for name, settings in VARIANTS.items()
    ]
    for name, settings in LARGE.items():
        plays = [stepped(seed, settings, shadow=False, state_factor=LARGER) for seed in worlds]
        rows.append(_step_row(f"states {LARGER} times as large, {name}", [run(play) for play in plays]))
    return f"""### What the source leaves open

The same worlds, *stop, nako*, with one thing changed; at the end, larger states with other orders beside it.

{table(["changed", "slow", "adapted", "actions", "states, s", "delay, s", "constrained, s"], rows)}"""


def _weights(rounds: int) -> str:
    say("figure 5.8")
    found = {
        (mode, alpha): [run(drifting(seed, replace(settings, alpha=alpha), shadow=shadow)) for seed in range(rounds)]
        for mode, (settings, shadow) in MODES.items()
        for alpha in ALPHAS
    }
    rows = []
    for (mode, alpha), outcomes in found.items():
        actions = [act.option.action for one in outcomes for act in one.acts]
        rows.append(
            [
                f"{mode}, {alpha}",
                f"{_mid(outcomes, lambda one: len(one.slow)):.1f}",
                f"{_mid(outcomes, lambda one: len(one.adapted)):.1f}",
                ", ".join(f"{count} {action.value}" for action, count in Counter(actions).most_common()),
                f"{mean(one.over_all(one.mean_s) for one in outcomes):.2f}",
                f"{mean(one.over_all(one.constrained_s) for one in outcomes):.0f}",
                f"{mean(map(_sent, outcomes)) / 1e6:.2f}",
            ]
        )
    head = ["mode, alpha", "slow", "adapted", "actions in all worlds", "delay, s", "constrained, s", "on links, MB/s"]
    return f"""## Figure 5.8: resources or overhead

The same queries without narrow links, for {DRIFT_RUN_S / 60:.0f} min; every 2 to 5 min each link gets 0.7 to 0.9 of
what it carried, and each edge 1 to 1.2 of its rows, drawn. Rows have {DRIFT_ROW_BYTES:.0f} bytes: with
{ROW_BYTES:.0f}, as above, two queries at most were slow in each of three worlds that were tried, too few to choose
among. Means of {rounds} worlds; *slow* and *adapted* are medians.

{table(head, rows)}

{_weight_verdicts(found)}"""


def _sent(one: Outcome) -> float:
    """Return the bytes per second that all queries send over links, once it is no longer calm."""
    return sum(one.bytes_per_s(flow, one.calm_s) for flow in one.crossed_bytes)


def _weight_verdicts(found: Mapping[tuple[str, float], Sequence[Outcome]]) -> str:
    told = []
    for mode in MODES:
        outcomes = [found[mode, alpha] for alpha in ALPHAS]
        delays_s = [mean(one.over_all(one.mean_s) for one in each) for each in outcomes]
        sent = [mean(map(_sent, each)) for each in outcomes]
        most = max(
            a.bytes_per_s(query, a.calm_s) / b.bytes_per_s(query, b.calm_s) - 1
            for a, b in zip(outcomes[0], outcomes[2], strict=True)
            for query in a.crossed_bytes
        )
        other = sum(_done(a) != _done(b) for a, b in zip(outcomes[0], outcomes[2], strict=True))
        name = mode.capitalize()
        told += [
            f"- {name}: alpha 0 has less delay than 1, here by {1 - delays_s[0] / delays_s[2]:.1%}. "
            + verdict(delays_s[0] < delays_s[2], "it has not"),
            f"- {name}: alpha 0 sends more bytes than 1, here by {sent[0] / sent[2] - 1:.1%}. "
            + verdict(sent[0] > sent[2], "it does not"),
            f"- {name}: of a query up to {MORE_BYTES:.0%} more. "
            + verdict(most >= MORE_BYTES, f"{most:.0%} in the world where it is most"),
            f"- {name}: 0.5 lies between. "
            + verdict(
                _between(delays_s) and _between(sent),
                f"delays {_list(delays_s)} s, bytes {_list([one / 1e6 for one in sent])} MB/s",
            ),
            f"- {name}: what is done with alpha 0 and with 1 differs in {other} of {len(outcomes[0])} worlds.",
        ]
    return (
        "\n".join(told)
        + """

In the source, alpha decides also how an operator is helped: with alpha = 0 two were scaled. Here that is WASP's
policy, whatever it costs, and the cost says only which operator goes first. So alpha does something only where several
are slow at once, and little."""
    )


def _done(one: Outcome) -> list[tuple[float, str, str]]:
    return sorted((act.at_s, act.query, act.option.text) for act in one.acts)


def _between(values: Sequence[float]) -> bool:
    return min(values[0], values[2]) < values[1] < max(values[0], values[2])


def _list(values: Sequence[float]) -> str:
    return ", ".join(f"{value:.3f}" for value in values)


def _sharing(rounds: int) -> str:
    say("figure 5.9")
    rows, like = [], [0, 0]
    every: list[Found] = []
    pairs = [(a, b) for a in STATES_MB for b in STATES_MB]
    for pair in pairs:
        source = split_by_source(pair)
        row = [f"[{pair[0]}, {pair[1]}]", source]
        for n, settings in enumerate((SOURCE, OFTEN)):
            found = [shared(seed, pair, ("Q2",), settings) for seed in range(rounds)]
            every += found
            row += [_answers(found), f"{median(one.mean_s for one in found):.1f}"]
            like[n] += Counter(one.answer for one in found).most_common(1)[0][0] == source
        rows.append(row)
    others = [
        shared(seed, pair, halved, settings)
        for halved in (("Q1",), ("Q1", "Q2"))
        for pair in ((30, 90), (90, 30))
        for settings in (SOURCE, OFTEN)
        for seed in range(rounds)
    ]
    kept = sum(one.answer == "keep" for one in others)
    more = {name: [one.more for one in every if one.answer.startswith(name)] for name in ("keep", "split")}
    bytes_told = "; ".join(f"{name}: {100 * (median(found) - 1):+.0f} %" for name, found in more.items() if found)
    head = ["states, MB", "source", "every 5 min", "delay, s", "every 30 s", "delay, s"]
    return f"""## Figure 5.9: to keep or to split what is shared

Two queries share the operator over two of their four sources; after 5 min the link from it to Q2 is halved. States are
those of Q1 and Q2. *Every 5 min*, *every 30 s*: how often a query counts as adapted, the time that the overhead is
divided by; the source does not tell its own, nor whether it ran [30, 30]. What is done first about the operator, in
how many of {rounds} drawn worlds, and the mean delay of both in the five minutes afterwards. Tasks stand still while
they move.

Free choices: Q1 brought the operator. What is shared is one task, which holds the state of both; a task of its own has
its windows whole after {WINDOW_S:.0f} s, so no action takes longer. The halved link was used to 0.7 before. Two more
followed from trial runs: results are put together where they are read, for a task there was moved by itself;
and the link to Q1 is as drawn, for states crossed one as narrow as the other, and all moves took the two minutes.

{table(head, rows)}

Bytes on links, of before: {bytes_told}. The source: about 30 % more where it splits.

As in the source, wanted in all {len(pairs)} cases: \
{verdict(like[0] == len(pairs), f"{like[0]} are so in most worlds, and {like[1]} with a query adapted every 30 s")}

- A split takes a slot, so C_R is 1 at least, and its half outweighs an overhead of seconds over five minutes. With
  30 s it does not where links to move over are slow.
- Which one is split off is not chosen by state: the place of the operator belongs to the query that brought it
  ([0091](../decisions/0091-the-cheapest-action-first.md)), and a channel crosses a link once for all that read it at
  its end. Only a query whose own way is slow gains by a task of its own. Where the link to Q1 is halved, or both are,
  the operator is moved for both: {kept} of {len(others)} worlds with [30, 90] and [90, 30].
- By the source's formula, to keep costs the overhead of both and to split that of one, so [90, 90] saves as much as
  [0, 90]; its figure splits the latter and keeps the former. No settings of that formula give all of its cases."""


def _answers(found: Sequence[Found]) -> str:
    return ", ".join(f"{answer} {count}" for answer, count in Counter(one.answer for one in found).most_common())


_LIMITS = """## What the fluid leaves out

State that moves takes nothing of links, windows do not burst, queues have no bounds, and what a re-plan would add to
combine rows on the way is not carried out."""
