"""The schedules that an app declares: what ``@app.schedule`` says, the plan, and reconciliation.

Reconciliation makes the stored schedules those that the code declares: new, changed, removed or
kept, all of them in one write or none. Several hosts may start at once: the write of one wins, and
the others find nothing left to do.

Hosts of one app may run different versions of it, as during a rolling deploy. The set of schedules
that was declared last counts. A host whose set was replaced stands by while a host with the present
set lives: an older host that restarts changes nothing. When the last host with the present set is
gone, as at the end of a rollback, a host that stands by puts its own set in force.
"""

import asyncio
import inspect
from asyncio import Task as AsyncioTask
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from datetime import datetime, timedelta, tzinfo
from logging import getLogger
from secrets import token_hex
from typing import Annotated, Any, NamedTuple, Protocol

import msgspec
from msgspec.structs import replace

from rota.clock.protocol import Clock
from rota.errors import ConflictError, InvalidInputError, RotaError, StoreError
from rota.fleet.presence import SignOfLife
from rota.jobs.fields import read_name, read_word
from rota.jobs.record import DEFAULT_TENANT
from rota.ops.schedules import (
    ScheduleDefinition,
    StoredSchedule,
    VersionedSchedule,
    create_write,
    fingerprint,
    scan_schedules,
    schedule_key,
    settle,
    write_schedules,
)
from rota.rail.jobs import ROUND_LIMIT
from rota.schedule import ScheduleOptions, When, define, read_rule
from rota.session import Session
from rota.signature import locate, refuse_declaration
from rota.stores.documents import (
    all_documents,
    decode_body,
    find_document,
    remove_documents,
)
from rota.stores.protocol import Document, DocumentStore, DocumentWrite, Reach
from rota.task import Task

APPS = "schedules.apps"
"""Which set of schedules of each app is in force, and which were before."""

HOSTS = "schedules.hosts"
"""Which hosts run which set."""

SEEN_EVERY = timedelta(seconds=15)
GONE_AFTER = timedelta(seconds=60)
REMEMBERED = 50
"""The number of earlier sets that an app's document names."""

_logger = getLogger("rota.schedules")


class DeclaredSchedule(msgspec.Struct, frozen=True, kw_only=True):
    """A schedule as the code declares it; ``declared_at`` is ``file:line``."""

    name: str
    task: Task[..., Any]
    when: When
    options: ScheduleOptions
    retry: Any = None
    tenant: str = DEFAULT_TENANT
    args: Mapping[str, Any] = {}
    default_zone: tzinfo | None = None
    declared_at: str

    @property
    def key(self) -> str:
        return schedule_key(self.tenant, self.name)

    def define(self) -> ScheduleDefinition:
        """What it says, validated. Raises TaskDeclarationError, which names the function."""
        try:
            plain = define(self.task, self.args, self.retry)
            return read_rule(plain, self.when, self.options, self.default_zone)
        except (InvalidInputError, RotaError) as error:
            reason = f"its schedule is not valid: {error.message}"
            raise refuse_declaration(self.task.function, reason) from error


class DeclaredSchedules(list[DeclaredSchedule]):
    """The schedules of an app in the order of their declaration.

    ``app`` names the app among those that share a store: the module that makes it.
    """

    def __init__(self, app: str) -> None:
        super().__init__()
        self.app = app


class SchedulingApp(Protocol):
    """An app, as far as its schedules need it."""

    zone: tzinfo | None
    schedules: "DeclaredSchedules"

    def task(self, function: Any, /) -> Any:
        """Declare a task."""
        ...


