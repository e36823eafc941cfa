"""A table that describes itself: the document, the page, and the routes that serve them."""

from collections.abc import Sequence
from functools import lru_cache
from importlib.resources import files
from typing import Any

import msgspec

from rota.server.describing.document import make_document
from rota.server.describing.page import draw_page
from rota.server.routing.route import Answer, Call, Nothing, Route

DOCUMENT = "/openapi.json"
PAGE = "/docs"
STYLE = "/docs/style.css"

_MOUNTS_REMEMBERED = 8
_STYLE = files("rota.server.describing").joinpath("static/style.css").read_bytes()
_BRIEFLY = {"cache-control": "public, max-age=300"}


class Description:
    """Describes the routes it is given, and those of its own: ``table`` has both."""

    def __init__(self, routes: Sequence[Route]) -> None:
        self.table: tuple[Route, ...] = (*routes, *self._make_routes())
        # Where a service is mounted is part of every link; few are mounted in several places.
        self._encode = lru_cache(_MOUNTS_REMEMBERED)(self._encode_document)
        self._draw = lru_cache(_MOUNTS_REMEMBERED)(self._draw_page)

    def document(self, root: str = "") -> dict[str, Any]:
        return make_document(self.table, root)

    async def show_document(self, call: Call[Nothing, Nothing]) -> Answer:
        """This interface, described as OpenAPI 3.1."""
        return Answer(200, msgspec.Raw(self._encode(call.root)), _BRIEFLY)

    async def show_page(self, call: Call[Nothing, Nothing]) -> Answer:
        """This interface, described for people."""
        return Answer(200, self._draw(call.root), _BRIEFLY)

    async def show_style(self, _call: Call[Nothing, Nothing]) -> Answer:
        """How the description looks."""
        return Answer(200, _STYLE, _BRIEFLY)

    def _encode_document(self, root: str) -> bytes:
        return msgspec.json.encode(self.document(root))

    def _draw_page(self, root: str) -> bytes:
        return draw_page(self.table, root, f"{root}{DOCUMENT}", f"{root}{STYLE}").encode()

    def _make_routes(self) -> tuple[Route, ...]:
        html, css = "text/html; charset=utf-8", "text/css; charset=utf-8"
        return (
            Route(
                method="GET",
                path=DOCUMENT,
                handler=self.show_document,
                scope=None,
                tag="service",
                answers={200: dict[str, Any]},
            ),
            _make_text(PAGE, self.show_page, html),
            _make_text(STYLE, self.show_style, css),
        )


def _make_text(path: str, handler: Any, media: str) -> Route:
    return Route(
        method="GET",
        path=path,
        handler=handler,
        scope=None,
        tag="service",
        answers={200: str},
        media=media,
    )
