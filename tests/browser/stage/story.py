"""A lively morning in a store: every state that a page can show, told as of one instant."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import msgspec

from rota.events import JobFailed
from rota.fleet.presence import WORKERS, WorkerPresence
from rota.jobs import (
    Change,
    Job,
    admit_job,
    decide_cancel,
    decide_complete,
    decide_defer,
    decide_discard,
    decide_fail,
    decide_lease,
    make_job_id,
)
from rota.policy.gate_settings import parse_quiet_hours
from rota.rail import Rail
from rota.rail.settings import set_quiet_hours
from rota.stores.opened import OpenStore
from rota.stores.protocol import DocumentWrite
from rota.telemetry.error_groups import ERRORS, ErrorGroup, add_groups, encode_groups, group_of
from rota.telemetry.stats import (
    HOURS,
    MINUTES,
    STATS,
    DepthSample,
    DurationCount,
    DurationStats,
    MinuteStats,
    PartStats,
    encode,
)
from rota.telemetry.tenant_stats import TENANTS, TenantStats, encode_tenants, key_of_hour
from rota.testing import VirtualClock
from rota.testing.builders import seed_tasks

NOW = datetime(2026, 10, 23, 9, 41, 20, tzinfo=UTC)
"""A Friday, two days before clocks in Europe go back."""

MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
WORKER = "mail-7f2c"

TRACE = """Traceback (most recent call last):
  File "handlers/billing.py", line 42, in charge
    response = gateway.charge(invoice)
  File "gateway.py", line 17, in charge
    raise GatewayTimeout("no answer within 30 s")
