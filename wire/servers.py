"""Makes gRPC servers; no other module does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import grpc
import grpc.aio

from wire.callers import CallerInterceptor, Refuse
from wire.files import Current, Material
from wire.security import Security
from wire.transport import Options


def aio_server(
    security: Security, refuse: Refuse, *, options: Options = (), interceptors: Sequence[Any] = ()
) -> grpc.aio.Server:
    """A server without a port, which knows its callers if there is TLS; `refuse` ends calls of those who may not."""
    if not security.on:
        return security.transport.server(options, interceptors)
    caller = CallerInterceptor(security, refuse)
    return grpc.aio.server(options=tuple(options), interceptors=(caller, *interceptors))


def listen(server: grpc.aio.Server, address: str, security: Security) -> int:
    """Have the server listen at host:port; the port, which was free when 0 was given.

    Raises:
        RuntimeError: it cannot listen there.
    """
    if security.identity is None:
        return server.add_insecure_port(address)
    return server.add_secure_port(address, _credentials(security.identity.current))


def _credentials(current: Current) -> grpc.ServerCredentials:
    """Server credentials that read the certificate files anew for each new connection."""
    last = current.material()

    def changed() -> grpc.ServerCertificateConfiguration | None:
        nonlocal last
        material = current.material()
        if material is last:
            return None
        last = material
        return _configuration(material)

    # The stubs do not know that None says that nothing has changed.
    fetch = cast("Callable[[], grpc.ServerCertificateConfiguration]", changed)
    return grpc.dynamic_ssl_server_credentials(_configuration(last), fetch, require_client_authentication=True)


def _configuration(material: Material) -> grpc.ServerCertificateConfiguration:
    return grpc.ssl_server_certificate_configuration([(material.key, material.chain)], material.roots)
