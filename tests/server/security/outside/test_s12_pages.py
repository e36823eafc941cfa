"""S12: text written by one user never runs in the browser of another.

That it does not, whatever every field holds, is seen in a real browser under ``tests/browser``;
here is what it rests on.
"""

import re
from html.parser import HTMLParser
from pathlib import Path

import httpx2
import pytest
from tests.architecture.source_tree import ROOT, source_modules
from tests.server.security.conftest import ORIGIN, Stage

from rota.server.app import TABLE
from rota.server.http.route import Route

POLICY = {
    "default-src": "'self'",
    "script-src": "'self'",
    "object-src": "'none'",
    "base-uri": "'none'",
    "form-action": "'self'",
    "frame-ancestors": "'none'",
}
ALWAYS = {
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
TEMPLATES = sorted((ROOT / "src/rota/server").rglob("*.html"))
SCRIPT = "<script>alert(1)</script><img src=x onerror=alert(1)>\"'><svg onload=alert(1)>"
ELSEWHERE = re.compile(r"\s*(https?:|//|javascript:|data:)", re.IGNORECASE)
PAGES = ("", "/jobs", "/schedules", "/workers", "/gates", "/dead-letters", "/audit", "/nothing")


def check_headers(answer: httpx2.Response) -> None:
    policy = dict(
        part.strip().split(" ", 1) for part in answer.headers["content-security-policy"].split(";")
    )
    assert policy == POLICY
    for name, value in ALWAYS.items():
        assert answer.headers[name] == value
    assert "camera=()" in answer.headers["permissions-policy"]


async def sign_in(stage: Stage) -> httpx2.AsyncClient:
    browser = await stage.connect()
    browser.headers["origin"] = ORIGIN
    answer = await browser.post("/admin/sign-in", data={"token": await stage.issue()})
    assert answer.status_code == 303
    return browser


@pytest.mark.parametrize("route", TABLE, ids=lambda it: f"{it.method} {it.path}")
async def test_every_answer_has_security_headers(stage: Stage, route: Route) -> None:
    for client in (await stage.connect(), await stage.sign_up()):
        answer = await client.request(route.method, route.path)
        check_headers(answer)
        is_for_everybody = route.scope is None and answer.status_code == 200
        assert is_for_everybody or answer.headers["cache-control"] == "no-store"


async def test_refusals_and_faults_carry_the_headers_too(stage: Stage) -> None:
    client = await stage.sign_up()
    check_headers(await client.get("/nothing"))
    check_headers(await client.post("/api/v1/jobs", headers={"content-type": "text/html"}))
    foreign = await (await stage.connect()).post("/x", headers={"origin": "http://evil.example"})
    assert foreign.status_code == 403
    check_headers(foreign)
    await stage.store.close()
    broken = await client.get("/api/v1/jobs")
    assert broken.status_code == 503
    check_headers(broken)


@pytest.mark.parametrize("page", PAGES)
async def test_every_page_carries_the_headers_and_is_not_kept(stage: Stage, page: str) -> None:
    for browser in (await stage.connect(), await sign_in(stage)):
        answer = await browser.get(f"/admin{page}")
        check_headers(answer)
        assert answer.headers["cache-control"] == "no-store"


class Reader(HTMLParser):
    """Notes what a page could run or fetch."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.found: list[str] = []
        self._is_script = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self._is_script = tag == "script"
        if tag == "script" and not given.get("src"):
            self.found.append("an inline script")
        if tag in {"style", "iframe", "object", "embed", "base"}:
            self.found.append(f"<{tag}>")
        for name, value in given.items():
            if name.startswith(("on", "hx-on")) or name == "style":
                self.found.append(f"{name} on <{tag}>")
            is_address = name in {"src", "href", "action", "formaction", "hx-get", "hx-post"}
            if is_address and ELSEWHERE.match(value or ""):
                self.found.append(f"{name}={value}")


def read_page(text: str) -> list[str]:
    reader = Reader()
    reader.feed(text)
    return reader.found


async def fill_with_scripts(client: httpx2.AsyncClient) -> str:
    """A job in which everything that takes any text is a script; its id."""
    job = {
        "name": SCRIPT,
        "queue": "q",
        "payload": {SCRIPT: [SCRIPT]},
        "idempotency_key": SCRIPT[:60],
    }
    made = (await client.post("/api/v1/jobs", json=job)).json()
    await client.post(f"/api/v1/jobs/{made['id']}/cancel", json={"why": SCRIPT})
    await client.post("/api/v1/tokens", json={"name": SCRIPT, "scopes": ["read"]})
    await client.put("/api/v1/gates/maintenance", json={"reason": SCRIPT})
    return str(made["id"])


async def test_no_page_contains_scripts_from_users(stage: Stage) -> None:
    job_id = await fill_with_scripts(await stage.sign_up())
    browser = await sign_in(stage)
    seen = 0
    for page in (
        *PAGES,
        f"/jobs/{job_id}",
        "/jobs?text=%3Cscript%3E",
        "/sign-in?next=%22%3E%3Csvg",
    ):
        answer = await browser.get(f"/admin{page}")
        assert read_page(answer.text) == [], page
        assert SCRIPT not in answer.text
        seen += "&lt;script&gt;" in answer.text
    assert seen >= 3
    docs = await browser.get("/docs")
    assert read_page(docs.text) == []


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda it: it.name)
def test_no_template_runs_inline_code_or_turns_escaping_off(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert "|safe" not in re.sub(r"\s", "", text)
    assert "autoescape" not in text
    assert not re.search(r"<script(?![^>]*\bsrc=)", text)
    assert not re.search(r"<style|\sstyle=|\son[a-z]+=|javascript:|hx-on", text)
    assert not re.search(r"(?:src|href|action)=[\"']?(?:https?:)?//", text)


def test_every_template_is_escaped_and_no_text_is_declared_safe() -> None:
    for module in source_modules():
        if not module.path.startswith("src/rota/server/"):
            continue
        assert "autoescape=False" not in module.text, module.path
        if "Environment(" in module.text:
            assert "autoescape=True" in module.text or "select_autoescape" in module.text


def test_the_reader_finds_what_runs() -> None:
    page = "<script>x</script><p onclick=x style=y><a href='javascript:x'><iframe><img src=//evil>"
    assert len(read_page(page)) == 6
    assert read_page("&lt;script&gt;<a href='/admin'>ok</a><script src='/a.js'></script>") == []
