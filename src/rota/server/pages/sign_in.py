"""Sign in with a token, and sign out."""

from starlette.background import BackgroundTask
from starlette.requests import Request
from starlette.responses import Response

from rota.errors import RotaError
from rota.server.http.guards import PageGuard
from rota.server.pages.responses import explain_failure, go_to, render_alone
from rota.server.pages.templates import compile_templates
from rota.server.pages.visit import link_to, read_form, read_target


class SignInPages:
    """The pages for people who have not signed in."""

    def __init__(self, guard: PageGuard) -> None:
        self._guard = guard

    async def show(self, request: Request) -> Response:
        """The form, or the overview where no token is needed."""
        if not self._guard.asks_for_tokens:
            return go_to(link_to(request))
        response = _show_form(request, request.query_params.get("next", ""))
        response.background = BackgroundTask(compile_templates)
        return response

    async def enter(self, request: Request) -> Response:
        """Open a session for a valid token and go to the page that was requested."""
        try:
            form = await read_form(request)
            wanted = form.one("next")
            cookie = await self._guard.sign_in(request.scope, form.one("token"))
        except RotaError as error:
            return explain_failure(request, error)
        if cookie is None and self._guard.asks_for_tokens:
            return _show_form(request, wanted, has_failed=True)
        answer = go_to(read_target(request, wanted))
        if cookie is not None:
            answer.headers.append("Set-Cookie", cookie)
        return answer

    async def leave(self, request: Request) -> Response:
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
