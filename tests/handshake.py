"""A TLS connection to a member of a cluster, as a stranger with any certificate makes it."""

from __future__ import annotations

import socket
import ssl
from contextlib import closing
from pathlib import Path

from cryptography import x509

from wire.files import CA, KEY, MEMBER
from wire.names import MemberName

ANSWER_S = 20.0


def handshake(
    address: str, peer: MemberName, own: Path | None, roots: Path, most: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3
) -> tuple[str, int]:
    """The version that was agreed on, and the server's serial number; raises OSError when it does not come to that."""
    context = ssl.create_default_context(cafile=str(roots / CA))
    context.maximum_version = most
    # Let gRPC talk to us: it hangs up on those who do not speak HTTP/2.
    context.set_alpn_protocols(["h2"])
    if own is not None:
        context.load_cert_chain(own / MEMBER, own / KEY)
    host, port = address.rsplit(":", 1)
    with (
        closing(socket.create_connection((host, int(port)), ANSWER_S)) as plain,
        context.wrap_socket(plain, server_hostname=peer.host) as wrapped,
    ):
        # With TLS 1.3 a client learns only afterwards that its certificate was refused. gRPC speaks first.
        if not wrapped.recv(1):
            raise ConnectionResetError("the server ended the connection")
        der = wrapped.getpeercert(binary_form=True)
        assert der is not None
        return str(wrapped.version()), x509.load_der_x509_certificate(der).serial_number