def declare(
    app: SchedulingApp,
    when: When,
    *,
    name: str | None = None,
    retry: Any = None,
    tenant: str | None = None,
    args: Mapping[str, Any] | None = None,
    **options: Any,
) -> Callable[[Any], Any]:
    """The decorator that ``app.schedule`` returns: it declares a function, or schedules a task."""
    given: Any = when
    if inspect.isfunction(given) or isinstance(given, Task):
        reason = 'when is it due? Write @app.schedule("@daily"), for example'
        raise refuse_declaration(given, reason)

    def decorate(function: Any) -> Any:
        task: Task[..., Any] = function if isinstance(function, Task) else app.task(function)
        try:
            declared = DeclaredSchedule(
                name=read_name(name or task.name),
                task=task,
                when=when,
                options=ScheduleOptions(**options),
                retry=retry,
                tenant=read_word(tenant or DEFAULT_TENANT, "tenant"),
                args=args or {},
                default_zone=app.zone,
                declared_at=locate(task.function),
            )
        except InvalidInputError as error:
            raise refuse_declaration(task.function, error.message) from error
        _check_name(app, declared)
        if task.signature.check(may_wait=True):
            declared.define()
        app.schedules.append(declared)
        return task

    return decorate


def _check_name(app: SchedulingApp, declared: DeclaredSchedule) -> None:
    for other in app.schedules:
        if other.key == declared.key:
            reason = f"the schedule name {declared.name!r} is taken at {other.declared_at}"
            raise refuse_declaration(declared.task.function, f"{reason}; give this one a name")


class ChangedSchedule(msgspec.Struct, frozen=True):
    """A schedule that says something else than the stored one: each field, before and after."""

    name: str
    tenant: str
    changes: dict[str, tuple[Any, Any]]


class SchedulePlan(msgspec.Struct, frozen=True, kw_only=True):
    """What reconciling an app's schedules would do. Nothing has happened yet.

    ``stands_by``: a host with a newer set lives, so this set would change nothing now.
    """

    app: str
    added: tuple[StoredSchedule, ...] = ()
    changed: tuple[ChangedSchedule, ...] = ()
    removed: tuple[StoredSchedule, ...] = ()
    kept: tuple[StoredSchedule, ...] = ()
    stands_by: bool = False

    @property
    def has_changes(self) -> bool:
        return bool(self.added or self.changed or self.removed)

    def __str__(self) -> str:
        lines = [f"+ {_title(it)}: {_describe(it.definition)}" for it in self.added]
        for each in self.changed:
            lines.append(f"~ {_title(each)}")
            lines += [
                f"    {field}: {_show(before)} -> {_show(after)}"
                for field, (before, after) in each.changes.items()
            ]
        lines += [f"- {_title(it)}: {_describe(it.definition)}" for it in self.removed]
        counts = (
            f"{len(self.added)} added, {len(self.changed)} changed, {len(self.removed)} removed, "
            f"{len(self.kept)} kept"
        )
        if self.stands_by:
            lines.append("A host with a newer set of schedules lives: this one would stand by.")
        return "\n".join([*lines, counts])


def _title(schedule: StoredSchedule | ChangedSchedule) -> str:
    where = "" if schedule.tenant == DEFAULT_TENANT else f" (tenant {schedule.tenant})"
    return f"{schedule.name}{where}"


def _describe(definition: ScheduleDefinition) -> str:
    zone = "" if definition.interval else f" in {definition.zone}"
    return f"{_show(definition.when)}{zone}"


def _show(value: Any) -> str:
    text = str(msgspec.to_builtins(value)) if value is not None else "nothing"
    return text.replace("\n", " ")


class _AppState(msgspec.Struct, frozen=True, omit_defaults=True):
    """The set in force, and the sets that were in force before, the latest last."""

    current: str
    replaced: tuple[str, ...] = ()

    def put_in_force(self, chosen: str) -> "_AppState":
        earlier = [each for each in self.replaced if each != chosen]
        return _AppState(chosen, (*earlier, self.current)[-REMEMBERED:])


class _Host(msgspec.Struct, frozen=True):
    """A host that runs a set of an app's schedules."""

    app: str
    fingerprint: str
    seen_at: Annotated[datetime, msgspec.Meta(tz=True)]

    def is_gone(self, now: datetime) -> bool:
        return self.seen_at < now - GONE_AFTER


class _Decision(NamedTuple):
    """What to write, all of it or nothing, and what that means."""

    plan: SchedulePlan
    writes: list[DocumentWrite]
    found: list[VersionedSchedule]


