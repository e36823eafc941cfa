"""The page that describes the interface, as people read it."""

import re
from html.parser import HTMLParser

from tests.server.service import Visit

from rota.server.app import TABLE
from rota.server.http.docs import draw_page, link_shapes, mark_code, name_type
from rota.server.http.openapi import make_document
from rota.server.http.route import Call, Nothing, Route


class Page(HTMLParser):
    """What a page is made of."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.odd: list[str] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        for name, value in attrs:
            if name == "id":
                self.ids.append(value or "")
            elif name == "href":
                (self.loaded if tag == "link" else self.links).append(value or "")
            elif name == "src":
                self.loaded.append(value or "")
            elif name == "style" or name.startswith("on"):
                self.odd.append(name)

    def handle_data(self, data: str) -> None:
        self.text += data


async def get_page(service: Visit) -> Page:
    answer = await service.client.get("/docs")
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    return Page(answer.text)


async def test_every_route_is_there_with_a_way_to_ask(service: Visit) -> None:
    page = await get_page(service)
    for route in TABLE:
        assert route.path in page.text
        assert route.handler.__name__ in page.ids
    assert page.text.count("curl ") == len(TABLE)
    assert "curl -X POST http://127.0.0.1:8080/api/v1/jobs" in page.text


async def test_nothing_is_loaded_from_elsewhere_and_nothing_runs(service: Visit) -> None:
    page = await get_page(service)
    assert page.loaded == ["/docs/style.css"]
    assert not {"script", "style", "iframe", "img"} & set(page.tags)
    assert page.odd == []
    style = await service.client.get("/docs/style.css")
    assert style.headers["content-type"] == "text/css; charset=utf-8"
    assert "prefers-color-scheme: dark" in style.text
    assert not re.search(r"url\(|@import", style.text)


async def test_every_link_leads_somewhere(service: Visit) -> None:
    page = await get_page(service)
    inside = {link[1:] for link in page.links if link.startswith("#")}
    assert inside <= set(page.ids)
    assert len(page.ids) == len(set(page.ids))
    outside = {link for link in page.links if not link.startswith("#")}
    assert outside == {"/openapi.json"}


async def test_words_of_the_code_cannot_become_markup() -> None:
    async def odd(_call: Call[Nothing, Nothing]) -> None:
        """<script>alert(1)</script> and ``<b>``."""

    route = Route(method="GET", path="/x", handler=odd, scope=None, tag="<i>", answers={200: None})
    text = draw_page(make_document([route]), "/<root>")
    assert "<script>" not in text
    assert "<i>" not in text
    assert "/<root>" not in text
    assert "<code>&lt;b&gt;</code>" in text


def test_code_is_marked_and_escaped() -> None:
    assert mark_code("a `b<` ``c`` & d") == "a <code>b&lt;</code> <code>c</code> &amp; d"


def test_shapes_in_a_type_are_linked_and_the_rest_is_escaped() -> None:
    linked = link_shapes("list of Job or <b>", {"Job"})
    assert linked == 'list of <a href="#shape-Job">Job</a> or &lt;b&gt;'


def test_types_are_named_in_a_few_words() -> None:
    assert name_type({"type": "array", "items": {"$ref": "#/x/Job"}}) == "list of Job"
    assert name_type({"anyOf": [{"type": "string", "format": "uuid"}, {"type": "null"}]}) == (
        "string (uuid) or null"
    )
    assert name_type({"enum": ["a", "b"]}) == "a | b"
    assert name_type({}) == "any JSON"
