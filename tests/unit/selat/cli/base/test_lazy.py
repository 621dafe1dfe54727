from __future__ import annotations

import click
import pytest

from selat.cli.base.lazy import Lazy


def test_a_command_without_its_extras_says_what_to_install() -> None:
    lazy = Lazy("selat.dev.cli:dev", "", "selat[master]", ("json", "no_such_module"))

    with pytest.raises(click.UsageError, match=r"no_such_module not installed.*pip install 'selat\[master\]'"):
        lazy.load()


def test_a_command_is_imported_when_it_is_used() -> None:
    assert Lazy("selat.cli.commands.site:site", "").load().name == "site"
