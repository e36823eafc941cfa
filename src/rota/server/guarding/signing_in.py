"""People on the pages: signed in with a token, known by a cookie from then on."""

from http.cookies import CookieError, SimpleCookie

from starlette.types import Scope as AsgiScope

from rota.auth.binding import is_loopback
from rota.auth.caller import Auth, Caller
from rota.auth.sessions import SessionBook
from rota.clock.protocol import Clock
from rota.errors import UnauthorizedError
from rota.server.guarding.origin import find_header
from rota.server.guarding.rates import Turnstiles
from rota.server.guarding.settings import GuardSettings
from rota.stores.protocol import DocumentStore

COOKIE = "rota_session"
PAGES = "/admin"
"""Where the pages are, and the only place browsers send the cookie to."""

_LONGEST_COOKIES = 8_192


class PageGuard:
    """Lets in who has signed in; without ``auth``, everybody, as the host service has.

    A change must come from a page of ours: the outer layer has seen to that already.
    """

    def __init__(
        self,
        auth: Auth | None,
        store: DocumentStore,
        clock: Clock,
        settings: GuardSettings,
        turnstiles: Turnstiles,
    ) -> None:
        self._clock = clock
        self._turnstiles = turnstiles
        self._lasts_for = settings.session_for
        self._sessions = (
            None
            if auth is None
            else SessionBook(store, clock, auth, session_for=settings.session_for)
        )

    @property
    def asks_for_tokens(self) -> bool:
        """Whether there is anything to sign in to."""
        return self._sessions is not None

    async def admit(self, scope: AsgiScope) -> Caller:
        """The caller; UnauthorizedError when nobody has signed in, or not for this long."""
        if self._sessions is None:
            return Caller()
        secret = _read_cookie(scope)
        caller = None
        if secret is not None:
            caller = await self._sessions.identify(secret, self._clock.now())
        if caller is None:
            raise UnauthorizedError
        self._turnstiles.count_caller(caller)
        return caller

    async def sign_in(self, scope: AsgiScope, token: str) -> str | None:
        """The ``Set-Cookie`` header that signs in; None when the token is not good.

        Who tries too often is refused with QuotaExceededError.
        """
        if self._sessions is None:
            return None
        self._turnstiles.look_at_stranger(scope)
        opened = await self._sessions.open(token.strip())
        if opened is None:
            self._turnstiles.count_stranger(scope)
            return None
        lasts_for = int(self._lasts_for.total_seconds())
        return _write_cookie(scope, opened.secret.reveal(), lasts_for)

    async def sign_out(self, scope: AsgiScope) -> str:
        """The ``Set-Cookie`` header that takes the cookie away; the session is over."""
        secret = _read_cookie(scope)
        if self._sessions is not None and secret is not None:
            await self._sessions.close(secret)
        return _write_cookie(scope, "", 0)


def _read_cookie(scope: AsgiScope) -> str | None:
    sent = find_header(scope["headers"], b"cookie")
    if sent is None or len(sent) > _LONGEST_COOKIES:
        return None
    try:
        morsel = SimpleCookie(sent.decode("latin-1")).get(COOKIE)
    except CookieError:
        return None
    return None if morsel is None else morsel.value


def _write_cookie(scope: AsgiScope, value: str, lasts_for: int) -> str:
    path = scope.get("root_path", "") + PAGES
    parts = [f"{COOKIE}={value}", f"Path={path}", f"Max-Age={lasts_for}"]
    parts += ["HttpOnly", "SameSite=Strict"]
    if not _is_plain_loopback(scope):
        parts.append("Secure")
    return "; ".join(parts)


def _is_plain_loopback(scope: AsgiScope) -> bool:
    """Whether the request came without TLS and over no network.

    Only then may the cookie go back the same way: some browsers keep no ``Secure`` cookie of
    ``http://127.0.0.1``, and what never leaves the host cannot be listened to on the way.
    """
    if scope.get("scheme") != "http":
        return False
    host = (find_header(scope["headers"], b"host") or b"").decode("latin-1")
    name = host.partition("]")[0] if host.startswith("[") else host.partition(":")[0]
    return is_loopback(name)
