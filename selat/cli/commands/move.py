"""`selat query move`, `scale`, `combine`, `moves`: tasks that go on elsewhere, in other parts, or behind others that
combine, while their query runs."""

from __future__ import annotations

import time
from dataclasses import replace

import click

from selat.cli.base.app import App, pass_app
from selat.cli.base.options import Format, settings_options
from selat.cli.output import human
from selat.cli.output.listing import Field, show_list, show_one
from selat.client.client import Client
from selat.client.moves import MoveStep, TaskMove

MOVE_FIELDS: tuple[Field[TaskMove], ...] = (
    Field("query", lambda m: m.query_id),
    Field("stage", lambda m: m.stage),
    Field("from_site", lambda m: m.from_site),
    Field("to_site", lambda m: m.to_site),
    Field("step", lambda m: m.step.value),
    Field("asked_at", lambda m: m.asked_at, lambda m: human.instant(m.asked_at.replace(microsecond=0))),
    Field("since", lambda m: m.since, lambda m: human.instant(m.since.replace(microsecond=0))),
    Field("reason", lambda m: m.reason),
    Field("scaled_stage", lambda m: m.scaled_stage),
    Field("part_sites", lambda m: list(m.part_sites), lambda m: ", ".join(m.part_sites)),
    Field("without_state", lambda m: m.without_state),
    Field("alone", lambda m: m.alone),
    Field("combined_by", lambda m: m.combined_by),
    Field("shared_with", lambda m: m.shared_with),
)
_SHOWN = ("query", "stage", "from_site", "to_site", "step", "asked_at", "reason")
LIST_FIELDS: tuple[Field[TaskMove], ...] = (
    *(field for field in MOVE_FIELDS if field.name in _SHOWN),
    Field("with", lambda m: _kind(m)),
)
"""The columns of a table for people: the last one says what is different from a move with the state."""

_TOLD = {
    MoveStep.REGISTERED: "the producers of its inputs are asked to keep what it needs",
    MoveStep.STARTED: "the new task subscribes to the inputs",
    MoveStep.SEEDING: "the new task gets the state, and catches up",
    MoveStep.CUT: "the old task ends its channel",
    MoveStep.TAKEN: "the new task goes on; the old channel is read to its end",
    MoveStep.WITHDRAWN: "the order to end the channel is taken back",
    MoveStep.BACK: "the new task goes; the old one runs on",
    MoveStep.MOVED: "moved",
    MoveStep.ROLLED_BACK: "rolled back",
    MoveStep.ENDED: "its queries were over first",
    MoveStep.UNKNOWN: "in a step that this client does not know",
}
_TOLD_WITHOUT_STATE = {
    **_TOLD,
    MoveStep.STARTED: "the new task begins beside the old one",
    MoveStep.SEEDING: "the windows that are open close in the old task",
}
_TOLD_ALONE = {
    **_TOLD_WITHOUT_STATE,
    MoveStep.REGISTERED: "the producers of the inputs are asked to keep what the new tasks need",
    MoveStep.STARTED: "two tasks begin beside the shared one: the query's own, and one for the others",
    MoveStep.SEEDING: "the windows that are open close in the shared task",
    MoveStep.CUT: "the shared task ends its channel",
    MoveStep.TAKEN: "the new tasks go on; the old channel is read to its end",
    MoveStep.BACK: "the new tasks go; the shared one runs on",
    MoveStep.MOVED: "the query has its own",
}
_TOLD_TOGETHER = {
    **_TOLD,
    MoveStep.REGISTERED: "the shared task is asked to keep what the new task needs",
    MoveStep.STARTED: "the new task subscribes to the shared one",
    MoveStep.SEEDING: "the new task is ready",
    MoveStep.CUT: "the query's own task ends its channel where it meets that of the shared one",
    MoveStep.MOVED: "shared again",
}
_TOLD_OF_PARTS = {
    **_TOLD,
    MoveStep.REGISTERED: "the producers of the inputs are asked to keep what the new parts need",
    MoveStep.STARTED: "the new parts begin beside the old ones",
    MoveStep.SEEDING: "the windows that are open close in the old parts",
    MoveStep.BACK: "the new parts go; the old ones run on",
    MoveStep.MOVED: "done",
}
_TOLD_OF_COMBINES = {
    **_TOLD,
    MoveStep.REGISTERED: "the sources are asked to keep what the new tasks need",
    MoveStep.STARTED: "the tasks that combine begin beside what runs",
    MoveStep.SEEDING: "the windows that are open close in the old merge",
    MoveStep.BACK: "the new tasks go; the old ones run on",
    MoveStep.MOVED: "done",
}


