"""Templates and static files: what is in them, and how they are sent."""

import re
from hashlib import sha256
from importlib.resources import files

import httpx2

FOLDER = files("rota.server.pages")
HTMX_VERSION = "2.0.11"
HTMX_SHA256 = "d6fdc75f204e6bdefa99b69bf1e6d4ac69b8a364f77929f45c13476b4000f717"


def _templates() -> dict[str, str]:
    folders = (FOLDER / "templates", FOLDER / "templates" / "parts")
    return {
        each.name: each.read_text(encoding="utf-8")
        for folder in folders
        for each in folder.iterdir()
        if each.name.endswith(".html")
    }


def test_htmx_is_the_release_that_was_looked_at() -> None:
    body = (FOLDER / "static" / "htmx.min.js").read_bytes()
    assert sha256(body).hexdigest() == HTMX_SHA256
    assert f'version:"{HTMX_VERSION}"'.encode() in body
    assert "Zero-Clause BSD" in (FOLDER / "static" / "htmx-LICENSE.txt").read_text("utf-8")


def test_no_template_has_a_script_or_a_style_of_its_own_or_leaves_anything_unescaped() -> None:
    refused = re.compile(
        r"<style|\bstyle=|\son[a-z]+=|<script(?! src=)|\|\s*safe|javascript:|//cdn"
    )
    found = {
        name: hit.group() for name, text in _templates().items() if (hit := refused.search(text))
    }
    assert found == {}
    assert "autoescape" not in "".join(_templates().values())


def test_htmx_may_not_run_texts_as_code_nor_add_styles() -> None:
    layout = _templates()["layout.html"]
    for setting in ('"allowEval":false', '"includeIndicatorStyles":false'):
        assert setting in layout


async def test_static_files_are_cached_under_a_content_hash(
    pages: httpx2.AsyncClient,
) -> None:
    text = (await pages.get("/admin")).text
    addresses = re.findall(r'(?:href|src|htmx)="(/admin/static/[^"]+)"', text)
    assert len(addresses) == 5
    for address in addresses:
        answer = await pages.get(address)
        assert answer.status_code == 200
        assert answer.headers["cache-control"] == "public, max-age=31536000, immutable"
        version = sha256(answer.content).hexdigest()[:16]
        assert address.endswith(f"?v={version}")


async def test_a_file_asked_for_under_another_name_is_asked_for_again(
    pages: httpx2.AsyncClient,
) -> None:
    answer = await pages.get("/admin/static/pages.css?v=old")
    assert answer.headers["cache-control"] == "no-cache"
    tag = answer.headers["etag"]
    again = await pages.get("/admin/static/pages.css", headers={"If-None-Match": tag})
    assert (again.status_code, again.content) == (304, b"")


async def test_only_files_that_are_there_to_be_sent_are_sent(pages: httpx2.AsyncClient) -> None:
    for name in ("nothing.css", "..%2F__init__.py", "%2e%2e/templates/error.html"):
        assert (await pages.get(f"/admin/static/{name}")).status_code == 404


async def test_the_icon_is_where_browsers_look_for_it_by_themselves(
    pages: httpx2.AsyncClient,
) -> None:
    answer = await pages.get("/favicon.ico")
    assert (answer.status_code, answer.headers["content-type"]) == (200, "image/svg+xml")
    assert answer.content == (FOLDER / "static" / "icon.svg").read_bytes()
