"""What is served without a session: sign-in, the manifest, the service worker, the offline page."""

import msgspec
from starlette.background import BackgroundTask
from starlette.requests import Request
from starlette.responses import Response

from rota.errors import RotaError
from rota.server.http.guards import HOME, PageGuard
from rota.server.pages.responses import explain_failure, go_to, render_alone
from rota.server.pages.templates import asset_path, compile_templates, read_assets
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


WORKER = "service-worker.js"
_CACHED = ("pages.css", "icon.svg")


async def send_manifest(request: Request) -> Response:
    """The name, the icons and the start of the application. Browsers ask for it without cookies."""
    home = link_to(request)
    manifest = {
        "id": home,
        "name": "Rota",
        "short_name": "Rota",
        "description": "Jobs, queues and schedules",
        "start_url": home,
        "scope": home,
        "display": "standalone",
        "background_color": "#f6f6f3",
        "theme_color": "#0a6470",
        "icons": [
            _icon(home, "icon-192.png", "192x192"),
            _icon(home, "icon-512.png", "512x512"),
            {**_icon(home, "icon-512.png", "512x512"), "purpose": "maskable"},
        ],
        "shortcuts": [
            {"name": title, "url": link_to(request, path)}
            for title, path in (("Jobs", "jobs"), ("Dead letters", "dead-letters"))
        ],
    }
    return Response(msgspec.json.encode(manifest), media_type="application/manifest+json")


async def send_worker(request: Request) -> Response:
    """The service worker. From this path, its scope is all pages and nothing else.

    It starts with what it keeps, so that a new version of these files is a new worker.
    """
    home = link_to(request)
    kept = [f"{home}/offline", *(f"{home}/{asset_path(name)}" for name in _CACHED)]
    body = b"const KEPT = " + msgspec.json.encode(kept) + b";\n" + read_assets()[WORKER].body
    headers = {"Cache-Control": "no-cache", "Service-Worker-Allowed": home}
    return Response(body, media_type="text/javascript", headers=headers)


async def show_offline(request: Request) -> Response:
    """The page that the browser shows while the server cannot be reached."""
    return render_alone(request, "offline.html", 200)


def _icon(home: str, name: str, sizes: str) -> dict[str, str]:
    return {"src": f"{home}/{asset_path(name)}", "sizes": sizes, "type": "image/png"}


PUBLIC = {
    f"{HOME}/manifest.webmanifest": send_manifest,
    f"{HOME}/{WORKER}": send_worker,
    f"{HOME}/offline": show_offline,
}
"""What is served without signing in."""
