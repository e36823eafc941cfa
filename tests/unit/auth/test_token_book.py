"""Tokens: issued once, kept as hashes, and good only as long as they are good."""

from datetime import UTC, datetime, timedelta

import pytest

from rota.auth.caller import Caller, Scope
from rota.auth.tokens import (
    CachedToken,
    TokenBook,
    TokenCache,
    decode_token,
    make_token,
    take_fingerprint,
)
from rota.errors import (
    InvalidInputError,
    StaleVersionError,
    StoreError,
    StoreUnavailableError,
    TokenNotFoundError,
)
from rota.stores.memory import MemoryStore
from rota.stores.protocol import Document, DocumentWrite
from rota.testing import VirtualClock

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)


async def everything_in(store: MemoryStore) -> bytes:
    pages = [page async for page in store.scan("tokens")]
    return b"\n".join(it.key.encode() + it.body for page in pages for it in page)


async def test_a_token_identifies_caller_tenant_and_scopes(
    book: TokenBook,
) -> None:
    issued = await book.issue("guild-7", [Scope.WRITE, "read", "read"], "ada's laptop")
    caller = await book.identify(issued.secret.reveal(), NOW)
    assert caller == Caller(
        tenant="guild-7",
        scopes=frozenset({Scope.READ, Scope.WRITE}),
        who="ada's laptop",
        token_id=issued.id,
    )


async def test_the_store_holds_no_token(book: TokenBook, store: MemoryStore) -> None:
    secret = (await book.issue("a", ["read"], "x")).secret.reveal()
    kept = await everything_in(store)
    assert secret.encode() not in kept
    assert secret[5:20].encode() not in kept
    assert take_fingerprint(secret).digest.encode() in kept


async def test_an_issued_token_does_not_show_its_secret(book: TokenBook) -> None:
    issued = await book.issue("a", ["read"], "x")
    assert issued.secret.reveal() not in repr(issued)


async def test_chance_is_the_systems_unless_a_test_says_otherwise(
    store: MemoryStore, clock: VirtualClock
) -> None:
    one, other = TokenBook(store, clock), TokenBook(store, clock)
    assert (await one.issue("a", ["read"], "x")).id != (await other.issue("a", ["read"], "x")).id


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"tenant": "two words"}, "tenant"),
        ({"tenant": ""}, "tenant"),
        ({"name": ""}, "name"),
        ({"name": "line\nbreak"}, "name"),
        ({"scopes": []}, "scopes"),
        ({"scopes": ["root"]}, "scopes"),
        ({"scopes": "everything"}, "scopes"),
        ({"expires_at": NOW}, "expires_at"),
        ({"expires_at": datetime(2027, 1, 1)}, "expires_at"),  # noqa: DTZ001 - refused here
    ],
)
async def test_invalid_fields_are_refused_by_name(
    book: TokenBook, store: MemoryStore, change: dict[str, object], field: str
) -> None:
    asked = {"tenant": "a", "scopes": ["read"], "name": "x", **change}
    with pytest.raises(InvalidInputError) as caught:
        await book.issue(**asked)  # type: ignore[arg-type]  # wrong on purpose
    assert caught.value.details["field"] == field
    assert await everything_in(store) == b""


async def test_unknown_revoked_expired_and_mistyped_tokens_are_rejected_alike(
    book: TokenBook, clock: VirtualClock
) -> None:
    revoked = await book.issue("a", ["read"], "revoked")
    expired = await book.issue("a", ["read"], "expired", expires_at=NOW + SECOND)
    await book.revoke(revoked.id)
    await clock.advance(SECOND)
    mistyped = expired.secret.reveal()[:-1] + "!"
    unknown = make_token(lambda _: 5).reveal()
    for token in (revoked.secret.reveal(), expired.secret.reveal(), mistyped, unknown, "", "é"):
        assert await book.identify(token, clock.now()) is None


async def test_a_token_is_good_until_the_instant_it_expires(book: TokenBook) -> None:
    issued = await book.issue("a", ["read"], "x", expires_at=NOW + SECOND)
    just_before = NOW + SECOND - timedelta(microseconds=1)
    assert await book.identify(issued.secret.reveal(), just_before) is not None
    assert await book.identify(issued.secret.reveal(), NOW + SECOND) is None


async def test_a_token_with_the_right_id_and_a_wrong_digest_is_rejected(
    book: TokenBook, store: MemoryStore
) -> None:
    """Two tokens could share an id, however unlikely; only the digest lets somebody in."""
    issued = await book.issue("a", ["read"], "x")
    document = (await store.read("tokens", [issued.id]))[issued.id]
    digest = take_fingerprint(issued.secret.reveal()).digest.encode()
    other = document.body.replace(digest, b"0" * 64)
    await store.write_all([DocumentWrite("tokens", issued.id, document.version, other)])
    assert await book.identify(issued.secret.reveal(), NOW) is None


async def test_a_token_revoked_elsewhere_is_refused_in_less_than_five_seconds(
    store: MemoryStore, clock: VirtualClock, book: TokenBook
) -> None:
    issued = await book.issue("a", ["read"], "x")
    assert await book.identify(issued.secret.reveal(), clock.now()) is not None
    await TokenBook(store, clock).revoke(issued.id)
    await clock.advance(2 * SECOND)
    assert await book.identify(issued.secret.reveal(), clock.now()) is None


async def test_a_token_revoked_here_is_refused_at_once(book: TokenBook) -> None:
    issued = await book.issue("a", ["read"], "x")
    assert await book.identify(issued.secret.reveal(), NOW) is not None
    await book.revoke(issued.id)
    assert await book.identify(issued.secret.reveal(), NOW) is None
    assert await book.recall(issued.id, NOW) is None


