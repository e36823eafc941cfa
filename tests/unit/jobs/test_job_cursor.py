"""Where a page of a list ends."""

import base64
import re
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from tests.unit.jobs.arbitrary import IDS, INSTANTS, always

from rota.errors import InvalidCursorError, InvalidInputError
from rota.jobs import decode_cursor, encode_cursor

NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)
JOB_ID = "01890a5d-ac96-774b-bcce-b302099a8057"


def coded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


@always
@given(INSTANTS, IDS)
def test_a_cursor_comes_back_as_it_was_made(created_at: datetime, job_id: str) -> None:
    cursor = encode_cursor(created_at, job_id)
    assert decode_cursor(cursor) == (created_at, job_id)
    assert re.fullmatch("[A-Za-z0-9]+=*", cursor)


def test_a_cursor_is_the_base64_of_the_stored_text() -> None:
    cursor = encode_cursor(NOON, JOB_ID)
    assert base64.b64decode(cursor) == f"2026-05-01T12:00:00.000000Z|{JOB_ID}".encode()
    tokyo = NOON.astimezone(timezone(timedelta(hours=9)))
    assert encode_cursor(tokyo, JOB_ID) == cursor


def test_other_spellings_of_the_same_instant_are_read() -> None:
    assert decode_cursor(coded(f"2026-05-01T14:00:00+02:00|{JOB_ID.upper()}")) == (NOON, JOB_ID)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no cursor",
        "é",
        encode_cursor(NOON, JOB_ID)[:-1],
        encode_cursor(NOON, JOB_ID)[1:],
        encode_cursor(NOON, JOB_ID) + "\n",
        coded("2026-05-01T12:00:00Z"),
        coded(f"2026-05-01T12:00:00|{JOB_ID}"),
        coded(f"yesterday|{JOB_ID}"),
        coded("2026-05-01T12:00:00Z|"),
        coded("2026-05-01T12:00:00Z|17"),
        coded(f"2026-05-01T12:00:00Z|{JOB_ID}|"),
        coded(f"2026-05-01T12:00:00Z\x00|{JOB_ID}"),
        coded("\N{SNOWMAN}"),
        "A" * 1000,
    ],
)
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(InvalidCursorError) as refusal:
        decode_cursor(text)
    assert refusal.value.message == f"cursor {refusal.value.reason}"
    assert refusal.value.details["field"] == "cursor"


def test_a_text_too_long_for_a_cursor_is_not_even_decoded() -> None:
    with pytest.raises(InvalidCursorError, match="must not be longer than 200 characters"):
        decode_cursor("A" * 201)
    with pytest.raises(InvalidCursorError, match="does not end with the id of a job"):
        decode_cursor("A" * 200)


def test_a_naive_instant_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="aware"):
        encode_cursor(NOON.replace(tzinfo=None), JOB_ID)
