"""Sessions of people on the pages. A session ends with its token."""

from collections.abc import Callable
from datetime import datetime, timedelta
from hmac import compare_digest
from secrets import randbits

import msgspec

from rota.auth.caller import Auth, Caller
from rota.auth.tokens import Secret, make_token, take_fingerprint
from rota.clock.protocol import Clock
from rota.jobs.record import Instant
from rota.stores.documents import decode_body, find_document, remove_documents
from rota.stores.protocol import Document, DocumentStore, DocumentWrite

SESSIONS = "sessions"
"""The collection. A key is a hash of the session's secret."""

SESSION_FOR = timedelta(hours=12)

_LONGEST_SECRET = 100
_NO_DIGEST = "0" * 64


class Session(msgspec.Struct, frozen=True, kw_only=True):
    """A stored session: its token and when it expires."""

    digest: str
    token_id: str
    opened_at: Instant
    expires_at: Instant


class OpenedSession(msgspec.Struct, frozen=True, kw_only=True):
    """A new session: the caller, the secret that the browser sends, and when it expires."""

    caller: Caller
    secret: Secret
    expires_at: datetime


class SessionBook:
    """Sessions as documents of a store. Only hashes of a secret are stored."""

    def __init__(
        self,
        store: DocumentStore,
        clock: Clock,
        auth: Auth,
        *,
        session_for: timedelta = SESSION_FOR,
        draw_bits: Callable[[int], int] = randbits,
    ) -> None:
        self._store = store
        self._clock = clock
        self._auth = auth
        self._session_for = session_for
        self._draw_bits = draw_bits

    async def open(self, token: str) -> OpenedSession | None:
        """Open a session with this token; None when the token is not valid.

        Also removes expired sessions.
        """
        now = self._clock.now()
        caller = await self._auth.identify(token, now)
        if caller is None or caller.token_id is None:
            return None
        await remove_documents(self._store, SESSIONS, lambda it: _has_expired(it, now))
        secret = make_token(self._draw_bits)
        fingerprint = take_fingerprint(secret.reveal())
        session = Session(
            digest=fingerprint.digest,
            token_id=caller.token_id,
            opened_at=now,
            expires_at=now + self._session_for,
        )
        write = DocumentWrite(SESSIONS, fingerprint.id, None, msgspec.json.encode(session))
        await self._store.write_all([write])
        return OpenedSession(caller=caller, secret=secret, expires_at=session.expires_at)

    async def identify(self, secret: str, now: datetime) -> Caller | None:
        """The caller of a session; None when it is unknown or over, or its token is not valid."""
        if len(secret) > _LONGEST_SECRET:
            return None
        fingerprint = take_fingerprint(secret)
        document = await find_document(self._store, SESSIONS, fingerprint.id)
        session = decode_body(document, Session, None)
        digest = _NO_DIGEST if session is None else session.digest
        is_known = compare_digest(digest, fingerprint.digest)
        if session is None or not is_known or now >= session.expires_at:
            return None
        return await self._auth.recall(session.token_id, now)

    async def close(self, secret: str) -> None:
        """End the session, if it still exists."""
        key = take_fingerprint(secret).id
        document = await find_document(self._store, SESSIONS, key)
        if document is not None:
            # Sessions never change, so a stale write means that it is already removed.
            await self._store.write_each([DocumentWrite(SESSIONS, key, document.version, None)])


def _has_expired(document: Document, now: datetime) -> bool:
    """Also true for an unreadable session: its owner signs in again."""
    session = decode_body(document, Session, None)
    return session is None or session.expires_at <= now
