"""Errors of the site agent: one root, ids as attributes."""

from __future__ import annotations


class SiteAgentError(Exception):
    """Root. `code` is the stable name listed in docs/errors.md; `hint` says what would be right."""

    code = "SITE_AGENT_ERROR"

    def __init__(self, message: str, *, hint: str = "", ids: dict[str, str] | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.ids = dict(ids or {})

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild, (type(self), self.message, self.hint, self.ids))


def _rebuild(kind: type[SiteAgentError], message: str, hint: str, ids: dict[str, str]) -> SiteAgentError:
    return kind(message, hint=hint, ids=ids)


class ConnectorError(SiteAgentError):
    """A source or table cannot be read: missing directory, unknown option, bad value."""

    code = "CONNECTOR_ERROR"


class EngineError(SiteAgentError):
    """Spark could not run a stage."""

    code = "ENGINE_ERROR"


class ChannelError(SiteAgentError):
    """A channel is missing, damaged, or used against its rules."""

    code = "CHANNEL_ERROR"


class UnknownChannelError(ChannelError):
    code = "UNKNOWN_CHANNEL"


class TrimmedEpochError(ChannelError):
    """The epoch asked for is no longer kept."""

    code = "TRIMMED_EPOCH"


class CorruptEpochError(ChannelError):
    """A stored or received epoch does not match its checksum."""

    code = "CORRUPT_EPOCH"


class ChannelRequestError(ChannelError):
    """A reader asked for something that makes no sense: no channel named, no credit, a column that does not exist."""

    code = "INVALID_CHANNEL_REQUEST"
