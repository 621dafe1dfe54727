"""Restricts gRPC to TLS 1.3.

gRPC for Python has no setting for the least version of TLS. It has one for the cipher suites of TLS 1.2, while those of
1.3 are fixed. Members' keys are on elliptic curves; a server whose only cipher suites of TLS 1.2 need an RSA
key cannot complete a handshake of TLS 1.2. gRPC reads the variable once, when it is loaded.
"""

from __future__ import annotations

import os

_VARIABLE = "GRPC_SSL_CIPHER_SUITES"
_RSA_ONLY = "ECDHE-RSA-AES128-GCM-SHA256"


def require() -> None:
    """Called by servers before gRPC is loaded."""
    os.environ[_VARIABLE] = _RSA_ONLY
