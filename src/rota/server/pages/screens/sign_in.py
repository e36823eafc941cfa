"""Signing in with a token, and signing out."""

from collections.abc import Awaitable, Callable

from starlette.requests import Request
from starlette.responses import Response

from rota.errors import RotaError
from rota.server.guarding import PageGuard
from rota.server.pages.serving.answers import go_to, render_alone
from rota.server.pages.serving.forms import read_form
from rota.server.pages.serving.reception import explain_failure
from rota.server.pages.serving.visit import HOME, link_to

Endpoint = Callable[[Request], Awaitable[Response]]


class Doors:
    """The pages that are there for people who have not signed in."""

    def __init__(self, guard: PageGuard) -> None:
        self._guard = guard

    async def show(self, request: Request) -> Response:
        """The form; whoever needs no token is sent on."""
        if not self._guard.asks_for_tokens:
            return go_to(link_to(request))
        return _show_form(request, request.query_params.get("next", ""))

    async def enter(self, request: Request) -> Response:
        """A session for whoever brings a good token, and then to where they wanted to go."""
        try:
            form = await read_form(request)
            wanted = form.one("next")
            cookie = await self._guard.sign_in(request.scope, form.one("token"))
        except RotaError as error:
            return explain_failure(request, error)
        if cookie is None and self._guard.asks_for_tokens:
            return _show_form(request, wanted, has_failed=True)
        answer = go_to(_read_target(request, wanted))
        if cookie is not None:
            answer.headers.append("Set-Cookie", cookie)
        return answer

    async def leave(self, request: Request) -> Response:
        """The session is over, here and in the store."""
        try:
            cookie = await self._guard.sign_out(request.scope)
        except RotaError as error:
            return explain_failure(request, error)
        answer = go_to(link_to(request, "sign-in"))
        answer.headers.append("Set-Cookie", cookie)
        return answer


def _show_form(request: Request, wanted: str, *, has_failed: bool = False) -> Response:
    status = 401 if has_failed else 200
    return render_alone(request, "sign_in.html", status, next=wanted, failed=has_failed)


def _read_target(request: Request, wanted: str) -> str:
    """A page of ours: whatever leads anywhere else leads to the first one."""
    is_ours = wanted == HOME or wanted.startswith((f"{HOME}/", f"{HOME}?"))
    if not is_ours or not wanted.isascii() or not wanted.isprintable() or "\\" in wanted:
        return link_to(request)
    return f"{request.scope.get('root_path', '').rstrip('/')}{wanted}"
