"""Answers of members to a certificate: `python -m tests.deploy.knock DIR ROOTS ROLE/NAME=HOST:PORT ...`.

Prints a JSON object: of each member the serial number of its certificate, and SERVING or the reason why it answers
nothing. DIR has the caller's certificate, ROOTS the authority's.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from tests.handshake import ANSWER_S, handshake
from wire.channels import channel
from wire.names import MemberName, member_name
from wire.security import Security


def main() -> None:
    own, roots, *targets = sys.argv[1:]
    found = {}
    for target in targets:
        named, _, address = target.partition("=")
        peer = member_name(*named.split("/"))
        _, serial = handshake(address, peer, Path(own), Path(roots))
        found[named] = {"serial": f"{serial:x}", "answer": answer(Path(own), address, peer)}
    sys.stdout.write(json.dumps(found) + "\n")


def answer(own: Path, address: str, peer: MemberName) -> str:
    """The answer of the member's health service, or the status with which it refuses."""
    with channel(address, peer, Security.of(own)) as connection:
        stub = health_pb2_grpc.HealthStub(connection)
        try:
            said = stub.Check(health_pb2.HealthCheckRequest(), timeout=ANSWER_S)
        except grpc.RpcError as error:
            return f"{error.code().name}: {error.details()}" if isinstance(error, grpc.Call) else str(error)
        return str(health_pb2.HealthCheckResponse.ServingStatus.Name(said.status))


if __name__ == "__main__":
    main()
