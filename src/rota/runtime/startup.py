"""Starts the parts of a process from a plan."""

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial

from rota.clock.protocol import Clock, keeps_real_time
from rota.errors import hide_password
from rota.rail import Rail
from rota.runtime.configuration import read_configuration
from rota.runtime.engines import Engine, Follow, LoopPart, OnReady, TaskPart, WorkPart, make_upkeep
from rota.runtime.observation import MetricsPort, open_metrics_port
from rota.runtime.plan import Reporter, Resources, RuntimePlan, listen_on
from rota.runtime.process import Part, Runtime, RuntimeEnd
from rota.runtime.search_index import keep_index
from rota.runtime.user_modules import Registration, list_apps, load_handlers
from rota.runtime.watch import Watch, make_sender
from rota.runtime.wiring import open_clock, open_store
from rota.scheduler import Scheduler
from rota.stores.opened import OpenStore
from rota.telemetry.stats_recorder import DepthSampler, StatsRecorder

FIRST_JOB = "welcome"
GREETING = "Rota is up: this was its first job."


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
    send_alerts = make_sender(plan.webhook)
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
        resources = Resources(store, clock, registrations, listening, stats, send_alerts)
        port = None
        if plan.metrics is not None:
            port = await stack.enter_async_context(open_metrics_port(plan.metrics))
            reporter.say(f"Metrics: {port.url}")
        yield await _assemble(plan, reporter, resources, port)


def show_address(url: str) -> str:
    """An address without its password and options."""
    return hide_password(url.partition("?")[0])


async def _assemble(
    plan: RuntimePlan, reporter: Reporter, resources: Resources, port: MetricsPort | None
) -> Runtime:
    stats, followers = resources.stats, list[Follow]()
    if reporter.listen is not None:
        listen = reporter.listen
        followers.append(lambda emitter: emitter.subscribe(listen))
    web = None
    if resources.listening is not None:
        from rota.runtime.web import open_web  # noqa: PLC0415 - loads the server

        web = await open_web(plan, reporter, resources, resources.listening)
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
    store, clock = resources.store, resources.clock
    watch = Watch(store, clock, resources.send_alerts, every=every, show=show)
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


async def schedule_first_job(store: OpenStore, clock: Clock) -> None:
    """Schedule a greeting, once per store."""
    await Rail(store, clock=clock).schedule_once(
        "log.message", {"message": GREETING}, run_at=clock.now(), idempotency_key=FIRST_JOB
    )
