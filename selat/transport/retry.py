"""How long, and how often, to try again while the master is away."""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeVar

from selat.errors import ConnectionLost, Detail, Unavailable

FIRST_PAUSE = timedelta(milliseconds=100)
LONGEST_PAUSE = timedelta(seconds=3)

AnswerT = TypeVar("AnswerT")

logger = logging.getLogger("selat")


@dataclass(slots=True)
class Reconnect:
    """How long one reader retries: the time counts from the first failure after the last answer."""

    patience: timedelta
    what: str
    """What is being read, for messages."""
    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    _since: float | None = None
    _pause: timedelta = FIRST_PAUSE

    def answered(self) -> None:
        """The master answered: the next failure starts the count anew."""
        if self._since is not None:
            logger.info("%s: the master answers again", self.what)
        self._since, self._pause = None, FIRST_PAUSE

    def until_answered(self, ask: Callable[[], AnswerT]) -> AnswerT:
        """Repeats an idempotent request until it is answered; raises ConnectionLost when the time is used up."""
        while True:
            try:
                answer = ask()
            except Unavailable as error:
                self.failed(error)
            else:
                self.answered()
                return answer

    def failed(self, error: Unavailable) -> None:
        """Pauses before the next attempt; raises ConnectionLost when the time is used up."""
        if self._since is None:
            self._since = self.now()
            logger.warning("%s: %s; trying again for %.0f s", self.what, error.message, self.patience.total_seconds())
        left = self._since + self.patience.total_seconds() - self.now()
        if left <= 0:
            text = f"{error.message}; gave up after {self.patience.total_seconds():.0f} s"
            raise ConnectionLost(text, detail=Detail(hint=error.hint, ids=error.ids)) from None
        # Spread, so that all readers of a restarted master do not come back at one instant.
        pause = self._pause.total_seconds() * random.uniform(0.5, 1.0)
        self.sleep(min(pause, left))
        self._pause = min(self._pause * 2, LONGEST_PAUSE)
