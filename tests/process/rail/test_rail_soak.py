"""Four worker processes and two tenants on a server, series every few seconds, in real time.

Some seconds each time. The whole of it, ten minutes each, is
``SOAK_SECONDS=600 pytest -s --timeout=0 tests/process/rail/test_rail_soak.py``.
"""

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from tests.process.fleet import PATIENCE, ROOT, wait_for
from tests.process.programs.rail_worker import KIND, Message, read_outbox

from rota import open_store
from rota.clock.system import SystemClock, monotonic
from rota.jobs import JobFilter, JobStatus
from rota.rail import Rail
from rota.stores.opened import OpenStore

pytestmark = pytest.mark.process

SECONDS = {"postgres": 12, "redis": 10}
TENANTS = ("acme", "zoo")
INTERVALS = tuple(timedelta(seconds=seconds) for seconds in (2, 2, 3, 3, 5, 5, 7))
WORKER_COUNT = 4
REPLACED_EVERY = timedelta(seconds=4)
"""So often one of the workers is told to end, and another is started in its place."""

LEADS_BY = timedelta(seconds=3)
OPEN = (JobStatus.PENDING, JobStatus.READY, JobStatus.RUNNING)
CLOCK = SystemClock()

Occurrence = tuple[str, str, datetime]


class Fleet:
    """The processes at work, and the outbox of each that ever was."""

    def __init__(self, address: str, folder: Path) -> None:
        self.outboxes: list[Path] = []
        self._address = address
        self._folder = folder
        self._at_work: list[subprocess.Popen[bytes]] = []

    @property
    def messages(self) -> list[Message]:
        return [message for path in self.outboxes for message in read_outbox(path)]

    def start(self, count: int = 1) -> None:
        """Return when that many more workers are running."""
        program = [sys.executable, "-m", "tests.process.programs.rail_worker"]
        for _ in range(count):
            self.outboxes.append(self._folder / f"outbox-{len(self.outboxes):03}.jsonl")
            command = [*program, self._address, str(self.outboxes[-1])]
            self._at_work.append(subprocess.Popen(command, cwd=ROOT, stdin=subprocess.DEVNULL))
        for outbox in self.outboxes[-count:]:
            wait_for(outbox.exists, "the start of a worker")

    def replace_oldest(self) -> None:
        """As a deployment does, which starts the new one first."""
        self.start()
        _end(self._at_work.pop(0))

    def stop(self) -> None:
        while self._at_work:
            _end(self._at_work.pop())

    def kill(self) -> None:
        for process in self._at_work:
            process.kill()
            process.wait(PATIENCE)


def _end(process: "subprocess.Popen[bytes]") -> None:
    process.terminate()
    assert process.wait(PATIENCE) == 0


@contextmanager
def gathered_fleet(address: str, folder: Path) -> Iterator[Fleet]:
    """A fleet of which nothing is left running, whatever happens."""
    fleet = Fleet(address, folder)
    try:
        yield fleet
    finally:
        fleet.kill()


@pytest.fixture(params=SECONDS)
def server(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def address(request: pytest.FixtureRequest, server: str) -> str:
    return str(request.getfixturevalue(f"{server}_url"))


@pytest.fixture
def lasts_for(server: str) -> timedelta:
    return timedelta(seconds=int(os.environ.get("SOAK_SECONDS", SECONDS[server])))


async def schedule(store: OpenStore, start_at: datetime, lasts_for: timedelta) -> set[Occurrence]:
    """Series for both tenants; every occurrence they have, added up without any trigger."""
    expected: set[Occurrence] = set()
    for tenant in TENANTS:
        rail = Rail(store, tenant=tenant)
        for number, interval in enumerate(INTERVALS):
            name = f"series {number}"
            await rail.schedule_recurring(
                KIND,
                {"series": name},
                interval=interval,
                start_from=start_at,
                until=start_at + lasts_for,
                idempotency_key=name,
            )
            count = lasts_for // interval + 1
            expected |= {(tenant, name, start_at + step * interval) for step in range(count)}
    return expected


async def count_open(store: OpenStore) -> int:
    counts = [
        await store.count(tenant, JobFilter(status=status)) for tenant in TENANTS for status in OPEN
    ]
    return sum(counts)


async def let_pass(fleet: Fleet, store: OpenStore, end_at: datetime) -> None:
    """Replace one worker after another until all series have ended."""
    gives_up_at = end_at + timedelta(seconds=PATIENCE)
    while CLOCK.now() < end_at or await count_open(store):
        assert CLOCK.now() < gives_up_at, "the series never ended"
        await CLOCK.sleep(REPLACED_EVERY if CLOCK.now() < end_at else timedelta(seconds=0.2))
        if CLOCK.now() < end_at:
            fleet.replace_oldest()
    fleet.stop()


async def test_no_occurrence_is_sent_twice_and_none_is_lost(
    tmp_path: Path, address: str, lasts_for: timedelta
) -> None:
    begun_at = monotonic()
    async with await open_store(address) as store:
        with gathered_fleet(address, tmp_path) as fleet:
            fleet.start(WORKER_COUNT)
            start_at = CLOCK.now().replace(microsecond=0) + LEADS_BY
            expected = await schedule(store, start_at, lasts_for)
            again = await schedule(store, start_at, lasts_for)
            assert again == expected  # nothing is new
            await let_pass(fleet, store, start_at + lasts_for)
            messages = fleet.messages
    sent = Counter((each.tenant, each.series, each.scheduled_for) for each in messages)
    doubled = {occurrence: count for occurrence, count in sent.items() if count > 1}
    missed_count = sum(each.missed_count for each in messages)
    lateness = sorted(each.sent_at - each.scheduled_for for each in messages)
    sys.stdout.write(
        f"\n{lasts_for.total_seconds():.0f} s, {len(fleet.outboxes)} worker processes, "
        f"{len(TENANTS) * len(INTERVALS)} series: {len(expected)} occurrences expected, "
        f"{len(messages)} sent, {len(doubled)} of them twice, "
        f"{len(expected - sent.keys())} not sent, {missed_count} told as missed; "
        f"late by {lateness[len(lateness) // 2] / timedelta(milliseconds=1):.0f} ms (median), "
        f"{lateness[-1] / timedelta(milliseconds=1):.0f} ms (most); "
        f"{monotonic() - begun_at:.0f} s in all\n"
    )
    assert doubled == {}
    assert sent.keys() - expected == set()
    # On a machine that stands still for longer than an interval the next one is not made up for;
    # but the next run is told, so that nothing is skipped silently.
    assert len(expected - sent.keys()) - count_untold(expected, sent) == missed_count
    assert len(expected - sent.keys()) <= max(1, len(expected) / 100)


def count_untold(expected: set[Occurrence], sent: Counter[Occurrence]) -> int:
    """How many were missed at the end of their series, where no later run can report them."""
    last_sent: dict[tuple[str, str], datetime] = {}
    for tenant, series, at in sent:
        last_sent[tenant, series] = max(at, last_sent.get((tenant, series), at))
    return sum(at > last_sent[tenant, series] for tenant, series, at in expected)
