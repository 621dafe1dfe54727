"""Tokens, as admins see them."""

from __future__ import annotations

from datetime import timedelta

from contract.times import to_us
from master.access.tokens import TokenWish
from master.base.errors import InvalidRequestError
from master.records.access import TokenRecord
from planner.access.principal import Principal
from selat.v1 import access_pb2 as pb


def token_to_proto(record: TokenRecord) -> pb.Token:
    return pb.Token(
        id=record.id,
        name=record.name,
        roles=record.roles,
        bound_to=record.bound,
        created_at_us=to_us(record.created_at),
        created_by=record.created_by,
        expires_at_us=None if record.expires_at is None else to_us(record.expires_at),
        revoked_at_us=None if record.revoked_at is None else to_us(record.revoked_at),
    )


def wish_from_proto(request: pb.CreateTokenRequest) -> TokenWish:
    """The requested token. Raises InvalidRequestError when its lifetime exceeds the calendar."""
    try:
        lifetime = timedelta(seconds=request.lifetime_s) if request.lifetime_s else None
    except OverflowError:
        raise InvalidRequestError(f"a token cannot last {request.lifetime_s} s", hint="some days, in seconds") from None
    return TokenWish(request.name, tuple(request.roles), tuple(request.bound_to), lifetime)


def caller_to_proto(principal: Principal) -> pb.GetCallerResponse:
    return pb.GetCallerResponse(
        kind=principal.kind.value,
        name=principal.name,
        roles=sorted(principal.roles),
        bound_to=sorted(principal.bound),
    )