class Reconciler:
    """Makes the stored schedules of an app those that it declares."""

    def __init__(self, app: SchedulingApp, session: Session) -> None:
        self._app = app.schedules.app
        self._session = session
        self._declared = {each.key: each for each in app.schedules}
        self._definitions = {key: each.define() for key, each in self._declared.items()}
        self.fingerprint = fingerprint(self._definitions)

    async def plan(self) -> SchedulePlan:
        """What ``apply`` would do now. Writes nothing."""
        return (await self._decide()).plan

    async def apply(self) -> SchedulePlan:
        """Reconcile, unless a host with a newer set lives; returns what was to be done."""
        for _ in range(ROUND_LIMIT):
            decision = await self._decide()
            plan = decision.plan
            if plan.stands_by:
                _log_standing_by(plan)
                return plan
            if await write_schedules(self._session.store, decision.writes):
                await self._settle()
                _log_plan(plan)
                return plan
        raise ConflictError(
            f"The schedules of {self._app} were changed by others each time", {"app": self._app}
        )

    async def _settle(self) -> None:
        found = [each async for each in self._scan_own()]
        around = self._session.as_rail(DEFAULT_TENANT)
        await settle(around, found)

    async def _decide(self) -> _Decision:
        state, version = await self._read_state()
        found = {each.schedule.key: each async for each in scan_schedules(self._session.store)}
        own = {key: each for key, each in found.items() if each.schedule.app == self._app}
        self._refuse_taken(found)
        changes = self._compare(own)
        stands_by = await self._stands_by(state)
        plan = SchedulePlan(app=self._app, stands_by=stands_by, **changes)
        writes = [] if stands_by else self._write(own, plan, state, version)
        return _Decision(plan, writes, list(own.values()))

    def _refuse_taken(self, found: Mapping[str, VersionedSchedule]) -> None:
        for key, declared in self._declared.items():
            other = found.get(key)
            if other is not None and other.schedule.app != self._app:
                owner = other.schedule.app or "a schedule that was made at run time"
                reason = f"the schedule name {declared.name!r} belongs to {owner}"
                raise refuse_declaration(declared.task.function, f"{reason}; choose another")

    def _compare(self, own: Mapping[str, VersionedSchedule]) -> dict[str, Any]:
        live = {key: it.schedule for key, it in own.items() if not it.schedule.is_removed}
        shared = [key for key in self._definitions if key in live]
        differing = {key: live[key].definition.compare(self._definitions[key]) for key in shared}
        return {
            "added": tuple(self._make(key) for key in self._definitions if key not in live),
            "changed": tuple(
                ChangedSchedule(live[key].name, live[key].tenant, changes)
                for key, changes in differing.items()
                if changes
            ),
            "removed": tuple(it for key, it in live.items() if key not in self._definitions),
            "kept": tuple(live[key] for key, changes in differing.items() if not changes),
        }

    def _make(self, key: str) -> StoredSchedule:
        declared, now = self._declared[key], self._session.clock.now()
        series_id = self._session.make_id(now)
        return StoredSchedule(
            name=declared.name,
            tenant=declared.tenant,
            definition=self._definitions[key],
            series_id=series_id,
            anchor=now,
            updated_at=now,
            app=self._app,
            declared_at=declared.declared_at,
        )

    def _write(
        self,
        own: Mapping[str, VersionedSchedule],
        plan: SchedulePlan,
        state: "_AppState | None",
        version: int | None,
    ) -> list[DocumentWrite]:
        writes = [self._create(own.get(it.key), it) for it in plan.added]
        for changed in plan.changed:
            key = schedule_key(changed.tenant, changed.name)
            writes.append(own[key].write(self._redefine(own[key].schedule, key)))
        for it in plan.removed:
            gone = replace(it, is_removed=True, is_settled=False)
            writes.append(own[it.key].write(gone))
        is_in_force = state is not None and state.current == self.fingerprint
        if is_in_force or (state is None and not writes and not self._definitions):
            return writes
        first = _AppState(self.fingerprint)
        after = first if state is None else state.put_in_force(self.fingerprint)
        writes.append(DocumentWrite(APPS, self._app, version, msgspec.json.encode(after)))
        return writes

    def _create(self, before: VersionedSchedule | None, made: StoredSchedule) -> DocumentWrite:
        """A schedule that is new, or comes back before its series has ended."""
        if before is None:
            return create_write(made)
        return before.write(self._redefine(before.schedule, made.key))

    def _redefine(self, before: StoredSchedule, key: str) -> StoredSchedule:
        now = self._session.clock.now()
        spare_id = self._session.make_id(now)
        after = before.redefine(self._definitions[key], now, spare_id)
        return replace(after, declared_at=self._declared[key].declared_at)

    async def is_in_force(self) -> bool:
        """Whether this set is the one in force."""
        state, _ = await self._read_state()
        return state is not None and state.current == self.fingerprint

    async def _stands_by(self, state: "_AppState | None") -> bool:
        """Whether this set was replaced, and a host with the present set lives."""
        if state is None or self.fingerprint not in state.replaced:
            return False
        return state.current in await self._find_living()

    async def _find_living(self) -> set[str]:
        now, living = self._session.clock.now(), set()
        async for document in all_documents(self._session.store, HOSTS):
            host = decode_body(document, _Host, None)
            if host is not None and host.app == self._app and not host.is_gone(now):
                living.add(host.fingerprint)
        return living

    async def _read_state(self) -> tuple[_AppState | None, int | None]:
        found = await find_document(self._session.store, APPS, self._app)
        if found is None:
            return None, None
        return msgspec.json.decode(found.body, type=_AppState), found.version

    async def _scan_own(self) -> AsyncIterator[VersionedSchedule]:
        async for each in scan_schedules(self._session.store):
            if each.schedule.app == self._app:
                yield each


