"""Starts the parts of a process from a plan."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import tzinfo
from functools import partial
from secrets import randbits
from typing import Any, NamedTuple, TypeAlias

import msgspec
from starlette.applications import Starlette

from rota.auth.binding import is_loopback
from rota.auth.caller import EVERY_SCOPE
from rota.auth.tokens import IssuedToken, TokenBook
from rota.clock.protocol import Clock, keeps_real_time
from rota.errors import hide_password
from rota.events import Event
from rota.jobs.record import DEFAULT_TENANT
from rota.ops.tokens import TenantTokens, TokenRequest
from rota.rail import Rail, RailSettings
from rota.rail.jobs import RailContext
from rota.runtime.configuration import MetricsAddress, Webhook, read_configuration
from rota.runtime.engines import (
    Engine,
    Follow,
    LoopPart,
    OnReady,
    TaskPart,
    WorkPart,
    WorkPlan,
    make_upkeep,
)
from rota.runtime.observation import MetricsPort, open_metrics_port
from rota.runtime.process import Part, Runtime, RuntimeEnd, Say
from rota.runtime.search_index import keep_index
from rota.runtime.user_modules import Registration, ServedApp, list_apps, load_handlers
from rota.runtime.watch import Watch
from rota.runtime.web import Binding, Listening, WebPart, listen_on
from rota.runtime.webhook import WebhookSender
from rota.runtime.wiring import inspect_store, open_clock, open_store
from rota.scheduler import Scheduler
from rota.scheduler.policy import DECLARATIVE, SchedulerPolicy, SchedulerSettings
from rota.server import ServerSettings, create_app
from rota.stores.opened import OpenStore
from rota.telemetry.stats_recorder import DepthSampler, StatsRecorder
from rota.worker import WorkerSettings

ListTasks: TypeAlias = Callable[[OpenStore, Clock], Sequence[Any]]
"""Returns the registrations, once the store is open."""


class TaskPlan(msgspec.Struct, frozen=True):
    """Which declarative tasks run, in which zone, by which edition's policy and limits."""

    list_tasks: ListTasks
    zone: tzinfo | None = None
    policy: SchedulerPolicy = DECLARATIVE
    settings: SchedulerSettings = SchedulerSettings()


class RuntimePlan(msgspec.Struct, frozen=True, kw_only=True):
    """The store, and the parts that run on it. A part that is None does not run.

    ``binding`` is the address of the API and the pages. ``greets`` gives a new store a first token
    and, once the tasks are scheduled, a first job. ``apps`` are open while the process runs, beside
    those among the worker's references. ``settings`` are those of rescue and of leases over HTTP
    where no worker runs. ``metrics`` is where a process without pages shows its metrics. Alerts are
    posted to ``webhook``.
    """

    store_url: str
    binding: Binding | None = None
    work: WorkPlan | None = None
    tasks: TaskPlan | None = None
    greets: bool = False
    apps: Sequence[ServedApp] = ()
    webhook: Webhook | None = None
    settings: WorkerSettings = WorkerSettings()
    metrics: MetricsAddress | None = None

    @property
    def worker_settings(self) -> WorkerSettings:
        return self.settings if self.work is None else self.work.settings


FIRST_TOKEN = "first token"  # noqa: S105 - the name of a token
FIRST_JOB = "welcome"
ISSUER = "rota up"
REASON = "the store had no token"
GREETING = "Rota is up: this was its first job."


async def issue_first_token(store: OpenStore, clock: Clock) -> IssuedToken | None:
    """Issue a token with every scope on a store without tokens; otherwise return None."""
    book = TokenBook(store, clock)
    if await book.list_tokens():
        return None
    around = RailContext(store, DEFAULT_TENANT, clock, RailSettings(), randbits)
    wish = TokenRequest(FIRST_TOKEN, EVERY_SCOPE)
    return await TenantTokens(around, book).issue(wish, ISSUER, REASON)


async def schedule_first_job(store: OpenStore, clock: Clock) -> None:
    """Schedule a greeting, once per store."""
    await Rail(store, clock=clock).schedule_once(
        "log.message", {"message": GREETING}, run_at=clock.now(), idempotency_key=FIRST_JOB
    )


PAGES = "/admin"
API = "/api/v1"
DOCS = "/docs"
UNENCRYPTED = (
    "Other hosts can connect, and tokens are not encrypted: put a TLS proxy in front of it."
)
REFUSES_ALL = "There is no token yet, so every request is refused: rota tokens create makes one."


class Reporter(NamedTuple):
    """What is called with messages (``say``), with events (``listen``) and with the first token.

    ``show_token`` must not write the token to a log.
    """

    say: Say
    listen: Callable[[Event], object] | None = None
    show_token: Callable[[str], object] | None = None


async def run_runtime(
    plan: RuntimePlan, reporter: Reporter, clock: Clock | None = None
) -> RuntimeEnd:
    """Run the plan until SIGINT or SIGTERM. Everything is checked before anything starts.

    A virtual ``clock`` replaces the store's clock in tests.
    """
    async with open_runtime(plan, reporter, clock) as runtime:
        return await runtime.run_until_signalled()


