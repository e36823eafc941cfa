"""Programs that are told to end while their scheduler is at work."""

import signal
from collections.abc import Iterator
from datetime import UTC, timedelta
from pathlib import Path

import pytest
from tests.process.fleet import PATIENCE, Fleet, Replica, gathered_fleet, wait_for
from tests.process.programs.replica import TaskOrder
from tests.verification.trace import RunStarted, RunSucceeded, StopReturned, check_replicas

pytestmark = pytest.mark.process

TASKS = (
    TaskOrder("brief", "* * * * *", timedelta(seconds=1)),
    TaskOrder("long", "* * * * *", timedelta(minutes=2)),
)


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    with gathered_fleet(tmp_path, TASKS) as fleet:
        yield fleet


def await_the_long_run(replica: Replica) -> None:
    """Until only the long task is running."""
    replica.await_work()
    wait_for(lambda: replica.running == {"long"}, "the long run alone")


def test_the_next_instance_restarts_a_run_that_ctrl_c_interrupted(fleet: Fleet) -> None:
    first = fleet.start()
    await_the_long_run(first)
    first.send(signal.SIGINT)
    assert first.process.wait(PATIENCE) == -signal.SIGINT
    assert first.errors.rstrip().endswith("KeyboardInterrupt")
    assert "never" not in first.errors  # retrieved, awaited: nothing is left lying about
    assert "destroyed" not in first.errors
    assert "long" in fleet.list_stored_running()
    second = fleet.start()
    wait_for(lambda: "long" in second.running, "the restart of the long run")
    second.stop()
    assert fleet.list_stored_running() == set()


def test_a_program_that_stops_on_sigterm_leaves_nothing_to_restart(fleet: Fleet) -> None:
    first = fleet.start()
    await_the_long_run(first)
    first.stop()
    *_, end, stopped = (it for it in first.history if isinstance(it, RunSucceeded | StopReturned))
    assert isinstance(end, RunSucceeded)
    assert end.name == "long"
    assert isinstance(stopped, StopReturned)
    assert fleet.list_stored_running() == set()
    second = fleet.start()
    second.await_work()
    wait_for(lambda: any(isinstance(it, RunStarted) for it in second.history), "the next run")
    second.stop()
    # What the second one started was due again by then, or the judge objects.
    check_replicas(fleet.traces(), zone=UTC, allowance=timedelta(minutes=10)).assert_ok()