async def test_revoking_again_keeps_the_first_instant(book: TokenBook, clock: VirtualClock) -> None:
    issued = await book.issue("a", ["read"], "x")
    first = await book.revoke(issued.id)
    await clock.advance(SECOND)
    assert await book.revoke(issued.id) == first
    assert first.revoked_at == NOW


@pytest.mark.parametrize("token_id", ["", "x" * 300, "nul\0", "0" * 24, "0" * 23, "../tokens"])
async def test_a_token_that_does_not_exist_cannot_be_revoked(
    book: TokenBook, token_id: str
) -> None:
    with pytest.raises(TokenNotFoundError):
        await book.revoke(token_id)


async def test_one_tenant_does_not_find_the_tokens_of_another(book: TokenBook) -> None:
    ours = await book.issue("a", ["read"], "ours")
    theirs = await book.issue("b", ["read"], "theirs")
    with pytest.raises(TokenNotFoundError):
        await book.revoke(theirs.id, "a")
    assert await book.identify(theirs.secret.reveal(), NOW) is not None
    assert [token.id for token in await book.list_tokens("a")] == [ours.id]
    assert {token.id for token in await book.list_tokens()} == {ours.id, theirs.id}


async def test_the_list_begins_with_the_newest(book: TokenBook, clock: VirtualClock) -> None:
    for name in ("first", "second", "third"):
        await book.issue("a", ["read"], name)
        await clock.advance(SECOND)
    assert [token.name for token in await book.list_tokens("a")] == ["third", "second", "first"]


async def test_use_is_noted_at_most_once_a_minute(
    book: TokenBook, store: MemoryStore, clock: VirtualClock
) -> None:
    issued = await book.issue("a", ["read"], "x")
    for _ in range(4):
        await book.identify(issued.secret.reveal(), clock.now())
        await clock.advance(20 * SECOND)
    document = (await store.read("tokens", [issued.id]))[issued.id]
    assert document.version == 3
    kept = decode_token(issued.id, document.body)
    assert kept.token.last_used_at == NOW + timedelta(minutes=1)


async def test_noting_a_use_never_undoes_a_revocation(
    store: MemoryStore, clock: VirtualClock, book: TokenBook
) -> None:
    issued = await book.issue("a", ["read"], "x")
    await book.identify(issued.secret.reveal(), clock.now())
    await clock.advance(timedelta(seconds=59, milliseconds=500))
    await book.identify(issued.secret.reveal(), clock.now())
    await TokenBook(store, clock).revoke(issued.id)
    await clock.advance(SECOND)  # remembered as good, and a use is to be noted
    assert await book.identify(issued.secret.reveal(), clock.now()) is not None
    assert await book.identify(issued.secret.reveal(), clock.now()) is None
    assert [token.revoked_at is None for token in await book.list_tokens()] == [False]


class Unwritable(MemoryStore):
    """A store that can be read only."""

    is_broken = False

    async def write_each(self, writes: object) -> list[int | None]:
        if self.is_broken:
            raise StoreUnavailableError("read-only for now")
        return await super().write_each(writes)  # type: ignore[arg-type]  # passed on as it came


async def test_a_use_that_cannot_be_recorded_does_not_reject_the_caller(
    clock: VirtualClock,
) -> None:
    store = Unwritable()
    book = TokenBook(store, clock)
    issued = await book.issue("a", ["read"], "x")
    store.is_broken = True
    assert await book.identify(issued.secret.reveal(), NOW) is not None


class Restless(MemoryStore):
    """A store in which somebody else always writes first."""

    async def write_each(self, writes: object) -> list[int | None]:  # noqa: ARG002 - never applied
        return [None]


async def test_a_token_that_others_keep_changing_is_not_said_to_be_revoked(
    clock: VirtualClock,
) -> None:
    book = TokenBook(Restless(), clock)
    issued = await book.issue("a", ["read"], "x")
    with pytest.raises(StaleVersionError):
        await book.revoke(issued.id)


async def test_a_damaged_token_is_an_error_of_the_store(
    book: TokenBook, store: MemoryStore
) -> None:
    await store.write_all([DocumentWrite("tokens", "0" * 24, None, b"{}")])
    with pytest.raises(StoreError, match=r"Token 0{24} cannot be read"):
        await book.recall("0" * 24, NOW)


async def test_the_number_of_remembered_tokens_is_bounded(
    book: TokenBook, store: MemoryStore
) -> None:
    cache = TokenCache(most=3)
    for name in "abcde":
        issued = await book.issue("a", ["read"], name)
        document: Document = (await store.read("tokens", [issued.id]))[issued.id]
        cache.keep(CachedToken(decode_token(issued.id, document.body), 1, NOW))
    names = [it.kept.token.name for it in cache.tokens.values()]
    assert names == ["c", "d", "e"]


async def test_a_clock_that_was_set_back_does_not_keep_a_memory_alive(
    book: TokenBook, store: MemoryStore
) -> None:
    issued = await book.issue("a", ["read"], "x")
    document = (await store.read("tokens", [issued.id]))[issued.id]
    cache = TokenCache()
    cache.keep(CachedToken(decode_token(issued.id, document.body), 1, NOW))
    assert cache.find(issued.id, NOW) is not None
    assert cache.find(issued.id, NOW - SECOND) is None
    assert cache.find(issued.id, NOW + 2 * SECOND) is None
