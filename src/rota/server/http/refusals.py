"""Logs and counts refused requests: who asked for what, from where, and never with which secret."""

from datetime import timedelta
from typing import Final

from starlette.types import Scope as AsgiScope

from rota.auth.caller import Caller
from rota.auth.masking import mask_text
from rota.auth.tokens import is_well_formed, take_fingerprint
from rota.clock.protocol import Clock
from rota.errors import CrossSiteRequestError, QuotaExceededError, RefusedError, UnknownHostError
from rota.events import EventEmitter, RequestRefused
from rota.policy.limits import Rate
from rota.server.http.limits import RateLimiter

CALLER: Final = "rota.caller"
"""The key of the identified caller in the ASGI scope."""

TOKEN_ID: Final = "rota.token_id"  # noqa: S105 - a key
"""The key of the id of a token that is not valid."""

REFUSAL: Final = "rota.refusal"
"""The key of the reason where the status of the response does not say it."""

REQUEST_ID: Final = "rota.request_id"
"""The key of the request id. The response carries it too."""

UNAUTHORIZED: Final = "unauthorized"
RATE_LIMITED: Final = "rate_limited"
SIGN_IN_FAILED: Final = "sign_in_failed"

_BY_STATUS: Final = {401: UNAUTHORIZED, 403: "forbidden", 429: RATE_LIMITED}
_BY_ERROR: Final = {CrossSiteRequestError: "cross_site", UnknownHostError: "unknown_host"}
_LONGEST_ROUTE: Final = 200


def note_caller(scope: AsgiScope, caller: Caller) -> None:
    scope[CALLER] = caller


def note_token(scope: AsgiScope, token: str) -> None:
    """Remember the id of a refused token. Other text may be a password, and is not kept."""
    if is_well_formed(token):
        scope[TOKEN_ID] = take_fingerprint(token).id


def note_reason(scope: AsgiScope, reason: str | RefusedError) -> None:
    scope[REFUSAL] = reason if isinstance(reason, str) else _BY_ERROR.get(type(reason), "forbidden")


class RefusalLog:
    """Emits ``RequestRefused`` for every response with the status 401, 403 or 429.

    One sender that is over its rate limit is logged once a second: it could fill the disk. Each of
    its requests is counted.
    """

    def __init__(self, events: EventEmitter, clock: Clock) -> None:
        self._events = events
        self._clock = clock
        self._lines = RateLimiter(Rate(count=1, per=timedelta(seconds=1), burst=1), "log_lines")

    def note(self, scope: AsgiScope, status: int) -> None:
        """Emit the event if the response refuses the request."""
        reason = scope.get(REFUSAL) or _BY_STATUS.get(status)
        if reason is None:
            return
        caller: Caller | None = scope.get(CALLER)
        event = RequestRefused(
            reason=reason,
            status=status,
            method=scope["method"],
            route=_name_route(scope),
            remote=_read_remote(scope),
            caller=None if caller is None else caller.who,
            tenant=None if caller is None else caller.tenant,
            token_id=scope.get(TOKEN_ID) if caller is None else caller.token_id,
            request_id=scope.get(REQUEST_ID),
        )
        self._events.emit(event, is_logged=reason != RATE_LIMITED or self._has_line(event))

    def _has_line(self, event: RequestRefused) -> bool:
        try:
            self._lines.take(event.token_id or event.remote, self._clock.now())
        except QuotaExceededError:
            return False
        return True


def _name_route(scope: AsgiScope) -> str:
    """The path of the route with its parameters' names; before routing, the path itself."""
    route = getattr(scope.get("route"), "path", None)
    return mask_text(str(route or scope["path"])[:_LONGEST_ROUTE])


def _read_remote(scope: AsgiScope) -> str:
    client = scope.get("client")
    return str(client[0]) if client else "unknown"
