"""One conversation, with answers of all kinds."""

from collections.abc import Callable
from datetime import UTC, datetime

import httpx2
import pytest

from rota import errors
from rota.cli.session import path_of
from rota.client import Client, StoreAddress, open_client
from rota.testing import VirtualClock

URL = "http://rota.example"
NOW = datetime(2027, 3, 26, 12, tzinfo=UTC)

Reply = Callable[[httpx2.Request], httpx2.Response]


def make_client(reply: Reply) -> Client:
    transport = httpx2.MockTransport(reply)
    return Client(httpx2.AsyncClient(transport=transport, base_url=URL), URL)


async def test_requests_are_encoded_as_given() -> None:
    asked: list[httpx2.Request] = []

    def reply(request: httpx2.Request) -> httpx2.Response:
        asked.append(request)
        return httpx2.Response(200, json={"fine": True})

    client = make_client(reply)
    query = {"yes": True, "no": None, "text": "a b&c"}
    answer = await client.post(path_of("jobs", "a/b"), {"when": NOW}, query)
    assert answer == {"fine": True}
    (request,) = asked
    assert request.url.raw_path == b"/api/v1/jobs/a%2Fb?yes=true&text=a+b%26c"
    assert request.content == b'{"when":"2027-03-26T12:00:00Z"}'
    assert request.headers["content-type"] == "application/json"


async def test_nothing_is_answered_with_nothing() -> None:
    assert await make_client(lambda _: httpx2.Response(204)).ask("DELETE", "/jobs/x") is None


@pytest.mark.parametrize(
    ("status", "group"),
    [
        (400, errors.InvalidInputError),
        (401, errors.RefusedError),
        (403, errors.RefusedError),
        (404, errors.NotFoundError),
        (409, errors.ConflictError),
        (413, errors.InvalidInputError),
        (429, errors.RefusedError),
        (503, errors.StoreUnavailableError),
    ],
)
async def test_a_refusal_of_the_service_is_raised_with_its_words(
    status: int, group: type[errors.RotaError]
) -> None:
    problem = {"code": "X", "message": "not so", "details": {"field": "queue"}}
    client = make_client(lambda _: httpx2.Response(status, json=problem))
    with pytest.raises(group) as raised:
        await client.get("/jobs")
    assert (raised.value.message, raised.value.details) == ("not so", {"field": "queue"})


@pytest.mark.parametrize(
    "response",
    [
        httpx2.Response(200, text="<html>a proxy's page</html>"),
        httpx2.Response(502, text="bad gateway"),
        httpx2.Response(500, json={"code": "INTERNAL"}),
        httpx2.Response(404, json=["not", "a", "problem"]),
        httpx2.Response(302, headers={"location": "https://elsewhere.example"}),
    ],
)
async def test_a_server_that_is_not_rota_is_reported(response: httpx2.Response) -> None:
    with pytest.raises(errors.ServerUnavailableError) as raised:
        await make_client(lambda _: response).get("/jobs")
    assert raised.value.message.startswith(f"The server at {URL} answered with the status")


async def test_a_server_that_does_not_answer_is_named() -> None:
    def reply(request: httpx2.Request) -> httpx2.Response:
        raise httpx2.ConnectError("connection refused", request=request)

    with pytest.raises(errors.ServerUnavailableError, match="does not answer: connection refused"):
        await make_client(reply).get("/jobs")


async def test_a_list_is_collected_page_after_page_up_to_a_limit() -> None:
    asked: list[dict[str, str]] = []

    def reply(request: httpx2.Request) -> httpx2.Response:
        query = dict(request.url.params)
        asked.append(query)
        start = int(query.get("cursor", 0))
        items = list(range(start, min(start + int(query["limit"]), 250)))
        cursor = str(start + len(items)) if start + len(items) < 250 else None
        return httpx2.Response(200, json={"items": items, "next_cursor": cursor})

    client = make_client(reply)
    some = await client.collect("/jobs", {"queue": "mail"}, limit=130)
    assert (some.items, some.next_cursor) == (list(range(130)), "130")
    assert asked == [
        {"queue": "mail", "limit": "100"},
        {"queue": "mail", "limit": "30", "cursor": "100"},
    ]
    everything = await client.collect("/jobs", limit=1000)
    assert (everything.items, everything.next_cursor) == (list(range(250)), None)


async def test_a_store_is_asked_by_the_same_routes_as_its_own_tenant() -> None:
    address = StoreAddress(url="memory://", tenant="guild-7", who="ada")
    async with open_client(address, VirtualClock(NOW)) as client:
        job = await client.post("/jobs", {"name": "hello", "queue": "mail"})
        assert (job["tenant"], job["created_at"]) == ("guild-7", "2027-03-26T12:00:00Z")
        assert await client.get(path_of("jobs", job["id"])) == job
        await client.post(path_of("jobs", job["id"], "cancel"), {"why": "no need"})
        (entry,) = (await client.get("/audit"))["items"]
        assert (entry["who"], entry["why"]) == ("ada", "no need")


async def test_a_store_that_is_none_is_refused_before_anything_is_asked() -> None:
    with pytest.raises(errors.InvalidStoreUrlError):
        async with open_client(StoreAddress(url="nowhere://")):
            pass
