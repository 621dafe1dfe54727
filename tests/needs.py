"""Why a test is skipped here: every skip names a kind, and `.ci/run` judges it by the kind."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NoReturn

import pytest


class Need(StrEnum):
    """What a skipped test lacks."""

    ROOT = "needs root"
    PACKAGES = "needs packages of scripts/setup_wan"
    MACHINE = "needs another machine or kernel"

    @property
    def ends_as_root(self) -> bool:
        """A run as root can have it: there, a test that is skipped for want of it is a failure of the run."""
        return self is not Need.MACHINE

    @staticmethod
    def of(reason: str) -> Need | None:
        """The kind that a reason of a skip names; None: it names none."""
        return next((need for need in Need if reason.startswith(need.value)), None)


@dataclass(frozen=True, slots=True)
class Lack:
    """A need that is not met, and what exactly is missing."""

    need: Need
    detail: str = ""

    def __str__(self) -> str:
        return ": ".join(filter(None, (self.need.value, self.detail)))


def skip(lack: Lack) -> NoReturn:
    """Skip the test that runs."""
    pytest.skip(str(lack))


def unless(lack: Lack | None) -> pytest.MarkDecorator:
    """A mark: tests are skipped when something is lacking."""
    return pytest.mark.skipif(lack is not None, reason=str(lack))
