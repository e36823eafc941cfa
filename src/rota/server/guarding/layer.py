"""The outer layer of the service: what holds for every request, whatever is asked for."""

import re
from datetime import timedelta
from secrets import token_hex

from starlette.types import ASGIApp, Message, Receive, Send
from starlette.types import Scope as AsgiScope

from rota.clock.protocol import Clock
from rota.errors import RefusedError
from rota.server.guarding.answer_headers import complete_headers
from rota.server.guarding.origin import Headers, check_host, check_origin, find_header
from rota.server.guarding.settings import GuardSettings
from rota.server.guarding.slowness import hurry
from rota.server.routing.problems import answer_error
from rota.server.routing.replies import send_reply

REQUEST_ID = "rota.request_id"
"""Where in the scope of a request its id is found; the answer bears it, too."""

_REQUEST_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}")
_WITHOUT_BODIES = frozenset({"GET", "HEAD", "OPTIONS"})


class GuardLayer:
    """Refuses requests for other hosts and changes from other sites; completes every answer.

    A request that bears a harmless id keeps it, so that one id goes through all logs.
    """

    def __init__(self, app: ASGIApp, settings: GuardSettings, clock: Clock) -> None:
        self._app = app
        self._clock = clock
        self._body_within: timedelta | None = settings.body_within
        self._hosts = None if settings.hosts is None else frozenset(map(str.lower, settings.hosts))

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers: Headers = scope["headers"]
        request_id = _read_id(headers)
        scope[REQUEST_ID] = request_id.decode()

        async def send_complete(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = complete_headers(message.get("headers", ()), request_id)
            await send(message)

        try:
            check_host(headers, self._hosts)
            check_origin(scope["method"], headers)
        except RefusedError as error:
            is_head = scope["method"] == "HEAD"
            await send_reply(answer_error(error), send_complete, is_head=is_head)
            return
        await self._app(scope, self._hurried(scope, receive), send_complete)

    def _hurried(self, scope: AsgiScope, receive: Receive) -> Receive:
        if self._body_within is None or scope["method"] in _WITHOUT_BODIES:
            return receive
        return hurry(receive, self._clock, self._body_within)


def _read_id(headers: Headers) -> bytes:
    given = find_header(headers, b"x-request-id")
    if given is not None and _REQUEST_ID.fullmatch(given):
        return given
    return token_hex(16).encode()
