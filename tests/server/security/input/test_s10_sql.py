"""S10: a value is never part of a statement."""

import ast
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import msgspec
import pytest
from tests.architecture import source_tree
from tests.architecture.test_sql import statements_in_strings
from tests.server.security.conftest import NOW

from rota.auth.caller import EVERY_SCOPE
from rota.auth.tokens import TokenBook
from rota.runtime.wiring import open_store
from rota.server import create_app
from rota.server.app import TABLE
from rota.server.http.route import Route
from rota.testing import VirtualClock

RUNNING = {"execute", "executemany", "fetch", "fetchrow", "fetchval", "prepare", "executescript"}
HOSTILE = [
    "'",
    "''",
    '"',
    "`",
    "' OR '1'='1",
    "'; DROP TABLE jobs; --",
    "x' UNION SELECT body FROM documents --",
    "%",
    "_",
    "%%%",
    "\\",
    "$1",
    "?1",
    ":now",
    "\x00",
    "NULL",
    "0x27",
    "\u02bc",
]


def put_together(tree: ast.Module) -> list[int]:
    """Lines on which a statement is run that was put together there, and not named."""
    return [
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in RUNNING
        and node.args
        and isinstance(node.args[0], ast.JoinedStr | ast.BinOp | ast.Call)
    ]


PLACED = {
    "src/rota/stores/postgres/connections.py": "the operator's schema, checked by its address"
}
"""Where something other than a value stands in a statement, and what."""


def test_no_statement_is_put_together_where_it_is_run() -> None:
    ours = (m for m in source_tree.source_modules() if m.path not in PLACED)
    stores = [module for module in ours if module.path.startswith("src/rota/stores/")]
    assert stores
    found = {module.path: put_together(module.tree) for module in stores}
    assert {path: lines for path, lines in found.items() if lines} == {}


def test_no_statement_stands_in_code() -> None:
    """They are in files of their own, where nothing can be put into them."""
    found = {m.path: statements_in_strings(m.tree) for m in source_tree.source_modules()}
    assert {path: texts for path, texts in found.items() if texts} == {}


@pytest.mark.parametrize(
    "code", ['c.execute(f"{x}")', 'c.execute("a" + x)', 'c.fetch("%s" % x)', "c.fetch(q.format(x))"]
)
def test_the_search_finds_each_way_of_putting_one_together(code: str) -> None:
    assert put_together(ast.parse(code)) == [1]


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[httpx2.AsyncClient]:
    clock = VirtualClock(NOW)
    async with await open_store(f"sqlite:///{tmp_path / 'rota.db'}") as store:
        book = TokenBook(store, clock)
        secret = (await book.issue("ours", EVERY_SCOPE, "ada")).secret.reveal()
        transport = httpx2.ASGITransport(create_app(store, book, clock=clock))
        headers = {"authorization": f"Bearer {secret}"}
        async with httpx2.AsyncClient(
            transport=transport, base_url="http://localhost", headers=headers
        ) as client:
            yield client


FILTERED = [
    route for route in TABLE if msgspec.structs.fields(route.query) and "{" not in route.path
]


@pytest.mark.parametrize("route", FILTERED, ids=lambda it: f"{it.method} {it.path}")
async def test_every_filter_takes_hostile_text_as_text(
    client: httpx2.AsyncClient, route: Route
) -> None:
    """On a real database: nothing fails, nothing more is found than there is, nothing is lost."""
    for name in ("first", "second"):
        await client.post("/api/v1/jobs", json={"name": name, "queue": "q"})
    for field in msgspec.structs.fields(route.query):
        for text in HOSTILE:
            answer = await client.request(route.method, route.path, params={field.name: text})
            assert answer.status_code in {200, 204, 400, 404}, (field.name, text, answer.text)
            if answer.status_code == 200 and "text" in field.name:
                assert answer.json().get("items", []) == [], (field.name, text)
    kept = (await client.get("/api/v1/jobs")).json()["items"]
    assert {item["name"] for item in kept} == {"first", "second"}


async def test_hostile_text_is_kept_and_found_as_it_is(client: httpx2.AsyncClient) -> None:
    names = [text for text in HOSTILE if text != "\x00"]
    for name in names:
        job: dict[str, Any] = {"name": name, "queue": "q", "payload": {name: name}}
        made = await client.post("/api/v1/jobs", json={**job, "idempotency_key": name})
        assert made.status_code == 201, made.text
        again = await client.post("/api/v1/jobs", json={**job, "idempotency_key": name})
        assert again.json() == made.json()
    listed = (await client.get("/api/v1/jobs", params={"limit": 100})).json()["items"]
    assert sorted(item["name"] for item in listed) == sorted(names)
    assert all(item["payload"] == {item["name"]: item["name"]} for item in listed)
    for name in names:
        found = await client.get("/api/v1/jobs/search", params={"text": name, "limit": 100})
        assert name in {item["name"] for item in found.json()["items"]}
        assert all(name.lower() in str(item).lower() for item in found.json()["items"])