@asynccontextmanager
async def open_runtime(
    plan: RuntimePlan, reporter: Reporter, clock: Clock | None = None
) -> AsyncIterator[Runtime]:
    """Everything ready to run, on a store that is open while the context lasts."""
    registrations = () if plan.work is None else load_handlers(plan.work.references)
    sender = None if plan.webhook is None else WebhookSender(plan.webhook)
    async with AsyncExitStack() as stack:
        listening = None if plan.binding is None else listen_on(plan.binding)
        if listening is not None:
            stack.callback(listening.socket.close)
        store = await stack.enter_async_context(await open_store(plan.store_url))
        reporter.say(f"Store: {show_address(plan.store_url)}")
        if clock is None or keeps_real_time(clock):
            clock = await stack.enter_async_context(open_clock(store))
        for app in (*plan.apps, *list_apps(registrations)):
            await stack.enter_async_context(app.serving(store, clock))
        stats = StatsRecorder(store, clock)
        resources = _Resources(store, clock, registrations, listening, stats, sender)
        port = None
        if plan.metrics is not None:
            port = await stack.enter_async_context(open_metrics_port(plan.metrics))
            reporter.say(f"Metrics: {port.url}")
        yield await _assemble(plan, reporter, resources, port)


def show_address(url: str) -> str:
    """An address without its password and options."""
    return hide_password(url.partition("?")[0])


class _Resources(NamedTuple):
    """What the parts of a runtime share."""

    store: OpenStore
    clock: Clock
    registrations: Sequence[Registration]
    listening: Listening | None
    stats: StatsRecorder
    sender: WebhookSender | None


async def _assemble(
    plan: RuntimePlan, reporter: Reporter, resources: _Resources, port: MetricsPort | None
) -> Runtime:
    stats, followers = resources.stats, list[Follow]()
    if reporter.listen is not None:
        listen = reporter.listen
        followers.append(lambda emitter: emitter.subscribe(listen))
    web = await _make_web(plan, reporter, resources)
    observers: list[Part] = [LoopPart("stats", stats.run)]
    if web is not None:
        sampler = DepthSampler(resources.store, resources.clock, stats, web.list_tenants)
        followers.append(sampler.follow)
        observers.append(LoopPart("depths", sampler.run))
        index = partial(keep_index, resources.store, resources.clock, web.list_tenants)
        observers.append(LoopPart("search index", index))
        for follow in followers:
            follow(web.app.state.http_leases.events)
    followers.append(stats.follow if web is None else web.app.state.metrics.follow)
    if port is not None:
        followers.append(port.follow)
    engine = Engine(resources.store, resources.clock, reporter.say, followers)
    show = None if port is None else port.show
    every = read_configuration().watch_every
    watch = Watch(resources.store, resources.clock, resources.sender, every=every, show=show)
    engine.follow(watch.events)
    observers.append(LoopPart("watch", watch.run))
    greet = None
    if web is not None and web.is_new:
        greet = partial(schedule_first_job, resources.store, resources.clock)
    engines = _make_engines(plan, engine, resources.registrations, greet)
    if web is None:
        return Runtime([engines, observers], reporter.say)
    return Runtime([engines, observers, [web.part]], reporter.say, web.leave)


def _make_engines(
    plan: RuntimePlan,
    engine: Engine,
    registrations: Sequence[Registration],
    greet: OnReady | None,
) -> Sequence[Part]:
    engines: list[Part] = []
    if plan.work is None:
        engines += make_upkeep(engine, plan.worker_settings)
    else:
        engines.append(WorkPart(engine, plan.work, registrations))
    if plan.tasks is not None:
        scheduler = Scheduler(
            engine.store,
            clock=engine.clock,
            zone=plan.tasks.zone,
            policy=plan.tasks.policy,
            settings=plan.tasks.settings,
        )
        engine.follow(scheduler.events)
        tasks = plan.tasks.list_tasks(engine.store, engine.clock)
        engines.append(TaskPart(scheduler, tasks, greet))
    return engines


class _Web(NamedTuple):
    """The API and the pages, and the server that runs them."""

    app: Starlette
    part: WebPart
    book: TokenBook
    is_new: bool

    async def list_tenants(self) -> set[str]:
        """The tenants that have a token, and so may look at the pages."""
        return {token.tenant for token in await self.book.list_tokens()}

    def leave(self) -> None:
        """Report not ready, answer workers that wait for jobs over HTTP, and end live pages."""
        self.part.readiness.close()
        self.app.state.http_leases.close()
        self.app.state.changes.close()


async def _make_web(plan: RuntimePlan, reporter: Reporter, resources: _Resources) -> _Web | None:
    if resources.listening is None:
        return None
    book, url = TokenBook(resources.store, resources.clock), resources.listening.url
    zone = None if plan.tasks is None else plan.tasks.zone
    checks = {
        kind: check
        for app in (*plan.apps, *list_apps(resources.registrations))
        for kind, check in app.list_checks().items()
    }
    settings = ServerSettings(
        inspect=partial(inspect_store, plan.store_url),
        zone=zone,
        checks=checks,
        stats=resources.stats,
        worker=plan.worker_settings,
    )
    app = create_app(resources.store, book, settings=settings, clock=resources.clock)
    reporter.say(f"Pages: {url}{PAGES}")
    reporter.say(f"API: {url}{API}, described at {url}{DOCS}")
    if plan.binding is not None and not is_loopback(plan.binding.host):
        reporter.say(UNENCRYPTED)
    is_new = False
    if plan.greets and reporter.show_token is not None:
        is_new = await _show_first_token(reporter.show_token, resources)
    elif not await book.list_tokens():
        reporter.say(REFUSES_ALL)
    return _Web(app, WebPart(app, resources.listening), book, is_new)


async def _show_first_token(show_token: Callable[[str], object], resources: _Resources) -> bool:
    """Show the first token of a new store. Returns whether the store is new."""
    issued = await issue_first_token(resources.store, resources.clock)
    if issued is not None:
        show_token(issued.secret.reveal())
    return issued is not None