@click.command()
@click.argument("query")
@click.argument("stage")
@click.argument("site", required=False)
@click.option(
    "--without-state",
    is_flag=True,
    help="Send no state: the new task takes over when the windows that are open now have closed in the old one.",
)
@click.option(
    "--alone",
    is_flag=True,
    help="STAGE is shared with another query: have QUERY go on with a task of its own at SITE; no state is sent.",
)
@click.option(
    "--together",
    is_flag=True,
    help="Undo --alone: have QUERY share the other query's task again. SITE may be left out.",
)
@click.option("--call-off", is_flag=True, help="Roll the move under way back, unless the task has handed over already.")
@click.option("--wait/--no-wait", default=True, help="Show each step until the move is over, or return at once.")
@settings_options
@pass_app
def move(  # noqa: PLR0913 - one per argument and option
    app: App,
    query: str,
    stage: str,
    site: str | None,
    without_state: bool,
    alone: bool,
    together: bool,
    call_off: bool,
    wait: bool,
) -> None:
    """Move a task of a running query to SITE; no row is lost or doubled, and nothing stands still.

    STAGE is a stage that has one task, as m1, or one of its tasks, as m1.p2; `selat query explain` shows them. A second
    task at SITE reads the same inputs, gets the state of the first one, and takes its place.

    \b
    Examples:
      selat query move visits m1 us
      selat query move visits m1.p2 us --no-wait
      selat query move visits m1 us --without-state
      selat query move busy_pages m1 asia --alone
      selat query move busy_pages m1 --together
      selat query move visits m1 --call-off
    """
    if together and (call_off or alone or without_state):
        raise click.UsageError("--together goes with none of --alone, --without-state and --call-off")
    if not together and call_off == (site is not None):
        raise click.UsageError("name a site to move to, or give --call-off")
    if call_off and (without_state or alone):
        raise click.UsageError("--without-state and --alone are for a move that begins")
    with app.connect() as client:
        if together:
            begun = client.share_again(query, stage, site or "")
        elif site is not None:
            begun = client.move_task(query, stage, site, without_state=without_state, alone=alone)
        else:
            begun = client.call_off_move(query, stage)
        _show(app, client, begun, wait=wait, call_off=call_off)


@click.command()
@click.argument("query")
@click.argument("stage")
@click.argument("parts", type=click.IntRange(min=1), required=False)
@click.option("--sites", default="", help="Where the parts go, in turn, as eu,us; else where those are that run now.")
@click.option("--call-off", is_flag=True, help="Go on with the old parts, unless the new ones have taken over already.")
@click.option("--wait/--no-wait", default=True, help="Show each step until it is done, or return at once.")
@settings_options
@pass_app
def scale(  # noqa: PLR0913 - one per argument and option
    app: App, query: str, stage: str, parts: int | None, sites: str, call_off: bool, wait: bool
) -> None:
    """Have a merge of a running query go on in PARTS parts; no row is lost or doubled, and nothing stands still.

    STAGE is a merge that was planned with SET merge_parallelism and has a FINAL stage behind it, as m1. The new parts
    begin beside the old ones; when the windows that were open then have closed, another FINAL task takes over.

    \b
    Examples:
      selat query scale visits m1 4
      selat query scale visits m1 4 --sites eu,us --no-wait
      selat query scale visits m1 --call-off
    """
    if call_off == (parts is not None):
        raise click.UsageError("give a number of parts, or --call-off")
    named = [site.strip() for site in sites.split(",") if site.strip()]
    with app.connect() as client:
        if parts is not None:
            begun = client.scale_stage(query, stage, parts, named)
        else:
            begun = client.call_off_move(query, stage)
        _show(app, client, begun, wait=wait, call_off=call_off)


