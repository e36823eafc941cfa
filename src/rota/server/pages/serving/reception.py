"""Between the router and the pages: who is let in, and what is said when something goes wrong."""

import logging
from collections.abc import Awaitable, Callable
from datetime import tzinfo
from typing import NamedTuple
from uuid import uuid4

from starlette.requests import Request
from starlette.responses import Response

from rota.auth.caller import Caller, Scope
from rota.errors import ForbiddenError, NotFoundError, RotaError, UnauthorizedError
from rota.server.guarding import PageGuard
from rota.server.pages.serving.answers import go_to, render_alone
from rota.server.pages.serving.memory import ShortMemory
from rota.server.pages.serving.visit import HOME, Visit, link_to
from rota.server.routing.problems import find_meaning
from rota.server.surroundings import Surroundings

Screen = Callable[[Visit], Awaitable[Response]]

_log = logging.getLogger("rota.server")
_FIRST_FAULT = 500


class Reception(NamedTuple):
    """What every page is made with."""

    around: Surroundings
    guard: PageGuard
    zone: tzinfo
    memory: ShortMemory

    def serve(
        self, screen: Screen, scope: Scope = Scope.READ
    ) -> Callable[..., Awaitable[Response]]:
        """The screen for those who may see it; a page that says why for all others."""

        async def answer(request: Request) -> Response:
            try:
                caller = await self.guard.admit(request.scope)
                if not caller.may(scope):
                    raise ForbiddenError(scope)
                return await self._show(screen, self._visit(request, caller))
            except UnauthorizedError:
                return _ask_in(request)
            except RotaError as error:
                return explain_failure(request, error)

        return answer

    async def _show(self, screen: Screen, visit: Visit) -> Response:
        """What somebody has changed, they see at once."""
        try:
            return await screen(visit)
        finally:
            if visit.request.method != "GET":
                self.memory.forget(visit.tenant)

    def _visit(self, request: Request, caller: Caller) -> Visit:
        now, has_doors = self.around.clock.now(), self.guard.asks_for_tokens
        return Visit(request, caller, self.around, self.memory, now, self.zone, has_doors)


async def go_home(request: Request) -> Response:
    """Whoever knows only where the service is, is shown the first page."""
    return go_to(link_to(request))


async def serve_nothing(request: Request) -> Response:
    """There is no such page."""
    return explain_failure(request, NotFoundError("There is no such page."))


def explain_failure(request: Request, error: RotaError) -> Response:
    """A page that says what went wrong, and what can be done about it."""
    meaning = find_meaning(type(error))
    message = error.message
    if meaning.status >= _FIRST_FAULT:
        number = uuid4().hex[:12]
        _log.warning("A page could not be made, incident %s: %s", number, error)
        message = f"The log of the server tells more, under incident {number}."
    return render_alone(request, "error.html", meaning.status, code=meaning.status, message=message)


def _ask_in(request: Request) -> Response:
    """To the sign-in page, and back here afterwards; what only refreshes itself is told so."""
    if request.headers.get("hx-request") == "true":
        return Response(status_code=401)
    if request.method != "GET":
        return go_to(link_to(request, "sign-in"))
    here = request.url.path.removeprefix(str(request.scope.get("root_path", "")))
    asked = f"{here}?{request.url.query}" if request.url.query else here
    return go_to(link_to(request, "sign-in", next=None if asked == HOME else asked))
