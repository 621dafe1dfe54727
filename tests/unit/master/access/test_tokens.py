from __future__ import annotations

import stat
from datetime import timedelta
from pathlib import Path

import pytest

from machine.bearer import new_token
from master.access.authentication import Authenticator, Certificate, Identity
from master.access.bootstrap import bootstrap
from master.access.tokens import TokenManager, TokenWish, is_token
from master.base.errors import InvalidRequestError, LastAdminError, UnauthenticatedError, UnknownTokenError
from master.records.access import digest_of
from master.store.database import STATE_FILE
from master.store.sqlite import SqliteStore
from planner.access.principal import Kind, Principal
from tests.fakes import CountingHex, VirtualClock

ADMIN = TokenWish("root", ("admin",))
HOUR = timedelta(hours=1)


class World:
    def __init__(self, store: SqliteStore | None = None) -> None:
        self.clock = VirtualClock()
        self.store = store or SqliteStore.in_memory()
        self.tokens = TokenManager(self.store, clock=self.clock, random_hex=CountingHex())

    async def who(self, *headers: tuple[str, str | bytes]) -> Identity:
        return await Authenticator(self.tokens).identity(headers, {})


@pytest.fixture
def world() -> World:
    return World()


def bearer(token: str) -> tuple[str, str]:
    return ("authorization", f"Bearer {token}")


def test_tokens_are_random_and_known_by_their_form() -> None:
    assert is_token(new_token())
    assert new_token() != new_token()
    # 256 bits in base64.
    assert len(new_token().removeprefix("selat_")) == 43
    assert not is_token("selat_short")
    assert not is_token(new_token() + "x")


def test_only_the_digest_is_stored(tmp_path: Path) -> None:
    world = World(SqliteStore.open(tmp_path))
    record, secret = world.tokens.create(ADMIN, by="")
    assert record.digest == digest_of(secret)
    world.store.close()
    content = b"".join(path.read_bytes() for path in tmp_path.glob(f"{STATE_FILE}*"))
    assert record.digest.encode() in content
    assert secret.encode() not in content
    assert secret not in repr(record)


def test_tokens_are_there_after_a_restart(world: World) -> None:
    wish = TokenWish("eu-agent", ("site",), ("eu",), HOUR)
    record, secret = world.tokens.create(wish, by="root")
    again = TokenManager(world.store, clock=world.clock, random_hex=CountingHex())
    assert again.find(secret) == record
    assert again.all() == (record,)
    assert record.principal == Principal(Kind.SITE, "eu-agent", frozenset({"site"}), frozenset({"eu"}))
    assert (record.created_by, record.expires_at) == ("root", world.clock.now() + HOUR)


@pytest.mark.parametrize(
    ("wish", "message"),
    [
        (TokenWish("", ("reader",)), "cannot be the name"),
        (TokenWish("oidc:ann", ("reader",)), "cannot be the name"),
        (TokenWish("ann", ()), "none of the roles"),
        (TokenWish("ann", ("analysts",)), "none of the roles"),
        (TokenWish("ann", ("sumbitter",)), "none of the roles"),
        (TokenWish("ann", ("reader", "No Role")), "cannot be a role"),
        (TokenWish("ann", ("reader",), ("eu",)), "names any"),
        (TokenWish("eu", ("site",)), "names its sites"),
        (TokenWish("eu", ("site", "admin"), ("eu",)), "goes with no other role"),
        (TokenWish("f", ("framework",), ("a", "b")), "its framework"),
        (TokenWish("ann", ("reader",), (), timedelta(0)), "cannot last"),
        (TokenWish("ann", ("reader",), (), timedelta(days=4000)), "cannot last"),
    ],
)
def test_a_wish_that_contradicts_itself_is_refused(world: World, wish: TokenWish, message: str) -> None:
    with pytest.raises(InvalidRequestError, match=message) as caught:
        world.tokens.create(wish, by="")
    assert caught.value.hint
    assert world.tokens.all() == ()


async def test_a_live_token_says_who_calls_until_it_expires_or_is_revoked(world: World) -> None:
    world.tokens.create(ADMIN, by="")
    _, ann = world.tokens.create(TokenWish("ann", ("reader",), (), HOUR), by="root")
    _, bob = world.tokens.create(TokenWish("bob", ("reader",)), by="root")
    identity = await world.who(bearer(ann))
    assert identity.principal == Principal(Kind.PERSON, "ann", frozenset({"reader"}))
    assert identity.is_live()

    world.clock.advance(HOUR)
    assert not identity.is_live()
    with pytest.raises(UnauthenticatedError, match="has expired"):
        await world.who(bearer(ann))

    other = await world.who(bearer(bob))
    world.tokens.revoke("bob", by="root")
    assert not other.is_live()
    with pytest.raises(UnauthenticatedError, match="was revoked"):
        await world.who(bearer(bob))


