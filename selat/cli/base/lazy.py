"""Command groups that import a command when it is used: `selat --help` loads no Arrow, no gRPC, no server."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import click
from click.shell_completion import CompletionItem


@dataclass(frozen=True, slots=True)
class Lazy:
    """Where a command is, and its line in the help of its group."""

    target: str
    """`module:attribute`"""
    summary: str
    extras: str = ""
    """What has to be installed besides the client, as in `selat[master]`."""
    needs: tuple[str, ...] = ()
    """Modules that those extras bring; looked for, not imported."""

    def missing(self) -> list[str]:
        """The modules that it needs and that are not installed."""
        return [name for name in self.needs if importlib.util.find_spec(name) is None]

    def load(self) -> click.Command:
        """Imports the command. Raises click.UsageError when what it needs is not installed."""
        if missing := self.missing():
            names = ", ".join(missing)
            raise click.UsageError(f"{names} not installed: this command needs pip install '{self.extras}'")
        module, _, attribute = self.target.partition(":")
        command = getattr(importlib.import_module(module), attribute)
        assert isinstance(command, click.Command)
        return command


class LazyGroup(click.Group):
    """A group of `Lazy` commands, listed in the order given."""

    def __init__(self, *args: Any, lazy: Mapping[str, Lazy], **options: Any) -> None:
        super().__init__(*args, **options)
        self._lazy = lazy

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self._lazy)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        lazy = self._lazy.get(cmd_name)
        if lazy is None:
            return None
        if ctx.resilient_parsing and lazy.missing():
            # A shell that completes a line gets a command without options instead of an error.
            return click.Command(cmd_name)
        return lazy.load()

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """The commands by name, without importing them, and the group's own options."""
        found = [CompletionItem(name, help=lazy.summary) for name, lazy in self._lazy.items()]
        options = click.Command.shell_complete(self, ctx, incomplete)
        return [item for item in found if item.value.startswith(incomplete)] + options

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, lazy.summary) for name, lazy in self._lazy.items()])
