"""A process that is suspended for minutes of its clock, alone and with a peer."""

import signal
import sqlite3
from collections import Counter
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.process.fleet import Fleet, Replica, gathered_fleet, wait_for
from tests.process.programs.replica import TaskOrder
from tests.verification.trace import (
    ClockJumped,
    Entry,
    RunStarted,
    RunSucceeded,
    Tolerance,
    check_replicas,
)

from rota.clock.system import monotonic

pytestmark = pytest.mark.process

MINUTE = timedelta(minutes=1)
ASLEEP_FOR = 3 * MINUTE
BRIEF = [TaskOrder(f"brief-{n}", "* * * * *", timedelta(seconds=1)) for n in range(10)]
LONG = TaskOrder("long", "* * * * *", 5 * MINUTE)
LATENESS = timedelta(minutes=5)
"""Of the scaled clock: what a loaded machine may cost."""
NOTICED_WITHIN = 10.0
"""Real seconds; the clock is looked at every two, the rest is for a loaded machine."""


def is_suspended(replica: Replica) -> bool:
    status = Path(f"/proc/{replica.process.pid}/stat").read_bytes()
    return status.rpartition(b") ")[2][:1] == b"T"


def is_free(address: str) -> bool:
    """Whether no process holds the write lock for longer than a moment."""
    path = address.removeprefix("sqlite:///")
    with closing(sqlite3.connect(path, timeout=0.5, isolation_level=None)) as connection:
        try:
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("ROLLBACK")
        except sqlite3.OperationalError:
            return False
    return True


def suspend(fleet: Fleet, replica: Replica, running: set[str]) -> datetime:
    """Suspend the process while it runs just these; says when, by the scaled clock.

    One that is caught in the act of claiming or settling keeps its tasks, and one that is caught
    while it holds the lock of the file holds up everybody. Such a one is let go and tried again.
    """

    def try_once() -> bool:
        if replica.running != running:
            return False
        replica.send(signal.SIGSTOP)
        wait_for(lambda: is_suspended(replica), "the suspension")
        if is_free(fleet.store) and replica.running == fleet.list_stored_running() == running:
            return True
        replica.send(signal.SIGCONT)
        return False

    wait_for(try_once, "a moment that is right")
    return fleet.clock.now()


def resume(replica: Replica) -> datetime:
    replica.send(signal.SIGCONT)
    return replica.orders.clock.now()


def started_since(replica: Replica, instant: datetime) -> list[RunStarted]:
    return [it for it in replica.history if isinstance(it, RunStarted) and it.at >= instant]


def has_started_all(replica: Replica, since: datetime, times: int) -> bool:
    counts = Counter(it.name for it in started_since(replica, since))
    return all(counts[task.name] >= times for task in BRIEF)


def test_a_process_that_was_suspended_catches_up_once(tmp_path: Path) -> None:
    with gathered_fleet(tmp_path, BRIEF) as fleet:
        replica = fleet.start_and_await(1)[0]
        wait_for(lambda: has_started_all(replica, fleet.clock.epoch, 1), "the first run")
        slept_at = suspend(fleet, replica, set())
        fleet.wait_until(slept_at + ASLEEP_FOR)
        woken_at, resumed = resume(replica), monotonic()
        wait_for(lambda: has_started_all(replica, woken_at, 1), "the catch-up", NOTICED_WITHIN)
        assert monotonic() - resumed < NOTICED_WITHIN
        wait_for(lambda: has_started_all(replica, woken_at, 3), "further minutes")
        replica.stop()
        traces = fleet.traces()
    starts = Counter(
        (it.name, it.at.replace(second=0, microsecond=0)) for it in started_since(replica, woken_at)
    )
    assert set(starts.values()) == {1}
    nap: list[Entry] = [ClockJumped(woken_at, at=slept_at, instance=replica.orders.instance)]
    check_replicas(
        [*traces, nap],
        zone=UTC,
        allowance=LATENESS,
        tolerance=Tolerance(after_jump=MINUTE),
    ).assert_ok()


def test_a_suspended_process_keeps_its_run_and_repeats_nothing_its_peer_did(
    tmp_path: Path,
) -> None:
    with gathered_fleet(tmp_path, [*BRIEF, LONG]) as fleet:
        sleeper, peer = fleet.start_and_await(2)
        wait_for(lambda: "long" in sleeper.running | peer.running, "the long run")
        if "long" in peer.running:
            sleeper, peer = peer, sleeper
        slept_at = suspend(fleet, sleeper, {"long"})
        fleet.wait_until(slept_at + ASLEEP_FOR)
        wait_for(lambda: has_started_all(peer, slept_at, 2), "the peer's work")
        assert sleeper.running == {"long"}
        woken_at = resume(sleeper)
        wait_for(lambda: has_ended_long(sleeper, woken_at), "the end of the long run")
        peer.kill()
        wait_for(lambda: has_started_all(sleeper, woken_at, 2), "the sleeper's own work")
        sleeper.kill()  # it runs the long one again, which need not be waited for
        traces = fleet.traces()
    check_replicas(
        traces,
        zone=UTC,
        allowance=LATENESS,
        tolerance=Tolerance(after_crash=MINUTE, settle_lag=MINUTE),
    ).assert_ok()


def has_ended_long(replica: Replica, since: datetime) -> bool:
    ended = [it for it in replica.history if isinstance(it, RunSucceeded) and it.name == LONG.name]
    return any(it.at >= since for it in ended)