GatewayTimeout: no answer within 30 s"""


class Story:
    """Makes things happen to jobs at instants of its choosing; its clock stands still."""

    def __init__(self, store: OpenStore, tenant: str = "default", now: datetime = NOW) -> None:
        self.store = store
        self.tenant = tenant
        self.now = now
        self.clock = VirtualClock(now)
        self._random = Random(7)
        self._groups: dict[str, ErrorGroup] = {}

    async def ask(self, name: str, queue: str = "default", **fields: Any) -> Job:
        """A job, asked for ``ago`` before now."""
        at = self.now - fields.pop("ago", timedelta(0))
        asked = {"name": name, "queue": queue, **fields}
        job_id = make_job_id(at, self._random.getrandbits(62))
        job = admit_job(asked, job_id=job_id, now=at, tenant=self.tenant)
        (inserted,) = await self.store.insert([job], at)
        return inserted.job

    async def start(self, job: Job, ago: timedelta, worker: str = WORKER) -> Job:
        at = self.now - ago
        change = decide_lease(await self.read(job), worker, 5 * MINUTE, at)
        return await self._apply(change, at)

    async def complete(self, job: Job, ago: timedelta, worker: str = WORKER) -> Job:
        started = await self.start(job, ago + timedelta(seconds=4), worker)
        return await self._apply(decide_complete(started, self.now - ago), self.now - ago)

    async def run(self, job: Job) -> Job | None:
        """Have it done as soon as it is due; the next job of its series, if there is one."""
        at = max(job.due_at, job.created_at)
        started = await self.start(job, self.now - at)
        done_at = at + timedelta(seconds=3)
        (applied,) = await self.store.apply([decide_complete(started, done_at)], done_at)
        return applied.successor

    async def fail(self, job: Job, ago: timedelta, error: str = TRACE) -> Job:
        started = await self.start(job, ago + timedelta(seconds=30))
        failed = await self._apply(decide_fail(started, error, self.now - ago), self.now - ago)
        event = JobFailed(
            tenant=job.tenant, job_id=job.id, kind=job.kind, queue=job.queue, attempt=1,
            outcome="failed", state="dlq" if failed.ending else "queued", wait_ms=0.0,
            duration_ms=0.0, err_code="", error=error, due_at=failed.due_at,
        )  # fmt: skip
        self._groups = add_groups(self._groups, [group_of(event, self.now - ago)])
        return failed

    async def die(self, job: Job, ago: timedelta, error: str = TRACE) -> Job:
        """Fail as often as it may."""
        left = job.retry_policy.max_attempts
        for number in range(left):
            job = await self.fail(job, ago + (left - 1 - number) * 2 * MINUTE, error)
        return job

    async def discard(self, job: Job, ago: timedelta, reason: str) -> Job:
        started = await self.start(job, ago + timedelta(seconds=2))
        at = self.now - ago
        return await self._apply(decide_discard(started, reason, at), at)

    async def defer(self, job: Job, until: datetime, reason: str) -> Job:
        started = await self.start(job, timedelta(seconds=50))
        return await self._apply(decide_defer(started, until, reason, self.now), self.now)

    async def cancel(self, job: Job, ago: timedelta, reason: str) -> Job:
        at = self.now - ago
        return await self._apply(decide_cancel(await self.read(job), reason, at), at)

    async def read(self, job: Job) -> Job:
        return (await self.store.get(self.tenant, [job.id]))[job.id]

    async def _apply(self, change: Change, at: datetime) -> Job:
        (applied,) = await self.store.apply([change], at)
        assert applied.job is not None
        return applied.job

    async def show_workers(self, names: Sequence[str] = (WORKER, "reports-1c9e")) -> None:
        for index, name in enumerate(names):
            presence = WorkerPresence(
                id=name,
                host=f"worker-{index + 1}.internal",
                pid=4_211 + index,
                queues=None if index == 0 else ("reports", "imports"),
                tenants=None,
                kinds=("http.request", "invoice.charge", "log.message", "mail.send"),
                notifying=("http.request", "mail.send"),
                concurrency=10,
                batch=10,
                poll_ms=1_000,
                lease_ms=60_000,
                version="0.1.0",
                started_at=self.now - (26 + index) * HOUR,
                seen_at=self.now - timedelta(seconds=3),
            )
            write = DocumentWrite(WORKERS, name, None, msgspec.json.encode(presence))
            await self.store.write_all([write])

    async def tell_tallies(self) -> None:
        """An hour of work: steady, with a dip, a burst and some failures."""
        hours: dict[str, list[MinuteStats]] = {}
        for back in range(60, 0, -1):
            at = (self.now - back * MINUTE).replace(second=0, microsecond=0)
            minute = self._make_minute(at, back)
            hours.setdefault(MINUTES.key_of(self.tenant, at), []).append(minute)
        for key, minutes in hours.items():
            await self.store.write_all([DocumentWrite(STATS, key, None, encode(minutes))])
        await self._tell_hours()

    async def _tell_hours(self) -> None:
        """A month by the hour, and three tenants that have been busy in the last one."""
        for back in range(31):
            day = (self.now - timedelta(days=back)).replace(hour=0, minute=0, second=0)
            past = [at for at in (day + hour * HOUR for hour in range(24)) if at <= self.now]
            minutes = [self._make_minute(at, 1 + (back * 7 + at.hour) % 60) for at in past]
            key = HOURS.key_of(self.tenant, day)
            await self.store.write_all(
                [DocumentWrite(HOURS.collection, key, None, encode(minutes))]
            )
        tenants = [
            TenantStats("default", 4_600, 82, 4, 0, 960_000.0, 180_000.0, 4_682),
            TenantStats("acme", 12_400, 3_100, 90, 2, 5_400_000.0, 9_000_000.0, 15_500),
            TenantStats("globex", 120, 0, 0, 0, 31_000.0, 2_000.0, 120),
        ]
        write = DocumentWrite(TENANTS, key_of_hour(self.now), None, encode_tenants(tenants))
        await self.store.write_all([write])

    async def tell_errors(self) -> None:
        body = encode_groups(self._groups)
        await self.store.write_all([DocumentWrite(ERRORS, self.tenant, None, body)])

    def _make_minute(self, at: datetime, back: int) -> MinuteStats:
        draw = self._random
        succeeded = 0 if 33 < back < 37 else draw.randint(60, 95) + (90 if 14 < back < 20 else 0)
        failed = draw.choice((0, 0, 1, 2)) + (18 if 16 < back < 19 else 0)
        mails, imports, charges = succeeded - succeeded // 3, succeeded // 3, failed - failed // 2
        wait = DurationCount()
        for _ in range(succeeded + failed):
            wait.add(draw.uniform(5, 60) * (6 if 14 < back < 20 else 1))
        mailed = self._time(mails, 20, 140)
        imported = self._time(imports + failed // 2, 200, 400)
        charged = self._time(charges, 100, 300)
        depth = DepthSample((40 - back) % 7 + (64 if 14 < back < 20 else 0), 4 if succeeded else 0)
        return MinuteStats(
            at=at,
            succeeded=succeeded,
            failed=failed,
            wait=wait.freeze(),
            handler=mailed + imported + charged,
            depth=depth,
            parts=(
                PartStats("mail.send", "mail", mails, handler=mailed),
                PartStats("feed.import", "imports", imports, failed // 2, failed // 6, imported),
                PartStats("invoice.charge", "billing", 0, charges, handler=charged),
            ),
        )

    def _time(self, count: int, shortest: float, longest: float) -> DurationStats:
        found = DurationCount()
        for _ in range(count):
            found.add(self._random.uniform(shortest, longest))
        return found.freeze()


ONCE = {"max_attempts": 1}
THRICE = {"max_attempts": 3, "backoff_strategy": "FIXED", "base_delay_seconds": 60}


async def fill_with_story(store: OpenStore, now: datetime = NOW, tenant: str = "default") -> Story:
    """The whole of it."""
    story = Story(store, tenant, now)
    await story.show_workers()
    await story.tell_tallies()
    await _tell_past(story)
    await _tell_pipeline(story)
    await _tell_failures(story)
    await _tell_present(story)
    await _tell_schedules(story)
    await _tell_tasks(story)
    await story.tell_errors()
    rail = Rail(store, tenant, clock=story.clock)
    await rail.set_maintenance(True, until=now - HOUR, reason="rolling out 2.4", who="ben")
    await set_quiet_hours(store, tenant, parse_quiet_hours("22:00", "07:00", "Europe/Berlin"))
    return story


async def _tell_past(story: Story) -> None:
    names = ("Welcome mail", "Sync contacts", "Thumbnail", "Receipt", "Search index")
    queues = ("mail", "imports", "images", "mail", "imports")
    for number in range(70):
        ago = (95 - number) * MINUTE
        name, queue = names[number % 5], queues[number % 5]
        kind = name.lower().replace(" ", ".")
        job = await story.ask(name, queue, kind=kind, ago=ago, payload={"customer": 1_000 + number})
        await story.complete(job, ago - MINUTE)


async def _tell_pipeline(story: Story) -> None:
    """A graph in which one part failed, and what waits for it is blocked."""
    fetch = await story.ask("Fetch orders", "reports", kind="orders.fetch", ago=50 * MINUTE)
    await story.complete(fetch, 49 * MINUTE)
    clean = await story.ask(
        "Clean orders", "reports", kind="orders.clean", ago=50 * MINUTE, dependencies=[fetch.id]
    )
    await story.complete(clean, 47 * MINUTE)
    totals = await story.ask(
        "Daily totals",
        "reports",
        kind="report.totals",
        ago=50 * MINUTE,
        dependencies=[clean.id],
        payload={
            "day": "2026-10-22",
            "currency": "EUR",
            "recipients": ["ops@example.com", "finance@example.com"],
            "api_token": "s3cr3t-and-long-enough",
        },
    )
    await story.start(totals, 3 * MINUTE, "reports-1c9e")
    stock = await story.ask(
        "Stock levels", "reports", kind="report.stock", ago=50 * MINUTE, dependencies=[clean.id]
    )
    await story.complete(stock, 46 * MINUTE)
    report = await story.ask(
        "Morning report",
        "reports",
        kind="report.build",
        ago=50 * MINUTE,
        dependencies=[totals.id, stock.id],
    )
    for name in ("Mail to finance", "Mail to operations"):
        await story.ask(name, "mail", kind="mail.send", ago=50 * MINUTE, dependencies=[report.id])


async def _tell_failures(story: Story) -> None:
    charge = await story.ask(
        "Charge invoice 4711",
        "billing",
        kind="invoice.charge",
        ago=40 * MINUTE,
        payload={"invoice": 4711, "amount": "129.90", "currency": "EUR"},
        retry_policy=THRICE,
    )
    receipt = await story.ask(
        "Receipt for 4711", "mail", kind="mail.send", ago=40 * MINUTE, dependencies=[charge.id]
    )
    await story.ask(
        "Archive 4711", "billing", kind="archive", ago=40 * MINUTE, dependencies=[receipt.id]
    )
    await story.die(charge, 17 * MINUTE)
    error = "ConnectionError: imports.example.com refused the connection"
    for number in range(3):
        job = await story.ask(
            f"Import feed {number + 1}",
            "imports",
            kind="feed.import",
            ago=(30 - number) * MINUTE,
            retry_policy=ONCE,
        )
        await story.die(job, (18 - number) * MINUTE, error)
    job = await story.ask("Parse upload", "imports", kind="upload.parse", ago=12 * MINUTE)
    await story.discard(job, 11 * MINUTE, "ValueError: not a CSV file")
    job = await story.ask("Old newsletter", "mail", kind="mail.send", ago=25 * MINUTE)
    await story.cancel(job, 20 * MINUTE, "cancelled by anna: sent by hand")


async def _tell_present(story: Story) -> None:
    for number in range(4):
        job = await story.ask(
            f"Resize photo {number + 1}", "images", kind="image.resize", ago=MINUTE
        )
        await story.start(job, timedelta(seconds=12 + 9 * number))
    for number in range(6):
        await story.ask(
            f"Welcome mail {number + 1}", "mail", kind="mail.send", ago=timedelta(seconds=20)
        )
    job = await story.ask(
        "Remind Berlin", "mail", kind="reminder", ago=2 * MINUTE, retry_policy=THRICE
    )
    await story.defer(job, story.now + 20 * HOUR, "quiet hours")
    job = await story.ask(
        "Push to CRM", "imports", kind="crm.push", ago=3 * MINUTE, retry_policy=THRICE
    )
    await story.fail(job, 30 * timedelta(seconds=1), "HTTPError: 502 Bad Gateway")


async def _tell_schedules(story: Story) -> None:
    series: tuple[tuple[str, str, dict[str, Any]], ...] = (
        ("Payroll reminder", "mail", {"cron": "30 2 * * sun", "zone": "Europe/Berlin"}),
        ("Hourly digest", "mail", {"cron": "0 * * * *", "zone": "UTC"}),
        (
            "Board meeting",
            "mail",
            {
                "rrule": "FREQ=MONTHLY;BYDAY=2TU;BYHOUR=9;BYMINUTE=0;BYSECOND=0",
                "zone": "America/New_York",
            },
        ),
        ("Heartbeat", "default", {"interval": "15m"}),
    )
    made = [
        await story.ask(name, queue, recurrence=recurrence, ago=3 * HOUR)
        for name, queue, recurrence in series
    ]
    digest: Job | None = made[1]
    while digest is not None and digest.due_at < story.now:
        digest = await story.run(digest)
    rail = Rail(story.store, story.tenant, clock=story.clock)
    await rail.pause(made[3].id, who="anna", why="too chatty")


async def _tell_tasks(story: Story) -> None:
    last = story.now - 20 * MINUTE
    await seed_tasks(
        story.store,
        [
            {
                "name": "Rotate logs",
                "cronExpression": "0 3 * * *",
                "retryDelayMs": 60_000,
                "lastAttemptAt": last.isoformat(),
                "lastSuccessAt": (last + timedelta(seconds=4)).isoformat(),
                "running": False,
            },
            {
                "name": "Refresh rates",
                "cronExpression": "0,10,20,30,40,50 * * * *",
                "retryDelayMs": 30_000,
                "lastAttemptAt": last.isoformat(),
                "lastFailureAt": last.isoformat(),
                "retryCount": 2,
                "pendingRetryUntil": (story.now + 30 * timedelta(seconds=1)).isoformat(),
                "running": False,
            },
        ],
    )
