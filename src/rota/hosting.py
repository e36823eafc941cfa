"""An app inside another ASGI service, such as FastAPI or Starlette.

The app's store, worker and schedules start and stop with the service. The pages and the API are
mounted below a path of the service.
"""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Any, Literal, Protocol, TypeAlias

from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Mount
from starlette.types import Receive, Scope, Send

from rota.auth.caller import Auth
from rota.auth.tokens import TokenBook
from rota.clock.protocol import Clock
from rota.errors import invalid
from rota.execution import running_worker
from rota.jobs.record import DEFAULT_TENANT
from rota.runtime.observation import observed
from rota.runtime.process import in_background
from rota.runtime.search_index import keep_index
from rota.runtime.watch import watching
from rota.server import ServerSettings, create_app
from rota.session import Session
from rota.stores.opened import OpenStore
from rota.telemetry.stats_recorder import StatsRecorder
from rota.worker import Worker, WorkerSettings

HostAuth: TypeAlias = Auth | Literal["tokens", "host"]
"""Who may see the pages and call the API below the path.

``tokens``: holders of a token of the store, which ``rota tokens create`` makes. ``host``: everyone
whom the service lets through; it must check callers itself. Or an object that authenticates.
"""


class Hosted(Protocol):
    """An app, as far as a service needs it."""

    def opened(
        self, store: OpenStore | None = None, clock: Clock | None = None
    ) -> AbstractAsyncContextManager[Session]: ...

    def serving(self, store: OpenStore, clock: Clock) -> AbstractAsyncContextManager[Session]: ...

    def list_checks(self) -> Mapping[str, Callable[[Any], object]]: ...

    def worker(self, settings: WorkerSettings | None = None) -> Worker: ...

    def worker_settings(self) -> WorkerSettings: ...


class MountedPages:
    """The pages and the API, once the app is open; until then it answers 503."""

    def __init__(self) -> None:
        self.pages: Starlette | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self.pages is not None:
            await self.pages(scope, receive, send)
            return
        answer = PlainTextResponse("The service is starting or stopping.", status_code=503)
        await answer(scope, receive, send)


def attach(app: Hosted, host: Starlette, path: str, auth: HostAuth, *, work: bool) -> None:
    """Mount the pages and the API at ``path``, and run the app while the service runs."""
    if not path.startswith("/") or path.endswith("/"):
        raise invalid("path", f'must start with "/" and not end with it, got {path!r:.40}')
    router = getattr(host, "router", None)
    if router is None or not hasattr(router, "lifespan_context"):
        raise invalid("asgi_app", f"must be a Starlette or FastAPI application, got {host!r:.60}")
    mounted = MountedPages()
    router.routes.append(Mount(path, app=mounted, name="rota"))
    inner: Callable[[Any], Any] = router.lifespan_context

    @asynccontextmanager
    async def lifespan(service: Any) -> AsyncIterator[Any]:
        async with running(app, work=work, auth=auth, mounted=mounted), inner(service) as state:
            yield state

    router.lifespan_context = lifespan


@asynccontextmanager
async def running(
    app: Hosted,
    *,
    work: bool = True,
    auth: HostAuth = "tokens",
    mounted: MountedPages | None = None,
) -> AsyncIterator[Session]:
    """The app is open while the context lasts, and with ``work`` a worker runs its jobs."""
    async with AsyncExitStack() as stack:
        session = await stack.enter_async_context(app.opened())
        await stack.enter_async_context(app.serving(session.store, session.clock))
        settings = app.worker_settings()
        worker = app.worker(settings)
        if mounted is None:
            await stack.enter_async_context(observed(worker, session.store, session.clock))
        else:
            stats = StatsRecorder(session.store, session.clock)
            await stack.enter_async_context(in_background(stats.run(), "rota stats"))
            served = ServerSettings(checks=app.list_checks(), stats=stats, worker=settings)
            found = _find_auth(auth, session)
            pages = create_app(session.store, found, settings=served, clock=session.clock)
            pages.state.metrics.follow(worker.events)
            mounted.pages = pages
            stack.callback(_unmount, mounted, pages)
            await stack.enter_async_context(watching(session.store, session.clock))
            list_tenants = partial(_list_tenants, found)
            index = keep_index(session.store, session.clock, list_tenants)
            await stack.enter_async_context(in_background(index, "rota search index"))
        if work:
            await stack.enter_async_context(running_worker(worker))
        yield session


def _find_auth(auth: HostAuth, session: Session) -> Auth | None:
    if auth == "host":
        return None
    if auth == "tokens":
        return TokenBook(session.store, session.clock)
    if isinstance(auth, str):
        raise invalid("auth", f'must be "tokens", "host" or an authenticator, got {auth!r:.40}')
    return auth


async def _list_tenants(auth: Auth | None) -> set[str]:
    """The tenants whose jobs people may search for here, as far as they are known."""
    tokens = await auth.list_tokens() if isinstance(auth, TokenBook) else ()
    return {DEFAULT_TENANT, *(token.tenant for token in tokens)}


def _unmount(mounted: MountedPages, pages: Starlette) -> None:
    mounted.pages = None
    pages.state.http_leases.close()  # ends requests that wait for jobs
    pages.state.changes.close()
