"""S13: no page of somebody else has a browser change anything here."""

import re

import httpx2
import pytest
from tests.server.security.conftest import ORIGIN, Stage

from rota.auth.sessions import SESSION_FOR, SessionBook
from rota.errors import CrossSiteRequestError
from rota.jobs import Job, JobFilter
from rota.server.app import TABLE
from rota.server.http.guards import PageGuard
from rota.server.http.limits import CallerLimits
from rota.server.http.route import Route
from rota.server.http.security import check_origin

JOB = {"name": "x", "queue": "q"}
HOST = (b"host", b"rota.example:8080")
COOKIE = (b"cookie", b"rota_session=x")

FOREIGN = [
    [(b"sec-fetch-site", b"cross-site")],
    [(b"sec-fetch-site", b"same-site")],
    [(b"sec-fetch-site", b"none")],
    [(b"sec-fetch-site", b"cross-site"), (b"origin", b"http://rota.example:8080")],
    [(b"origin", b"http://evil.example")],
    [(b"origin", b"http://rota.example")],
    [(b"origin", b"http://rota.example:8080.evil.example")],
    [(b"origin", b"ftp://rota.example:8080")],
    [(b"origin", b"null")],
    [(b"origin", b"")],
    [COOKIE],
]
OWN = [
    [(b"sec-fetch-site", b"same-origin"), COOKIE],
    [(b"origin", b"http://rota.example:8080"), COOKIE],
    [(b"origin", b"https://ROTA.example:8080"), COOKIE],
]


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "PROPFIND"])
@pytest.mark.parametrize("headers", FOREIGN)
def test_a_change_from_elsewhere_is_refused(
    method: str, headers: list[tuple[bytes, bytes]]
) -> None:
    with pytest.raises(CrossSiteRequestError):
        check_origin(method, [HOST, *headers])


@pytest.mark.parametrize("headers", OWN)
def test_a_change_from_our_own_page_is_let_through(headers: list[tuple[bytes, bytes]]) -> None:
    check_origin("POST", [HOST, *headers])


@pytest.mark.parametrize("headers", FOREIGN)
def test_a_token_in_a_header_is_exempt_for_browsers_send_none_by_themselves(
    headers: list[tuple[bytes, bytes]],
) -> None:
    check_origin("POST", [HOST, *headers, (b"authorization", b"Bearer x")])


def test_a_program_that_is_not_a_browser_needs_no_origin() -> None:
    check_origin("POST", [HOST])


@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS"])
@pytest.mark.parametrize("headers", FOREIGN)
def test_looking_is_allowed_from_everywhere(
    method: str, headers: list[tuple[bytes, bytes]]
) -> None:
    check_origin(method, [HOST, *headers])


def test_an_origin_without_a_host_to_compare_it_with_is_foreign() -> None:
    with pytest.raises(CrossSiteRequestError):
        check_origin("POST", [(b"origin", b"http://rota.example")])


async def test_a_service_without_tokens_is_protected_too(stage: Stage) -> None:
    """On loopback, every page the user opens could otherwise post to it."""
    client = await stage.connect(app=stage.make_app(is_open=True))
    foreign = {"origin": "http://evil.example", "content-type": "text/plain"}
    refused = await client.post("/api/v1/jobs", json=JOB, headers=foreign)
    assert (refused.status_code, refused.json()["code"]) == (403, "FORBIDDEN")
    assert (await client.post("/api/v1/jobs", json=JOB)).status_code == 201


LOOKING = [route for route in TABLE if route.method == "GET"]


@pytest.mark.parametrize("route", LOOKING, ids=lambda it: it.path)
async def test_no_route_changes_anything_on_get(route: Route, stage: Stage) -> None:
    """Whatever GET answers, the store is as it was; that the token is in use was noted before."""
    client = await stage.sign_up()
    job_id = (await client.post("/api/v1/jobs", json=JOB)).json()["id"]
    before = await take_snapshot(stage)
    await client.get(re.sub(r"\{\w+\}", job_id, route.path))
    assert await take_snapshot(stage) == before


async def take_snapshot(stage: Stage) -> tuple[dict[str, dict[str, bytes]], list[Job]]:
    collections = (
        "tokens",
        "sessions",
        "audit:ours",
        "gates",
        "limits",
        "tasks",
        "workers",
        "stats",
    )
    documents = {
        name: {it.key: it.body async for page in stage.store.scan(name) for it in page}
        for name in collections
    }
    return documents, list((await stage.store.find("ours", JobFilter())).items)


def page_guard(stage: Stage) -> PageGuard:
    limits = CallerLimits(None, None, stage.clock)
    sessions = SessionBook(stage.store, stage.clock, stage.book)
    return PageGuard(sessions, stage.clock, SESSION_FOR, limits)


def scope_of(origin: str, **headers: str) -> dict[str, object]:
    url = httpx2.URL(origin)
    sent = {"host": url.netloc.decode(), **headers}
    return {
        "type": "http",
        "scheme": url.scheme,
        "root_path": "/ops",
        "client": ("10.0.0.9", 4),
        "headers": [(name.encode(), value.encode()) for name, value in sent.items()],
    }


@pytest.mark.parametrize(
    ("origin", "is_secure"),
    [
        ("https://rota.example", True),
        ("http://rota.example", True),
        ("https://127.0.0.1", True),
        ("http://127.0.0.1:8080", False),
        ("http://localhost:8080", False),
        ("http://[::1]:8080", False),
        ("http://127.0.0.1.evil.example", True),
    ],
)
async def test_the_cookie_is_for_our_pages_over_tls_and_for_no_script(
    stage: Stage, origin: str, is_secure: bool
) -> None:
    cookie = await page_guard(stage).sign_in(scope_of(origin), await stage.issue())
    assert cookie is not None
    pair, *attributes = cookie.split("; ")
    assert pair.startswith("rota_session=")
    expected = {"Path=/ops/admin", "Max-Age=43200", "HttpOnly", "SameSite=Strict"}
    assert set(attributes) == expected | ({"Secure"} if is_secure else set())


async def test_signing_out_takes_the_cookie_away_and_ends_the_session(stage: Stage) -> None:
    guard = page_guard(stage)
    cookie = await guard.sign_in(scope_of(ORIGIN), await stage.issue())
    assert cookie is not None
    sent = scope_of(ORIGIN, cookie=cookie.partition(";")[0])
    assert (await guard.admit(sent)).who == "ada"
    assert "Max-Age=0" in await guard.sign_out(sent)
    with pytest.raises(Exception, match="A valid token is needed"):
        await guard.admit(sent)


@pytest.mark.parametrize(
    "cookie", ["", "rota_session", "rota_session=", "a=b; rota_session=x", "\xff", "x" * 10_000]
)
async def test_an_invalid_cookie_is_refused(stage: Stage, cookie: str) -> None:
    with pytest.raises(Exception, match="A valid token is needed"):
        await page_guard(stage).admit(scope_of(ORIGIN, cookie=cookie))


async def test_a_session_cookie_is_not_an_api_token(stage: Stage) -> None:
    cookie = await page_guard(stage).sign_in(scope_of(ORIGIN), await stage.issue())
    assert cookie is not None
    secret = cookie.partition(";")[0].partition("=")[2]
    client = await stage.connect()
    for headers in ({"cookie": f"rota_session={secret}"}, {"authorization": f"Bearer {secret}"}):
        answer = await client.get("/api/v1/jobs", headers=headers)
        assert answer.status_code == 401
