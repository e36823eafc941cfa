"""Who may ask: the seam between the table and whatever identifies callers."""

from typing import Protocol

from starlette.types import Scope as AsgiScope

from rota.auth.caller import Auth, Caller
from rota.clock.protocol import Clock
from rota.errors import UnauthorizedError

_SCHEME = b"bearer"


class Guard(Protocol):
    """Identifies whoever sends a request."""

    async def admit(self, scope: AsgiScope) -> Caller:
        """The caller; UnauthorizedError when it is nobody."""
        ...


class HostGuard:
    """The host service has let the caller in already."""

    def __init__(self) -> None:
        self._caller = Caller()

    async def admit(self, scope: AsgiScope) -> Caller:  # noqa: ARG002 - all are the same to it
        return self._caller


class BearerGuard:
    """Whoever sends a token that ``auth`` knows."""

    def __init__(self, auth: Auth, clock: Clock) -> None:
        self._auth = auth
        self._clock = clock

    async def admit(self, scope: AsgiScope) -> Caller:
        sent = [value for name, value in scope["headers"] if name == b"authorization"]
        if len(sent) != 1:
            raise UnauthorizedError
        scheme, _, token = sent[0].partition(b" ")
        if scheme.lower() != _SCHEME or not token.isascii():
            raise UnauthorizedError
        caller = await self._auth.identify(token.strip().decode(), self._clock.now())
        if caller is None:
            raise UnauthorizedError
        return caller
