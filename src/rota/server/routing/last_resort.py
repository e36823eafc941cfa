"""What happens when nothing else knows what to do."""

from starlette.types import ASGIApp, Message, Receive, Send
from starlette.types import Scope as AsgiScope

from rota.server.routing.problems import answer_error
from rota.server.routing.replies import send_reply


class LastResort:
    """The outermost layer: whatever goes wrong inside, the caller is answered and the log told."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        has_begun = False

        async def watch(message: Message) -> None:
            nonlocal has_begun
            has_begun = True
            await send(message)

        try:
            await self._app(scope, receive, watch)
        except Exception as error:  # noqa: BLE001 - the top of the service: nothing is above it
            reply = answer_error(error)
            if not has_begun:
                await send_reply(reply, send, is_head=scope["method"] == "HEAD")
