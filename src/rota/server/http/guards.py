"""Identifies callers: by bearer token for the API, by session cookie for the pages."""

from datetime import timedelta
from hashlib import sha256
from typing import Protocol

from starlette.requests import HTTPConnection
from starlette.types import Scope as AsgiScope

from rota.auth.binding import is_loopback
from rota.auth.caller import Auth, Caller
from rota.auth.sessions import SessionBook
from rota.clock.protocol import Clock
from rota.errors import UnauthorizedError
from rota.server.http.limits import MOST_REMEMBERED, CallerLimits
from rota.server.http.security import (
    SIGN_IN_FAILED,
    UNAUTHORIZED,
    find_header,
    note_caller,
    note_reason,
    note_token,
    strip_port,
)

COOKIE = "rota_session"
HOME = "/admin"
"""The path of the pages, and the only path to which browsers send the cookie."""


class Guard(Protocol):
    """Identifies the sender of a request."""

    async def admit(self, scope: AsgiScope) -> Caller:
        """The caller; UnauthorizedError when it is unknown."""
        ...


class HostGuard:
    """Admits every request: the host service has checked it already."""

    def __init__(self) -> None:
        self._caller = Caller()

    async def admit(self, scope: AsgiScope) -> Caller:  # noqa: ARG002 - all are the same to it
        return self._caller


class BearerGuard:
    """Admits a request with a valid bearer token, at a limited rate.

    The rate limit for strangers does not apply to a token that was valid before: a proxy may send
    the requests of strangers from the same address.
    """

    def __init__(
        self, auth: Auth, clock: Clock, limits: CallerLimits, most: int = MOST_REMEMBERED
    ) -> None:
        self._auth = auth
        self._clock = clock
        self._limits = limits
        self._most = most
        self._known: dict[bytes, None] = {}

    async def admit(self, scope: AsgiScope) -> Caller:
        """The caller; QuotaExceededError when it sends too many requests."""
        key = sha256(find_header(scope["headers"], b"authorization") or b"").digest()
        if key not in self._known:
            self._limits.check_stranger(scope)
        caller = await self._identify(scope)
        self._known.pop(key, None)
        if caller is None:
            self._limits.count_stranger(scope)
            raise UnauthorizedError
        while len(self._known) >= self._most:
            del self._known[next(iter(self._known))]
        self._known[key] = None
        note_caller(scope, caller)
        self._limits.count_caller(caller)
        return caller

    async def _identify(self, scope: AsgiScope) -> Caller | None:
        sent = [value for name, value in scope["headers"] if name == b"authorization"]
        if len(sent) != 1:
            return None
        scheme, _, token = sent[0].partition(b" ")
        if scheme.lower() != b"bearer" or not token.isascii():
            return None
        text = token.strip().decode()
        caller = await self._auth.identify(text, self._clock.now())
        if caller is None:
            note_token(scope, text)
        return caller


class PageGuard:
    """Admits people who have signed in. Without sessions it admits everyone, like ``HostGuard``."""

    def __init__(
        self,
        sessions: SessionBook | None,
        clock: Clock,
        session_for: timedelta,
        limits: CallerLimits,
    ) -> None:
        self._sessions = sessions
        self._clock = clock
        self._session_for = session_for
        self._limits = limits

    @property
    def asks_for_tokens(self) -> bool:
        """Whether people sign in here."""
        return self._sessions is not None

    async def admit(self, scope: AsgiScope) -> Caller:
        """The caller; UnauthorizedError when the session is missing or over."""
        if self._sessions is None:
            return Caller()
        secret = HTTPConnection(scope).cookies.get(COOKIE)
        caller = None
        if secret is not None:
            caller = await self._sessions.identify(secret, self._clock.now())
        if caller is None:
            if secret is not None or scope.get("method") != "GET":  # not a first visit
                note_reason(scope, UNAUTHORIZED)
            raise UnauthorizedError
        note_caller(scope, caller)
        self._limits.count_caller(caller)
        return caller

    async def sign_in(self, scope: AsgiScope, token: str) -> str | None:
        """The ``Set-Cookie`` header of a new session; None when the token is not valid.

        QuotaExceededError after too many failures from one address.
        """
        if self._sessions is None:
            return None
        self._limits.check_stranger(scope)
        opened = await self._sessions.open(token.strip())
        if opened is None:
            note_reason(scope, SIGN_IN_FAILED)
            note_token(scope, token.strip())
            self._limits.count_stranger(scope)
            return None
        lasts_for = int(self._session_for.total_seconds())
        return _write_cookie(scope, opened.secret.reveal(), lasts_for)

    async def sign_out(self, scope: AsgiScope) -> str:
        """End the session. Returns the ``Set-Cookie`` header that removes the cookie."""
        secret = HTTPConnection(scope).cookies.get(COOKIE)
        if self._sessions is not None and secret is not None:
            await self._sessions.close(secret)
        return _write_cookie(scope, "", 0)


def _write_cookie(scope: AsgiScope, value: str, lasts_for: int) -> str:
    path = scope.get("root_path", "") + HOME
    parts = [f"{COOKIE}={value}", f"Path={path}", f"Max-Age={lasts_for}"]
    parts += ["HttpOnly", "SameSite=Strict"]
    if not _is_plain_loopback(scope):
        parts.append("Secure")
    return "; ".join(parts)


def _is_plain_loopback(scope: AsgiScope) -> bool:
    """Whether the request came over plain HTTP from this host.

    Some browsers drop a ``Secure`` cookie of ``http://127.0.0.1``. Without it the cookie is safe
    here, because it never leaves the host.
    """
    if scope.get("scheme") != "http":
        return False
    host = (find_header(scope["headers"], b"host") or b"").decode("latin-1")
    return is_loopback(strip_port(host))
