"""The static files: read once, and named by what is in them, so that a browser may keep them."""

from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import Response

FOLDER = Path(__file__).parents[1] / "static"
FOREVER = "public, max-age=31536000, immutable"
ASK_AGAIN = "no-cache"
ICON = "icon.svg"

_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
}


class Asset(NamedTuple):
    """A file as it is sent; ``version`` changes whenever its content does."""

    body: bytes
    content_type: str
    version: str


@cache
def read_assets() -> dict[str, Asset]:
    """Every static file by its name. There are few, and they are small."""
    return {path.name: _read(path) for path in sorted(FOLDER.iterdir()) if path.suffix in _TYPES}


async def send_asset(request: Request) -> Response:
    """The file; kept for ever if it was asked for by its version, and asked for again if not."""
    asset = read_assets().get(request.path_params["name"])
    if asset is None:
        return Response("Not found", status_code=404, media_type="text/plain")
    return _send(asset, request)


async def send_icon(request: Request) -> Response:
    """The icon, for whoever asks for it where browsers look when no page has named it."""
    return _send(read_assets()[ICON], request)


def _send(asset: Asset, request: Request) -> Response:
    is_exact = request.query_params.get("v") == asset.version
    headers = {
        "Content-Type": asset.content_type,
        "Cache-Control": FOREVER if is_exact else ASK_AGAIN,
        "ETag": f'"{asset.version}"',
    }
    if request.headers.get("if-none-match") == headers["ETag"]:
        return Response(status_code=304, headers=headers)
    return Response(asset.body, headers=headers)


def _read(path: Path) -> Asset:
    body = path.read_bytes()
    return Asset(body, _TYPES[path.suffix], sha256(body).hexdigest()[:16])
