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
from rota.rail.context import RailContext
from rota.runtime.engines import (
    Engine,
    Follow,
    LoopPart,
    OnReady,
    TaskPart,
    WorkPart,
    WorkPlan,
    make_rescue,
)
from rota.runtime.process import House, HouseEnd, Part, Say
from rota.runtime.user_modules import Registration, load_handlers
from rota.runtime.web import Binding, Listening, WebPart, listen_on
from rota.runtime.wiring import inspect_store, open_clock, open_store
from rota.scheduler import Scheduler
from rota.server import ServerSettings, create_app
from rota.stores.opened import OpenStore
from rota.telemetry.stats_recorder import DepthSampler, StatsRecorder
from rota.worker import WorkerSettings

ListTasks: TypeAlias = Callable[[OpenStore, Clock], Sequence[Any]]
"""Registrations, made when the store is open: some tasks look after it."""


class TaskPlan(msgspec.Struct, frozen=True):
    """Which declarative tasks run, on the clock of which zone."""

    list_tasks: ListTasks
    zone: tzinfo | None = None


class HousePlan(msgspec.Struct, frozen=True, kw_only=True):
    """Which store, and what of it runs: what is None does not.

    ``binding`` is where API and pages are. ``greets`` gives a new store a first token and, once the
    tasks are scheduled, a first job.
    """

    store_url: str
    binding: Binding | None = None
    work: WorkPlan | None = None
    tasks: TaskPlan | None = None
    greets: bool = False

    @property
    def worker_settings(self) -> WorkerSettings:
        return WorkerSettings() if self.work is None else self.work.settings


FIRST_TOKEN = "first token"  # noqa: S105 - the name of a token
FIRST_JOB = "welcome"
ISSUER = "rota up"
REASON = "nobody had a token for this store"
GREETING = "Rota is up: this was its first job."


async def issue_first_token(store: OpenStore, clock: Clock) -> IssuedToken | None:
    """A token for everything, on a store that never had one; None on every other."""
    book = TokenBook(store, clock)
    if await book.list_tokens():
        return None
    around = RailContext(store, DEFAULT_TENANT, clock, RailSettings(), randbits)
    wish = TokenRequest(FIRST_TOKEN, EVERY_SCOPE)
    return await TenantTokens(around, book).issue(wish, ISSUER, REASON)


async def schedule_first_job(store: OpenStore, clock: Clock) -> None:
    """A job that greets, once all else has started; there is only ever one of them."""
    await Rail(store, clock=clock).schedule_once(
        "log.message", {"message": GREETING}, run_at=clock.now(), idempotency_key=FIRST_JOB
    )


PAGES = "/admin"
API = "/api/v1"
DOCS = "/docs"
UNENCRYPTED = (
    "Other hosts reach this one, and tokens are not encrypted: put a proxy with TLS before it."
)
NOBODY_ENTERS = "There is no token yet, and nobody is let in: rota tokens create makes one."


class Voice(NamedTuple):
    """How a house makes itself heard: ``say`` plain lines, and ``listen`` to what happens in it.

    ``show_token`` is handed the first token, once; it must not end up in a log.
    """

    say: Say
    listen: Callable[[Event], object] | None = None
    show_token: Callable[[str], object] | None = None


async def run_house(plan: HousePlan, voice: Voice, clock: Clock | None = None) -> HouseEnd:
    """Run what is planned until SIGINT or SIGTERM; what cannot be done is told before anything is.

    ``clock`` takes the place of the store's in tests, where time is made up.
    """
    async with open_house(plan, voice, clock) as house:
        return await house.run_until_signalled()


@asynccontextmanager
async def open_house(
    plan: HousePlan, voice: Voice, clock: Clock | None = None
) -> AsyncIterator[House]:
    """A house in which everything is ready to run, on a store that is open while this lasts."""
    registrations = () if plan.work is None else load_handlers(plan.work.references)
    async with AsyncExitStack() as stack:
        listening = None if plan.binding is None else listen_on(plan.binding)
        if listening is not None:
            stack.callback(listening.socket.close)
        store = await stack.enter_async_context(await open_store(plan.store_url))
        voice.say(f"Store: {show_address(plan.store_url)}")
        if clock is None or keeps_real_time(clock):
            clock = await stack.enter_async_context(open_clock(store))
        yield await _furnish(plan, voice, _Ground(store, clock, registrations, listening))


