"""How a server on a socket is to be run, so that nobody can tire it out."""

import asyncio
from typing import Any, Final

from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

REQUEST_WITHIN: Final = 30.0
"""Seconds from the beginning of a connection, or from the answer before, to the last header.

More than an idle connection is kept for: whoever asks at the last moment has time to do so.
"""


class PunctualProtocol(H11Protocol):
    """HTTP/1.1 for those who say what they want: who is silent, or trickles, is hung up on.

    Uvicorn alone would wait for the rest of a request for ever, and every connection counts.
    """

    request_within = REQUEST_WITHIN
    _overdue: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        super().connection_made(transport)
        self._mind()

    def connection_lost(self, exc: Exception | None) -> None:
        self._forget()
        super().connection_lost(exc)

    def handle_events(self) -> None:
        super().handle_events()
        self._mind()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._mind()

    def _mind(self) -> None:
        cycle: RequestResponseCycle | None = self.cycle  # None until there is a request
        if cycle is not None and not cycle.response_complete:
            self._forget()  # a body has a limit of its own
        elif self._overdue is None and not self.transport.is_closing():
            self._overdue = self.loop.call_later(self.request_within, self.transport.close)

    def _forget(self) -> None:
        if self._overdue is not None:
            self._overdue.cancel()
            self._overdue = None


SERVER_OPTIONS: Final[dict[str, Any]] = {
    "limit_concurrency": 1_000,
    "backlog": 2_048,
    "timeout_keep_alive": 20,
    "h11_max_incomplete_event_size": 32_768,
    "server_header": False,
    "ws": "none",
    "http": PunctualProtocol,
    "proxy_headers": False,
}
"""What to give ``uvicorn.Config``: so many connections at once, so long an idle one is kept, so
many bytes of headers, nothing said about the program, no other protocols.

``http`` is h11, on a schedule: it alone limits the size of headers. Who runs the server behind a
proxy sets ``proxy_headers`` and ``forwarded_allow_ips`` to the proxy's own address: whoever else
may name the address a request comes from escapes the limits on it.
"""
