"""A service with two tenants on a store in memory, at a time that stands still."""

from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from random import Random

import httpx2
import pytest
from starlette.types import ASGIApp

from rota.auth.caller import EVERY_SCOPE, Scope
from rota.auth.tokens import TokenBook
from rota.server import ServerSettings, create_app
from rota.stores.memory import MemoryStore
from rota.testing import VirtualClock

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
ORIGIN = "http://127.0.0.1:8080"


class Stage:
    """The service and its clients."""

    def __init__(self, settings: ServerSettings | None = None) -> None:
        self.clock = VirtualClock(NOW)
        self.store = MemoryStore()
        self.book = TokenBook(self.store, self.clock, Random(7).getrandbits)
        self.settings = settings or ServerSettings()
        self.app = self.make_app()
        self._stack = AsyncExitStack()

    def make_app(self, *, is_open: bool = False) -> ASGIApp:
        auth = None if is_open else self.book
        return create_app(self.store, auth, settings=self.settings, clock=self.clock)

    async def issue(
        self, tenant: str = "ours", scopes: Iterable[Scope] = EVERY_SCOPE, name: str = "ada"
    ) -> str:
        """A new token."""
        return (await self.book.issue(tenant, scopes, name)).secret.reveal()

    async def connect(
        self,
        token: str | None = None,
        *,
        origin: str = ORIGIN,
        address: str = "127.0.0.1",
        app: ASGIApp | None = None,
    ) -> httpx2.AsyncClient:
        """Somebody with a token, or without."""
        transport = httpx2.ASGITransport(
            app or self.app, raise_app_exceptions=False, client=(address, 50_000)
        )
        headers = {} if token is None else {"authorization": f"Bearer {token}"}
        client = httpx2.AsyncClient(transport=transport, base_url=origin, headers=headers)
        return await self._stack.enter_async_context(client)

    async def sign_up(self, tenant: str = "ours") -> httpx2.AsyncClient:
        """Somebody of a tenant who may do everything."""
        return await self.connect(await self.issue(tenant))

    async def close(self) -> None:
        await self._stack.aclose()
        await self.store.close()


MakeStage = Callable[..., Stage]


@pytest.fixture
async def make_stage() -> AsyncIterator[MakeStage]:
    stages: list[Stage] = []

    def make(settings: ServerSettings | None = None) -> Stage:
        stages.append(Stage(settings))
        return stages[-1]

    yield make
    for stage in stages:
        await stage.close()


@pytest.fixture
def stage(make_stage: MakeStage) -> Stage:
    return make_stage()
