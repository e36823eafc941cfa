"""Tells whoever sends requests here that it should not do so for much longer."""

from starlette.types import ASGIApp, Receive, Scope, Send

READINESS = "/health/ready"
LEAVING = b'{"code":"UNAVAILABLE","message":"The service is stopping"}'


class Door:
    """Everything is passed on; once closed, only the question whether the service is ready is not.

    A load balancer that asks sends no more requests, and those that come meanwhile are answered.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._is_closed = False

    def close(self) -> None:
        self._is_closed = True

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_asked = scope["type"] == "http" and scope["path"].endswith(READINESS)
        if not (self._is_closed and is_asked):
            await self._app(scope, receive, send)
            return
        headers = [
            (b"content-type", b"application/json"),
            (b"content-length", str(len(LEAVING)).encode()),
            (b"cache-control", b"no-store"),
            (b"retry-after", b"5"),
        ]
        await send({"type": "http.response.start", "status": 503, "headers": headers})
        body = b"" if scope["method"] == "HEAD" else LEAVING
        await send({"type": "http.response.body", "body": body})