@pytest.mark.parametrize(
    "headers",
    [
        (),
        (("authorization", ""),),
        (("authorization", "Bearer "),),
        (("authorization", "Basic YTpi"),),
        (("authorization", b"Bearer x"),),
        (bearer("garbage"),),
        (bearer("selat_" + "A" * 43),),
        (bearer("eyJhbGciOiJub25lIn0.e30."),),
        (bearer("a"), bearer("b")),
    ],
)
async def test_nobody_else_enters(world: World, headers: tuple[tuple[str, str | bytes], ...]) -> None:
    world.tokens.create(ADMIN, by="")
    with pytest.raises(UnauthenticatedError) as caught:
        await world.who(*headers)
    assert "AAAA" not in caught.value.message


async def test_a_members_certificate_stands_in_for_its_token(world: World) -> None:
    eu = Principal(Kind.SITE, "eu", frozenset({"site"}), frozenset({"eu"}))

    class Members:
        def identity(self, certificate: Certificate) -> Identity | None:
            return Identity(eu) if certificate else None

    authenticator = Authenticator(world.tokens, members=Members())
    assert (await authenticator.identity((), {"x509_common_name": [b"eu"]})).principal == eu
    with pytest.raises(UnauthenticatedError):
        await authenticator.identity((), {})


def test_revoking_is_by_id_or_by_name_and_keeps_the_last_admin(world: World) -> None:
    root, _ = world.tokens.create(ADMIN, by="")
    ids = [world.tokens.create(TokenWish("ann", ("reader",)), by="root")[0].id for _ in range(2)]
    assert [r.id for r in world.tokens.revoke("ann", by="root")] == ids
    assert all(r.revoked_at is not None for r in world.tokens.revoke(ids[0], by="root"))
    with pytest.raises(UnknownTokenError) as caught:
        world.tokens.revoke("an", by="root")
    assert "ann" in caught.value.hint
    with pytest.raises(LastAdminError):
        world.tokens.revoke(root.id, by="root")
    world.tokens.create(TokenWish("next", ("admin",)), by="root")
    assert [r.id for r in world.tokens.revoke(root.id, by="next")] == [root.id]


def test_the_first_token_is_written_for_its_user_alone_and_made_once(world: World, tmp_path: Path) -> None:
    file = tmp_path / "deep" / "admin.token"
    bootstrap(world.tokens, file)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    secret = file.read_text().strip()
    record = world.tokens.find(secret)
    assert record is not None
    assert (record.name, record.roles) == ("admin", ("admin",))
    file.unlink()
    bootstrap(world.tokens, file)
    assert not file.exists()


def test_a_token_that_was_put_there_is_taken_also_after_a_crash(world: World, tmp_path: Path) -> None:
    file = tmp_path / "admin.token"
    file.write_text(new_token())
    file.chmod(0o600)
    bootstrap(world.tokens, file)
    assert world.tokens.find(file.read_text()) is not None


def test_a_file_that_cannot_be_the_first_token_is_refused(world: World, tmp_path: Path) -> None:
    file = tmp_path / "admin.token"
    file.write_text("garbage")
    file.chmod(0o600)
    with pytest.raises(InvalidRequestError, match="no token of a master"):
        bootstrap(world.tokens, file)
    file.write_text(new_token())
    file.chmod(0o644)
    with pytest.raises(InvalidRequestError, match="others may read"):
        bootstrap(world.tokens, file)
    with pytest.raises(InvalidRequestError, match="cannot be written"):
        bootstrap(world.tokens, Path("/proc/none/admin.token"))
    assert world.tokens.all() == ()


def test_a_first_token_that_is_over_is_not_made_live_again(world: World, tmp_path: Path) -> None:
    file = tmp_path / "admin.token"
    _, secret = world.tokens.create(TokenWish("root", ("admin",), (), HOUR), by="")
    file.write_text(secret)
    file.chmod(0o600)
    world.clock.advance(HOUR)
    with pytest.raises(InvalidRequestError, match="has expired or was revoked"):
        bootstrap(world.tokens, file)