def show_address(url: str) -> str:
    """An address as it may be shown: without a password, and without options."""
    return hide_password(url.partition("?")[0])


class _Ground(NamedTuple):
    """What a house stands on."""

    store: OpenStore
    clock: Clock
    registrations: Sequence[Registration]
    listening: Listening | None


async def _furnish(plan: HousePlan, voice: Voice, ground: _Ground) -> House:
    tally = StatsRecorder(ground.store, ground.clock)
    followers: list[Follow] = [tally.follow]
    if voice.listen is not None:
        listen = voice.listen
        followers.append(lambda journal: journal.subscribe(listen))
    front = await _make_front(plan, voice, ground)
    if front is not None:
        followers.append(front.app.state.metrics.follow)
    observers: list[Part] = [LoopPart("tally", tally.run)]
    if front is not None:
        sampler = DepthSampler(ground.store, ground.clock, tally, front.list_tenants)
        followers.append(sampler.follow)
        observers.append(LoopPart("depths", sampler.run))
    engine = Engine(ground.store, ground.clock, voice.say, followers)
    greet = None
    if front is not None and front.is_new:
        greet = partial(schedule_first_job, ground.store, ground.clock)
    engines = _make_engines(plan, engine, ground.registrations, greet)
    if front is None:
        return House([engines, observers], voice.say)
    return House([engines, observers, [front.web]], voice.say, front.leave)


def _make_engines(
    plan: HousePlan,
    engine: Engine,
    registrations: Sequence[Registration],
    greet: OnReady | None,
) -> Sequence[Part]:
    engines: list[Part] = []
    if plan.work is None:
        engines.append(make_rescue(engine, plan.worker_settings))
    else:
        engines.append(WorkPart(engine, plan.work, registrations))
    if plan.tasks is not None:
        scheduler = Scheduler(engine.store, clock=engine.clock, zone=plan.tasks.zone)
        engine.follow(scheduler.events)
        tasks = plan.tasks.list_tasks(engine.store, engine.clock)
        engines.append(TaskPart(scheduler, tasks, greet))
    return engines


class _Front(NamedTuple):
    """The service, and what serves it."""

    app: Starlette
    web: WebPart
    book: TokenBook
    is_new: bool

    async def list_tenants(self) -> set[str]:
        """Those for whom there is a token, and may be somebody who looks at the pages."""
        return {token.tenant for token in await self.book.list_tokens()}

    def leave(self) -> None:
        """Be ready no more, and let go of workers that wait for jobs over HTTP."""
        self.web.door.close()
        self.app.state.http_leases.close()


async def _make_front(plan: HousePlan, voice: Voice, ground: _Ground) -> _Front | None:
    if ground.listening is None:
        return None
    book, url = TokenBook(ground.store, ground.clock), ground.listening.url
    zone = None if plan.tasks is None else plan.tasks.zone
    settings = ServerSettings(inspect=partial(inspect_store, plan.store_url), zone=zone)
    app = create_app(ground.store, book, settings=settings, clock=ground.clock)
    voice.say(f"Pages: {url}{PAGES}")
    voice.say(f"API: {url}{API}, described at {url}{DOCS}")
    if plan.binding is not None and not is_loopback(plan.binding.host):
        voice.say(UNENCRYPTED)
    is_new = False
    if plan.greets and voice.show_token is not None:
        is_new = await _let_in(voice.show_token, ground)
    elif not await book.list_tokens():
        voice.say(NOBODY_ENTERS)
    return _Front(app, WebPart(app, ground.listening), book, is_new)


async def _let_in(show_token: Callable[[str], object], ground: _Ground) -> bool:
    """Whether the store is new: nobody had a token for it, and now there is a first one."""
    issued = await issue_first_token(ground.store, ground.clock)
    if issued is not None:
        show_token(issued.secret.reveal())
    return issued is not None
