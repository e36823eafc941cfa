"""S15: frequent, large or slow requests cannot exhaust the service."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta

import msgspec
import pytest
import uvicorn
from starlette.types import Message
from tests.server.security.conftest import NOW, MakeStage, Stage

from rota.auth.caller import Caller, Scope
from rota.clock.system import SystemClock
from rota.errors import QuotaExceededError
from rota.policy.limits import Rate
from rota.server import GuardSettings, ServerSettings, create_app
from rota.server.app import TABLE
from rota.server.http.connection import REQUEST_WITHIN, SERVER_OPTIONS, PunctualProtocol
from rota.server.http.limits import CallerLimits, RateLimiter, WaitingQuota
from rota.server.http.route import Route
from rota.stores.memory import MemoryStore
from rota.stores.protocol import QueueDepth

SECOND = timedelta(seconds=1)
JOB = {"name": "x", "queue": "q"}
THREE = Rate(count=3, per=SECOND)


def guarded_by(**settings: object) -> ServerSettings:
    return ServerSettings(guarding=GuardSettings(**settings))  # type: ignore[arg-type]  # by name


async def test_a_token_is_served_at_its_rate(make_stage: MakeStage) -> None:
    stage = make_stage(guarded_by(token_rate=THREE))
    one, other = await stage.sign_up(), await stage.sign_up()
    statuses = [(await one.get("/api/v1/jobs")).status_code for _ in range(5)]
    assert statuses == [200, 200, 200, 429, 429]
    refused = await one.get("/api/v1/jobs")
    assert refused.headers["retry-after"] == "1"
    assert refused.json()["code"] == "LIMITED"
    assert refused.json()["details"] == {"quota": "token_rate", "retry_after": 1}
    assert (await other.get("/api/v1/jobs")).status_code == 200
    await stage.clock.advance(SECOND)
    assert (await one.get("/api/v1/jobs")).status_code == 200


async def test_failed_requests_are_limited_by_address(
    make_stage: MakeStage,
) -> None:
    stage = make_stage(guarded_by(stranger_rate=THREE))
    guessing = await stage.connect("rota_guess", address="192.0.2.7")
    statuses = [(await guessing.get("/api/v1/jobs")).status_code for _ in range(5)]
    assert statuses == [401, 401, 401, 429, 429]
    token = await stage.issue()
    friend = await stage.connect(token, address="192.0.2.8")
    assert (await friend.get("/api/v1/jobs")).status_code == 200
    await stage.clock.advance(SECOND)
    neighbour = await stage.connect(token, address="192.0.2.7")
    assert (await neighbour.get("/api/v1/jobs")).status_code == 200


async def test_known_tokens_are_served_despite_failures_from_the_same_address(
    make_stage: MakeStage,
) -> None:
    stage = make_stage(guarded_by(stranger_rate=THREE))
    issued = await stage.book.issue("ours", [Scope.READ], "to be revoked")
    known, revoked = await stage.issue(), issued.secret.reveal()
    friends = [await stage.connect(token, address="192.0.2.7") for token in (known, revoked)]
    assert [(await it.get("/api/v1/jobs")).status_code for it in friends] == [200, 200]
    guessing = await stage.connect("rota_guess", address="192.0.2.7")
    for _ in range(2):
        assert (await guessing.get("/api/v1/jobs")).status_code == 401
    await stage.book.revoke(issued.id)
    statuses = [(await friends[1].get("/api/v1/jobs")).status_code for _ in range(2)]
    assert statuses == [401, 429]
    assert (await guessing.get("/api/v1/jobs")).status_code == 429
    assert (await friends[0].get("/api/v1/jobs")).status_code == 200
    unknown = await stage.connect(await stage.issue(), address="192.0.2.7")
    assert (await unknown.get("/api/v1/jobs")).status_code == 429


async def test_an_ipv6_network_counts_as_one_address(make_stage: MakeStage) -> None:
    stage = make_stage(guarded_by(stranger_rate=THREE))
    statuses = []
    for host in range(5):
        client = await stage.connect("rota_guess", address=f"2001:db8::{host + 1}")
        statuses.append((await client.get("/api/v1/jobs")).status_code)
    assert statuses == [401, 401, 401, 429, 429]
    elsewhere = await stage.connect("rota_guess", address="2001:db8:0:1::1")
    assert (await elsewhere.get("/api/v1/jobs")).status_code == 401


async def test_good_requests_do_not_count_against_their_address(make_stage: MakeStage) -> None:
    stage = make_stage(guarded_by(stranger_rate=THREE))
    client = await stage.sign_up()
    assert {(await client.get("/api/v1/jobs")).status_code for _ in range(9)} == {200}


def test_a_bounded_number_of_callers_is_counted() -> None:
    limiter = RateLimiter(Rate(count=1, per=SECOND), "token_rate", most=2)
    for name in ("first", "second", "third"):
        limiter.take(name, NOW)
    limiter.take("first", NOW)  # forgotten, so it starts anew
    with pytest.raises(QuotaExceededError):
        limiter.take("first", NOW)


def test_a_check_counts_nothing() -> None:
    limiter = RateLimiter(Rate(count=1, per=SECOND), "stranger_rate")
    for _ in range(3):
        limiter.check("somebody", NOW)
    limiter.take("somebody", NOW)
    with pytest.raises(QuotaExceededError) as caught:
        limiter.check("somebody", NOW + timedelta(milliseconds=1))
    assert caught.value.retry_after == 1


def test_without_a_rate_there_is_no_limit(stage: Stage) -> None:
    unlimited = CallerLimits(None, None, stage.clock)
    for _ in range(10_000):
        unlimited.count_caller(Caller(token_id="x"))  # noqa: S106 - an id
        unlimited.count_stranger({"client": None})
    limited = CallerLimits(Rate(count=1, per=SECOND), None, stage.clock)
    limited.count_caller(Caller(token_id="x"))  # noqa: S106 - an id
    with pytest.raises(QuotaExceededError):
        limited.count_caller(Caller(token_id="x"))  # noqa: S106 - an id


async def test_a_tenant_with_too_many_jobs_waiting_may_not_add_any(make_stage: MakeStage) -> None:
    stage = make_stage(guarded_by(waiting_limit=3))
    client, other = await stage.sign_up("ours"), await stage.sign_up("theirs")
    made = [await client.post("/api/v1/jobs", json=JOB) for _ in range(4)]
    assert [it.status_code for it in made] == [201, 201, 201, 429]
    assert made[-1].json()["details"] == {"quota": "waiting_limit", "retry_after": 1}
    assert (await other.post("/api/v1/jobs", json=JOB)).status_code == 201
    await client.delete(f"/api/v1/jobs/{made[0].json()['id']}")
    assert (await client.post("/api/v1/jobs", json=JOB)).status_code == 429
    await stage.clock.advance(SECOND)
    assert (await client.post("/api/v1/jobs", json=JOB)).status_code == 201


class Counted(MemoryStore):
    """A store in which a fixed number of jobs always wait; counts how often it is asked."""

    waiting_count = 0
    asked_count = 0

    async def survey(self, now: object, tenant: object = None) -> list[QueueDepth]:  # noqa: ARG002 - the same for all
        self.asked_count += 1
        return [QueueDepth(queue="q", due_count=self.waiting_count, later_count=0)]


async def test_counting_what_waits_costs_next_to_nothing(stage: Stage) -> None:
    store = Counted()
    quota = WaitingQuota(store, stage.clock, 1_000_000)
    for _ in range(10_000):
        await quota.admit("ours")
    assert store.asked_count == 1
    await quota.admit("ours", 100_000)
    await quota.admit("ours")
    assert store.asked_count == 2
    await stage.clock.advance(timedelta(minutes=1))
    await quota.admit("ours")
    assert store.asked_count == 3


async def test_waiting_requests_are_counted_again_after_the_clock_is_set_back(stage: Stage) -> None:
    store = Counted()
    quota = WaitingQuota(store, stage.clock, 10)
    await quota.admit("ours")
    await stage.clock.jump_to(NOW - timedelta(hours=1))
    await quota.admit("ours")
    assert store.asked_count == 2


async def test_without_a_limit_nothing_is_counted(stage: Stage) -> None:
    store = Counted()
    await WaitingQuota(store, stage.clock, None).admit("ours", 10**9)
    assert store.asked_count == 0


LISTS = [
    route for route in TABLE if "limit" in {it.name for it in msgspec.structs.fields(route.query)}
]


@pytest.mark.parametrize("route", LISTS, ids=lambda it: it.path)
async def test_no_page_is_larger_than_a_hundred(stage: Stage, route: Route) -> None:
    client = await stage.sign_up()
    path = route.path.replace("{job_id}", "01890a5d-ac96-774b-bcce-b302099a8057")
    for limit in ("0", "-1", "101", "1000000", "9" * 40, "x", "1.5", "NaN"):
        answer = await client.request(route.method, path, params={"limit": limit})
        assert answer.status_code in {400, 404}, (route.path, limit)


SHORT = {
    "/api/v1/jobs/{job_id}/attempts": "no more than the retry policy allows, losses aside",
    "/api/v1/gates": "one of a kind for each scope",
    "/api/v1/limits": "one for each scope",
    "/api/v1/tasks": "as many as somebody has written down in code",
    "/api/v1/queues": "as many as there are queues",
    "/api/v1/workers": "as many as there are workers",
    "/api/v1/pollers": "as many as there are pollers",
    "/api/v1/errors": "no more than 200 groups are kept",
    "/api/v1/tenants": "the 100 busiest",
    "/api/v1/retention": "one for each rule that an operator has written",
}
"""Lists that are never long, and why."""


async def test_every_list_that_can_be_long_has_a_limit(stage: Stage) -> None:
    document = (await (await stage.connect()).get("/openapi.json")).json()
    without = []
    for path, operations in document["paths"].items():
        schema = operations.get("get", {}).get("responses", {}).get("200", {})
        content = schema.get("content", {}).get("application/json", {}).get("schema", {})
        name = content.get("$ref", "").rpartition("/")[2]
        fields = document["components"]["schemas"].get(name, {}).get("properties", {})
        queries = {it["name"] for it in operations.get("get", {}).get("parameters", ())}
        is_long = "next_cursor" in fields and path not in SHORT
        if is_long and "limit" not in queries:
            without.append(path)
    assert without == []


async def trickle(stage: Stage, parts: list[bytes], *, token: str) -> int:
    """Send a body in parts, ten seconds apart, and never finish it; the status of the answer."""
    sent: list[Message] = []
    left = list(parts)

    async def receive() -> Message:
        await stage.clock.sleep(timedelta(seconds=10))
        body = left.pop(0) if left else b""
        return {"type": "http.request", "body": body, "more_body": True}

    async def send(message: Message) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "method": "POST",
        "path": "/api/v1/jobs",
        "query_string": b"",
        "headers": [
            (b"authorization", f"Bearer {token}".encode()),
            (b"content-type", b"application/json"),
            (b"transfer-encoding", b"chunked"),
        ],
    }
    await stage.clock.run(stage.app(scope, receive, send))
    return int(sent[0]["status"])


async def test_a_body_that_never_ends_is_not_waited_for(stage: Stage) -> None:
    status = await trickle(stage, [b"{", b'"name"'], token=await stage.issue())
    assert status == 408
    assert stage.clock.now() == NOW + timedelta(seconds=30)


def test_a_server_on_a_socket_is_limited() -> None:
    config = uvicorn.Config("nothing:here", **SERVER_OPTIONS)
    assert config.limit_concurrency is not None
    assert config.h11_max_incomplete_event_size == 32_768
    assert 0 < config.timeout_keep_alive <= 60
    assert (config.server_header, config.proxy_headers) == (False, False)
    assert config.timeout_keep_alive < REQUEST_WITHIN <= 60


ASKED = b"GET /health/live HTTP/1.1\r\nHost: 127.0.0.1\r\n"


@pytest.mark.parametrize("sent", [b"", b"G", ASKED, ASKED + b"\r\n", ASKED + b"\r\n" + ASKED])
async def test_a_silent_connection_is_closed(sent: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PunctualProtocol, "request_within", 0.2)
    async with serving_on_a_port() as port, asyncio.timeout(60):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(sent)
        answered = await reader.read()  # to the end of the connection
        writer.close()
    assert answered.count(b"200 OK") == sent.count(b"\r\n\r\n")


async def test_a_connection_that_waits_for_an_answer_stays_open(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(PunctualProtocol, "request_within", 0.05)
    async with serving_on_a_port() as port, asyncio.timeout(60):
        asked = b'{"worker": "w", "wait_seconds": 1}'
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        head = f"POST /api/v1/leases HTTP/1.1\r\nHost: x\r\nContent-Length: {len(asked)}\r\n"
        writer.write(head.encode() + b"Content-Type: application/json\r\n\r\n" + asked)
        answered = await reader.read()
        writer.close()
    assert answered.startswith(b"HTTP/1.1 200 OK")
    assert answered.endswith(b'{"items":[]}')


BIG = b"GET /openapi.json HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"


async def open_narrow(port: int, sent: bytes) -> tuple[socket.socket, asyncio.Task[None]]:
    """A connection that takes in little, and sends this as far as the server reads."""
    loop, narrow = asyncio.get_running_loop(), socket.socket()
    narrow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2_048)
    narrow.setblocking(False)
    await loop.sock_connect(narrow, ("127.0.0.1", port))
    return narrow, asyncio.create_task(loop.sock_sendall(narrow, sent))


async def test_connections_that_never_read_their_answers_do_not_fill_the_server(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Others get 503 while the connections last, and are served when these are closed."""
    monkeypatch.setattr(PunctualProtocol, "read_within", 1.0, raising=False)
    clock = SystemClock()
    async with serving() as server, AsyncExitStack() as stack, asyncio.timeout(60):
        port, connections = find_port(server), server.server_state.connections
        for _ in range(3):
            narrow, sending = await open_narrow(port, BIG * 1_000)
            stack.callback(narrow.close)
            stack.callback(sending.cancel)
        while sum(each.flow.write_paused for each in connections) < 3:  # type: ignore[union-attr]  # of h11
            await clock.sleep(timedelta(milliseconds=5))
        waiting = [each for each in server.server_state.tasks if not each.done()]
        assert len(waiting) <= 3, "one request of each waits"
        server.config.limit_concurrency = 4  # of new connections: the server is full
        statuses: list[bytes] = []
        while not statuses or b" 200 " not in statuses[-1]:
            await clock.sleep(timedelta(milliseconds=20))
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(ASKED + b"Connection: close\r\n\r\n")
            statuses.append((await reader.read()).partition(b"\r\n")[0])
            writer.close()
    assert b" 503 " in statuses[0]


async def test_a_connection_that_reads_gets_every_pipelined_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(PunctualProtocol, "request_within", 1)
    async with serving_on_a_port() as port, asyncio.timeout(60):
        loop = asyncio.get_running_loop()
        narrow, sending = await open_narrow(port, BIG * 5)
        answered = b""
        while part := await loop.sock_recv(narrow, 65_536):
            answered += part
        await sending
        narrow.close()
    assert answered.count(b"HTTP/1.1 200 OK") == 5


@asynccontextmanager
async def serving_on_a_port() -> AsyncIterator[int]:
    async with serving() as server:
        yield find_port(server)


def find_port(server: uvicorn.Server) -> int:
    port: int = server.servers[0].sockets[0].getsockname()[1]
    return port


@asynccontextmanager
async def serving() -> AsyncIterator[uvicorn.Server]:
    clock = SystemClock()
    async with MemoryStore() as store:
        config = uvicorn.Config(
            create_app(store), port=0, log_config=None, lifespan="off", **SERVER_OPTIONS
        )
        server = uvicorn.Server(config)
        serving = asyncio.create_task(server._serve())  # signals are left alone
        while not server.started:
            await clock.sleep(timedelta(milliseconds=5))
        yield server
        server.should_exit = True
        await serving
