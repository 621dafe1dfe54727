"""Actions that are retried at the next tick when the store fails."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TypeVar

from master.base.errors import StoreError
from master.base.logs import line

logger = logging.getLogger(__name__)

T = TypeVar("T")


class Attempt:
    """Runs one kind of action; of consecutive failures, only the first is logged."""

    def __init__(self, failure: str) -> None:
        """`failure` is the text of the log line when the action fails."""
        self._failure = failure
        self.failed = False
        """Whether the last run failed."""

    def run(self, action: Callable[[], T], otherwise: T) -> T:
        """The result of the action, or `otherwise` when it raises StoreError."""
        try:
            result = action()
        except StoreError as error:
            if not self.failed:
                logger.error(line(self._failure, reason=error.message))  # noqa: TRY400 - no defect
            self.failed = True
            return otherwise
        self.failed = False
        return result
