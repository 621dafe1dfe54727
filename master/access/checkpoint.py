"""The parts that check callers, wired together."""

from __future__ import annotations

from datetime import timedelta

import grpc.aio

from machine.clock import Clock
from master.access.audit import Audit, AuditLog, NoAudit
from master.access.authentication import Authenticator, CertificateReader
from master.access.bootstrap import bootstrap
from master.access.config import AccessConfig
from master.access.interceptor import AccessInterceptor, GateParts
from master.access.keysets import key_source
from master.access.oidc import OidcReader
from master.access.tokens import TokenManager
from master.base.clock import SteadyTime
from master.base.errors import InvalidRequestError
from planner.access.limits import Meters

_FORGETTING = timedelta(seconds=60)


class Checkpoint:
    """Checks every call to a master, where access control is on."""

    def __init__(
        self,
        tokens: TokenManager,
        config: AccessConfig,
        *,
        clock: Clock,
        members: CertificateReader | None = None,
    ) -> None:
        """`members` knows members by their certificates.

        Raises:
            InvalidRequestError: nobody could enter.
            AuditError, KeySetError
        """
        self._on = config.on
        self._clock = clock
        self._steady = SteadyTime(clock)
        self._forgot_at = self._steady.now()
        self._meters = Meters(config.limits)
        self._audit: Audit = NoAudit()
        if not config.on:
            return
        if config.bootstrap_token_file is not None:
            bootstrap(tokens, config.bootstrap_token_file)
        elif not tokens.has_live_admin() and config.oidc is None:
            raise InvalidRequestError(
                "nobody could authenticate: there is no token of an admin",
                hint="give --bootstrap-token-file FILE, or --oidc-keys and its like",
            )
        if config.audit is not None:
            self._audit = AuditLog(config.audit)
        foreign = None
        if config.oidc is not None:
            foreign = OidcReader(config.oidc, key_source(config.oidc.keys), clock=clock)
        self._authenticator = Authenticator(tokens, foreign=foreign, members=members)

    @property
    def interceptors(self) -> tuple[grpc.aio.ServerInterceptor, ...]:  # type: ignore[type-arg]
        """Interceptors that belong inside the one that turns errors into statuses; none where callers are
        not checked."""
        if not self._on:
            return ()
        return (AccessInterceptor(GateParts(self._authenticator, self._meters, self._audit, self._clock)),)

    def tick(self) -> None:
        """Apply the passing of time: write held-back records, drop idle meters."""
        self._audit.tick(self._clock.now())
        now = self._steady.now()
        if now >= self._forgot_at + _FORGETTING:
            self._forgot_at = now
            self._meters.forget_idle(now)
