"""Tokens of another issuer: only what is signed by its keys, for us, and in force is accepted."""

from __future__ import annotations

import base64
import hmac
import json
import threading
import time
from collections.abc import Iterator
from datetime import timedelta
from functools import cache
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

from machine.clock import SystemClock
from master.access.config import OidcOptions
from master.access.keysets import KeySet, key_source, parse_keys
from master.access.oidc import OidcReader
from master.base.errors import InvalidRequestError, KeySetError, UnauthenticatedError
from planner.access.claims import ClaimRule, read_claim_rules, roles_by_claims
from planner.access.principal import Kind, Principal
from planner.values.errors import InvalidDefinitionError
from tests.fakes import VirtualClock

ISSUER, AUDIENCE = "https://login.example", "selat"
RULES = (ClaimRule("groups", "data", ("submitter", "analysts")), ClaimRule("realm.roles", "ops", ("operator",)))


@cache
def rsa_key(number: int = 0, bits: int = 2048) -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(public_exponent=65537, key_size=bits)


@cache
def ec_key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def rsa_jwk(key: rsa.RSAPrivateKey, name: str) -> dict[str, Any]:
    return {**RSAAlgorithm.to_jwk(key.public_key(), as_dict=True), "kid": name, "use": "sig"}


def ec_jwk(name: str) -> dict[str, Any]:
    return {**ECAlgorithm.to_jwk(ec_key().public_key(), as_dict=True), "kid": name}


def key_set(*keys: dict[str, Any]) -> bytes:
    return json.dumps({"keys": keys}).encode()


KEYS = key_set(rsa_jwk(rsa_key(), "one"), ec_jwk("two"), {"kty": "oct", "k": "c2VjcmV0", "kid": "three"})


def claims(**changes: Any) -> dict[str, Any]:
    now = int(time.time())
    base = {"iss": ISSUER, "aud": AUDIENCE, "sub": "ann", "exp": now + 600, "iat": now, "groups": ["x", "data"]}
    return {name: value for name, value in {**base, **changes}.items() if value is not None}


def signed(kid: str | None = "one", *, key: Any = None, algorithm: str = "RS256", **changes: Any) -> str:
    headers = {} if kid is None else {"kid": kid}
    return jwt.encode(claims(**changes), key or rsa_key(), algorithm=algorithm, headers=headers)


def reader(keys: bytes = KEYS) -> OidcReader:
    options = OidcOptions("keys.json", ISSUER, AUDIENCE, RULES)
    return OidcReader(options, lambda: parse_keys(keys, "keys.json"), clock=SystemClock())


async def test_who_calls_and_its_roles_come_from_the_claims() -> None:
    for token in (signed(), signed("two", key=ec_key(), algorithm="ES256"), signed(aud=["other", AUDIENCE])):
        identity = await reader().identity(token)
        assert identity.principal == Principal(Kind.PERSON, "oidc:ann", frozenset({"submitter", "analysts"}))
        assert identity.is_live()
    other = await reader().identity(signed(groups=None, realm={"roles": ["ops"]}))
    assert other.principal.roles == {"operator"}
    assert (await reader().identity(signed(groups="nothing"))).principal.roles == frozenset()


def encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def unsigned(algorithm: str = "none") -> str:
    """The part that is signed, and a dot."""
    parts = ({"alg": algorithm, "kid": "one"}, claims())
    return ".".join(encoded(json.dumps(part).encode()) for part in parts) + "."


def confused() -> str:
    """Signed with HS256, and the public key of the issuer as its secret."""
    text = unsigned("HS256")
    secret = json.dumps(rsa_jwk(rsa_key(), "one")).encode()
    return text + encoded(hmac.digest(secret, text[:-1].encode(), "sha256"))


def tampered() -> str:
    head, _, signature = signed().split(".")
    return f"{head}.{encoded(json.dumps(claims(sub='root')).encode())}.{signature}"


@pytest.mark.parametrize(
    ("token", "message"),
    [
        (unsigned, "not of an accepted kind"),
        (confused, "not of an accepted kind"),
        (
            lambda: jwt.encode(claims(), "c" * 40, algorithm="HS256", headers={"kid": "three"}),
            "not of an accepted kind",
        ),
        (lambda: signed(algorithm="RS512"), "not of an accepted kind"),
        (lambda: signed("two"), "not accepted"),
        (lambda: signed("one", key=ec_key(), algorithm="ES256"), "not accepted"),
        (lambda: signed(key=rsa_key(1)), "not accepted"),
        (tampered, "not accepted"),
        (lambda: signed(iss="https://evil.example"), "not accepted"),
        (lambda: signed(iss=None), "not accepted"),
        (lambda: signed(aud="other"), "not accepted"),
        (lambda: signed(aud=None), "not accepted"),
        (lambda: signed(exp=int(time.time()) - 60), "has expired"),
        (lambda: signed(exp=None), "not accepted"),
        (lambda: signed(exp="soon"), "not accepted"),
        (lambda: signed(nbf=int(time.time()) + 600), "not in force yet"),
        (lambda: signed(sub=None), "not accepted"),
        (lambda: signed(sub=""), "cannot be a name"),
        (lambda: signed(sub="a" * 300), "cannot be a name"),
        (lambda: signed("nine"), "no such key"),
        (lambda: signed(None), "no such key"),
        (lambda: "garbage", "is no token"),
        (lambda: "a.b.c", "is no token"),
        (lambda: "", "is no token"),
    ],
)
async def test_what_is_not_to_be_believed_is_refused(token: Any, message: str) -> None:
    text = token()
    with pytest.raises(UnauthenticatedError, match=message) as caught:
        await reader().identity(text)
    assert not text or text not in caught.value.message


