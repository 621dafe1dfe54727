"""Reasons for skipped tests: every skip names a kind of need, by which `.ci/run` judges it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NoReturn

import pytest


class Need(StrEnum):
    """The kinds of needs whose lack skips a test."""

    ROOT = "needs root"
    PACKAGES = "needs packages of scripts/setup_wan"
    MACHINE = "needs another machine or kernel"

    @property
    def ends_as_root(self) -> bool:
        """True when a run as root can meet the need: such a run fails if a test was skipped for it."""
        return self is not Need.MACHINE

    @staticmethod
    def of(reason: str) -> Need | None:
        """The need that the reason of a skip names; None when it names none."""
        return next((need for need in Need if reason.startswith(need.value)), None)


@dataclass(frozen=True, slots=True)
class Lack:
    """A need that is not met, with the missing things."""

    need: Need
    detail: str = ""

    def __str__(self) -> str:
        return ": ".join(filter(None, (self.need.value, self.detail)))


def skip(lack: Lack) -> NoReturn:
    """Skip the running test."""
    pytest.skip(str(lack))


def unless(lack: Lack | None) -> pytest.MarkDecorator:
    """A mark that skips tests when there is a lack."""
    return pytest.mark.skipif(lack is not None, reason=str(lack))
