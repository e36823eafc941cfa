"""The log: names, levels, required fields, ISO times, one line each, causal order per task."""

import json
import logging
import re
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest
from tests.spec.stage import Stage, at, minutes, seconds

from rota import DECLARATIVE, POLLING, SchedulerPolicy, events
from rota.testing import seed_tasks

DEBUG, INFO, WARNING = logging.DEBUG, logging.INFO, logging.WARNING
ISO = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z"

CONTRACT: dict[str, tuple[int, dict[str, type]]] = {
    "SchedulerInitializationStarted": (DEBUG, {"totalRegistrations": int}),
    "SchedulerInitializationCompleted": (
        DEBUG,
        {"totalRegistrations": int, "scheduledCount": int, "skippedCount": int},
    ),
    "SchedulerReinitializationStarted": (DEBUG, {}),
    "SchedulerStopRequested": (INFO, {}),
    "SchedulerStopped": (INFO, {}),
    "TaskRunStarted": (INFO, {"taskName": str, "scheduledTime": str, "actualTime": str}),
    "TaskRunCompleted": (INFO, {"taskName": str, "duration": float, "success": bool}),
    "TaskRunFailed": (
        WARNING,
        {"taskName": str, "duration": float, "success": bool, "error": str},
    ),
    "TaskRetryStarted": (INFO, {"taskName": str, "retryCount": int}),
    "TaskRetryPreempted": (INFO, {"taskName": str, "reason": str}),
    "PollStarted": (DEBUG, {"pollTime": str, "scheduledTaskCount": int}),
    "PollCompleted": (
        DEBUG,
        {"pollTime": str, "tasksEvaluated": int, "tasksExecuted": int, "duration": float},
    ),
    "PollingStarted": (DEBUG, {}),
    "PollingStopped": (DEBUG, {}),
    "PollingStopRequested": (DEBUG, {}),
    "TaskAdded": (INFO, {"taskName": str, "cronExpression": str, "retryDelayMs": int}),
    "TaskPreserved": (DEBUG, {"taskName": str}),
    "TaskOverridden": (
        INFO,
        {"taskName": str, "changeType": str, "oldState": dict, "newState": dict},
    ),
    "TaskOrphaned": (
        WARNING,
        {"taskName": str, "lastExecutionTime": str, "schedulerIdentifier": str},
    ),
    "TaskScheduled": (DEBUG, {"taskName": str, "cronExpression": str, "retryDelayMs": int}),
    "TaskSkipped": (DEBUG, {"taskName": str, "reason": str}),
}

Record = tuple[str, int, dict[str, Any], str]


def records(caplog: pytest.LogCaptureFixture) -> list[Record]:
    """The event records: name, level, fields and message."""
    return [
        (record.__dict__["event"], record.levelno, record.__dict__["fields"], record.getMessage())
        for record in caplog.records
        if "event" in record.__dict__
    ]


async def tell_everything(stage: Stage) -> None:
    """A story in which every event of the contract happens."""
    await seed_tasks(
        stage.store,
        [
            {"name": "kept", "cronExpression": "0 9 * * *", "retryDelayMs": 60_000}
            | {"lastAttemptAt": at(9), "lastSuccessAt": at(9, 1)},
            {"name": "changed", "cronExpression": "0 9 * * *", "retryDelayMs": 60_000}
            | {"lastAttemptAt": at(9), "lastSuccessAt": at(9, 1)},
            {"name": "interrupted", "cronExpression": "0 9 * * *", "retryDelayMs": 60_000}
            | {"lastAttemptAt": at(9), "schedulerIdentifier": "gone"},
            {"name": "removed", "cronExpression": "0 9 * * *", "retryDelayMs": 60_000}
            | {"lastAttemptAt": at(8), "lastSuccessAt": at(8), "schedulerIdentifier": "gone"},
        ],
    )
    registrations = [
        stage.task("kept", "0 9 * * *", minutes(1)),
        stage.task("changed", "0,1 10 * * *", minutes(1)),
        stage.task("interrupted", "0 9 * * *", minutes(1)),
        stage.task("retried", "0 10 * * *", seconds(5), takes=seconds(2), fails=[ValueError("x")]),
        stage.task("preempted", "0,1 10 * * *", minutes(5), fails=[ValueError("y")]),
    ]
    scheduler = stage.scheduler(POLLING)
    await scheduler.initialize(registrations)
    await scheduler.initialize(registrations)
    await stage.clock.advance(minutes(2))
    await stage.scheduler(POLLING).initialize(registrations[:1])  # lets the others go
    await stage.crash(stage.schedulers[1])
    await stage.clock.advance(minutes(1))
    await stage.clock.advance(timedelta(days=1))
    await scheduler.stop()


@pytest.fixture
async def story(quick: Stage, caplog: pytest.LogCaptureFixture) -> Sequence[Record]:
    caplog.set_level(DEBUG, "rota.scheduler")
    await tell_everything(quick)
    return records(caplog)


@pytest.mark.parametrize("name", CONTRACT)
async def test_every_event_has_its_level_and_its_required_fields(
    story: Sequence[Record], name: str
) -> None:
    level, required = CONTRACT[name]
    found = [record for record in story if record[0] == name]
    assert found
    for _, at_level, fields, _ in found:
        assert at_level == level
        for field, kind in required.items():
            assert type(fields[field]) is kind, field
    kind_of_event = getattr(events, name)
    assert kind_of_event.level == level