async def test_a_set_of_one_key_needs_no_name() -> None:
    one = reader(key_set(rsa_jwk(rsa_key(), "one")))
    assert (await one.identity(signed(None))).principal.name == "oidc:ann"


async def test_a_key_that_is_new_at_the_issuer_is_found_and_garbage_does_not_ask_it_without_end() -> None:
    sets: list[KeySet] = [parse_keys(key_set(rsa_jwk(rsa_key(), "one")), "a"), parse_keys(KEYS, "b")]
    asked: list[int] = []

    def source() -> KeySet:
        asked.append(1)
        return sets[min(len(asked), len(sets)) - 1]

    clock = VirtualClock()
    own = OidcReader(OidcOptions("", ISSUER, AUDIENCE, RULES), source, clock=clock)
    token = signed("two", key=ec_key(), algorithm="ES256")
    for _ in range(3):
        with pytest.raises(UnauthenticatedError, match="no such key"):
            await own.identity(token)
    assert len(asked) == 1
    clock.advance(timedelta(seconds=10))
    assert (await own.identity(token)).principal.name == "oidc:ann"
    for _ in range(3):
        with pytest.raises(UnauthenticatedError, match="no such key"):
            await own.identity(signed("nine"))
    assert len(asked) == 2


async def test_keys_of_before_go_on_while_the_issuer_is_away() -> None:
    clock, answers = VirtualClock(), [parse_keys(KEYS, "a")]

    def source() -> KeySet:
        if not answers:
            raise KeySetError("away")
        return answers.pop()

    own = OidcReader(OidcOptions("", ISSUER, AUDIENCE, RULES), source, clock=clock)
    clock.advance(timedelta(minutes=6))
    assert (await own.identity(signed())).principal.name == "oidc:ann"


@pytest.mark.parametrize(
    "content",
    [b"", b"[]", b"{}", b'{"keys": 1}', b'{"keys": [1]}', b'{"keys": [{}]}', b'{"keys": []}', key_set({"kty": "oct"})],
)
def test_what_is_no_key_set_is_refused(content: bytes) -> None:
    with pytest.raises(KeySetError):
        parse_keys(content, "keys")


def test_weak_keys_and_keys_for_other_uses_are_passed_over() -> None:
    one = rsa_jwk(rsa_key(), "one")
    weak = rsa_jwk(rsa_key(2, 1024), "weak")
    assert set(parse_keys(key_set(one, weak, {**one, "kid": "enc", "use": "enc"}), "keys")) == {"one"}


@pytest.mark.parametrize("url", ["http://login.example/keys", "ftp://127.0.0.1/keys", "file:///etc/passwd"])
def test_keys_come_by_connections_that_nobody_changes(url: str) -> None:
    with pytest.raises(InvalidRequestError, match="exchanged on their way"):
        key_source(url)


@pytest.fixture
def issuer() -> Iterator[str]:
    """Serves the keys at /keys, a redirect at /elsewhere, and too much at /large."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(302 if self.path == "/elsewhere" else 200)
            self.send_header("Location", "/keys")
            self.end_headers()
            self.wfile.write(KEYS if self.path == "/keys" else b" " * (2 * 1024 * 1024))

        def log_message(self, format: str, *args: object) -> None:
            """Nothing."""

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_keys_are_fetched_or_read(issuer: str, tmp_path: Path) -> None:
    assert set(key_source(f"{issuer}/keys")()) == {"one", "two"}
    for path in ("elsewhere", "large"):
        with pytest.raises(KeySetError):
            key_source(f"{issuer}/{path}")()
    file = tmp_path / "keys.json"
    with pytest.raises(KeySetError, match="cannot read keys"):
        key_source(str(file))()
    file.write_bytes(KEYS)
    assert set(key_source(str(file))()) == {"one", "two"}


def test_rules_are_a_list() -> None:
    text = (
        b"- {claim: groups, value: data, roles: [submitter, analysts]}\n- {claim: email, value: '*', roles: [reader]}"
    )
    rules = read_claim_rules(text)
    assert rules == (RULES[0], ClaimRule("email", "*", ("reader",)))
    assert roles_by_claims(rules, {"email": "a@b", "groups": "data"}) == {"reader", "submitter", "analysts"}
    assert roles_by_claims(rules, {"groups": {"data": 1}}) == frozenset()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a: {",
        "{}",
        "- x",
        "- {claim: a, value: b}",
        "- {claim: a, value: 1, roles: [reader]}",
        "- {claim: a, value: b, roles: reader}",
        "- {claim: a, value: b, roles: []}",
        "- {claim: a, value: b, roles: [No Role]}",
        "- {claim: a, value: b, roles: [site]}",
    ],
)
def test_what_is_no_list_of_rules_is_refused(text: str) -> None:
    with pytest.raises(InvalidDefinitionError) as caught:
        read_claim_rules(text.encode())
    assert caught.value.hint
