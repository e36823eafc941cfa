"""The errors as a whole: their names never change, and they name the value, not the machinery."""

import re
from datetime import timedelta
from typing import Any

import pytest
from tests.spec.stage import Stage

from rota import errors
from rota.errors import InvalidInputError, RotaError, TaskTryDeserializeError
from rota.scheduler import parse_task_record

NAMES = [
    "RegistrationsNotArrayError",
    "RegistrationShapeError",
    "InvalidRegistrationError",
    "ScheduleDuplicateTaskError",
    "SchedulerAlreadyActiveError",
    "CronExpressionInvalidError",
    "NegativeRetryDelayError",
    "InvalidCronExpressionError",
    "FieldParseError",
    "CronCalculationError",
    "TaskTryDeserializeError",
    "TaskMissingFieldError",
    "TaskInvalidTypeError",
    "TaskInvalidValueError",
    "TaskInvalidStructureError",
    "ScheduleTaskError",
    "StopSchedulerError",
    "TaskListMismatchError",
]
MACHINERY = re.compile(
    r"0x[0-9a-f]{4}|Traceback|\.py\b|\brota\.|site-packages|<\w+ object|sqlite|sql"
)


async def nothing() -> None:
    """A callback."""


@pytest.mark.parametrize("name", NAMES)
def test_every_error_of_the_documents_is_there_under_its_name(name: str) -> None:
    kind = getattr(errors, name)
    assert issubclass(kind, RotaError)
    assert kind.__name__ == name


@pytest.mark.parametrize(
    "registrations",
    [
        object(),
        [object()],
        [("a", "* * * * *", object(), timedelta(0))],
        [("a", "61 * * * *", nothing, timedelta(0))],
        [("a\x00", "* * * * *", nothing, timedelta(0))],
        [("a", "* * * * *", nothing, timedelta(-1))],
        [("a", "* * * * *", nothing, timedelta(0))] * 2,
    ],
)
async def test_a_refusal_shows_nothing_of_the_machinery(quick: Stage, registrations: Any) -> None:
    with pytest.raises(InvalidInputError) as caught:
        quick.scheduler().initialize(registrations)
    assert not MACHINERY.search(caught.value.message)
    assert caught.value.message.isprintable()


async def test_the_error_names_a_store_that_is_closed(stage: Stage) -> None:
    await stage.store.close()
    with pytest.raises(RotaError) as caught:
        await stage.scheduler().initialize([stage.task()])
    assert caught.value.message == "Failed to initialize scheduler: The store is closed"


@pytest.mark.parametrize("record", [[], {}, {"name": 5}, {"name": "a", "cronExpression": "x"}])
def test_every_unreadable_record_is_one_kind_of_error(record: object) -> None:
    with pytest.raises(TaskTryDeserializeError) as caught:
        parse_task_record(record)
    error = caught.value
    known = {"field": error.field, "value": error.value, "expectedType": error.expected_type}
    assert {name: value for name, value in error.details.items() if name in known}.items() <= (
        known.items()
    )
    assert not MACHINERY.search(error.message)
