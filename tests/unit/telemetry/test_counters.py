"""What events count for."""

from collections.abc import Callable
from datetime import UTC, datetime
from threading import Thread
from typing import Any

import pytest

from rota.events import (
    Event,
    EventEmitter,
    JobDeferred,
    JobFailed,
    JobSettled,
    JobsLeased,
    JobStalled,
    JobStarted,
)
from rota.telemetry.counters import COUNTERS, Counters, Timing

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
JOB: dict[str, Any] = {
    "tenant": "guild-7", "job_id": "a", "kind": "reminder.send", "queue": "mail", "attempt": 1,
}  # fmt: skip


def settled(outcome: str = "succeeded", state: str = "done") -> JobSettled:
    return JobSettled(outcome=outcome, state=state, wait_ms=20.0, duration_ms=5.0, **JOB)


def failed(state: str = "queued", err_code: str = "ValueError") -> JobFailed:
    return JobFailed(
        outcome="failed", state=state, wait_ms=40.0, duration_ms=7.0, err_code=err_code,
        error="ValueError: no", due_at=NOW, **JOB,
    )  # fmt: skip


def stalled(state: str = "queued") -> JobStalled:
    return JobStalled(worker="w", lease_until=NOW, state=state, loss_count=1, **JOB)


@pytest.mark.parametrize(
    ("event", "moved"),
    [
        (JobsLeased(worker="w", count=3), {"jobs.picked": 3}),
        (JobStarted(wait_ms=1.0, **JOB), {}),
        (settled(), {"jobs.succeeded": 1}),
        (settled("snoozed", "queued"), {}),
        (settled("handed back", "queued"), {}),
        (failed(), {"jobs.failed": 1}),
        (failed("failed"), {"jobs.failed": 1}),
        (failed("dlq"), {"jobs.failed": 1, "jobs.dlq": 1}),
        (JobDeferred(until=NOW, reason="quiet hours", **JOB), {"jobs.deferred": 1}),
        (stalled(), {"jobs.stalled": 1}),
        (stalled("dlq"), {"jobs.stalled": 1, "jobs.dlq": 1}),
    ],
)
def test_an_event_moves_its_counters_and_no_others(event: Event, moved: dict[str, int]) -> None:
    counters = Counters()
    counters.observe(event)
    assert counters.counts() == dict.fromkeys(COUNTERS, 0) | moved


def test_timings_are_kept_in_milliseconds() -> None:
    counters = Counters()
    for event in (settled(), failed(), JobStarted(wait_ms=99.0, **JOB)):
        counters.observe(event)
    assert counters.timing("handler.duration_ms") == Timing(2, 12.0, 7.0)
    assert counters.timing("lease.wait_ms") == Timing(2, 60.0, 40.0)


def test_an_attempt_that_found_no_handler_has_no_duration() -> None:
    counters = Counters()
    counters.observe(failed(err_code="NoHandler"))
    assert counters.timing("handler.duration_ms").count == 0
    assert counters.timing("lease.wait_ms").count == 1


def test_following_ends_on_stop() -> None:
    counters, journal = Counters(), EventEmitter("rota.worker")
    stop: Callable[[], None] = counters.follow(journal)
    journal.emit(settled())
    stop()
    journal.emit(settled())
    assert counters["jobs.succeeded"] == 1


def test_workers_in_several_threads_are_counted_without_loss() -> None:
    counters = Counters()

    def work() -> None:
        for _ in range(2_000):
            counters.observe(settled())

    threads = [Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert counters["jobs.succeeded"] == counters.timing("lease.wait_ms").count == 8_000


def test_a_counter_of_another_name_is_not_made_up() -> None:
    with pytest.raises(KeyError):
        Counters()["jobs.lost"]  # type: ignore[index] # that it is refused is the point
