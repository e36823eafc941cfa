"""Bytes and states; the tables of errors are in tests/spec/1/test_stored_records.py."""

from datetime import UTC, datetime

import msgspec
import pytest

from rota.errors import TaskInvalidStructureError, TaskInvalidTypeError
from rota.scheduler.storage import decode_foreign_task, decode_own_task, encode_task
from rota.scheduler.task import TaskState

NINE = datetime(2027, 1, 4, 9, tzinfo=UTC)
OWN = TaskState(
    name="null",
    cron_expression="* * * * *",
    retry_delay_ms=5,
    running=True,
    retry_count=3,
    last_reason="retry",
    last_attempt_at=NINE,
    last_success_at=NINE,
)


def test_own_records_are_read_back_whole() -> None:
    assert decode_own_task(encode_task(OWN)) == OWN


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\xff",
        b"[]",
        b'{"name":"a","cronExpression":"x","retryDelayMs":5}',
        b'{"name":"a","cronExpression":"x","retryDelayMs":-5,"running":false}',
        b'{"name":"a","cronExpression":"x","retryDelayMs":5,"running":false,"more":1}',
        b'{"name":"a","cronExpression":"x","retryDelayMs":5,"running":false,"lastAttemptAt":null}',
        b'{"name":"a","cronExpression":"x","retryDelayMs":5,"running":false,"lastAttemptAt":"9"}',
    ],
)
def test_anything_else_is_read_field_by_field(body: bytes) -> None:
    assert decode_own_task(body) is None


def test_invalid_json_has_a_wrong_structure() -> None:
    with pytest.raises(TaskInvalidStructureError, match="Task record is not JSON") as caught:
        decode_foreign_task(b"\xff", {})
    assert caught.value.details == {"value": b"\xff"}


def test_an_explicit_null_is_a_wrong_type() -> None:
    body = b'{"name":"a","cronExpression":"x","retryDelayMs":5,"lastAttemptAt":null}'
    with pytest.raises(TaskInvalidTypeError, match="expected DateTime or undefined, got null"):
        decode_foreign_task(body, {})


def test_a_newer_record_with_more_in_it_loses_nothing_that_is_known() -> None:
    body = msgspec.json.encode({**msgspec.json.decode(encode_task(OWN)), "more": 1})
    assert decode_own_task(body) is None
    assert decode_foreign_task(body, {}) == OWN


def test_the_configuration_is_completed_but_never_replaced() -> None:
    defaults = {"cronExpression": "0 9 * * *", "retryDelayMs": 7}
    bare = decode_foreign_task(b'{"name":"a"}', defaults)
    assert (bare.cron_expression, bare.retry_delay_ms) == ("0 9 * * *", 7)
    full = decode_foreign_task(b'{"name":"a","cronExpression":"x","retryDelayMs":5}', defaults)
    assert (full.cron_expression, full.retry_delay_ms) == ("x", 5)
