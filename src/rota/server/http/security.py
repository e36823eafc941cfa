"""The outer layer of the service: hosts, origins, headers, slow bodies, and a log of refusals."""

import asyncio
import re
from collections.abc import Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import timedelta
from secrets import token_hex
from typing import Any, Final

from starlette.types import ASGIApp, Message, Receive, Send
from starlette.types import Scope as AsgiScope

from rota.auth.caller import Caller
from rota.auth.masking import mask_text
from rota.auth.tokens import is_well_formed, take_fingerprint
from rota.clock.protocol import Clock, keeps_real_time
from rota.clock.system import timeout_after
from rota.errors import (
    CrossSiteRequestError,
    QuotaExceededError,
    RefusedError,
    RequestTooSlowError,
    UnknownHostError,
)
from rota.events import EventEmitter, RequestRefused
from rota.policy.limits import Rate
from rota.server.http.context import GuardSettings
from rota.server.http.limits import RateLimiter
from rota.server.http.problems import answer_error, send_reply

Headers = Sequence[tuple[bytes, bytes]]

CONTENT_SECURITY_POLICY = "; ".join(
    (
        "default-src 'self'",
        "script-src 'self'",
        "object-src 'none'",
        "base-uri 'none'",
        "form-action 'self'",
        "frame-ancestors 'none'",
    )
)

PERMISSIONS_POLICY = ", ".join(
    f"{feature}=()" for feature in ("camera", "geolocation", "microphone", "payment", "usb")
)

SECURITY_HEADERS: tuple[tuple[bytes, bytes], ...] = tuple(
    (name.encode(), value.encode())
    for name, value in {
        "content-security-policy": CONTENT_SECURITY_POLICY,
        "x-content-type-options": "nosniff",
        "x-frame-options": "DENY",
        # Not "no-referrer": with it browsers send "Origin: null" even between our own pages.
        "referrer-policy": "same-origin",
        "permissions-policy": PERMISSIONS_POLICY,
        "cross-origin-opener-policy": "same-origin",
        "cross-origin-resource-policy": "same-origin",
        "cache-control": "no-store",
    }.items()
)

_HEADER_NAMES = frozenset(name for name, _ in SECURITY_HEADERS)
_REQUEST_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}")
_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})


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


class SecurityLayer:
    """Refuses requests for unknown hosts and cross-site changes, and completes every response.

    Logs every refusal, whichever layer refuses.
    A well-formed ``X-Request-Id`` is kept, so that one id appears in all logs.
    """

    def __init__(
        self, app: ASGIApp, settings: GuardSettings, clock: Clock, events: EventEmitter
    ) -> None:
        self._app = app
        self._refusals = RefusalLog(events, clock)
        self._clock = clock
        self._body_within = settings.body_within
        self._hosts = None if settings.hosts is None else frozenset(map(str.lower, settings.hosts))

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers: Headers = scope["headers"]
        request_id = _read_request_id(headers)
        scope[REQUEST_ID] = request_id.decode()

        async def send_complete(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._refusals.note(scope, message["status"])
                message["headers"] = complete_headers(message.get("headers", ()), request_id)
            await send(message)

        try:
            check_host(headers, self._hosts)
            check_origin(scope["method"], headers)
        except RefusedError as error:
            note_reason(scope, error)
            is_head = scope["method"] == "HEAD"
            await send_reply(answer_error(error), send_complete, is_head=is_head)
            return
        if self._body_within is not None and scope["method"] not in _SAFE:
            receive = limit_body_time(receive, self._clock, self._body_within)
        await self._app(scope, receive, send_complete)


def find_header(headers: Headers, name: bytes) -> bytes | None:
    """The first header with this lower-case name."""
    for each, value in headers:
        if each == name:
            return value
    return None


def check_host(headers: Headers, hosts: frozenset[str] | None) -> None:
    """Refuse a request for a host name that is not ours.

    This stops DNS rebinding: a foreign page may let its own name resolve to this server and then
    read the response as if it were same-origin, but the Host header still carries the foreign name.
    """
    if hosts is None:
        return
    host = (find_header(headers, b"host") or b"").decode("latin-1")
    if strip_port(host).lower() not in hosts:
        raise UnknownHostError(host[:100])


def check_origin(method: str, headers: Headers) -> None:
    """Refuse a change that a foreign page makes a browser send.

    Browsers state the origin of a request, and a page cannot forge it. A token in a header is
    exempt: browsers never add one by themselves. Other programs state no origin and send no
    cookies; a change with a cookie but without an origin is refused.
    """
    if method in _SAFE or find_header(headers, b"authorization") is not None:
        return
    site = find_header(headers, b"sec-fetch-site")
    origin = find_header(headers, b"origin")
    if site is not None:
        is_ours = site == b"same-origin"
    elif origin is not None:
        is_ours = _is_same_host(origin, find_header(headers, b"host"))
    else:
        is_ours = find_header(headers, b"cookie") is None
    if not is_ours:
        raise CrossSiteRequestError


def strip_port(host: str) -> str:
    """``[::1]:8080`` as ``[::1]``, ``example.org:80`` as ``example.org``."""
    if host.startswith("["):
        return host.partition("]")[0] + "]"
    return host.partition(":")[0]


def complete_headers(
    given: Iterable[tuple[bytes, bytes]], request_id: bytes
) -> list[tuple[bytes, bytes]]:
    """Add the missing security headers. A header that the response sets itself stays."""
    headers = list(given)
    present = {name for name, _ in headers if name in _HEADER_NAMES}
    headers += [it for it in SECURITY_HEADERS if it[0] not in present]
    headers.append((b"x-request-id", request_id))
    return headers


def limit_body_time(receive: Receive, clock: Clock, within: timedelta) -> Receive:
    """Wrap ``receive``: the whole body must arrive within this time.

    Once the body is complete, waiting for the disconnect may take any time.
    """
    ends_at = clock.now() + within
    is_complete = False

    async def receive_in_time() -> Message:
        nonlocal is_complete
        if is_complete:
            return await receive()
        try:
            async with _timeout(clock, ends_at - clock.now()):
                message = await receive()
        except TimeoutError as error:
            raise RequestTooSlowError(within) from error
        is_complete = not message.get("more_body")
        return message

    return receive_in_time


def _timeout(clock: Clock, duration: timedelta) -> AbstractAsyncContextManager[Any]:
    """The event loop's own timer where the clock keeps real time: it is much cheaper."""
    if keeps_real_time(clock):
        return asyncio.timeout(duration.total_seconds())
    return timeout_after(clock, duration)


def _is_same_host(origin: bytes, host: bytes | None) -> bool:
    scheme, _, named = origin.partition(b"://")
    return host is not None and scheme in {b"http", b"https"} and named.lower() == host.lower()


def _read_request_id(headers: Headers) -> bytes:
    given = find_header(headers, b"x-request-id")
    if given is not None and _REQUEST_ID.fullmatch(given):
        return given
    return token_hex(16).encode()
