"""Uvicorn options that protect a server on a socket."""

import asyncio
from typing import Any, Final

from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

REQUEST_WITHIN: Final = 30.0
"""Seconds from the start of a connection, or from the previous response, to the last header.

Longer than the keep-alive timeout, so that a request sent at the last moment is still read.
"""

READ_WITHIN: Final = 20.0
"""Seconds in which a client must read an answer, or at least ``READ_AT_LEAST`` bytes more of it."""

READ_AT_LEAST: Final = 16_384


class PunctualProtocol(H11Protocol):
    """HTTP/1.1 that closes a connection whose request does not arrive, or is not read, in time.

    Uvicorn alone waits forever for the rest of a request, and for the reader of an answer, and
    every connection counts. A client that pipelines requests gets the next answer when it has read
    the one before; so at most one answer is unread.
    """

    request_within = REQUEST_WITHIN
    read_within = READ_WITHIN
    _overdue: asyncio.TimerHandle | None = None
    _unread: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        super().connection_made(transport)
        transport.set_write_buffer_limits(high=0)  # paused until all that was sent is read
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        self._unwatch()
        self._stop_reading_watch()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._watch_reading()

    def resume_writing(self) -> None:
        self._stop_reading_watch()
        super().resume_writing()

    def _watch_reading(self) -> None:
        """Close the connection unless the client reads on. Nothing is added to the buffer now."""
        size = self.transport.get_write_buffer_size()
        self._unread = self.loop.call_later(self.read_within, self._check_reading, size)

    def _check_reading(self, size: int) -> None:
        if size - self.transport.get_write_buffer_size() < READ_AT_LEAST:
            self.transport.abort()  # close() would wait for the reader
        else:
            self._watch_reading()

    def _stop_reading_watch(self) -> None:
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None

    def handle_events(self) -> None:
        super().handle_events()
        self._watch()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._watch()

    def _watch(self) -> None:
        cycle: RequestResponseCycle | None = self.cycle  # None until there is a request
        if cycle is not None and not cycle.response_complete:
            self._unwatch()  # a body has a limit of its own
        elif self._overdue is None and not self.transport.is_closing():
            self._overdue = self.loop.call_later(self.request_within, self.transport.close)

    def _unwatch(self) -> None:
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
"""Options for ``uvicorn.Config``: limits on connections, idle time and header size; no other
protocols.

``http`` is h11 because it alone limits the size of headers. Behind a proxy, set ``proxy_headers``
and set ``forwarded_allow_ips`` to the proxy's own address: any other sender could choose its
client address and escape the rate limits.
"""