def _log_plan(plan: SchedulePlan) -> None:
    if plan.has_changes:
        changes = "; ".join(str(plan).splitlines())  # one line: a log escapes line breaks
        _logger.info("Schedules of %s: %s", plan.app, changes)


def _log_standing_by(plan: SchedulePlan) -> None:
    _logger.warning(
        "This host declares an earlier set of schedules of %s than a host that lives. It runs the "
        "tasks, and leaves the schedules as they are until no such host is left.",
        plan.app,
    )


async def plan_schedules(app: SchedulingApp, session: Session) -> SchedulePlan:
    """What reconciling the app's schedules would do now. Writes nothing."""
    return await Reconciler(app, session).plan()


@asynccontextmanager
async def keep_schedules(app: SchedulingApp, session: Session) -> AsyncIterator[SchedulePlan]:
    """Reconcile the app's schedules, and stay in force or on standby while the context lasts."""
    reconciler = Reconciler(app, session)
    host = _HostSign(app.schedules.app, reconciler.fingerprint, session.store, session.clock)
    is_shared = session.store.reach is not Reach.PROCESS
    if is_shared and app.schedules:
        await host.show()
    plan = await reconciler.apply()
    watch: AsyncioTask[None] | None = None
    if is_shared and app.schedules:
        watch = asyncio.create_task(_watch(reconciler, host, session.clock))
    try:
        yield plan
    finally:
        if watch is not None:
            watch.cancel()
            await asyncio.wait([watch])
            with suppress(StoreError):
                await host.withdraw()


async def _watch(reconciler: Reconciler, host: "_HostSign", clock: Clock) -> None:
    """Show that the host lives; put its set in force once no host with a newer one is left."""
    while True:
        await clock.sleep(SEEN_EVERY)
        with suppress(StoreError):
            await host.show()
            if await reconciler.is_in_force():
                continue
            if not (await reconciler.plan()).stands_by:
                await reconciler.apply()


class _HostSign:
    """Shows the others that this host lives, and with which set."""

    def __init__(self, app: str, chosen: str, store: DocumentStore, clock: Clock) -> None:
        self._app = app
        self._chosen = chosen
        self._store = store
        self._clock = clock
        self._sign = SignOfLife(store, HOSTS, f"{app[:200]}/{token_hex(8)}")

    async def show(self) -> None:
        now = self._clock.now()
        await self._sign.show(msgspec.json.encode(_Host(self._app, self._chosen, now)))
        await remove_documents(self._store, HOSTS, lambda document: _is_gone(document, now))

    async def withdraw(self) -> None:
        await self._sign.withdraw()


def _is_gone(document: Document, now: datetime) -> bool:
    host = decode_body(document, _Host, None)
    return host is None or host.is_gone(now)
