"""Watches the store for conditions that a person should know of: logs them, and posts them.

Every server and worker runs a watch. One of them takes each turn: the report in the store decides
which. It also has what was posted. So an alert comes while any process lives.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import datetime, timedelta

from msgspec.structs import replace

from rota.clock.protocol import Clock, keeps_real_time
from rota.errors import RotaError
from rota.events import AlertEnded, AlertNotSent, AlertRaised, EventEmitter
from rota.fleet.identity import make_process_name
from rota.ops.notices import WatchedTasks, find_notices, forget_ended
from rota.runtime.configuration import WATCH_EVERY, Webhook, read_configuration, read_webhook
from rota.runtime.process import in_background
from rota.stores.opened import OpenStore
from rota.telemetry.notices import (
    Notice,
    Report,
    StoredReport,
    list_new,
    read_report,
    write_report,
)

FORGOTTEN_EVERY = timedelta(hours=1)


SendAlerts = Callable[[Sequence[Notice], datetime], Awaitable[None]]
"""Posts alerts. Raises RotaError when they may not have arrived."""

Show = Callable[[Report, datetime], object]
"""Is given the latest report of any process, and the time."""


class Watch:
    """Looks at the store every half minute, unless another process has done so."""

    def __init__(
        self,
        store: OpenStore,
        clock: Clock,
        send_alerts: SendAlerts | None = None,
        *,
        every: timedelta = WATCH_EVERY,
        show: Show | None = None,
    ) -> None:
        self.events = EventEmitter("rota.watch")
        self._store = store
        self._clock = clock
        self._send_alerts = send_alerts
        self._every = every
        self._show = show
        self._tasks = WatchedTasks(store, clock)
        self._name = make_process_name()
        self._swept_at: datetime | None = None

    async def run(self) -> None:
        """Take turns until cancelled. After a store failure, try again later."""
        while True:
            with suppress(RotaError):
                await self.run_once()
            await self._clock.sleep(self._every)

    async def run_once(self) -> Report | None:
        """Take a turn; None if another process has just taken one, or takes it now."""
        stored, now = await read_report(self._store), self._clock.now()
        before = Report(taken_at=now) if stored is None else stored.report
        if stored is not None and timedelta(0) <= now - before.taken_at < self._every / 2:
            self._show_report(before, now)
            return None
        found = await find_notices(self._store, self._clock, self._tasks)
        sent = {it.key for it in before.notices if it.is_sent}
        notices = tuple(replace(it, is_sent=it.key in sent) for it in found)
        report = Report(taken_at=now, by=self._name, notices=notices)
        version = await self._write(stored, report)
        if version is None:
            return None
        self._show_report(report, now)
        self._emit(before.notices, notices)
        await self._send(StoredReport(report, version))
        await self._sweep(now)
        return report

    def _show_report(self, report: Report, now: datetime) -> None:
        if self._show is not None:
            self._show(report, now)

    async def _write(self, stored: StoredReport | None, report: Report) -> int | None:
        write = write_report(report) if stored is None else stored.write(report)
        (version,) = await self._store.write_each([write])
        return version

    def _emit(self, before: Sequence[Notice], now: Sequence[Notice]) -> None:
        for each in list_new(before, now):
            self.events.emit(
                AlertRaised(
                    concern=each.concern,
                    source=each.source,
                    alert_name=each.name,
                    tenant=each.tenant,
                    text=each.text,
                    since=each.since,
                )
            )
        for each in list_new(now, before):
            ended = {"concern": each.concern, "source": each.source, "tenant": each.tenant}
            self.events.emit(AlertEnded(**ended, alert_name=each.name))

    async def _send(self, stored: StoredReport) -> None:
        """Post what was not posted yet.

        If this process dies before it notes that, another posts it again.
        """
        report = stored.report
        waiting = [it for it in report.notices if not it.is_sent]
        if self._send_alerts is None or not waiting:
            return
        try:
            await self._send_alerts(waiting, report.taken_at)
        except RotaError as error:
            self.events.emit(AlertNotSent(error=error.message, alert_count=len(waiting)))
            return
        sent = tuple(replace(it, is_sent=True) for it in report.notices)
        await self._store.write_each([stored.write(replace(report, notices=sent))])

    async def _sweep(self, now: datetime) -> None:
        if self._swept_at is None or now - self._swept_at >= FORGOTTEN_EVERY:
            await forget_ended(self._store, self._clock)
            self._swept_at = now


@asynccontextmanager
async def watching(store: OpenStore, clock: Clock, show: Show | None = None) -> AsyncIterator[None]:
    """Run a watch while the context lasts. It posts alerts where the environment says.

    Under a virtual clock none runs: it would wake twice in every minute of a simulated year.
    """
    if not keeps_real_time(clock):
        yield
        return
    every = read_configuration().watch_every
    watch = Watch(store, clock, make_sender(read_webhook()), every=every, show=show)
    async with in_background(watch.run(), "rota watch"):
        yield


def make_sender(webhook: Webhook | None) -> SendAlerts | None:
    """What posts alerts there. InvalidConfigurationError if that address may not be called."""
    if webhook is None:
        return None
    from rota.runtime.webhook import WebhookSender  # noqa: PLC0415 - loads the HTTP client

    return WebhookSender(webhook).send
