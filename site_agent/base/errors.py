"""Errors of the site agent: one root, ids as attributes."""

from __future__ import annotations


class SiteAgentError(Exception):
    """Root of the agent's errors. `code` is the stable name listed in docs/errors.md; `hint` says how to avoid the
    error."""

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


class PathRefusedError(ConnectorError):
    """A path leads out of the agent's allowed directories."""

    code = "PATH_REFUSED"


class SecretError(ConnectorError):
    """A secret that an option refers to is missing at the site, or its file cannot be used."""

    code = "SECRET_UNAVAILABLE"


class EngineError(SiteAgentError):
    """Spark could not run a stage."""

    code = "ENGINE_ERROR"


class FunctionError(EngineError):
    """A user's Python function raised, returned what does not fit its type, or its module cannot be loaded."""

    code = "FUNCTION_ERROR"


class FunctionLimitError(FunctionError):
    """A user's Python function needs more CPU time, memory or files than the agent gives to functions."""

    code = "FUNCTION_LIMIT"


class FunctionsRefusedError(EngineError):
    """The agent runs no Python functions."""

    code = "PYTHON_FUNCTIONS_REFUSED"


class ChannelError(SiteAgentError):
    """A channel is missing, damaged, or used against its rules."""

    code = "CHANNEL_ERROR"


class UnknownChannelError(ChannelError):
    code = "UNKNOWN_CHANNEL"


class UnconfirmedChannelsError(UnknownChannelError):
    """The agent has started, or lost the master, and the master has not yet said which channels the site has."""

    code = "UNCONFIRMED_CHANNELS"


class TrimmedEpochError(ChannelError):
    """The epoch asked for is no longer kept."""

    code = "TRIMMED_EPOCH"


class LostChannelError(ChannelError):
    """A channel's producer answers, but has refused to send the channel for too long."""

    code = "LOST_CHANNEL"


class CorruptEpochError(ChannelError):
    """A stored or received epoch does not match its checksum."""

    code = "CORRUPT_EPOCH"


class NoSpaceError(ChannelError):
    """The disk is full. Nothing was written in part."""

    code = "NO_SPACE"


class ChannelRequestError(ChannelError):
    """A reader asked for something that makes no sense: no channel named, no credit, a column that does not exist."""

    code = "INVALID_CHANNEL_REQUEST"


class IngestError(SiteAgentError):
    """Pushed rows cannot be accepted, or cannot be read back."""

    code = "INGEST_ERROR"


class PushRequestError(IngestError):
    """A push makes no sense: no stream named, sequence 0, bytes that are no Arrow stream, a batch that is too large."""

    code = "INVALID_PUSH"


class SchemaMismatchError(IngestError):
    """The columns of a pushed batch are not those of the stream, or a value does not fit its column."""

    code = "SCHEMA_MISMATCH"


class UnknownStreamError(IngestError):
    """Nobody can push to a stream of that name at this site (yet)."""

    code = "UNKNOWN_STREAM"


class SequenceGapError(IngestError):
    """A pushed batch does not follow the producer's last one."""

    code = "SEQUENCE_GAP"


class StreamEndedError(IngestError):
    """The stream has ended at this site."""

    code = "STREAM_ENDED"


class DiskFullError(IngestError):
    """The site's disk has no room for pushed rows."""

    code = "DISK_FULL"


class CorruptLogError(IngestError):
    """Pushed rows that were acknowledged are damaged on disk."""

    code = "CORRUPT_LOG"


class UnknownSlotError(SiteAgentError):
    """The site has no such slot, or another site is meant."""

    code = "UNKNOWN_SLOT"


class StaleFencingError(SiteAgentError):
    """A worker works under a lease that has ended, as far as the agent knows."""

    code = "STALE_FENCING"


class NotHolderError(SiteAgentError):
    """A worker wants a slot that is leased to another framework."""

    code = "NOT_HOLDER"