@click.command()
@click.argument("query")
@click.option(
    "--tree", default="auto", show_default=True, help="Over which sites groups go, as SET combine_tree has it."
)
@click.option("--call-off", is_flag=True, help="Go on as before, unless the new merge has taken over already.")
@click.option("--wait/--no-wait", default=True, help="Show each step until it is done, or return at once.")
@settings_options
@pass_app
def combine(app: App, query: str, tree: str, call_off: bool, wait: bool) -> None:
    """Have the sites of a running query combine their partials of a window, or do so over other sites.

    It is for queries submitted without SET combine = on, or with another tree. The new tasks begin beside what runs;
    when the windows that were open then have closed, another merge takes over. No row is lost or doubled.

    \b
    Examples:
      selat query combine visits
      selat query combine visits --tree 'eu-west > eu-central'
      selat query combine visits --tree off
      selat query combine visits --call-off
    """
    with app.connect() as client:
        if call_off:
            under_way = (m for m in client.moves(query) if m.combined_by and not m.step.over)
            found = next(under_way, None)
            if found is None:
                raise click.ClickException(f"{query} is not about to combine in another way")
            begun = client.call_off_move(query, found.stage)
        else:
            begun = client.combine_query(query, tree)
        _show(app, client, begun, wait=wait, call_off=call_off)


@click.command()
@click.argument("query", default="")
@click.option("--json", "as_json", is_flag=True, help="The same as -o json.")
@settings_options
@pass_app
def moves(app: App, query: str, as_json: bool) -> None:
    """List the tasks that are moving, and the last move of those that have moved: of QUERY, or of all queries.

    \b
    Examples:
      selat query moves
      selat query moves visits --json
    """
    if as_json:
        app = App(replace(app.settings, output=Format.JSON))
    with app.connect() as client:
        show_list(app, LIST_FIELDS if app.format is Format.TABLE else MOVE_FIELDS, client.moves(query))


def _kind(found: TaskMove) -> str:
    """Say what becomes different by a move beside the site; empty: nothing."""
    if found.scaled_stage:
        return f"{found.scaled_stage} in {len(found.part_sites)} parts at {', '.join(found.part_sites)}"
    if found.combined_by:
        return f"combined by {found.combined_by}"
    if found.alone:
        return "a task of the query's own"
    if found.shared_with:
        return f"shared with {found.shared_with}"
    return "no state" if found.without_state else ""


def _show(app: App, client: Client, begun: TaskMove, *, wait: bool, call_off: bool) -> None:
    """Raises Exit when the move ended in another way than was asked for."""
    last = _followed(app, client, begun) if wait else begun
    if app.format is not Format.TABLE or not wait:
        show_one(app, MOVE_FIELDS, last, _line)
    if wait and last.step is not (MoveStep.ROLLED_BACK if call_off else MoveStep.MOVED):
        raise click.exceptions.Exit(1)


def _followed(app: App, client: Client, begun: TaskMove) -> TaskMove:
    """The move when it is over; each step is told to people as it comes."""
    began_s, last = time.monotonic(), begun
    for last in client.follow_move(begun):
        if app.format is Format.TABLE:
            click.echo(f"{time.monotonic() - began_s:6.1f} s  {_line(last)}")
    return last


def _line(found: TaskMove) -> str:
    reason = f": {found.reason}" if found.step in (MoveStep.BACK, MoveStep.ROLLED_BACK) and found.reason else ""
    if found.scaled_stage:
        parts = f"{len(found.part_sites)} parts at {', '.join(found.part_sites)}"
        return f"{found.query_id} {found.scaled_stage}, {parts}: {_TOLD_OF_PARTS[found.step]}{reason}"
    if found.combined_by:
        return f"{found.query_id} combined by {found.combined_by}: {_TOLD_OF_COMBINES[found.step]}{reason}"
    if found.shared_with:
        told = f"{found.stage} together with {found.shared_with}: {_TOLD_TOGETHER[found.step]}"
        return f"{found.query_id} {told}{reason}"
    if found.alone:
        told = f"{found.stage} of its own at {found.to_site}: {_TOLD_ALONE[found.step]}"
        return f"{found.query_id} {told}{reason}"
    told = (_TOLD_WITHOUT_STATE if found.without_state else _TOLD)[found.step]
    return f"{found.query_id} {found.stage}, {found.from_site} to {found.to_site}: {told}{reason}"
