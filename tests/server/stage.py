"""The whole service on a store of its own, for tests that send it whatever they can think of."""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from starlette.applications import Starlette
from starlette.types import Receive, Scope, Send

from rota.auth.caller import Caller
from rota.errors import ConflictError, InvalidJobError
from rota.jobs import (
    Change,
    Job,
    admit_job,
    decide_complete,
    decide_discard,
    decide_fail,
    make_job_id,
)
from rota.server import ServerSettings, create_app
from rota.server.http.context import GuardSettings
from rota.stores.opened import OpenStore
from rota.stores.protocol import LeaseRequest

START = datetime(2026, 5, 1, 12, tzinfo=UTC)
TOKEN = "a-good-token"  # noqa: S105 - known to everybody who reads this
UNLIMITED = GuardSettings(token_rate=None, stranger_rate=None, waiting_limit=None, body_within=None)
JOB_COUNT = 24
SEEDED_EVERY = 200


class OneToken:
    """Knows one token, which may do everything."""

    async def identify(self, token: str, now: datetime) -> Caller | None:  # noqa: ARG002 - fixed
        return Caller(who="tester") if token == TOKEN else None

    async def recall(self, token_id: str, now: datetime) -> Caller | None:  # noqa: ARG002 - fixed
        return None


class QuickClock:
    """A clock on which every wait is over at once: it has moved on."""

    def __init__(self) -> None:
        self._now = START

    def now(self) -> datetime:
        self._now += timedelta(microseconds=1)
        return self._now

    async def sleep(self, duration: timedelta) -> None:
        self._now += max(duration, timedelta(0))

    async def sleep_until(self, instant: datetime) -> None:
        self._now = max(self._now, instant)


def known_id(number: int) -> str:
    """The id of one of the jobs that are there to be found."""
    return make_job_id(START, number % JOB_COUNT)


def pick_id(text: str) -> str:
    """One of three ids stays as it is; instead of the others there is one that exists."""
    number = UUID(text).int
    return text if number % 3 == 0 else known_id(number // 3)


class Stage:
    """An ASGI application that opens a store when it starts, and fills it now and again."""

    def __init__(self, open_store: Callable[[], Awaitable[OpenStore]]) -> None:
        self._open_store = open_store
        self._store: OpenStore | None = None
        self._app: Starlette | None = None
        self.request_count = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._live(receive, send)
            return
        assert self._app is not None
        if self.request_count % SEEDED_EVERY == 0:
            await self._fill()
        self.request_count += 1
        await self._app(scope, receive, send)

    async def _live(self, receive: Receive, send: Send) -> None:
        await receive()
        self._store = await self._open_store()
        settings = ServerSettings(guarding=UNLIMITED)
        self._app = create_app(self._store, OneToken(), settings=settings, clock=QuickClock())
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await self._store.close()
        await send({"type": "lifespan.shutdown.complete"})

    async def _fill(self) -> None:
        """Jobs of all sorts: some wait for others, some run, some ended, some recur."""
        store = self._store
        assert store is not None
        for number in range(JOB_COUNT):
            with suppress(ConflictError, InvalidJobError):
                await store.insert([_make_job(number)], START)
        request = LeaseRequest(worker="w", limit=6, lease_for=timedelta(days=1), queues=["ending"])
        leased = await store.lease(request, START)
        for job, decide in zip(leased, _ENDINGS, strict=False):
            await store.apply([decide(job)], START)


_ENDINGS: tuple[Callable[[Job], Change], ...] = (
    lambda job: decide_complete(job, START),
    lambda job: decide_discard(job, "no hope", START),
    lambda job: decide_fail(job, "broken", START),
)


def _make_job(number: int) -> Job:
    queue = "ending" if number < 6 else f"q{number % 3}"
    asked: dict[str, Any] = {"name": f"job {number}", "queue": queue, "priority": 1 + number % 10}
    if number >= 18:
        asked["dependencies"] = [known_id(number - 18), known_id(number - 6)]
    elif number >= 14:
        asked["recurrence"] = {"interval": f"{number}m"}
    elif number < 6:
        asked["retry_policy"] = {"max_attempts": 1}
    return admit_job(asked, job_id=known_id(number), now=START)
