"""What makes the pages an application that can be installed: manifest, worker, offline page."""

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from rota.server.http.guards import HOME
from rota.server.pages.responses import render_alone
from rota.server.pages.templates import asset_path, read_assets
from rota.server.pages.visit import link_to

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
