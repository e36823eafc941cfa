"""Sessions: opened with a token, ended with it, with the browser, or after twelve hours."""

from datetime import UTC, datetime, timedelta

from rota.auth.caller import Caller
from rota.auth.sessions import SessionBook
from rota.auth.tokens import TokenBook
from rota.stores.memory import MemoryStore
from rota.stores.protocol import DocumentWrite
from rota.testing import VirtualClock

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)


async def count_sessions(store: MemoryStore) -> int:
    return sum([len(page) async for page in store.scan("sessions")])


async def test_a_session_secret_identifies_the_caller(
    sessions: SessionBook, book: TokenBook
) -> None:
    issued = await book.issue("a", ["read"], "ada")
    opened = await sessions.open(issued.secret.reveal())
    assert opened is not None
    assert opened.caller.who == "ada"
    assert await sessions.identify(opened.secret.reveal(), NOW) == opened.caller
    assert opened.secret.reveal() not in repr(opened)


async def test_a_session_is_not_a_token_and_a_token_no_session(
    sessions: SessionBook, book: TokenBook
) -> None:
    issued = await book.issue("a", ["read"], "ada")
    opened = await sessions.open(issued.secret.reveal())
    assert opened is not None
    assert await book.identify(opened.secret.reveal(), NOW) is None
    assert await sessions.identify(issued.secret.reveal(), NOW) is None


async def test_the_store_holds_neither_secret(
    sessions: SessionBook, book: TokenBook, store: MemoryStore
) -> None:
    issued = await book.issue("a", ["read"], "ada")
    opened = await sessions.open(issued.secret.reveal())
    assert opened is not None
    ((document,),) = [page async for page in store.scan("sessions")]
    kept = document.key.encode() + document.body
    assert opened.secret.reveal().encode() not in kept
    assert issued.secret.reveal().encode() not in kept


async def test_a_token_that_is_not_good_opens_no_session(
    sessions: SessionBook, store: MemoryStore
) -> None:
    assert await sessions.open("rota_wrong") is None
    assert await count_sessions(store) == 0


async def test_a_session_dies_with_its_token(
    sessions: SessionBook, book: TokenBook, clock: VirtualClock
) -> None:
    revoked = await book.issue("a", ["read"], "revoked")
    expiring = await book.issue("a", ["read"], "x", expires_at=NOW + timedelta(hours=1))
    one = await sessions.open(revoked.secret.reveal())
    other = await sessions.open(expiring.secret.reveal())
    assert one is not None
    assert other is not None
    await book.revoke(revoked.id)
    assert await sessions.identify(one.secret.reveal(), clock.now()) is None
    assert await sessions.identify(other.secret.reveal(), clock.now()) is not None
    await clock.advance(timedelta(hours=1))
    assert await sessions.identify(other.secret.reveal(), clock.now()) is None


async def test_a_session_lasts_twelve_hours(sessions: SessionBook, book: TokenBook) -> None:
    opened = await sessions.open((await book.issue("a", ["read"], "ada")).secret.reveal())
    assert opened is not None
    end = NOW + timedelta(hours=12)
    assert opened.expires_at == end
    just_before = end - timedelta(microseconds=1)
    assert await sessions.identify(opened.secret.reveal(), just_before) is not None
    assert await sessions.identify(opened.secret.reveal(), end) is None


async def test_signing_out_ends_the_session_and_only_it(
    sessions: SessionBook, book: TokenBook
) -> None:
    token = (await book.issue("a", ["read"], "ada")).secret.reveal()
    one, other = await sessions.open(token), await sessions.open(token)
    assert one is not None
    assert other is not None
    await sessions.close(one.secret.reveal())
    await sessions.close(one.secret.reveal())
    assert await sessions.identify(one.secret.reveal(), NOW) is None
    assert await sessions.identify(other.secret.reveal(), NOW) is not None


async def test_any_other_cookie_is_rejected(
    sessions: SessionBook, store: MemoryStore, book: TokenBook
) -> None:
    opened = await sessions.open((await book.issue("a", ["read"], "ada")).secret.reveal())
    assert opened is not None
    ((document,),) = [page async for page in store.scan("sessions")]
    for text in ("", "nul\0", "\ud800", "x" * 100_000, document.key):
        assert await sessions.identify(text, NOW) is None
    broken = DocumentWrite("sessions", document.key, document.version, b"broken")
    await store.write_all([broken])
    assert await sessions.identify(opened.secret.reveal(), NOW) is None


async def test_expired_sessions_are_removed_at_sign_in(
    sessions: SessionBook, book: TokenBook, store: MemoryStore, clock: VirtualClock
) -> None:
    token = (await book.issue("a", ["read"], "ada")).secret.reveal()
    await sessions.open(token)
    await sessions.open(token)
    await clock.advance(timedelta(hours=12))
    await sessions.open(token)
    assert await count_sessions(store) == 1


class Hosted:
    """A host service that knows its people, and wants no sessions for them."""

    async def identify(self, token: str, now: datetime) -> Caller | None:  # noqa: ARG002 - anybody
        return Caller(who="host")

    async def recall(self, token_id: str, now: datetime) -> Caller | None:  # noqa: ARG002 - none
        return None


async def test_tokens_without_ids_have_no_sessions(store: MemoryStore, clock: VirtualClock) -> None:
    assert await SessionBook(store, clock, Hosted()).open("anything") is None
