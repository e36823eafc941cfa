"""One seed of a fleet: drawn, played and judged."""

import asyncio
import gc
import os
import random as random_module
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

from tests.verification.fleet.finding import Finding
from tests.verification.fleet.hosts import tag_tasks
from tests.verification.fleet.judge import judge_fleet
from tests.verification.fleet.plan import FleetPlan, draw_plan
from tests.verification.fleet.processes import NARROW
from tests.verification.fleet.server import Operation, StoreServer
from tests.verification.fleet.sqlite_server import SqliteServer
from tests.verification.fleet.stage import FleetRecord, Stage, silence
from tests.verification.jobs_trace.records import to_line
from tests.verification.simulation.trial import LazySelector
from tests.verification.trace.actions import to_json_line

from rota.fleet.identity import make_process_name
from rota.stores.memory import MemoryStore


@dataclass(frozen=True, slots=True)
class FleetTrial:
    """A plan, what was seen of it, and which rules were broken."""

    plan: FleetPlan
    record: FleetRecord
    findings: tuple[Finding, ...]

    @property
    def rules(self) -> frozenset[str]:
        return frozenset(finding.rule for finding in self.findings)

    def trace(self) -> bytes:
        """Everything that happened, byte for byte the same for the same seed."""
        mine = make_process_name().rpartition(":")[0].encode()
        lines = [to_line(entry).replace(mine, b"process") for entry in self.record.history]
        for recorder in self.record.seen.schedules.values():
            lines += [to_json_line(entry) + b"\n" for entry in recorder.trace]
        lines += [f"{turn}\n".encode() for turn in self.record.seen.polled]
        lines += [f"{one.verb} {one.is_answered}\n".encode() for one in self.record.log]
        return b"".join(lines)

    def fingerprint(self) -> str:
        return sha256(self.trace()).hexdigest()


def try_fleet(seed: int) -> FleetTrial:
    """Draw, play and judge the fleet of a seed."""
    return try_plan(draw_plan(seed))


def try_plan(plan: FleetPlan) -> FleetTrial:
    """Play a plan in an event loop of its own, and judge it."""
    loop = _make_loop()
    tag_tasks(loop)
    try:
        with silence(), _apart(plan.seed), _without_collection():
            record, findings = loop.run_until_complete(_play(plan))
    finally:
        loop.close()
    return FleetTrial(plan, record, findings)


async def _play(plan: FleetPlan) -> tuple[FleetRecord, tuple[Finding, ...]]:
    record = FleetRecord(plan)
    random = Random(f"fleet {plan.seed} server")
    if plan.mode == "sqlite":
        with TemporaryDirectory(prefix="rota-") as folder:
            server = SqliteServer(random, Path(folder), record.server_findings)
            await server.open()
            await Stage(plan, server, record).play()
    else:
        await Stage(plan, StoreServer(random, _watch_limit(record)), record).play()
    return record, await judge_fleet(record)


def _watch_limit(record: FleetRecord) -> Any:
    limit = record.plan.limit
    if limit is None:
        return None

    def watch(operation: Operation, store: MemoryStore) -> None:
        if operation.verb != "lease":
            return
        leased = [job for job in store._tables.leased.values() if job.queue == NARROW]
        if len(leased) > limit:
            record.excesses.append(f"{len(leased)} jobs are leased, {limit} may be")

    return watch


@contextmanager
def _without_collection() -> Iterator[None]:
    """A trial is short: looking for cycles in it a hundred times takes a tenth of its time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


class _FleetLoop(asyncio.SelectorEventLoop):
    """Its time stands still: what is measured by it must not depend on how fast a test runs."""

    def time(self) -> float:
        return 0.0


def _make_loop() -> asyncio.AbstractEventLoop:
    return _FleetLoop(LazySelector())


@contextmanager
def _apart(seed: int) -> Iterator[None]:
    """Chance follows the seed, and processes that share an interpreter do not know each other.

    A process that changes a gate tells its own workers, and waits for those of others only in real
    time: here all are others, and time is as good as real.
    """
    source = Random(f"fleet {seed} bytes")
    with (
        patch.object(os, "urandom", source.randbytes),
        patch.object(random_module, "_urandom", source.randbytes),
        patch("rota.ops.leases.Random", lambda: Random(f"fleet {seed} leases")),
        patch("rota.rail.settings.note_change", lambda: None),
        patch("rota.rail.settings.keeps_real_time", lambda _: True),
    ):
        yield