async def test_times_are_iso_8601_in_utc(story: Sequence[Record]) -> None:
    fields = {"scheduledTime", "actualTime", "nextRetryAt", "pollTime", "lastExecutionTime"}
    seen = set()
    for _, _, found, _ in story:
        for field in fields & found.keys():
            seen.add(field)
            assert re.fullmatch(ISO, found[field]), found
    assert seen == fields


async def test_fields_are_plain_values_that_any_log_can_carry(story: Sequence[Record]) -> None:
    for _, _, fields, _ in story:
        assert json.loads(json.dumps(fields)) == fields


async def test_a_message_is_one_line_that_begins_with_the_name(story: Sequence[Record]) -> None:
    for name, _, fields, message in story:
        assert message.split(" ")[0] == name
        assert "\n" not in message
        assert all(f"{field}=" in message for field in fields)


async def test_the_values_of_a_run_are_right(story: Sequence[Record]) -> None:
    found = [(name, fields) for name, _, fields, _ in story if fields.get("taskName") == "retried"]
    runs = [it for it in found if it[0].startswith(("TaskRun", "TaskRetry"))]
    assert runs == [
        (
            "TaskRunStarted",
            {
                "taskName": "retried",
                "scheduledTime": "2027-01-04T10:00:00Z",
                "actualTime": "2027-01-04T10:00:00Z",
            },
        ),
        (
            "TaskRunFailed",
            {
                "taskName": "retried",
                "duration": 2000.0,
                "error": "ValueError: x",
                "nextRetryAt": "2027-01-04T10:00:07Z",
                "success": False,
            },
        ),
        ("TaskRetryStarted", {"taskName": "retried", "retryCount": 1}),
        (
            "TaskRunStarted",
            {
                "taskName": "retried",
                "scheduledTime": "2027-01-04T10:00:07Z",
                "actualTime": "2027-01-04T10:00:07Z",
                "isRetry": True,
            },
        ),
        ("TaskRunCompleted", {"taskName": "retried", "duration": 2000.0, "success": True}),
    ]


async def test_the_events_of_a_task_come_in_causal_order(story: Sequence[Record]) -> None:
    opened: set[str] = set()
    known: set[str] = set()
    for name, _, fields, _ in story:
        task = fields.get("taskName", "")
        if name in {"TaskAdded", "TaskPreserved", "TaskOverridden"}:
            known.add(task)
        elif name == "TaskScheduled":
            assert task in known
        elif name == "TaskRunStarted":
            assert task in known
            assert task not in opened
            opened.add(task)
        elif name in {"TaskRunCompleted", "TaskRunFailed"}:
            opened.remove(task)
        elif name in {"TaskRetryStarted", "TaskRetryPreempted"}:
            assert task not in opened


async def test_a_poll_reports_what_it_did(quick: Stage) -> None:
    await quick.scheduler().initialize([quick.task("a"), quick.task("b", "1 * * * *")])
    await quick.clock.advance(minutes(1))
    assert [event.fields() for event in quick.emitted(events.PollStarted)][-1] == {
        "pollTime": "2027-01-04T10:01:00Z",
        "scheduledTaskCount": 2,
    }
    polls = [event for event in quick.emitted(events.PollCompleted) if event.tasks_executed]
    assert [(poll.poll_time, poll.tasks_executed) for poll in polls] == [
        (at(10), 1),
        (at(10, 1), 2),
    ]
    assert all(poll.tasks_evaluated >= poll.tasks_executed for poll in polls)


async def test_names_and_errors_of_users_are_escaped_in_the_message(
    quick: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(DEBUG, "rota.scheduler")
    name = "evil \u202e name \u200b"
    error = ValueError("two\nlines \x1b[31m and \u2028 more")
    await quick.scheduler().initialize([quick.task(name, fails=[error])])
    await quick.clock.advance(seconds(1))
    found = records(caplog)
    failed = next(record for record in found if record[0] == "TaskRunFailed")
    assert failed[2]["taskName"] == name
    assert failed[2]["error"] == f"ValueError: {error}"
    for _, _, _, message in found:
        assert message.isprintable()
    assert "evil \\u202e name \\u200b" in failed[3]


async def test_below_the_level_of_the_log_nothing_is_made(
    quick: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(WARNING, "rota.scheduler")
    await quick.scheduler().initialize([quick.task(fails=[ValueError()])])
    await quick.clock.advance(seconds(1))
    assert {record[0] for record in records(caplog)} == {"TaskRunFailed"}


async def test_an_orphan_that_never_ran_has_no_last_execution(quick: Stage) -> None:
    await seed_tasks(
        quick.store, [{"name": "a", "cronExpression": "0 9 * * *", "retryDelayMs": 60_000}]
    )
    await quick.scheduler(POLLING).initialize([])
    assert quick.emitted(events.TaskOrphaned)[0].fields() == {
        "taskName": "a",
        "lastExecutionTime": None,
        "schedulerIdentifier": None,
    }


@pytest.mark.parametrize("edition", [DECLARATIVE, POLLING])
async def test_both_editions_report_a_first_start_alike(
    quick: Stage, edition: SchedulerPolicy
) -> None:
    await quick.scheduler(edition).initialize([quick.task(cron="0 12 * * *")])
    assert quick.names("Poll") == [
        "SchedulerInitializationStarted",
        "TaskAdded",
        "TaskScheduled",
        "TasksOverridden",
        "SchedulerInitializationCompleted",
    ]
    assert quick.emitted(events.TaskScheduled)[0].fields() == {
        "taskName": "a",
        "cronExpression": "0 12 * * *",
        "retryDelayMs": 300_000,
    }
